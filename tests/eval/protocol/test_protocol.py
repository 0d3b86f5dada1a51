"""One cell end to end on digits, small: rows, certificates, published bounds."""

import numpy as np
import pandas as pd
import pytest

from latecomer.bounds.held_out.losses import product
from latecomer.eval.protocol import evaluate_cell
from latecomer.eval.results.rows import make_row
from latecomer.models.engine.training import RoundLog

SPLIT = {
    **{"kind": "by_class", "clients": 26, "certify": 5, "novel": 10, "classes_per_client": 2},
    **{"seed": 0, "query": 0.25, "validation": 0.0, "reserve": 0.2},
}
STOCHASTIC = {"name": "pefll", "label": "s", "posterior": "gaussian", "alpha_theta": 1e-3}


def config(method: dict[str, object] | None, **changed: object) -> dict[str, object]:
    return {
        "study": "tiny",
        "kind": "method" if method else "split",
        "data": {"name": "digits"},
        "split": SPLIT,
        "model": {"target": "auto", "encoder": "auto", "hypernetwork": {"hidden": 1, "width": 20}},
        "method": method,
        "train": {"rounds": 4, "cohort": 3, "local_steps": 4, "batch_size": 8},
        "evaluation": {"classes": "all"},
        "shifts": {"blur": [1.0], "extrapolation": [0.5]},
        "bounds": ["pefll_32", "pfedhn_eps", "ben_david"],
        "certificates": [
            {"route": "r0", "rule": "product", "delta": 0.05},
            {"route": "r0", "rule": "conformal", "alpha": 0.2},
        ],
        "seed": 0,
    } | changed


def run(method: dict[str, object] | None, **changed: object) -> tuple[pd.DataFrame, dict]:
    rounds = []
    outcome = evaluate_cell(config(method, **changed), rounds.append)
    if method:
        assert [log.round for log in rounds] == [0, 1, 2, 3]
    frame = pd.DataFrame([make_row(**row) for row in outcome.rows])
    return frame, dict(outcome.artifacts)


@pytest.fixture(scope="module")
def stochastic():
    return run(STOCHASTIC)


@pytest.mark.slow
def test_one_unshifted_error_row_per_certification_client_and_predictor(stochastic) -> None:
    rows, _ = stochastic
    own = rows[(rows.group == "certification") & (rows.client != "")]
    assert set(own["shift"]) == {"none"}
    assert own.groupby(["client", "predictor"]).size().eq(1).all()
    assert own.client.nunique() == 5


def test_the_certificate_is_made_from_those_rows_and_no_others(stochastic) -> None:
    rows, _ = stochastic
    own = rows[(rows.group == "certification") & (rows.client != "") & (rows.metric == "error")]
    for predictor in ("gibbs", "deterministic"):
        scores = own[own.predictor == predictor].value.astype(float).tolist()
        total = rows[
            (rows.metric == "certificate")
            & (rows.bound == "r0:product")
            & (rows.term == "")
            & (rows.predictor == predictor)
        ]
        assert len(total) == 1
        assert float(total.value.iloc[0]) == float(product(losses=scores, delta=0.05))
        assert total.population.iloc[0] == "unseen-client"
        assert total.sampling.iloc[0] == "finite-pool"
        assert total.rigorous.iloc[0] is np.True_ or total.rigorous.iloc[0] is True


def test_gap_is_novel_minus_seen_accuracy(stochastic) -> None:
    rows, _ = stochastic
    mean = rows[
        (rows.metric == "accuracy") & (rows.aggregation == "per-client") & (rows["shift"] == "none")
    ].set_index(["predictor", "group"])["value"]
    gaps = rows[rows.metric == "gap"].set_index("predictor")["value"]
    for predictor in ("gibbs", "deterministic"):
        expected = mean[predictor, "novel"] - mean[predictor, "seen"]
        assert gaps[predictor] == pytest.approx(expected)


@pytest.mark.parametrize("share", [0.0, 0.2])
def test_validation_data_of_seen_clients_leave_a_mean_error_a_predictor(share: float) -> None:
    """What chooses the model that a report leads with; a split without such data has no row."""
    rows, _ = run(STOCHASTIC, split={**SPLIT, "validation": share}, shifts={}, bounds=[])
    own = rows[rows.metric == "validation_error"]
    assert list(own.predictor) == (["gibbs", "deterministic"] if share else [])
    assert set(own.group) <= {"seen"}
    assert set(own["shift"]) <= {"none"}
    seen = rows[(rows.group == "seen") & (rows.client != "") & (rows.metric == "error")]
    assert set(own.n_clients.astype(int)) <= {seen.client.nunique()}
    assert own.value.between(0, 1).all()


def test_published_bounds_are_there_with_inputs_and_reasons(stochastic) -> None:
    rows, artifacts = stochastic
    published = rows[(rows.bound == "pefll_32") & (rows.term == "")]
    assert published.predictor.tolist() == ["gibbs"]
    assert not published.rigorous.iloc[0]
    assert published.message.iloc[0]
    assert "pfedhn_eps" not in set(rows.bound)
    heuristics = rows[(rows.bound == "ben_david") & (rows.term == "")]
    assert len(heuristics) == 2 * 2
    facts = pd.DataFrame(artifacts["certificates"].table)
    inputs = facts[(facts.bound == "pefll_32") & (facts.kind == "input")].set_index("name")
    assert inputs.text.str.len().gt(0).all()
    assert inputs.value["n_clients"] == 11
    assert inputs.value["harmonic_size"] <= 100


def test_two_step_kl_is_evaluated_and_says_why_it_is_no_certificate() -> None:
    rows, artifacts = run(STOCHASTIC, shifts={}, bounds=["two_step_kl", "pefll_32"])
    totals = rows[(rows.metric == "certificate") & (rows.term == "")].set_index("bound")
    assert not totals.rigorous["two_step_kl"]
    assert "projected onto a ball" in totals.message["two_step_kl"]
    assert totals.value["two_step_kl"] <= totals.value["pefll_32"]
    facts = pd.DataFrame(artifacts["certificates"].table)
    own = facts[facts.bound == "two_step_kl"]
    assert own[own.kind == "delta"].value.sum() == pytest.approx(0.05)
    assert own[own.name == "kl_hyper"].value.iloc[0] > 0


def test_embedding_methods_get_the_capacity_bound() -> None:
    rows, artifacts = run(
        {"name": "pfedhn", "label": "pfedhn", "novel_rounds": 2, "novel_steps": 3}, shifts={}
    )
    bound = rows[(rows.bound == "pfedhn_eps") & (rows.term == "")]
    assert float(bound.value.iloc[0]) > 1, "the theorem is vacuous at this size"
    facts = pd.DataFrame(artifacts["certificates"].table)
    names = set(facts[(facts.bound == "pfedhn_eps") & (facts.kind == "input")].name)
    assert {"radius", "loss_lipschitz", "weight_lipschitz", "descriptor_lipschitz"} <= names


def test_personal_heads_are_beyond_the_capacity_bound() -> None:
    rows, _ = run(
        {"name": "pfedhn_pc", "label": "pc", "novel_rounds": 2, "novel_steps": 3}, shifts={}
    )
    assert not set(rows.bound) & {"pfedhn_eps"}
    assert set(rows.personalization) == {"embedding"}


@pytest.mark.slow
def test_split_cell_measures_distances_without_a_method() -> None:
    rows, artifacts = run(None)
    assert set(rows.metric) == {"label_kl", "label_tv", "label_js", "label_hellinger", "a_distance"}
    assert set(rows["shift"]) == {"none", "blur", "extrapolation"}
    assert rows.groupby(["shift", "severity", "metric"]).size().eq(10).all()
    counts = pd.DataFrame(artifacts["label_counts"].table)
    assert len(counts) == 26
    assert (counts.filter(like="class_") > 0).sum(axis=1).eq(2).all()


@pytest.mark.slow
def test_same_configuration_gives_the_same_rows(stochastic) -> None:
    again, _ = run(STOCHASTIC)
    pd.testing.assert_frame_equal(stochastic[0], again)


@pytest.mark.parametrize("path", ["auto", "serial", "vectorised"])
def test_a_study_says_how_a_cohort_trains(path: str) -> None:
    given = config({"name": "fedavg", "label": "fedavg"})
    given["train"] = {"rounds": 1, "cohort": 2, "local_steps": 1, "batch_size": 4, "path": path}
    logs: list[RoundLog] = []
    evaluate_cell(given, logs.append)
    assert [log.path for log in logs] == ["vectorised" if path == "vectorised" else "serial"]
