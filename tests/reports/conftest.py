"""A made-up run directory: rows and artifacts drawn from one seed, nothing trained."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

from latecomer.eval.results.rows import Artifact, make_row, read_rows, write_artifact, write_rows

METHODS: dict[str, tuple[str, str, float, float]] = {
    # label: (method, personalization, mean error on seen clients, on novel clients)
    "local": ("local", "local", 0.012, 0.012),
    "fedavg": ("fedavg", "global", 0.04, 0.045),
    "per_fedavg": ("per_fedavg", "finetune", 0.016, 0.022),
    "pfedhn": ("pfedhn", "embedding", 0.02, 0.075),
    "pefll": ("pefll", "forward", 0.022, 0.032),
    "pefll-stochastic": ("pefll", "forward", 0.03, 0.041),
}
SHIFTS: dict[str, tuple[float, ...]] = {
    "blur": (0.5, 1.0),
    "rotation": (15.0, 30.0, 45.0),
    "extrapolation": (0.1, 0.5, 1.0),
}
STUDY: dict[str, Any] = {
    "study": "made-up",
    "question": "How well do six methods serve clients that join after training?",
    "data": {"name": "digits"},
    "split": {"kind": "by_class", "clients": 60, "certify": 0.2, "novel": 0.2,
              "classes_per_client": 2, "seed": 0, "query": 0.25, "validation": 0.2},
    "methods": ["local", "fedavg", "per_fedavg", "pfedhn", "pefll",
                {"name": "pefll", "posterior": "gaussian", "label": "pefll-stochastic"}],
    "train": {"rounds": 150, "cohort": 5, "local_steps": 20, "batch_size": 16},
    "evaluation": {"classes": "all"},
    "shifts": {name: list(values) for name, values in SHIFTS.items()},
    "bounds": ["pefll_32", "pfedhn_eps", "ben_david"],
    "certificates": [{"route": "r0", "rule": "product", "delta": 0.05},
                     {"route": "r0", "rule": "conformal", "alpha": 0.1}],
    "seeds": [0, 1, 2],
}  # fmt: skip
GROUPS = {"seen": range(36), "certification": range(36, 48), "novel": range(48, 60)}


def predictors(label: str) -> tuple[str, ...]:
    return ("gibbs", "deterministic") if label == "pefll-stochastic" else ("deterministic",)


def harm(shift: str, severity: float) -> float:
    if shift == "extrapolation":
        return 0.02 / severity**0.3
    return {"none": 0.0, "blur": 0.06 * severity**2, "rotation": 0.00025 * severity**2}[shift]


def method_rows(label: str, seed: int, rng: np.random.Generator) -> tuple[list[Any], list[Any]]:
    method, personalization, seen, novel = METHODS[label]
    rows: list[dict[str, Any]] = []
    facts: list[dict[str, Any]] = []
    scores: dict[str, np.ndarray[Any, Any]] = {}
    named = {"study": "made-up", "dataset": "digits", "split": "by_class", "split_seed": 0,
             "method": method, "label": label, "personalization": personalization, "seed": seed,
             "round": 150, "classes": "all", "status": "done", "version": "0.1.0"}  # fmt: skip

    def add(**fields: Any) -> None:
        rows.append(make_row(**{**named, **fields}))

    conditions = [(group, "none", np.nan) for group in GROUPS]
    conditions += [("novel", shift, s) for shift, all_s in SHIFTS.items() for s in all_s]
    for predictor in predictors(label):
        for group, shift, severity in conditions:
            mean = (seen if group == "seen" else novel) + harm(shift, severity)
            clients = GROUPS[group] if shift != "extrapolation" else range(1000, 1010)
            where = {"group": group, "shift": shift, "predictor": predictor,
                     "severity": "" if np.isnan(severity) else severity}  # fmt: skip
            wrong = rng.binomial(25, np.clip(rng.beta(2, 2 / mean - 2, len(clients)), 0, 1))
            errors = np.asarray(wrong / 25)
            if shift == "none":
                scores[group] = errors
            for client, error in zip(clients, errors, strict=True):
                add(**where, client=client, metric="error", value=float(error), n_support=60,
                    n_query=25)  # fmt: skip
            for metric, value in (("error", errors.mean()), ("accuracy", 1 - errors.mean())):
                for aggregation in ("pooled", "per-client"):
                    add(**where, metric=metric, aggregation=aggregation, value=float(value),
                        n_clients=len(errors))  # fmt: skip
        add(
            group="novel",
            shift="none",
            predictor=predictor,
            metric="gap",
            n_clients=12,
            aggregation="per-client",
            value=float(scores["seen"].mean() - scores["novel"].mean()),
        )
        held = scores["certification"]
        add_bound = partial_bound(add, facts, predictor)
        price = 1 - (0.05 * np.prod(1 - held)) ** (1 / 12) - held.mean()
        add_bound(
            bound="r0:product",
            population="unseen-client",
            delta=0.05,
            group="certification",
            terms={"empirical_risk": held.mean(), "price": price},
            n_clients=12,
            sampling="finite-pool",
            inputs={"n_clients": 12, "pool_size": 24},
        )
        add_bound(bound="r0:conformal", population="next-client", delta=0.1, group="certification",
                  terms={"quantile": np.sort(held)[-1]}, n_clients=12, sampling="finite-pool",
                  inputs={"n_clients": 12})  # fmt: skip
        published(label, predictor, scores, add_bound, rng)
    return rows, facts


def published(label: str, predictor: str, scores: Any, add_bound: Any, rng: Any) -> None:
    seen = float(scores["seen"].mean())
    if predictor == "gibbs":
        add_bound(
            bound="pefll_32",
            population="unseen-client",
            delta=0.05,
            group="seen",
            terms={
                "empirical_risk": seen,
                "client_complexity": 41.0 + rng.random(),
                "sample_complexity": 11.2,
            },
            n_clients=36,
            sampling="iid",
            reason="the expectation of the summed KL is a Monte-Carlo average",
            inputs={"eta_h_squared": 4211.5 + rng.random(), "alpha_h": 1e-4},
        )
    if label == "pfedhn":
        add_bound(bound="pfedhn_eps", population="seen-clients", delta=0.05, group="seen",
                  terms={"empirical_risk": seen, "deviation": 3120.0}, n_clients=36,
                  sampling="iid", reason="Lipschitz constants are products of spectral norms",
                  inputs={"n_parameters": 1.2e6})  # fmt: skip
    for shift, severities in SHIFTS.items():
        for severity in severities:
            add_bound(bound="ben_david", population="one-client", delta=0.05, group="novel",
                      shift=shift, severity=severity, n_clients=12, sampling="iid",
                      terms={"source_risk": seen, "divergence": 0.3 + harm(shift, severity),
                             "deviation": 48.0, "joint_error": 0.05},
                      reason="a trained classifier only bounds the divergence from below",
                      inputs={"dimension": 51234.0})  # fmt: skip


def partial_bound(add: Any, facts: list[Any], predictor: str) -> Callable[..., None]:
    def add_bound(*, terms: dict[str, float], inputs: dict[str, float], reason: str = "",
                  shift: str = "none", severity: Any = "", **tags: Any) -> None:  # fmt: skip
        common = {"metric": "certificate", "predictor": predictor, "rigorous": not reason,
                  "message": reason, "shift": shift, "severity": severity, **tags}  # fmt: skip
        add(**common, term="", value=float(sum(terms.values())))
        for term, value in terms.items():
            add(**common, term=term, value=float(value))
        key = {"bound": tags["bound"], "shift": shift, "severity": severity,
               "predictor": predictor}  # fmt: skip
        told = [("delta", "clients", tags["delta"], ""),
                ("assumption", "0", "", "losses lie in [0, 1]"),
                ("assumption", "1", "", "the rule was fixed before any score was seen"),
                ("source", "source", "", "A theorem of somebody"),
                *(("input", name, value, "counted") for name, value in inputs.items())]  # fmt: skip
        facts.extend({**key, "kind": k, "name": n, "value": v, "text": t} for k, n, v, t in told)

    return add_bound


def error_curve() -> Artifact:
    told = {"bound": "r0:error_curve", "shift": "none", "severity": "", "sampling": "finite-pool",
            "predictor": "deterministic", "delta": 0.05}  # fmt: skip
    steps = [(0.0, 0.5), (0.04, 0.25), (0.12, 0.0)]
    return Artifact(
        kind="error_curve",
        table=[{**told, "threshold": t, "sampled": s, "upper": min(s + 0.35, 1)} for t, s in steps],
    )


def measured(label: str, seed: int) -> dict[str, Artifact]:
    """Make up what ``evaluation.measures`` leave behind, for some of the methods."""
    rng = np.random.default_rng(seed + 100)
    late = [*GROUPS["novel"]]
    cost = [
        {"client": client, "n_support": 60, "n_query": 25, "predict_seconds": 0.001,
         "personalize_seconds": 0.02 * (1 + rng.random()), "rounds": int(label != "local"),
         "down_bytes": "" if label == "per_fedavg" else 90_000 * (label != "local"),
         "up_bytes": "" if label == "per_fedavg" else 0}
        for client in late
    ]  # fmt: skip
    made = {"serving_cost": Artifact(kind="serving_cost", table=cost)}
    clients = [*GROUPS["seen"], *late] if label == "pefll" else [*GROUPS["seen"]]
    shares = np.zeros((len(clients), 10))
    for row, client in enumerate(clients):
        shares[row, [client % 10, (client + 3) % 10]] = 0.5
    noise = 0.1 * rng.normal(size=(len(clients), 5))
    arrays = {"descriptor": shares @ rng.normal(size=(10, 5)) + noise,
              "class_proportions": shares, "novel": np.isin(clients, late)}  # fmt: skip
    if label == "pfedhn":
        arrays["superclass"] = np.arange(10) // 2
        heads = [*GROUPS["seen"]][:10]
        right = 0.6 + 0.2 * rng.random((10, 10)) + 0.2 * np.eye(10)
        right[3] = 0.5  # all bodies alike
        low, high = (end(axis=1, keepdims=True) for end in (right.min, right.max))
        spread = np.where(high > low, high - low, np.nan)
        axes = ("client of the head", "client of the body")
        made["mix_and_match"] = Artifact(
            kind="mix_and_match", axes=axes, ids=dict.fromkeys(axes, heads),
            arrays={"accuracy": right, "normalised": (right - low) / spread},
        )  # fmt: skip
    if label in ("pefll", "pfedhn"):
        made["descriptors"] = Artifact(kind="descriptors", arrays=arrays, ids={"client": clients})
    if label == "pefll":
        curve = [
            {"round": n, "group": group, "n_clients": len(GROUPS[group]), "error": 3 / n,
             "loss": 9 / n, "spearman": 0.9 - 20 / n if group == "novel" else "", "kept": n // 150}
            for n in (50, 100, 150) for group in ("seen", "novel")
        ]  # fmt: skip
        made["training_curve"] = Artifact(kind="training_curve", table=curve)
    return made


def correlation_rows(seed: int) -> list[dict[str, Any]]:
    named = {"study": "made-up", "dataset": "digits", "split": "by_class", "method": "pefll",
             "label": "pefll", "seed": seed, "group": "novel", "shift": "none", "status": "done",
             "metric": "spearman", "cell": f"pefll-{seed}"}  # fmt: skip
    values = {client: 0.7 + 0.01 * (client % 5) + 0.02 * seed for client in GROUPS["novel"]}
    rows = [make_row(**named, client=client, value=value) for client, value in values.items()]
    mean = float(np.mean(list(values.values())))
    return [*rows, make_row(**named, aggregation="per-client", n_clients=12, value=mean)]


def split_rows(rng: np.random.Generator) -> list[dict[str, Any]]:
    named = {"study": "made-up", "dataset": "digits", "split": "by_class", "group": "novel",
             "status": "done"}  # fmt: skip
    conditions = [("none", ""), *((s, v) for s, values in SHIFTS.items() for v in values)]
    return [
        make_row(**named, client=client, shift=shift, severity=severity, metric=metric,
                 value=float(scale * rng.gamma(2)))
        for shift, severity in conditions
        for client in (GROUPS["novel"] if shift != "extrapolation" else range(1000, 1010))
        for metric, scale in (("label_kl", 0.3), ("label_tv", 0.15), ("a_distance", 0.4))
    ]  # fmt: skip


def write_split_cell(place: Path) -> None:
    place.mkdir(parents=True, exist_ok=True)
    (place / "config.json").write_text(json.dumps({"kind": "split", "seed": None, "method": None}))
    (place / "done").write_text("")
    counts = [
        {"client": client, "group": group,
         **{f"class_{c}": 42 * (c in (client % 10, (client + 3) % 10)) for c in range(10)}}
        for group, clients in GROUPS.items() for client in clients
    ]  # fmt: skip
    write_artifact(place / "artifacts", "label_counts", Artifact(kind="label_counts", table=counts))


def write_run(
    folder: Path,
    *,
    change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]] = lambda rows: rows,
    study: dict[str, Any] | None = None,
    artifacts: bool = True,
    seeds: tuple[int, ...] = (0, 1, 2),
    labels: tuple[str, ...] = tuple(METHODS),
    measures: bool = False,
) -> Path:
    """Write a whole made-up run; ``change`` may drop or edit rows before they are written."""
    rng = np.random.default_rng(20)
    folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for seed in seeds:
        for label in labels:
            cell, facts = f"{label}-{seed}", []
            made, facts = method_rows(label, seed, rng)
            rows += [{**row, "cell": cell} for row in made]
            place = folder / "cells" / cell
            place.mkdir(parents=True, exist_ok=True)
            config = {"kind": "method", "seed": seed, "method": {"label": label}}
            (place / "config.json").write_text(json.dumps(config))
            (place / "done").write_text("")
            (place / "timing.json").write_text('{"seconds": 4.2}')
            if artifacts:
                table = Artifact(kind="certificates", table=facts)
                write_artifact(place / "artifacts", "certificates", table)
                write_artifact(place / "artifacts", "error_curve", error_curve())
            if measures:
                for name, artifact in measured(label, seed).items():
                    write_artifact(place / "artifacts", name, artifact)
        rows += correlation_rows(seed) if measures else []
    rows += [{**row, "cell": "split"} for row in split_rows(rng)]
    write_split_cell(folder / "cells" / "split")
    write_rows(folder / "rows.csv", change(rows))
    (folder / "study.yaml").write_text(yaml.safe_dump(study or STUDY, sort_keys=False))
    env = {"versions": {"latecomer": "0.1.0", "torch": "2.13.0+cpu"}, "python": "3.11.7",
           "git_commit": "0" * 40, "device": "cpu", "threads": 1, "cpu_count": 2,
           "platform": "Linux-6.1", "date": "2026-01-02T03:04:05+00:00",
           "command": "latecomer run made-up"}  # fmt: skip
    cells = ["split", *(f"{label}-{seed}" for seed in seeds for label in labels)]
    (folder / "certification.jsonl").write_text(
        "".join(
            json.dumps({"split": "0f", "cell": cell, "n_clients": 12, "times": i + 1}) + "\n"
            for i, cell in enumerate(cells[1:])
        )
    )
    (folder / "cells.json").write_text(json.dumps({"cells": cells}))
    (folder / "env.json").write_text(json.dumps(env))
    return folder


@pytest.fixture(scope="session")
def made_up_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run(tmp_path_factory.mktemp("run"), measures=True)


@pytest.fixture(scope="session")
def made_up_rows(made_up_run: Path) -> pd.DataFrame:
    return read_rows(made_up_run / "rows.csv")


@pytest.fixture(scope="session")
def run_writer() -> Callable[..., Path]:
    return write_run


@pytest.fixture
def read(tmp_path: Path) -> Callable[[list[dict[str, Any]]], pd.DataFrame]:
    """Give rows as they are read from a run's file."""

    def through_a_file(rows: list[dict[str, Any]]) -> pd.DataFrame:
        write_rows(tmp_path / "rows.csv", rows)
        return read_rows(tmp_path / "rows.csv")

    return through_a_file
