"""The local loop of a PeFLL round on a GPU, in every way that may be the fastest one.

Writes ``build/gpu_loop.json``, anew after every way, so that one that is stopped keeps what it has:
milliseconds, the share of the roofline, and how far the weights reached are from those in float64.
What wins there, and stays equal, is what the product should do.
"""

import json
from pathlib import Path
from typing import Any

import contest
import pytest
import torch
from bench_gpu import CONFIG, lenet_flop, products_flop_per_s, timed
from gpu_variants import KERNELS, captured, cut, local_loop
from populations import N_CLASSES, SHAPE, lenet_task
from torch import Tensor

from latecomer.eval.devices import claim
from latecomer.models.engine.local_steps import LocalSGD
from latecomer.models.engine.vectorised import cohort_sgd
from latecomer.models.task import client_axis

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"),
]
WRITTEN = Path("build") / "gpu_loop.json"
WAYS = [
    (kernel, precision, launch)
    # Compiling takes minutes, so it comes last, and only where there are fewest small kernels.
    for launch in ("python", "graph", "compile")
    for precision in ("float32", "tf32", "bf16")
    for kernel in KERNELS
    if launch != "compile" or kernel.startswith("grouped")
]


def entry(way: tuple[str, str, str], shapes: Any, given: tuple[Tensor, ...], goal: Tensor) -> Any:
    """Time one way, and say how far from ``goal`` it ends; or why it cannot be had."""
    kernel, precision, launch = way
    tf32 = precision == "tf32"
    torch.backends.cuda.matmul.allow_tf32 = tf32
    torch.backends.cudnn.allow_tf32 = tf32
    loop = local_loop(
        KERNELS[kernel], shapes, bf16=precision == "bf16", compiled=launch == "compile"
    )
    try:
        loop = captured(loop, *given) if launch == "graph" else loop
        seconds = timed(loop, *given)
    except Exception as error:
        # One way that a version of torch cannot go must not take the others' times away.
        return {"failed": f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"}
    moved = (goal - given[0].double()).norm()
    return {
        "ms": 1e3 * seconds,
        "off": float((loop(*given).double() - goal).norm() / moved),
    }


def test_ways_of_the_local_loop(benchmark):
    """Time all of them as cells compute, and the product's own loop on the same batches."""
    claim("cuda")
    task = lenet_task()
    draw = torch.Generator().manual_seed(0)
    each = (CONFIG.cohort, CONFIG.local_steps, CONFIG.batch_size)
    x = torch.randn(*each, *SHAPE, generator=draw).cuda()
    y = torch.randint(N_CLASSES, each, generator=draw).cuda()
    own = [task.initial(draw) for _ in range(CONFIG.cohort)]
    values = torch.stack([torch.cat([v.flatten() for v in one.values()]) for one in own]).cuda()
    exact = local_loop(KERNELS["grouped"], task.shapes)
    goal = exact(values.double(), x.double(), y)

    def product(values: Tensor, x: Tensor, y: Tensor) -> Tensor:
        reached, _ = cohort_sgd(
            lambda params, step: client_axis.losses(task.target, params, x[:, step], y[:, step]),
            cut(values, task.shapes),
            n_steps=CONFIG.local_steps,
            rule=LocalSGD(2e-3, 0.9, 5e-5),
        )
        return torch.cat([value.flatten(1) for value in reached.values()], dim=1)

    before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    found: dict[str, Any] = {}
    try:
        benchmark.pedantic(product, args=(values, x, y), rounds=1)
        ours, able = timed(product, values, x, y), products_flop_per_s()
        as_graph = timed(captured(product, values, x, y), values, x, y)
        work = CONFIG.cohort * CONFIG.local_steps * CONFIG.batch_size
        work *= lenet_flop(task.shapes, 32)[1]
        record = {
            "machine": contest.machine(),
            "loop_gflop": work / 1e9,
            "float32_products_tflop_per_s": able / 1e12,
            "product_ms": 1e3 * ours,
            "product_ms_graph": 1e3 * as_graph,
            "ways": found,
        }
        WRITTEN.parent.mkdir(exist_ok=True)
        for way in WAYS:
            one = found[", ".join(way)] = entry(way, task.shapes, (values, x, y), goal)
            if "ms" in one:
                one["share_of_float32_roofline"] = work / (one["ms"] / 1e3) / able
            WRITTEN.write_text(json.dumps(record, indent=1) + "\n", "utf-8")
    finally:
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = before
    reached = [one["off"] for way, one in found.items() if "float32" in way and "off" in one]
    assert reached
    assert max(reached) < 1e-2
