"""Cases run by several workers at once."""

import concurrent.futures
import multiprocessing
import os

# Of the workers, which are forked from the process that has set them: cases hold functions, which cannot be sent to another.
_cases, _run = [], None


def outcomes(cases, jobs, run, is_alone=lambda case: False):
    """`(case, run(case))` in the order in which they end. Each worker is a process, with nobody's children but its own. Cases that
    must be alone follow the others, one after the other."""
    global _cases, _run
    _cases, _run = cases, run
    together = [number for number, case in enumerate(cases) if not is_alone(case)]
    context = multiprocessing.get_context("fork")
    with concurrent.futures.ProcessPoolExecutor(jobs, mp_context=context) as workers:
        begun = {workers.submit(_numbered, number): number for number in together}
        for ended in concurrent.futures.as_completed(begun):
            yield cases[begun[ended]], ended.result()
        for number in sorted(set(range(len(cases))) - set(together)):
            yield cases[number], workers.submit(_numbered, number).result()


def _numbered(number):
    return _run(_cases[number])


def add_option(parser):
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="how many cases run at once (default: %(default)s)")
