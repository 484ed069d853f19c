"""Languages with a run time of their own: garbage collectors, reserved address space, allocators of their own."""

import os
import pathlib
import re
import shutil
import subprocess

import supplies
from shell_cases import shell
from trial import Case, Failed


def node(site, work):
    return ["node", site.workloads / "objects.js"]


def has_stacks(trial):
    """Most of what was alive at the peak has a place in the program."""
    share = re.search(r"^\[msmemscope\]\s+[\d.]+ \w+\s+([\d.]+)%\s+[\d,]+ blocks?\s+\?$", trial.messages, re.MULTILINE)
    if share and float(share.group(1)) > 10:
        raise Failed(f"{share.group(1)} % of the peak has no stack at all")


def java_sources(site, work):
    shutil.copy(site.workloads / "Threads.java", work)


def javac(site, work):
    java_sources(site, work)
    return shell("javac -J-Xmx200m Threads.java && md5sum *.class")


def java(site, work):
    java_sources(site, work)
    subprocess.run(["javac", "Threads.java"], cwd=work, check=True)
    return ["java", "-Xmx200m", "Threads"]


def mixed_go(site, work):
    return [supplies.go_programs(site) / "mixed"]


def static_go(site, work):
    return [supplies.go_programs(site) / "alone"]


def static_child(site, work):
    return ["sh", "-c", f"ls / >/dev/null; {supplies.go_programs(site) / 'alone'}; echo done"]


def names_the_static_child(trial):
    if not re.search(r"alone.*static|static.*alone", trial.messages):
        raise Failed("nothing is said of the static program that was started and not recorded")


def names_the_allocator(trial):
    if not re.search(r"allocator", trial.messages):
        raise Failed("nothing is said of the compiler's own allocator, whose blocks are not seen")


def cargo(site, work):
    (work / "src").mkdir()
    (work / "Cargo.toml").write_text('[package]\nname = "hello"\nversion = "0.1.0"\nedition = "2021"\n\n[workspace]\n')
    (work / "src/main.rs").write_text('fn main() { println!("{}", (1..=10).map(|n| n * n).sum::<u64>()); }\n')
    return shell("cargo build --quiet --offline && target/debug/hello")


def rust_homes():
    home = pathlib.Path.home()
    return {"CARGO_HOME": os.environ.get("CARGO_HOME") or str(home / ".cargo"),
            "RUSTUP_HOME": os.environ.get("RUSTUP_HOME") or str(home / ".rustup"), "CARGO_TARGET_DIR": "target"}


GO = ("go:golang-go", "cc:gcc")
JAVA = ("javac:default-jdk-headless",)

CASES = [
    Case("node", node, ("node:nodejs",), mode="c", peak_is_usable=True, check=has_stacks),
    Case("javac", javac, JAVA, mode="c", peak_is_usable=True),
    Case("java, 8 threads", java, JAVA, mode="c", peak_is_usable=True),
    Case("go with C", mixed_go, GO, (supplies.go_programs,), mode="c", peak_is_usable=True),
    Case("go, static", static_go, GO, (supplies.go_programs,), refused="statically linked", counted=False),
    Case("go, static, as a child", static_child, GO, (supplies.go_programs,), check=names_the_static_child),
    Case("cargo build", cargo, ("cc:gcc",), mode="none", variables=rust_homes(), check=names_the_allocator, most_seconds=120),
]
