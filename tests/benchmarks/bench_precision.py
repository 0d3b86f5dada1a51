"""Local steps in bfloat16 (and in TF32 on a GPU) against float32: time of a round, and accuracy.

On the device at hand: a PeFLL round on LeNet, in turns, and a training on digits with each.
"""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace

import pandas as pd
import torch
from contest import Finding, compare
from contestants import engine
from populations import SMALL, cifar_shaped, lenet_task, moved

from latecomer.eval.devices import claim, device_name
from latecomer.eval.protocol import evaluate_cell
from latecomer.eval.studies.checking import parse_study
from latecomer.models.engine.schedule import TrainConfig
from latecomer.models.methods import make_method

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
RIVALS = ("bf16", "tf32") if DEVICE == "cuda" else ("bf16",)
CONFIG = TrainConfig(
    rounds=10_000, cohort=2 if SMALL else 5, local_steps=2 if SMALL else 50, batch_size=32
)
CLIENTS, SUPPORT, REPEATS = (10, 50, 2) if SMALL else (100, 500, 5)
ROUNDS, SEEDS = (4, (0,)) if SMALL else (100, (0, 1))


def waited(round_: Callable[[], None]) -> Callable[[], None]:
    """Return a round that is over when it returns; on a CPU it is anyway."""

    def run() -> None:
        round_()
        if DEVICE == "cuda":
            torch.cuda.synchronize()

    return run


def accuracies(precision: str, rounds: int, seeds: tuple[int, ...]) -> Mapping[str, float]:
    """Return the mean accuracy of seen and novel clients after a training on digits."""
    study = parse_study(
        {
            "study": "precision",
            "data": {"name": "digits"},
            "split": {"kind": "by_class", "clients": 60, "classes_per_client": 2, "novel": 12},
            "methods": ["pefll"],
            "train": {"rounds": rounds, "cohort": 5, "local_steps": 20, "batch_size": 16}
            | {"precision": precision, "device": DEVICE},
            "seeds": list(seeds),
        }
    )
    cells = [cell for cell in study.cells("") if cell.kind == "method"]
    rows = pd.DataFrame([row for cell in cells for row in evaluate_cell(cell.config).rows])
    pooled = rows[(rows["metric"] == "error") & (rows["aggregation"] == "pooled")]
    error = pooled.groupby("group")["value"].mean()
    return {group: 1 - float(error[group]) for group in ("seen", "novel")}


def test_round_and_accuracy(take_turns, judge, benchmark):
    """The round may be faster or slower: what a processor has for bfloat16 differs."""
    claim(DEVICE)
    clients = moved(cifar_shaped(CLIENTS, SUPPORT, 1), DEVICE)
    task = lenet_task()
    method = make_method("pefll", descriptor_dim=26)
    with ExitStack() as stack:
        rounds = {
            name: waited(stack.enter_context(engine(method, task, clients, config)))
            for name in ("float32", *RIVALS)
            for config in [replace(CONFIG, precision=None if name == "float32" else name)]
        }
        turns = take_turns(rounds, repeats=REPEATS)
    benchmark.extra_info["device"] = device_name(DEVICE)
    exact = accuracies("float32", ROUNDS, SEEDS)
    for name in RIVALS:
        # What a GPU does costs the processor no time.
        clock = {"processes": DEVICE == "cuda", "note": device_name(DEVICE)}
        title = f"PeFLL round in {name} / in float32"
        judge(compare(title, turns[name], turns["float32"], **clock))
        found = accuracies(name, ROUNDS, SEEDS)
        judge(
            Finding(
                f"accuracy on digits trained in {name} / in float32, novel clients",
                found["novel"] / exact["novel"],
                absolute={f"{name}_{k}": v for k, v in found.items()}
                | {f"float32_{k}": v for k, v in exact.items()},
                note=f"{ROUNDS} rounds, seeds {', '.join(map(str, SEEDS))}",
            )
        )
