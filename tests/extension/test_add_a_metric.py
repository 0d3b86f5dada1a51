"""A metric of every served client is a measure that computes it, and a section that shows it."""

import csv

import pytest

METRIC = '''
"""Expected calibration error: how far confidence and accuracy of served clients are apart."""

from latecomer.eval.measures.kinds.declaration import Measure

BINS = 10


def calibration_error(model):
    """Return a row ``calibration_error`` for each novel client (Guo et al. 2017, equation 3)."""
    import torch

    method, group, rows = model.method, model.federation.novel, []
    for place, client in enumerate(group.clients.ids.tolist()):
        support, query = group.clients.support_of(place), group.clients.query_of(place)
        served = method.personalize(
            model.task, model.state, support, predictor=method.predictors[-1],
            generator=torch.Generator().manual_seed(model.seed),
        )
        with torch.no_grad():
            confidence, chosen = torch.softmax(served(query.x), dim=-1).max(dim=-1)
        right = (chosen == query.labels()).double()
        bins = (confidence * BINS).long().clamp(max=BINS - 1)
        apart = torch.zeros(BINS, dtype=torch.float64)
        apart.index_add_(0, bins, right - confidence.double())
        value = float(apart.abs().sum() / len(query))
        told = {"client": client, "metric": "calibration_error", "value": value}
        rows.append({**group.condition(), "predictor": method.predictors[-1], **told})
    return rows, {}


MEASURES = (
    Measure(
        name="calibration_error",
        description="how far confidence and accuracy of novel clients are apart",
        work=f"{__name__}:calibration_error",
    ),
)
'''
SECTION = '''
"""How well served clients know what they do not know."""

import pandas as pd

from latecomer.certify.words import percent
from latecomer.reports.display.section import Section
from latecomer.reports.display.pictures import Table


def _calibration(material):
    rows = material.rows[material.rows["metric"] == "calibration_error"]
    if rows.empty:
        return
    frame = rows.groupby("label")["value"].mean().reset_index()
    shown = frame.assign(value=[percent(value) for value in frame["value"]])
    yield Table("calibration", "Mean expected calibration error.", frame, shown, ("label",))


CALIBRATION = Section("calibration", _calibration, title="Confidence of new clients' models")
'''


@pytest.mark.nightly
def test_a_measure_and_a_section_bring_it_from_study_to_page(package):
    package.write("eval/measures/kinds/calibration.py", METRIC)
    package.write("reports/accuracy/calibration.py", SECTION)
    page = package.run_study("evaluation: {measures: [calibration_error]}")
    with (package.root / "run" / "rows.csv").open(encoding="utf-8", newline="") as file:
        found = [row for row in csv.DictReader(file) if row["metric"] == "calibration_error"]
    values = [float(row["value"]) for row in found]
    assert len(values) == 5
    assert 0 <= min(values) <= max(values) <= 1
    assert "Confidence of new clients' models" in page
    assert len(package.written) == 2
