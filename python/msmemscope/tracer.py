"""The trace of Python calls: every call of a function, with its beginning and its end.

    msmemscope.tracer.start()
    train()
    msmemscope.tracer.stop()

Files are called `python_trace_<thread>_<time>.csv`, one for each thread; in a database it is the table
`python_trace_<process>`. `config(events="traceback")` traces calls in each span instead, from `start()` to `stop()`.
"""

from ._recording import begin_calls, end_calls

__all__ = ["start", "stop"]


def start() -> None:
    """Begins to trace the calls of all threads; the first call brings the recorder into the process.

    Warns if calls are traced already, or if some cannot be: a profiler that another tool has installed stays.
    """
    begin_calls()


def stop() -> None:
    """Ends the trace. Its files are written in the background; `wait()` waits for them. Warns if there is no trace."""
    end_calls()
