"""Splitting: 1,000 clients of 50,000 samples (aim 0.1 s), 100,000 clients of two million (5 s)."""

from typing import Any

import numpy as np
import pytest

from latecomer.eval.datasets import make_dataset
from latecomer.eval.splits.build import make_split

KINDS: dict[str, dict[str, Any]] = {
    "by_class": {"classes_per_client": 2},
    "by_class-uniform": {"classes_per_client": 2, "shares": "uniform"},
    "pathological": {"shards_per_client": 2},
    "dirichlet-shares": {"alpha": 0.1},
    "dirichlet-draws": {"alpha": 0.1, "form": "draws"},
    "coarse": {},
    "iid": {},
    "environment": {"classes_per_client": 2},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("clients", "samples"), [(1_000, 50_000), (100_000, 2_000_000)])
def test_split(benchmark, kind, clients, samples):
    y = np.random.default_rng(0).integers(0, 10, samples)
    data = make_dataset("t", np.zeros((samples, 1), np.uint8), y, provenance="", coarse=y // 2)
    options = {"kind": kind.split("-")[0], "clients": clients, "certify": 0.1, "novel": 0.1}
    rounds = 5 if clients == 1_000 else 1
    split = benchmark.pedantic(
        make_split, args=(data,), kwargs=options | KINDS[kind], rounds=rounds, warmup_rounds=1
    )
    assert len(split.clients) == clients
