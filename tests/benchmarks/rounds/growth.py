"""What a round takes as clients grow: ``python growth.py [METHOD CLIENTS [lenet]]``.

Without arguments it measures small nets with all methods and numbers of clients, each in a process
of its own, since a process never gives back what the last training made it take, and prints JSON.
Keep it as ``reports/reference/benchmarks/growth.json``: a page shows it as a table. With ``lenet``
the same data are divided among the clients, however many, and train LeNets.
"""

import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from statistics import mean
from time import process_time
from typing import Any

import torch
from contest import machine
from populations import N_CLASSES, cifar_shaped, lenet_task

from latecomer.models.engine.schedule import TrainConfig
from latecomer.models.engine.training import train
from latecomer.models.methods import make_method
from latecomer.models.task.task import make_task

METHODS: dict[str, dict[str, Any]] = {
    "fedavg": {},
    "fedper": {},
    "pefll": {"descriptor_dim": 26},
    "pfedhn": {"embedding_dim": 26},
}
"""Without and with a table of what clients keep, and the two that make models."""
COUNTS = (100, 1_000, 10_000, 100_000)
SETTING = {"features": 16, "support": 10, "cohort": 5, "local_steps": 10, "batch_size": 8}
ROUNDS = 49
"""Some are drawn ahead, sixteen at a time, so that a mean over many rounds is looked at."""


SAMPLES = 20_000
LENETS = {"fedper": {"head_layers": 2}}
"""FedPer's clients keep the last two layers: enough to be seen among the pages of a process."""


def resident(key: str) -> int:
    """Return ``VmRSS`` (now) or ``VmHWM`` (peak) of this process in bytes."""
    lines = Path("/proc/self/status").read_text("utf-8").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(key))


def measured(name: str, n_clients: int, rounds: int = ROUNDS) -> dict[str, float]:
    """Measure the training of small nets."""
    shape = (SETTING["features"],)
    clients = cifar_shaped(n_clients, SETTING["support"], 0, shape=shape, dtype=torch.float32)
    task = make_task(input_shape=shape, n_classes=N_CLASSES, target="dense")
    steps = {key: SETTING[key] for key in ("cohort", "local_steps", "batch_size")}
    method = make_method(name, **METHODS[name])
    return trained(method, task, clients, TrainConfig(rounds=rounds, **steps))


def of_lenets(name: str, n_clients: int) -> dict[str, float]:
    """Measure the training of LeNets on data divided among the clients."""
    clients = cifar_shaped(n_clients, SAMPLES // n_clients, 0)
    config = TrainConfig(rounds=5, cohort=5, local_steps=2, batch_size=32)
    return trained(make_method(name, **LENETS.get(name, {})), lenet_task(), clients, config)


def trained(method, task, clients, config) -> dict[str, float]:
    """Train and return milliseconds of processor time of a round, and MiB of memory."""
    torch.set_num_threads(1)
    ends = [process_time()]
    # What importing and making the data took at its height must not hide the training's.
    Path("/proc/self/clear_refs").write_text("5")
    before = resident("VmRSS")
    state = train(
        method, task, clients, config, seed=0, on_round=lambda _: ends.append(process_time())
    )
    tables = [clients.x, clients.y, clients.support, clients.query]
    took = [end - begun for begun, end in pairwise(ends)]
    kept = sum(value.nbytes for value in state.clients.values())
    return {
        "round_ms": 1e3 * mean(took[1:]),
        "first_round_ms": 1e3 * took[0],
        "training_mib": (resident("VmHWM") - before) / 2**20,
        "kept_by_clients_mib": kept / 2**20,
        "data_mib": sum(table.nbytes for table in tables) / 2**20,
    }


def all_of_them() -> dict[str, Any]:
    """Measure every method with every number of clients."""
    program, found = [sys.executable, __file__], {}
    for name in METHODS:
        found[name] = {
            str(count): json.loads(
                subprocess.run(
                    [*program, name, str(count)], check=True, capture_output=True, text=True
                ).stdout
            )
            for count in COUNTS
        }
    return {"machine": machine(), "setting": SETTING, "rounds": ROUNDS, "found": found}


if __name__ == "__main__":
    name, count, *lenet = sys.argv[1:] or ("", "")
    measure = of_lenets if lenet else measured
    made = measure(name, int(count)) if name else all_of_them()
    print(json.dumps(made, indent=None if name else 1))
