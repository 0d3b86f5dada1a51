"""Route R1 on digits: whose data the prior sees, what the certificate is made of, its coverage."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from routed import errors_of, facts_of, limit, outcome_of, spoilt, total_of

from latecomer.bounds import single_level_kl_mc, single_level_product_mc
from latecomer.bounds.certificate import Certificate
from latecomer.errors import InputError
from latecomer.eval.protocol import evaluate_cell
from latecomer.eval.routes.r1_cell import certify_tuned
from latecomer.eval.routes.r4_progressive import Plan
from latecomer.eval.routes.registry import read_cell
from latecomer.eval.studies.checking import parse_study
from latecomer.eval.training import setup
from latecomer.models.task.state import State

FIRST, CLIENTS = 6, 8
STUDY = yaml.safe_load("""
study: small
data: {name: digits}
split: {kind: by_class, clients: 24, certify: 0, novel: 10, seed: 0, query: .25, validation: 0.0,
  reserve: 0.0, classes_per_client: 2}
model: {hypernetwork: {hidden: 1, width: 20}}
methods: [{name: pefll, server_lr: .002, local_lr: .05}]
train: {rounds: 3, cohort: 3, local_steps: 3, batch_size: 8}
evaluation: {classes: known}
""")
WANTED = yaml.safe_load("""
{route: r1, first: 6, clients: 8, weights: [encoder, hyper], alphas: [.01, .05], steps: 5, draws: 3}
""")


PLAN = Plan(first=40, clients=50, block=50, pool=60, independent=False)


def certified(errors: Any, **changed: Any) -> Certificate:
    """Certify by the product with three variances, unless something else is asked."""
    asked = {"rule": "product", "delta": 0.05, "draws_share": 0.2, "gamma": 0.02, "n_priors": 3}
    return certify_tuned(errors, **{**asked, "plan": PLAN, **changed})


def config(**changed: Any) -> dict[str, Any]:
    study = parse_study({**STUDY, "certificates": [{**WANTED, **changed}]})
    return study.cells("")[-1].config


@pytest.fixture(scope="module")
def found() -> tuple[pd.DataFrame, dict[str, Any]]:
    return outcome_of(config())


def test_the_posterior_is_tuned_and_its_kl_reported(found: Any) -> None:
    _, artifacts = found
    inputs = facts_of(artifacts, "input")
    assert inputs["kl_hyper"] > 0
    grid = pd.DataFrame(artifacts["tuning"].table)
    assert grid.alpha.tolist() == [0.01, 0.05]
    chosen = grid[grid.chosen == 1]
    assert len(chosen) == 1
    assert chosen.estimate.iloc[0] == grid.estimate.min()
    assert inputs["kl_hyper"] == chosen.kl_hyper.iloc[0]
    assert inputs["alpha"] == chosen.alpha.iloc[0]
    assert inputs["n_draws"] == CLIENTS * 3


def test_the_ledger_adds_up_and_names_both_events(found: Any) -> None:
    rows, artifacts = found
    total = total_of(rows)
    assert total.delta.tolist() == [pytest.approx(0.05)]
    assert total.predictor.tolist() == ["gibbs"]
    assert total.sampling.tolist() == ["finite-pool"]
    terms = rows[(rows.metric == "certificate") & (rows.term != "")].value.astype(float)
    assert terms.sum() == pytest.approx(float(total.value.iloc[0]))
    ledger = facts_of(artifacts, "delta")
    assert ledger.to_dict() == {"draws": pytest.approx(0.01), "clients": pytest.approx(0.04)}


def test_gibbs_and_mean_parameter_errors_stand_beside_each_other(found: Any) -> None:
    rows, artifacts = found
    mean = rows[(rows.aggregation == "per-client") & (rows.metric == "error")]
    for group, size in (("tuning", CLIENTS), ("novel", 10)):
        own = mean[mean.group == group]
        assert set(own.predictor) == {"gibbs", "deterministic", "prior"}
        assert set(own.n_clients) == {size}
    inputs = facts_of(artifacts, "input")
    tuning = mean[mean.group == "tuning"].set_index("predictor").value.astype(float)
    assert inputs["gibbs_error"] == pytest.approx(tuning["gibbs"])
    assert inputs["mean_parameter_error"] == pytest.approx(tuning["deterministic"])


@pytest.mark.parametrize("rule", ["product", "kl"])
def test_the_certificate_is_the_calculators(rule: str) -> None:
    errors = np.random.default_rng(0).integers(0, 4, (30, 5)) / 10
    plan = Plan(first=10, clients=30, block=30, pool=45, independent=True)
    issued = certified(errors, kl=0.7, rule=rule, plan=plan, draws_rule="chernoff")
    shared = {"n_draws": 150, "delta_draws": 0.01, "delta": 0.04}
    shared |= {"kl_hyper": 0.7, "n_clients": 30, "n_priors": 3}
    if rule == "kl":
        expected = single_level_kl_mc(monte_carlo_risk=errors.mean(), **shared)
    else:
        level = np.mean(-np.log1p(-0.98 * errors))
        expected = single_level_product_mc(monte_carlo_neg_log1m=level, gamma=0.02, **shared)
    assert float(issued) == pytest.approx(float(expected))
    assert issued.terms["draws"] == pytest.approx(expected.terms["draws"])
    assert (issued.sampling, issued.predictor) == ("iid", "gibbs")


@pytest.mark.parametrize("draws_rule", ["mixture", "random_client", "chernoff"])
def test_a_certificate_is_issued_again_from_what_the_cell_left_behind(draws_rule: str) -> None:
    rows, artifacts = outcome_of(config(draws_rule=draws_rule, steps=1))
    inputs, drawn = facts_of(artifacts, "input"), artifacts["draws"]
    assert len(drawn.arrays["error"]) == CLIENTS * 3
    counts = np.bincount(drawn.arrays["place"], minlength=CLIENTS)
    assert (set(counts) == {3}) == (draws_rule != "random_client")
    again = certified(
        drawn.arrays["error"],
        kl=inputs["kl_hyper"],
        gamma=inputs["gamma"],
        n_priors=int(inputs["n_priors"]),
        plan=Plan(first=FIRST, clients=CLIENTS, block=1, pool=18, independent=False),
        draws_rule=draws_rule,
    )
    total = total_of(rows).value.astype(float)
    assert float(again) == pytest.approx(float(total.iloc[0]), rel=1e-12)
    assert sum(again.terms.values()) == pytest.approx(float(again))
    assert any("over these draws" in said for said in again.assumptions)
    assert len(errors_of(rows, "tuning", predictor="gibbs")) == (counts > 0).sum()


def test_bets_know_that_draws_lie_close_together() -> None:
    """Fifty clients of error .22, spread .09, by 100 draws each: what Chernoff's step costs."""
    rng = np.random.default_rng(3)
    own = np.clip(rng.normal(0.22, 0.09, 50), 0.02, 0.6)
    errors = rng.binomial(100, np.repeat(own[:, None], 100, axis=1)) / 100
    mixture, chernoff = (
        float(certified(errors, kl=0.23, draws_share=0.05, gamma=0.005, draws_rule=draws_rule))
        for draws_rule in ("mixture", "chernoff")
    )
    # All of delta for the clients, nothing for draws.
    exact = 1 - np.exp(np.log1p(-errors).mean() - (0.23 + np.log(3 / 0.05)) / 50)
    assert exact < mixture < exact + 0.01
    assert chernoff > exact + 0.03


@pytest.mark.slow
@pytest.mark.parametrize("whose", ["tuning", "first"])
def test_the_prior_sees_its_own_clients_and_no_other(monkeypatch, whose):
    given = config(steps=1, draws=1)
    clean = setup.federation_of(read_cell(given))
    seen = clean.split.seen
    own = seen[FIRST : FIRST + CLIENTS] if whose == "tuning" else seen[:FIRST]
    moved = spoilt(clean, own, inputs=9.0, labels=np.zeros_like)
    states: list[State] = []
    scales: list[Any] = []
    trained = setup.train

    def spy(method: Any, task: Any, clients: Any, *rest: Any, **named: Any) -> State:
        states.append(trained(method, task, clients, *rest, **named))
        scales.append(clients.mean)
        return states[-1]

    monkeypatch.setattr(setup, "train", spy)
    for federation in (clean, moved):
        monkeypatch.setattr(setup, "federation_of", lambda _, held=federation: held)
        outcome_of(given)
    tables = [state.server for state in states]
    same = all(bool((tables[0][key] == tables[1][key]).all()) for key in tables[0])
    assert same == (whose == "tuning")
    assert bool((scales[0] == scales[1]).all()) == (whose == "tuning")


def test_methods_that_cannot_be_tuned_are_refused_in_one_line() -> None:
    given = config(steps=1, draws=1)
    given = {**given, "method": {"name": "pfedhn", "label": "pfedhn"}}
    with pytest.raises(InputError, match="pfedhn makes clients' weights by no function"):
        evaluate_cell(given)
    with pytest.raises(InputError, match="weights must name weights of the server, got 'x'"):
        evaluate_cell(config(weights=["x"], steps=1, draws=1))


def test_a_rule_and_its_settings_are_checked_with_the_study() -> None:
    study = parse_study({**STUDY, "certificates": [WANTED]})
    cell = study.cells("")[-1]
    assert (cell.kind, cell.label, cell.rounds) == ("tuned", "pefll r1:product", 3)
    for changed, message in (
        ({"first": 2}, r"train\.cohort must be at most certificates\.0\.first=2, got 3"),
        ({"alphas": [0]}, r"certificates\.0\.alphas"),
        ({"gamma": 1.0}, r"certificates\.0\.gamma"),
    ):
        with pytest.raises(InputError, match=message):
            parse_study({**STUDY, "certificates": [{**WANTED, **changed}]})


DELTA, TRIALS, N, DIM = 0.1, 500, 20, 30


@pytest.mark.nightly
@pytest.mark.theory
@pytest.mark.parametrize("draws_rule", ["mixture", "random_client"])
@pytest.mark.parametrize("rule", ["product", "kl"])
@pytest.mark.parametrize("honest", [True, False])
def test_tuned_posteriors_are_covered_and_a_forgotten_kl_is_caught(rule, draws_rule, honest):
    """Client i's score is sigmoid(w_i . eta - 1) with random w_i: whatever is learnt is noise.

    The true error of eta depends on its length alone and is known.
    """
    rng = np.random.default_rng(5)
    plan = Plan(first=1, clients=N, block=N, pool=N, independent=True)
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    weights = weights / weights.sum()

    def truth(length: Any) -> Any:
        return (weights / (1 + np.exp(1 - nodes * length[..., None]))).sum(-1)

    deviation, lengths, draws = 0.15, (0.0, 2.0, 6.0, 20.0, 60.0), 30
    failures = 0
    for _ in range(TRIALS):
        w = rng.normal(size=(N, DIM))
        direction = -w.mean(axis=0) / np.linalg.norm(w.mean(axis=0))
        settled = []
        for length in lengths:
            eta = length * direction + rng.normal(size=(N, draws, DIM))
            errors = 1 / (1 + np.exp(1 - deviation * (eta * w[:, None]).sum(-1)))
            kl = length**2 / 2 if honest else 0.0
            # The choice uses draws of its own.
            settled.append((errors.mean() + kl / N, length, kl))
        _, length, kl = min(settled)
        eta = length * direction + rng.normal(size=(N, draws, DIM))
        whom = np.repeat(np.arange(N), draws).reshape(N, draws)
        if draws_rule == "random_client":
            whom = rng.integers(0, N, (N, draws))
        errors = 1 / (1 + np.exp(1 - deviation * (eta * w[whom]).sum(-1)))
        asked = {"kl": kl, "rule": rule, "draws_rule": draws_rule}
        issued = certified(errors, delta=DELTA, n_priors=1, plan=plan, **asked)
        norms = deviation * np.linalg.norm(length * direction + rng.normal(size=(200, DIM)), axis=1)
        failures += float(truth(norms).mean()) > float(issued)
    assert (failures <= limit(TRIALS, DELTA)) == honest
