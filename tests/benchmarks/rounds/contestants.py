"""The contestants of a round: the engine one round at a time, and what bare loops start from."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from threading import Semaphore, Thread
from typing import Any, Self

import bare_nets
import bare_rounds
import torch
from contest import one_processor
from torch import Tensor

from latecomer.models.engine.schedule import Schedule
from latecomer.models.engine.training import train
from latecomer.models.methods import make_method
from latecomer.models.methods.fedavg import FedAvg
from latecomer.models.task.clients import Clients
from latecomer.models.task.state import part
from latecomer.models.task.task import Task

Batch = tuple[Tensor, Tensor]
Net = Callable[[list[Tensor], Tensor, bool], Tensor]

_A_FEW = 2**18
"""How many numbers stay in the caches beside a net's weights."""


class _EnoughError(Exception):
    """Ends a training that has been watched long enough."""


class RoundByRound:
    """A training that stops after every round until the next is asked for.

    It runs in a thread of its own and waits where it tells of a round: what is timed is a loop as
    it is used, but not what comes before the first round or after the last.

    Parameters
    ----------
    run : callable
        Trains, and calls what it is given after every round.
    """

    def __init__(self, run: Callable[[Callable[..., None]], Any]) -> None:
        self._run = run
        self._asked, self._finished = Semaphore(0), Semaphore(0)
        self._enough = False
        self._error: BaseException | None = None
        self._thread = Thread(target=self._train, daemon=True)

    def _train(self) -> None:
        torch.set_num_threads(1)
        self._asked.acquire()
        try:
            with one_processor():
                self._run(self._pause)
            raise RuntimeError("no round is left")
        except _EnoughError:
            return
        except BaseException as error:
            self._error = error
        self._finished.release()

    def _pause(self, *_: Any) -> None:
        self._finished.release()
        self._asked.acquire()
        if self._enough:
            raise _EnoughError

    def __call__(self) -> None:
        """Train one round more."""
        self._asked.release()
        self._finished.acquire()
        if self._error is not None:
            raise self._error

    def __enter__(self) -> Self:
        """Start the thread, which waits."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End the training."""
        self._enough = True
        self._asked.release()
        self._thread.join()


def engine(method, task, clients, config, path="auto") -> RoundByRound:
    """Return the engine, with its schedule and its log, one round at a time."""
    return RoundByRound(
        lambda pause: train(method, task, clients, config, seed=0, on_round=pause, path=path)
    )


def newcomers(method, task, state, clients) -> dict[str, Callable[[], None]]:
    """Return what trains models for all clients, side by side (``together``) and ``alone``."""
    supports = [clients.support_of(index) for index in range(len(clients))]

    def serve(asked: Task) -> None:
        draws = (torch.Generator().manual_seed(index) for index in range(len(clients)))
        nobody = [None] * len(clients)
        for _ in method.serve_each(asked, state, nobody, supports, generators=draws):
            pass

    ways = {"together": True, "alone": False}
    return {name: partial(serve, replace(task, together=way)) for name, way in ways.items()}


@dataclass(eq=False)
class BareFederation:
    """Data as the bare loops like them best: standardised floats in memory, in their layout."""

    x: Tensor
    y: Tensor
    variant: str

    @classmethod
    def of(cls, clients: Clients, variant: str, dtype: torch.dtype = torch.float32) -> Self:
        """Take over a population's samples."""
        x = clients.inputs(torch.arange(len(clients.x))).to(dtype)
        return cls(in_layout(x, variant), clients.y, variant)

    def batches(self, rows: Tensor) -> Iterator[Batch]:
        """Yield a client's batches of ``rows [steps, b]``; few numbers are fetched at once."""
        if rows.numel() * self.x[0].numel() < _A_FEW:
            return zip(self.x[rows], self.y[rows], strict=True)
        return ((self.x[batch], self.y[batch]) for batch in rows)

    def cohort(self, rows: Tensor) -> list[Iterator[Batch]]:
        """Return each client's batches of ``rows [c, steps, b]``."""
        return [self.batches(own) for own in rows]


def every_variant(clients: Clients) -> dict[str, BareFederation]:
    """Return a population's data for each bare loop; one copy of them in each layout."""
    made: dict[torch.memory_format, BareFederation] = {}
    for name, (layout, *_) in bare_rounds.VARIANTS.items():
        if layout not in made:
            made[layout] = BareFederation.of(clients, name)
    return {
        name: BareFederation(made[layout].x, clients.y, name)
        for name, (layout, *_) in bare_rounds.VARIANTS.items()
    }


def in_layout(x: Tensor, variant: str) -> Tensor:
    """Return images, or filters, in the layout of a variant."""
    layout, *_ = bare_rounds.VARIANTS.get(variant, (bare_rounds.NHWC,))
    return x.contiguous(memory_format=layout) if x.dim() == 4 else x


@dataclass(eq=False)
class BarePeFLL:
    """Weights, moments and the rest of what a bare PeFLL round starts from."""

    eta: list[Tensor]
    moments: tuple[list[Tensor], list[Tensor], list[Tensor]]
    scale: tuple[Tensor, Tensor]
    shapes: Sequence[tuple[int, ...]]
    variant: str
    net: Net

    @classmethod
    def of(cls, method, task, clients, schedule, variant, net: Net = bare_nets.lenet) -> Self:
        """Start where the engine starts."""
        state = method.init(task, clients, schedule.cohort(0), schedule.initial_noise())
        server = {key: value.clone() for key, value in state.server.items()}
        networks = [*part(server, "hyper").values(), *part(server, "encoder").values()]
        eta = [in_layout(value, variant) for value in networks]
        moments = (
            [torch.zeros_like(value) for value in eta],
            [torch.zeros_like(value) for value in eta],
            [torch.zeros(()) for _ in eta],
        )
        scale = (server["descriptor.mean"], server["descriptor.sd"])
        return cls(eta, moments, scale, list(task.shapes.values()), variant, net)

    def round(self, first: Batch, cohort: Sequence[Iterator[Batch]]) -> list[Tensor]:
        """Do a round; ``first`` is the batch of descriptors, ``cohort`` every client's batches."""
        start = self.eta, self.moments, self.scale
        return bare_rounds.pefll_round(self.net, *start, first, cohort, self.variant, self.shapes)


def bare_pefll(task, clients, config, data, net: Net = bare_nets.lenet) -> Callable[[], Any]:
    """Return the bare loop of a variant, a round each time it is called."""
    schedule = Schedule(0, clients, config)
    loop = BarePeFLL.of(make_method("pefll"), task, clients, schedule, data.variant, net)
    drawn = schedule.cohort(0)
    first, rows = drawn.descriptor_rows, drawn.rows[:, :, 0]
    return lambda: loop.round((data.x[first], data.y[first]), data.cohort(rows))


def bare_fedavg(method, task, clients, config, data, net: Net = bare_nets.lenet):
    """Return the bare loop of a variant, a round each time it is called."""
    schedule = Schedule(0, clients, config)
    drawn = schedule.cohort(0)
    server = method.init(task, clients, drawn, schedule.initial_noise()).server
    weights = [in_layout(value, data.variant) for value in server.values()]
    rows, rule = drawn.rows[:, :, 0], local_rule(method)
    return lambda: bare_rounds.fedavg_round(net, weights, data.cohort(rows), data.variant, rule)


def local_rule(method: FedAvg) -> dict[str, float]:
    """Return the settings of a local step by the names that torch has for them."""
    rule = method.local
    return {"lr": rule.lr, "momentum": rule.momentum, "weight_decay": rule.weight_decay}
