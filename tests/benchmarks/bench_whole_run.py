"""A cell of 60 PeFLL rounds on CIFAR-10-sized data, with its evaluations, against its rounds."""

from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np
import torch
from contest import Finding
from populations import N_CLASSES, SHAPE

from latecomer.eval.protocol import evaluate_cell
from latecomer.eval.studies.cells import cells_of
from latecomer.eval.studies.checking import parse_study

SAMPLES, CLIENTS, ROUNDS = 60_000, 110, 60


def cell(folder: Path, rounds: int) -> dict[str, Any]:
    """Return the configuration of the cell: 100 seen and 10 novel clients, two classes each."""
    path = folder / "noise.npz"
    if not path.exists():
        rng = np.random.default_rng(0)
        x = rng.integers(0, 256, (SAMPLES, *SHAPE), np.uint8)
        np.savez(path, x=x, y=np.arange(SAMPLES) % N_CLASSES)
    split = {"kind": "by_class", "clients": CLIENTS, "novel": 10, "classes_per_client": 2}
    study = parse_study(
        {
            "study": "benchmark",
            "data": {"name": "npz", "path": str(path)},
            "split": split | {"query": 1 / 6},
            "methods": [{"name": "pefll"}],
            "train": {"rounds": rounds, "cohort": 5, "local_steps": 50, "batch_size": 32},
        }
    )
    cells = cells_of(study.resolved(), "0" * 64)
    return dict(next(one.config for one in cells if one.kind == "method"))


def test_a_run_and_its_rounds(benchmark, judge, tmp_path):
    """At most 1.15 times the rounds alone, evaluating every 30 of them."""
    evaluate_cell(cell(tmp_path, 1))  # reads the data and makes the split, which cells share
    cpu, wall = [], []

    def watch(*_: Any) -> None:
        cpu.append(process_time())
        wall.append(perf_counter())

    def run() -> None:
        watch()
        evaluate_cell(cell(tmp_path, ROUNDS), watch)
        watch()

    benchmark.pedantic(run, rounds=1)
    assert len(cpu) == ROUNDS + 2
    times = cpu if torch.get_num_threads() == 1 else wall
    rounds, evaluation = times[-2] - times[0], times[-1] - times[-2]
    absolute = {
        "rounds_cpu_s": cpu[-2] - cpu[0],
        "evaluation_cpu_s": cpu[-1] - cpu[-2],
        "rounds_wall_s": wall[-2] - wall[0],
        "evaluation_wall_s": wall[-1] - wall[-2],
    }
    once, twice = ((rounds + times_over * evaluation) / rounds for times_over in (1, 2))
    judge(
        Finding("60 rounds with evaluation at the end / rounds", once, absolute=absolute),
        Finding(
            "60 rounds with evaluation every 30 / rounds",
            twice,
            absolute=absolute,
            note="the evaluation at the end counted twice",
        ),
    )
