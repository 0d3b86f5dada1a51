"""Shifted populations: whom they touch, what they hold, and what they are compared with."""

import sys
from itertools import count

import numpy as np
import pytest
from doors import refusal
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from latecomer.errors import InputError
from latecomer.eval.datasets import load_dataset, make_dataset
from latecomer.eval.protocol import evaluate_cell
from latecomer.eval.runs.runner import _prepare
from latecomer.eval.scoring.scores import ClientScore, paired_effect
from latecomer.eval.shifts.other_data_set import fit_inputs, refill
from latecomer.eval.shifts.populations import (
    apply_own,
    import_shift,
    shifted_populations,
    source_hash,
)
from latecomer.eval.splits.build import label_counts, make_split
from latecomer.eval.studies.checking import parse_study
from latecomer.files import sum_of

DIGITS = load_dataset({"name": "digits"})
KINDS = (
    {"kind": "by_class", "classes_per_client": 2},
    {"kind": "by_class", "classes_per_client": 3, "shares": "uniform"},
    {"kind": "pathological", "shards_per_client": 2},
    {"kind": "dirichlet", "alpha": 0.5},
    {"kind": "dirichlet", "alpha": 0.5, "form": "draws"},
    {"kind": "iid"},
    {"kind": "environment", "classes_per_client": 2},
)
MIRROR = "def mirror(x, severity, rng):\n    return x[..., ::-1] * severity\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("other")
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(2, 10), 90)
    np.savez(place / "other.npz", x=rng.integers(0, 255, (len(y), 12, 12), np.uint8), y=y)
    (place / "own.py").write_text(MIRROR)
    return place


def shifts_of(folder):
    return {
        "blur": [1.0],
        "noise": [0.1, 0.2],
        "contrast": [0.5],
        "brightness": [-0.2],
        "dataset": [{"name": "npz", "path": str(folder / "other.npz"), "label": "other"}],
        "function": [{"path": f"{folder}/own.py:mirror", "label": "mirror", "severities": [1.0]}],
    }


def populations(split, shifts, seed=0):
    return shifted_populations(DIGITS, split, shifts, seed=seed, query=0.25, validation=0.2)


def bytes_of(x, rows):
    return {x[row].tobytes() for row in rows}


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(options=st.sampled_from(KINDS), seed=st.integers(0, 20), novel=st.integers(1, 6))
def test_no_training_sample_in_any_evaluated_client(folder, options, seed, novel):
    reserve = 0.2
    try:
        split = make_split(
            DIGITS, clients=20, certify=3, novel=novel, seed=seed, reserve=reserve, **options
        )
        found = populations(split, shifts_of(folder) | {"extrapolation": [0.5]}, seed)
    except InputError:
        reject()
    # Every image of digits is distinct, so a mark in one pixel-exact copy identifies the row.
    trained = np.concatenate([c.rows("all") for c in split.seen])
    held_out = np.concatenate([c.rows("all") for c in (*split.certification, *split.novel)])
    assert not np.isin(held_out, trained).any()
    marks = bytes_of(DIGITS.x, trained)
    for one in found:
        rows = np.concatenate([c.rows("all") for c in one.rows])
        if one.x is DIGITS.x:
            assert not np.isin(rows, trained).any()
        assert not marks & bytes_of(one.x, rows) or one.shift == "brightness"
        for client in one.rows:
            assert len(client.support)
            assert len(client.query)
            assert not set(client.query) & set(client.support)
    plain = [c.id for c in split.novel]
    for one in found:
        if one.shift in ("blur", "noise", "contrast", "brightness", "mirror"):
            assert [c.id for c in one.rows] == plain
            for a, b in zip(split.novel, one.rows, strict=True):
                np.testing.assert_array_equal(DIGITS.y[a.query], one.y[b.query])


def test_the_same_seed_gives_the_same_shifts_whatever_else_is_asked(folder):
    split = make_split(DIGITS, kind="iid", clients=20, novel=4)
    everything = populations(split, shifts_of(folder))
    alone = populations(split, {"noise": [0.2]})[0]
    noisy = {one.severity: one for one in everything if one.shift == "noise"}
    np.testing.assert_array_equal(noisy[0.2].x, alone.x)
    again = populations(split, shifts_of(folder))
    for a, b in zip(everything, again, strict=True):
        np.testing.assert_array_equal(a.x, b.x)
    assert (populations(split, {"noise": [0.2]}, seed=1)[0].x != alone.x).any()
    clean = np.concatenate([DIGITS.x[c.rows("all")] for c in split.novel])
    small, large = ((noisy[s].x - clean) / s for s in (0.1, 0.2))
    assert abs(np.corrcoef(small.ravel(), large.ravel())[0, 1]) < 0.05, "severities differ in draw"
    n = len(split.novel[0].rows("all"))
    first, second = large[:n].ravel(), large[n : 2 * n].ravel()[: n * 64]
    assert abs(np.corrcoef(first[: len(second)], second[: len(first)])[0, 1]) < 0.1
    assert large.std() == pytest.approx(1, abs=0.02)


def test_a_refilled_client_and_its_control_hold_the_same_classes(folder):
    split = make_split(DIGITS, kind="by_class", clients=20, novel=2, classes_per_client=3)
    shifted, control = populations(split, {"dataset": shifts_of(folder)["dataset"]})
    assert (shifted.shift, control.shift) == ("other", "other-control")
    assert [c.id for c in shifted.rows] == [c.id for c in control.rows]
    own = {c.id: c for c in split.novel}
    for role in ("support", "validation", "query"):
        moved = label_counts(shifted.y, shifted.rows, 10, role=role)
        stayed = label_counts(control.y, control.rows, 10, role=role)
        np.testing.assert_array_equal(moved, stayed)
        whole = label_counts(DIGITS.y, [own[c.id] for c in control.rows], 10, role=role)
        whole[:, :2] = 0
        np.testing.assert_array_equal(stayed, whole)
    for client in control.rows:
        assert np.isin(client.rows("all"), own[client.id].rows("all")).all()
    used = np.concatenate([c.rows("all") for c in shifted.rows])
    assert len(np.unique(used)) == len(used)
    assert shifted.x.shape[1:] == (1, 8, 8)


def test_clients_without_their_classes_are_listed(folder):
    split = make_split(DIGITS, kind="by_class", clients=10, novel=6, classes_per_client=1)
    shifted = populations(split, {"dataset": shifts_of(folder)["dataset"]})[0]
    gone = {c.id for c in split.novel if DIGITS.y[c.query[0]] < 2}
    left_out = {lack.client for lack in shifted.lacks if lack.left_out}
    assert left_out == gone
    assert {c.id for c in shifted.rows} == {c.id for c in split.novel} - gone
    scarce = {lack.client for lack in shifted.lacks} - left_out
    # Ninety images of each class do not replace all of a client's 178 or so.
    assert scarce == {c.id for c in shifted.rows}
    assert all("too few of class" in k.message for k in shifted.lacks if k.client in scarce)
    assert all("has no samples of class" in k.message for k in shifted.lacks if k.left_out)


def test_classes_are_matched_by_name_where_both_have_names():
    x = np.zeros((40, 4), np.float32)
    names = ("Cat", "dog", "frog", "horse")
    source = make_dataset("a", x, np.arange(40) % 4, provenance="", class_names=names)
    x = (np.arange(40) % 4).astype(np.float32)[:, None] * np.ones((1, 4), np.float32)
    names = ("horse", "monkey", "cat", "dog")
    target = make_dataset("b", x, np.arange(40) % 4, provenance="", class_names=names)
    split = make_split(source, kind="iid", clients=4, novel=2)
    found = refill(source, target, split.novel, label="b", rng=np.random.default_rng(0))
    expected = {0: 2.0, 1: 3.0, 3: 0.0}
    assert {(int(y), expected[int(y)]) for y in found.y} == {
        (int(y), float(x[0])) for x, y in zip(found.x, found.y, strict=True)
    }
    assert all("class 2 frog" in lack.message for lack in found.lacks)


def test_inputs_are_fitted_by_the_stated_rule():
    bright = np.full((2, 1, 6, 6), 255, np.uint8)
    assert fit_inputs(bright, (3, 4, 4), "b").shape == (2, 3, 4, 4)
    np.testing.assert_allclose(fit_inputs(bright, (3, 4, 4), "b"), 1, atol=1e-6)
    halves = np.zeros((1, 1, 8, 8), np.float32)
    halves[..., 4:] = 1
    small = fit_inputs(halves, (1, 2, 2), "b")[0, 0]
    assert small[0, 0] < 0.2 < 0.8 < small[0, 1]
    same = np.random.default_rng(0).random((3, 5)).astype(np.float32)
    np.testing.assert_array_equal(fit_inputs(same, (5,), "b"), same)
    for x, shape in (((2, 5), (6,)), ((2, 3, 4, 4), (1, 4, 4)), ((2, 16), (1, 4, 4))):
        with pytest.raises(InputError, match="cannot take the source's shape"):
            fit_inputs(np.zeros(x, np.float32), shape, "b")


def test_the_paired_difference_is_taken_client_by_client():
    control = [ClientScore(i, 5, 10, wrong, 1.0) for i, wrong in enumerate((1, 5, 3))]
    shifted = [ClientScore(i, 5, 10, wrong, 1.0) for i, wrong in enumerate((3, 7, 6))]
    mean, *interval = paired_effect(shifted, control)
    assert mean == pytest.approx(0.7 / 3)
    # Clients differ widely, their differences, .2, .2 and .3, little: t with two degrees is 4.303.
    half = 4.302653 * 0.1 / 3
    assert interval == pytest.approx((0.7 / 3 - half, 0.7 / 3 + half))
    alike = [ClientScore(i, 5, 10, wrong, 1.0) for i, wrong in enumerate((3, 7, 5))]
    assert np.isnan(paired_effect(alike, control)[1])
    with pytest.raises(ValueError, match="the same clients"):
        paired_effect(shifted[:2], control)


@pytest.mark.slow
def test_a_cell_reports_the_effect_and_what_is_missing(folder):
    config = {
        "study": "s",
        "kind": "method",
        "data": {"name": "digits"},
        "split": {"kind": "by_class", "clients": 12, "novel": 4, "classes_per_client": 2},
        "model": {},
        "method": {"name": "fedavg"},
        "train": {"rounds": 2, "cohort": 2, "local_steps": 2, "batch_size": 8},
        "evaluation": {"classes": "all"},
        "shifts": {"dataset": shifts_of(folder)["dataset"]},
        "seed": 0,
    }
    rows = evaluate_cell(config).rows
    errors = {
        name: {r["client"]: r["value"] for r in rows if r.get("shift") == name and r.get("client")}
        for name in ("other", "other-control")
    }
    effect = next(r for r in rows if r["metric"] == "shift_effect")
    difference = [errors["other"][c] - errors["other-control"][c] for c in errors["other"]]
    assert effect["value"] == pytest.approx(np.mean(difference))
    assert effect["n_clients"] == len(difference)
    assert effect["lower"] <= effect["value"] <= effect["upper"]
    split = evaluate_cell(config | {"kind": "split", "method": None})
    missing = [r for r in split.rows if r["metric"] == "samples_missing"]
    assert all(r["message"] and r["value"] > 0 for r in missing)
    assert missing


DRAWS = count()


def test_a_users_function_is_checked(tmp_path):
    x, rng = np.ones((2, 3), np.float32), np.random.default_rng(0)
    assert apply_own(lambda x, s, r: x * s, "f", x, 2.0, rng).tolist() == [[2.0] * 3] * 2
    for function, words in (
        (lambda x, s, r: x[:1], "must return numbers of shape"),
        (lambda x, s, r: x / 0.0, "must return finite numbers, got inf"),
        (lambda x, s, r: "no", "must return numbers"),
        (lambda x, s, r: x + None, "failed: TypeError"),
        (lambda x, s, r: sys.exit(0), "failed: SystemExit"),
        (lambda x, s, r: x + next(DRAWS), "must draw from the generator that it is given"),
    ):
        with np.errstate(all="ignore"), pytest.raises(InputError, match=words) as caught:
            apply_own(function, "f", x, 1.0, rng)
        assert "\n" not in str(caught.value)

    def careless(inputs, severity, rng):
        inputs[:] = 0
        return inputs

    apply_own(careless, "f", x, 1.0, rng)
    assert x.all(), "the data set is not written to"
    (tmp_path / "syntax.py").write_text("def f(:")
    (tmp_path / "undefined.py").write_text("def f(x, severity, rng: Generator):\n    return x")
    for path, words in (
        (f"{tmp_path}/syntax.py:f", "syntax.py failed: SyntaxError: invalid syntax"),
        (f"{tmp_path}/undefined.py:f", "undefined.py failed: NameError: name 'Generator' is not"),
        ("numpy", "must read module:function"),
        ("numpy:no such", "must read module:function"),
        ("nowhere_to_be_found:f", "there is no module"),
        ("numpy:pi", "has no function pi"),
        (f"{tmp_path}/absent.py:f", "there is no file"),
    ):
        with pytest.raises(InputError, match=words):
            import_shift(path)


STUDY = {
    "study": "s",
    "data": {"name": "digits"},
    "split": {"kind": "iid", "clients": 20, "novel": 4},
    "methods": ["fedavg"],
}


WRAPPED = """
from functools import partial, wraps
import torch

def plain(x, severity, rng, factor=2):
    return x * factor

bound = partial(plain, factor=3)
unmoved = torch.no_grad()(plain)

class Scale:
    def __call__(self, x, severity, rng):
        return x * 4

kept = Scale()
"""


@pytest.mark.parametrize("name", ["plain", "bound", "unmoved", "kept"])
def test_a_changed_file_is_noticed_whatever_the_function_is(tmp_path, name):
    (tmp_path / "mine.py").write_text(WRAPPED)
    path = f"{tmp_path}/mine.py:{name}"
    before = source_hash(path)
    assert before == source_hash(path) != ""
    if name == "plain":
        assert before == sum_of(tmp_path / "mine.py"), "cells have the ids that they had"
    (tmp_path / "mine.py").write_text(WRAPPED.replace("factor=3", "factor=5"))
    assert source_hash(path) != before


def test_a_changed_function_or_data_set_makes_new_cells(folder):
    study = parse_study(STUDY | {"shifts": shifts_of(folder)})
    plain = parse_study(STUDY)
    assert _prepare(plain).cells[0].config["data_hash"] == DIGITS.content_hash
    before = _prepare(study).cells[0].config["data_hash"]
    (folder / "own.py").write_text(MIRROR + "# changed\n")
    assert _prepare(study).cells[0].config["data_hash"] != before
    (folder / "own.py").write_text(MIRROR)
    assert _prepare(study).cells[0].config["data_hash"] == before


@pytest.mark.parametrize(
    ("shifts", "words"),
    [
        ({"noise": [0]}, "shifts.noise.0: must be greater than 0"),
        ({"contrast": [11]}, "shifts.contrast.0: must be less than or equal to 10"),
        ({"brightness": [-2]}, "shifts.brightness.0: must be greater than or equal to -1"),
        ({"dataset": [{"name": "npz"}]}, "shifts.dataset.0.label must be given"),
        ({"dataset": {"name": "npz"}}, "shifts.dataset: must be a list"),
        (
            {"function": [{"path": "a.py", "label": "b"}]},
            "function.0.path: must read module:function or file.py:function, got 'a.py'",
        ),
        ({"function": [{"path": "a:b", "label": "blur"}]}, "a label of its own, got blur again"),
        (
            {"function": [{"path": "a:b", "label": "x"}, {"path": "a:c", "label": "x"}]},
            "a label of its own, got x again",
        ),
        ({"function": [{"path": "a:b", "label": "x", "severity": 1}]}, "did you mean"),
        ({"noize": [1]}, "did you mean shifts.noise?"),
    ],
)
def test_bad_settings_are_said_in_one_line(shifts, words):
    assert words in refusal(parse_study, STUDY | {"shifts": shifts})


@pytest.mark.parametrize(
    ("split", "words"),
    [
        ({"kind": "pathological"}, "split.shards_per_client must be given"),
        ({"kind": "iid", "classes_per_client": 2}, "is no setting of a iid split"),
        ({"kind": "environment", "classes_per_client": 2, "min_samples": 3}, "is no setting"),
        ({"kind": "dirichlet", "alpha": 1.0, "form": "drawn"}, "did you mean 'draws'?"),
        ({"kind": "by_class", "classes_per_client": 2, "shares": "even"}, "split.shares: must be"),
        ({"kind": "patological"}, "did you mean 'pathological'?"),
    ],
)
def test_bad_splits_are_said_in_one_line(split, words):
    assert words in refusal(parse_study, STUDY | {"split": {"clients": 20, **split}})


def test_rules_must_fit_how_the_clients_are_drawn():
    def study(kind, rule):
        options = {"environment": {"classes_per_client": 2}, "iid": {}}[kind]
        split = {"kind": kind, "clients": 20, "certify": 5, "novel": 10, **options}
        return parse_study(STUDY | {"split": split, "certificates": [{"rule": rule}]})

    assert study("environment", "wsr_averaged").certificates[0].rule == "wsr_averaged"
    assert study("iid", "wsr_wor").certificates[0].rule == "wsr_wor"
    assert "finite pool: leave the rule out" in refusal(study, "iid", "wsr_averaged")
    assert "are independent: leave the rule out" in refusal(study, "environment", "wsr_wor")
