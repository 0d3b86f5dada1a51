"""Dropout: whose masks, when they act, and that both paths see the same ones."""

from dataclasses import replace
from functools import partial

import pytest
import torch
from formula_federation import Population, dense_task, model_of, quick
from torch import Tensor, nn
from torch.nn import functional as F

from latecomer.models.engine.method import Context
from latecomer.models.engine.schedule import Schedule, TrainConfig, units_kept
from latecomer.models.engine.training import train
from latecomer.models.methods import METHODS
from latecomer.models.methods.fedavg import FedAvg
from latecomer.models.task import targets
from latecomer.models.task.clients import Samples
from latecomer.models.task.state import part
from latecomer.models.task.task import make_task

CONFIG = TrainConfig(rounds=3, cohort=4, local_steps=5, batch_size=4)
SIZES = (3, 20, 7, 11, 5, 1, 9)


make = partial(dense_task, dropout=0.2)


def test_masks_reach_the_net_bit_for_bit_whatever_the_path(
    make_population: Population, dropped: list[Tensor]
) -> None:
    clients, task = make_population(SIZES, dtype=torch.float64), make()
    masks = []
    for path, size in (("serial", None), ("vectorised", None), ("vectorised", 2)):
        dropped.clear()
        train(FedAvg(), task, clients, CONFIG, seed=4, path=path, chunk_size=size)
        found = torch.stack(dropped)
        if path == "serial":
            found = found.view(3, 4, 5, 4, 10)  # round, client, step, sample, unit
        elif size is None:
            found = found.view(3, 5, 4, 4, 10).transpose(1, 2)
        else:
            found = found.view(3, 2, 5, 2, 4, 10).transpose(2, 3).reshape(3, 4, 5, 4, 10)
        masks.append(found)
    schedule = Schedule(4, clients, CONFIG)
    for number in range(3):
        drawn = schedule.cohort(number).kept_units(task)
        assert all(torch.equal(found[number], drawn) for found in masks)


def test_a_mask_belongs_to_seed_round_client_and_step_alone(make_population: Population) -> None:
    clients, task = make_population(SIZES), make()
    cohort = Schedule(0, clients, CONFIG).cohort(1)
    kept = cohort.kept_units(task)
    assert kept is not None
    assert kept.dtype == torch.bool
    assert kept.shape == (4, 5, 4, 10)
    assert torch.equal(cohort.kept_units(task, slice(1, 3)), kept[1:3])
    # Not to the company a client trains in, nor to how many batches a step has.
    alone = replace(cohort, members=cohort.members[2:3], rows=cohort.rows[2:3])
    assert torch.equal(alone.kept_units(task), kept[2:3])
    assert torch.equal(Schedule(0, clients, CONFIG).cohort(1, 3).kept_units(task), kept)
    # Fewer steps are the first of more.
    short = replace(cohort, rows=cohort.rows[:, :2])
    assert torch.equal(short.kept_units(task), kept[:, :2])
    others = [
        kept[1],
        kept[0].roll(1, 0),
        replace(cohort, round=2).kept_units(task)[0],
        replace(cohort, seed=1).kept_units(task)[0],
    ]
    assert Schedule(1, clients, CONFIG).cohort(1).seed == 1
    assert all(not torch.equal(kept[0], other) for other in others)


def test_units_are_dropped_with_the_probability_of_the_net() -> None:
    import numpy as np

    kept = units_kept(np.random.default_rng(0), make(), 50, 200)
    share = kept.double().mean(dim=(0, 1))  # 10,000 draws for each of ten units: sd 0.004
    assert float((share - 0.8).abs().max()) < 0.016
    # Unscaled in evaluation: the mean over masks of what a unit passes on is the unit.
    x = torch.rand(10, dtype=torch.float64) + 0.5
    passed = targets.drop(x, kept, 0.2).mean(dim=(0, 1))
    torch.testing.assert_close(passed, x, rtol=0.02, atol=0)


def test_a_step_is_the_gradient_of_the_thinned_net(make_population: Population) -> None:
    clients, task = make_population(SIZES, dtype=torch.float64), make()
    config = TrainConfig(rounds=1, cohort=1, local_steps=1, batch_size=4)
    method = FedAvg(local_lr=0.1, local_momentum=0.0, local_weight_decay=0.0)
    after = part(train(method, task, clients, config, seed=0).server, "target")
    schedule = Schedule(0, clients, config)
    cohort = schedule.cohort(0)
    kept = cohort.kept_units(task)[0, 0]
    begun = method.init(task, clients, cohort, schedule.initial_noise())
    p = {k: v.requires_grad_() for k, v in part(begun.server, "target").items()}
    x, y = clients.inputs(cohort.rows[0, 0, 0]), clients.labels(cohort.rows[0, 0, 0])
    hidden = F.relu(x @ p["dense1.weight"].T + p["dense1.bias"])
    hidden = F.relu(hidden @ p["dense2.weight"].T + p["dense2.bias"])
    hidden = torch.where(kept, hidden / 0.8, torch.zeros_like(hidden))
    loss = F.cross_entropy(hidden @ p["head.weight"].T + p["head.bias"], y)
    for (key, value), slope in zip(
        p.items(), torch.autograd.grad(loss, list(p.values())), strict=True
    ):
        torch.testing.assert_close(after[key], value - 0.1 * slope)


@pytest.mark.parametrize("name", METHODS)
def test_nothing_is_dropped_in_serving_but_by_fine_tuning(
    make_population: Population, name: str, dropped: list[Tensor]
) -> None:
    clients, task = make_population(), make(dtype=torch.float32)
    method = quick(name)
    state = train(method, task, clients, replace(CONFIG, rounds=2), seed=0)
    novel = make_population(seed=1)
    support, x = novel.support_of(0), novel.query_of(0).x
    logits, tuned = [], []
    for _ in range(2):
        dropped.clear()
        predict = model_of(method, task, state, support, seed=3)
        tuned.append(len(dropped))
        dropped.clear()
        logits.append(predict(x))
        assert not dropped
    assert torch.equal(*logits)
    fine_tunes = method.personalization in ("finetune", "local", "embedding")
    assert tuned[0] == tuned[1]
    assert (tuned[0] > 0) == fine_tunes


@pytest.mark.parametrize("name", ["dense", "mlp"])
def test_nets_without_dropout_draw_and_change_nothing(
    make_population: Population, name: str
) -> None:
    task = make_task(input_shape=(6,), n_classes=4, target=name)
    schedule = Schedule(0, make_population(), CONFIG)
    assert schedule.cohort(0).kept_units(task) is None
    assert task.dropping(None, 3) is task


def test_dense500_is_the_net_with_dropout(make_population: Population) -> None:
    task = make_task(input_shape=(6,), n_classes=4, target="dense500")
    config = TrainConfig(rounds=2, cohort=2, local_steps=2, batch_size=3)
    schedule = Schedule(0, make_population(), config)
    kept = schedule.cohort(0).kept_units(task)
    assert kept.shape == (2, 2, 3, 500)
    assert 0.75 < float(kept.double().mean()) < 0.85
    state = train(FedAvg(), task, make_population(), config, seed=0)
    assert all(bool(value.isfinite().all()) for value in state.server.values())


def test_a_forward_pass_of_another_length_is_refused() -> None:
    task = make()
    stepping = task.dropping(torch.ones(2, 4, 10, dtype=torch.bool), 0)
    params = task.initial(torch.Generator().manual_seed(0))
    x = torch.zeros(8, 6, dtype=torch.float64)
    batch = Samples(x, torch.zeros(8, dtype=torch.int64))
    with pytest.raises(ValueError, match=r"must be of its minibatch's 4 samples, got 8$"):
        FedAvg().objective(stepping, params, Context(), (batch,), 0)


class OwnDropout(nn.Module):
    """Somebody's net, which drops units by torch's generator for the whole process."""

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        self.body = nn.Linear(6, 4)
        self.layers = nn.Sequential(nn.ReLU(), nn.Dropout(p))

    def forward(self, x: Tensor) -> Tensor:
        made: Tensor = self.layers(self.body(x))
        return made


def test_a_net_that_draws_by_itself_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^target must draw nothing .*, got Dropout in module '"):
        make_task(input_shape=(6,), n_classes=4, target=OwnDropout())
    with pytest.raises(ValueError, match=r"got RReLU in module '0'"):
        make_task(input_shape=(6,), n_classes=4, target=nn.Sequential(nn.RReLU(), nn.Linear(6, 4)))
    for net in (OwnDropout(0.0), OwnDropout().eval()):
        assert make_task(input_shape=(6,), n_classes=4, target=net).n_parameters == 28
