"""Checks against what costs nothing: training alone, the most frequent class, a mixed model."""

import math
from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from latecomer.certify.words import count
from latecomer.reports.checks.check import Check, Found
from latecomer.reports.display.naming import as_subject, model_called
from latecomer.reports.display.section import Material
from latecomer.reports.frames.artifacts import split_tables
from latecomer.reports.frames.comparison import half_width
from latecomer.reports.frames.errors import primary_predictor, records

DRAWS = 400
"""Random supports that the error of the most frequent class is a mean over."""


def _novel(material: Material) -> pd.DataFrame:
    """Return each method's mean error over seeds on each unshifted new client."""
    errors = primary_predictor(material.errors)
    plain = errors[(errors["group"] == "novel") & (errors["shift"] == "none")]
    return plain.groupby(["method", "label", "client"], sort=False)["error"].mean().reset_index()


def _worse(errors: pd.DataFrame, yardstick: pd.Series, called: str) -> Iterator[Found]:
    """Say which methods err more than a yardstick on the same clients, beyond chance."""
    for label, own in errors.groupby("label", sort=False):
        more = (own.set_index("client")["error"] - yardstick).dropna()
        half = half_width(more)
        if more.mean() - half > 0:
            yield Found(
                f"{as_subject(model_called(str(label)))} errs {100 * more.mean():.1f} points more "
                f"than {called} on new clients (95% interval {100 * (more.mean() - half):.1f} to "
                f"{100 * (more.mean() + half):.1f}, {count(len(more), 'client')}).",
                float(more.mean()),
                str(label),
            )


def _than_method(material: Material, method: str, called: str) -> Iterator[Found]:
    errors = _novel(material)
    yardstick = errors[errors["method"] == method].groupby("client")["error"].mean()
    yield from _worse(errors[errors["method"] != method], yardstick, called)


def _than_local(material: Material) -> Iterator[Found]:
    yield from _than_method(material, "local", "training alone (Local)")


def _than_mixed(material: Material) -> Iterator[Found]:
    yield from _than_method(material, "glmm", "a regression with an intercept a client (glmm)")


def _than_majority(material: Material) -> Iterator[Found]:
    tables = split_tables(material.run, "label_counts")
    if len(tables) != 1:
        return  # several splits give several clients one number
    counted = pd.DataFrame(list(tables[0]))
    rows = material.rows[(material.rows["group"] == "novel") & (material.rows["metric"] == "error")]
    scored = rows[rows["client"] != ""].drop_duplicates("client")
    own = scored[["n_support", "n_query"]].astype(float).to_numpy().tolist()
    sizes = dict(zip(scored["client"].astype(str), own, strict=True))
    counted = counted[counted["group"] == "novel"] if len(counted) else counted
    wrong = {}
    for one in records(counted):
        client = f"{float(one['client']):.0f}"
        held = [int(many) for name, many in one.items() if str(name).startswith("class_")]
        if client in sizes:
            n_support, n_query = sizes[client]
            known = sum(held) - int(n_query) if math.isnan(n_support) else int(n_support)
            wrong[client] = majority_error(held, known)
    yardstick = pd.Series(wrong, dtype=float).rename_axis("client")
    yield from _worse(
        _novel(material), yardstick, "naming the most frequent class of a client's own points"
    )


def majority_error(held: Sequence[int], n_support: int) -> float:
    """Return the error of naming the class most frequent in a client's support on its other points.

    The support is a random part of the client's points, and the result a mean over ``DRAWS`` drawn
    by a fixed seed: the class most frequent in all points would have been chosen by the points that
    it is scored on, too.

    Parameters
    ----------
    held : sequence of int
        The client's points of each class.
    n_support : int
        How many of them are support; NaN is returned where that is none or all of them.

    Examples
    --------
    >>> majority_error([10, 0], 5), majority_error([0, 0], 0), round(majority_error([6, 6], 6), 2)
    (0.0, nan, 0.6)
    """
    if not 0 < n_support < sum(held):
        return math.nan
    drawn = np.random.default_rng(0).multivariate_hypergeometric(held, n_support, size=DRAWS)
    others = np.asarray(held) - drawn
    right = others[np.arange(DRAWS), drawn.argmax(axis=1)]
    return float(1 - right.mean() / (sum(held) - n_support))


CHECKS = (
    Check(
        "LC003",
        "Worse than training alone",
        _than_local,
        "Clients that would do better without the federation have no reason to join it.",
        "Let new clients train longer, give methods more rounds or rates chosen by seen clients "
        "(`train.tune_newcomers`), or accept that these clients need no federation.",
        "New clients have no labels in your use, so that training alone is not on offer.",
    ),
    Check(
        "LC004",
        "Worse than naming the most frequent class",
        _than_majority,
        "A method that a constant beats has learnt nothing that serves the client. The constant is "
        "the class that the client's own support has most of, which takes labels to know; its "
        "error is the mean over random parts of the client's points in place of the support.",
        "Check that the training learns at all (LC007, LC008) and that settings fit the data.",
        "New clients have no labels, or errors of rare classes are what you care about.",
    ),
    Check(
        "LC005",
        "Worse than a regression with an intercept a client",
        _than_mixed,
        "Method `glmm` is what a statistician would have done: one regression for all, one number "
        "a client. Anything larger has to earn its cost.",
        "Look for settings, by seen clients, under which the larger model earns it; or take glmm.",
        "The inputs are pictures or text, on which a regression is no sensible yardstick.",
    ),
)
