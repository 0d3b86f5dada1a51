"""Newcomers without labels, of kept runs: eight entries, three seeds."""

import pytest
from sketches import kept_run

from latecomer.reports.frames.errors import client_errors, pair_frame

DIGITS, CIFAR10 = "without-labels-digits-shifted", "without-labels-cifar10-shifted"
# The methods that are told apart from the nearest model of a seen client.
APART = {DIGITS: set(), CIFAR10: {"pfl_ensemble"}, "without-labels-people": {"flux"}}


@pytest.fixture(scope="module", params=APART)
def kept(request):
    return request.param


@pytest.fixture(scope="module")
def rows(kept):
    return kept_run(kept).rows


def test_every_entry_is_there_with_every_seed_and_nothing_failed(rows):
    errors = client_errors(rows)
    assert errors["label"].nunique() == 8
    assert set(errors.groupby("label")["seed"].nunique()) == {3}
    assert (rows["status"] == "done").all()


def test_few_methods_are_told_apart_from_the_nearest_model(kept, rows):
    errors = client_errors(rows)
    pairs = pair_frame(errors[(errors["group"] == "novel") & (errors["shift"] == "none")])
    own = pairs[(pairs["label"] == "pfl_nearest") | (pairs["other"] == "pfl_nearest")]
    apart = own[own["p_holm"] < 0.05]
    assert {*apart["label"], *apart["other"]} - {"pfl_nearest"} == APART[kept]


def noticed(run):
    """Return the shares of new clients whose p-value is at most .05, by shift and severity."""
    rows = kept_run(run).rows
    told = rows[(rows["metric"] == "likeness_p") & (rows["label"] == "fedavg")]
    rung = (told["value"] <= 0.05).groupby([told["shift"], told["severity"]], dropna=False).mean()
    return {(shift, f"{severity:g}"): share for (shift, severity), share in rung.items()}


def test_newcomers_with_other_pictures_or_much_blur_are_noticed_and_like_ones_are_not():
    by = noticed(DIGITS)
    assert by["mnist", "nan"] >= 0.8
    assert by["blur", "3"] >= 0.8
    assert by["none", "nan"] <= 0.05 + 2 * (0.05 * 0.95 / 72) ** 0.5
    assert by["mnist-control", "nan"] == by["none", "nan"]


def test_on_cifar10_rotation_and_blur_are_noticed_and_other_photographs_of_six_clients_in_ten():
    by = noticed(CIFAR10)
    assert by["none", "nan"] == 0
    assert all(by["rotation", severity] == 1 for severity in ("15", "30", "45"))
    assert by["blur", "1"] == by["blur", "2"] == 1
    assert by["photographs", "nan"] == 0.6
    assert by["photographs-control", "nan"] == 0.3
