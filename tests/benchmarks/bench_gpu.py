"""A PeFLL round in the paper's CIFAR-10 setting on a GPU, and its share of what the device can do.

Writes ``build/gpu.json``, meant for ``reports/reference/benchmarks/``.
"""

import json
from collections.abc import Callable, Mapping
from math import prod
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import contest
import pytest
import torch
from contest import Finding
from populations import N_CLASSES, SHAPE, cifar_shaped, lenet_task, moved
from torch import Tensor

from latecomer.eval.devices import claim
from latecomer.models.engine.schedule import TrainConfig
from latecomer.models.engine.training import train
from latecomer.models.methods import make_method
from latecomer.models.task.clients import Clients

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"),
]
CLIENTS, SUPPORT, DIM = 100, 500, 26
CONFIG = TrainConfig(rounds=60, cohort=5, local_steps=50, batch_size=32)
WARM = 10
WRITTEN = Path("build") / "gpu.json"


def lenet_flop(shapes: Mapping[str, tuple[int, ...]], side: int) -> tuple[int, int]:
    """Return operations of one sample: forward, and forward with both gradients.

    A product and a sum are two operations. Backward each layer costs its forward pass twice, once
    for the weights and once for the inputs, and the first layer has no use for the latter.
    """
    layers = []
    for name, shape in shapes.items():
        if not name.endswith("weight"):
            continue
        places = 1
        if len(shape) == 4:
            side -= shape[-1] - 1
            places, side = side * side, side // 2
        layers.append(2 * places * prod(shape))
    return sum(layers), 3 * sum(layers) - layers[0]


def round_flop(shapes: Mapping[str, tuple[int, ...]], config: TrainConfig) -> int:
    """Return the operations of a PeFLL round: local steps, encoder, hypernetwork both ways."""
    local = config.cohort * config.local_steps * config.batch_size
    first, rest = next(iter(shapes)), {}
    for name, shape in shapes.items():
        rest[name] = (shape[0], shape[1] + N_CLASSES, *shape[2:]) if name == first else shape
    rest["head.weight"] = (DIM, shapes["head.weight"][1])
    encoded = config.cohort * config.batch_size * lenet_flop(rest, SHAPE[1])[1]
    weights = 100 * (DIM + 3 * 100 + sum(prod(shape) for shape in shapes.values()))
    return local * lenet_flop(shapes, SHAPE[1])[1] + encoded + 3 * 2 * config.cohort * weights


def timed(work: Callable[..., Any], *given: Tensor, repeats: int = 8, warm: int = 2) -> float:
    """Return the median seconds of some work, from a device at rest to a device at rest."""
    taken = []
    for _ in range(repeats):
        torch.cuda.synchronize()
        started = perf_counter()
        work(*given)
        torch.cuda.synchronize()
        taken.append(perf_counter() - started)
    return median(taken[warm:])


def products_flop_per_s() -> float:
    """Return what the device reaches on large float32 products without reduced precision."""
    a = torch.randn(8192, 8192, device="cuda")
    return float(2 * 8192**3 / timed(torch.matmul, a, a, repeats=6, warm=1))


def round_seconds(clients: Clients, **settings: Any) -> float:
    """Return the median seconds of a PeFLL round, from a device at rest to a device at rest."""
    task = lenet_task()
    stamps: list[float] = []

    def stamp(*_: Any) -> None:
        torch.cuda.synchronize()
        stamps.append(perf_counter())

    method = make_method("pefll", descriptor_dim=DIM, **settings)
    train(method, task, clients, CONFIG, seed=0, on_round=stamp)
    pairs = zip(stamps[WARM:], stamps[WARM + 1 :], strict=False)
    return median(after - before for before, after in pairs)


def test_pefll_round_on_a_gpu(benchmark, judge):
    """At most 20 ms a round."""
    claim("cuda")
    clients = moved(cifar_shaped(CLIENTS, SUPPORT, 1), "cuda")
    shapes = lenet_task().shapes
    seconds = benchmark.pedantic(round_seconds, args=(clients,), rounds=1)
    stochastic, able = round_seconds(clients, posterior="gaussian"), products_flop_per_s()
    work = round_flop(shapes, CONFIG)
    found = {
        "round_ms": 1e3 * seconds,
        "round_ms_gaussian_posterior": 1e3 * stochastic,
        "round_gflop": work / 1e9,
        "reached_tflop_per_s": work / seconds / 1e12,
        "float32_products_tflop_per_s": able / 1e12,
        "peak_memory_mib": torch.cuda.max_memory_allocated() / 2**20,
    }
    WRITTEN.parent.mkdir(exist_ok=True)
    record = {"machine": contest.machine(), "share_of_roofline": work / seconds / able, **found}
    WRITTEN.write_text(json.dumps(record, indent=1) + "\n", "utf-8")
    judge(
        Finding("PeFLL round on a GPU / 20 ms", seconds / 0.020, absolute=found),
        Finding("PeFLL round on a GPU, share of the roofline", work / seconds / able),
        Finding("PeFLL round on a GPU, Gaussian posterior / none", stochastic / seconds),
    )
