"""Gives the simulated CANN the symbols a framework's wheel is linked to beyond what the simulator has.

    wheel_symbols.py <toolkit> <directory of the mindspore or torch_npu package>

MindSpore's Ascend plugin, and torch_npu before 2.7, refer to hundreds of C++ functions of the graph engine, most of them
called only when a graph is compiled by it. They differ from version to version, so they are taken from the wheel: every
symbol its Ascend libraries need and nobody has becomes a function that returns 0, in libge_runner.so of the toolkit. Only
two factories must do more: that of graph operators says that it knows an operator and hands out an empty one, that of
status texts has a place for them.
"""

import ctypes
import pathlib
import re
import subprocess
import sys
import tempfile

# By package: the libraries that are linked to CANN, and the packages beside it whose libraries they use.
WHEELS = {
    "mindspore": (["lib/plugin/libmindspore_ascend.so.2", "lib/plugin/libmindspore_ops_ascend.so", "lib/plugin/ascend/**/*.so"], []),
    "torch_npu": (["lib/libtorch_npu.so", "lib/libnpu_profiler.so", "_C*.so"], ["torch"]),
}
# Those have other providers: the interpreter, MPI, and CANN's own optional parts.
NOT_OURS = re.compile(r"_?Py|MPI_|ompi_|_ZN3atb|_ZN3Mki|_ZNK3atb|_ZNK3Mki")

BEHAVIOUR = {
    "_ZN2ge15OperatorFactory9IsExistOp": "int {name}(void) {{ return 1; }}\n",
    # A std::map, into which the caller inserts by itself: the links of an empty one lead to its own header.
    "_ZN2ge13StatusFactory8Instance": "static void *texts[8] = {{0, 0, 0, &texts[1], &texts[1]}};\nvoid *{name}(void) {{ return texts; }}\n",
    # An operator object is a pointer to its functions and a shared pointer; it is returned through the first argument.
    "_ZN2ge15OperatorFactory14CreateOperator": "void *{name}(void **result) {{ return result[0] = result[1] = result[2] = 0, result; }}\n",
}
NOTHING = "void *{name}(void) {{ return 0; }}\n"


def definition(name):
    known = (text for start, text in BEHAVIOUR.items() if name.startswith(start))
    return next(known, NOTHING).format(name=name)


def symbols(library, defined):
    kind = "--defined-only" if defined else "--undefined-only"
    text = subprocess.run(["nm", "-D", kind, library], capture_output=True, text=True).stdout
    names = (line.split()[-1] for line in text.splitlines())
    # A version says which library of the system has it.
    return {name.split("@")[0] for name in names if defined or "@" not in name}


def main(toolkit, package):
    toolkit, package = pathlib.Path(toolkit), pathlib.Path(package)
    stub = toolkit / "lib64/libge_runner.so"
    linked, companions = WHEELS[package.name]
    needing = [path for pattern in linked for path in package.glob(pattern)]
    directories = [package, *(package.parent / companion for companion in companions)]
    libraries = (path for directory in directories for path in directory.rglob("*.so*"))
    providing = [path for path in libraries if path.is_file() and "gpu" not in str(path)]
    providing += [path for path in (toolkit / "lib64").glob("*.so") if path != stub]
    wanted = set().union(*(symbols(path, False) for path in needing))
    wanted -= set().union(*(symbols(path, True) for path in providing))
    system = ctypes.CDLL("libstdc++.so.6", ctypes.RTLD_GLOBAL)
    missing = sorted(name for name in wanted if not NOT_OURS.match(name) and not hasattr(system, name))
    with tempfile.TemporaryDirectory() as directory:
        source = pathlib.Path(directory, "symbols.c")
        source.write_text("".join(map(definition, missing)))
        command = ["cc", "-w", "-fno-builtin", "-shared", "-fPIC", "-Wl,-soname,libge_runner.so", "-o", stub, source]
        subprocess.run(command, check=True)
    print(f"{len(missing)} symbols in {stub}")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
