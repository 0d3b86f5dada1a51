"""Route R2: a stochastic model made from, and measured on, the same points of its client."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from routed import SHARED, facts_of, limit, outcome_of, overfitted, told

from latecomer.eval.protocol import evaluate_cell
from latecomer.eval.routes import r2_two_level as two_level
from latecomer.eval.routes.r2_two_level import two_level_certificate
from latecomer.eval.studies.checking import parse_study

STUDY = yaml.safe_load("""
study: small
data: {name: digits}
split: {kind: environment, clients: 30, certify: 8, novel: 10, classes_per_client: 2,
  validation: 0.0}
train: {rounds: 2, cohort: 3, local_steps: 2, batch_size: 8}
certificates: [{route: r2, draws: 3}]
""")
SPLIT = STUDY["split"]
PROJECTED = {"name": "pefll", "posterior": "gaussian", "alpha_theta": 0.01, "weight_radius": 2.0}
FREE = {key: value for key, value in PROJECTED.items() if key != "weight_radius"}


def run(method: Any, **changed: Any) -> tuple[pd.DataFrame, dict[str, Any]]:
    study = parse_study({**STUDY, **changed, "methods": [method]})
    rows, artifacts = outcome_of(study.cells("")[-1].config)
    return rows[rows.bound == "r2:two_step_kl"], artifacts


@pytest.fixture(scope="module")
def proven() -> tuple[pd.DataFrame, dict[str, Any]]:
    return run(PROJECTED)


@pytest.mark.slow
def test_projected_weights_and_independent_clients_make_it_a_proof(proven: Any) -> None:
    own, artifacts = proven
    total = own[own.term == ""].iloc[0]
    assert bool(total.rigorous)
    assert not total.message
    assert (total.predictor, total.sampling, total.population) == ("gibbs", "iid", "unseen-client")
    terms = own[own.term != ""].set_index("term").value.astype(float)
    assert set(terms.index) == {"empirical_risk", "draws", "samples", "clients"}
    assert terms.sum() == pytest.approx(float(total.value))
    assert facts_of(artifacts, "delta").to_dict() == {
        "clients": pytest.approx(0.02),
        "samples": pytest.approx(0.02),
        "drawn errors": pytest.approx(0.005),
        "drawn divergences": pytest.approx(0.005),
    }
    told = facts_of(artifacts, "input")
    # In the ball nobody is further from the prior's centre than its two radii.
    assert 0 < told["sum_kl"] / 8 <= told["most_kl"] <= (2 * 2.0001) ** 2 / (2 * 0.01)
    assert told["weight_radius"] == 2.0
    assert {"gibbs_error", "mean_parameter_error"} <= set(told.index)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "split", "said"),
    [
        (FREE, SPLIT, ["not projected onto a ball"]),
        (PROJECTED, {**SPLIT, "kind": "by_class"}, ["finite pool"]),
        (FREE, {**SPLIT, "kind": "by_class"}, ["not projected onto a ball", "finite pool"]),
    ],
)
def test_what_is_missing_is_said_and_makes_it_no_certificate(method, split, said):
    own, _ = run(method, split=split)
    total = own[own.term == ""].iloc[0]
    assert not bool(total.rigorous)
    assert total.message.count(";") == len(said) - 1
    assert all(one in total.message for one in said)


def test_seeds_that_share_delta_are_told_of() -> None:
    shared = {**STUDY["certificates"][0], "per_seed": "union"}
    _, artifacts = run(PROJECTED, seeds=[0, 1], certificates=[shared])
    assert SHARED in told(artifacts)


def test_methods_without_a_posterior_get_none() -> None:
    own, _ = run("pefll")
    assert own.empty


@pytest.mark.slow
def test_a_choice_of_classes_is_paid_for(proven: Any) -> None:
    _, masked = run(PROJECTED, evaluation={"classes": "known"})
    pays = [facts_of(artifacts, "input")["mask_nats"] for artifacts in (proven[1], masked)]
    assert pays == [0.0, pytest.approx(10 * np.log(2))]


@pytest.mark.slow
def test_only_the_certified_clients_support_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[Any] = []
    original = two_level._drawn

    def spoilt(request: Any, method: Any, draws: int) -> Any:
        clean = original(request, method, draws)
        federation = request.model.federation
        held = federation.certification.clients
        y = held.y.clone()
        for place in range(len(held)):
            y[held.query[place, : int(held.query_sizes[place])]] += 3
        y %= 10
        group = replace(federation.certification, clients=replace(held, y=y))
        novel = replace(federation.novel, clients=replace(federation.novel.clients, y=y))
        moved = replace(federation, certification=group, novel=novel)
        again = replace(request, model=replace(request.model, federation=moved))
        kept.append((clean, original(again, method, draws)))
        return clean

    # Held-out clients draw from pools of their own and may share images: keep to what one uses.
    monkeypatch.setattr(two_level, "_drawn", spoilt)
    run(PROJECTED, split={**SPLIT, "kind": "by_class"})
    ((clean, moved),) = kept
    assert (clean.errors == moved.errors).all()
    assert (clean.nats == moved.nats).all()
    assert clean.centre_norm == moved.centre_norm


@pytest.mark.slow
def test_mean_weights_lie_in_the_ball_where_the_system_is_served() -> None:
    study = parse_study({**STUDY, "methods": [PROJECTED]})
    seen: list[float] = []
    original = two_level._squared

    def watched(theta: Any, centre: Any) -> float:
        seen.append(sum(float(v.double().square().sum()) for v in theta.values()) ** 0.5)
        return original(theta, centre)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(two_level, "_squared", watched)
        evaluate_cell(study.cells("")[-1].config)
    assert max(seen) <= 2.0 * (1 + 1e-5)
    # The ball binds: most weights lie on its surface.
    assert np.median(seen) == pytest.approx(2.0, rel=1e-5)


@pytest.mark.theory
@pytest.mark.parametrize("honest", [True, False])
def test_two_level_certificates_are_covered_and_a_forgotten_kl_is_caught(honest: bool) -> None:
    """Clients fit random labels on the very points that measure them: true error 1/2."""
    rng, delta, trials, k, m, most = np.random.default_rng(9), 0.1, 200, 60, 20, 60.0
    failures = 0
    for _ in range(trials):
        errors, distance = overfitted(rng, k, m, np.sqrt(2 * most))
        nats = np.repeat(distance[:, None] / 2, 10, axis=1)
        issued = two_level_certificate(
            errors,
            nats if honest else np.zeros_like(nats),
            most_nats=most if honest else 1e-9,
            free_nats=0.0,
            sizes=[m] * k,
            delta=delta,
            draws_share=0.2,
            client_share=0.5,
        )
        failures += float(issued) < 0.5
    assert (failures <= limit(trials, delta)) == honest


BLIND = """
from dataclasses import dataclass
from typing import ClassVar

from latecomer.models.methods.pefll import PeFLL


@dataclass(frozen=True, kw_only=True)
class Blind(PeFLL):
    name: ClassVar[str] = "blind"
    needs_labels: ClassVar[bool] = False
"""


@pytest.mark.parametrize("serving", [None, {"prior": "em"}])
def test_models_that_are_corrected_when_served_are_not_certified_as_made(
    serving: Any, tmp_path: Any
) -> None:
    """A method of one's own that reads no labels may be corrected for new clients' classes."""
    (tmp_path / "blind.py").write_text(BLIND)
    own, _ = run({**PROJECTED, "name": f"{tmp_path}/blind.py:Blind", "serving": serving})
    assert own.empty == (serving is not None)
