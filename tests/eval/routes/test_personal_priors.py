"""Route R3: fine-tuned clients with priors from part of their own support."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
import yaml
from routed import SHARED, errors_of, facts_of, limit, outcome_of, overfitted, told

from latecomer.errors import InputError
from latecomer.eval.federation.groups import build_federation
from latecomer.eval.routes import r3_personal_priors as personal_priors
from latecomer.eval.routes.kinds.r3 import can_be_cut, cut_support, measured_samples
from latecomer.eval.routes.r3_personal_priors import pooled_certificate
from latecomer.eval.settings.cell import federation_settings
from latecomer.eval.studies.checking import parse_study

STUDY: dict[str, Any] = yaml.safe_load("""
study: small
data: {name: digits}
split: {kind: environment, clients: 30, certify: 8, novel: 10, classes_per_client: 2,
  validation: 0.0}
train: {rounds: 3, cohort: 3, local_steps: 3, batch_size: 8}
evaluation: {classes: known}
certificates: [{route: r3, draws: 4}]
""")
POOL: dict[str, Any] = {
    "split": {**STUDY["split"], "kind": "by_class"},
    "certificates": [{"route": "r3", "draws": 2, "measured": 6}],
}
TUNING = {"name": "per_fedavg", "inner_lr": 0.05, "outer_lr": 0.02, "finetune_steps": 10}


def run(method: Any, **changed: Any) -> tuple[pd.DataFrame, dict[str, Any]]:
    study = parse_study({**STUDY, **changed, "methods": [method]})
    return outcome_of(study.cells("")[-1].config)


def watched(seen: Callable[[Any, Any, Any], None], **changed: Any) -> Any:
    """Run the study and show what serving made of each group to somebody who changes nothing."""
    original = personal_priors._tuned

    def shown(request: Any, asked: Any) -> Any:
        made = original(request, asked)
        seen(request, asked, made)
        return made

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(personal_priors, "_tuned", shown)
        return run(TUNING, **changed)


@pytest.fixture(scope="module")
def independent() -> tuple[Any, list[Any]]:
    """Rows and artifacts of a study of independent clients, and how each group was tuned."""
    kept: list[Any] = []
    return watched(lambda _, asked, made: kept.append((asked, made))), kept


@pytest.mark.slow
def test_a_fine_tuning_method_is_certified_with_its_ledger_and_kl(independent: Any) -> None:
    rows, artifacts = independent[0]
    own = rows[rows.bound == "r3:pooled"]
    total = own[own.term == ""]
    assert len(total) == 1
    assert (total.predictor.iloc[0], total.sampling.iloc[0]) == ("gibbs", "iid")
    assert bool(total.rigorous.iloc[0])
    terms = own[own.term != ""].set_index("term").value.astype(float)
    assert set(terms.index) == {"empirical_risk", "draws", "samples", "clients"}
    assert terms.sum() == pytest.approx(float(total.value.iloc[0]))
    assert facts_of(artifacts, "delta").to_dict() == {
        "clients": pytest.approx(0.02),
        "samples": pytest.approx(0.02),
        "draws": pytest.approx(0.01),
    }
    inputs = facts_of(artifacts, "input")
    assert inputs["sum_kl"] > 0
    assert {"gibbs_error", "mean_parameter_error", "alpha"} <= set(inputs.index)
    # Novel clients are served by models drawn as the certified ones are: 10 of them and their mean.
    novel = rows[(rows.group == "novel") & (rows.predictor == "gibbs") & (rows.metric == "error")]
    each, mean = novel[novel.client != ""], novel[novel.aggregation == "per-client"]
    assert (len(each), len(mean)) == (10, 1)
    assert each.value.astype(float).mean() == pytest.approx(float(mean.value.iloc[0]))


@pytest.mark.slow
def test_in_a_finite_pool_it_is_no_certificate_and_says_why(pooled: Any) -> None:
    rows = pooled[0]
    total = rows[(rows.bound == "r3:pooled") & (rows.term == "")].iloc[0]
    assert (total.sampling, bool(total.rigorous)) == ("finite-pool", False)
    assert "class by class" in total.message


@pytest.mark.slow
def test_every_class_is_measured_by_as_many_samples(independent: Any) -> None:
    assert len(independent[1]) > 1
    for group, found in independent[1]:
        assert len(found) == len(group.clients)
        for place, one in enumerate(found):
            labels = one.measured.labels().numpy()
            counts = np.bincount(labels)
            support = group.clients.support_of(place).labels().numpy()
            assert len(set(counts[counts > 0])) == 1
            assert set(labels) == set(support)
            assert len(labels) < len(support)


@pytest.mark.parametrize(
    ("measured", "share", "sizes", "classes", "expected"),
    [
        (None, 0.5, [19, 19], None, 9),
        (None, 0.5, [19, 19], 2, 8),
        (None, 0.5, [12, 12], 4, 4),
        (6, 0.5, [19, 12], None, 6),
        (6, 0.5, [19, 12], 3, 6),
    ],
)
def test_how_many_samples_measure_a_client(measured, share, sizes, classes, expected):
    assert measured_samples("certificates.0", measured, share, sizes, classes) == expected


@pytest.mark.parametrize(
    ("measured", "share", "sizes", "classes", "said"),
    [
        (None, 0.5, [19, 12], None, "measured must be given where held-out clients hold 12"),
        (None, 0.01, [19, 19], None, "measured_share must leave a sample of the smallest support"),
        (None, 0.1, [6, 6], 2, "smallest support, 6 of 2 classes, got 0.1"),
        (12, 0.5, [19, 12], None, "measured must be below the smallest support, 12, got 12"),
        (7, 0.5, [19, 19], 2, "a multiple of classes_per_client=2, got 7"),
    ],
)
def test_what_cannot_be_measured_is_refused(measured, share, sizes, classes, said):
    with pytest.raises(InputError, match=said):
        measured_samples("certificates.0", measured, share, sizes, classes)


@pytest.mark.parametrize("labels", [[0, 0, 0, 1], [0, 0, 0, 0, 0], [0, 0, 1, 1]])
def test_a_support_without_enough_of_every_class_is_refused(labels: list[int]) -> None:
    """Of every class, those that it lacks as well: all clients are measured on equally many."""
    assert not can_be_cut(np.bincount(labels), 4, 2)
    with pytest.raises(InputError, match="cannot be measured on 4 of them"):
        cut_support(np.array(labels), 4, 2, np.random.default_rng(0))


def test_clients_that_lack_a_class_are_refused_before_anything_is_trained() -> None:
    """Two samples of each of five classes: six make a support, often of four classes only."""
    few = {"clients": 80, "certify": 40, "novel": 20, "classes_per_client": 5}
    split = {**STUDY["split"], **few, "samples_per_client": 10, "validation": 0.2}
    asked = {"split": split, "certificates": [{"route": "r3", "measured": 5}]}
    study = parse_study({**STUDY, **asked, "methods": [TUNING]})
    dealt = build_federation(federation_settings(study)).split
    with pytest.raises(InputError, match=r"1 support samples of each of its 5 classes, and \d+ of"):
        study.certificates[0].check_split("certificates.0", dealt)
    enough = {**split, "classes_per_client": 2}
    study = parse_study({**STUDY, "split": enough, "methods": [TUNING]})
    fine = build_federation(federation_settings(study)).split
    study.certificates[0].check_split("certificates.0", fine)


@pytest.mark.slow
def test_novel_clients_that_cannot_be_cut_leave_the_others_their_own_query() -> None:
    """Clients of a Dirichlet split differ in size: whose query is whose shows in its length."""
    split = {
        "kind": "dirichlet",
        "clients": 40,
        "certify": 6,
        "novel": 12,
        "alpha": 0.5,
        "seed": 13,
    }
    study = parse_study({**STUDY, "certificates": [], "split": split, "methods": [TUNING]})
    dealt = build_federation(federation_settings(study)).split
    least = min(len(client.support) for client in dealt.certification)
    fitting = [client for client in dealt.novel if len(client.support) > least - 1]
    assert 0 < len(fitting) < len(dealt.novel)
    assert dealt.novel.index(fitting[-1]) > len(fitting) - 1
    asked = {"route": "r3", "draws": 2, "measured": least - 1}
    rows, _ = run(TUNING, split=split, certificates=[asked])
    novel = errors_of(rows, "novel", predictor="gibbs")
    found = {
        (int(float(row.client)), int(row.n_support), int(row.n_query)) for row in novel.itertuples()
    }
    assert found == {(one.id, len(one.support), len(one.query)) for one in fitting}
    assert len({(support, query) for _, support, query in found}) > 2


def test_seeds_that_share_delta_are_told_of() -> None:
    shared = {**STUDY["certificates"][0], "per_seed": "union"}
    _, artifacts = run(TUNING, seeds=[0, 1], certificates=[shared])
    assert SHARED in told(artifacts)


def test_methods_that_do_not_fine_tune_get_none() -> None:
    rows, _ = run("pefll")
    assert "r3:pooled" not in set(rows.bound)


@pytest.fixture(scope="module")
def pooled() -> tuple[pd.DataFrame, list[Any]]:
    """Rows of a finite pool, and how its certified clients are tuned, by spoilt labels as well.

    Clients of an environment may share images, and labels say there how they are cut.
    """
    kept: list[Any] = []
    original = personal_priors._tuned

    def spoil(request: Any, asked: Any, clean: Any) -> None:
        if asked.name != "certification":
            return
        clients = request.model.federation.certification.clients
        y = clients.y.clone()
        for index in range(len(clients)):
            # The measured samples are those of the first half of the seeded order.
            support = clients.support[index, : int(clients.support_sizes[index])]
            shown = clean[index].measured.x
            for row in support.tolist():
                x = clients.inputs(torch.tensor([row]))
                if any(bool((x[0] == one).all()) for one in shown):
                    y[row] = (y[row] + 3) % 10
        group = replace(request.model.federation.certification, clients=replace(clients, y=y))
        federation = replace(request.model.federation, certification=group)
        again = replace(request, model=replace(request.model, federation=federation))
        kept.append((clean, original(again, group)))

    return watched(spoil, **POOL)[0], kept


@pytest.mark.slow
def test_the_prior_does_not_see_what_measures_it(pooled: Any) -> None:
    ((clean, moved),) = pooled[1]
    for before, after in zip(clean, moved, strict=True):
        assert not bool((before.measured.labels() == after.measured.labels()).any())
        assert all(bool((before.prior[k] == after.prior[k]).all()) for k in before.prior)
        assert bool((before.known == after.known).all())
        assert any(bool((before.posterior[k] != after.posterior[k]).any()) for k in before.prior)


@pytest.mark.theory
@pytest.mark.parametrize("honest", [True, False])
def test_pooled_certificates_are_covered_and_a_forgotten_kl_is_caught(honest: bool) -> None:
    """Clients fit random labels: the error on B falls below 1/2 by overfitting B alone."""
    rng, delta, trials, k, m = np.random.default_rng(8), 0.1, 200, 60, 20
    failures = 0
    for _ in range(trials):
        errors, distance = overfitted(rng, k, m)
        issued = pooled_certificate(
            errors,
            distance.tolist() if honest else [0.0] * k,
            alpha=1.0,
            n_samples=m,
            delta=delta,
            draws_share=0.2,
            client_share=0.5,
            n_priors=1,
        )
        failures += float(issued) < 0.5
    assert (failures <= limit(trials, delta)) == honest
