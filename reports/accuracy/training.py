"""Losses along the training, and errors of seen and of new clients where they were measured."""

from collections.abc import Iterator, Mapping
from functools import partial
from textwrap import fill
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from latecomer.certify.page.svg import INK, WIDE
from latecomer.certify.words import count, number, percent
from latecomer.eval.results.rows import RunRecord
from latecomer.reports.display.drawing import NAMED, Looks, leaders, sheet, shown, styled
from latecomer.reports.display.naming import model_called
from latecomer.reports.display.pictures import Plot
from latecomer.reports.display.section import Block, Material, Section
from latecomer.reports.frames.artifacts import CellTables, joined

COLUMNS = ("label", "seed", "group", "round", "error", "loss", "n_clients", "kept")
# Points of a curve of training losses.
MOST_STEPS = 100
LINES: Mapping[str, Any] = {"seen": (0, (1.2, 1.2)), "validation": (0, (5, 1.5)), "novel": "-"}


def training_frame(tables: CellTables) -> pd.DataFrame:
    """Join the ``training_curve`` artifacts of all cells.

    Returns
    -------
    pandas.DataFrame
        ``label seed group round error loss n_clients kept``: means over the clients of a group
        after ``round`` rounds; ``kept`` is 1 in the round whose model all other numbers are about.
    """
    return joined(tables, COLUMNS, ("round", "error", "loss", "n_clients", "kept"))


@styled
def training_figure(frame: pd.DataFrame, looks: Looks, *, width: float = WIDE) -> Figure:
    """Draw error against rounds, a line per method and group, the mean over seeds.

    Of more than eight methods the five of least mean error are drawn.  New clients' lines are
    solid, with marks; they are only shown, and no choice uses them.

    Parameters
    ----------
    frame : pandas.DataFrame
        ``training_frame`` of the artifacts.
    looks : mapping
        Colour and mark per label.
    width : float
        Inches.
    """
    narrow = width < 5
    figure, [axes] = sheet(width, 3.9 if narrow else 3.6)
    novel = frame[frame["group"] == "novel"]
    labels = leaders(novel if len(novel) else frame, "error")
    groups = [group for group in LINES if (frame["group"] == group).any()]
    for label in labels:
        for group in groups:
            own = frame[(frame["label"] == label) & (frame["group"] == group)]
            mean = own.groupby("round")["error"].mean()
            whole = group == "novel"
            axes.plot(
                mean.index, 100 * mean, marker=looks[label].mark if whole else "none",
                color=looks[label].colour, linestyle=LINES[group], linewidth=1.5 if whole else 1.0,
                markersize=3.6,
            )  # fmt: skip
    axes.set_xlabel("rounds of training")
    axes.set_ylabel("error (%)")
    axes.set_ylim(bottom=0)
    axes.set_xlim(left=0, right=float(np.max(frame["round"])) * 1.02)
    axes.grid()
    handles = [
        Line2D(
            [],
            [],
            color=looks[label].colour,
            marker=looks[label].mark,
            label=shown(model_called(label)),
        )
        for label in labels
    ]
    handles += [Line2D([], [], color=INK, linestyle=LINES[g], label=f"{g} data") for g in groups]
    figure.legend(handles=handles, loc="outside lower center", ncols=2 if narrow else 5)
    return figure


def describe_training(frame: pd.DataFrame) -> str:
    """Describe ``training_figure``: where each method starts and ends, by group."""
    said = []
    for (label, group), own in frame.groupby(["label", "group"], sort=False):
        means = own.groupby("round")["error"].mean()
        ends = f"{percent(means.iloc[0])} to {percent(means.iloc[-1])}"
        said.append(f"{model_called(str(label))} {group} {ends}")
    rounds = f"{frame['round'].min():.0f} to {frame['round'].max():.0f}"
    return f"Error along the training, rounds {rounds}: {'; '.join(said)}."


def training_caption(frame: pd.DataFrame) -> str:
    """Say what ``training_figure`` averages and what it is not used for."""
    n_seeds = int(frame["seed"].nunique())
    seeds = f"{'then over ' if n_seeds > 1 else ''}{count(n_seeds, 'seed')}"
    text = (
        f"Mean over clients, {seeds}; whole lines with marks are new clients, dashed "
        "and dotted ones seen clients' validation and test data. New clients are measured along "
        "the way for this figure only."
    )
    others = frame["label"].nunique() - len(leaders(frame, "error"))
    return text + (f" The {NAMED} methods of least mean error are drawn." if others else "")


def training_losses(run: RunRecord) -> pd.DataFrame:
    """Training loss along the rounds, which every run has on record.

    Returns
    -------
    pandas.DataFrame
        ``label seed round loss``: means over up to `MOST_STEPS` stretches of equal length, each at
        its last round.
    """
    rows = []
    for cell in run.cells:
        told = cell.losses() if "label" in (cell.config.get("method") or {}) else []
        for stretch in np.array_split(np.array(told), min(len(told), MOST_STEPS) or 1):
            if len(stretch):
                last, mean = stretch[-1, 0], stretch[:, 1].mean()
                named = cell.config["method"]["label"], cell.config["seed"]
                rows.append((*named, int(last) + 1, float(mean)))
    return pd.DataFrame(rows, columns=["label", "seed", "round", "loss"])


@styled
def draw_losses(frame: pd.DataFrame, looks: Looks, *, width: float = WIDE) -> Figure:
    """Draw the training loss against rounds, a panel a method, a line a seed.

    Parameters
    ----------
    frame : pandas.DataFrame
        ``training_losses`` of the run.
    looks : mapping
        Colour and mark per label.
    width : float
        Inches.
    """
    labels = [str(label) for label in dict.fromkeys(frame["label"])]
    columns = min(2 if width < 5 else 4, len(labels))
    lines = -(-len(labels) // columns)
    figure, axes = sheet(width, 0.3 + 1.35 * lines, lines, columns)
    for panel, label in zip(axes, labels, strict=False):
        for _, own in frame[frame["label"] == label].groupby("seed"):
            panel.plot(own["round"], own["loss"], color=looks[label].colour, linewidth=1.0)
        panel.set_title(fill(model_called(label), 22), fontsize=8, fontweight="normal")
        panel.grid()
    for panel in axes[len(labels) :]:
        panel.set_visible(False)
    figure.supxlabel("rounds of training", fontsize=8.5)
    figure.supylabel("training loss", fontsize=8.5)
    return figure


def _describe_losses(frame: pd.DataFrame) -> str:
    said = []
    for label, own in frame.groupby("label", sort=False):
        by_round = own.groupby("round")["loss"].mean()
        ends = f"{number(by_round.iloc[0])} to {number(by_round.iloc[-1])}"
        said.append(f"{model_called(str(label))} {ends}")
    return f"Training loss from the first rounds to the last: {'; '.join(said)}."


def _losses(material: Material) -> Iterator[Block]:
    frame = training_losses(material.run)
    frame = material.ordered(frame[frame["label"].isin(material.labels)])
    frame = frame[frame.groupby("label")["round"].transform("nunique") > 1]
    if len(frame):
        yield Plot(
            "training-loss",
            partial(draw_losses, frame, material.looks),
            frame,
            title="Training loss along the rounds",
            alt=_describe_losses(frame),
            caption="A line a seed: what each method reports of its clients of a round, averaged "
            f"over at most {MOST_STEPS} stretches. Methods minimise different things: a curve says "
            "whether its own training has come to rest, and nothing beside another's.",
        )


def _training(material: Material) -> Iterator[Block]:
    yield from _losses(material)
    frame = material.ordered(training_frame(material.tables("training_curve")))
    if frame["round"].nunique() > 1:
        yield Plot(
            "training",
            partial(training_figure, frame, material.looks),
            frame,
            title="Error along the training",
            alt=describe_training(frame),
            caption=training_caption(frame),
        )


TRAINING = Section("training", _training)
