"""Newcomers without labels, of kept runs: eight entries, three seeds, digits and people."""

from pathlib import Path

import pytest

from latecomer.eval.results.rows import load_run
from latecomer.reports.frames.comparison import pair_frame
from latecomer.reports.frames.errors import client_errors

KEPT = Path(__file__).parents[3] / "reports" / "reference"
DIGITS, PEOPLE = "without-labels-digits-shifted", "without-labels-people"


@pytest.fixture(scope="module", params=[DIGITS, PEOPLE])
def rows(request):
    return load_run(KEPT / request.param).rows


def test_every_entry_is_there_with_every_seed_and_nothing_failed(rows):
    errors = client_errors(rows)
    assert errors["label"].nunique() == 8
    assert set(errors.groupby("label")["seed"].nunique()) == {3}
    assert (rows["status"] == "done").all()


def test_no_method_is_told_apart_from_the_nearest_model_but_flux_on_people(rows):
    errors = client_errors(rows)
    pairs = pair_frame(errors[(errors["group"] == "novel") & (errors["shift"] == "none")])
    own = pairs[(pairs["label"] == "pfl_nearest") | (pairs["other"] == "pfl_nearest")]
    apart = own[own["p_holm"] < 0.05]
    people = "Gender M" in set(rows["shift"])
    assert set(apart["label"]) | set(apart["other"]) == (
        {"flux", "pfl_nearest"} if people else set()
    )


def test_newcomers_with_other_pictures_or_much_blur_are_noticed_and_like_ones_are_not():
    rows = load_run(KEPT / DIGITS).rows
    told = rows[(rows["metric"] == "likeness_p") & (rows["label"] == "fedavg")]
    rung = (told["value"] <= 0.05).groupby([told["shift"], told["severity"]], dropna=False).mean()
    by = {(shift, f"{severity:g}"): share for (shift, severity), share in rung.items()}
    assert by["mnist", "nan"] >= 0.8
    assert by["blur", "3"] >= 0.8
    assert by["none", "nan"] <= 0.05 + 2 * (0.05 * 0.95 / 72) ** 0.5
    assert by["mnist-control", "nan"] == by["none", "nan"]
