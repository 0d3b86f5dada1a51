"""p-values of newcomers: uniform for like ones, small for unlike ones, blind to labels."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import chisquare
from sklearn.datasets import load_sample_images

from latecomer.eval.federation.groups import build_federation
from latecomer.eval.measures.likeness import SeenClients, likeness, rank_p, seen_clients
from latecomer.eval.protocol import evaluate_cell
from latecomer.eval.settings.cell import FederationSettings
from latecomer.eval.studies.checking import parse_study
from latecomer.models.engine.training import subset
from latecomer.models.task.clients import Clients

SPLIT = {
    **{"kind": "by_class", "clients": 80, "certify": 24, "novel": 16, "seed": 0, "query": 0.25},
    **{"validation": 0.0, "reserve": 0.0, "classes_per_client": 2},
}
SHIFTS = {"blur": [3.0], "rotation": [90.0], "contrast": [0.5]}


def test_the_rank_of_a_distance() -> None:
    held_out = [1.0, 2.0, 2.0, 5.0]
    assert rank_p([0.0, 2.0, 2.5, 6.0], held_out).tolist() == [1.0, 0.8, 0.4, 0.2]
    with pytest.raises(ValueError, match="distance must be a finite number"):
        rank_p([float("nan")], held_out)


def drawn(n: int, draw: np.random.Generator, scale: float = 1.0) -> Clients:
    """Return clients whose classes have centres of their own, weighted anew by every client."""
    centres = 2 * np.random.default_rng(5).normal(size=(4, 6))
    weights = draw.dirichlet(np.ones(4), size=n)
    y = np.stack([draw.choice(4, size=12, p=one) for one in weights])
    x = scale * (centres[y] + draw.normal(size=(n, 12, 6)))
    rows, sizes = torch.arange(n * 12).view(n, 12), torch.full((n,), 12)
    return Clients(
        x=torch.from_numpy(x.reshape(-1, 6)),
        y=torch.from_numpy(y.reshape(-1)),
        support=rows,
        support_sizes=sizes,
        query=rows,
        query_sizes=sizes,
        ids=torch.arange(n),
        mean=torch.zeros((), dtype=torch.float64),
        sd=torch.ones((), dtype=torch.float64),
    )


def ranks_of_like_newcomers(learnt_from: slice, times: int = 200) -> list[int]:
    """Return how many p-values have each of 20 ranks, one newcomer a population."""
    counts = [0] * 20
    for seed in range(times):
        everyone = drawn(40, np.random.default_rng(seed))
        places = range(40)
        usual = seen_clients(subset(everyone, places[learnt_from]))
        known = usual.distances(subset(everyone, places[20:39]))
        (p,) = rank_p(usual.distances(subset(everyone, places[39:])), known)
        counts[round(20 * p) - 1] += 1
    return counts


@pytest.mark.slow
def test_p_values_of_like_newcomers_are_uniform() -> None:
    assert chisquare(ranks_of_like_newcomers(slice(0, 20))).pvalue > 0.01


@pytest.mark.slow
def test_they_are_not_if_the_distance_is_learnt_from_those_held_out() -> None:
    """The broken twin: clients that it was learnt from lie nearer than any newcomer."""
    assert chisquare(ranks_of_like_newcomers(slice(20, 39), times=60)).pvalue < 1e-6


def test_newcomers_of_another_spread_are_far() -> None:
    draw = np.random.default_rng(0)
    usual = seen_clients(drawn(30, draw))
    known = usual.distances(drawn(39, draw))
    for scale in (0.4, 2.5):
        assert (rank_p(usual.distances(drawn(40, draw, scale)), known) <= 0.05).mean() >= 0.8


def photographs(n: int) -> np.ndarray:
    """Return grey patches of 8x8 of two photographs, [n, 1, 8, 8] in [0, 1]."""
    images = [image.mean(axis=2) for image in load_sample_images().images]
    draw, patches = np.random.default_rng(0), np.empty((n, 1, 8, 8), dtype=np.float32)
    for patch in patches:
        image = images[draw.integers(len(images))]
        top, left = (draw.integers(side - 32) for side in image.shape)
        patch[0] = image[top : top + 32, left : left + 32].reshape(8, 4, 8, 4).mean((1, 3)) / 255
    return patches


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, np.ndarray]:
    """p-values of 64 novel clients of digits, by shift."""
    file, p = tmp_path_factory.mktemp("other") / "photographs.npz", dict[str, list[float]]()
    np.savez(file, x=photographs(1500), y=np.arange(1500) % 10)
    other = {"dataset": [{"name": "npz", "path": str(file), "label": "photographs"}]}
    for seed in range(4):
        split = {**SPLIT, "seed": seed}
        settings = FederationSettings(data={"name": "digits"}, split=split, shifts=SHIFTS | other)
        model: Any = SimpleNamespace(federation=build_federation(settings))
        for row in likeness(model)[0]:
            p.setdefault(row["shift"], []).append(row["value"])
    return {shift: np.array(values) for shift, values in p.items()}


@pytest.mark.parametrize("shift", [*SHIFTS, "photographs"])
def test_blurred_and_other_pictures_are_noticed(found: dict[str, np.ndarray], shift: str) -> None:
    assert len(found[shift]) == 64
    assert (found[shift] <= 0.05).mean() >= 0.8


def test_digits_like_those_certified_are_not(found: dict[str, np.ndarray]) -> None:
    # Of uniform ones, 4 splits of 16 newcomers beside 24 certified clients.
    for like in ("none", "photographs-control"):
        assert (found[like] <= 0.05).mean() < 0.15
        assert 0.35 < found[like].mean() < 0.68


def test_labels_and_models_are_not_read() -> None:
    federation = build_federation(FederationSettings(data={"name": "digits"}, split=SPLIT))
    bare = replace(federation.seen.clients, y=federation.seen.clients.y * 0)
    blind = replace(federation, seen=replace(federation.seen, clients=bare))
    told = [likeness(SimpleNamespace(federation=one)) for one in (federation, blind)]  # type: ignore[arg-type]
    assert told[0] == told[1]
    (row, *_), made = told[0]
    assert made == {}
    assert (row["metric"], row["n_clients"], row["group"]) == ("likeness_p", 24, "novel")


def test_without_certified_clients_there_is_nothing_to_be_like() -> None:
    settings = FederationSettings(data={"name": "digits"}, split={**SPLIT, "certify": 0})
    assert likeness(SimpleNamespace(federation=build_federation(settings))) == ([], {})  # type: ignore[arg-type]


def test_clients_that_all_agree_are_at_no_distance() -> None:
    clients = drawn(5, np.random.default_rng(0))
    same = replace(clients, support=clients.support[:1].repeat(5, 1))
    usual = seen_clients(same)
    assert isinstance(usual, SeenClients)
    assert np.isfinite(usual.distances(same)).all()
    assert usual.distances(same).max() < 1e-3


def test_a_study_asks_for_it() -> None:
    raw = {
        **{"study": "tiny", "data": {"name": "digits"}, "methods": ["fedavg"]},
        **{"split": {"kind": "iid", "clients": 20, "novel": 3, "certify": 9}},
        **{"shifts": {"blur": [3.0]}, "evaluation": {"measures": ["likeness"]}},
        "train": {"rounds": 1, "cohort": 2, "local_steps": 1, "batch_size": 4},
    }
    cells = parse_study(raw).cells()
    outcome = evaluate_cell(next(cell.config for cell in cells if cell.kind == "method"))
    rows = [row for row in outcome.rows if row["metric"] == "likeness_p"]
    assert [row["shift"] for row in rows] == ["none"] * 3 + ["blur"] * 3
    assert all(row["value"] >= 0.1 for row in rows)
