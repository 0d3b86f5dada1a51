"""By how much memory peaks during a training: ``python memory_of_training.py METHOD CLIENTS``.

A program of its own, because a process never gives back what the last training made it take.
Prints JSON: bytes by which resident memory peaked above where it stood before, and of the state.
"""

import json
import sys
from pathlib import Path

import torch
from populations import cifar_shaped, lenet_task

from latecomer.models.engine.schedule import TrainConfig
from latecomer.models.engine.training import train
from latecomer.models.methods import make_method

SAMPLES = 20_000
OPTIONS = {"fedper": {"head_layers": 2}}
"""FedPer's clients keep the last two layers: enough to be seen among the pages of a process."""


def resident(key: str) -> int:
    """Return ``VmRSS`` (now) or ``VmHWM`` (peak) of this process in bytes."""
    lines = Path("/proc/self/status").read_text("utf-8").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(key))


def main(name: str, n_clients: int) -> None:
    """Train five rounds and print what they took."""
    torch.set_num_threads(1)
    clients = cifar_shaped(n_clients, SAMPLES // n_clients, 0)
    task = lenet_task()
    method = make_method(name, **OPTIONS.get(name, {}))
    config = TrainConfig(rounds=5, cohort=5, local_steps=2, batch_size=32)
    # What importing and making the data took at its height must not hide the training's.
    Path("/proc/self/clear_refs").write_text("5")
    before = resident("VmRSS")
    state = train(method, task, clients, config, seed=0)
    kept = sum(value.numel() * value.element_size() for value in state.clients.values())
    print(json.dumps({"peak_bytes": resident("VmHWM") - before, "client_state_bytes": kept}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
