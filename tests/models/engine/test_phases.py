"""Phases and stages: which weights train when, and that nothing else moves."""

from dataclasses import dataclass, replace
from typing import ClassVar

import pytest
import torch
from formula_federation import Population
from torch import Tensor

from latecomer.models.engine.fine_tuning import Tuning, tune_each
from latecomer.models.engine.local_steps import LocalSGD
from latecomer.models.engine.method import Context
from latecomer.models.engine.schedule import (
    Cohort,
    Phase,
    Stage,
    TrainConfig,
    divide,
    plan,
    refuse_few_rounds,
)
from latecomer.models.engine.training import train
from latecomer.models.families.global_weights import AveragedWeights
from latecomer.models.task.clients import Samples
from latecomer.models.task.heads import body_names, features, head_names, join, layers
from latecomer.models.task.state import Params, State
from latecomer.models.task.task import Task, make_task

CONFIG = TrainConfig(rounds=5, cohort=2, local_steps=4, batch_size=5)


@pytest.mark.parametrize("total", range(12))
@pytest.mark.parametrize("shares", [(1.0,), (5.0, 1.0), (1.0, 0.0, 3.0), (0.01, 1.0, 0.01)])
def test_parts_add_up_and_none_is_forgotten(total: int, shares: tuple[float, ...]) -> None:
    parts = divide(total, shares)
    assert sum(parts) == total
    assert all(n >= 0 for n in parts)
    assert all(n == 0 for n, share in zip(parts, shares, strict=True) if share == 0)
    if total >= len(shares):
        assert all(n > 0 for n, share in zip(parts, shares, strict=True) if share > 0)


def test_steps_of_a_stage_without_weights_go_to_the_others() -> None:
    assert plan((Stage((), 9.0), Stage(("a",), 1.0)), ["a"], 7) == [(("a",), 7)]
    assert plan((Stage(()),), ["a"], 7) == []


@dataclass(frozen=True, kw_only=True)
class Layered(AveragedWeights):
    """Trains the head in two rounds of five, then body before head."""

    name: ClassVar[str] = "layered"
    paper: ClassVar[str] = "none"
    personalization: ClassVar = "global"
    needs_labels: ClassVar[bool] = False
    steps: ClassVar[list[tuple[int, bool, bool]]] = []
    phases_met: ClassVar[list[str]] = []

    def phases(self, task: Task) -> tuple[Phase, ...]:
        head, body = Stage(head_names(task)), Stage(body_names(task), 3.0)
        return (Phase("head", 2.0, (head,)), Phase("both", 3.0, (body, head)))

    def objective(
        self, task: Task, params: Params, context: Context, batches: tuple[Samples, ...], step: int
    ) -> Tensor:
        moving = (params["head.weight"].requires_grad, params["dense1.weight"].requires_grad)
        self.steps.append((step, *moving))
        assert list(params) == list(task.shapes)
        return task.loss(params, batches[0].x, batches[0].labels())

    def aggregate(
        self, task: Task, state: State, cohort: Cohort, start: object, uploads: Params
    ) -> State:
        self.phases_met.append(cohort.phase)
        moved = {key.split(".")[0] for key, value in uploads.items() if bool(value.any())}
        assert moved == ({"head"} if cohort.phase == "head" else {"dense1", "dense2", "head"})
        return super().aggregate(task, state, cohort, start, uploads)  # type: ignore[arg-type]


def test_the_engine_follows_phases_and_stages(task: Task, make_population: Population) -> None:
    Layered.steps.clear()
    Layered.phases_met.clear()
    train(Layered(), task, make_population(), CONFIG, seed=0)
    assert Layered.phases_met == ["head"] * 2 + ["both"] * 3
    head = [(step, True, False) for step in range(4)]
    both = [(step, False, True) for step in range(3)] + [(3, True, False)]
    assert Layered.steps == head * 4 + both * 6


def test_fewer_steps_than_stages_are_refused(task: Task, make_population: Population) -> None:
    with pytest.raises(ValueError, match=r"at least 2 for layered, .*got 1$"):
        train(Layered(), task, make_population(), replace(CONFIG, local_steps=1), seed=0)


def test_fewer_rounds_than_phases_are_refused(task: Task, make_population: Population) -> None:
    clients, phases = make_population(), Layered().phases(task)
    with pytest.raises(ValueError, match=r"rounds must be .* 2 for layered, .* 2 phases.*, got 1$"):
        refuse_few_rounds(phases, 1, "layered")
    refuse_few_rounds(phases, 2, "layered")
    Layered.phases_met.clear()
    train(Layered(), task, clients, replace(CONFIG, rounds=2), seed=0)
    assert Layered.phases_met == ["head", "both"]


def test_heads_and_bodies(task: Task) -> None:
    assert layers(task) == ("dense1", "dense2", "head")
    assert head_names(task, 0) == ()
    assert head_names(task, 2)[0] == "dense2.weight"
    assert body_names(task) + head_names(task) == tuple(task.shapes)
    with pytest.raises(ValueError, match="at most the 3 layers of the target, got head_layers=4"):
        head_names(task, 4)
    params = task.initial(torch.Generator().manual_seed(0))
    assert list(join(task, dict(reversed(params.items())))) == list(task.shapes)


def test_features_are_what_the_head_is_given(task: Task) -> None:
    for built in (task, make_task(input_shape=(1, 8, 8), n_classes=4)):
        params = built.initial(torch.Generator().manual_seed(0))
        x = torch.randn(3, *built.input_shape, generator=torch.Generator().manual_seed(1))
        found = features(built, params, x)
        again = torch.nn.functional.linear(found, params["head.weight"], params["head.bias"])
        torch.testing.assert_close(again, built.logits(params, x))
    own = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.Tanh(), torch.nn.Linear(5, 4))
    foreign = replace(task, target=own)
    params = {key: value.detach() for key, value in own.named_parameters()}
    x = torch.randn(2, 6, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(features(foreign, params, x), own[:2](x).detach())


def test_fine_tuning_a_part_leaves_the_rest(task: Task, make_population: Population) -> None:
    support = make_population().support_of(0)
    start = task.initial(torch.Generator().manual_seed(0))

    def tune(trained: tuple[str, ...] | None, **more: object) -> Params:
        tuning = Tuning(LocalSGD(0.05), 9, 4, trained, **more)  # type: ignore[arg-type]
        return tune_each(task, [start], [support], tuning, [torch.Generator().manual_seed(1)])[0]

    tuned = tune(head_names(task))
    assert {k for k in start if not torch.equal(tuned[k], start[k])} == set(head_names(task))
    assert list(tuned) == list(start)
    assert all(torch.equal(tune(())[k], start[k]) for k in start)
    held = tune(None, penalty=lambda p: 1e3 * sum((p[k] - start[k]).abs().sum() for k in p))
    free = tune(None)

    def gone(p: Params) -> float:
        return sum(float((p[k] - start[k]).square().sum()) for k in p)

    assert gone(held) != gone(free)
