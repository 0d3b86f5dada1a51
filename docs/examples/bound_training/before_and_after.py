"""The bound that PeFLL reaches when it trains on it, and when it trains on its own objective.

Theorem B.1 of PeFLL for Gaussian posteriors, on the clients that train: before training, after
training on equation 1 and after training on the bound itself, beside a system whose weights are all
0, which learnt nothing and has no divergence from the prior. The variances, the same for posterior
and prior, are those of ``VARIANCES`` with the lowest bound of the seen clients after training on it
a fifth as long with a seed of its own. The risk is a mean over one draw of all weights for each
client, so that what is printed estimates the bound and certifies nothing.

    python before_and_after.py digits mnist --out DIR

Writes ``bounds.csv``; the table of the site is made from its rows.
"""

import argparse
import csv
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from latecomer.bounds import pefll_b1
from latecomer.eval.datasets import load_dataset
from latecomer.eval.federation.groups import make_clients, standardisation
from latecomer.eval.splits.build import make_split
from latecomer.models import make_method, make_task
from latecomer.models.engine.training import TrainConfig, initial_state, train
from latecomer.models.posteriors import bounded_cross_entropy
from latecomer.models.task.clients import Clients
from latecomer.models.task.state import State

SPLITS = {
    "digits": {"clients": 120, "novel": 20, "query": 0.25},
    "mnist": {"clients": 320, "novel": 20},
}
VARIANCES = ((1e-2, 1e-2), (1e-1, 1e-2))
"""Of the networks' weights and of clients' weights."""
DELTA, PILOT, SEEDS = 0.05, 100, (0, 1, 2)
TRAIN = TrainConfig(rounds=1500, cohort=4, local_steps=1, batch_size=32)
FIELDS = ("data", "objective", "when", "seed", "alpha", "alpha_theta", "bound", "risk")
PARTS = ("divergence", "divergences", "error", "novel_error", "n_clients", "n_samples")


def clients_of(data: str) -> tuple[Any, Clients, Clients]:
    """Return the task, the seen clients and the novel ones."""
    dataset = load_dataset({"name": data})
    split = make_split(dataset, kind="by_class", classes_per_client=2, validation=0, **SPLITS[data])
    scale = standardisation(dataset, split.seen)
    seen, novel = (
        make_clients(dataset.x, dataset.y, rows, scale) for rows in (split.seen, split.novel)
    )
    task = make_task(
        input_shape=dataset.x.shape[1:],
        n_classes=dataset.n_classes,
        target="linear",
        encoder="label-linear",
        hypernetwork={"hidden": 1, "width": 10},
    )
    return task, seen, novel


def losses(
    method: Any, task: Any, state: State, clients: Clients, role: str
) -> tuple[float, float]:
    """Return mean bounded loss and error, with one draw of all weights for each client."""
    random, told = torch.Generator().manual_seed(0), []
    for index in range(len(clients)):
        support = clients.support_of(index)
        drawn = method.personalize(task, state, support, predictor="gibbs", generator=random)
        own = support if role == "support" else clients.query_of(index)
        made, y = drawn(own.x), own.labels()
        wrong = (made.argmax(dim=1) != y).float().mean()
        told.append(torch.stack([bounded_cross_entropy(made, y), wrong]))
    loss, error = torch.stack(told).mean(dim=0).tolist()
    return loss, error


def measured(method: Any, task: Any, state: State, seen: Clients, novel: Clients) -> dict[str, Any]:
    """Return the bound of a state with its parts, and errors of seen and new clients' queries."""
    risk, _ = losses(method, task, state, seen, "support")
    norms = method.posterior_norms(task, state, seen)
    own = (norms.eta_h_squared, norms.eta_v_squared)
    kl = sum(square / (2 * method.alpha_h) for square in own)
    kls = float(norms.theta_squared.sum()) / (2 * method.alpha_theta)
    n_samples = int(seen.support_sizes.min())
    sizes = {"n_clients": len(seen), "n_samples": n_samples}
    bound = pefll_b1(empirical_risk=risk, kl_hyper=kl, sum_kl=kls, delta=DELTA, **sizes)
    return {
        "bound": float(bound),
        "risk": risk,
        "divergence": kl,
        "divergences": kls,
        "error": losses(method, task, state, seen, "query")[1],
        "novel_error": losses(method, task, state, novel, "query")[1],
        **sizes,
    }


def without_weights(state: State) -> State:
    """Return the state whose networks' weights are all 0."""

    def emptied(name: str, value: Tensor) -> Tensor:
        return torch.zeros_like(value) if name.startswith(("hyper.", "encoder.")) else value

    return State({name: emptied(name, value) for name, value in state.server.items()})


def rows_of(data: str) -> Iterator[dict[str, Any]]:
    """Yield a row for every state measured: the pilot's, then those of the chosen variances."""
    task, seen, novel = clients_of(data)

    def row(objective: str, when: str, seed: int, alphas: tuple[float, float]) -> dict[str, Any]:
        method = make_method(
            "pefll",
            posterior="gaussian",
            training_objective=objective if when == "after" else "pefll",
            alpha_h=alphas[0],
            alpha_v=alphas[0],
            alpha_theta=alphas[1],
            server_lr=2e-3,
            local_lr=0.02,
            descriptor_dim=10,
        )
        if when == "after":
            config = replace(TRAIN, rounds=TRAIN.rounds // 5) if seed == PILOT else TRAIN
            state = train(method, task, seen, config, seed=seed, path="serial")
        else:
            state = initial_state(method, task, seen, TRAIN, seed=seed)
        if objective == "none":
            state = without_weights(state)
        about = {"data": data, "objective": objective, "when": when, "seed": seed}
        variances = {"alpha": alphas[0], "alpha_theta": alphas[1]}
        return {**about, **variances, **measured(method, task, state, seen, novel)}

    pilot = [row("bound", "after", PILOT, alphas) for alphas in VARIANCES]
    yield from pilot
    best = min(pilot, key=lambda one: one["bound"])
    chosen = best["alpha"], best["alpha_theta"]
    for seed in SEEDS:
        yield row("none", "before", seed, chosen)
        yield row("pefll", "before", seed, chosen)
        yield row("pefll", "after", seed, chosen)
        yield row("bound", "after", seed, chosen)


def main() -> None:
    """Measure what is asked for, and write a row at a time."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("data", nargs="+", choices=list(SPLITS))
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    asked.out.mkdir(parents=True, exist_ok=True)
    with (asked.out / "bounds.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, FIELDS + PARTS, lineterminator="\n")
        writer.writeheader()
        for data in asked.data:
            for row in rows_of(data):
                tidy = {k: f"{v:.6g}" if isinstance(v, float) else v for k, v in row.items()}
                writer.writerow(tidy)
                file.flush()
                print(" ".join(f"{key}={value}" for key, value in tidy.items()), flush=True)


if __name__ == "__main__":
    main()
