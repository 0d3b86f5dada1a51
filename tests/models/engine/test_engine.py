"""The training loop: determinism, weighting, client state, divergence."""

import pickle
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import pytest
import torch
from torch import Tensor

from latecomer.models.engine.local_steps import LocalSGD, local_sgd
from latecomer.models.engine.method import Context, Finish, Method, Predictor, Start
from latecomer.models.engine.schedule import Cohort, Schedule, TrainConfig
from latecomer.models.engine.training import DivergedError, RoundLog, train
from latecomer.models.methods.fedavg import FedAvg
from latecomer.models.methods.local import Local
from latecomer.models.methods.per_fedavg import PerFedAvg
from latecomer.models.methods.pfedhn import PFedHN
from latecomer.models.task.clients import Clients, Samples
from latecomer.models.task.state import Params, State, part
from latecomer.models.task.task import Task

CONFIG = TrainConfig(rounds=3, cohort=3, local_steps=4, batch_size=5)


def test_fedavg_round_is_the_size_weighted_mean(
    task: Task, make_population: Callable[..., Clients]
) -> None:
    clients, method = make_population((3, 20, 7, 11, 5)), FedAvg(local_lr=0.05)
    config = replace(CONFIG, rounds=1)
    schedule = Schedule(2, clients, config)
    cohort = schedule.cohort(0)
    initial = task.initial(schedule.initial_noise())
    expected = {key: torch.zeros_like(value) for key, value in initial.items()}
    for place in range(3):
        x = clients.inputs(cohort.rows[place, :, 0])
        y = clients.labels(cohort.rows[place, :, 0])

        def objective(p: Params, step: int, x: Tensor = x, y: Tensor = y) -> Tensor:
            return task.loss(p, x[step], y[step])

        final, _ = local_sgd(objective, initial, n_steps=4, rule=method.local)
        share = float(cohort.sizes[place]) / float(cohort.sizes.sum())
        for key in expected:
            expected[key] += share * final[key]
    state = train(method, task, clients, config, seed=2)
    for key, value in expected.items():
        torch.testing.assert_close(part(state.server, "target")[key], value, rtol=1e-5, atol=1e-6)


def test_per_fedavg_gradient_is_taken_at_the_adapted_weights(
    task: Task, make_population: Callable[..., Clients]
) -> None:
    method, clients = PerFedAvg(inner_lr=0.3), make_population()
    params = {
        k: v.requires_grad_() for k, v in task.initial(torch.Generator().manual_seed(0)).items()
    }
    batches = (clients.support_of(0), clients.query_of(0))
    loss = method.objective(task, params, Context(), batches, 0)
    found = torch.autograd.grad(loss, list(params.values()))
    inner = torch.autograd.grad(
        task.loss(params, batches[0].x, batches[0].labels()), list(params.values())
    )
    adapted = {
        k: (v - 0.3 * g).detach().requires_grad_()
        for (k, v), g in zip(params.items(), inner, strict=True)
    }
    outer = task.loss(adapted, batches[1].x, batches[1].labels())
    expected = torch.autograd.grad(outer, list(adapted.values()))
    assert loss.item() == pytest.approx(outer.item(), rel=1e-6)
    for left, right in zip(found, expected, strict=True):
        torch.testing.assert_close(left, right)


RESTING = PFedHN(local_lr=0.05, resting_embeddings="stay")


@pytest.mark.parametrize("method", [Local(local_lr=0.05), RESTING])
def test_clients_that_were_not_drawn_keep_their_state(
    task: Task, make_population: Callable[..., Clients], method: Method
) -> None:
    clients = make_population()
    schedule = Schedule(0, clients, CONFIG)
    initial = method.init(task, clients, schedule.cohort(0), schedule.initial_noise())
    trained = train(method, task, clients, CONFIG, seed=0)
    drawn = {int(m) for number in range(3) for m in schedule.cohort(number).members}
    assert 3 <= len(drawn) < 8
    for key, value in trained.clients.items():
        for index in range(8):
            same = torch.equal(value[index], initial.clients[key][index])
            assert same == (index not in drawn), (key, index)


def test_log_after_every_round(task: Task, make_population: Callable[..., Clients]) -> None:
    logs: list[RoundLog] = []
    train(FedAvg(), task, make_population(), CONFIG, seed=0, on_round=logs.append)
    assert [log.round for log in logs] == [0, 1, 2]
    assert 0.5 < logs[0].loss < 3


def test_divergence_names_method_round_and_client(
    task: Task, make_population: Callable[..., Clients]
) -> None:
    with pytest.raises(DivergedError) as caught:
        train(FedAvg(local_lr=1e38), task, make_population(), CONFIG, seed=0)
    error = caught.value
    assert error.method == "fedavg"
    assert error.round == 0
    assert error.client >= 100
    assert str(error) == (
        f"fedavg diverged: the loss of client {error.client} is not finite in round 0"
    )
    again = pickle.loads(pickle.dumps(error))
    assert (again.method, again.round, again.client) == ("fedavg", 0, error.client)


def test_unlabelled_training_clients_are_refused(
    task: Task, make_population: Callable[..., Clients]
) -> None:
    clients = replace(make_population(), labelled=False)
    with pytest.raises(ValueError, match="clients must be labelled to train on"):
        train(FedAvg(), task, clients, CONFIG, seed=0)


@dataclass(frozen=True, kw_only=True)
class Probe(Method):
    """A method from outside the package that records what its hooks are given."""

    name: ClassVar[str] = "probe"
    paper: ClassVar[str] = "none"
    personalization: ClassVar = "global"
    needs_labels: ClassVar[bool] = False
    batches_per_step: ClassVar[int] = 3
    seen: ClassVar[list[tuple[float, float, int, int]]] = []

    @property
    def local(self) -> LocalSGD:
        return LocalSGD(0.0)

    def init(
        self, task: Task, clients: Clients, first: Cohort, generator: torch.Generator
    ) -> State:
        return State(task.initial(generator), {"visits": torch.zeros(len(clients))})

    def start(
        self, task: Task, state: State, clients: Clients, cohort: Cohort, generator: torch.Generator
    ) -> Start:
        params = {k: v.expand(len(cohort), *v.shape) for k, v in state.server.items()}
        own = {"id": cohort.members.float()}
        return Start(params, own=own, shared={"round": torch.tensor(float(cohort.round))})

    def objective(
        self, task: Task, params: Params, context: Context, batches: tuple[Samples, ...], step: int
    ) -> Tensor:
        self.seen.append(
            (float(context.own["id"]), float(context.shared["round"]), len(batches), step)
        )
        return sum((task.loss(params, b.x, b.labels()) for b in batches), start=torch.zeros(()))

    def finish(
        self, task: Task, state: State, cohort: Cohort, start: Start, final: Params
    ) -> Finish:
        return Finish(uploads={}, kept={"visits": state.clients["visits"][cohort.members] + 1})

    def aggregate(
        self, task: Task, state: State, cohort: Cohort, start: Start, uploads: Params
    ) -> State:
        return state

    def personalize(
        self,
        task: Task,
        state: State,
        support: Samples,
        *,
        predictor: str = "deterministic",
        generator: torch.Generator,
    ) -> Predictor:
        return lambda x: task.logits(state.server, x)


def test_contexts_batches_and_client_state_reach_a_foreign_method(
    task: Task, make_population: Callable[..., Clients]
) -> None:
    Probe.seen.clear()
    clients = make_population()
    state = train(Probe(), task, clients, CONFIG, seed=0)
    schedule = Schedule(0, clients, CONFIG)
    expected = [
        (float(member), float(number), 3, step)
        for number in range(3)
        for member in schedule.cohort(number).members
        for step in range(4)
    ]
    assert Probe.seen == expected
    assert float(state.clients["visits"].sum()) == 9
