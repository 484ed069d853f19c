"""Debian for aarch64, and an emulator in which its programs run and start others as on such a machine."""

import importlib.util
import json
import os
import pathlib
import shlex
import shutil
import subprocess
import tempfile

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
_SPEC = importlib.util.spec_from_file_location("debian11", REPOSITORY / "tests/debian11/run.py")
debian11 = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(debian11)
Unavailable = debian11.Unavailable

CACHE = pathlib.Path(os.environ.get("MSMEMSCOPE_AARCH64") or REPOSITORY / ".cache/aarch64").resolve()
ROOT, EMULATOR, STAMP = CACHE / "root", CACHE / "qemu-aarch64", CACHE / "complete.json"
RELEASE = "bookworm"
PACKAGES = ["python3", "python3-pip", "python3-venv", "gcc", "libc6-dev", "bash", "dash", "coreutils", "util-linux", "procps",
            "mount", "libstdc++6", "libgomp1", "libc-bin", "zlib1g"]
# That of Debian 12 says yes to MADV_WIPEONFORK and does nothing: a forked child would be taken for its parent.
EMULATOR_RELEASE = "trixie"
# Programs of this processor, by the first bytes of their files; what is masked differs between executables and libraries.
MAGIC = r"\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00"
MASK = r"\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff"


def extract(release, architecture, packages, directory):
    """Unpacks packages and what they depend on; nothing of them is run."""
    settings = [line for line in debian11.answer_of("apt-config", "dump", "Acquire").splitlines() if "Proxy" in line]
    debian11.answer_of(
        "mmdebstrap", "--quiet", "--variant=extract", "--mode=root", f"--architectures={architecture}",
        f"--include={','.join(packages)}", *(f"--aptopt={line}" for line in settings), release, directory,
        f"deb {debian11.mirror()} {release} main",
    )


def make():
    """The root directory and the emulator, once."""
    wanted = {"release": RELEASE, "packages": PACKAGES, "emulator": EMULATOR_RELEASE}
    if STAMP.exists() and json.loads(STAMP.read_text()) == wanted:
        return
    if os.geteuid():
        raise Unavailable("unpacking another system needs root")
    debian11.answer_of(REPOSITORY / "scripts/packages", "mmdebstrap:mmdebstrap")
    print(f"installing Debian {RELEASE} for aarch64 into {ROOT}", flush=True)
    STAMP.unlink(missing_ok=True)
    shutil.rmtree(ROOT, ignore_errors=True)
    CACHE.mkdir(parents=True, exist_ok=True)
    extract(RELEASE, "arm64", PACKAGES, ROOT)
    if not (ROOT / "usr/bin/cc").exists():
        # Made by a script of the package.
        (ROOT / "usr/bin/cc").symlink_to("gcc")
    with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
        extract(EMULATOR_RELEASE, "amd64", ["qemu-user"], scratch)
        shutil.copy2(pathlib.Path(scratch) / "usr/bin/qemu-aarch64", EMULATOR)
    STAMP.write_text(json.dumps(wanted))


def within(command, timeout, **variables):
    """Runs a command of the shell in that system, where the repository is where it is here; gives its status.

    In a name space of its own the kernel is told to start such programs in the emulator; what is left ends with the command.
    """
    root = shlex.quote(str(ROOT))
    there = shlex.quote(str(ROOT / REPOSITORY.relative_to("/")))
    steps = [
        "set -eu", f"mount --bind {root} {root}", f"mkdir -p {there}", f"mount --bind {shlex.quote(str(REPOSITORY))} {there}",
        f"mount --rbind /dev {root}/dev", f"mount -t proc proc {root}/proc", f"mount --rbind /sys {root}/sys",
        "mount -t binfmt_misc none /proc/sys/fs/binfmt_misc",
        f"printf %s {shlex.quote(f':aarch64:M::{MAGIC}:{MASK}:{EMULATOR}:FP')} > /proc/sys/fs/binfmt_misc/register",
        f"exec chroot {root} /bin/sh -c {shlex.quote(f'cd {shlex.quote(str(REPOSITORY))} && {command}')}",
    ]
    words = ["unshare", "--user", "--map-root-user", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child",
             "bash", "-c", "\n".join(steps)]
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "USER": "root", "TMPDIR": "/tmp",
                   "LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(words, env=environment | variables, stdin=subprocess.DEVNULL, timeout=timeout, check=False).returncode


def check():
    """That a program runs there, and starts another."""
    make()
    if within("/bin/sh -c 'test $(uname -m) = aarch64'", timeout=120):
        raise Unavailable("programs of aarch64 do not run in a name space of this kernel (binfmt_misc, Linux 6.7)")
