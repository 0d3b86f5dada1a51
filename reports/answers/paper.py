"""Answers whether our numbers agree with the published ones."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from latecomer.eval.results.rows import RunRecord
from latecomer.reports.answers.naming import model_called
from latecomer.reports.answers.said import Answer
from latecomer.reports.frames.errors import records
from latecomer.reports.frames.paper import paper_frame, within_spread
from latecomer.reports.words import DASH, count, percent, points

__all__ = ["answer_paper"]

GROUPS = {"novel": "new clients", "seen": "seen clients", "certification": "held-out clients"}
VERDICTS = {True: "agrees", False: "differs", None: "too few seeds to say"}


def answer_paper(run: RunRecord) -> Answer:
    """Say how many published numbers ours agree with, and which is furthest off.

    Parameters
    ----------
    run : RunRecord

    Returns
    -------
    Answer
        ``numbers`` has ``n_published``, ``n_agree``, ``n_judged`` and ``furthest`` (ours minus the
        published accuracy, as a fraction).
    """
    frame = paper_frame(run.rows, run.study)
    if frame.empty:
        return Answer("paper", "")
    novel = frame[frame["group"] == "novel"]
    about = novel if len(novel) else frame
    judged = [row for row in within_spread(about) if row is not None]
    agree = sum(bool(one) for one in judged)
    sentence = _sentence(about, len(judged), agree, GROUPS["novel"] if len(novel) else "clients")
    furthest = records(about.loc[[about["difference"].abs().idxmax()]])[0]
    more = [
        f"Furthest off: {model_called(furthest['label'])}, {percent(furthest['ours'])} accuracy "
        f"here and {percent(furthest['paper'])} published, "
        f"{points(furthest['difference'])} points."
    ]
    best = records(about.sort_values("ours", ascending=False, kind="stable"))[0]
    theirs = records(about.sort_values("paper", ascending=False, kind="stable"))[0]
    if about["label"].nunique() > 1:
        same = best["label"] == theirs["label"]
        more.append(
            f"Best in both: {model_called(best['label'])}."
            if same
            else f"Best here is {model_called(best['label'])}, in the paper "
            f"{model_called(theirs['label'])}."
        )
    if run.study.get("scale") != "paper":
        more.append("This run is reduced: it trains less than the paper did.")
    return Answer(
        "paper",
        sentence,
        tuple(more),
        {
            "n_published": len(about),
            "n_agree": agree,
            "n_judged": len(judged),
            "furthest": furthest["difference"],
        },
        _table(frame),
    )


def _sentence(about: pd.DataFrame, n_judged: int, agree: int, whom: str) -> str:
    if n_judged:
        return (
            f"Beside the paper, {agree} of {count(n_judged, 'published number')} on {whom} "
            f"{'agrees' if agree == 1 else 'agree'} with ours within the spreads of both."
        )
    low, high = points(about["difference"].min()), points(about["difference"].max())
    return (
        f"Beside {count(len(about), 'published number')} on {whom}, with too few seeds here to "
        f"judge by spread, ours lie {low} to {high} points of accuracy."
    )


def _table(frame: pd.DataFrame) -> pd.DataFrame:
    frame = frame.assign(near=within_spread(frame))
    return pd.DataFrame([_line(row) for row in records(frame)])


def _line(row: Mapping[str, Any]) -> dict[str, str]:
    return {
        "model": model_called(row["label"]),
        "clients": GROUPS.get(row["group"], row["group"]),
        "published accuracy": _spread(row["paper"], row["paper_spread"]),
        "ours": _spread(row["ours"], row["ours_spread"]),
        "difference in points": points(row["difference"]),
        "verdict": VERDICTS.get(row["near"], DASH),
    }


def _spread(mean: float, spread: float) -> str:
    return (
        percent(mean)
        if pd.isna(spread)
        else f"{percent(mean)} \N{PLUS-MINUS SIGN} {100 * spread:.1f}"
    )
