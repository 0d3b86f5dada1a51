"""Training that goes on while clients join: the population grows, and the state with it."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch

from latecomer.models.engine.method import Method
from latecomer.models.engine.paths import choose_path
from latecomer.models.engine.schedule import Schedule
from latecomer.models.engine.training import RoundLog, TrainConfig, one_round
from latecomer.models.task.clients import Clients
from latecomer.models.task.precision import check_precision
from latecomer.models.task.state import Params, State, move
from latecomer.models.task.task import Task


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
    learnt and what the others hold stays as it is. A method whose clients hold nothing has nothing
    to extend.

    Parameters
    ----------
    method, task, state
        What was trained so far.
    clients : Clients
        The clients that ``state`` knows, in its order, then those that join.
    config : TrainConfig
        Budget of the training.
    seed : int
        Training seed; what joining clients get is drawn from it and from their number.

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
    chunk_size: int | None = None,
) -> State:
    """Train a state for ``config.rounds`` further rounds, in the method's last phase.

    Cohorts are drawn from all ``clients``; those that just joined are put into the first
    cohorts, so that each trains at least once.

    Parameters
    ----------
    method, task, state, clients
        What to go on with, and all clients that may train now; the state knows them (`admit`).
    config : TrainConfig
        ``rounds`` is the number of further rounds.
    seed, first_round : int
        Training seed; number of the first of these rounds (earlier ones were drawn already).
    joined : sequence of int
        Places of the clients that just joined, at most ``cohort`` a round.
    on_round, path, chunk_size
        As for :func:`latecomer.models.engine.training.train`.

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
    taken, reason = choose_path(path, chunk_size, method, task, clients.device, config.precision)
    check_precision(config.precision, task.dtype, clients.device)
    schedule = Schedule(seed, clients, config)
    phase = method.phases(task)[-1]
    for step in range(config.rounds):
        number = first_round + step
        include = joined[step * config.cohort : (step + 1) * config.cohort]
        cohort = schedule.cohort(number, method.batches_per_step, include, task)
        parts = state, clients, cohort, phase, schedule.noise(number)
        state, loss = one_round(
            method, task, *parts, path=taken, chunk_size=chunk_size, precision=config.precision
        )
        if on_round is not None:
            on_round(RoundLog(number, loss, taken, reason))
    return state
