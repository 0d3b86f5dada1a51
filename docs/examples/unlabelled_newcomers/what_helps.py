"""What helps ODPFL-HN's new clients, without a look at new clients: options chosen, then measured.

Digits are dealt to 60 clients of a few classes each; 24 of them are new clients. In the stage
``choose`` every option trains on 24 seen clients, and 12 further seen ones, held back, stand for
new clients. In the stage ``report``, with other seeds, the new clients themselves are asked, after
training on all 36; there the 12 held back choose a round too. One seed deals the clients and
trains. What counts was fixed beforehand: the share of a client's samples that is right, in the mean
over clients, as they are and blurred by one and two pixels, always beside the same clients.

    python what_helps.py choose report --out DIR

Writes ``accuracies.csv``; the table of the site is made from its rows.
"""

import argparse
import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import torch
from torch import Generator

from latecomer.eval.federation.groups import build_federation
from latecomer.eval.settings.cell import FederationSettings
from latecomer.models.engine.method import Method, Predictor, predict_with
from latecomer.models.engine.training import Checkpoint, TrainConfig, train
from latecomer.models.families import described_clients
from latecomer.models.families.described_clients import served
from latecomer.models.methods import make_method
from latecomer.models.methods.odpfl_hn import ODPFLHN
from latecomer.models.task.clients import Clients, Samples
from latecomer.models.task.state import State, row
from latecomer.models.task.task import Task, make_task

CLASSES = (2, 4)
SEEDS: Mapping[str, Sequence[int]] = {"choose": range(3), "report": range(3, 10)}
SPLIT = {"kind": "by_class", "clients": 60, "novel": 24, "query": 0.25, "validation": 0.0}
BUDGET = TrainConfig(rounds=80, cohort=6, local_steps=5, batch_size=16)
RATES = {"local_lr": 0.1, "server_lr": 3e-3}
TOGETHER = 3
HELD_BACK = 12
EVERY = 10
"""Rounds between two looks at the clients held back, where they choose the round."""
BLUR = (1.0, 2.0)
FIELDS = ("stage", "classes", "seed", "option", "training", "condition", "accuracy")


@dataclass(frozen=True, kw_only=True)
class Tried(ODPFLHN):
    """ODPFL-HN with what was tried beside its own settings; as it is, unless that is set.

    Attributes
    ----------
    views : int
        Random halves of a client's inputs whose descriptors are averaged in serving; 1: its inputs.
    """

    views: int = 1

    def personalize(
        self,
        task: Task,
        state: State,
        support: Samples,
        *,
        predictor: str = "deterministic",
        generator: Generator,
    ) -> Predictor:
        """Make a client's weights, from the mean descriptor of its views if there are several."""
        if self.views == 1:
            how: dict[str, Any] = {"predictor": predictor, "generator": generator}
            return super().personalize(task, state, support, **how)
        table, size = served(state.server), max(1, len(support) // 2)
        parts = [
            torch.randperm(len(support), generator=generator)[:size] for _ in range(self.views)
        ]
        with torch.no_grad():
            told = self.described(task, table, [support.x[rows] for rows in parts])
            made = described_clients.weights(task, table, told.mean(dim=0, keepdim=True))
            return predict_with(task, row(made, 0))


OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "parts": {"undescribed": 0.7},
    "unit parts": {"undescribed": 0.7, "encoder": "unit-deepsets"},
}
TRIED: Mapping[str, Sequence[str]] = {"choose": tuple(OPTIONS), "report": ("parts",)}
"""Settings that a stage trains with; clients held back had more right with ``parts``."""


@dataclass(frozen=True, eq=False)
class Asked:
    """Who trains, who is held back from them, and who is measured, under every condition."""

    task: Task
    trained: Clients
    held_back: Clients
    measured: Mapping[str, tuple[Clients, Clients]]


Serve = Callable[[Samples, Generator], Predictor]
"""Makes a new client's model."""


def asked(stage: str, classes: int, seed: int, *, held_back: int = 0) -> Asked:
    """Return the clients of a stage; described and measured ones of a condition are two groups."""
    certify = HELD_BACK if stage == "choose" else held_back
    federation = build_federation(
        FederationSettings(
            data={"name": "digits"},
            split={**SPLIT, "classes_per_client": classes, "seed": seed, "certify": certify},
            shifts={"blur": BLUR},
            certified_shifts=("blur",) if stage == "choose" else (),
        )
    )
    chosen = stage == "choose"
    plain = federation.certification if chosen else federation.novel
    blurred = federation.shifted_certification if chosen else federation.shifted
    own = _flat(plain.clients)
    measured = {"sharp": (own, own)}
    for group in blurred:
        moved = _flat(group.clients)
        measured[f"blur {group.severity:g}"] = (moved, moved)
        measured[f"blur {group.severity:g} described sharp"] = (own, moved)
    trained, rest = (_flat(one.clients) for one in (federation.seen, federation.certification))
    task = make_task(input_shape=(64,), n_classes=10, target="linear")
    return Asked(task, trained, rest, measured)


def _flat(clients: Clients) -> Clients:
    """Return the clients with pictures as vectors, which small dense nets take."""
    if not len(clients):
        return clients
    x, mean, sd = clients.x.flatten(1), clients.mean.reshape(1), clients.sd.reshape(1)
    return replace(clients, x=x, mean=mean, sd=sd)


def accuracy(serve: Serve, described: Clients, measured: Clients) -> float:
    """Return the mean over clients of the share of their query that is right, without labels."""
    right = []
    for index in range(len(described)):
        bare = Samples(described.support_of(index).x, None)
        model = serve(bare, torch.Generator().manual_seed(index))
        query = measured.query_of(index)
        right.append(float((model(query.x).argmax(dim=1) == query.labels()).double().mean()))
    return sum(right) / len(right)


def served_by(method: Method, of: Asked, state: State) -> Serve:
    """Return what makes a new client's model of a trained state."""

    def serve(support: Samples, generator: Generator) -> Predictor:
        return method.personalize(of.task, state, support, generator=generator)

    return serve


def trained(
    method: Method, of: Asked, seed: int, look: Callable[[Checkpoint], None] | None = None
) -> State:
    """Train a method on those who are asked to."""
    how: dict[str, Any] = {"seed": seed, "path": "vectorised", "on_checkpoint": look}
    return train(method, of.task, of.trained, BUDGET, **how)


def mean_of(serving: Sequence[Serve]) -> Serve:
    """Serve the mean of the probabilities that several trainings' models give."""

    def serve(support: Samples, generator: Generator) -> Predictor:
        models = [one(support, generator) for one in serving]
        return lambda x: torch.stack([model(x).softmax(dim=1) for model in models]).mean(dim=0)

    return serve


def last_and_best(method: Method, of: Asked, seed: int) -> tuple[State, State]:
    """Return the last state, and that by which the clients held back have most right."""
    best, kept = -1.0, State({})

    def look(checkpoint: Checkpoint) -> None:
        nonlocal best, kept
        if checkpoint.rounds_done % EVERY == 0:
            serve = served_by(method, of, checkpoint.state)
            right = accuracy(serve, of.held_back, of.held_back)
            if right > best:
                best, kept = right, checkpoint.state.copy()

    return trained(method, of, seed, look), kept


Row = dict[str, Any]


def rows_of(stage: str, classes: int, seed: int, options: Sequence[str]) -> Iterator[Row]:
    """Yield what each option has right, under every condition."""
    of = asked(stage, classes, seed)

    def told(option: str, training: int, serve: Serve, about: Asked = of) -> Iterator[Row]:
        for condition, (described, measured) in about.measured.items():
            yield {
                **{"stage": stage, "classes": classes, "seed": seed, "option": option},
                **{"training": training, "condition": condition},
                "accuracy": accuracy(serve, described, measured),
            }

    fedavg = make_method("fedavg", local_lr=RATES["local_lr"])
    yield from told("fedavg", 0, served_by(fedavg, of, trained(fedavg, of, seed)))
    plain = Tried(**RATES)
    states = [trained(plain, of, seed + 100 * number) for number in range(TOGETHER)]
    for number, state in enumerate(states):
        yield from told("as it is", number, served_by(plain, of, state))
    views = replace(plain, views=8)
    yield from told("views", 0, served_by(views, of, states[0]))
    every = mean_of([served_by(plain, of, state) for state in states])
    yield from told("together", 0, every)
    if stage == "report":
        fewer = asked(stage, classes, seed, held_back=HELD_BACK)
        for when, state in zip(("last", "best"), last_and_best(plain, fewer, seed), strict=True):
            serve = served_by(plain, fewer, state)
            yield from told(f"held back {when} round", 0, serve, fewer)
    for option in options:
        method = replace(plain, **OPTIONS[option])
        yield from told(option, 0, served_by(method, of, trained(method, of, seed)))


def main() -> None:
    """Do the stages that are asked for, and write a row at a time."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("stage", nargs="+", choices=["choose", "report"])
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    torch.set_num_threads(1)
    given.out.mkdir(parents=True, exist_ok=True)
    with (given.out / "accuracies.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        writer.writeheader()
        for stage, classes in product(given.stage, CLASSES):
            for seed in SEEDS[stage]:
                for row in rows_of(stage, classes, seed, TRIED[stage]):
                    writer.writerow({**row, "accuracy": f"{row['accuracy']:.6f}"})
                    file.flush()


if __name__ == "__main__":
    main()
