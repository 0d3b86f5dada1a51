"""Clients in several threads: the numbers of one thread, whatever passes from hand to hand."""

import threading
from dataclasses import replace
from typing import Any

import pytest
import torch
from formula_federation import Population, dense_task, generator, quick, same
from torch import Tensor, nn
from torch.nn import functional

from latecomer.models.engine.method import Method
from latecomer.models.engine.schedule import TrainConfig
from latecomer.models.engine.threads import (
    Work,
    client_threads,
    each,
    finished,
    in_threads,
    thread_count,
)
from latecomer.models.engine.training import DivergedError, train
from latecomer.models.methods import METHODS, make_method
from latecomer.models.methods.fedavg import FedAvg
from latecomer.models.task import targets
from latecomer.models.task.clients import Clients
from latecomer.models.task.own_nets import can_be_copied, of_this_thread
from latecomer.models.task.state import State
from latecomer.models.task.targets import build, gains_from_threads, multiplications
from latecomer.models.task.task import Task, make_task

CASES: list[tuple[str, dict[str, Any]]] = [(name, {}) for name in METHODS]
CASES += [("pefll", {"posterior": "gaussian"}), ("per_fedavg", {"variant": "hessian_free"})]
SIZES = (3, 20, 7, 11, 5, 1)
# Five clients are more than two threads share evenly; eleven steps are cut into eleven pieces.
CONFIG = TrainConfig(rounds=2, cohort=5, local_steps=11, batch_size=4)


@pytest.fixture(autouse=True)
def _small_nets_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(targets, "_WORTH_A_THREAD", 0)


def served(method: Method, task: Task, state: State, clients: Clients) -> list[Tensor]:
    """Predict with the models of seen clients and newcomers."""
    x, members = clients.query_of(0).x, [0, None, 2, None, None, 5]
    models = method.serve_each(
        task,
        state,
        members,
        [clients.support_of(index) for index in range(len(clients))],
        predictor=method.predictors[0],
        generators=map(generator, range(len(clients))),
    )
    return [model(x) for model in models]


@pytest.mark.parametrize(("name", "settings"), CASES)
def test_threads_change_no_bit(
    make_population: Population,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    settings: dict[str, Any],
) -> None:
    task = dense_task(dropout=0.2, dtype=torch.float32)
    clients = make_population(SIZES)
    method = quick(name, **settings)
    found = []
    for count in (1, 2, 3):
        with client_threads(count):
            state = train(method, task, clients, CONFIG, seed=0)
            found.append((state, served(method, task, state, clients)))
    monkeypatch.setattr(targets, "_WORTH_A_THREAD", 10**9)
    with client_threads(2):
        found.append((found[-1][0], served(method, task, found[-1][0], clients)))
    state, predictions = found[0]
    for other, others in found[1:]:
        assert same(state, other)
        assert all(map(torch.equal, predictions, others))


class Watched(FedAvg):
    """FedAvg that notes the threads of its local steps."""

    name = "watched"
    seen: set[str]

    def objective(self, *given: Any) -> Tensor:
        self.seen.add(threading.current_thread().name)
        return super().objective(*given)


@pytest.mark.parametrize(("worth", "most"), [(0, 2), (10**9, 1)])
def test_small_nets_stay_in_one_thread(
    make_population: Population,
    task: Task,
    monkeypatch: pytest.MonkeyPatch,
    worth: int,
    most: int,
) -> None:
    monkeypatch.setattr(targets, "_WORTH_A_THREAD", worth)
    method, clients = Watched(), make_population(SIZES)
    object.__setattr__(method, "seen", set())
    with client_threads(2):
        for seed in range(20):
            train(method, task, clients, CONFIG, seed=seed)
            if len(method.seen) == most:
                break
    assert len(method.seen) == most


class Own(nn.Module):
    """A network whose forward pass keeps something between two of its lines."""

    def __init__(self, input_shape: tuple[int, ...], n_out: int) -> None:
        super().__init__()
        self.first, self.fc = nn.Linear(*input_shape, 9), nn.Linear(9, n_out)

    def forward(self, x: Tensor) -> Tensor:
        self.made = torch.relu(self.first(x))
        return self.fc(self.made)


class Locked(Own):
    """One that cannot be copied."""

    def __init__(self, input_shape: tuple[int, ...], n_out: int) -> None:
        super().__init__(input_shape, n_out)
        self.lock = threading.Lock()


@pytest.mark.parametrize("net", [Own, Locked])
def test_networks_of_ones_own(make_population: Population, net: type[Own]) -> None:
    task, clients = make_task(input_shape=(6,), n_classes=4, target=net), make_population(SIZES)
    assert can_be_copied(task.target) is (net is Own)
    found = []
    for count in (1, 3):
        with client_threads(count):
            assert in_threads(task, clients.device, 4) is (count > 1 and net is Own)
            found.append(train(make_method("fedavg"), task, clients, CONFIG, seed=0))
    assert same(*found)


def test_copies_share_what_is_held() -> None:
    net = Own((6,), 4)
    net.body = torch.ones(3)
    with client_threads(2):
        copies = each(lambda _: (threading.get_ident(), of_this_thread(net)), range(50))
    assert of_this_thread(net) is net
    for thread, copy in copies:
        assert (copy is net) is (thread == threading.get_ident())
        assert copy.body is net.body


def test_a_client_that_diverges_is_named(make_population: Population, task: Task) -> None:
    clients = make_population(SIZES)
    x = clients.x.clone()
    x[clients.support[4]] = torch.nan
    told = []
    for count in (1, 3):
        with client_threads(count), pytest.raises(DivergedError) as error:
            train(make_method("fedavg"), task, replace(clients, x=x), CONFIG, seed=0)
        told.append(str(error.value))
    assert told[0] == told[1]


def counting(client: int, pieces: int) -> Work[int]:
    for _ in range(pieces):
        yield
    return client


@pytest.mark.parametrize("n_clients", [0, 1, 2, 3, 5, 7, 12])
@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_results_come_in_order(n_clients: int, count: int) -> None:
    with client_threads(count):
        works = [counting(client, (7 * client) % 5) for client in range(n_clients)]
        assert finished(works) == list(range(n_clients))
    assert thread_count() == 1


def failing(client: int) -> Work[int]:
    yield
    if client:
        raise ValueError(f"client {client}")
    return client


@pytest.mark.parametrize("count", [1, 2, 3])
def test_the_first_clients_error_ends_the_work(count: int) -> None:
    with client_threads(count), pytest.raises(ValueError, match=r"client [1-4]"):
        finished([failing(client) for client in range(5)])


def test_who_interrupts_waits_for_the_others() -> None:
    """Ctrl-C comes to the thread that asked; when it goes on, no other works any more."""
    begun, working = threading.Event(), threading.main_thread()

    def work(client: int) -> Work[None]:
        for _ in range(10**6):
            if threading.current_thread() is working and begun.wait(10):
                raise KeyboardInterrupt
            begun.set()
            yield

    with client_threads(2), pytest.raises(KeyboardInterrupt):
        finished([work(client) for client in range(4)])


def test_helpers_work_as_who_asked() -> None:
    """Gradient mode and intra-op threads are a thread's own; work within work has one thread."""

    def seen(_: int) -> tuple[bool, int, int]:
        return torch.is_grad_enabled(), torch.get_num_threads(), thread_count()

    for mode in (True, False):
        with client_threads(3), torch.set_grad_enabled(mode):
            assert set(each(seen, range(30))) == {(mode, torch.get_num_threads(), 1)}
            assert thread_count() == 3


@pytest.mark.parametrize("count", [0, -1, 1.5, True, "2"])
def test_a_count_is_a_whole_number(count: Any) -> None:
    refused = pytest.raises(ValueError, match="whole number of at least 1, got count=")
    with refused, client_threads(count):
        pass


def test_multiplications_of_layers_called_by_keyword() -> None:
    class Keywords(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return functional.linear(input=x, weight=self.weight, bias=self.bias)

    assert multiplications(Keywords(6, 4), (6,)) == 24


def test_multiplications_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    lenet = 28 * 28 * 16 * 75 + 10 * 10 * 32 * 400 + 800 * 120 + 120 * 84 + 840
    assert multiplications(build("lenet", (3, 32, 32), 10), (3, 32, 32)) == lenet
    monkeypatch.setattr(targets, "_WORTH_A_THREAD", 3 * lenet)
    net = build("lenet", (3, 32, 32), 10)
    assert [gains_from_threads(net, (3, 32, 32), n) for n in (2, 3)] == [False, True]
