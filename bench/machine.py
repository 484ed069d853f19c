"""The machine that is measured: its name, its state, and the packages and programs the benchmark needs on it."""
import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).resolve().parent
REPOSITORY = BENCH.parent
CACHE = REPOSITORY / ".cache"
VENV = CACHE / "bench-venv"
PROGRAMS = BENCH / "programs"
BUILT = CACHE / "bench-programs"


def say(text):
    print(f"bench: {text}", file=sys.stderr, flush=True)


def describe():
    """What must be known of the machine to judge a figure."""
    cpu = "unknown processor"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        # On aarch64 there is no model name.
        match = re.match(r"(?:model name|CPU part)\s*:\s*(.+)", line)
        if match:
            cpu = match.group(1)
            break
    cores = len(os.sched_getaffinity(0))
    memory = re.search(r"MemTotal:\s+(\d+)", Path("/proc/meminfo").read_text())
    words = re.sub(r"\((r|tm|R|TM)\)|@.*|\bcpu\b|\bprocessor\b", " ", cpu, flags=re.IGNORECASE)
    slug = re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-")
    return {
        "name": f"{slug}-{cores}-cores",
        "cpu": cpu,
        "cores": cores,
        "memory_gb": round(int(memory.group(1)) / 1e6, 1),
        "architecture": platform.machine(),
        "kernel": platform.release(),
        "libc": " ".join(platform.libc_ver()),
        "python": platform.python_version(),
    }


def load():
    return os.getloadavg()[0]


def revision():
    def git(*words):
        return subprocess.run(["git", "-C", str(REPOSITORY), *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              universal_newlines=True).stdout.strip()
    commit = git("rev-parse", "--short=12", "HEAD") or "unknown"
    return commit + ("+changes" if git("status", "--porcelain", "--untracked-files=no") else "")


def install_package(program, package):
    """Whether `program` is there, installing the distribution's `package` if need be and possible."""
    if shutil.which(program):
        return True
    if not shutil.which("apt-get"):
        return False
    prefix = [] if os.geteuid() == 0 else ["sudo", "-n"]
    if prefix and not shutil.which("sudo"):
        return False
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    say(f"installing {package}")
    install = [*prefix, "apt-get", "install", "-y", "-qq", "--no-install-recommends", package]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "env": environment}
    if subprocess.run(install, **quiet).returncode != 0:
        # The lists of a fresh machine are empty or old.
        subprocess.run([*prefix, "apt-get", "update", "-qq"], **quiet)
        subprocess.run(install, **quiet)
    return shutil.which(program) is not None


def install_python_packages(torch_version):
    """Makes the virtual environment; returns {package: None or why it is not available}."""
    sys.path.append(str(REPOSITORY / "scripts"))
    import lean_torch

    missing = {"torch": None, "memray": None}
    try:
        lean_torch.install(VENV, torch_version)
    except (SystemExit, subprocess.CalledProcessError, OSError) as error:
        missing["torch"] = str(error) or type(error).__name__
    try:
        python = lean_torch.venv_python(VENV)
        if not python.exists():
            import venv
            venv.create(VENV, with_pip=True)
        if subprocess.run([python, "-c", "import memray"], stderr=subprocess.DEVNULL).returncode != 0:
            say("installing memray")
            lean_torch.pip_install(python, "memray")
    except (SystemExit, subprocess.CalledProcessError, OSError) as error:
        missing["memray"] = str(error) or type(error).__name__
    return missing


def python_packages_present():
    """As install_python_packages, but only looks."""
    python = VENV / "bin" / "python"
    missing = {}
    for package in ("torch", "memray", "pandas"):
        there = python.exists() and subprocess.run([python, "-c", f"import {package}"],
                                                   stderr=subprocess.DEVNULL).returncode == 0
        missing[package] = None if there else "not installed"
    return missing


def build_programs():
    """Compiles the C programs, each as a program and as a library for Python; needs a C compiler."""
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        raise SystemExit("bench: a C compiler is needed; install gcc or set CC")
    BUILT.mkdir(parents=True, exist_ok=True)
    flags = [compiler, "-O2", "-g", "-Wall", "-Wextra", "-Werror", "-pthread", "-fPIC"]
    libraries = ["-ldl"]
    for source in sorted(PROGRAMS.glob("*.c")):
        outputs = [(BUILT / source.stem, []), (BUILT / f"{source.stem}.so", ["-shared", "-DBENCH_LIBRARY"])]
        for output, more in outputs:
            newest = max(file.stat().st_mtime for file in (source, *PROGRAMS.glob("*.h")))
            if not output.exists() or output.stat().st_mtime < newest:
                subprocess.run([*flags, *more, str(source), "-o", str(output), *libraries], check=True)


def build_simulated_cann():
    """Brings the simulated CANN up to date; why it is not available, if so."""
    if not shutil.which("make") or not shutil.which("cargo"):
        return "needs make and cargo"
    built = subprocess.run(["make", "--no-print-directory", "-C", str(REPOSITORY), "sim"], stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, universal_newlines=True)
    return f"make sim failed: {built.stdout.strip()[-200:]}" if built.returncode else None


def training_generator():
    """The program that writes recordings made to order, brought up to date."""
    built = subprocess.run(["cargo", "build", "--quiet", "--release", "-p", "memscope-testkit", "--example", "training"],
                           cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True)
    if built.returncode:
        raise RuntimeError(f"the generator of recordings cannot be built: {built.stdout.strip()[-200:]}")
    return target_directory() / "release" / "examples" / "training"


def install_pandas():
    """Why it is not available, if so."""
    sys.path.append(str(REPOSITORY / "scripts"))
    import lean_torch

    try:
        python = lean_torch.venv_python(VENV)
        if not python.exists():
            import venv
            venv.create(VENV, with_pip=True)
        if subprocess.run([python, "-c", "import pandas"], stderr=subprocess.DEVNULL).returncode != 0:
            say("installing pandas")
            lean_torch.pip_install(python, "pandas")
    except (SystemExit, subprocess.CalledProcessError, OSError) as error:
        return str(error) or type(error).__name__
    return None


def target_directory():
    return Path(os.environ.get("CARGO_TARGET_DIR") or REPOSITORY / "target").resolve()
