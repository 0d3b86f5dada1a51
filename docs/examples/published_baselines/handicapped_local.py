"""What Local loses to unscaled pixels and to batches in class order, and gains by validation.

Two of the habits that ``handicapped_fedavg.py`` gives FedAvg, for clients who train by themselves
(momentum that a client keeps is no habit there: its training is one). Some of the seen clients of
the study ``pefll-table1``, variant ``local-500`` or ``local-1000``, train LeNet for 200 epochs; the
rate, one for all clients, is for their validation samples to choose, and so is the epoch, unless
it is the last.

    python handicapped_local.py --variant local-500 --systems control:.005,all:1e-4 --out DIR

A system is ``control``, ``bytes``, ``order`` or ``all``, and its rate. Written apart from
latecomer's engine, which deals the clients and gives nothing else: steps of 32, momentum .9, decay
5e-5, gradients clipped at 50.
"""

import argparse
import csv
import os
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from handicapped_fedavg import CLIP, DECAY, MEAN, MOMENTUM, SD, STEPS, SWITCHES, minibatches
from torch import Tensor, nn

from latecomer.eval.datasets import load_dataset
from latecomer.eval.splits.build import split_of
from latecomer.eval.studies.loading import load_study


def lenet() -> nn.Module:
    """Return the net of the study, with torch's default weights."""
    pooled = (nn.MaxPool2d(2), nn.ReLU())
    features = (nn.Conv2d(3, 16, 5), *pooled, nn.Conv2d(16, 32, 5), *pooled, nn.Flatten())
    dense = (nn.Linear(800, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10))
    return nn.Sequential(*features, *dense)


def standardised(pixels: np.ndarray, unscaled: bool) -> Tensor:
    """Return pictures of bytes as the net sees them, with pixels of 0 to 1 or of 0 to 255."""
    mean, sd = (torch.tensor(value).view(3, 1, 1) for value in (MEAN, SD))
    return (torch.from_numpy(pixels).float() / (1 if unscaled else 255) - mean) / sd


def trained(client, x: Tensor, y: Tensor, rate: float, batches: np.ndarray, every: int):
    """Train one client; yield its shares of validation and query samples right, every so often."""
    torch.manual_seed(0)
    net = lenet()
    looked_at = [torch.tensor(rows) for rows in (client.validation, client.query)]
    descent = torch.optim.SGD(net.parameters(), rate, momentum=MOMENTUM, weight_decay=DECAY)
    for number, rows in enumerate(batches, start=1):
        descent.zero_grad()
        F.cross_entropy(net(x[rows]), y[rows]).backward()
        nn.utils.clip_grad_norm_(net.parameters(), CLIP)
        descent.step()
        if number % every == 0:
            with torch.no_grad():
                right = [
                    (net(x[rows]).argmax(1) == y[rows]).float().mean().item() for rows in looked_at
                ]
            yield number, *right


def main() -> None:
    """Train the systems that are asked for, and write their curves."""
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("--variant", default="local-500")
    asked.add_argument("--systems", default="control:.005,order:.005,bytes:1e-4,all:1e-4")
    asked.add_argument("--clients", type=int, default=90, help="so many of the seen ones")
    asked.add_argument("--epochs", type=int, default=200)
    asked.add_argument("--every", type=int, default=20, help="epochs between two looks")
    asked.add_argument("--out", type=Path, default=Path("."))
    options = asked.parse_args()
    torch.set_num_threads(1)
    study = load_study("pefll-table1", variants=[options.variant])
    dataset = load_dataset(study.data.model_dump())
    seen = split_of(dataset, study.split).seen
    chosen = seen[:: max(1, len(seen) // options.clients)][: options.clients]
    pictures = {way: standardised(dataset.x, way) for way in (False, True)}
    y, steps = torch.from_numpy(dataset.y).long(), study.train.local_steps
    options.out.mkdir(parents=True, exist_ok=True)
    with (options.out / "curve.csv").open("w", newline="") as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow(["variant", "clients", "system", "rate", "epoch", "validation", "seen"])
        for name, rate in (text.split(":") for text in options.systems.split(",")):
            unscaled, ordered, _ = SWITCHES[name]
            shares: dict[int, list[tuple[float, float]]] = {}
            random = np.random.default_rng(0)
            for client in chosen:
                dealt = (client.support, dataset.y, ordered, random)
                parts = [minibatches(*dealt) for _ in range(-(-options.epochs * steps // STEPS))]
                batches = np.concatenate(parts)[: options.epochs * steps]
                every = options.every * steps
                curve = trained(client, pictures[unscaled], y, float(rate), batches, every)
                for number, validation, query in curve:
                    shares.setdefault(number // steps, []).append((validation, query))
            for epoch, found in shares.items():
                means = (f"{mean:.5f}" for mean in np.mean(found, axis=0))
                lines.writerow([options.variant, len(found), name, rate, epoch, *means])
            file.flush()
            os.fsync(file.fileno())
            print(name, rate, *(f"{mean:.4f}" for mean in np.mean(found, axis=0)), flush=True)


if __name__ == "__main__":
    main()
