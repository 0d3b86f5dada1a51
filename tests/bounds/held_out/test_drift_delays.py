"""How long alarms take after a planted drift, beside CUSUM: the table of the page, made here.

``python tests/bounds/held_out/test_drift_delays.py`` prints it, with MAPIE's row where that is
installed.  Clients score as the certified ones of CIFAR-10 do (mean .17, sd .09), from client 101
on more.
"""

from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from latecomer.bounds import drift_evidence, drift_evidence_restarted
from latecomer.bounds.certificate import Array

PAGE = Path(__file__).parents[3] / "docs" / "pages" / "arriving.md"
MEAN, SD, CHANGE, CLIENTS, RUNS, FEWER = 0.17, 0.09, 100, 1000, 2000, 100
THRESHOLD, ALPHA, RUN_LENGTH = 0.2, 0.05, 1000
DRIFTS = (0.0, 0.05, 0.1, 0.2)


def scores(rng: np.random.Generator, mean: float, shape: tuple[int, int]) -> Array:
    size = mean * (1 - mean) / SD**2 - 1
    return rng.beta(mean * size, (1 - mean) * size, shape)


def cusum(losses: Array, reference: float) -> Array:
    """Page's cumulative sums: S_t = max(0, S_{t-1} + L_t - reference)."""
    path, running = np.empty(losses.shape), np.zeros(len(losses))
    for seen in range(losses.shape[1]):
        running = np.maximum(0.0, running + losses[:, seen] - reference)
        path[:, seen] = running
    return path


def cusum_limit(in_control: float) -> float:
    """Limit that CUSUM passes once in about RUN_LENGTH clients whose law is known: no alarm among
    so many with probability 1/e, as times between rare alarms are nearly exponential."""
    losses = scores(np.random.default_rng(81), in_control, (4000, RUN_LENGTH))
    largest = cusum(losses, in_control + 0.05).max(axis=1)
    return float(np.quantile(largest, np.exp(-1)))


def alarms() -> dict[str, Callable[[Array], Array]]:
    """Every alarm as a path that rings at 1."""
    known, at_threshold = cusum_limit(MEAN), cusum_limit(THRESHOLD)
    return {
        "`drift_evidence` at 20": lambda x: ALPHA * drift_evidence(losses=x, threshold=THRESHOLD),
        "`drift_evidence_restarted` at 1,000": lambda x: (
            drift_evidence_restarted(losses=x, threshold=THRESHOLD) / RUN_LENGTH
        ),
        "CUSUM set for mean .20": lambda x: cusum(x, THRESHOLD + 0.05) / at_threshold,
        "CUSUM set for mean .17": lambda x: cusum(x, MEAN + 0.05) / known,
    }


def first_alarm(path: Array) -> Array:
    """Number of the client that rings, one after the last where none does."""
    rings = path >= 1.0
    return np.where(rings.any(axis=1), rings.argmax(axis=1) + 1, path.shape[1] + 1)


def mapie_alarm() -> dict[str, Callable[[Array], Array]]:
    """What MAPIE's RiskMonitoring rings by: it takes 0/1 losses alone, so its bound is called."""
    from mapie.exchangeability_testing import bounds  # type: ignore[import-not-found]

    bound = bounds.conjugate_mixture_empirical_bernstein_bound

    def alarm(losses: Array) -> Array:
        lower = [bound(x, v_opt=1, alpha=ALPHA, bound_side="lower") for x in losses]
        return np.asarray(lower) / THRESHOLD

    return {f"MAPIE's lower bound at .05 ({FEWER} runs)": alarm}


def measured(of: Mapping[str, Callable[[Array], Array]], runs: int) -> str:
    """Rows of the table: false alarms among 1,000 clients, then delays for every drift."""
    rows: dict[str, list[str]] = {}
    for number, drift in enumerate(DRIFTS):
        rng = np.random.default_rng(82 + number)
        before = scores(rng, MEAN, (runs, CHANGE))
        after = scores(rng, MEAN + drift, (runs, CLIENTS - CHANGE))
        losses = np.concatenate([before, after], axis=1)
        for name, alarm in of.items():
            rung = first_alarm(alarm(losses))
            if not drift:
                rows[name] = [f"{(rung <= CLIENTS).mean():.3f}"]
                continue
            late = np.sort(rung[rung > CHANGE]) - CHANGE
            rows[name].append(", ".join(shown(late, share) for share in (0.5, 0.9)))
    return "\n".join(f"| {name} | {' | '.join(cells)} |" for name, cells in rows.items())


def shown(delays: Array, share: float) -> str:
    """Delay within which that share of the runs rings, unless the stream ends before."""
    delay = int(delays[int(np.ceil(share * len(delays))) - 1])
    return str(delay) if delay <= CLIENTS - CHANGE else "over 900"


def table() -> str:
    drifts = " | ".join(f"+{drift:g}".replace("0.", ".") for drift in DRIFTS[1:])
    head = [f"| alarm | rings falsely | {drifts} |", "|---|---|" + "---|" * len(DRIFTS[1:])]
    return "\n".join([*head, measured(alarms(), RUNS)])


@pytest.mark.theory
def test_the_page_shows_this_table() -> None:
    assert table() in PAGE.read_text("utf-8")


@pytest.mark.theory
@pytest.mark.slow
def test_the_page_shows_mapies_row() -> None:
    pytest.importorskip("mapie")
    assert measured(mapie_alarm(), FEWER) in PAGE.read_text("utf-8")


if __name__ == "__main__":
    print(table())
    if find_spec("mapie") is not None:
        print(measured(mapie_alarm(), FEWER))
