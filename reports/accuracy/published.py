"""A paper's numbers and ours, method by method, and whether they agree."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from latecomer.certify.page.svg import INK, MUTED, WIDE
from latecomer.certify.words import PLUS_MINUS, count, listing, percent, points
from latecomer.reports.display.drawing import Looks, beside, sheet, styled
from latecomer.reports.display.naming import model_called
from latecomer.reports.display.pictures import Plot, Table, plus_minus
from latecomer.reports.display.section import (
    Answer,
    Block,
    Heading,
    Material,
    Question,
    Section,
    Text,
)
from latecomer.reports.frames.errors import GROUPS, in_order, joined, records
from latecomer.reports.frames.paper import (
    NOT_COMPARABLE,
    RULE,
    paper_frame,
    paper_items,
    with_verdicts,
)
from latecomer.reports.words import CLIENTS, range_of

_TARGETS = ("label", "seed", "group", "client", "target")


def one_number_each(frame: pd.DataFrame) -> bool:
    """Whether every label has one published number per group, as ``paper_figure`` needs."""
    return len(frame) > 0 and not frame.duplicated(["label", "group"]).any()


@styled
def paper_figure(frame: pd.DataFrame, looks: Looks, *, width: float = WIDE) -> Figure:
    """Draw published accuracy (hollow) and ours (filled): a panel per group, a row per method.

    Parameters
    ----------
    frame : pandas.DataFrame
        ``paper_frame`` of the rows, one number per label and group; methods in its order.
    """
    labels = list(dict.fromkeys(frame["label"]))
    groups = [group for group in GROUPS if (frame["group"] == group).any()]
    lines = len(groups) if width < 5 else 1
    height = 0.55 + lines * (0.45 + 0.27 * len(labels))
    shape = (len(groups), 1) if width < 5 else (1, len(groups))
    figure, panels = sheet(width, height, *shape, sharex=True, sharey=True)
    for axes, group in zip(panels, groups, strict=True):
        axes.set_title(f"{CLIENTS[group]}s", pad=4)
        for one in records(frame[frame["group"] == group]):
            _row(axes, labels.index(one["label"]), one, looks)
        names = [beside(model_called(label), width) for label in labels]
        axes.set_yticks(np.arange(len(labels)), names)
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
        axes.grid(axis="x")
    panels[0].set_ylim(len(labels) - 0.4, -0.6)
    figure.supxlabel("accuracy (%)", fontsize=8.5)
    marks = [
        Line2D([], [], color=INK, marker="o", linestyle="", markerfacecolor=fill, label=name)
        for name, fill in (("paper", "none"), ("this run", INK))
    ]
    figure.legend(handles=marks, loc="outside upper right", ncols=2, handletextpad=0.2)
    return figure


def _row(axes: Axes, row: int, one: Mapping[str, Any], looks: Looks) -> None:
    look = looks[one["label"]]
    paper, ours = 100 * one["paper"], 100 * one["ours"]
    axes.plot([paper, ours], [row, row], color=MUTED, linewidth=0.8)
    for middle, spread in ((paper, one["paper_spread"]), (ours, one["ours_spread"])):
        reach = 100 * spread
        if not np.isnan(reach):
            ends = [middle - reach, middle + reach]
            axes.plot(ends, [row, row], color=look.colour, linewidth=4, alpha=0.3)
    axes.plot(paper, row, look.mark, color=look.colour, markerfacecolor="none")
    axes.plot(ours, row, look.mark, color=look.colour)


def describe_paper(frame: pd.DataFrame) -> str:
    """Describe ``paper_figure`` for readers who cannot see it."""
    said = [
        f"{model_called(row['label'])} {row['group']} {percent(row['paper'])} and "
        f"{percent(row['ours'])}"
        for row in records(frame)
    ]
    return f"Accuracy in the paper and in this run: {'; '.join(said)}."


def paper_caption(frame: pd.DataFrame) -> str:
    """Say how to read ``paper_figure``."""
    items = listing(list(dict.fromkeys(frame["item"])))
    kinds = listing([kind for kind in dict.fromkeys(frame["paper_spread_kind"]) if kind], "or")
    text = f"Hollow: {items}. Filled: this run."
    if kinds:
        bare = " (one seed has none)" if frame["ours_spread"].isna().all() else ""
        text += f" Bands: {kinds} to both sides{bare}."
    return text


def paper_table(frame: pd.DataFrame, labels: Sequence[str], study: Mapping[str, Any]) -> Table:
    """Set published accuracy beside ours, with the difference and the verdict."""
    frame = with_verdicts(in_order(frame, labels), study)
    several = frame["setting"].nunique() > 1
    shown = []
    for row in records(frame):
        cells = {
            "method": model_called(row["label"]),
            "item": row["item"],
            **({"setting": row["setting"]} if several else {}),
            "clients": row["group"],
            "paper": plus_minus(percent(row["paper"]), row["paper_spread"]),
            "ours": plus_minus(percent(row["ours"]), row["ours_spread"]),
            "difference (points)": points(row["difference"]),
            "our clients": str(row["n_clients"]),
            "our seeds": str(row["n_seeds"]),
            "verdict": row["verdict"],
        }
        shown.append(cells)
    kinds = ", ".join(dict.fromkeys(k for k in frame["paper_spread_kind"] if k)) or "not published"
    pooled = sorted(set(frame["aggregation"]))
    own = "ours has none, being of one seed" if frame["ours_spread"].isna().all() else "ours alike"
    caption = f"Accuracy; {PLUS_MINUS} is the {kinds}; {own}. "
    caption += " ".join(
        "Ours is pooled over all test samples, as the published code does."
        if how == "pooled"
        else "Ours is the mean over clients."
        for how in pooled
    )
    full = study.get("scale") == "paper"
    caption += f" {RULE}" if full else " Not comparable: not the paper's length."
    words = ("method", "item", "setting", "clients", "verdict")
    label = "Published accuracy beside ours"
    return Table("paper", caption, frame, pd.DataFrame(shown), words, label=label)


def published(material: Material) -> pd.DataFrame:
    """Return ``paper_frame`` of a run, with the sizes of its target networks, in its order."""
    sizes = joined(material.tables("target_sizes"), _TARGETS)
    return material.ordered(paper_frame(material.rows, material.study, sizes))


def _paper(material: Material) -> Iterator[Block]:
    study = material.study
    asked = [f"{source}, {item}" for source, item, _ in paper_items(study)]
    if not asked:
        return
    full, short = study.get("scale") == "paper", "not the paper's length"
    yield Heading("Beside the published numbers", "paper", "" if full else short)
    if study.get("note"):
        yield Text(f"What this study follows: {study['note']}", "note")
    if not full:
        rounds = (study.get("train") or {}).get("rounds")
        yield Text(
            f"This is a {study.get('scale') or 'reduced'} run"
            f"{f' of {rounds} rounds' if rounds else ''}: its numbers cannot confirm or contradict "
            "the published ones."
        )
    frame = published(material)
    if frame.empty:
        yield Text(
            f"The study answers to {'; '.join(asked)}, of which no number on record matches this "
            "run's methods, data and number of clients."
        )
        return
    yield Text(f"Published setting: {'; '.join(dict.fromkeys(frame['setting']))}.", "note")
    if one_number_each(frame):
        yield Plot(
            "paper",
            partial(paper_figure, frame, material.looks),
            frame,
            title=f"The paper's numbers and ours{'' if full else f', {short}'}",
            alt=describe_paper(frame),
            caption=paper_caption(frame),
        )
    yield paper_table(frame, material.labels, study)


PAPER = Section("paper", _paper)


def answer_paper(material: Material) -> Answer | None:
    """Say how many published numbers ours agree with, and which is furthest off."""
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
    lie = f"{'lies' if len(about) == 1 else 'lie'} {range_of(about['difference'], points)}"
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


PAPER_ASKED = Question("paper", answer_paper)
