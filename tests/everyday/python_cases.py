"""Python as it is used: numbers, processes, threads, event loops, notebooks, tests, training."""

import sys

import supplies
from trial import Case, Failed


def plain(workload, *words):
    return lambda site, work: [sys.executable, site.workloads / workload, *words]


def with_packages(*words):
    def program(site, work):
        return [supplies.python_packages(site) / "bin/python", *(site.workloads / word if word.endswith(".py") else word for word in words)]
    return program


def pytest(site, work):
    (work / "test_numbers.py").write_text("import pytest\n\n\n@pytest.mark.parametrize('n', range(50))\ndef test_square(n):\n    assert n * n >= n\n")
    return [supplies.python_packages(site) / "bin/python", "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_numbers.py"]


def torch(site, work):
    return [supplies.torch(site) / "bin/python", site.workloads / "training.py"]


def shows(*lines):
    """The summary names these places of the program."""
    def check(trial):
        missing = [line for line in lines if line not in trial.messages]
        if missing:
            raise Failed(f"the summary does not name {', '.join(missing)}")
    return check


BOTH = "c,python"
PACKAGES = (supplies.python_packages,)
# Libraries that count processors or threads keep to two, so that a run is the same everywhere.
FEW_THREADS = {"OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2"}

CASES = [
    Case("python", plain("leak.py"), mode=BOTH, check=shows("leak.py(6): ")),
    Case("multiprocessing, fork", plain("workers.py", "fork"), mode=BOTH, check=shows("workers.py(8): ")),
    Case("multiprocessing, spawn", plain("workers.py", "spawn"), mode=BOTH, check=shows("workers.py(8): ")),
    Case("asyncio", plain("tasks.py"), mode=BOTH, check=shows("tasks.py(6): ")),
    Case("40 threads", plain("threads.py"), mode=BOTH, check=shows("threads.py(9): ")),
    Case("gevent", with_packages("greenlets.py"), (), PACKAGES, mode=BOTH, check=shows("greenlets.py(7): ")),
    Case("pandas and sklearn", with_packages("table.py"), (), PACKAGES, mode="none", variables=FEW_THREADS),
    Case("pandas and sklearn, both stacks", with_packages("table.py"), (), PACKAGES, mode=BOTH, variables=FEW_THREADS,
         most_seconds=120),
    Case("jupyter kernel", with_packages("notebook.py"), (), PACKAGES, mode=BOTH, check=shows("/ipykernel_"), most_seconds=120),
    Case("pytest", pytest, (), PACKAGES, mode=BOTH, varying={r"in [\d.]+s": "in Ns"}),
    Case("torch, DataLoader", torch, (), (supplies.torch,), mode="c:5,python:5", variables=FEW_THREADS, most_seconds=180),
]
