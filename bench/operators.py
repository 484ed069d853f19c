"""What it costs to record tensors of torch, its operators and what they access, beside other ways to see them."""
import figures
import tools
from tools import Workload

NAME = "operators"


def workloads(steps, turns):
    title = f"operators of PyTorch training on the CPU, {steps} steps"
    return [(Workload(NAME, title, "torch_train.py", (steps, "plain"), turns=turns), (), False)]


class Operators(tools.Ours):
    """Tensors and operators alone: the library that records host memory is left out."""

    def __init__(self, stage, name, events, call_stack=""):
        super().__init__(stage, call_stack, ("--level=op", f"--events={events}"))
        self.name = f"msmemscope {name}"
        if not stage.command:
            self.unavailable = f"no command in {stage.directory}/bin"

    def prepare(self, workload, output):
        prepared = super().prepare(workload, output)
        libraries = prepared.environment["LD_PRELOAD"].split(":")
        prepared.environment["LD_PRELOAD"] = next(path for path in libraries if path.endswith("libascend_kernel_hook.so"))
        return prepared


class InProgram(tools.Tool):
    """Something of torch's that the program itself enters around the timed part."""

    takes_turns = False

    def __init__(self, name, around):
        self.name, self.around = name, around

    def prepare(self, workload, output):
        steps, _ = workload.arguments
        command = workload.native()
        return tools.Prepared([*command[:-2], steps, self.around], workload.environment)


TENSORS = "allocations and frees of tensors"
LAUNCHES, ACCESSES, STACKS = "launches", "launches and accesses", "launches and accesses, Python stacks"


def chosen(stage, missing):
    return [tools.Tool(),
            Operators(stage, TENSORS, "alloc,free"),
            Operators(stage, LAUNCHES, "launch"),
            Operators(stage, ACCESSES, "launch,access"),
            Operators(stage, STACKS, "launch,access", "python"),
            InProgram("TorchDispatchMode that notes the same", "mode"),
            InProgram("torch.profiler, memory and stacks", "profiler"),
            tools.Memray([], missing["memray"])]


def operator_figures(results):
    if NAME not in results:
        return []
    series = results[NAME]

    def cpu(series, tool):
        return figures.ratio(series, tool, "cpu_s")

    def one_event(series, tool):
        return figures.added_ns_per_event(series, tool, figures.median)

    call, change = ("a call of the dispatcher", 900), ("an allocation or a free", None)
    rows = [(TENSORS, 1.05, change), (LAUNCHES, 1.15, call), (ACCESSES, 1.3, call), (STACKS, 1.4, call)]
    found = []
    for name, target, (event, most_ns) in rows:
        tool = f"msmemscope {name}"
        others = {other: value for other in series
                  if not other.startswith(("msmemscope", "bare")) and (value := cpu(series, other)) is not None}
        value, best = cpu(series, tool), figures.ratio(series, tool, "cpu_s", figures.best)
        note = f"best run {best:.2f}" if best else figures.why(series, tool)
        title = f"operators of torch, {name}"
        found.append(figures.Figure(f"{title}: CPU time", value, "x bare", target, note, others))
        found.append(figures.Figure(f"{title}: added to {event}", one_event(series, tool), "ns", most_ns))
    return found
