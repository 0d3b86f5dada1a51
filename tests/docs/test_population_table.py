"""The table of measured populations on the theory page, computed anew from the committed run."""

from pathlib import Path

import pandas as pd
import pytest

from latecomer.eval.results.rows import load_run
from latecomer.reports.display.section import Material
from latecomer.reports.frames.bounds import population_curves, population_points, worst_group
from latecomer.reports.guarantees.next_population import measured_frame

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "pages" / "theory" / "population_shift.md"
METHODS = ("fedavg", "knn_per", "pefll")
BALLS = ("certified_kl", "certified_tv", "certified_chi2", "certified_subgroup")


@pytest.fixture(scope="module", params=["population-shift-digits", "population-shift-dirichlet"])
def material(request: pytest.FixtureRequest) -> Material:
    return Material.of(load_run(ROOT / "reports" / "reference" / request.param))


@pytest.fixture(scope="module")
def measured(material: Material) -> pd.DataFrame:
    curves = population_curves(material.tables("population_curve"))
    return measured_frame(curves, population_points(material.rows))


def rate(value: float) -> str:
    return f"{value:.3f}".lstrip("0")


def lines(measured: pd.DataFrame) -> list[str]:
    """Write the table's rows: measured and certified, of the seed where these lie closest."""
    written = []
    for _, own in measured.groupby("population"):
        first = own.iloc[0]
        cells = [f"{first['kl']:.2f}", f"{first['tv']:.2f}", f"{first['chi2']:.2f}"]
        for method in METHODS:
            part = own[own["label"] == method]
            seed = part.loc[(part["certified_kl"] - part["measured"]).idxmin()]
            cells += [rate(seed["measured"]), rate(seed["certified_kl"])]
        written.append(f"| {' | '.join(cells)} |")
    return written


def test_the_page_has_the_table(measured: pd.DataFrame) -> None:
    page = PAGE.read_text("utf-8")
    for line in lines(measured):
        assert line in page


def test_no_certificate_lies_under_a_measured_error(material, measured):
    """Nothing here is within a standard error; of the worst groups nothing is measured above."""
    assert len(measured) == 7 * 3 * len(METHODS)
    over = measured["measured"] + measured["standard_error"]
    assert (measured[list(BALLS)].min(axis=1) > over).all()
    assert measured[list(BALLS)[:3]].notna().all(axis=None)
    worst = worst_group(material.rows)
    assert (worst["measured"] < worst["value"]).all()
    gap = (measured[list(BALLS)].min(axis=1) - measured["measured"]).min()
    assert f"at least {100 * gap:.1f} points" in PAGE.read_text("utf-8")
    fifth = worst[worst["share"] == 0.2].groupby("label")[["value", "measured"]].max()
    for method in METHODS:
        told = f"{rate(fifth.loc[method, 'measured'])} and {rate(fifth.loc[method, 'value'])}"
        assert told in PAGE.read_text("utf-8")
