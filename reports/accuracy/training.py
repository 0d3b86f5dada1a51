"""Losses and errors along the training, and PeFLL's Theorem 3.1 beside it."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from textwrap import fill
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, NullFormatter

from latecomer.certify.page.svg import INK, WIDE
from latecomer.certify.words import DASH, count, number, percent
from latecomer.eval.results.rows import RunRecord
from latecomer.reports.display.drawing import (
    NAMED,
    Looks,
    along_rounds,
    leaders,
    panels,
    sheet,
    shown,
    styled,
    until_round,
)
from latecomer.reports.display.naming import model_called
from latecomer.reports.display.pictures import Plot, Table
from latecomer.reports.display.section import Block, Material, Section, Text
from latecomer.reports.frames.errors import CellTables, in_order, joined
from latecomer.reports.words import range_of

TRAINING_COLUMNS = ("label", "seed", "group", "round", "error", "loss", "n_clients", "kept")
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
    return joined(tables, TRAINING_COLUMNS, ("round", "error", "loss", "n_clients", "kept"))


@styled
def training_figure(frame: pd.DataFrame, looks: Looks, *, width: float = WIDE) -> Figure:
    """Draw error against rounds, a line per method and group, the mean over seeds.

    Of more than eight methods the five of least mean error are drawn.  New clients' lines are
    solid, with marks; they are only shown, and no choice uses them.

    Parameters
    ----------
    frame : pandas.DataFrame
        ``training_frame`` of the artifacts.
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
    until_round(axes, float(np.max(frame["round"])))
    axes.set_ylabel("error (%)")
    axes.set_ylim(bottom=0)
    handles = _method_handles(labels, looks)
    handles += [Line2D([], [], color=INK, linestyle=LINES[g], label=f"{g} data") for g in groups]
    figure.legend(handles=handles, loc="outside lower center", ncols=2 if narrow else 5)
    return figure


def _method_handles(labels: Sequence[str], looks: Looks) -> list[Line2D]:
    return [
        Line2D([], [], color=one.colour, marker=one.mark, label=shown(model_called(label)))
        for label, one in ((label, looks[label]) for label in labels)
    ]


def describe_training(frame: pd.DataFrame) -> str:
    """Describe ``training_figure``: where each method starts and ends, by group."""
    said = []
    for (label, group), own in frame.groupby(["label", "group"], sort=False):
        means = own.groupby("round")["error"].mean()
        ends = f"{percent(means.iloc[0])} to {percent(means.iloc[-1])}"
        said.append(f"{model_called(str(label))} {group} {ends}")
    rounds = range_of(frame["round"], "{:.0f}".format)
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

    Means over up to `MOST_STEPS` stretches of equal length, each at its last round.
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
    """Draw the training loss against rounds, a panel a method, a line a seed."""
    labels = [str(label) for label in dict.fromkeys(frame["label"])]
    figure, axes = panels(len(labels), width, 2 if width < 5 else 4, above=0.3, each=1.35)
    for panel, label in zip(axes, labels, strict=True):
        for _, own in frame[frame["label"] == label].groupby("seed"):
            panel.plot(own["round"], own["loss"], color=looks[label].colour, linewidth=1.0)
        panel.set_title(fill(model_called(label), 22), fontsize=8, fontweight="normal")
        along_rounds(panel)
        panel.grid()
    figure.supxlabel("rounds of training", fontsize=8.5)
    figure.supylabel("training loss", fontsize=8.5)
    return figure


def _losses(material: Material) -> Iterator[Block]:
    frame = training_losses(material.run)
    frame = material.ordered(frame[frame["label"].isin(material.labels)])
    frame = frame[frame.groupby("label")["round"].transform("nunique") > 1]
    if len(frame):
        said = []
        for label, own in frame.groupby("label", sort=False):
            by_round = own.groupby("round")["loss"].mean()
            ends = f"{number(by_round.iloc[0])} to {number(by_round.iloc[-1])}"
            said.append(f"{model_called(str(label))} {ends}")
        yield Plot(
            "training-loss",
            partial(draw_losses, frame, material.looks),
            frame,
            title="Training loss along the rounds",
            alt=f"Training loss from the first rounds to the last: {'; '.join(said)}.",
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


CONVERGENCE_COLUMNS = ("label", "seed", "round", "squared_norm", "mean_squared_norm", "rate")
_SIDES = {
    "squared_gradient_norm": "squared_norm",
    "mean_squared_gradient_norm": "mean_squared_norm",
    "convergence_rate": "rate",
}
_LINES: Mapping[str, tuple[str, Any]] = {
    "mean_squared_norm": ("mean so far of the squared gradient norm", "-"),
    "rate": ("Theorem 3.1's rate, constants estimated (no bound)", (0, (5, 2))),
}
_QUANTITIES = {
    "objective": "objective",
    "squared_gradient_norm": "squared gradient norm",
    "mean_squared_gradient_norm": "its mean over the measured rounds (left side)",
    "convergence_rate": "rate (right side)",
    "smoothness": "L: smoothness of the objective",
    "loss_smoothness": "L1: smoothness of clients' losses",
    "loss_gradient": "b1: gradient of clients' losses",
    "generator_gradient": "b2: gradient of the model generator",
    "loss_noise": "sigma1: noise of local gradients",
    "generator_noise": "sigma2: noise of the generator's gradient",
    "model_noise": "sigma3: noise of generated weights",
    "client_dissimilarity": "gammaG: dissimilarity of clients",
    "convergence_rounds": "rounds from which on the theorem is proved",
    "step_size": "learning rate",
}
_AT_THE_END = ("objective", *_SIDES, "convergence_rounds", "step_size")


def convergence_frame(rows: pd.DataFrame) -> pd.DataFrame:
    """Both sides of the theorem along every training; empty where nothing was measured.

    Returns
    -------
    pandas.DataFrame
        ``label seed round squared_norm mean_squared_norm rate``; the last two are blank in round 0.
    """
    own = rows[rows["metric"].isin(list(_SIDES)) & (rows["term"] == "")]
    if own.empty:
        return pd.DataFrame(columns=list(CONVERGENCE_COLUMNS))
    named = own.assign(side=own["metric"].map(_SIDES))
    wide = named.pivot_table(
        index=["label", "seed", "round"], columns="side", values="value", sort=False
    )
    return wide.reset_index().reindex(columns=list(CONVERGENCE_COLUMNS)).astype({"round": float})


def constants_frame(rows: pd.DataFrame) -> pd.DataFrame:
    """Objective, both sides with their terms and steps at the last round; the largest constants."""
    own = rows[rows["metric"].isin(list(_QUANTITIES)) & (rows["method"] != "")]
    columns = ["label", "quantity", "term", "mean", "low", "high", "n_seeds"]
    if own.empty:
        return pd.DataFrame(columns=columns)
    last = own["round"] == own.groupby(["label", "seed"])["round"].transform("max")
    own = own[last | ~own["metric"].isin(_AT_THE_END)]
    single = own.groupby(["label", "metric", "term", "seed"], sort=False)["value"].max()
    summary = single.groupby(["label", "metric", "term"], sort=False).agg(
        mean="mean", low="min", high="max", n_seeds="size"
    )
    return summary.reset_index().rename(columns={"metric": "quantity"})[columns]


def constants_table(frame: pd.DataFrame, labels: Sequence[str]) -> Table:
    """Show ``constants_frame``: a row per quantity and term, a column per model."""
    frame = in_order(frame, labels)
    names = [str(name) for name in dict.fromkeys(frame["label"])]
    cells = {
        (row["label"], row["quantity"], row["term"]): _range(row)
        for row in frame.to_dict("records")
    }
    present = set(zip(frame["quantity"], frame["term"], strict=True))
    lines = [
        {
            "quantity": f"{words}, {term}" if term else words,
            **{model_called(n): cells.get((n, quantity, term), DASH) for n in names},
        }
        for quantity, words in _QUANTITIES.items()
        for term in dict.fromkeys(frame.loc[frame["quantity"] == quantity, "term"])
        if (quantity, term) in present
    ]
    caption = (
        "Objective, squared gradient norm, both sides and their terms after the last round; the "
        "theorem's constants as the largest values found at the measured rounds, which can only be "
        "too small. Means over seeds, the range over seeds in brackets."
    )
    told = ("Both sides of Theorem 3.1 and its constants", "quantities")
    return Table("convergence", caption, frame, pd.DataFrame(lines), ("quantity",), (), *told)


def _range(row: Mapping[Any, Any]) -> str:
    mean, low, high = (number(float(f"{row[name]:.3g}")) for name in ("mean", "low", "high"))
    return mean if row["low"] == row["high"] else f"{mean} [{low}, {high}]"


@styled
def convergence_figure(frame: pd.DataFrame, looks: Looks, *, width: float = WIDE) -> Figure:
    """Draw squared gradient norms, their mean so far and the rate against rounds, on a log scale.

    Parameters
    ----------
    frame : pandas.DataFrame
        ``convergence_frame`` of the rows; lines are means over seeds.
    """
    figure, [axes] = sheet(width, 3.9 if width < 5 else 3.6)
    names = [str(name) for name in dict.fromkeys(frame["label"])]
    for place, name in enumerate(names):
        mean = frame[frame["label"] == name].groupby("round")[list(CONVERGENCE_COLUMNS[3:])].mean()
        look = looks[name]
        axes.plot(
            *(mean.index, mean["squared_norm"], look.mark),
            color=look.colour, markersize=3.6, clip_on=False, zorder=3,
        )  # fmt: skip
        for side, (_, line) in _LINES.items():
            # Rates of models with equal constants coincide: their dashes are offset.
            turn = line if isinstance(line, str) else (3.5 * place, line[1])
            axes.plot(mean.index, mean[side], color=look.colour, linestyle=turn, linewidth=1.3)
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _power(value)))
    axes.yaxis.set_minor_formatter(NullFormatter())
    until_round(axes, float(np.max(frame["round"])))
    axes.set_ylabel("squared gradient norm")
    handles = _method_handles(names, looks)
    handles += [
        Line2D([], [], color=INK, linestyle=line, label=words) for words, line in _LINES.values()
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=1 if width < 5 else 2)
    return figure


def _power(value: float) -> str:
    """Write a tick of a log scale.

    >>> _power(100.0), _power(1e11), _power(0.001)
    ('100', '1e11', '0.001')
    """
    return f"{value:g}".replace("e+0", "e").replace("e+", "e").replace("e-0", "e-")


def describe_convergence(frame: pd.DataFrame) -> str:
    """Describe ``convergence_figure`` for readers who cannot see it."""
    said = []
    for name, own in frame.groupby("label", sort=False):
        last = own[own["round"] == own["round"].max()]
        said.append(
            f"{model_called(str(name))} after {count(int(last['round'].iloc[0]), 'round')}: mean "
            f"squared gradient norm {last['mean_squared_norm'].mean():.3g}, "
            f"rate {last['rate'].mean():.3g}"
        )
    return f"Squared gradient norm along the training: {'; '.join(said)}."


def _convergence(material: Material) -> Iterator[Block]:
    frame = material.ordered(convergence_frame(material.rows))
    if frame["round"].nunique() < 2:
        return
    yield Text(
        "PeFLL's Theorem 3.1 bounds the mean over rounds of the squared gradient norm by constants "
        "that hold everywhere. Those below are the largest that were found along these trainings, "
        "so they can only be too small and the rate proves nothing here; nor is the training the "
        "theorem's, whose server takes plain gradient steps."
    )
    yield Plot(
        "convergence",
        partial(convergence_figure, frame, material.looks),
        frame,
        title="Gradient norm along the run against the theorem's rate",
        alt=describe_convergence(frame),
        caption="Marks: squared norm of the gradient of PeFLL's objective over all seen "
        "clients, exact at that round. Whole lines: its mean over the measured rounds so far, the "
        "theorem's left side. Dashed: the right side for a training of so many rounds, with the "
        "constants found along this one. Means over seeds; log scale.",
    )
    yield constants_table(constants_frame(material.rows), material.labels)


CONVERGENCE = Section(
    "convergence",
    _convergence,
    title="Training beside Theorem 3.1",
    tag="heuristic",
    style="heuristic",
)
