"""What tests of routes share: what a cell finds, as frames, and federations with spoilt samples."""

from dataclasses import replace

import numpy as np
import pandas as pd
from scipy.stats import binom

from latecomer.eval.protocol import evaluate_cell
from latecomer.eval.results.rows import make_row

SHARED = "one of 2 certificates that hold at once, one a training seed, which share delta"


def outcome_of(config):
    """Return a cell's rows as a frame, and its artifacts."""
    outcome = evaluate_cell(config)
    return pd.DataFrame([make_row(**row) for row in outcome.rows]), dict(outcome.artifacts)


def total_of(rows):
    """Return the rows of certificates without their terms."""
    return rows[(rows.metric == "certificate") & (rows.term == "")]


def errors_of(rows, group, **where):
    """Return the errors of a group's clients, as a frame by client."""
    own = rows[(rows.group == group) & (rows.metric == "error") & (rows.client != "")]
    for name, value in where.items():
        own = own[own[name] == value]
    return own.sort_values("client").astype({"value": float})


def facts_of(artifacts, kind):
    """Return the values of one kind of facts behind certificates, by name."""
    facts = pd.DataFrame(artifacts["certificates"].table)
    return facts[facts.kind == kind].set_index("name").value


def told(artifacts):
    """Return all texts of the facts behind certificates."""
    return [fact["text"] for fact in artifacts["certificates"].table]


def spoilt(federation, clients, *, inputs=None, labels=None):
    """Return the federation with other inputs and labels (made of theirs) of these clients."""
    x, y = federation.dataset.x.copy(), federation.dataset.y.copy()
    for client in clients:
        rows = client.rows("all")
        x[rows] = x[rows] if inputs is None else inputs
        y[rows] = y[rows] if labels is None else labels(y[rows])

    def moved(group):
        own = group.clients
        return replace(group, clients=replace(own, x=own.x.new_tensor(x), y=own.y.new_tensor(y)))

    dataset = replace(federation.dataset, x=x, y=y)
    groups = {"seen": moved(federation.seen), "novel": moved(federation.novel)}
    return replace(federation, dataset=dataset, **groups)


def limit(trials, delta):
    """Return the most failures that a correct certificate has, but with probability 1e-6."""
    return int(binom.isf(1e-6, trials, delta))


def overfitted(rng, n_clients, n_points, most=np.inf):
    """Return errors [clients, draws] where clients fit random labels, and the way they moved.

    A client's model is drawn from a Gaussian over linear classifiers, whose mean went from 0 to the
    labels of the very points that measure it, by at most ``most``: its true error is 1/2.
    """
    x = rng.normal(size=(n_clients, n_points, 25))
    y = rng.choice([-1.0, 1.0], size=(n_clients, n_points))
    mean = 8.0 * (x * y[..., None]).mean(axis=1) * np.sqrt(n_points)
    mean *= np.minimum(1.0, most / np.linalg.norm(mean, axis=1, keepdims=True))
    drawn = mean[:, None] + rng.normal(size=(n_clients, 10, 25))
    wrong = np.einsum("kmd,kjd->kjm", x, drawn) * y[:, None] < 0
    return wrong.mean(axis=2), (mean**2).sum(axis=1)
