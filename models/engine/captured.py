"""Local steps on a GPU as one CUDA graph.

A round launches thousands of kernels that a GPU finishes sooner than Python launches them. A graph
records them once, on tensors of its own, and launches them all at once every round after.
"""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from latecomer.models.engine.method import Method
from latecomer.models.task.state import Params
from latecomer.models.task.targets import ConvNet, DenseNet
from latecomer.models.task.task import Task

Work = Callable[[Params], Params]


def capturable(method: Method, task: Task, device: torch.device) -> bool:
    """Say whether local steps can be recorded: on a GPU, cross-entropy on a net of this package.

    An objective or a net from elsewhere may look at values or draw numbers, which a graph would
    never do again.

    >>> from latecomer.models.methods import make_method
    >>> from latecomer.models.task.task import make_task
    >>> task, gpu = make_task(input_shape=(6,), n_classes=4), torch.device("cuda")
    >>> [capturable(make_method(name), task, gpu) for name in ("fedavg", "fedprox")]
    [True, False]
    """
    own = type(task) is Task and type(task.target) in (ConvNet, DenseNet)
    return device.type == "cuda" and own and method.minimises_cross_entropy


@dataclass(frozen=True, eq=False)
class _Recorded:
    """A graph, the tensors that it reads and those that it writes."""

    graph: torch.cuda.CUDAGraph
    given: Params
    made: Params


@dataclass(frozen=True, eq=False)
class Graphs:
    """The graphs of one training: one for each kind of work and each shape of what it is given."""

    recorded: dict[Hashable, _Recorded] = field(default_factory=dict)

    def run(self, work: Work, given: Mapping[str, Tensor], about: Hashable) -> Params:
        """Return ``work(given)``, equal to the last bit; ``about`` names the work.

        ``work`` must depend on values only through the tensors ``given``, and never wait for the
        GPU. The first call records it; later calls with the same ``about`` only launch it.
        """
        shapes = tuple((name, value.shape, value.dtype) for name, value in given.items())
        key = about, shapes
        if key not in self.recorded:
            self.recorded[key] = _record(work, given)
        found = self.recorded[key]
        for name, value in given.items():
            found.given[name].copy_(value.detach())
        found.graph.replay()
        return {name: value.clone() for name, value in found.made.items()}


def _record(work: Work, given: Mapping[str, Tensor]) -> _Recorded:
    held = {name: value.detach().clone() for name, value in given.items()}
    aside = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        # Libraries set themselves up in the first call, which cannot be recorded.
        work(held)
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        made = work(held)
    return _Recorded(graph, held, made)
