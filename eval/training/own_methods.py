"""Whether a method from outside keeps what its hooks promise, which the engine takes for granted.

It is trained as shortly as can be on clients of the study, again, from a checkpoint, and after all
samples that it must not read have changed; then it serves one client twice, with other labels, and
a second one.
"""

from contextlib import suppress
from dataclasses import fields, replace

import torch
from torch import Tensor

from latecomer.eval.scoring.serving import client_generator
from latecomer.models.engine.method import Method
from latecomer.models.engine.schedule import TrainConfig, fewest_rounds, most_stages
from latecomer.models.engine.training import Checkpoint, train
from latecomer.models.task.clients import Clients, Samples
from latecomer.models.task.state import State
from latecomer.models.task.task import Task

_POINTS = 8
"""Support points that a client is served from, and asked about, unless a method needs more."""


def refuse_broken_promises(method: Method, task: Task, clients: Clients) -> None:
    """Refuse a method that cannot be repeated, or whose numbers would not be what they are called.

    Parameters
    ----------
    method, task : Method, Task
        One that `rehearse` has passed.
    clients : Clients
        Seen clients.

    Raises
    ------
    ValueError
        With one line that says which promise is broken.
    """
    name = method.name
    try:
        small = replace(task, hidden=0, width=1)
        checkpoints: list[Checkpoint] = []
        state = _trained(method, small, clients, keep=checkpoints)
        if not _alike(state, _trained(method, small, clients)):
            raise _BrokenError(
                f"{name} trained to another state the second time: it must draw from the generators"
                " that its hooks are given alone, and keep nothing outside of its state"
            )
        if not _alike(state, _trained(method, small, clients, resume=checkpoints[0])):
            raise _BrokenError(
                f"{name} trained to another state when it went on after a round: what it keeps must"
                " lie in its state, every tensor in memory of its own"
            )
        if not _alike(state, _trained(method, small, _others_changed(clients))):
            raise _BrokenError(
                f"{name} trained to another state when samples changed that no seen client learns "
                "from: it must read the support of the clients alone, not all of x and y, nor query"
            )
        _refuse_serving(method, small, state, clients)
    except _BrokenError:
        raise
    except (Exception, SystemExit) as error:
        said = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise ValueError(f"{name} failed when it was tried: {said}") from error


class _BrokenError(ValueError):
    """The message is one line."""


def _trained(
    method: Method,
    task: Task,
    clients: Clients,
    *,
    keep: list[Checkpoint] | None = None,
    resume: Checkpoint | None = None,
) -> State:
    """Train as shortly as can be, for two rounds at least; ``keep`` gets every checkpoint."""
    phases = method.phases(task)
    config = TrainConfig(max(2, fewest_rounds(phases)), 1, most_stages(phases), 2)
    given: list[Checkpoint] = [] if keep is None else keep
    return train(
        method,
        task,
        clients,
        config,
        seed=0,
        path="serial",
        resume=resume,
        on_checkpoint=lambda reached: given.append(_held(method, reached).copy()),
    )


def _held(method: Method, reached: Checkpoint) -> Checkpoint:
    """Return a checkpoint, whose state must hold tensors alone."""
    for key, value in {**reached.state.server, **reached.state.clients}.items():
        if not isinstance(value, Tensor):
            raise _BrokenError(
                f"{method.name} must keep tensors alone in its state, got {key} of "
                f"{type(value).__name__}"
            )
    return reached


def _alike(one: State, other: State) -> bool:
    return all(
        a.keys() == b.keys()
        and all(torch.equal(a[key].nan_to_num(), b[key].nan_to_num()) for key in a)
        for a, b in ((one.server, other.server), (one.clients, other.clients))
    )


def _others_changed(clients: Clients) -> Clients:
    """Return the clients over a table of which only their support is as it was."""
    held = torch.zeros(len(clients.x), dtype=torch.bool, device=clients.device)
    for rows, size in zip(clients.support, clients.sizes_on_host[0], strict=True):
        held[rows[:size]] = True
    first = clients.support[0, 0]
    kept = torch.where(held, torch.arange(len(held), device=held.device), first)
    return replace(clients, x=clients.x[kept], y=clients.y[kept])


def _refuse_serving(method: Method, task: Task, state: State, clients: Clients) -> None:
    """Refuse a method whose serving of a client is not what it says of itself."""
    name = method.name
    with suppress(Exception):  # its own settings may not allow it
        counts = [one for one in fields(method) if "steps" in one.name and "least" in one.metadata]
        method = replace(method, **{one.name: max(1, one.metadata["least"]) for one in counts})
    few = [_few(method, clients.support_of(place)) for place in range(min(2, len(clients)))]
    asked, own = few[0].x, few[0]
    before = state.copy()
    served = _logits(method, task, state, own, asked)
    _logits(method, task, state, own, asked, seen=0)
    if not _alike(state, before):
        raise _BrokenError(
            f"{name} changed the trained state when it served a client, and would serve the next "
            "one by it: it must leave the state as it is, and train copies of its tensors"
        )
    if not torch.equal(served, _logits(method, task, state, own, asked)):
        raise _BrokenError(
            f"{name} served a client otherwise when asked again: it must draw from the generator "
            "that it is given alone, and keep nothing of a client"
        )
    if not method.needs_labels:
        labels = (own.labels() + 1) % task.n_classes
        if not torch.equal(served, _logits(method, task, state, Samples(own.x, labels), asked)):
            raise _BrokenError(
                f"{name} says needs_labels = False, and served a client otherwise when its labels "
                "changed: say True, or read its inputs alone"
            )
    if method.personalization != "global" or len(few) < 2:
        return
    if not torch.equal(served, _logits(method, task, state, few[1], asked)):
        raise _BrokenError(
            f"{name} says personalization = 'global', one model that serves every new client, and "
            "served two clients by different ones: say how each gets its own"
        )


def _few(method: Method, support: Samples) -> Samples:
    n_few = max(_POINTS, method.least_support)
    return Samples(support.x[:n_few], support.labels()[:n_few])


def _logits(
    method: Method, task: Task, state: State, own: Samples, asked: Tensor, seen: int | None = None
) -> Tensor:
    """Return what serves a new client, or a seen one, says of the points asked about."""
    given = Samples(own.x.clone(), own.labels().clone())
    predictor, draw = method.predictors[0], client_generator(0, 0)
    if seen is None:
        served = method.personalize(task, state, given, predictor=predictor, generator=draw)
    else:
        served = method.serve(task, state, seen, given, predictor=predictor, generator=draw)
    return served(asked.clone()).detach().nan_to_num()
