"""The words about which certificate leads: what chose it, and what looking first would cost."""

from typing import Any

import pandas as pd

from latecomer.certify.words import chance, count, magnitude
from latecomer.reports.display.naming import Names, as_subject, model_of
from latecomer.reports.display.section import Material
from latecomer.reports.frames.artifacts import certified_order
from latecomer.reports.frames.chosen import (
    AfterLooking,
    Choice,
    after_looking,
    dropped_systems,
    held_out,
)

BY = {
    "validation": "chosen by the seen clients' error on their validation data",
    "seen": "chosen by the seen clients' error on data that they kept out of training",
    "training": "chosen by the seen clients' error on their training data",
    "seed": "the first of the study's seeds",
    "study": "named by the study",
    "alone": "",
}
"""What chose a system, as it stands behind its name."""


NAME_ONE = "Name a model by certify_model, before the scores, for one to lead."


def system_called(row: Any, names: Names, *, several_seeds: bool) -> str:
    """Name a model, with its seed where there are several.

    >>> system_called({"label": "a", "predictor": "", "seed": 1}, {("a", ""): "A"},
    ...               several_seeds=True)
    'A of seed 1'
    """
    return names[model_of(row)] + (f" of seed {int(row['seed'])}" if several_seeds else "")


def chosen_system(choice: Choice, names: Names, *, several_seeds: bool) -> str:
    """Name the chosen system as a subject, and say what chose it."""
    called = system_called(choice.row, names, several_seeds=several_seeds)
    how = [BY["study"] if choice.named else "", "" if choice.by == "study" else BY[choice.by]]
    told = " and ".join(words for words in how if words)
    return f"{called}, {told}," if told else as_subject(called)


def looked_at(material: Material, declared: pd.DataFrame) -> AfterLooking | None:
    """Return the smallest certificate of all systems, each at its share of delta."""
    dropped = dropped_systems(material.everything, material.run.scorings)
    order = certified_order(material.run)
    return after_looking(declared, material.errors, material.study, dropped, order)


def after_words(
    after: AfterLooking | None, declared: pd.DataFrame, names: Names, *, beside: bool = True
) -> str:
    """Say what the smallest of all certificates is worth; ``beside`` a chosen one, or alone."""
    held = held_out(declared)
    several_seeds = declared["seed"].nunique() > 1
    if after is None:
        n = len(held) if len(held) else len(declared)
        if n < 2:
            return ""
        return (
            f"Each of the {n} certificates holds by itself; the smallest of them, picked after "
            "looking, is none at that level."
        )
    row, delta = after.row, float(after.row["delta"])
    whose = system_called(row, names, several_seeds=several_seeds)
    gone = f", {count(after.n_dropped, 'dropped one')} included" if after.n_dropped else ""
    value = f"at most {magnitude(row['shown'])}" if row["shown"] < 1 else "100% or more"
    text = (
        f"Looked at afterwards, the smallest of all {after.n_systems} systems certified on these "
        f"clients{gone} is {value}, that of {whose}: all {after.n_systems} hold at once with "
        f"{chance(delta)} confidence, for they share delta"
    )
    both = f"; all and the one above, with {chance(min(2 * delta, 1.0))}"
    return f"{text}{both if beside else ''}."
