"""Route R5: the prefix code, the certificate that pays for its bits, and its coverage."""

import numpy as np
import pandas as pd
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from routed import SHARED, errors_of, facts_of, limit, outcome_of, spoilt, told, total_of

from latecomer.bounds import occam_client, occam_product, product
from latecomer.eval.routes.r4_progressive import Plan
from latecomer.eval.routes.r5_cell import certify_code, decode, encode
from latecomer.eval.routes.registry import read_cell
from latecomer.eval.studies.checking import parse_study
from latecomer.eval.training import setup

PLAN = Plan(first=1, clients=40, block=40, pool=60, independent=True)


@given(st.lists(st.integers(-9, 9), min_size=1, max_size=12), st.text("01", max_size=20))
def test_a_code_word_is_read_back_whatever_follows(entries: list[int], more: str) -> None:
    word = encode(entries)
    assert decode(word + more, len(entries)) == (entries, len(word))


def test_lengths_satisfy_krafts_inequality() -> None:
    words = [encode([a, b]) for a in range(-20, 21) for b in range(-20, 21)]
    assert len(set(words)) == len(words)
    assert sum(2.0 ** -len(word) for word in words) <= 1


SMALL = yaml.safe_load("""
study: small
data: {name: digits}
split: {kind: by_class, clients: 24, novel: 10, classes_per_client: 2}
methods: [{name: fedavg, local_lr: .05}]
train: {rounds: 30, cohort: 3, local_steps: 3, batch_size: 8}
certificates: [{route: r5, first: 6, clients: 8, weights: [target], dimension: 4, step: .3,
  tries: 6}]
""")


def test_a_cell_reports_bits_and_the_decoded_systems_error() -> None:
    study = parse_study(SMALL)
    cell = study.cells("")[-1]
    assert (cell.kind, cell.label) == ("compressed", "fedavg r5:occam_product")
    rows, artifacts = outcome_of(cell.config)
    inputs, total = facts_of(artifacts, "input"), total_of(rows)
    losses = errors_of(rows, "tuning").value.to_numpy()
    expected = occam_product(losses=losses, bits=inputs["bits"], delta=0.05)
    assert total.value.tolist() == [pytest.approx(float(expected))]
    assert total.predictor.tolist() == ["deterministic"]
    assert inputs["codes_tried"] == 7
    (said,) = [text for text in told(artifacts) if text.startswith("measured length")]
    assert len(said.rsplit(" ", 1)[-1]) == inputs["bits"]
    assert inputs["mean_error"] <= inputs["reference_error"]


def test_seeds_that_share_delta_are_told_of() -> None:
    shared = {**SMALL["certificates"][0], "per_seed": "union"}
    study = parse_study({**SMALL, "seeds": [0, 1], "certificates": [shared]})
    _, artifacts = outcome_of(study.cells("")[-1].config)
    assert SHARED in told(artifacts)


def test_the_product_pays_less_for_even_scores_and_no_bits_is_the_product_rule() -> None:
    """Fifty clients of error .15, spread .09: one bit and ten bits."""
    losses = np.random.default_rng(0).beta(2.2, 12.5, 50)
    for word in ("1", "0" * 10):
        by_product, by_mean = (
            float(certify_code(losses, word, delta=0.05, plan=PLAN, rule=rule)) - losses.mean()
            for rule in ("occam_product", "occam")
        )
        assert by_product < 0.65 * by_mean
    none = float(certify_code(losses, "", delta=0.05, plan=PLAN))
    assert none == pytest.approx(float(product(losses=losses, delta=0.05)), rel=1e-12)
    exact = occam_client(empirical_risk=losses.mean(), bits=1, n_clients=50, delta=0.05)
    assert float(certify_code(losses, "1", delta=0.05, plan=PLAN, rule="occam")) == float(exact)


@pytest.mark.slow
@pytest.mark.parametrize("whose", ["novel", "tuning"])
def test_clients_outside_touch_no_certificate(monkeypatch: pytest.MonkeyPatch, whose: str) -> None:
    given = parse_study(SMALL).cells("")[-1].config
    clean = setup.federation_of(read_cell(given))
    whom = clean.split.novel if whose == "novel" else clean.split.seen[6:14]
    changed = spoilt(clean, whom, labels=lambda y: (y + 1) % 10)
    tables = []
    for federation in (clean, changed):
        monkeypatch.setattr(setup, "federation_of", lambda _, held=federation: held)
        rows, artifacts = outcome_of(given)
        facts = pd.DataFrame(artifacts["certificates"].table)
        tables.append((rows[rows.group == "tuning"], rows[rows.group == "novel"], facts))
    (before, outside, facts), (after, outside_after, facts_after) = tables
    assert before.equals(after) == facts.equals(facts_after) == (whose == "novel")
    assert not outside.equals(outside_after) or whose == "tuning", "the poison was swallowed"


@pytest.mark.theory
@pytest.mark.parametrize(("rule", "points"), [("occam_product", 8), ("occam", 1)])
@pytest.mark.parametrize("honest", [True, False])
def test_chosen_codes_are_covered_and_forgotten_bits_are_caught(rule, points, honest):
    """All codes have the same true error, so that the search only picks luck.

    Scores of one point each are where the mean alone is tight, and the product says nothing.
    """
    rng, delta, trials, risk = np.random.default_rng(4), 0.1, 1000, 0.3
    words = [encode([a, b, c]) for a in range(-2, 3) for b in range(-2, 3) for c in range(-2, 3)]
    failures = 0
    for _ in range(trials):
        scores = rng.binomial(points, risk, (len(words), PLAN.clients)) / points
        lengths = [len(word) if honest else 0 for word in words]
        best = int(np.argmin(scores.mean(axis=1) + np.array(lengths) / PLAN.clients))
        word = words[best] if honest else ""
        issued = certify_code(scores[best].tolist(), word, delta=delta, plan=PLAN, rule=rule)
        failures += risk > float(issued)
    assert (failures <= limit(trials, delta)) == honest
