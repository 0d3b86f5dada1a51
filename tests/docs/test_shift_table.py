"""The table of the page about populations that shift, computed anew from the committed scores."""

import csv
import lzma
import re
from pathlib import Path

import numpy as np
import pytest

from latecomer.bounds import ball_mixture, dkw_ball, kl_ball
from latecomer.bounds.held_out.bets import product_bets, product_wor_averaged_bets

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "pages" / "theory" / "population_shift.md"
ROWS = ROOT / "reports" / "reference" / "certificates-cifar10-50" / "rows.csv.xz"
RADII = {"kl": [0, 0.02, 0.05, 0.1, 0.2, 0.5], "tv": [0, 0.05, 0.1, 0.2, 0.3]}


def scores():
    found = {}
    with lzma.open(ROWS, "rt", encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if row["group"] == "certification" and row["metric"] == "error" and row["client"]:
                own = found.setdefault(int(row["seed"]), {})
                own[float(row["client"])] = float(row["value"])
    return {seed: np.array([own[client] for client in sorted(own)]) for seed, own in found.items()}


def curves(losses):
    """Certificates at all radii of the table, by rule."""
    rules = {
        "product": lambda **asked: ball_mixture(bets=product_bets(), **asked),
        "pool": lambda **asked: ball_mixture(bets=product_wor_averaged_bets(60, seed=0), **asked),
        "DKW": dkw_ball,
    }
    for name, rule in rules.items():
        yield (
            name,
            [
                float(rule(losses=losses, radius=radius, delta=0.05, ball=ball))
                for ball, radii in RADII.items()
                for radius in radii
            ],
        )


def shown(value):
    """Three digits, rounded up."""
    return f"{np.ceil(round(value * 1000, 9)) / 1000:.3f}".removeprefix("0")


@pytest.fixture(scope="module")
def certified():
    """Certificates by seed and rule."""
    return {seed: dict(curves(losses)) for seed, losses in sorted(scores().items())}


@pytest.mark.slow
def test_the_page_holds_what_the_scores_give(certified):
    lines = [
        f"| {seed} | {name} | {' | '.join(map(shown, values))} |"
        for seed, by_rule in certified.items()
        for name, values in by_rule.items()
    ]
    kept = re.findall(r"^\| [0-2] \| .*$", PAGE.read_text("utf-8"), flags=re.MULTILINE)
    assert kept == lines
    assert len(lines) == 9


@pytest.mark.slow
def test_what_the_page_says_of_kl_a_tenth(certified):
    """50 clients certify at most .40 where five temperatures and a union, or a band, say more."""
    mixed, pool, band = (
        [values[rule][3] for values in certified.values()] for rule in ("product", "pool", "DKW")
    )
    split = [float(kl_ball(losses=own, radius=0.1, delta=0.05)) for own in scores().values()]
    assert max(mixed) < 0.40
    assert max(pool) < 0.35
    assert (min(split), max(split)) == (
        pytest.approx(0.39, abs=5e-3),
        pytest.approx(0.42, abs=5e-3),
    )
    assert (min(band), max(band)) == (pytest.approx(0.49, abs=5e-3), pytest.approx(0.52, abs=5e-3))
    assert all(
        wide > narrow
        for values in certified.values()
        for wide, narrow in zip(values["DKW"], values["product"], strict=True)
    )
