"""Coverage of the whole pipeline: data, split, training, serving, certificate, 1,000 times each.

The federations are synthetic and every true number is known: the mean over a finite pool is the
mean over its clients, certified and novel, and the risk in an environment is a sum over the classes
of its pools.  Counts of violations are held against the binomial limit that a correct certificate
exceeds with probability 1e-6, and broken twins must exceed it.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
import yaml
from routed import limit

from latecomer.bounds.held_out.betting import wsr_wor
from latecomer.bounds.held_out.counting import clopper_pearson
from latecomer.bounds.held_out.losses import product
from latecomer.errors import InputError
from latecomer.eval import protocol
from latecomer.eval.routes.registry import read_cell
from latecomer.eval.routes.scored_clients import Scored, certify_scores
from latecomer.eval.scoring.scores import ClientScore
from latecomer.eval.studies.checking import parse_study
from latecomer.eval.training import setup
from latecomer.eval.training.setup import federation_of

pytestmark = [pytest.mark.theory, pytest.mark.nightly]

RUNS = 1000
DELTA = 0.2  # large, so that a rule that spends too much of it is seen
THRESHOLD = 0.25
CELL = yaml.safe_load("""
study: toy
kind: method
model: {}
train: {rounds: 1, cohort: 4, local_steps: 3, batch_size: 8}
evaluation: {classes: all}
shifts: {}
bounds: []
""")
HERE = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def toy(tmp_path_factory) -> str:
    """Six classes, two of them all but the same: clients differ in how hard they are."""
    rng = np.random.default_rng(7)
    y = np.arange(1200) % 6
    centres = 2.0 * np.eye(6)
    centres[5] = centres[4] + 0.2
    x = centres[y] + rng.normal(size=(1200, 6))
    path = tmp_path_factory.mktemp("toy") / "toy.npz"
    np.savez(path, x=x.astype(np.float32), y=y)
    return str(path)


def cell(toy: str, seed: int, kind: str, method: dict, folds: int, rules: tuple) -> dict:
    split = {"kind": kind, "clients": 40, "certify": 20, "novel": 10, "classes_per_client": 2}
    split |= {"seed": seed, "query": 0.3, "validation": 0.0}
    split |= {"reserve": 0.0} if kind == "by_class" else {"samples_per_client": 16, "held_out": 0.5}
    shared = {"route": "r0", "folds": folds, "shifts": False, "per_seed": "each"}
    certificates = [
        *({**shared, "rule": rule, "delta": DELTA} for rule in rules),
        {**shared, "rule": "conformal", "alpha": DELTA},
        {**shared, "rule": "fraction_above", "thresholds": [THRESHOLD], "delta": DELTA},
        {**shared, "rule": "error_curve", "delta": DELTA},
    ]
    data = {"name": "npz", "path": toy}
    about = {"data": data, "split": split, "method": method, "certificates": certificates}
    return {**CELL, **about, "seed": seed}


def client_errors(rows: list[dict], group: str) -> np.ndarray:
    own = [r for r in rows if r.get("client", "") != "" and r["group"] == group]
    return np.array([r["value"] for r in sorted(own, key=lambda r: r["client"])])


def bounds(rows: list[dict]) -> dict[str, float]:
    kinds = ("certificate", "certified_fraction", "error_curve_width")
    return {r["bound"]: r["value"] for r in rows if r["metric"] in kinds and r["term"] == ""}


def pooled_samples(rows: list[dict]) -> float:
    """A known wrong way: one binomial limit for the samples of all certified clients together."""
    own = [r for r in rows if r.get("client", "") != "" and r["group"] == "certification"]
    n = sum(r["n_query"] for r in own)
    wrong = round(sum(r["value"] * r["n_query"] for r in own))
    return float(clopper_pearson(n_errors=wrong, n_samples=n, delta=DELTA))


def shares_above(errors: np.ndarray, at: np.ndarray) -> np.ndarray:
    return (errors[None, :] > at[:, None]).mean(axis=1)


def report(name: str, failed: pd.DataFrame) -> None:
    print(f"{name}: share of {len(failed)} runs violated at delta {DELTA}")
    print(failed.mean().round(4).to_string())


@pytest.fixture(scope="module")
def pools(toy) -> pd.DataFrame:
    """Violations in finite pools: the truth is the pool of 30 untrained clients of each run."""

    def runs() -> Iterator[dict]:
        method = {"name": f"{HERE / 'centroids.py'}:Centroids", "label": "centroids"}
        rules = ("product", "wsr_wor", "chernoff_kl", "betting_mixture")
        for seed in range(RUNS):
            found = protocol.evaluate_cell(cell(toy, seed, "by_class", method, 1, rules)).rows
            sampled, novel = client_errors(found, "certification"), client_errors(found, "novel")
            pool, made = np.concatenate([sampled, novel]), bounds(found)
            assert (len(sampled), len(novel)) == (20, 10)
            failed = {rule: made[f"r0:{rule}"] < pool.mean() - 1e-12 for rule in rules}
            failed["next client"] = novel[0] > made["r0:conformal"]
            above = (pool > THRESHOLD).mean()
            failed["fraction"] = made[f"r0:fraction_above@{THRESHOLD:g}"] < above - 1e-12
            at = np.unique(np.append(pool, 0.0))
            gap = (shares_above(pool, at) - shares_above(sampled, at)).max()
            failed["curve"] = gap > made["r0:error_curve"] + 1e-12
            # Broken twins.
            failed["twin: no price"] = sampled.mean() < pool.mean()
            failed["twin: quantile of too few"] = novel[0] > np.quantile(sampled, 1 - 2 * DELTA)
            failed["twin: sampled share"] = (sampled > THRESHOLD).mean() < above
            failed["twin: curve, half as wide"] = gap > made["r0:error_curve"] / 2
            yield failed

    found = pd.DataFrame(list(runs()))
    report("finite pools", found)
    return found


@pytest.fixture(scope="module")
def environments(toy) -> pd.DataFrame:
    """Violations with independent clients: the truth is a sum over the pools' classes."""
    patch, model = pytest.MonkeyPatch(), {}
    honest = setup.score_group

    def noting(method, task, state, group, **options):
        model[group.name] = (method, task, state, group)
        return honest(method, task, state, group, **options)

    def class_errors(made) -> np.ndarray:
        """Error of the global model on the held-out images of each class."""
        method, task, state, group = model["certification"]
        support = group.clients.support_of(0)
        predict = method.personalize(task, state, support, generator=torch.Generator())
        pools = made.split.law.pools
        wrong = []
        for label, rows in enumerate(pools):
            x = group.clients.inputs(torch.as_tensor(rows.copy()))
            wrong.append(float((predict(x).argmax(dim=1) != label).double().mean()))
        return np.array(wrong)

    def runs() -> Iterator[dict]:
        method = {"name": "fedavg", "label": "fedavg", "local_lr": 0.3}
        rules = ("product", "wsr_averaged", "chernoff_kl", "betting_mixture", "emp_bernstein")
        for seed in range(RUNS):
            setting = cell(toy, seed, "environment", method, 3, rules)
            found = protocol.evaluate_cell(setting).rows
            made = bounds(found)
            risk = class_errors(federation_of(read_cell(setting))).mean()
            failed = {rule: made[f"r0:{rule}"] < risk for rule in rules}
            failed["twin: pooled samples"] = pooled_samples(found) < risk
            yield failed

    patch.setattr(setup, "score_group", noting)
    try:
        found = pd.DataFrame(list(runs()))
    finally:
        patch.undo()
    report("environments", found)
    return found


@pytest.mark.parametrize("world", ["pools", "environments"])
def test_certificates_of_the_pipeline_hold_as_often_as_they_say(world, request) -> None:
    found = request.getfixturevalue(world)
    assert len(found) == RUNS
    for name, count in found.sum().items():
        if name.startswith("twin"):
            assert count > limit(RUNS, DELTA), f"{name} went unnoticed"
        else:
            assert count <= limit(RUNS, DELTA), name


def test_exact_statements_about_pools_spend_their_delta(pools) -> None:
    """Not by being loose: the next client's quantile is nearly exact."""
    assert pools["next client"].mean() > 0.5 * DELTA


# ---- the wrong reading: a balanced split with everybody untrained held out


def memorising(rng: np.random.Generator, *, balanced: bool) -> tuple[np.ndarray, float]:
    """Train on 30 of 60 clients a model that fails on classes it has met in both their clients.

    Thirty classes; in the balanced split each is held by two clients.  Returns the errors of
    everybody untrained, and the risk of a fresh client, whose class is uniform.
    """
    holder = np.repeat(np.arange(30), 2) if balanced else rng.integers(0, 30, 60)
    order = rng.permutation(60)
    trained, untrained = holder[order[:30]], holder[order[30:]]
    hopeless = np.bincount(trained, minlength=30) >= 2
    return hopeless[untrained].astype(float), float(hopeless.mean())


def test_a_balanced_split_read_as_an_environment_fails() -> None:
    """Training clients of a balanced split say who is left: the scores are no draws of a law."""
    rng = np.random.default_rng(1)
    violated = {True: 0, False: 0}
    for balanced in violated:
        for _ in range(RUNS):
            errors, risk = memorising(rng, balanced=balanced)
            scores = [ClientScore(i, 10, 1, int(e), 0.0) for i, e in enumerate(errors)]
            read = Scored(scores, "iid", None, "deterministic")
            bound = float(certify_scores(read, rule="chernoff_kl", level=DELTA))
            violated[balanced] += bound < risk
    assert violated[True] > 0.9 * RUNS, "the wrong reading went unnoticed"
    assert violated[False] <= limit(RUNS, DELTA), "independent clients, trained on just as badly"


def test_the_same_scores_say_nothing_once_everybody_is_certified() -> None:
    """Empty: the pool's mean is known then, and no client is left that it would be about."""
    errors, risk = memorising(np.random.default_rng(1), balanced=True)
    assert float(wsr_wor(losses=errors, delta=DELTA, pool_size=30)) == pytest.approx(errors.mean())
    assert errors.mean() == 0.0 < float(product(losses=errors, delta=DELTA)) < risk
    scores = [ClientScore(i, 10, 1, int(e), 0.0) for i, e in enumerate(errors)]
    with pytest.raises(InputError, match="at least 10 clients that are neither trained on"):
        certify_scores(
            Scored(scores, "finite-pool", 30, "deterministic"), rule="product", level=DELTA
        )
    split = {"kind": "by_class", "clients": 60, "certify": 30, "classes_per_client": 2}
    study = {"study": "s", "data": {"name": "digits"}, "split": split, "methods": ["fedavg"]}
    with pytest.raises(InputError, match=r"split\.novel must be at least 10 clients"):
        parse_study(study | {"certificates": [{"rule": "product"}]})
