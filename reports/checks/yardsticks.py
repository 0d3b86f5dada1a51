"""Checks against what costs nothing: training alone, the most frequent class, a mixed model."""

from collections.abc import Iterator

import pandas as pd

from latecomer.certify.words import count, points
from latecomer.reports.checks.check import Check, Found
from latecomer.reports.display.naming import as_subject, model_called
from latecomer.reports.display.section import Material
from latecomer.reports.frames.artifacts import split_tables
from latecomer.reports.frames.comparison import half_width
from latecomer.reports.frames.errors import primary_predictor


def _novel(material: Material) -> pd.DataFrame:
    """Return each method's mean error over seeds on each unshifted novel client."""
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
                f"{as_subject(model_called(str(label)))} errs {points(more.mean())} points more "
                f"than {called} on new clients (95% interval {points(more.mean() - half)} to "
                f"{points(more.mean() + half)}, {count(len(more), 'client')}).",
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
    for counted in split_tables(material.run, "label_counts"):
        table = pd.DataFrame(list(counted))
        table = table[table["group"] == "novel"] if len(table) else table
        if table.empty:
            continue
        held = table.filter(like="class_").astype(float)
        wrong = 1 - held.max(axis=1) / held.sum(axis=1)
        yardstick = pd.Series(wrong.to_numpy(), index=table["client"].astype(str))
        errors = _novel(material)
        yield from _worse(
            errors.assign(client=errors["client"].astype(str)),
            yardstick.rename_axis("client"),
            "always naming a client's most frequent class",
        )


CHECKS = (
    Check(
        "LC003",
        "Worse than training alone",
        _than_local,
        "Clients that would do better without the federation have no reason to join it.",
        "Let newcomers train longer, give methods more rounds or rates chosen by seen clients "
        "(`train.tune_newcomers`), or accept that these clients need no federation.",
        "Newcomers have no labels in your use, so that training alone is not on offer.",
    ),
    Check(
        "LC004",
        "Worse than naming the most frequent class",
        _than_majority,
        "A method that a constant beats has learnt nothing that serves the client. The constant is "
        "the class that the client itself has most of, which takes labels to know.",
        "Check that the training learns at all (LC007, LC008) and that settings fit the data.",
        "Newcomers have no labels, or errors of rare classes are what you care about.",
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
