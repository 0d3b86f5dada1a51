"""FLUX and FEROMA: rounds against figures of their authors' code, clusters, and edge cases."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import formula_federation
import numpy as np
import pytest
import torch
from formula_federation import (
    Population,
    a_task,
    by_formula,
    cohort_of,
    federation,
    holding,
    next_state,
)
from sklearn.cluster import DBSCAN
from torch import Tensor

from latecomer.models.engine.schedule import TrainConfig
from latecomer.models.engine.training import subset, train, train_on
from latecomer.models.families.client_profiles import ABSENT, knee, linked, moments
from latecomer.models.methods import feroma, make_method
from latecomer.models.task.clients import Clients, Samples
from latecomer.models.task.state import State, part, row
from latecomer.models.task.task import Task, make_task

GOLDEN = json.loads((Path(__file__).parents[2] / "golden/published_rounds.json").read_text())
CLIENTS = federation(GOLDEN["flux"]["sizes"])
# The newcomers of the figures: clients 6 and 9, of 8 and 12 samples.
OTHERS = federation([8] * 9 + [12])
NEWCOMERS = [OTHERS.support_of(6), OTHERS.support_of(9)]
PATHS = pytest.mark.parametrize("path", ["serial", "vectorised"])


def begun(name: str, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, State]:
    """Return the method with the figures' local step, and weights given by the formula."""
    told = GOLDEN[name]
    plain = {"local_momentum": told["momentum"], "local_weight_decay": 0.0, "clip_norm": 1e9}
    method = make_method(name, local_lr=told["lr"], **plain)
    with monkeypatch.context() as patch:
        patch.setattr(Task, "initial", lambda task, generator: by_formula(GOLDEN["shapes"]))
        return method, method.init(a_task(), CLIENTS, cohort_of(CLIENTS, [0]), torch.Generator())


def after(method: Any, state: State, path: str, number: int) -> State:
    phase = method.phases(a_task())[1]
    return next_state(method, state, CLIENTS, [*range(6)], path, number=number, phase=phase)


assert_all_like = partial(formula_federation.assert_all_like, rounding=1e-12)


def like(found: Tensor, told: Any) -> bool:
    return bool(np.allclose(found.numpy(), np.array(told), rtol=1e-9, atol=1e-9))


@PATHS
def test_two_rounds_of_flux(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    told = GOLDEN["flux"]
    method, state = begun("flux", monkeypatch)
    for number, one in enumerate(told["rounds"]):
        state = after(method, state, path, number)
        assert state.server["cluster"].tolist() == told["cluster"]
        for index, figures in enumerate(one["of"]):
            own = int(state.server["cluster"][index])
            assert_all_like(row(part(state.server, "models"), own), figures)
    assert state.server["profile.top"].item() == pytest.approx(told["top"], rel=1e-12)
    assert like(state.server["centroid"][state.server["cluster"]], told["centroids"])
    for support, newcomer in zip(NEWCOMERS, told["newcomers"], strict=True):
        assert like(method.describe(a_task(), state, support), newcomer["profile"])
        assert method.nearest(a_task(), state.server, support) == newcomer["cluster"]


@PATHS
def test_three_rounds_of_feroma(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    told = GOLDEN["feroma"]
    method, state = begun("feroma", monkeypatch)
    for number, one in enumerate(told["rounds"]):
        places = iter(one["halves"])
        with monkeypatch.context() as patch:
            patch.setattr(feroma, "drawn_halves", lambda *_, p=places: torch.tensor(next(p)))
            state = after(method, state, path, number)
        assert next(places, None) is None
        assert like(state.server["trained.profile"], one["profile"])
        for index, figures in enumerate(one["reached"]):
            assert_all_like(row(part(state.clients, "model"), index), figures)
    for support, newcomer in zip(NEWCOMERS, told["newcomers"], strict=True):
        assert like(method.describe(a_task(), state, support), newcomer["profile"])
        got = method.personalize(a_task(), state, support, generator=torch.Generator())
        assert_all_like(got.weights, told["rounds"][-1]["reached"][newcomer["client"]])


# Of kneed 0.9.0, KneeLocator(curve="convex", direction="increasing").elbow.
KNEES = {(5, 1): 4, (5, 8): 3, (8, 1): None, (8, 2): 3, (8, 4): 4, (12, 1): 11, (12, 8): 5}
KNEES |= {(3, 1): None, (20, 4): 19, (20, 8): 10, (33, 2): 32, (33, 8): 20}


@pytest.mark.parametrize(("n", "power"), KNEES)
def test_knees_are_those_that_others_find(n: int, power: int) -> None:
    heights = np.sort((0.5 + 0.5 * np.sin(0.7310585786 * np.arange(1, n + 1))) ** power)
    assert knee(heights) == KNEES[n, power]
    assert knee(5 * heights + 2) == KNEES[n, power]


def test_clusters_are_those_of_dbscan_whose_noise_stands_alone() -> None:
    """A core of two points links whatever is within eps; a point that is not, is noise."""
    several = set()
    for seed in range(40):
        draw = np.random.default_rng(seed)
        points = draw.normal(size=(25, 3)) + 6 * draw.integers(3, size=(25, 1))
        apart = np.sqrt(np.square(points[:, None] - points[None]).sum(axis=2))
        nearest = np.sort((apart + np.diag(np.full(25, np.inf))).min(axis=1))
        at = knee(nearest)
        eps = float(nearest[-1 if at is None else at])
        scanned = DBSCAN(eps=eps * (1 + 1e-12), min_samples=2).fit_predict(points)
        alone = scanned == -1
        scanned[alone] = scanned.max() + 1 + np.arange(alone.sum())
        found = linked(points)
        assert len({*zip(found, scanned, strict=True)}) == len({*found}) == len({*scanned})
        assert list(dict.fromkeys(found.tolist())) == [*range(found.max() + 1)]
        several.add(len({*found}))
    assert len(several) > 3


@pytest.mark.parametrize("points", [[[1.0]], [[1.0], [2.0]], [[3.0]] * 5], ids=len)
def test_few_or_equal_clients_are_one_cluster(points: list[list[float]]) -> None:
    assert linked(np.array(points)).tolist() == [0] * len(points)


def test_moments_by_class_are_numpys() -> None:
    draw = torch.Generator().manual_seed(0)
    z = torch.randn(9, 3, generator=draw, dtype=torch.float64)
    y = torch.tensor([0, 0, 0, 0, 2, 2, 2, 3, 2])
    found = moments(z, torch.nn.functional.one_hot(y, 4).double(), 2).view(2, 4, 3)
    for kind, of in enumerate((np.mean, np.std)):
        for label in (0, 2):
            np.testing.assert_allclose(found[kind, label], of(z[y == label].numpy(), axis=0))
        assert bool((found[kind, [1, 3]] == ABSENT).all())


def two_concepts(n: int = 12, size: int = 120) -> Clients:
    """Return clients of alike inputs; every second one calls class c what others call c + 1."""
    draw, inner = torch.Generator().manual_seed(7), torch.arange(n * size).view(n, size) % 4
    centres = 3 * torch.randn(4, 6, generator=torch.Generator().manual_seed(1))
    x = centres[inner] + 0.5 * torch.randn(n, size, 6, generator=draw)
    y = (inner + (torch.arange(n) % 2)[:, None]) % 4
    rows = torch.arange(n * size).view(n, size)
    query, sizes = rows[:, -24:].contiguous(), torch.full((n,), 24)
    support, many = rows[:, :-24].contiguous(), torch.full((n,), size - 24)
    return holding(x.flatten(0, 1), y.flatten(), support, many, query=query, query_sizes=sizes)


def right(predict: Any, samples: Samples) -> float:
    return float((predict(samples.x).argmax(1) == samples.labels()).float().mean())


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_two_groups_of_concepts_are_found_and_served_apart(seed: int) -> None:
    clients, task = two_concepts(), make_task(input_shape=(6,), n_classes=4)
    config = TrainConfig(rounds=30, cohort=6, local_steps=5, batch_size=8)

    def trained(name: str, **settings: float) -> tuple[State, float]:
        method = make_method(name, local_lr=0.05, **settings)
        state, draw = train(method, task, clients, config, seed=seed), torch.Generator()
        served = 0.0
        for i in range(12):
            support, query = clients.support_of(i), clients.query_of(i)
            served += right(method.serve(task, state, i, support, generator=draw), query)
        return state, served / 12

    # One model cannot call alike inputs by two names.
    assert trained("fedavg")[1] < 0.6
    assert trained("feroma")[1] > 0.95
    state, share = trained("flux", eps_scale=2)
    assert state.server["cluster"].tolist() == [0, 1] * 6
    assert share > 0.95
    # The published factor splits like clients up, but no cluster holds clients of both groups.
    state, share = trained("flux")
    clusters = state.server["cluster"].tolist()
    assert not {*clusters[::2]} & {*clusters[1::2]}
    assert share > 0.95


def test_clients_that_join_flux_get_the_cluster_of_their_inputs(
    task: Task, make_population: Population
) -> None:
    clients, method = make_population(), make_method("flux")
    config = TrainConfig(rounds=4, cohort=3, local_steps=2, batch_size=6)
    before = train(method, task, subset(clients, range(6)), config, seed=0)
    after = train_on(method, task, before, clients, config, seed=0, first_round=4, joined=[6, 7])
    known = after.server["cluster"].tolist()
    assert known[:6] == before.server["cluster"].tolist()
    theirs = [method.nearest(task, before.server, clients.support_of(i)) for i in (6, 7)]
    assert known[6:] == theirs


@pytest.mark.parametrize("name", ["flux", "feroma"])
def test_before_any_profile_everyone_is_served_the_one_model(
    name: str, task: Task, make_population: Population
) -> None:
    clients, config = make_population(), TrainConfig(rounds=1, cohort=3, local_steps=2)
    method, fedavg = make_method(name, warm_up=0.9), make_method("fedavg")
    states = [train(one, task, clients, config, seed=0) for one in (method, fedavg)]
    support, x = clients.support_of(0), clients.query_of(0).x
    for how in ("serve", "personalize"):
        place = (0,) if how == "serve" else ()
        logits = [
            getattr(one, how)(task, state, *place, support, generator=torch.Generator())(x)
            for one, state in zip((method, fedavg), states, strict=True)
        ]
        assert torch.equal(*logits)
    assert method.describe(task, states[0], support) is None


@pytest.mark.parametrize("name", ["flux", "feroma"])
def test_a_newcomer_without_samples_is_refused(
    name: str, task: Task, make_population: Population
) -> None:
    config = TrainConfig(rounds=2, cohort=3, local_steps=2)
    method, clients = make_method(name), make_population()
    state = train(method, task, clients, config, seed=0)
    bare = Samples(clients.x[:0], None)
    with pytest.raises(ValueError, match=f"support must hold at least 1 sample for {name}, got 0"):
        method.personalize(task, state, bare, generator=torch.Generator())


def test_halves_are_random_halves() -> None:
    draw = torch.Generator().manual_seed(0)
    for size, half in ((1, 1), (2, 1), (9, 4)):
        found = feroma.drawn_halves(size, 3, draw).view(3, half)
        assert bool((found < size).all())
        assert all(len(set(one.tolist())) == half for one in found)
    assert len({tuple(one) for one in feroma.drawn_halves(9, 3, draw).view(3, 4).tolist()}) > 1
