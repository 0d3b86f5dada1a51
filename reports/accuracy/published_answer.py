"""Answers whether our numbers agree with the published ones."""

import pandas as pd

from latecomer.certify.words import count, listing, percent, points
from latecomer.reports.accuracy.published import published
from latecomer.reports.display.answer import Answer, Question
from latecomer.reports.display.naming import model_called
from latecomer.reports.display.section import Material
from latecomer.reports.display.table import Table, plus_minus
from latecomer.reports.frames.errors import records
from latecomer.reports.frames.paper import NOT_COMPARABLE, with_verdicts
from latecomer.reports.words import CLIENTS


def answer_paper(material: Material) -> Answer | None:
    """Say how many published numbers ours agree with, and which is furthest off.

    Parameters
    ----------
    material : Material
        Of the run.

    Returns
    -------
    Answer or None
        ``numbers`` has ``n_published``, ``n_reproduced``, ``n_judged`` and ``furthest`` (ours minus
        the published accuracy, as a fraction).
    """
    frame = with_verdicts(published(material), material.study)
    if frame.empty:
        return None
    novel = frame[frame["group"] == "novel"]
    about = novel if len(novel) else frame
    n_judged = int((about["verdict"] != NOT_COMPARABLE).sum())
    reproduced = int((about["verdict"] == "reproduced").sum())
    furthest = records(about.loc[[about["difference"].abs().idxmax()]])[0]
    numbers = {
        "n_published": len(about),
        "n_reproduced": reproduced,
        "n_judged": n_judged,
        "furthest": furthest["difference"],
    }
    sentence = _sentence(about, n_judged, reproduced, "new clients" if len(novel) else "clients")
    more = [
        f"Furthest off: {model_called(furthest['label'])}, {percent(furthest['ours'])} accuracy "
        f"here and {percent(furthest['paper'])} published, "
        f"{points(furthest['difference'])} points."
    ]
    if about["label"].nunique() > 1 and about["paper"].nunique() > 1:
        more.append(_highest(about))
    return Answer(sentence, tuple(more), _table(frame), (), numbers)


def _highest(about: pd.DataFrame) -> str:
    here = model_called(str(about["label"].iloc[int(about["ours"].argmax())]))
    # Several labels of one method have its published number in common.
    leading = about.loc[about["paper"] == about["paper"].max(), "label"]
    there = [model_called(str(label)) for label in dict.fromkeys(leading)]
    if here in there:
        return f"Highest accuracy in both: {here}; neither is tested here."
    return f"Highest accuracy here: {here}; in the paper: {listing(there)}; neither is tested here."


def _sentence(about: pd.DataFrame, n_judged: int, reproduced: int, whom: str) -> str:
    rule = "within 2 points, or two standard errors of both together"
    if n_judged == 1:
        verdict = "reproduced" if reproduced else "not reproduced"
        return f"The published number on {whom} is {verdict} ({rule})."
    if n_judged:
        return (
            f"{reproduced} of {count(n_judged, 'published number')} on {whom} "
            f"{'is' if reproduced == 1 else 'are'} reproduced: {rule}."
        )
    low, high = points(about["difference"].min()), points(about["difference"].max())
    lie = f"lies {low}" if len(about) == 1 else f"lie {low} to {high}"
    return (
        f"Beside {count(len(about), 'published number')} on {whom}, ours {lie} points of accuracy: "
        "not comparable, for this run is not at the paper's settings."
    )


def _table(frame: pd.DataFrame) -> Table:
    shown = pd.DataFrame(
        {
            "model": model_called(row["label"]),
            "clients": f"{CLIENTS[row['group']]}s",
            "published accuracy": plus_minus(percent(row["paper"]), row["paper_spread"]),
            "ours": plus_minus(percent(row["ours"]), row["ours_spread"]),
            "difference in points": points(row["difference"]),
            "verdict": row["verdict"],
        }
        for row in records(frame)
    )
    caption = "Published accuracy beside this run's, each with its own spread."
    return Table("answer-paper", caption, frame, shown, ("model", "clients", "verdict"))


PAPER = Question("paper", answer_paper)
