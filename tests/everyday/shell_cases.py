"""What people type into a shell: small tools, pipes, compilers, converters."""

import random
import subprocess

from supplies import found
from trial import Case, Failed


def shell(text):
    return ["sh", "-c", text]


def sort(site, work):
    numbers = random.Random(1)
    (work / "lines").write_text("".join(f"{numbers.getrandbits(60):x}\n" for _ in range(400_000)))
    return shell("sort -S 16M lines | md5sum")


def tree(work, files=120):
    numbers = random.Random(2)
    for number in range(files):
        directory = work / "tree" / f"{number % 7}"
        directory.mkdir(parents=True, exist_ok=True)
        (directory / f"{number}.txt").write_text("".join(f"{numbers.random()}\n" for _ in range(300)))


def find_xargs(site, work):
    tree(work)
    return shell("find tree -type f -print0 | sort -z | xargs -0 -P 2 -n 8 wc -c | sort | md5sum")


def archive(site, work):
    tree(work)
    return shell("tar --sort=name --mtime=@0 --owner=0 --group=0 -cf - tree | gzip -n -9 | md5sum; grep -rc 0.5 tree | sort | md5sum")


def git(site, work):
    """A repository of twenty commits, made before the program begins."""
    script = """
        git init -q -b main origin && cd origin
        git config user.name somebody && git config user.email somebody@example.org
        for n in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
            seq $n $((n * 50)) > file$((n % 5)) && git add . && git commit -q -m "commit $n"
        done"""
    dates = {"GIT_AUTHOR_DATE": "2020-01-01T00:00:00Z", "GIT_COMMITTER_DATE": "2020-01-01T00:00:00Z"}
    environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(work), **dates}
    subprocess.run(shell(script), cwd=work, env=environment, check=True)
    return shell("git clone -q --no-local origin copy && cd copy && git gc -q --aggressive && git fsck --no-progress "
                 "&& git log --format='%H %s' && git diff --stat HEAD~5")


def sqlite(site, work):
    lines = ["create table t(a integer primary key, b text);", "begin;"]
    lines += [f"insert into t values({number}, 'row {number * 7919 % 10007}');" for number in range(20_000)]
    lines += ["commit;", "create index i on t(b);", "select count(*), sum(a), max(b) from t where b like 'row 1%';"]
    (work / "in.sql").write_text("\n".join(lines))
    return shell("sqlite3 :memory: < in.sql")


def compiles(site, work):
    """Independent compilations and a link, two at a time."""
    names = [f"part{number}" for number in range(16)]
    for number, name in enumerate(names):
        (work / f"{name}.c").write_text(f"#include <stdio.h>\n#include <stdlib.h>\nint {name}(int x) {{ return x * {number}; }}\n")
    calls = " + ".join(f"{name}(1)" for name in names)
    declarations = "".join(f"int {name}(int);\n" for name in names)
    (work / "main.c").write_text(f"#include <stdio.h>\n{declarations}int main(void) {{ printf(\"%d\\n\", {calls}); }}\n")
    objects = " ".join(f"{name}.o" for name in [*names, "main"])
    (work / "Makefile").write_text(f"program: {objects}\n\t@cc -o $@ $^\n%.o: %.c\n\t@cc -O2 -c -o $@ $<\n")
    return shell("make -s -j2 && ./program && cat *.o | md5sum")


def one_compile(site, work):
    (work / "a.cpp").write_text("#include <iostream>\n#include <map>\nint main() { std::map<int, int> m; m[1] = 2; std::cout << m[1]; }\n")
    return shell("c++ -O1 -o a a.cpp && ./a")


def bash(site, work):
    (work / "script").write_text("""declare -A seen
for i in $(seq 1 3000); do seen[$((i * 31 % 997))]+=x; done
for i in 1 2 3 4 5; do (x=$(printf '%s' "${!seen[@]}" | md5sum); echo "$x"); done
echo ${#seen[@]}
cat <(echo one) <(echo two)
""")
    return ["bash", "script"]


def perl(site, work):
    program = "my %h; $h{$_ * 7 % 100003} .= 'x' x ($_ % 50) for 1..60000; print scalar(keys %h), ' ', length(join '', values %h), qq(\\n)"
    return ["perl", "-e", program]


def ruby(site, work):
    return [found("ruby", "/usr/bin/ruby"), "-e", "h = Hash.new(0); 100000.times { |i| h[(i * 7 % 10007).to_s] += i }; puts h.size, h.values.sum"]


def awk(site, work):
    tree(work)
    return shell("cat tree/*/* | awk '{ n[substr($1, 1, 4)]++ } END { for (k in n) print k, n[k] }' | sort | md5sum")


def ffmpeg(site, work):
    return ["ffmpeg", "-v", "error", "-nostdin", "-threads", "2", "-f", "lavfi", "-i", "testsrc=duration=1:size=320x240:rate=10",
            "-c:v", "mpeg4", "-f", "md5", "-"]


def imagemagick(site, work):
    convert = found("convert", "/usr/bin/convert-im6.q16", "/usr/bin/magick", "/usr/bin/convert")
    return [convert, "-size", "400x300", "gradient:red-blue", "-rotate", "30", "-blur", "0x2", "-format", "%wx%h %#\n", "info:"]


def sort_peak(trial):
    """The peak is the buffer that was asked for, and what belongs to it."""
    if not 14 < trial.peak_mb < 20:
        raise Failed(f"sort -S 16M is said to have had a peak of {trial.peak_mb:.1f} MiB")


CASES = [
    Case("sort", sort, mode="c", check=sort_peak),
    Case("find | xargs -P2", find_xargs, mode="c"),
    Case("tar | gzip, grep -r", archive, mode="none"),
    Case("awk", awk, mode="c"),
    Case("bash script", bash, ("bash:bash",), mode="c"),
    Case("git clone and gc", git, ("git:git",), mode="c"),
    Case("sqlite3", sqlite, ("sqlite3:sqlite3",), mode="none"),
    Case("sqlite3, C stacks", sqlite, ("sqlite3:sqlite3",), mode="c"),
    Case("make -j2", compiles, ("make:make", "cc:gcc"), mode="none"),
    Case("c++", one_compile, ("c++:g++",), mode="c"),
    Case("perl", perl, ("perl:perl",), mode="c"),
    Case("ruby", ruby, ("/usr/bin/ruby:ruby",), mode="c"),
    Case("ffmpeg", ffmpeg, ("ffmpeg:ffmpeg",), mode="c"),
    Case("imagemagick", imagemagick, ("/usr/bin/convert-im6.q16:imagemagick",), mode="c"),
]
