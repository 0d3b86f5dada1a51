"""What FedAvg loses to unscaled pixels, batches in class order and momentum that is kept.

Published baselines of personalised federated learning may have been trained with three habits of an
older library: CIFAR's bytes standardised with the mean and deviation of pixels in [0, 1], but never
divided by 255; minibatches in the order of a client's data, class by class; and each client's
momentum kept from one of its rounds to the next. This program trains FedAvg on the clients of the
study ``pefll-table1`` with and without them. All systems, a switch and a rate each, are trained
side by side on the same cohorts; the rate is for the seen clients' validation samples to choose.

    python handicapped_fedavg.py --systems control:.005,order:.01,all:1e-4 --rounds 2000 --out DIR

A system is ``control``, ``bytes``, ``order``, ``momentum`` or ``all``, and its local rate. Written
apart from latecomer's engine, which deals the clients and gives nothing else: LeNet with patches
and batched products, momentum .9, decay 5e-5, gradients clipped at 50, 5 clients, 50 steps of 32.
"""

import argparse
import csv
import os
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from latecomer.eval.datasets import load_dataset
from latecomer.eval.splits.build import split_of
from latecomer.eval.studies.loading import load_study

COHORT, STEPS, BATCH = 5, 50, 32
MOMENTUM, DECAY, CLIP = 0.9, 5e-5, 50.0
MEAN, SD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)  # of CIFAR-10's pixels in [0, 1]
SHAPES = {
    "conv1": (75, 16),
    "conv2": (400, 32),
    "fc1": (800, 120),
    "fc2": (120, 84),
    "head": (84, 10),
}
SWITCHES = {
    "control": (False, False, False),
    "bytes": (True, False, False),
    "order": (False, True, False),
    "momentum": (False, False, True),
    "all": (True, True, True),
}


def first_weights(seed: int, systems: int, device: torch.device) -> list[Tensor]:
    """Return torch's default weights, the same for every system: [S, in, out] and [S, 1, out]."""
    random, values = torch.Generator().manual_seed(seed), []
    for inputs, outputs in SHAPES.values():
        for shape in ((inputs, outputs), (1, outputs)):
            drawn = torch.rand(shape, generator=random) * 2 - 1
            values.append((drawn / inputs**0.5).to(device).expand(systems, *shape).clone())
    return values


def logits(values: list[Tensor], images: Tensor) -> Tensor:
    """Apply nets [G, ...] to their own images [G, B, 3, 32, 32]."""
    nets, batch = images.shape[:2]
    x = images.flatten(0, 1)
    for layer in range(2):
        side = x.shape[-1] - 4
        patches = x.unfold(2, 5, 1).unfold(3, 5, 1).permute(0, 2, 3, 1, 4, 5)
        patches = patches.reshape(nets, batch * side * side, -1)
        x = torch.baddbmm(values[2 * layer + 1], patches, values[2 * layer])
        x = x.view(nets * batch, side, side, -1).permute(0, 3, 1, 2)
        x = F.relu(F.max_pool2d(x, 2))
    x = x.reshape(nets, batch, -1)
    for layer in range(2, 5):
        x = torch.baddbmm(values[2 * layer + 1], x, values[2 * layer])
        x = F.relu(x) if layer < 4 else x
    return x


class Rounds:
    """Local steps of all systems' cohorts; on a GPU one step is a recorded graph."""

    def __init__(self, x: Tensor, y: Tensor, rates: Tensor, unscaled: Tensor) -> None:
        nets, self.device = len(rates), x.device
        self.x, self.y, self.rates = x, y, rates.view(-1, 1, 1)
        # What a pixel in [0, 1] is multiplied with before it is standardised.
        self.factor = torch.where(unscaled, 255.0, 1.0).to(self.device).view(-1, 1, 1, 1, 1)
        self.mean = torch.tensor(MEAN, device=self.device).view(1, 1, 3, 1, 1)
        self.sd = torch.tensor(SD, device=self.device).view(1, 1, 3, 1, 1)
        self.rows = torch.zeros(nets, BATCH, dtype=torch.int64, device=self.device)
        self.values = first_weights(0, nets, self.device)
        self.momenta = [torch.zeros_like(value) for value in self.values]
        self.graph = None

    def images(self, rows: Tensor, factor: Tensor) -> Tensor:
        """Return standardised pictures of rows [G, B]."""
        return (self.x[rows].float() / 255 * factor - self.mean) / self.sd

    def step(self) -> None:
        """Take one step of every net on its own minibatch."""
        values = [value.detach().requires_grad_() for value in self.values]
        out = logits(values, self.images(self.rows, self.factor))
        targets = self.y[self.rows]
        loss = F.cross_entropy(out.flatten(0, 1), targets.flatten(), reduction="sum") / BATCH
        slopes = torch.autograd.grad(loss, values)
        norms = sum(slope.flatten(1).square().sum(1) for slope in slopes).sqrt()
        shrink = (CLIP / norms.clamp_min(CLIP)).view(-1, 1, 1)
        for value, momentum, slope in zip(self.values, self.momenta, slopes, strict=True):
            momentum.mul_(MOMENTUM).add_(slope * shrink).add_(value, alpha=DECAY)
            value.sub_(self.rates * momentum)

    def take(self, rows: Tensor) -> None:
        """Take a step on rows [G, BATCH]."""
        self.rows.copy_(rows)
        if self.device.type != "cuda":
            self.step()
            return
        if self.graph is None:
            kept = [tensor.clone() for tensor in (*self.values, *self.momenta)]
            stream = torch.cuda.Stream()
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                for _ in range(3):
                    self.step()
            torch.cuda.current_stream().wait_stream(stream)
            for tensor, before in zip((*self.values, *self.momenta), kept, strict=True):
                tensor.copy_(before)
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.step()
        self.graph.replay()


def minibatches(support: np.ndarray, labels: np.ndarray, ordered: bool, random) -> np.ndarray:
    """Return rows [STEPS, BATCH] of a client: epochs in class order, or drawn anew."""
    if not ordered:
        return np.stack([random.choice(support, BATCH, replace=False) for _ in range(STEPS)])
    in_order = support[np.argsort(labels[support], kind="stable")]
    usable = in_order[: len(in_order) // BATCH * BATCH].reshape(-1, BATCH)
    return usable[np.arange(STEPS) % len(usable)]


def shares_right(rounds: Rounds, server, split_rows, unscaled: Tensor) -> np.ndarray:
    """Return each system's mean share of samples that is right, over clients with rows [n]."""
    sizes = [len(rows) for rows in split_rows]
    rows = torch.from_numpy(np.concatenate(split_rows)).to(rounds.device)
    owner = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes)).to(rounds.device)
    means = []
    for system in range(len(server[0])):
        values = [value[system : system + 1] for value in server]
        factor = torch.tensor(255.0 if unscaled[system] else 1.0, device=rounds.device)
        right = torch.cat(
            [
                logits(values, rounds.images(part[None], factor))[0].argmax(1) == rounds.y[part]
                for part in rows.split(2000)
            ]
        )
        totals = torch.zeros(len(sizes), device=rounds.device).index_add_(0, owner, right.float())
        means.append(float((totals / torch.tensor(sizes, device=rounds.device)).mean()))
    return np.array(means)


def main() -> None:
    """Train the systems that are asked for, and write their curves."""
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("--systems", default="control:.005,order:.005,all:1e-4")
    asked.add_argument("--rounds", type=int, default=2000)
    asked.add_argument("--every", type=int, default=50)
    asked.add_argument("--seed", type=int, default=0)
    asked.add_argument("--out", type=Path, default=Path("."))
    options = asked.parse_args()
    named = [text.split(":") for text in options.systems.split(",")]
    systems = [(name, float(rate)) for name, rate in named]
    study = load_study("pefll-table1")
    dataset = load_dataset(study.data.model_dump())
    split = split_of(dataset, study.split)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.backends.cuda.matmul.allow_tf32 = False
    x, y = torch.from_numpy(dataset.x).to(device), torch.from_numpy(dataset.y).to(device)
    unscaled = torch.tensor([SWITCHES[name][0] for name, _ in systems])
    ordered = [SWITCHES[name][1] for name, _ in systems]
    kept = torch.tensor([SWITCHES[name][2] for name, _ in systems], device=device)
    rates = torch.tensor([rate for _, rate in systems], device=device)
    rounds = Rounds(x, y, rates.repeat_interleave(COHORT), unscaled.repeat_interleave(COHORT))
    server = first_weights(options.seed, len(systems), device)
    memory = [torch.zeros(len(split.seen), *value.shape, device=device) for value in server]
    random, labels = np.random.default_rng(options.seed), dataset.y
    options.out.mkdir(parents=True, exist_ok=True)
    path, started = options.out / "curve.csv", time.monotonic()
    with path.open("w", newline="") as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow(["round", "system", "rate", "validation", "seen", "newcomers"])
        for number in range(1, options.rounds + 1):
            cohort = random.choice(len(split.seen), COHORT, replace=False)
            drawn, in_order = (
                np.stack([minibatches(split.seen[c].support, labels, way, random) for c in cohort])
                for way in (False, True)
            )
            rows = np.stack([in_order if way else drawn for way in ordered]).reshape(
                -1, STEPS, BATCH
            )
            table = torch.from_numpy(rows).to(device)
            members = torch.from_numpy(cohort).to(device)
            for value, momentum, whole, held in zip(
                rounds.values, rounds.momenta, server, memory, strict=True
            ):
                value.copy_(whole.repeat_interleave(COHORT, 0))
                own = held[members].transpose(0, 1) * kept.view(-1, 1, 1, 1)
                momentum.copy_(own.flatten(0, 1))
            for step in range(STEPS):
                rounds.take(table[:, step])
            for index, (value, momentum) in enumerate(
                zip(rounds.values, rounds.momenta, strict=True)
            ):
                per_system = value.view(len(systems), COHORT, *value.shape[1:])
                server[index] = per_system.mean(1)
                memory[index][members] = momentum.view(
                    len(systems), COHORT, *value.shape[1:]
                ).transpose(0, 1)
            if number % options.every and number != options.rounds:
                continue
            shares = [
                shares_right(rounds, server, [getattr(c, role) for c in group], unscaled)
                for group, role in (
                    (split.seen, "validation"),
                    (split.seen, "query"),
                    (split.novel, "query"),
                )
            ]
            for (name, rate), *found in zip(systems, *shares, strict=True):
                lines.writerow([number, name, rate, *(f"{share:.5f}" for share in found)])
            file.flush()
            os.fsync(file.fileno())
            print(number, round(time.monotonic() - started), flush=True)


if __name__ == "__main__":
    main()
