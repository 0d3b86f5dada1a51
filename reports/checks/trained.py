"""Checks of trainings: whether they ended well, agree between seeds and tell clients apart."""

from collections.abc import Iterator

import pandas as pd

from latecomer.certify.words import count, listing, percent
from latecomer.reports.accuracy.sameness import sameness_frame, say_sameness
from latecomer.reports.accuracy.training import training_frame
from latecomer.reports.checks.check import Check, Found
from latecomer.reports.display.naming import as_subject, model_called
from latecomer.reports.display.section import Material
from latecomer.reports.frames.errors import primary_predictor, records

IMPROVING = 0.01  # error lost over the last quarter of the rounds
DIVERGED = 0.05  # error gained since the best round measured
_LEAST = 8  # measurements before the last quarter means anything


def _same(material: Material) -> Iterator[Found]:
    frame = sameness_frame(material.rows)
    warned = frame[frame["warning"] != ""]
    for row, sentence in zip(records(warned), say_sameness(warned), strict=True):
        yield Found(sentence, float(row["model_spread"]), str(row["label"]))


def _curves(material: Material) -> Iterator[tuple[str, pd.Series]]:
    """Yield each method's error along the rounds, on seen clients: validation data where known."""
    frame = training_frame(material.tables("training_curve"))
    for label, own in material.ordered(frame).groupby("label", sort=False):
        for group in ("validation", "seen"):
            chosen = own[own["group"] == group]
            if len(chosen):
                yield str(label), chosen.groupby("round")["error"].mean().sort_index()
                break


def _improving(material: Material) -> Iterator[Found]:
    for label, curve in _curves(material):
        if len(curve) < _LEAST:
            continue
        quarter = len(curve) // 4
        before = float(curve.iloc[-2 * quarter : -quarter].mean())
        after = float(curve.iloc[-quarter:].mean())
        if before - after > IMPROVING:
            yield Found(
                f"{as_subject(model_called(label))} was still improving when training ended: "
                f"{percent(before)} error on seen clients in the quarter before the last, "
                f"{percent(after)} in the last.",
                before - after,
                label,
            )


def _diverged(material: Material) -> Iterator[Found]:
    if (material.study.get("train") or {}).get("selection") == "validation":
        return  # an earlier round is served then
    for label, curve in _curves(material):
        best, last = float(curve.min()), float(curve.iloc[-1])
        if len(curve) > 1 and not last - best <= DIVERGED:
            yield Found(
                f"{as_subject(model_called(label))} ended at {percent(last)} error on seen "
                f"clients, after {percent(best)} in round {curve.index[int(curve.argmin())]:.0f}.",
                last - best,
                label,
            )


def _winners(material: Material) -> Iterator[Found]:
    errors = primary_predictor(material.errors)
    plain = errors[(errors["group"] == "novel") & (errors["shift"] == "none")]
    mean = plain.groupby(["seed", "label"])["error"].mean().unstack("label").dropna()
    if len(mean) < 2 or mean.shape[1] < 2:
        return
    lowest = mean.eq(mean.min(axis=1), axis=0)
    if not lowest.all(axis=0).any():
        won = [label for label in material.labels if label in lowest and lowest[label].any()]
        yield Found(
            f"Over {count(len(mean), 'seed')} the smallest error on new clients is that of "
            f"{listing([model_called(label) for label in won], 'or')}, by the seed.",
            len(won),
        )


CHECKS = (
    Check(
        "LC006",
        "One model for all",
        _same,
        "A method that makes models for clients can learn to ignore who the client is. Its errors "
        "look fine, and it is a federated average at a higher price.",
        "Train longer, raise the rate of what describes clients, or take a method that averages.",
        "Clients are alike, so that one model is the right answer.",
    ),
    Check(
        "LC007",
        "Still improving at the end",
        _improving,
        "Methods that learn at different speeds are compared at a moment that favours the quick.",
        "Raise `train.rounds`: other rounds are another training, which begins anew.",
        "The budget of rounds is what you compare at.",
    ),
    Check(
        "LC008",
        "Diverged",
        _diverged,
        "The model served is worse than one met on the way.",
        "Lower the rates, or let seen clients' validation data choose the round "
        "(`train.selection: validation`, `split.validation`).",
        "The last round is what a published protocol reports.",
    ),
    Check(
        "LC009",
        "The winner hangs on the seed",
        _winners,
        "A ranking from one of these seeds would have been another one from the next.",
        "Add seeds or new clients, or rank none: the test beside the errors tells whom it can.",
        "You claim no ranking.",
    ),
)
