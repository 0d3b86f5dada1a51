"""Route R0 in a whole cell: which scores, which rows, and what must not reach a certificate."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
import yaml
from routed import errors_of, outcome_of, told

from latecomer.bounds.held_out.counting import clopper_pearson, dkw_band, pool_fraction
from latecomer.bounds.held_out.finite_pool import pool_band
from latecomer.bounds.held_out.losses import product
from latecomer.bounds.shift.balls import ball_mixture, breaking_radius
from latecomer.eval.datasets import load_dataset
from latecomer.eval.federation import groups as federations
from latecomer.eval.routes.registry import read_cell
from latecomer.eval.splits.build import split_of
from latecomer.eval.splits.registry import split_settings
from latecomer.eval.training import setup

CELL = yaml.safe_load("""
study: tiny
kind: method
data: {name: digits}
split: {kind: by_class, clients: 26, certify: 5, novel: 10, seed: 0, query: .25, validation: .1,
  reserve: 0.0, classes_per_client: 2}
model: {target: auto, encoder: auto, hypernetwork: {hidden: 1, width: 20}}
method: {name: pefll, label: s, posterior: gaussian}
train: {rounds: 3, cohort: 3, local_steps: 3, batch_size: 8}
evaluation: {classes: known}
shifts: {}
bounds: []
seed: 0
""")
SPLIT = CELL["split"]
R0 = {"route": "r0", "folds": 1, "shifts": False, "per_seed": "each"}
PRODUCT = {**R0, "rule": "product", "delta": 0.05}


def config(*certificates: dict, **changed: object) -> dict:
    return CELL | {"certificates": list(certificates)} | changed


def run(*certificates: dict, **changed: object) -> tuple[pd.DataFrame, dict]:
    return outcome_of(config(*certificates, **changed))


def errors(rows: pd.DataFrame, predictor: str, **where: object) -> list[float]:
    where = {"predictor": predictor, "shift": "none", "severity": ""} | where
    return errors_of(rows, "certification", **where).value.tolist()


def totals(rows: pd.DataFrame, bound: str) -> pd.DataFrame:
    return rows[(rows.bound == bound) & (rows.term == "")].set_index("predictor")


@pytest.mark.slow
def test_certificates_are_made_from_the_cross_fitted_scores() -> None:
    plain, _ = run(PRODUCT)
    rows, artifacts = run({**PRODUCT, "folds": 4})
    own = errors_of(rows, "certification")
    assert own.groupby(["client", "predictor"]).size().eq(1).all()
    for predictor in ("gibbs", "deterministic"):
        scores = errors(rows, predictor)
        assert scores != errors(plain, predictor)
        found = totals(rows, "r0:product").loc[predictor]
        assert found.value == float(product(losses=scores, delta=0.05))
    # Support and query together, three quarters of it for the model.
    before = errors_of(plain, "certification")
    together = before.n_support + before.n_query
    assert own.n_query.tolist() == together.tolist()
    assert own.n_support.tolist() == (together - -(-together // 4)).tolist()
    elsewhere = [frame[frame.group != "certification"] for frame in (plain, rows)]
    pd.testing.assert_frame_equal(*(frame.reset_index(drop=True) for frame in elsewhere))
    facts = pd.DataFrame(artifacts["certificates"].table)
    inputs = facts[(facts.kind == "input") & (facts.predictor == "gibbs")].set_index("name").value
    assert inputs["folds"] == 4
    assert inputs["n_support_min"] == own.n_support.min()


def test_prices_stand_beside_the_certificate() -> None:
    rows, _ = run(PRODUCT, {**R0, "rule": "conformal", "alpha": 0.2})
    prices = rows[rows.metric == "certificate_price"]
    assert set(prices.bound) == {"r0:product"}, "a quantile has no price"
    assert set(prices.term) == {"paid", "reference", "reference_pool"}
    own = prices[prices.predictor == "gibbs"].set_index("term").value
    mean = np.mean(errors(rows, "gibbs"))
    assert own["reference"] == pytest.approx((1 - 0.05 ** (1 / 5)) * (1 - mean))
    bound = float(totals(rows, "r0:product").loc["gibbs"].value)
    assert own["paid"] == pytest.approx(bound - mean)


def test_the_choice_among_rules_is_paid_for() -> None:
    entry = {**R0, "rule": "best_of", "best_of": ["product", "wsr_wor"], "delta": 0.1,
             "realised": True}  # fmt: skip
    rows, artifacts = run(entry)
    found = totals(rows, "r0:best_of").loc["deterministic"]
    assert found.delta == pytest.approx(0.1)
    facts = pd.DataFrame(artifacts["certificates"].table)
    ledger = facts[(facts.kind == "delta") & (facts.predictor == "deterministic")]
    assert ledger.set_index("name").value.to_dict() == {
        "clients, product": 0.05,
        "clients, wsr_wor": 0.05,
    }


def test_seeds_that_share_delta_say_so() -> None:
    rows, artifacts = run({**PRODUCT, "per_seed": "union", "n_seeds": 4})
    scores = errors(rows, "gibbs")
    found = totals(rows, "r0:product").loc["gibbs"]
    assert found.delta == 0.05 / 4
    assert found.value == float(product(losses=scores, delta=0.05 / 4))
    said = "one of 4 certificates that hold at once, one a training seed"
    assert any(said in text for text in told(artifacts))


@pytest.mark.slow
def test_shifted_clients_are_certified_one_by_one_and_at_once() -> None:
    shifts = {"blur": [0.5, 1.0], "rotation": [30.0], "extrapolation": [0.5]}
    split = SPLIT | {"reserve": 0.2}
    entry = {**PRODUCT, "shifts": ["blur", "rotation"], "folds": 3}
    rows, artifacts = run(entry, shifts=shifts, split=split)
    for shift, severities in (("blur", [0.5, 1.0]), ("rotation", [30.0])):
        for severity in severities:
            scores = errors(rows, "gibbs", shift=shift, severity=severity)
            assert len(scores) == 5
            here = rows[(rows["shift"] == shift) & (rows.severity == severity)]
            own = totals(here, "r0:product").loc["gibbs"]
            assert own.value == float(product(losses=scores, delta=0.05))
            band = totals(here, "r0:product@band")
            if shift == "rotation":
                assert band.empty, "one severity: nothing to share"
            else:
                assert band.loc["gibbs"].value == float(product(losses=scores, delta=0.025))
                assert band.loc["gibbs"].delta == 0.025
    assert "extrapolation" not in set(rows[rows.group == "certification"]["shift"])
    for said in (
        "under blur, support and query alike",
        "one of 2 certificates that hold at once, one a severity of blur",
    ):
        assert any(said in text for text in told(artifacts))
    # The unshifted certificate and everybody else's numbers know nothing of it.
    plain, _ = run({**PRODUCT, "folds": 3}, shifts=shifts, split=split)
    kept = rows[(rows.group != "certification") | (rows["shift"] == "none")]
    pd.testing.assert_frame_equal(kept.reset_index(drop=True), plain)


def test_support_and_query_are_both_shifted() -> None:
    setting = config({**PRODUCT, "shifts": ["contrast"]}, shifts={"contrast": [0.0]})
    made = federations.build_federation(read_cell(setting).federation)
    (flat,) = made.shifted_certification
    assert flat.clients.ids.tolist() == made.certification.clients.ids.tolist()
    for index in range(len(flat.clients)):
        plain = made.certification.clients
        for role in ("support_of", "query_of"):
            shifted, was = getattr(flat.clients, role)(index), getattr(plain, role)(index)
            assert shifted.labels().tolist() == was.labels().tolist()
            image = shifted.x[0] * flat.clients.sd + flat.clients.mean
            assert float(image.std()) < 1e-5, "without contrast nothing is left"
            assert float(was.x.std()) > 0.1


def test_tails_of_a_pool_are_exact() -> None:
    entries = (
        {**R0, "rule": "fraction_above", "thresholds": [0.2, 0.5], "delta": 0.1, "realised": True},
        {**R0, "rule": "error_curve", "delta": 0.1, "realised": True},
    )
    rows, artifacts = run(*entries)
    scores = np.array(errors(rows, "gibbs"))
    sizes = {"n_sampled": 5, "pool_size": 15}
    for threshold in (0.2, 0.5):
        found = totals(rows, f"r0:fraction_above@{threshold:g}").loc["gibbs"]
        above = int((scores > threshold).sum())
        assert found.value == float(pool_fraction(n_exceeding=above, delta=0.05, **sizes))
        assert (found.metric, found.delta) == ("certified_fraction", 0.05)
        assert (found.population, found.sampling) == ("unseen-client", "finite-pool")
    width = totals(rows, "r0:error_curve").loc["gibbs"]
    assert (width.metric, width.value) == (
        "error_curve_width",
        float(pool_band(delta=0.1, **sizes)),
    )
    assert artifacts["error_curve"].kind == "error_curve"
    curve = pd.DataFrame(artifacts["error_curve"].table)
    assert set(curve.predictor) == {"gibbs", "deterministic"}
    own = curve[curve.predictor == "gibbs"]
    assert own.threshold.tolist() == sorted({0.0, *scores.tolist()})
    assert own.sampled.tolist() == [float((scores > t).mean()) for t in own.threshold]
    capped = np.minimum(1, own.sampled + width.value)
    assert own.upper.tolist() == np.where(own.threshold < 1, capped, 0).tolist()
    assert not (rows[rows.bound.str.startswith("r0:")].metric == "certificate").any()


@pytest.mark.parametrize("kind", ["by_class", "environment"])
def test_other_populations_have_a_row_a_radius_and_a_curve(kind: str) -> None:
    kl = {**R0, "rule": "kl_ball", "radii": [0.1, 0.05], "delta": 0.1}
    entries = (
        {**kl, "target": 0.9, "per_seed": "union", "n_seeds": 2},
        {**R0, "rule": "subgroup", "shares": [0.5], "delta": 0.05, "target": 0.01},
    )
    split = {k: v for k, v in SPLIT.items() if k != "reserve"} | {"kind": kind}
    rows, artifacts = run(*entries, split=split)
    scores = errors(rows, "gibbs")
    for radius in (0.05, 0.1):
        found = totals(rows, f"r0:kl_ball@{radius:g}").loc["gibbs"]
        bound = ball_mixture(losses=scores, radius=radius, delta=0.05, ball="kl")
        assert (found.metric, found.value) == ("certified_population", float(bound))
        assert (found.delta, found.rigorous) == (0.05, True), "a seed's half, all of it each radius"
    third = totals(rows, "r0:subgroup@0.5").loc["gibbs"]
    worst = ball_mixture(losses=scores, radius=0.5, delta=0.05, ball="subgroup")
    assert third.value == float(worst)
    broken = rows[(rows.metric == "breaking_radius") & (rows.predictor == "gibbs")]
    broken = broken.set_index("bound")
    reach = breaking_radius(losses=scores, target=0.9, delta=0.05, ball="kl")
    assert broken.value["r0:kl_ball"] == float(reach)
    assert broken.term["r0:kl_ball"] == "target=0.9"
    assert broken.value["r0:subgroup"] == ""
    assert broken.message["r0:subgroup"] == "not certified below the target under any shift"
    curve = pd.DataFrame(artifacts["population_curve"].table)
    assert set(curve.bound) == {"r0:kl_ball", "r0:subgroup"}
    own = curve[(curve.ball == "kl") & (curve.predictor == "gibbs")].set_index("radius").value
    assert own.index[0] == 0
    assert own.is_monotonic_increasing
    assert own[0.05] == totals(rows, "r0:kl_ball@0.05").loc["gibbs"].value
    assert (own.iloc[:-1][own.index[:-1] > 0.1] < 1).all(), "it ends where it says nothing"
    # Nobody takes them for bounds of the clients that were scored.
    assert not (rows.metric == "certificate").any()


def test_tails_of_independent_clients() -> None:
    split = {k: v for k, v in SPLIT.items() if k != "reserve"}
    split |= {"kind": "environment", "novel": 2, "certify": 12, "clients": 24}
    entries = (
        {**R0, "rule": "fraction_above", "thresholds": [0.3], "delta": 0.1},
        {**R0, "rule": "error_curve", "delta": 0.1, "realised": True},
        {**R0, "rule": "wsr_averaged", "delta": 0.05, "orders_seed": 0},
    )
    rows, _ = run(*entries, split=split)
    scores = np.array(errors(rows, "gibbs"))
    found = totals(rows, "r0:fraction_above@0.3").loc["gibbs"]
    limit = clopper_pearson(n_errors=int((scores > 0.3).sum()), n_samples=12, delta=0.1)
    assert found.value == float(limit)
    width = totals(rows, "r0:error_curve").loc["gibbs"]
    assert width.value == float(dkw_band(n_clients=12, delta=0.1))
    assert set(rows[rows.bound.str.startswith("r0:")].sampling) == {"iid"}
    price = rows[rows.metric == "certificate_price"]
    assert set(price.term) == {"paid", "reference"}


# ---- leakage: what a certificate forbids is poisoned


@pytest.fixture
def poisoned(monkeypatch):
    """Run a cell on data whose given rows hold other inputs and other labels.

    The split is that of the honest data: a poisoned run differs in the samples alone.
    """
    honest_clients, honest_load = federations.make_clients, load_dataset
    setup._federation.cache_clear()
    poison: dict[str, np.ndarray] = {}

    def load(settings):
        dataset = honest_load(settings)
        x = dataset.x.copy()
        x[poison["rows"]] = 1000.0 + 7 * x[poison["rows"]]
        return dataclasses.replace(dataset, x=x)

    def make(x, y, rows, scale, **options):
        y = y.copy()
        if len(y) == poison["n"]:
            y[poison["rows"]] = (y[poison["rows"]] + 1) % 10
        return honest_clients(x, y, rows, scale, **options)

    def go(rows: np.ndarray, **changed: object) -> pd.DataFrame:
        poison.update(rows=rows, n=len(honest_load({"name": "digits"})))
        monkeypatch.setattr(federations, "load_dataset", load)
        monkeypatch.setattr(federations, "make_clients", make)
        setup._federation.cache_clear()
        return run(*ENTRIES, **changed)[0]

    yield go
    setup._federation.cache_clear()


ENTRIES = (
    {**PRODUCT, "folds": 3},
    {**R0, "rule": "conformal", "alpha": 0.2, "folds": 3},
    {**R0, "rule": "error_curve", "delta": 0.1, "folds": 3, "realised": True},
)


def client_rows(*groups: str, roles: tuple[str, ...] = ("all",)) -> np.ndarray:
    split = split_of(load_dataset({"name": "digits"}), split_settings(SPLIT))
    clients = [client for group in groups for client in getattr(split, group)]
    return np.concatenate([client.rows(role) for client in clients for role in roles])


def same(before: pd.DataFrame, after: pd.DataFrame, kept: "pd.Series[bool]") -> None:
    pd.testing.assert_frame_equal(before[kept.to_numpy()], after[kept.to_numpy()])


@pytest.fixture(scope="module")
def honest() -> pd.DataFrame:
    return run(*ENTRIES)[0]


def about(rows: pd.DataFrame, group: str) -> "pd.Series[bool]":
    """Rows of one group; the gap is about two."""
    return (rows.group == group) & (rows.metric != "gap")


@pytest.mark.slow
def test_certification_clients_touch_nothing_but_their_scores(honest, poisoned) -> None:
    after = poisoned(client_rows("certification"))
    same(honest, after, honest.group != "certification")
    assert not honest.equals(after), "the poison was swallowed"


def test_novel_clients_touch_no_certificate(honest, poisoned) -> None:
    after = poisoned(client_rows("novel"))
    same(honest, after, about(honest, "certification") | about(honest, "seen"))
    assert not honest.equals(after)


def test_validation_data_of_evaluated_clients_touch_nothing(honest, poisoned) -> None:
    after = poisoned(client_rows("certification", "novel", roles=("validation",)))
    pd.testing.assert_frame_equal(honest, after)


def test_what_training_clients_are_tested_on_touches_no_certificate(honest, poisoned) -> None:
    after = poisoned(client_rows("seen", roles=("query", "validation")))
    same(honest, after, about(honest, "certification") | about(honest, "novel"))
    assert not honest.equals(after)


def test_training_data_do_reach_the_certificate(honest, poisoned) -> None:
    """The twin: were poison without effect, the tests above would show nothing."""
    after = poisoned(client_rows("seen", roles=("support",)))
    kept = (honest.metric == "certificate").to_numpy()
    assert honest[kept].value.tolist() != after[kept].value.tolist()
