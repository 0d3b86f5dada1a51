"""A run of 100,000 rows, for the test of its page's size and the benchmark of its time."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from latecomer.eval.results.rows import Artifact, make_row, write_artifact, write_rows

METHODS = (
    *("local", "fedavg", "fedprox", "fedma", "per_fedavg", "fedrep", "fedper", "lg_fedavg"),
    *("pfedme", "knn_per", "pfedhn", "pfedhn_pc", "pfl_sampled", "pfl_nearest", "pfl_ensemble"),
    *("odpfl_hn", "pefll", "pefll-stochastic"),
)
GROUPS = {"seen": range(300), "certification": range(300, 400), "novel": range(400, 600)}
CONDITIONS = [("blur", 0.5), ("blur", 1.0), *(("rotation", s) for s in (15.0, 30.0, 45.0)),
              ("noise", 0.1)]  # fmt: skip
MEASURES = ("label_kl", "label_tv", "label_js", "label_hellinger", "a_distance")


def rows_of(label: str, seed: int, rng: np.random.Generator) -> Iterator[dict[str, Any]]:
    named = {"study": "large", "dataset": "digits", "split": "by_class", "method": label,
             "label": label, "personalization": "forward", "seed": seed, "round": 9,
             "classes": "all", "predictor": "deterministic", "cell": f"{label}-{seed}",
             "status": "done", "version": "0.1.0"}  # fmt: skip
    shifted = [("novel", *condition) for condition in CONDITIONS]
    for group, shift, severity in [*((g, "none", "") for g in GROUPS), *shifted]:
        wrong = rng.binomial(40, 0.1 + 0.2 * (shift != "none"), len(GROUPS[group]))
        for client, n in zip(GROUPS[group], wrong, strict=True):
            yield make_row(**named, group=group, client=client, shift=shift, severity=severity,
                           metric="error", value=n / 40, n_support=100, n_query=40)  # fmt: skip
    told = {"metric": "certificate", "bound": "r0:product", "population": "unseen-client",
            "sampling": "finite-pool", "rigorous": True, "delta": 0.05, "group": "certification",
            "shift": "none", "n_clients": 100}  # fmt: skip
    for term, value in (("", 0.15), ("empirical_risk", 0.1), ("price", 0.05)):
        yield make_row(**named, **told, term=term, value=value)


def write_large_run(folder: Path) -> int:
    """Write the run that 18 methods with three seeds would leave; return the number of its rows."""
    rng = np.random.default_rng(4)
    rows = [row for seed in range(3) for label in METHODS for row in rows_of(label, seed, rng)]
    rows += [
        make_row(study="large", dataset="digits", split="by_class", cell="split", group="novel",
                 client=client, shift=shift, severity=severity, metric=metric, status="done",
                 value=float(rng.gamma(2)))
        for shift, severity in [("none", ""), *CONDITIONS]
        for client in GROUPS["novel"] for metric in MEASURES
    ]  # fmt: skip
    write_rows(folder / "rows.csv", rows)
    study = {"study": "large", "methods": list(METHODS), "seeds": [0, 1, 2]}
    (folder / "study.yaml").write_text(yaml.safe_dump(study))
    (folder / "cells.json").write_text(json.dumps({"cells": ["split"]}))
    place = folder / "cells" / "split"
    place.mkdir(parents=True)
    (place / "done").write_text("")
    held = rng.multinomial(100, np.full(100, 0.01), 600).tolist()
    counts = [
        {"client": client, "group": group, **{f"class_{c}": n for c, n in enumerate(held[client])}}
        for group, clients in GROUPS.items() for client in clients
    ]  # fmt: skip
    write_artifact(place / "artifacts", "label_counts", Artifact(kind="label_counts", table=counts))
    return len(rows)
