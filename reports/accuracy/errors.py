"""Errors of seen and new clients side by side, the gap, and how well methods serve new clients."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from latecomer.certify.page.svg import INK, WIDE
from latecomer.certify.words import DASH, count, counts, percent, points
from latecomer.reports.display.drawing import Looks, beside, sheet, styled
from latecomer.reports.display.errors_figure import draw_intervals
from latecomer.reports.display.naming import Names, as_subject, beyond_chance, model_names, standing
from latecomer.reports.display.pictures import Plot, Table, counted, over_seeds, plus_minus
from latecomer.reports.display.section import Answer, Block, Material, Question, Section, Text
from latecomer.reports.frames.errors import (
    MODEL,
    by_model,
    lowest_first,
    model_of,
    personalization,
    records,
)
from latecomer.reports.words import (
    CLIENTS,
    FAMILIES,
    LESS_ALONE,
    LESS_ALONE_CAPTION,
    STEPS_CAPTION,
    gap_in_points,
    interval,
    over_what,
    steps_cell,
)


def accuracy_table(material: Material) -> Table | None:
    """Errors of seen and new clients, gaps, comparison with the lowest; None without errors."""
    frame = material.ordered(material.accuracy)
    if frame.empty:
        return None
    served = personalization(material.rows)
    parts = {name: frame[frame["group"] == name] for name in ("seen", "novel")}
    seen, novel = by_model(parts["seen"]), by_model(parts["novel"])
    gaps, less = by_model(material.mean_gaps), by_model(material.gaps_less_alone)
    heads = {
        name: counted(f"{CLIENTS[name].replace(' ', '-')} error", part["n_clients"])
        for name, part in parts.items()
    }
    shown, bold = [], []
    for place, (pair, name) in enumerate(model_names(frame).items()):
        both = [group[pair] for group in (seen, novel) if pair in group]
        family = served.get(pair[0], "")
        shown.append(
            {
                "method": name,
                heads["seen"]: _error_cell(seen.get(pair)),
                heads["novel"]: _error_cell(novel.get(pair)),
                "new-client accuracy": percent(1 - novel[pair]["mean"]) if pair in novel else DASH,
                **_novel_cells(novel.get(pair)),
                "gap (points)": gap_in_points(gaps[pair]) if pair in gaps else DASH,
                **(
                    {LESS_ALONE: gap_in_points(less[pair]) if pair in less else DASH}
                    if less
                    else {}
                ),
                "new clients get": FAMILIES.get(family, family),
                **steps_cell(material.steps, pair[0]),
                "seeds": str(max(int(row["n_seeds"]) for row in both)),
            }
        )
        if pair in novel and novel[pair]["tied"]:
            bold.append((place, heads["novel"]))
    caption = (
        f"Error of seen and new clients without shift: mean over clients, then over seeds; "
        f"{over_seeds(frame)}. Accuracy is 100% less the error. The interval is the 95% "
        "t-interval over clients, each client averaged over seeds. Gap: points of error lost on "
        "new clients, new- minus seen-client error, with its 95% interval over "
        f"{over_what(int(frame['n_seeds'].max()))}. "
        "Bold: the lowest error of new clients and every one not significantly worse (paired "
        "t-test over clients, Holm over all pairs, 5%)."
        + (STEPS_CAPTION if material.steps else "")
        + (LESS_ALONE_CAPTION if less else "")
    )
    words = ("method", "new clients get")
    told = "Accuracy of seen and new clients"
    return Table("accuracy", caption, frame, pd.DataFrame(shown), words, tuple(bold), told)


def _error_cell(row: Mapping[str, Any] | None) -> str:
    return plus_minus(percent(row["mean"]), row["sd_seeds"]) if row else DASH


def _novel_cells(row: Mapping[str, Any] | None) -> dict[str, str]:
    cells = [DASH, DASH, DASH]
    if row:
        lowest = row["difference"] == 0 and pd.isna(row["p_holm"])
        lower, upper = row["difference_lower"], row["difference_upper"]
        above = {"gap": row["difference"], "lower": lower, "upper": upper}
        cells = [
            interval(row["lower"], row["upper"]),
            "lowest" if lowest else gap_in_points(above),
            percent(row["worst"]),
        ]
    heads = ("95% over clients", "above the lowest (95%)", "worst client")
    return dict(zip(heads, cells, strict=True))


@styled
def gap_figure(frame: pd.DataFrame, looks: Looks, *, width: float = WIDE) -> Figure:
    """Draw the generalization gap per model: a point per seed, the mean, its 95% interval.

    Points of error lost on new clients, positive where they are served worse; the interval is
    over clients and seeds.

    Parameters
    ----------
    frame : pandas.DataFrame
        ``gap_frame`` of the rows; models appear in its order.
    """
    names, summary = model_names(frame), by_model(frame.drop_duplicates(MODEL))
    narrow = width < 5
    broken = {pair: beside(name, width) for pair, name in names.items()}
    further = max((name.count("\n") for name in broken.values()), default=0)
    each = 0.52 + 0.14 * further if narrow else 0.42
    figure, [axes] = sheet(width, 0.9 + each * max(len(names), 1))
    if not narrow:
        axes.axvline(0, color=INK, linewidth=0.8)
    for row, (pair, name) in enumerate(broken.items()):
        look, mean = looks[pair[0]], summary[pair]
        seeds = frame[(frame["label"] == pair[0]) & (frame["predictor"] == pair[1])]["gap"]
        ends = [100 * mean["lower"], 100 * mean["upper"]]
        text = gap_in_points({**mean, "gap": mean["mean"]})
        axes.plot(ends, [row, row], color=look.colour, linewidth=5, alpha=0.3)
        apart = row + 0.09 * (np.arange(len(seeds)) - (len(seeds) - 1) / 2)
        axes.plot(100 * seeds, apart, look.mark, color=look.colour, alpha=0.85)
        axes.plot([100 * mean["mean"]] * 2, [row - 0.26, row + 0.26], color=INK, linewidth=1.6)
        if narrow:
            # The line at 0 leaves out the words, which stand within the axes.
            axes.vlines(0, row - 0.31, row + 0.31, color=INK, linewidth=0.8)
            _inside(axes, row - 0.33, 0.0, "left", name)
            _inside(axes, row - 0.33, 1.0, "right", text)
        else:
            axes.annotate(text, (1.01, row), xycoords=("axes fraction", "data"), va="center")
    axes.set_ylim(len(names) - 0.4, -0.8 if narrow else -0.6)
    axes.set_yticks([] if narrow else range(len(names)), [] if narrow else list(names.values()))
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.set_xlabel("points of error lost on new clients")
    axes.grid(axis="x")
    return figure


def _inside(axes: Axes, row: float, x: float, side: str, text: str) -> None:
    axes.text(x, row, text, transform=axes.get_yaxis_transform(), ha=side, va="bottom")


def _accuracy(material: Material) -> Iterator[Block]:
    yield Text(
        Markup(
            "Seen clients trained the federation. New clients played no part in training, in any "
            "choice or in any certificate; each is served from its own support data by its "
            'method\'s protocol (<a href="#method">how</a>) and measured on its query data.'
        )
    )
    yield accuracy_table(material) or Text("No client was measured.")


def _gap(material: Material) -> Iterator[Block]:
    gaps = material.ordered(material.gaps)
    if len(gaps):
        names = model_names(gaps)
        said = [
            f"{names[model_of(row)]} {points(row['mean'])} ({count(int(row['n_seeds']), 'seed')})"
            for row in records(gaps.drop_duplicates(MODEL))
        ]
        yield Plot(
            "gap",
            partial(gap_figure, gaps, material.looks),
            gaps,
            title="Generalization gap",
            alt=f"Points of error lost on new clients: {'; '.join(said)}.",
            caption="New- minus seen-client error: a mark per seed, a bar at the mean, a band for "
            f"its 95% interval over {over_what(material.errors['seed'].nunique())} (in brackets). "
            "Right of 0: late clients are served worse. Seen and new clients are other clients, "
            "the same for every method.",
        )


ACCURACY = Section("accuracy", _accuracy)
GAP = Section("gap", _gap)


HOW = "paired over clients, 5%, Holm over all pairs"


def answer_accuracy(material: Material) -> Answer | None:
    """Say from what to what methods err on new clients, and name one only if a test does."""
    groups = material.one_a_label
    frame = lowest_first(groups[groups["group"] == "novel"])
    if frame.empty:
        return None
    names = model_names(frame)
    sentence, *more = said_of_errors(frame)
    first, last = records(frame)[0], records(frame)[-1]
    numbers = {
        "lowest": first["mean"],
        "lower": first["lower"],
        "upper": first["upper"],
        "highest": last["mean"],
        "n_tied": int(frame["tied"].sum()) - 1,
    }
    told = _table(frame, groups[groups["group"] == "seen"], names, material.steps)
    plots = (_plot(frame, names, material),)
    return Answer(sentence, tuple(more), told, plots, numbers, _as_accuracies(frame))


def _as_accuracies(frame: pd.DataFrame) -> str:
    """Say the same as accuracies, the largest first."""
    ends = [percent(1 - mean) for mean in (frame["mean"].min(), frame["mean"].max())]
    told = " to ".join(dict.fromkeys(ends))
    return f"As accuracy, 100% less the error: {told}."


def said_of_errors(frame: pd.DataFrame) -> list[str]:
    """Say how new clients are served, in a sentence or two.

    ``frame`` has novel rows of the ``accuracy_frame`` of one predictor a label, the lowest first.
    """
    names, every = model_names(frame), records(frame)
    first = every[0]
    over = f"{counts(frame['n_clients'], 'client')} and {counts(frame['n_seeds'], 'seed')}"
    of = "error on clients that they never saw"
    if len(every) > 1:
        order = [model_of(row) for row in every]
        worse = [model_of(row) for row in every[1:] if not row["tied"]]
        ends = percent(first["mean"]), percent(every[-1]["mean"])
        said = standing(order, worse, names, ends=ends, of=of, over=over)
        return [said, beyond_chance(order, worse, names, HOW)]
    if not pd.isna(first["lower"]):
        over += f", 95% interval {interval(first['lower'], first['upper'])}"
    subject = as_subject(names[model_of(first)])
    return [f"{subject} has {percent(first['mean'])} error on clients it never saw, over {over}."]


def _plot(frame: pd.DataFrame, names: Names, material: Material) -> Plot:
    said = [f"{names[model_of(row)]} {percent(row['mean'])}" for row in records(frame)]
    return Plot(
        "answer-accuracy",
        partial(draw_intervals, frame, names, material.looks),
        frame,
        title="Error on new clients",
        alt=f"Errors: {'; '.join(said)}.",
        caption="Means over clients and seeds, lowest on top.",
    )


def _table(
    frame: pd.DataFrame, seen: pd.DataFrame, names: Names, steps: Mapping[str, int]
) -> Table:
    trained = {model_of(row): percent(row["mean"]) for row in records(seen)}
    shown = pd.DataFrame(
        {
            "model": names[model_of(row)],
            "new-client error": percent(row["mean"]),
            "95% interval": interval(row["lower"], row["upper"]),
            "seen-client error": trained.get(model_of(row), DASH),
        }
        | steps_cell(steps, row["label"])
        for row in records(frame)
    )
    caption = "Mean errors over clients and seeds; intervals are over clients."
    caption += STEPS_CAPTION if steps else ""
    behind = pd.concat([frame, seen]).sort_values([*MODEL, "group"], kind="stable")
    return Table("answer-accuracy", caption, behind, shown, ("model",))


ACCURACY_ASKED = Question("accuracy", answer_accuracy)
