"""Frames about bounds: what belongs to what, and what is said about it."""

import math

import numpy as np
import pandas as pd
import pytest

from latecomer.eval.results.rows import make_row
from latecomer.reports.frames.bounds import (
    anatomy_frame,
    bound_frame,
    claims,
    ledger_frame,
    ledger_of,
    status,
)
from latecomer.reports.frames.chosen import declared_certificates
from latecomer.reports.frames.errors import accuracy_frame
from latecomer.reports.page.questions import answers_by_method, shared_terms

MODEL = {"method": "pefll", "label": "a", "seed": 0, "predictor": "deterministic", "shift": "none"}
PRODUCT = {"metric": "certificate", "bound": "r0:product", "population": "unseen-client",
           "group": "certification", "sampling": "finite-pool", "rigorous": True, "delta": 0.05,
           "n_clients": 2}  # fmt: skip


@pytest.fixture
def rows_of(read):
    return lambda *more: read([make_row(**{**MODEL, **fields}) for fields in more])


def error(group, client, value, **more):
    return {"group": group, "client": client, "metric": "error", "value": value, **more}


@pytest.fixture
def rows(rows_of):
    return rows_of(
        error("certification", 0, 0.1),
        error("certification", 1, 0.3),
        error("novel", 2, 0.0),
        error("novel", 3, 0.2),
        error("novel", 4, 0.7),
        error("novel", 2, 0.9, shift="blur", severity=1.0),
        error("novel", 2, 1.0, predictor="gibbs"),
        {**PRODUCT, "value": 0.6},
        {**PRODUCT, "value": 0.2, "term": "empirical_risk"},
        {**PRODUCT, "value": 0.4, "term": "price"},
        {**PRODUCT, "value": 0.9, "delta": 0.01},
        {**PRODUCT, "value": 0.2, "term": "empirical_risk", "delta": 0.01},
        {**PRODUCT, "value": 0.7, "term": "price", "delta": 0.01},
        {**PRODUCT, "bound": "ben_david", "value": 40.0, "shift": "blur", "severity": 1.0,
         "rigorous": False, "message": "heuristic", "population": "one-client", "group": "novel"},
        {**PRODUCT, "bound": "r0:conformal", "population": "next-client", "value": 0.2,
         "delta": 0.1},
        {**PRODUCT, "bound": "r0:conformal", "population": "next-client", "value": 0.2,
         "term": "quantile", "delta": 0.1},
    )  # fmt: skip


def test_bound_stands_beside_what_was_measured_under_its_own_condition(rows):
    frame = bound_frame(rows)
    assert len(frame) == 4
    product = frame[(frame["bound"] == "r0:product") & (frame["delta"] == 0.05)].iloc[0]
    assert product["value"] == 0.6
    assert product["certified"] == pytest.approx(0.2)
    assert product["measured"] == pytest.approx(0.3)
    assert (product["n_novel"], product["covered"], product["pool"]) == (3, 2, 5)
    assert not product["vacuous"]
    assert product["rigorous"]
    shifted = frame[frame["bound"] == "ben_david"].iloc[0]
    assert (shifted["measured"], shifted["n_novel"]) == (0.9, 1)
    assert shifted["vacuous"]
    assert not shifted["rigorous"]
    assert shifted["reason"] == "heuristic"


def test_two_levels_of_one_rule_stay_apart(rows):
    frame = bound_frame(rows)
    two = frame[frame["bound"] == "r0:product"]
    assert sorted(two["delta"]) == [0.01, 0.05]
    assert set(two["covered"]) == {2, 3}


def test_terms_stay_with_their_total_and_the_measured_part_comes_first(rows):
    frame = anatomy_frame(rows)
    assert set(frame["bound"]) == {"r0:product"}  # a bound of one term has no anatomy
    assert list(frame["term"]) == ["empirical_risk", "price"] * 2
    sums = frame.groupby("delta")["value"].sum()
    totals = frame.groupby("delta")["total"].first()
    np.testing.assert_allclose(sums, totals)


@pytest.mark.parametrize("value", [1.0, 1.5, math.inf])
def test_a_bound_of_one_and_more_is_vacuous(rows_of, value):
    frame = bound_frame(rows_of({**PRODUCT, "value": value}))
    assert frame["vacuous"].all()


def test_model_without_measured_clients_keeps_its_certificate(rows_of):
    frame = bound_frame(rows_of({**PRODUCT, "value": 0.5}))
    assert (len(frame), frame["n_novel"].iloc[0], frame["covered"].iloc[0]) == (1, 0, 0)
    assert np.isnan(frame["measured"].iloc[0])


def test_claims_of_a_bound_are_said_once(rows):
    frame = bound_frame(rows)
    said = claims(frame[frame["bound"] == "r0:product"])
    assert [text[:31] for text in said] == [
        "With probability at least 99% o",
        "With probability at least 95% o",
    ]
    assert all("the value below" in text for text in said)


def test_what_a_pool_leaves_comes_from_its_rows(rows_of):
    beside = {**PRODUCT, "metric": "certificate_pool"}
    made = rows_of(
        error("certification", 0, 0.1),
        {**PRODUCT, "value": 0.6},
        {**beside, "term": "others", "value": 0.9},
        {**beside, "term": "size", "value": 7.0},
        {**beside, "term": "left_out", "value": 3.0},
    )
    one = bound_frame(made).iloc[0]
    assert (one["others"], one["pool"], one["left_out"]) == (0.9, 7, 3.0)
    assert np.isnan(one["overlap"])


def test_status_says_vacuous_and_unproven_in_words(rows):
    frame = bound_frame(rows)
    assert status(frame[frame["bound"] == "r0:product"]) == {"word": "certificate", "text": ""}
    shifted = status(frame[frame["bound"] == "ben_david"])
    assert shifted["word"] == "vacuous"
    assert "Vacuous for 1 of 1" in shifted["text"]
    assert "Not proven for these models. Heuristic." in shifted["text"]
    useful = frame[frame["bound"] == "ben_david"].assign(vacuous=False)
    assert status(useful)["word"] == "not proven here"


def test_ledger_says_each_thing_once_and_inputs_as_a_range():
    record = {"bound": "x", "shift": "none", "severity": "", "predictor": "gibbs"}
    tables = [
        (
            "a",
            seed,
            [
                {**record, "kind": "assumption", "name": "0", "value": "", "text": "bounded loss"},
                {**record, "kind": "delta", "name": "clients", "value": "0.05", "text": ""},
                {**record, "kind": "input", "name": "norm", "value": repr(10.0 + seed),
                 "text": f"of seed {seed}"},
                {**record, "kind": "reason", "name": "reason", "value": "", "text": "estimated"},
            ],
        )
        for seed in (0, 1)
    ]  # fmt: skip
    told = ledger_of(ledger_frame(tables), "x")
    assert told["assumption"] == [{"text": "bounded loss"}]
    assert told["reason"] == [{"text": "estimated"}]
    assert told["source"] == []
    assert told["delta"] == [{"name": "clients", "text": "", "range": "0.05", "n": 2}]
    assert told["input"] == [
        {"name": "norm", "text": "For example: of seed 0", "range": "10 to 11", "n": 2}
    ]
    assert ledger_of(ledger_frame([]), "x")["input"] == []


def test_frames_without_certificates_are_empty(rows_of):
    rows = rows_of(error("novel", 1, 0.5))
    assert bound_frame(rows).empty
    assert anatomy_frame(rows).empty
    assert isinstance(bound_frame(rows), pd.DataFrame)


def test_terms_are_shared_by_a_majority_or_not_at_all():
    common, odd, none = {"terms": "a"}, {"terms": "b"}, {"terms": ""}
    assert shared_terms([common, common, odd, none]) == "a"
    assert shared_terms([common, odd]) == ""
    assert shared_terms([none]) == ""


@pytest.fixture
def headline(rows_of):
    def told(n_novel, **more):
        # What a mean of at most .4 leaves for those not scored, beside two with .2 on average.
        spare = ((2 + n_novel) * 0.4 - 2 * 0.2) / n_novel
        left = {**PRODUCT, "metric": "certificate_pool", "term": "others", "value": spare}
        made = rows_of(
            error("certification", 0, 0.1),
            error("certification", 1, 0.3),
            *(error("novel", 10 + i, 0.2) for i in range(n_novel)),
            {**PRODUCT, "value": 0.4, **more},
            *([left] if more.get("sampling") != "iid" else []),
        )
        study = {"certificates": [{"route": "r0", "rule": "product"}]}
        return answers_by_method(
            accuracy_frame(made), declared_certificates(bound_frame(made), study)
        )[0]

    return told


def test_the_headline_of_a_pool_that_was_mostly_scored_is_what_it_leaves_for_the_others(headline):
    # Three clients with a mean of at most .4, two of which have .2: .8 is left for the third.
    told = headline(1)
    assert told["certified"] == (
        "certified at most 80.0% for the 1 client neither trained on nor scored"
    )
    assert "The value is what that bound leaves" in told["terms"]
    assert "40" not in told["certified"], "never the pool's mean alone"


def test_the_headline_is_the_bound_where_most_were_not_scored_or_clients_are_independent(headline):
    assert headline(3)["certified"] == "certified at most 40.0%"
    told = headline(1, sampling="iid")
    assert told["certified"] == "certified at most 40.0%"
    assert "new clients of the same environment" in told["terms"]
