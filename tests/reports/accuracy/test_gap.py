"""The interval of a gap: over clients and seeds, and wide enough."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sketches import rows_of

from latecomer.reports.frames.gaps import gap_intervals, gap_pairs


def test_a_gap_and_its_parts() -> None:
    errors = {
        "seen": np.array([[0.1, 0.2, 0.3], [0.1, 0.2, 0.6]]),
        "novel": np.array([[0.4, 0.2], [0.5, 0.3]]),
    }
    frame = gap_intervals(rows_of(errors))
    seen, novel = errors["seen"].mean(axis=0), errors["novel"].mean(axis=0)
    assert frame["gap"][0] == pytest.approx(novel.mean() - seen.mean())
    seeds = errors["novel"].mean(axis=1) - errors["seen"].mean(axis=1)
    pieces = [seen.var(ddof=1) / 3, novel.var(ddof=1) / 2, seeds.var(ddof=1) / 2]
    freedom = sum(pieces) ** 2 / sum(p**2 / n for p, n in zip(pieces, (2, 1, 1), strict=True))
    half = stats.t.ppf(0.975, freedom) * sum(pieces) ** 0.5
    assert frame["upper"][0] - frame["gap"][0] == pytest.approx(half)


def test_one_client_or_one_seed() -> None:
    one = {"seen": np.array([[0.1, 0.2]]), "novel": np.array([[0.4]])}
    assert gap_intervals(rows_of(one))["lower"].isna().all()
    single = {"seen": np.array([[0.1, 0.2]]), "novel": np.array([[0.4, 0.3]])}
    frame = gap_intervals(rows_of(single))
    assert frame["n_seeds"].tolist() == [1]
    assert np.isfinite(frame["lower"]).all()


def test_models_are_corrected_for_being_several() -> None:
    near = {"seen": np.array([[0.1, 0.2, 0.15]]), "novel": np.array([[0.3, 0.35, 0.32]])}
    both = pd.concat([rows_of(near, "a"), rows_of(near, "b")])
    frame = gap_intervals(both)
    assert frame["p_holm"].tolist() == pytest.approx((2 * frame["p"]).tolist())


def test_gaps_of_models_are_compared_on_the_same_clients() -> None:
    """Clients differ by far more than the models do; differences client by client show it."""
    rng = np.random.default_rng(5)
    clients = {g: rng.uniform(0, 0.5, (2, 12)) for g in ("seen", "novel")}
    shifted = {**clients, "novel": clients["novel"] + 0.05 + 0.001 * rng.random((2, 12))}
    found = gap_pairs(pd.concat([rows_of(clients, "a"), rows_of(shifted, "b")]))
    assert found["difference"].tolist() == pytest.approx([-0.05], abs=0.001)
    assert found["p_holm"].item() < 0.001
    same = gap_pairs(pd.concat([rows_of(clients, "a"), rows_of(clients, "b")]))
    assert same[["difference", "p_holm"]].to_numpy().tolist() == [[0.0, 1.0]]


def test_clients_and_seeds_that_one_model_lacks_are_left_out() -> None:
    rng = np.random.default_rng(6)
    errors = {g: rng.uniform(0, 0.5, (3, 6)) for g in ("seen", "novel")}
    less = {g: table[:2, :5] for g, table in errors.items()}
    found = gap_pairs(pd.concat([rows_of(errors, "a"), rows_of(less, "b")]))
    assert found["difference"].item() == pytest.approx(0.0, abs=1e-15)


@pytest.mark.thinned
@pytest.mark.theory
@pytest.mark.parametrize(("clients", "seeds", "own"), [(12, 3, 0.02), (24, 1, 0.0), (40, 5, 0.1)])
def test_the_true_gap_is_inside_as_often_as_said(clients: int, seeds: int, own: float) -> None:
    """Clients and seeds have effects of their own; ``own`` is the spread of a seed's gap."""
    rng = np.random.default_rng(3)
    trials = []
    for trial in range(300):
        gaps = rng.normal(0.1, own, seeds)[:, None]
        errors = {
            group: rng.normal(0.2, 0.1, clients) + rng.normal(0, 0.05, (seeds, clients))
            for group in ("seen", "novel")
        }
        errors["novel"] = errors["novel"] + gaps
        trials.append(rows_of(errors, str(trial)))
    # An interval knows nothing of other models.
    frame = gap_intervals(pd.concat(trials))
    assert len(frame) == 300
    inside = (frame["lower"] <= 0.1) & (frame["upper"] >= 0.1)
    assert inside.sum() >= 0.92 * 300


@pytest.mark.theory
def test_an_interval_over_clients_alone_is_too_narrow() -> None:
    """What the share of the seeds is for: without it, seeds that differ leave the interval."""
    rng = np.random.default_rng(4)
    trials = []
    for trial in range(300):
        gaps = rng.normal(0.1, 0.1, 3)[:, None]
        clients = {g: rng.normal(0.2, 0.05, (1, 40)) + np.zeros((3, 1)) for g in ("seen", "novel")}
        trials.append(rows_of({**clients, "novel": clients["novel"] + gaps}, str(trial)))
    rows, client = pd.concat(trials), ["label", "group", "client"]
    averaged = rows.groupby(client, as_index=False)["value"].mean()
    means = rows.drop_duplicates(client).drop(columns="value").merge(averaged)
    frame = gap_intervals(means)
    assert len(frame) == 300
    inside = (frame["lower"] <= 0.1) & (frame["upper"] >= 0.1)
    assert inside.sum() < 0.8 * 300
