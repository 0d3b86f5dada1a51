"""The only training loop: draw a cohort, train it, aggregate, log; also while clients join."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from torch import Generator, Tensor, device

from latecomer.models.engine.local_steps import Workspace, sgd_in_pieces
from latecomer.models.engine.method import Context, Method, Start
from latecomer.models.engine.schedule import (
    Cohort,
    Phase,
    Schedule,
    TrainConfig,
    divide,
    plan,
    refuse_few_steps,
)
from latecomer.models.engine.threads import Work, finished, in_threads
from latecomer.models.engine.vectorised import Graphs, choose_path, train_cohort
from latecomer.models.task.clients import Clients, Minibatches
from latecomer.models.task.precision import check_precision, tf32_products
from latecomer.models.task.state import Params, State, move, row, rows, scatter
from latecomer.models.task.task import Task

__all__ = [
    "Cohort",
    "DivergedError",
    "RoundLog",
    "Schedule",
    "TrainConfig",
    "initial_state",
    "one_round",
    "train",
]


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """The state after a number of rounds.

    Every random draw has its own address in the schedule (seed, stream, round, client), so the
    number of rounds fixes the state of every generator; optimizer moments are part of the state.

    Attributes
    ----------
    rounds_done : int
        Rounds that are over, from 0 to the training's ``rounds``; also the next round's number.
    state : State
        State after them, optimizer moments included.
    selection : mapping
        Plain data for a rule that chooses among rounds; no rule uses it yet.
    """

    rounds_done: int
    state: State
    selection: Mapping[str, Any] = field(default_factory=dict)

    def copy(self) -> "Checkpoint":
        """Return a checkpoint that no later round overwrites."""
        return replace(self, state=self.state.copy())

    def state_on(self, where: device) -> State:
        """Return the state on a device."""
        return State(move(self.state.server, where), move(self.state.clients, where))


class DivergedError(RuntimeError):
    """A client's loss stopped being a finite number.

    Attributes
    ----------
    method : str
        Name of the method.
    round : int
        Number of the round, from 0.
    client : int
        Id of the client.
    """

    def __init__(self, method: str, round: int, client: int) -> None:  # noqa: A002
        super().__init__(
            f"{method} diverged: the loss of client {client} is not finite in round {round}"
        )
        self.method = method
        self.round = round
        self.client = client

    def __reduce__(self) -> tuple[type["DivergedError"], tuple[str, int, int]]:
        """Make the error picklable, so that a worker process can raise it."""
        return type(self), (self.method, self.round, self.client)


@dataclass(frozen=True)
class RoundLog:
    """What ``on_round`` is given after a round.

    Attributes
    ----------
    round : int
        Number of the round, from 0.
    loss : float
        Training loss: mean over the cohort's clients and local steps.
    path : str
        How the cohort trained: ``serial``, ``blocked`` or ``vectorised``.
    reason : str
        Why that is not the path asked for; empty if it is.
    """

    round: int
    loss: float
    path: str = "serial"
    reason: str = ""


def train(
    method: Method,
    task: Task,
    clients: Clients,
    config: TrainConfig,
    *,
    seed: int,
    on_round: Callable[[RoundLog], None] | None = None,
    path: str = "auto",
    chunk_size: int | None = None,
    resume: Checkpoint | None = None,
    on_checkpoint: Callable[[Checkpoint], None] | None = None,
) -> State:
    """Train ``method`` on the seen clients and return its state.

    Going on from a checkpoint gives the same state, bit for bit, on one machine and device.

    Parameters
    ----------
    method, task, clients, config
        What to train, on the clients' device, labelled. With too few rounds phases are left out.
    seed : int
        Training seed: initial weights, cohorts, minibatches and noise.
    on_round, on_checkpoint : callable, optional
        Called after every round with a :class:`RoundLog`, or a :class:`Checkpoint`, whose tensors
        the next round may overwrite: keep ``checkpoint.copy()``.
    path : str
        One of ``PATHS``, all the same up to rounding; the log says why another was taken.
    chunk_size : int, optional
        Most clients that the vectorised path trains at a time; the whole cohort unless given.
    resume : Checkpoint, optional
        Where an earlier training with the same arguments stood; its rounds are not done again.

    Raises
    ------
    DivergedError
        When a client's loss is not finite.
    ValueError
        When an argument is out of its range, clients carry no labels or are fewer than a cohort.
    """
    _check(task, clients, config, resume)
    clients = method.trained_on(clients)
    about = method, task, clients.device, config.precision
    taken, reason = choose_path(path, chunk_size, *about)
    schedule = Schedule(seed, clients, config)
    begun = _begin(method, task, clients, schedule) if resume is None else resume
    done, state = begun.rounds_done, begun.state_on(clients.device).copy()
    del begun, resume  # or every client's first state stays in memory until the end
    phases = _phase_of_each_round(method, task, config)
    drawn = schedule.cohorts(range(done, config.rounds), method.batches_per_step, task)
    train_round = partial(one_round, path=taken, chunk_size=chunk_size, graphs=Graphs())
    for number, cohort in enumerate(drawn, done):
        given = replace(state, disposable=True), clients, cohort
        parts = *given, phases[number], schedule.noise(number)
        state, loss = train_round(method, task, *parts, precision=config.precision)
        if on_round is not None:
            on_round(RoundLog(number, loss, taken, reason))
        if on_checkpoint is not None:
            on_checkpoint(Checkpoint(number + 1, state))
    return state


def _check(task: Task, clients: Clients, config: TrainConfig, resume: Checkpoint | None) -> None:
    if not clients.labelled:
        raise ValueError("clients must be labelled to train on, got clients without labels")
    check_precision(config.precision, task.dtype, clients.device)
    if resume is not None and not 0 <= resume.rounds_done <= config.rounds:
        raise ValueError(
            f"resume must stand at round 0 to {config.rounds}, got round {resume.rounds_done}"
        )


def initial_state(
    method: Method, task: Task, clients: Clients, config: TrainConfig, *, seed: int
) -> State:
    """Return the state that :func:`train` with the same arguments begins with."""
    clients = method.trained_on(clients)
    return _begin(method, task, clients, Schedule(seed, clients, config)).state


def _begin(method: Method, task: Task, clients: Clients, schedule: Schedule) -> Checkpoint:
    """Return the start of training as a checkpoint."""
    first = schedule.cohort(0, method.batches_per_step)
    return Checkpoint(0, method.init(task, clients, first, schedule.initial_noise()))


def one_round(
    method: Method,
    task: Task,
    state: State,
    clients: Clients,
    cohort: Cohort,
    phase: Phase,
    noise: Generator,
    *,
    path: str,
    chunk_size: int | None = None,
    precision: str | None = None,
    graphs: Graphs | None = None,
) -> tuple[State, float]:
    """Train one drawn cohort and aggregate; return the new state and the cohort's mean loss.

    The given state is left as it was, unless it is ``disposable``. ``noise`` is the method's own
    randomness in this round, ``path`` as ``choose_path`` returned it. ``graphs`` are what earlier
    rounds of the same training recorded on a GPU; nothing is recorded without.

    Raises
    ------
    DivergedError
        When a client's loss is not finite.
    """
    cohort = replace(cohort, phase=phase.name)
    start = method.start(task, state, clients, cohort, noise)
    stepping = task.stepping(precision, blocked=path == "blocked")
    with tf32_products(precision == "tf32"):
        parts = method, stepping, clients, cohort, start, phase
        if path == "vectorised":
            final, losses = train_cohort(*parts, chunk_size, graphs)
        else:
            final, losses = _train_locally(*parts)
    if clients.device.type == "cpu":
        loss = _mean_loss(method, clients, cohort, losses)
        return _aggregated(method, task, state, cohort, start, final), loss
    # Reading the losses is the only time in a round that the host waits for the device, so all
    # other work is queued first. A diverged client's error replaces any error that it caused.
    try:
        state = _aggregated(method, task, state, cohort, start, final)
    finally:
        loss = _mean_loss(method, clients, cohort, losses)
    return state, loss


def _aggregated(
    method: Method, task: Task, state: State, cohort: Cohort, start: Start, final: Params
) -> State:
    """Return the state that the cohort's trained weights lead to."""
    finish = method.finish(task, state, cohort, start, final)
    once = state.disposable
    clients = scatter(state.clients, cohort.members, finish.kept, in_place=once)
    state = State(state.server, clients, disposable=once)
    after = method.aggregate(task, state, cohort, start, finish.uploads)
    return State(after.server, after.clients)


def _phase_of_each_round(method: Method, task: Task, config: TrainConfig) -> list[Phase]:
    phases = method.phases(task)
    refuse_few_steps(phases, config.local_steps, method.name)
    spans = divide(config.rounds, [phase.share for phase in phases])
    return [phase for phase, span in zip(phases, spans, strict=True) for _ in range(span)]


def _mean_loss(method: Method, clients: Clients, cohort: Cohort, losses: Tensor) -> float:
    """Return the mean of the clients' losses ``[c]``, all of which must be finite."""
    told: list[float] = losses.tolist()
    for member, loss in zip(cohort.on_host(), told, strict=True):
        if not math.isfinite(loss):
            raise DivergedError(method.name, cohort.round, int(clients.ids[member]))
    return sum(told) / len(told)


def _train_locally(
    method: Method, task: Task, clients: Clients, cohort: Cohort, start: Start, phase: Phase
) -> tuple[Params, Tensor]:
    """Train the cohort client by client; the weights reached and each client's loss."""
    final = {name: value.new_empty(value.shape) for name, value in start.params.items()}
    begun, ended = rows(start.params), rows(final)
    filters = torch.contiguous_format if task.blocked else torch.channels_last
    memory: list[Workspace] = []
    stages = plan(phase.stages, list(start.params), cohort.rows.shape[1])
    batches = Minibatches.of_each(clients, cohort.rows)

    def trained(place: int) -> Work[Tensor]:
        context = Context(own=row(start.own, place), shared=start.shared)
        kept = cohort.kept_units(task, slice(place, place + 1))
        try:
            workspace = memory.pop()  # of a client that is done
        except IndexError:
            workspace = Workspace(filters)
        reached, loss = yield from _local_steps(
            method, task, context, batches[place](), kept, workspace, begun[place], stages
        )
        memory.append(workspace)
        torch._foreach_copy_(list(ended[place].values()), list(reached.values()))
        return loss

    works = [trained(place) for place in range(len(cohort))]
    apart = in_threads(task, clients.device, cohort.rows.shape[3])
    return final, torch.stack(finished(works, apart=apart))


def _local_steps(
    method: Method,
    task: Task,
    context: Context,
    batches: Minibatches,
    kept: Tensor | None,
    workspace: Workspace,
    params: Params,
    stages: Sequence[tuple[tuple[str, ...], int]],
) -> Work[tuple[Params, Tensor]]:
    """Train one client's ``params`` stage by stage; the weights reached and the mean loss."""
    taken = 0
    total = torch.zeros((), dtype=torch.float64, device=next(iter(params.values())).device)
    for trained, n_steps in stages:

        def objective(
            moving: Params, step: int, params: Params = params, taken: int = taken
        ) -> Tensor:
            now = taken + step
            weights = {**params, **moving} if len(moving) < len(params) else moving
            dropping = task.dropping(kept, 0, now)
            return method.objective(dropping, weights, context, batches[now], now)

        moving = {name: params[name] for name in trained}
        reached, loss = yield from sgd_in_pieces(
            objective, moving, n_steps=n_steps, rule=method.local, workspace=workspace
        )
        params = {**params, **reached}
        total += loss.double() * n_steps
        taken += n_steps
    return params, total / max(taken, 1)


def subset(clients: Clients, places: Sequence[int]) -> Clients:
    """Return the clients at ``places``, in that order, over the same samples."""
    chosen = torch.as_tensor(places, dtype=torch.int64)
    there = chosen.to(clients.device)
    return replace(
        clients,
        support=clients.support[there],
        support_sizes=clients.support_sizes[there],
        query=clients.query[there],
        query_sizes=clients.query_sizes[there],
        ids=clients.ids[chosen.to(clients.ids.device)],
    )


def admit(
    method: Method, task: Task, state: State, clients: Clients, config: TrainConfig, *, seed: int
) -> State:
    """Return the state extended to all ``clients``; ``state`` already covers the first ones.

    A client that joins gets what the method gives a client before training; what the server has
    learnt and what the others hold stays as it is. ``clients`` are those that ``state`` knows, in
    its order, then those that join; what these get is drawn from the training seed and from their
    number.

    Raises
    ------
    ValueError
        When more clients join than ``state`` knows, or their tables have other shapes.
    """
    if not state.clients:
        return state
    known = len(next(iter(state.clients.values())))
    joining = list(range(known, len(clients)))
    if not joining:
        return state
    if len(joining) > known:
        raise ValueError(
            f"at most as many clients as there are can join at once, got {len(joining)} to {known}"
        )
    # As many clients as the state knows, for methods whose tables depend on their number.
    population = subset(method.trained_on(clients), [*joining, *range(known - len(joining))])
    first = Schedule(seed, population, config).cohort(0, method.batches_per_step)
    noise = torch.Generator().manual_seed((seed * 1_000_003 + known) % 2**63)
    fresh = method.init(task, population, first, noise).clients
    return State(state.server, _grown(method, state.clients, move(fresh, clients.device), joining))


def _grown(method: Method, held: Params, fresh: Params, joining: Sequence[int]) -> Params:
    grown: Params = {}
    for name, value in held.items():
        rows = fresh[name][: len(joining)]
        if rows.shape[1:] != value.shape[1:]:
            raise ValueError(
                f"{method.name} cannot take in a client after training has begun: its clients' "
                f"{name} has shape {tuple(value.shape[1:])}, the joining client's "
                f"{tuple(rows.shape[1:])}"
            )
        grown[name] = torch.cat([value, rows.to(value.dtype)])
    return grown


def train_on(
    method: Method,
    task: Task,
    state: State,
    clients: Clients,
    config: TrainConfig,
    *,
    seed: int,
    first_round: int,
    joined: Sequence[int] = (),
    on_round: Callable[[RoundLog], None] | None = None,
    path: str = "auto",
) -> State:
    """Train a state for ``config.rounds`` further rounds, in the method's last phase.

    Cohorts are drawn from all ``clients``, whom the state knows (`admit`); those at the places
    ``joined`` just joined and are put into the first cohorts, so that each trains at least once.
    ``first_round`` is the number of the first of these rounds (earlier ones were drawn already);
    the rest is as for :func:`train`.

    Raises
    ------
    DivergedError
        When a client's loss is not finite.
    ValueError
        When more clients joined than these rounds have places, or the precision is unavailable.
    """
    if len(joined) > config.rounds * config.cohort:
        raise ValueError(
            f"joined must be at most rounds x cohort = {config.rounds * config.cohort} clients, "
            f"got {len(joined)}"
        )
    clients = method.trained_on(clients)
    taken, reason = choose_path(path, None, method, task, clients.device, config.precision)
    check_precision(config.precision, task.dtype, clients.device)
    schedule = Schedule(seed, clients, config)
    phase = method.phases(task)[-1]
    for step in range(config.rounds):
        number = first_round + step
        include = joined[step * config.cohort : (step + 1) * config.cohort]
        cohort = schedule.cohort(number, method.batches_per_step, include, task)
        parts = state, clients, cohort, phase, schedule.noise(number)
        state, loss = one_round(method, task, *parts, path=taken, precision=config.precision)
        if on_round is not None:
            on_round(RoundLog(number, loss, taken, reason))
    return state
