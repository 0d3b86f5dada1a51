"""Communication per round and storage per client, counted from the tensors."""

from dataclasses import astuple, dataclass, replace

import torch

from latecomer.models.engine.method import Method, Start
from latecomer.models.engine.schedule import Cohort, Schedule, TrainConfig
from latecomer.models.generators.hypernetworks import cut, shapes_of
from latecomer.models.task.clients import Clients
from latecomer.models.task.state import Params, State, nest, part, row, scatter
from latecomer.models.task.task import Task


@dataclass(frozen=True)
class Traffic:
    """Communication and storage of one client in one round of training.

    Attributes
    ----------
    down, up : int
        Bytes that a client receives and sends in a round it takes part in.
    kept : int
        Numbers that are kept for each client between rounds, wherever they are: on the client for
        FedPer, on the server for pFedHN's embeddings.
    """

    down: int
    up: int
    kept: int


def traffic(method: Method, task: Task, clients: Clients | None = None) -> Traffic:
    """Count a method's traffic by running its hooks for one cohort, without local training.

    Counted **down**: weights and context that depend on what the server holds. A weight that is
    the same whatever the server holds is the client's own, what clients compute from the rest
    (``computed``) is not sent, and nothing is counted twice. Counted **up**: what ``finish``
    uploads. Where weights depend on the cohort's samples, clients run the encoder (section
    ``encoder`` of the server's state): its weights go down and the descriptor up; if it learns, the
    descriptor's gradient goes down and the encoder's gradient up. If the encoder learns although
    weights do not depend on samples, clients train it beside them: it goes down and up, and the
    embedding that it is to predict goes down. Not counted:
    optimizer memory and the hypernetwork, which stay on the server, what is sent once, and zeros
    that pad a smaller target network. For a method with phases, counts are means over rounds; with
    target networks of several sizes, means over sizes, see :func:`traffic_by_size`. The
    clients counted have taken part before.

    Parameters
    ----------
    method : Method
    task : Task
        Sizes and floating type of what is sent.
    clients : Clients, optional
        A labelled population; 40 clients with random samples when left out. Their number decides
        the default length of descriptors and embeddings.

    Examples
    --------
    >>> from latecomer.models import make_method, make_task
    >>> task = make_task(input_shape=(1, 8, 8), n_classes=10)
    >>> traffic(make_method("fedavg"), task)
    Traffic(down=18152, up=18152, kept=0)
    """
    by_size = map(astuple, traffic_by_size(method, task, clients).values())
    return Traffic(*(round(sum(counts) / len(counts)) for counts in zip(*by_size, strict=True)))


def traffic_by_size(
    method: Method, task: Task, clients: Clients | None = None
) -> dict[str, Traffic]:
    """Count as :func:`traffic` does, by name of the target network.

    A method without sizes has a single entry with an empty name.

    >>> from latecomer.models import make_method, make_task
    >>> task = make_task(input_shape=(1, 28, 28), n_classes=10, target="lenet")
    >>> by_size = traffic_by_size(make_method("pfedhn", sizes=["lenet-s", "lenet"]), task)
    >>> {size: one.down for size, one in by_size.items()}
    {'lenet-s': 181112, 'lenet': 343288}
    """
    if clients is None:
        clients = random_population(task, 40)
    return {size: _count(method, task, clients, size) for size in method.sizes or ("",)}


def _count(method: Method, task: Task, clients: Clients, size: str) -> Traffic:
    """Count what a client of one size sends and receives, and what is kept for it."""
    config = TrainConfig(rounds=1, cohort=2, local_steps=1, batch_size=2)
    schedule = Schedule(0, clients, config)
    first = schedule.cohort(0, method.batches_per_step)
    state = method.init(task, clients, first, schedule.initial_noise())
    if size:
        owners = [i for i in range(len(clients)) if method.target_of(state, i) == size][:2]
        members = torch.tensor(owners, device=clients.device)
        first = replace(first, members=members, sizes=clients.support_sizes[members])
    down = up = 0.0
    phases = method.phases(task)
    total = sum(phase.share for phase in phases)
    for place, phase in enumerate(phases):
        # The first round of a phase may be unlike those that follow.
        again = replace(first, phase=phase.name, round=2 * place)
        *_, state = _one_round(method, task, clients, state, again)
        again = replace(again, round=2 * place + 1)
        received, sent, state = _one_round(method, task, clients, state, again)
        down += received * phase.share / total
        up += sent * phase.share / total
    client = row(state.clients, int(first.members[0]))
    heads = _real(method, task, state, first, part(client, "head"))
    body = {k: v for k, v in client.items() if k.split(".")[0] != "head"}
    client = body | nest("head", heads)
    kept = sum(value.numel() for value in client.values() if value.is_floating_point())
    return Traffic(round(down), round(up), kept)


def _real(method: Method, task: Task, state: State, cohort: Cohort, table: Params) -> Params:
    """Return weights of the cohort's first client without padding."""
    shapes = shapes_of(task, method.target_of(state, int(cohort.members[0])))
    return cut(table, {key: shapes.get(key, tuple(value.shape)) for key, value in table.items()})


def random_population(task: Task, n_clients: int) -> Clients:
    """Return labelled clients with four random samples each, of the task's shape."""
    draw, n = torch.Generator().manual_seed(0), 4 * n_clients
    rows, sizes = torch.arange(n).view(n_clients, 4), torch.full((n_clients,), 4)
    x = task.random_inputs(n, draw)
    return Clients(
        x=x.long() if task.vocabulary else x,
        y=torch.randint(task.n_classes, (n,), generator=draw),
        support=rows,
        support_sizes=sizes,
        query=rows,
        query_sizes=sizes,
        ids=torch.arange(n_clients),
        mean=torch.zeros((), dtype=task.dtype),
        sd=torch.ones((), dtype=task.dtype),
    )


def _one_round(
    method: Method, task: Task, clients: Clients, state: State, cohort: Cohort
) -> tuple[int, int, State]:
    """Return bytes down and up, and the state after the round."""

    def begin(state: State, clients: Clients) -> Start:
        noise = torch.Generator().manual_seed(cohort.round)
        return method.start(task, state, clients, cohort, noise)

    start = begin(state, clients)
    server = State(_disturbed(state.server), state.clients)
    params = _real(method, task, state, cohort, row(start.params, 0))
    down = _received(params, start, begin(server, clients))
    # Change every weight, as local training would.
    finish = method.finish(task, state, cohort, start, _disturbed(start.params))
    up = _size(_real(method, task, state, cohort, row(finish.uploads, 0)))
    elsewhere = replace(clients, x=clients.x.flip(0), y=clients.y.flip(0))
    described = _differ(start.params, begin(state, elsewhere).params)
    state = State(state.server, scatter(state.clients, cohort.members, finish.kept))
    after = method.aggregate(task, state, cohort, start, finish.uploads)
    weights, entry = part(state.server, "encoder"), state.server.get("hyper.trunk0.weight")
    if weights and entry is not None:
        # Clients run the encoder, or train it toward an embedding that they are sent.
        learns = _differ(weights, part(after.server, "encoder"))
        encoder, descriptor = _size(weights), entry.shape[1] * entry.element_size()
        down += encoder * (described or learns) + descriptor * learns
        up += descriptor * described + encoder * learns
    return down, up, after


def _received(params: Params, start: Start, other: Start) -> int:
    """Count the bytes sent to the first client that would differ if the server's state did.

    ``params`` are its weights without padding.
    """
    params = {name: value for name, value in params.items() if name not in start.computed}
    here = {"params": params, "own": row(start.own, 0), "shared": start.shared}
    others = {name: value for name, value in row(other.params, 0).items() if name in params}
    there = {
        "params": cut(others, {k: tuple(v.shape) for k, v in params.items()}),
        "own": row(other.own, 0),
        "shared": other.shared,
    }
    sent: list[torch.Tensor] = []
    for place, table in here.items():
        for name, value in table.items():
            known = any(value.shape == old.shape and torch.equal(value, old) for old in sent)
            if not known and not torch.equal(value, there[place][name]):
                sent.append(value)
    return sum(value.numel() * value.element_size() for value in sent)


def _disturbed(table: Params) -> Params:
    """Return the table with every floating entry moved a little, zeros included."""
    return {
        key: value.detach() * 1.01 + 1e-3 if value.is_floating_point() else value
        for key, value in table.items()
    }


def _differ(left: Params, right: Params) -> bool:
    return any(not torch.equal(value, right[key]) for key, value in left.items())


def _size(table: Params) -> int:
    return sum(value.numel() * value.element_size() for value in table.values())
