"""What certificates are made of, how far they are from measurements, what holds under shift."""

import io
import json
import math

import numpy as np
import pandas as pd
import pytest
from sketches import Sketcher

from latecomer.certify.words import DASH
from latecomer.eval.names import statement
from latecomer.eval.results.rows import load_run, make_row
from latecomer.reports.frames.bounds import bound_frame, ledger_frame
from latecomer.reports.frames.gaps import gap_frame
from latecomer.reports.guarantees.each_bound import (
    QUANTITIES,
    bound_table,
    parts_frame,
    parts_table,
    variance_frame,
    variance_table,
)
from latecomer.reports.guarantees.slack import (
    order_frame,
    order_table,
    references,
    slack_frame,
    slack_table,
)
from latecomer.reports.page.cards import model_command
from latecomer.reports.page.method import _exceptions
from latecomer.reports.page.page import page_of
from latecomer.reports.shift.curves import certified_under, say_certified, say_terms

CERTIFICATE = {"metric": "certificate", "population": "unseen-client", "group": "certification",
               "sampling": "finite-pool", "rigorous": True, "delta": 0.05, "n_clients": 2,
               "shift": "none", "predictor": "deterministic"}  # fmt: skip


@pytest.fixture
def read_made(read):
    return lambda rows: read([make_row(**row) for row in rows])


def errors(label, seed, group, values, predictor="deterministic"):
    return [
        {"method": "pefll", "label": label, "seed": seed, "predictor": predictor, "group": group,
         "client": client, "metric": "error", "value": value, "shift": "none"}
        for client, value in enumerate(values)
    ]  # fmt: skip


def bound(label, seed, name, terms, **more):
    common = {"method": "pefll", "label": label, "seed": seed, **CERTIFICATE, "bound": name, **more}
    total = {**common, "term": "", "value": sum(terms.values())}
    return [total, *({**common, "term": term, "value": value} for term, value in terms.items())]


def fact(kind, name, value, text="", **more):
    return {"bound": "r1:product", "shift": "none", "severity": "", "predictor": "gibbs",
            "kind": kind, "name": name, "value": value, "text": text, **more}  # fmt: skip


def r1_facts(total=0.3, delta=0.04):
    return [
        fact("total", "value", total),
        fact("term", "empirical_risk", 0.1),
        fact("term", "draws", 0.05),
        fact("term", "clients", total - 0.15),
        fact("delta", "draws", 0.01),
        fact("delta", "clients", delta),
        fact("input", "kl_hyper", 0.75, "nats"),
        fact("input", "alpha", 0.03),
        fact("input", "n_priors", 3.0),
        fact("input", "gibbs_error", 0.1),
        fact("input", "mean_parameter_error", 0.08),
        fact("source", "source", "", "somebody"),
    ]


def test_a_certificate_shows_errors_divergence_variance_terms_and_ledger():
    parts = parts_frame(ledger_frame([("a", 0, r1_facts())]))
    shown = parts_table(parts, "t", "r1:product", ["a"]).shown
    assert dict(zip(shown["part"], shown["seed 0"], strict=True)) == PARTS


PARTS = {
    "error of drawn models": "10.0%",
    "error of the fixed weights": "8.0%",
    "KL of the system (nats)": "0.75",
    "variance taken": "0.03",
    "variances tried": "3",
    "1 - geometric mean of (1 - error) (points)": "10.0",
    "+ Monte Carlo (points)": "5.0",
    "+ choice of clients (points)": "15.0",
    "value": "30.0%",
    "delta: draws": "0.01",
    "delta: clients": "0.04",
}


def test_only_rules_that_start_at_the_mean_error_call_it_measured():
    """The product rule starts at 1 - exp(mean of ln(1 - error)), which no model errs."""
    for rule in ("kl", "product"):
        named = [{**one, "bound": f"r1:{rule}"} for one in r1_facts()]
        table = parts_table(parts_frame(ledger_frame([("a", 0, named)])), "t", f"r1:{rule}", ["a"])
        assert ("measured error (points)" in set(table.shown["part"])) == (rule == "kl")
        assert ("geometric mean" in table.caption) == (rule == "product")


def test_many_certificates_are_rows_and_a_few_are_columns():
    many = ledger_frame([("a", seed, r1_facts()) for seed in range(7)])
    shown = parts_table(parts_frame(many), "t", "r1:product", ["a"]).shown
    assert shown.iloc[0].to_dict() == {"method": "a", "seed": "0", **PARTS}
    assert len(shown) == 7
    two = ledger_frame([("b", 0, r1_facts()), ("a", 0, [*r1_facts(), *r1_facts(total=0.4)])])
    shown = parts_table(parts_frame(two), "t", "r1:product", ["a", "b"]).shown
    assert list(shown) == ["part", "a, seed 0 (1)", "a, seed 0 (2)", "b, seed 0 (3)"]


def test_terms_and_value_are_in_one_unit_which_each_head_says_once():
    """A vacuous certificate among them makes all of them plain numbers."""
    facts = [r1_facts(), r1_facts(total=31.42), *(r1_facts() for _ in range(5))]
    ledger = ledger_frame([("a", seed, own) for seed, own in enumerate(facts)])
    table = parts_table(parts_frame(ledger), "t", "r1:product", ["a"])
    first = "1 - geometric mean of (1 - error)"
    summed = {"+ Monte Carlo", "+ choice of clients", first, "value"}
    shown = table.shown[[f"{name} (1 is 100%)" for name in sorted(summed)]]
    assert shown.loc[0].tolist() == ["0.05", "0.15", "0.1", "0.300"]
    assert shown.loc[1].tolist() == ["0.05", "31.27", "0.1", "31.5"]
    assert not summed & set(table.shown)
    assert "points" not in f"{table.caption} {list(table.shown)}"


def test_bounds_of_a_column_are_all_per_cent_or_all_plain_numbers():
    at = {"label": "a", "predictor": "deterministic", "shift": "none", "severity": math.nan,
          "bound": "r1:product", "delta": 0.05, "population": "unseen-client", "n_novel": 0,
          "others": math.nan}  # fmt: skip
    frame = pd.DataFrame([{**at, "seed": 0, "value": 0.2161}, {**at, "seed": 1, "value": 1.0}])
    assert bound_table(frame, "t", "r1:product").shown.iloc[0, 1:3].to_dict() == {
        "seed 0": "21.7%", "seed 1": "100%"}  # fmt: skip
    frame.loc[1, "value"] = 206.0
    assert bound_table(frame, "t", "r1:product").shown.iloc[0, 1:3].to_dict() == {
        "seed 0 (1 is 100%)": "0.217", "seed 1 (1 is 100%)": "206"}  # fmt: skip


def test_two_levels_of_one_bound_are_two_rows_that_do_not_mix():
    table = [*r1_facts(), *r1_facts(total=0.4, delta=0.09)]
    parts = parts_frame(ledger_frame([("a", 0, table), ("a", 1, r1_facts(total=0.5))]))
    assert sorted(parts["total value"]) == [0.3, 0.4, 0.5]
    by_total = parts.set_index("total value")["delta clients"]
    assert by_total.to_dict() == {0.3: 0.04, 0.4: 0.09, 0.5: 0.04}


def test_divergences_of_theorem_32_are_put_together_from_its_norms():
    norms = {"eta_h_squared": 2.0, "alpha_h": 0.1, "eta_v_squared": 3.0, "alpha_v": 0.5,
             "sum_theta_squared": 8.0, "alpha_theta": 0.2}  # fmt: skip
    facts = [fact("input", name, value, bound="pefll_32") for name, value in norms.items()]
    parts = parts_frame(ledger_frame([("a", 0, [*facts, *r1_facts()])])).set_index("bound")
    assert parts.loc["pefll_32", "input kl_hyper"] == pytest.approx(2 / 0.2 + 3 / 1.0)
    assert parts.loc["pefll_32", "input sum_kl"] == pytest.approx(8 / 0.4)
    assert parts.loc["r1:product", "input kl_hyper"] == 0.75


def test_a_value_of_one_part_has_no_table():
    table = [fact("total", "value", 0.2), fact("term", "quantile", 0.2), fact("delta", "c", 0.1)]
    parts = parts_frame(ledger_frame([("a", 0, table)]))
    assert parts_table(parts, "t", "r1:product", ["a"]) is None
    assert parts_table(parts_frame(ledger_frame([])), "t", "r1:product", ["a"]) is None


def test_variances_tried_are_listed_and_the_one_taken_is_marked():
    grid = [
        {"bound": "r1:product", "alpha": a, "kl_hyper": k, "error": 0.1, "estimate": 0.3,
         "chosen": c}
        for a, k, c in ((0.01, 0.5, 0), (0.1, 0.2, 1))
    ]  # fmt: skip
    table = variance_table(variance_frame([("a", 0, grid)]), ["a"])
    assert table.shown["taken"].tolist() == ["no", "yes"]
    assert table.bold == ((1, "variance"),)
    assert table.shown["bound so estimated"].tolist() == ["30.0%", "30.0%"]
    grid[0]["estimate"] = 7.0
    table = variance_table(variance_frame([("a", 0, grid)]), ["a"])
    assert table.shown["bound so estimated (1 is 100%)"].tolist() == ["7", "0.300"]


def configs():
    whole = {"kind": "whole", "of": "a", "method": {"label": "a, all clients"}}
    r1 = {"kind": "tuned", "method": {"label": "a r1:product"},
          "certificates": [{"route": "r1", "rule": "product"}]}  # fmt: skip
    method = {"kind": "method", "method": {"label": "a"}, "split": {"certify": 12}}
    return [{"kind": "split", "method": None}, method, r1, whole]


def test_a_route_is_compared_with_the_method_trained_on_everybody():
    assert references(configs()) == {"a": "a, all clients", "a r1:product": "a, all clients"}
    # Without such models only where nobody was held out from the method's own.
    assert references(configs()[:3]) == {}
    free = [{**config, "split": {"certify": 0}} for config in configs()[:3]]
    assert references(free) == {"a r1:product": "a"}


def test_slack_adds_up_and_names_what_was_given_up(read_made):
    rows = read_made(
        [
            *errors("a", 0, "certification", [0.2, 0.4]),
            *errors("a", 0, "novel", [0.1, 0.3]),
            *errors("a, all clients", 0, "novel", [0.1, 0.2]),
            *bound("a", 0, "r0:product", {"empirical_risk": 0.3, "price": 0.2}),
            *bound("a", 0, "r2:two_step_kl", {"empirical_risk": 0.1, "draws": 0.05,
                                              "samples": 0.3, "clients": 0.6}),
            *bound("b", 0, "r0:product", {"empirical_risk": 0.3, "price": 0.2}),
            *bound("a", 0, "r0:product", {"empirical_risk": 9.0}, shift="blur", severity=1.0),
        ],
    )  # fmt: skip
    frame = slack_frame(rows, {"a": "a, all clients"}).set_index(["label", "bound"])
    assert len(frame) == 3
    own = frame.loc[("a", "r0:product")]
    assert (own.measured, own.value) == (pytest.approx(0.2), pytest.approx(0.5))
    assert own.given_up == pytest.approx(0.05)
    assert own.other_clients == pytest.approx(0.1)
    assert own.client_sampling == pytest.approx(0.2)
    assert own.slack == pytest.approx(own.value - 0.15)
    # The t-interval of two clients is wider than errors can be.
    assert (own.lower, own.upper, own.n_novel) == (0.0, 1.0, 2)
    two = frame.loc[("a", "r2:two_step_kl")]
    assert (two.monte_carlo, two.sample_level) == (pytest.approx(0.05), pytest.approx(0.3))
    assert two.slack == pytest.approx(two.value - 0.15)
    assert two.vacuous
    assert math.isnan(frame.loc[("b", "r0:product"), "slack"])
    shown = slack_table(frame.reset_index(), ["a", "b"]).shown
    assert shown["is"].tolist() == ["certificate", "vacuous", "certificate"]
    assert shown["= accuracy given up"].tolist() == ["+5.0", "+5.0", DASH]
    assert shown["value (1 is 100%)"].tolist() == ["0.500", "1.05", "0.500"]


def test_bounds_are_ranked_against_gap_and_error_across_models(read_made):
    rows = []
    for seed, (seen, novel, value) in enumerate(
        [(0.1, 0.2, 0.4), (0.1, 0.3, 0.5), (0.1, 0.5, 2.0)]
    ):
        rows += errors("a", seed, "seen", [seen]) + errors("a", seed, "novel", [novel])
        rows += bound("a", seed, "r0:product", {"empirical_risk": novel, "price": value - novel})
        rows += bound("a", seed, "pefll_32", {"empirical_risk": 9.0 - value}, rigorous=False)
    rows += bound("a", 0, "r0:conformal", {"quantile": 0.5}, population="next-client")
    read_again = read_made(rows)
    frame = order_frame(bound_frame(read_again), gap_frame(read_again)).set_index("bound")
    assert (frame.loc["r0:product", "tau_gap"], frame.loc["r0:product", "tau_error"]) == (1.0, 1.0)
    assert frame.loc["pefll_32", "tau_gap"] == -1.0
    assert (frame.loc["r0:product", "n_vacuous"], frame.loc["pefll_32", "n_vacuous"]) == (1, 3)
    assert np.isnan(frame.loc["r0:conformal", "tau_gap"])
    shown = order_table(frame.reset_index()).shown.set_index("bound")
    assert shown.loc["PeFLL, Theorem 3.2", "with the gap"] == "\N{MINUS SIGN}1.00 (3)"
    assert shown.loc["held-out clients, conformal quantile", "with the gap"] == DASH


def test_errors_that_are_equal_up_to_rounding_tie_where_bounds_are_ranked(read_made):
    clients = [(0.0, 0.0, 0.3), (0.0, 0.1, 0.2), (0.1, 0.1, 0.1)]
    rows = []
    for seed, novel in enumerate(clients):
        rows += errors("a", seed, "seen", [0.1]) + errors("a", seed, "novel", novel)
        price = {"empirical_risk": 0.2, "price": 0.1 * seed}
        rows += bound("a", seed, "r0:product", price)
    read_again = read_made(rows)
    frame = order_frame(bound_frame(read_again), gap_frame(read_again))
    assert frame[["tau_gap", "tau_error"]].isna().all(axis=None)


def test_a_tuned_systems_claim_counts_no_pool_of_held_out_clients():
    said = statement({"bound": "r1:product", "population": "unseen-client", "reason": "",
                      "sampling": "finite-pool", "rigorous": True, "value": 0.3, "delta": 0.05,
                      "n_clients": 50, "pool": 10, "predictor": "gibbs"})  # fmt: skip
    assert "first trained on" in said
    assert "10 clients" not in said


@pytest.fixture
def shifted_bounds(read_made):
    rows = errors("a", 0, "novel", [0.1])
    for severity, value in ((1.0, 0.3), (2.0, 1.2)):
        where = {"shift": "blur", "severity": severity}
        rows += bound("a", 0, "r0:wsr_wor", {"empirical_risk": value - 0.1, "price": 0.1}, **where)
        rows += bound("a", 0, "r0:product", {"empirical_risk": value, "price": 0.0}, **where)
        rows += bound("a", 0, "r0:product@band", {"empirical_risk": value, "price": 0.1}, **where)
        rows += bound("a", 0, "ben_david", {"deviation": 5.0}, rigorous=False, **where,
                      population="one-client")  # fmt: skip
    return bound_frame(read_made(rows))


def test_the_first_declared_rule_is_drawn_and_not_the_smallest(shifted_bounds):
    declared = [{"route": "r0", "rule": "product"}, {"route": "r0", "rule": "wsr_wor"}]
    found = certified_under(shifted_bounds, "blur", declared)
    assert sorted(found["bound"]) == ["r0:product"] * 2 + ["r0:product@band"] * 2
    assert found.groupby("together").size().to_dict() == {False: 2, True: 2}
    assert set(certified_under(shifted_bounds, "blur", declared[1:])["bound"]) == {"r0:wsr_wor"}
    assert certified_under(shifted_bounds, "rotation", declared).empty
    said = say_certified(found)
    assert "for all its severities at once, with probability 95%" in said
    assert "2 of 4 are vacuous and not drawn" in said
    assert say_certified(found.head(0)) == ""


def test_the_heuristics_reason_is_said():
    assert say_terms(pd.DataFrame()) == ""
    said = say_terms(pd.DataFrame({"term": ["deviation"]}))
    assert "depends on the target client's sample" in said
    assert "at most the divergence" in said


def test_models_of_routes_are_made_again_with_their_method():
    study = {
        "methods": [{"name": "pefll", "label": "mine", "posterior": "gaussian"}],
        "certificates": [{"route": "r1", "rule": "product", "methods": ["mine"]}],
        "evaluation": {"given_up": True},
        "split": {"kind": "environment"},
    }
    for label in ("mine", "mine r1:product"):
        assert "methods=[{name: pefll, label: mine, posterior" in model_command(study, label, 0)
    joined, routes = _exceptions(study)
    assert "nothing of them is certified" in joined
    assert routes.startswith("R1 train")
    assert _exceptions({"certificates": study["certificates"]}) == []


@pytest.mark.slow
def test_models_trained_on_everybody_stand_in_the_slack_alone(tmp_path, run_writer):
    def add(rows):
        more = [
            {**row, "label": "pefll, all clients", "cell": "whole-0"}
            for row in rows
            if row["label"] == "pefll" and row["group"] == "novel" and row["metric"] == "error"
            and row["seed"] == 0 and row["shift"] == "none"
        ]  # fmt: skip
        return rows + more

    folder = run_writer(tmp_path / "run", change=add, seeds=(0,), labels=("pefll", "fedavg"))
    place = folder / "cells" / "whole-0"
    place.mkdir()
    config = {"kind": "whole", "of": "pefll", "seed": 0, "method": {"label": "pefll, all clients"}}
    (place / "config.json").write_text(json.dumps(config))
    (place / "done").write_text("")
    cells = json.loads((folder / "cells.json").read_text())["cells"]
    (folder / "cells.json").write_text(json.dumps({"cells": [*cells, "whole-0"]}))
    writer = Sketcher()
    page = page_of(load_run(folder), writer)
    assert "all clients" not in writer.files["tables/accuracy.csv"]
    slack = pd.read_csv(io.StringIO(writer.files["tables/slack.csv"])).set_index("label")
    # The copy has the very same errors: nothing was given up, and that is known for PeFLL alone.
    assert slack.loc["pefll", "given_up"] == 0.0
    assert math.isnan(slack.loc["fedavg", "given_up"])
    assert "How far bounds are" in page
    assert "Kendall" not in page  # two trained models cannot be ranked


@pytest.mark.parametrize(("sd", "said"), [(0.0005607, "0.0006"), (0.0, "0"), (np.nan, DASH)])
def test_an_estimated_deviation_has_one_digit(sd, said):
    words = {key: write for key, _, write in QUANTITIES}
    assert words["orders_sd"](sd) == said
