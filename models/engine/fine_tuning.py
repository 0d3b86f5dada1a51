"""Training the models of clients that are served: one after another, or side by side.

As for cohorts, there are two ways to the same models. A small net's step mostly costs the fixed
overhead of its operations, which clients side by side share; large convolutions then take longer on
a CPU. ``tests/benchmarks/bench_evaluation.py`` measures how much.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Generator, Tensor

from latecomer.models.engine.local_steps import LocalSGD, local_sgd
from latecomer.models.engine.schedule import minibatches, units_kept
from latecomer.models.engine.vectorised import cohort_sgd, has_written_slopes, slopes_sgd
from latecomer.models.task import client_axis
from latecomer.models.task.client_axis import Weighted, each_once, losses_and_slopes
from latecomer.models.task.clients import Samples
from latecomer.models.task.objectives import pulled_back
from latecomer.models.task.state import Params, detached, leaves, rows, sent, stack
from latecomer.models.task.task import Task

BESIDE = 32
"""Most clients side by side: more of them gain nothing, and memory grows."""


@dataclass(frozen=True, eq=False)
class Tuning:
    """How clients train the models that they are served; the same for all of them.

    Attributes
    ----------
    rule : LocalSGD
        The step.
    n_steps, batch_size : int
        Number of steps, and samples of each.
    trained : sequence of str or None
        Names of the weights that move; None: all.
    penalty : callable, optional
        Maps all of a client's weights to a term added to its loss.
    applied : callable, optional
        Maps a client's weights to those that its net uses.
    """

    rule: LocalSGD
    n_steps: int
    batch_size: int
    trained: Sequence[str] | None = None
    penalty: Callable[[Params], Tensor] | None = None
    applied: Callable[[Params], Params] | None = None

    def moving(self, weights: Params) -> Params:
        """Return the weights that move."""
        return {k: v for k, v in weights.items() if self.trained is None or k in self.trained}


def tune_each(
    task: Task,
    starts: Sequence[Params],
    supports: Sequence[Samples],
    tuning: Tuning,
    generators: Sequence[Generator],
) -> list[Params]:
    """Train clients' weights on their own labelled supports with cross-entropy.

    One after another, or side by side if ``task.together``: the same up to rounding, for every
    client has minibatches and dropout of its own, drawn from its generator as in training.
    Fine-tuning is training; the models predict without dropout. Returned are the weights that each
    client's net uses.
    """
    if task.together and len(starts) > 1 and _on_client_axis(task, starts[0]):
        return rows(_side_by_side(task, stack([*starts]), supports, tuning, generators))
    clients = zip(starts, supports, generators, strict=True)
    return [_alone(task, start, support, tuning, draw) for start, support, draw in clients]


def _alone(
    task: Task, start: Params, support: Samples, tuning: Tuning, generator: Generator
) -> Params:
    y, steps, size = support.labels(), tuning.n_steps, tuning.batch_size
    rng = np.random.default_rng(int(torch.randint(2**62, (), generator=generator)))
    places = sent(torch.from_numpy(minibatches(rng, len(support), steps, size)), y.device)
    x, y = support.x[places], y[places]
    kept = units_kept(rng, task, steps, size)
    kept = kept if kept is None else sent(kept, y.device)

    def objective(p: Params, step: int) -> Tensor:
        weights = {**start, **p}
        net = weights if tuning.applied is None else tuning.applied(weights)
        loss = task.dropping(kept, step).loss(net, x[step], y[step])
        return loss if tuning.penalty is None else loss + tuning.penalty(weights)

    moving = tuning.moving(start)
    if moving:
        moving, _ = local_sgd(objective, moving, n_steps=steps, rule=tuning.rule)
    tuned = {**start, **moving}
    return tuned if tuning.applied is None else tuning.applied(tuned)


def _on_client_axis(task: Task, start: Params) -> bool:
    """Tell whether the task is no subclass and the weights have its target's shapes."""
    return type(task) is Task and {k: tuple(v.shape) for k, v in start.items()} == task.shapes


def _side_by_side(
    task: Task,
    start: Params,
    supports: Sequence[Samples],
    tuning: Tuning,
    generators: Sequence[Generator],
) -> Params:
    """Train weights ``[c, ...]``, each client's on its own support."""
    x, y, places, kept = _drawn(task, supports, tuning, generators)
    written, share = has_written_slopes(task, x.device), None
    sizes = torch.tensor([len(support) for support in supports], device=x.device)
    if written and kept is None and (most := int(sizes.max())) <= tuning.batch_size:
        held = (sizes.cumsum(0) - sizes)[:, None] + torch.arange(most, device=x.device)
        places, share = each_once(places, held, sizes, task.dtype)
        x, y = x[places], y[places]
    moving = tuning.moving(start)

    def drawn(step: int) -> tuple[Samples, Tensor | None]:
        if share is not None:
            return Weighted(x, y, share[:, step]), None
        now = places[:, step]
        return Samples(x[now], y[now]), None if kept is None else kept[:, step]

    def objective(p: Params, step: int) -> Tensor:
        weights, (samples, masks) = {**start, **p}, drawn(step)
        net, batch = _applied(tuning, weights), (samples.x, samples.labels())
        losses = client_axis.losses(task.target, net, *batch, masks, task.narrow)
        penalty = tuning.penalty
        return losses if penalty is None else losses + torch.func.vmap(penalty)(weights)

    def slopes(p: Params, step: int, into: Params) -> tuple[Tensor, Params]:
        return _slopes(task, tuning, start, p, *drawn(step), into)

    if moving and written:
        moving, _ = slopes_sgd(slopes, moving, n_steps=tuning.n_steps, rule=tuning.rule)
    elif moving:
        moving, _ = cohort_sgd(objective, moving, n_steps=tuning.n_steps, rule=tuning.rule)
    return _applied(tuning, {**start, **moving})


def _applied(tuning: Tuning, weights: Params) -> Params:
    """Return the weights that clients' nets use, ``[c, ...]``."""
    if tuning.applied is None:
        return weights
    made: Params = torch.func.vmap(tuning.applied)(weights)
    return made


def _slopes(
    task: Task,
    tuning: Tuning,
    start: Params,
    moving: Params,
    samples: Samples,
    masks: Tensor | None,
    into: Params,
) -> tuple[Tensor, Params]:
    """Return each client's cross-entropy, and the gradient of what it minimises.

    Only what becomes of the weights before the net, and the penalty, are left to autograd.
    """
    entropy = partial(losses_and_slopes, task.target, samples=samples, kept=masks)
    if tuning.penalty is None and tuning.applied is None:
        return entropy({**start, **moving}, wanted=[*moving], into=into)
    point = leaves(moving)
    with torch.enable_grad():
        weights = {**start, **point}
        net = _applied(tuning, weights)
        moved = {name: value for name, value in net.items() if value.requires_grad}
        losses, of_net = entropy(detached(net), wanted=[*moved])
        reached, given = [*moved.values()], [of_net[name] for name in moved]
        if tuning.penalty is not None:
            reached.append(torch.func.vmap(tuning.penalty)(weights).sum())
            given.append(torch.ones_like(reached[-1]))
    found = pulled_back(reached, given, [*point.values()])
    return losses, dict(zip(point, found, strict=True))


def _drawn(
    task: Task, supports: Sequence[Samples], tuning: Tuning, generators: Sequence[Generator]
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Return all clients' samples in a row, the places of each step's samples, and masks."""
    steps, size = tuning.n_steps, tuning.batch_size
    places, kept, first = [], [], 0
    for support, generator in zip(supports, generators, strict=True):
        rng = np.random.default_rng(int(torch.randint(2**62, (), generator=generator)))
        places.append(torch.from_numpy(minibatches(rng, len(support), steps, size)) + first)
        kept.append(units_kept(rng, task, steps, size))
        first += len(support)
    x = torch.cat([support.x for support in supports])
    y = torch.cat([support.labels() for support in supports])
    masks = [mask for mask in kept if mask is not None]
    dropped = sent(torch.stack(masks), y.device) if masks else None
    return x, y, sent(torch.stack(places), y.device), dropped
