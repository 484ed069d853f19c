#!/usr/bin/env python3
"""The recording libraries built and tested on Debian 11, whose C library (2.31) is that of many an Ascend host.

    tests/debian11/run.py

Makes the root of such a system in .cache/debian11 from the mirror this machine installs its packages from, enters it with
the toolchain and the repository of this machine, builds the libraries there, and runs the end-to-end tests and the unit
tests of what is preloaded. Needs root. Says SKIPPED, loudly, and ends with success if such a system cannot be had.
"""

import json
import os
import pathlib
import shlex
import shutil
import subprocess
import sys

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
CACHE = pathlib.Path(os.environ.get("MSMEMSCOPE_DEBIAN11") or REPOSITORY / ".cache/debian11").resolve()
ROOT, TARGET, STAMP = CACHE / "root", CACHE / "target", CACHE / "complete.json"
RELEASE, GLIBC = "bullseye", "2.31"
PACKAGES = ["gcc", "g++", "libc6-dev", "python3", "binutils", "procps", "util-linux", "libjemalloc2", "libpython3.9"]
PRELOADED = ["memscope-preload", "memscope-preload-host"]
TESTED = ["memscope-sys", "memscope-format", "memscope-stack", "memscope-recorder"]
# Tests of the command, which is not built there, and with a FUSE server, which is not installed there.
NOT_THERE = ["analyze_compare", "analyze_inefficient", "analyze_leaks", "analyze_oom", "analyze_usage", "keeper", "leftovers", "names",
             "next_programs", "sourced", "summary", "unreliable", "unseen_filters", "views"]
MOST_SECONDS = 1500


class Unavailable(Exception):
    pass


def answer_of(*words):
    done = subprocess.run([str(word) for word in words], text=True, capture_output=True, cwd=REPOSITORY)
    if done.returncode:
        raise Unavailable(f"{' '.join(map(str, words))}: {(done.stderr or done.stdout).strip()[-1000:]}")
    return done.stdout


def mirror():
    """Where apt has Debian itself from, not its security updates or other vendors' packages."""
    targets = answer_of("apt-get", "indextargets", "--format", "$(ORIGIN)|$(LABEL)|$(REPO_URI)", "Created-By: Packages")
    for line in targets.splitlines():
        origin, label, address = line.split("|", 2)
        if (origin, label) == ("Debian", "Debian"):
            return address
    raise Unavailable("apt knows no mirror of Debian here")


def make_root():
    wanted = {"release": RELEASE, "packages": PACKAGES}
    if STAMP.exists() and json.loads(STAMP.read_text()) == wanted:
        return
    answer_of(REPOSITORY / "scripts/packages", "mmdebstrap:mmdebstrap")
    print(f"installing Debian 11 into {ROOT}", flush=True)
    STAMP.unlink(missing_ok=True)
    shutil.rmtree(ROOT, ignore_errors=True)
    CACHE.mkdir(parents=True, exist_ok=True)
    # mmdebstrap does not look into this machine's settings of apt, and without the proxy there may be no way out.
    settings = [line for line in answer_of("apt-config", "dump", "Acquire").splitlines() if "Proxy" in line]
    answer_of("mmdebstrap", "--quiet", "--variant=minbase", "--mode=root", f"--include={','.join(PACKAGES)}",
              *(f"--aptopt={line}" for line in settings), RELEASE, ROOT, f"deb {mirror()} {RELEASE} main")
    STAMP.write_text(json.dumps(wanted))


def within(command, **variables):
    """Runs a command of the shell in that system; whatever it leaves behind ends with it, processes and mounts."""
    cargo = pathlib.Path(os.environ.get("CARGO_HOME") or pathlib.Path.home() / ".cargo").resolve()
    rustup = pathlib.Path(os.environ.get("RUSTUP_HOME") or pathlib.Path.home() / ".rustup").resolve()
    # A root that is not mounted cannot be unshared once more, which a test does.
    steps = ["set -eu", f"mount --bind {shlex.quote(str(ROOT))} {shlex.quote(str(ROOT))}"]
    # Where they are here, because toolchains remember where they are.
    for place in (cargo, rustup, REPOSITORY, TARGET):
        place.mkdir(parents=True, exist_ok=True)
        there = ROOT / place.relative_to("/")
        steps += [f"mkdir -p {shlex.quote(str(there))}", f"mount --bind {shlex.quote(str(place))} {shlex.quote(str(there))}"]
    steps += [f"mount --bind /dev {ROOT}/dev", f"mount -t proc proc {ROOT}/proc", f"mount --rbind /sys {ROOT}/sys",
              f"exec chroot {shlex.quote(str(ROOT))} sh -c {shlex.quote(f'cd {shlex.quote(str(REPOSITORY))} && {command}')}"]
    kept = {"CARGO_HOME": str(cargo), "RUSTUP_HOME": str(rustup), "CARGO_TARGET_DIR": str(TARGET), "HOME": "/root",
            "PATH": f"{cargo}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8",
            "CARGO_NET_OFFLINE": "true", "RUST_BACKTRACE": "0"}
    words = ["unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "sh", "-c", "\n".join(steps)]
    return subprocess.run(words, env=kept | variables, stdin=subprocess.DEVNULL, timeout=MOST_SECONDS, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def prepare():
    if os.geteuid():
        raise Unavailable("entering another root directory needs root")
    for tool in ("apt-get", "unshare", "cargo"):
        if not shutil.which(tool):
            raise Unavailable(f"there is no {tool}")
    make_root()
    answer_of("cargo", "fetch", "--locked")
    version = within("ldd --version && rustc --version")
    if version.returncode:
        raise Unavailable(f"it cannot be entered: {version.stdout.strip()[-1000:]}")
    assert GLIBC in version.stdout, version.stdout


def must(command, **variables):
    done = within(command, **variables)
    if done.returncode:
        telling = [line for line in done.stdout.splitlines() if line.strip() and not line.endswith(" ... ok")]
        print("\n".join(telling[-200:]))
        sys.exit(f"FAILED  debian11: {command}")
    return done.stdout


def main():
    try:
        prepare()
    except Unavailable as why:
        print(f"SKIPPED debian11: {why}")
        return 0
    must(f"cargo build --profile preload --locked {' '.join(f'-p {name}' for name in PRELOADED)}")
    stage = TARGET / "stage"
    (stage / "lib64").mkdir(parents=True, exist_ok=True)
    for library in ("libascend_kernel_hook.so", "libmsmemscope_host.so"):
        shutil.copy2(TARGET / "preload" / library, stage / "lib64" / library)
    skipped = " ".join(f"--skip {name}::" for name in NOT_THERE)
    printed = must(f"cargo test --locked --no-fail-fast {' '.join(f'-p {name}' for name in TESTED)}")
    printed += must(f"cargo test --locked --no-fail-fast -p memscope-tests --test it -- {skipped}",
                    MSMEMSCOPE_STAGE=str(stage))
    passed = sum(int(line.split("ok. ")[1].split()[0]) for line in printed.splitlines() if line.startswith("test result: ok."))
    for line in printed.splitlines():
        if "SKIPPED" in line:
            print(line)
    print(f"passed  debian11: {passed} tests with glibc {GLIBC}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
