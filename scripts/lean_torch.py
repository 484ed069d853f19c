#!/usr/bin/env python3
"""Installs PyTorch for CPU work without the 2 GB of CUDA packages its wheel depends on.

    python3 scripts/lean_torch.py --venv DIR [--torch 2.7.1] [--with PACKAGE ...]

The wheel of the package index is built for CUDA: it cannot be imported unless some fourteen CUDA libraries exist, even
if no CUDA function is ever called. This script installs the wheel without its dependencies, reads from torch/lib which
libraries are missing and which symbols are expected of them, and builds libraries of that name whose functions return
0. `cudaGetDeviceCount` says that there is no device, and so PyTorch is a CPU build.

Running it again does nothing that is already done. Only the standard library, pip and a C compiler are needed.
"""
import argparse
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import venv
from pathlib import Path

# What `import torch` and training on the CPU need of torch's own list of dependencies.
COMPANIONS = ["numpy", "typing-extensions", "sympy", "networkx", "jinja2", "fsspec", "filelock"]

# Written when everything is in place; holds what was asked for, so that another version is installed anew.
STAMP = "lean-torch.json"

TRAINING = """
import torch
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
x = torch.randn(64, 8); y = x.sum(1, keepdim=True)
losses = []
for _ in range(50):
    loss = (model(x) - y).square().mean()
    optimizer.zero_grad(); loss.backward(); optimizer.step()
    losses.append(loss.item())
assert not torch.cuda.is_available()
assert losses[-1] < losses[0] / 2, losses
print(f"torch {torch.__version__}: loss {losses[0]:.3f} -> {losses[-1]:.3f} in 50 steps")
"""


def say(text):
    print(f"lean_torch: {text}", file=sys.stderr, flush=True)


class SharedObject:
    """The dynamic part of a little-endian 64-bit ELF file: who it needs, what it expects, what it offers."""

    DT_NEEDED, DT_STRTAB, DT_SYMTAB, DT_SONAME, DT_RPATH, DT_RUNPATH = 1, 5, 6, 14, 15, 29
    DT_VERSYM, DT_VERNEED, DT_VERNEEDNUM = 0x6FFFFFF0, 0x6FFFFFFE, 0x6FFFFFFF
    PT_LOAD, PT_DYNAMIC = 1, 2

    def __init__(self, path):
        self.path = Path(path)
        with open(path, "rb") as file:
            self._file = file
            self._read()
        del self._file

    def _at(self, offset, size):
        self._file.seek(offset)
        return self._file.read(size)

    def _read(self):
        ident = self._at(0, 64)
        if ident[:6] != b"\x7fELF\x02\x01":
            raise ValueError(f"{self.path} is no 64-bit little-endian ELF file")
        program_offset, section_offset = struct.unpack_from("<QQ", ident, 32)
        entry_size, entries = struct.unpack_from("<HH", ident, 54)
        headers = self._at(program_offset, entry_size * entries)
        loads, dynamic = [], None
        for index in range(entries):
            kind, _, offset, address, _, size = struct.unpack_from("<IIQQQQ", headers, index * entry_size)
            if kind == self.PT_LOAD:
                loads.append((address, size, offset))
            elif kind == self.PT_DYNAMIC:
                dynamic = self._at(offset, size)

        def file_offset(address):
            for start, size, offset in loads:
                if start <= address < start + size:
                    return address - start + offset
            raise ValueError(f"{self.path}: address {address:#x} is in no segment")

        tags = {}
        for tag, value in struct.iter_unpack("<QQ", dynamic or b""):
            if tag == 0:
                break
            tags.setdefault(tag, []).append(value)
        # The size of the symbol table is only told by its section (type 11, SHT_DYNSYM); its string table follows by
        # the section's link.
        section_size, sections = struct.unpack_from("<HH", ident, 58)
        table = self._at(section_offset, section_size * sections)
        symbols = strings = b""
        for index in range(sections):
            _, kind, _, _, offset, size, link = struct.unpack_from("<IIQQQQI", table, index * section_size)
            if kind == 11:
                symbols = self._at(offset, size)
                _, _, _, _, offset, size, _ = struct.unpack_from("<IIQQQQI", table, link * section_size)
                strings = self._at(offset, size)

        def text(offset):
            return strings[offset:strings.index(b"\0", offset)].decode()

        self.needed = [text(offset) for offset in tags.get(self.DT_NEEDED, [])]
        paths = [text(offset) for tag in (self.DT_RPATH, self.DT_RUNPATH) for offset in tags.get(tag, [])]
        self.search = [entry.replace("$ORIGIN", str(self.path.parent)) for path in paths for entry in path.split(":")]

        # Version index -> (library it is expected of, version name).
        versions = {}
        if self.DT_VERNEED in tags:
            block = file_offset(tags[self.DT_VERNEED][0])
            for _ in range(tags[self.DT_VERNEEDNUM][0]):
                _, count, library, first, following = struct.unpack("<HHIII", self._at(block, 16))
                entry = block + first
                for _ in range(count):
                    _, _, index, name, after = struct.unpack("<IHHII", self._at(entry, 16))
                    versions[index] = (text(library), text(name))
                    entry += after
                block += following
        total = len(symbols) // 24
        indices = [0] * total
        if self.DT_VERSYM in tags:
            indices = [value & 0x7FFF for (value,) in
                       struct.iter_unpack("<H", self._at(file_offset(tags[self.DT_VERSYM][0]), total * 2))]
        self.defined = set()
        # name -> (library, version), or None if any library may define it.
        self.undefined = {}
        for (name, info, _, section, _, _), index in zip(struct.iter_unpack("<IBBHQQ", symbols), indices):
            if name == 0:
                continue
            if section != 0:
                self.defined.add(text(name))
            elif info >> 4 == 1:  # Global; a weak one may stay undefined.
                self.undefined[text(name)] = versions.get(index)


def known_to_the_loader():
    """Library names the system's loader finds, and where."""
    listing = subprocess.run(["/sbin/ldconfig", "-p"], stdout=subprocess.PIPE, universal_newlines=True).stdout
    found = {}
    for line in listing.splitlines():
        match = re.match(r"\s+(\S+) \(.*\) => (\S+)", line)
        if match:
            found.setdefault(match.group(1), match.group(2))
    return found


def missing_libraries(torch_lib, stub_dir):
    """{library: {version or None: {symbols}}}: what torch/lib expects of libraries that do not exist here."""
    objects = [SharedObject(path) for path in sorted(torch_lib.glob("*.so*"))
               if not (path.is_symlink() and stub_dir in path.resolve().parents)]
    own = {one.path.name for one in objects}
    system = known_to_the_loader()

    def exists(library, one):
        return library in own or library in system or any(os.path.exists(os.path.join(place, library))
                                                           for place in one.search if Path(place) != torch_lib)

    offered = set().union(*(one.defined for one in objects))
    system_libraries = {library for one in objects for library in one.needed if library in system}
    for library in sorted(system_libraries):
        offered |= SharedObject(system[library]).defined
    missing = {}
    for one in objects:
        absent = [library for library in one.needed if not exists(library, one)]
        for library in absent:
            missing.setdefault(library, {})
        for symbol, origin in one.undefined.items():
            if origin is not None:
                library, version = origin
                if library in absent:
                    missing[library].setdefault(version, set()).add(symbol)
            elif absent and symbol not in offered and not re.match(r"_?Py[A-Z_]", symbol):
                # Without a version any library in scope will do: the first absent one of this very object is in scope.
                missing[absent[0]].setdefault(None, set()).add(symbol)
    return missing


def stub_source(symbols):
    lines = ["/* Generated: functions that must exist for the loader and are never called on a machine without a GPU. */"]
    for symbol in sorted(symbols):
        if symbol == "cudaGetDeviceCount":
            # 100 is cudaErrorNoDevice.
            lines.append("int cudaGetDeviceCount(int *count) { *count = 0; return 100; }")
        else:
            # By its assembler name: C++ symbols are no C identifiers.
            number = len(lines)
            lines.append(f'long stub_{number}(void) __asm__("{symbol}"); long stub_{number}(void) {{ return 0; }}')
    return "\n".join(lines) + "\n"


def build_stub(library, versions, stub_dir, compiler):
    source, script = stub_dir / f"{library}.c", stub_dir / f"{library}.map"
    source.write_text(stub_source(set().union(*versions.values()) if versions else set()))
    command = [compiler, "-shared", "-fPIC", "-nostdlib", "-O1", "-fno-builtin", "-w", f"-Wl,-soname,{library}",
               "-o", str(stub_dir / library), str(source)]
    named = {version: symbols for version, symbols in versions.items() if version is not None}
    if named:
        # A symbol that is looked up with a version must be defined with it, or the loader aborts.
        script.write_text("".join(f"{version} {{ global: {' '.join(f'{symbol};' for symbol in sorted(symbols))} }};\n"
                                  for version, symbols in sorted(named.items())))
        command.append(f"-Wl,--version-script={script}")
    subprocess.run(command, check=True)


def venv_python(directory):
    return directory / "bin" / "python"


def pip_install(python, *what):
    """Quiet unless it fails: pip complains of the dependencies that are left out on purpose."""
    result = subprocess.run([python, "-m", "pip", "install", "--disable-pip-version-check", "--quiet", *what],
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True)
    if result.returncode != 0:
        raise SystemExit(f"lean_torch: pip cannot install {' '.join(what)}:\n{result.stdout}")


def site_packages(python):
    out = subprocess.run([python, "-c", "import sysconfig; print(sysconfig.get_paths()['platlib'])"],
                         stdout=subprocess.PIPE, universal_newlines=True, check=True).stdout
    return Path(out.strip())


def trains(python):
    result = subprocess.run([python, "-c", TRAINING], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            universal_newlines=True)
    say((result.stdout or result.stderr).strip())
    return result.returncode == 0


def install(directory, torch_version="2.7.1", extra=()):
    """Makes `directory` a virtual environment in which `import torch` works; returns its interpreter."""
    directory = Path(directory).resolve()
    python = venv_python(directory)
    stamp = directory / STAMP
    wanted = {"torch": torch_version, "extra": sorted(extra)}
    if stamp.exists() and json.loads(stamp.read_text()) == wanted and python.exists():
        say(f"torch {torch_version} is already in {directory}")
        return python
    stamp.unlink(missing_ok=True)
    if not python.exists():
        say(f"creating the virtual environment {directory}")
        venv.create(directory, with_pip=True)
    say(f"installing torch {torch_version} without its dependencies (a download of about 800 MB on x86_64)")
    pip_install(python, "--no-deps", f"torch=={torch_version}")
    say(f"installing {', '.join([*COMPANIONS, *extra])}")
    pip_install(python, *COMPANIONS, *extra)

    torch_lib = site_packages(python) / "torch" / "lib"
    stub_dir = directory / "cudastub"
    stub_dir.mkdir(exist_ok=True)
    missing = missing_libraries(torch_lib, stub_dir)
    if missing:
        compiler = shutil.which(os.environ.get("CC", "cc"))
        if compiler is None:
            raise SystemExit("lean_torch: a C compiler is needed to build the stub libraries; install gcc or set CC")
        symbols = sum(len(names) for versions in missing.values() for names in versions.values())
        say(f"building {len(missing)} stub libraries with {symbols} symbols in {stub_dir}")
        for library, versions in sorted(missing.items()):
            build_stub(library, versions, stub_dir, compiler)
            # torch's libraries look beside themselves, so no environment variable is needed.
            link = torch_lib / library
            if link.is_symlink() or link.exists():
                link.unlink()
            link.symlink_to(os.path.relpath(stub_dir / library, torch_lib))
    else:
        say("all libraries torch needs exist: no stubs")
    if not trains(python):
        raise SystemExit(f"lean_torch: torch {torch_version} was installed but does not train; see above")
    stamp.write_text(json.dumps(wanted))
    return python


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--venv", required=True, help="virtual environment; created if need be")
    parser.add_argument("--torch", default="2.7.1", help="version [default: 2.7.1]")
    parser.add_argument("--with", dest="extra", nargs="*", default=[], metavar="PACKAGE", help="more packages to install")
    arguments = parser.parse_args()
    print(install(arguments.venv, arguments.torch, arguments.extra))


if __name__ == "__main__":
    main()
