"""The training loop: determinism, weighting, client state, divergence."""

import pickle
from dataclasses import dataclass, replace
from typing import ClassVar

import pytest
import torch
from formula_federation import Population
from torch import Tensor

from latecomer.models.engine.local_steps import LocalSGD
from latecomer.models.engine.method import Context, Finish, Method, Predictor, Start
from latecomer.models.engine.schedule import Cohort, Schedule, TrainConfig
from latecomer.models.engine.training import DivergedError, RoundLog, train
from latecomer.models.methods.fedavg import FedAvg
from latecomer.models.task.clients import Clients, Samples
from latecomer.models.task.state import Params, State
from latecomer.models.task.task import Task

CONFIG = TrainConfig(rounds=3, cohort=3, local_steps=4, batch_size=5)


def test_log_after_every_round(task: Task, make_population: Population) -> None:
    logs: list[RoundLog] = []
    train(FedAvg(), task, make_population(), CONFIG, seed=0, on_round=logs.append)
    assert [log.round for log in logs] == [0, 1, 2]
    assert 0.5 < logs[0].loss < 3


def test_divergence_names_method_round_and_client(task: Task, make_population: Population) -> None:
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


def test_unlabelled_training_clients_are_refused(task: Task, make_population: Population) -> None:
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
    task: Task, make_population: Population
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
