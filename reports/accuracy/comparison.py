"""Which models differ by more than chance, and whether each method's clients have their own."""

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from latecomer.certify.page.svg import INK, MUTED, WIDE
from latecomer.certify.words import DASH, count, counts, percent, points
from latecomer.reports.display.drawing import Looks, beside, sheet, styled
from latecomer.reports.display.naming import model_called, model_names
from latecomer.reports.display.pictures import Plot, Table, over_seeds, plus_minus
from latecomer.reports.display.section import Block, Material, Section, Text, tabled
from latecomer.reports.frames.errors import (
    first_record,
    in_order,
    model_of,
    pair_frame,
    rank_test_frame,
    records,
    unshifted,
)
from latecomer.reports.words import PROTOCOLS, interval


@styled
def rank_test_figure(frame: pd.DataFrame, looks: Looks, *, width: float = WIDE) -> Figure:
    """Draw mean ranks, lowest on top; bars that do not overlap differ by the critical difference.

    Parameters
    ----------
    frame : pandas.DataFrame
        ``rank_test_frame`` of the errors.
    """
    names, narrow = model_names(frame), width < 5
    figure, [axes] = sheet(width, 1.0 + (0.34 if narrow else 0.24) * len(frame))
    half = float(frame["critical_difference"].iloc[0]) / 2
    reach = float(frame["mean_rank"].iloc[0]) + half
    axes.axvline(reach, color=MUTED, linewidth=0.9, linestyle=(0, (4, 2)))
    for row, one in enumerate(records(frame)):
        look, rank = looks[one["label"]], float(one["mean_rank"])
        axes.plot([rank - half, rank + half], [row, row], color=look.colour, lw=4, alpha=0.3)
        axes.plot(rank, row, look.mark, color=look.colour)
        axes.annotate(
            f"{rank:.1f}", (1.01, row), xycoords=("axes fraction", "data"), va="center",
            annotation_clip=False,
        )  # fmt: skip
    axes.set_ylim(len(frame) - 0.4, -0.6)
    axes.set_yticks(np.arange(len(frame)), [beside(name, width) for name in names.values()])
    axes.tick_params(axis="y", length=0, labelsize=6.5 if narrow else None)
    axes.spines["left"].set_visible(False)
    axes.spines["bottom"].set_color(INK)
    axes.set_xlabel("mean rank over new clients" + (" (1: least error)" if not narrow else ""))
    axes.grid(axis="x")
    return figure


def ranks_caption(frame: pd.DataFrame) -> str:
    """Say what was tested and how to read ``rank_test_figure``."""
    first = first_record(frame)
    n_models, n_clients = len(frame), int(first["n_clients"])
    p = "below 0.001" if first["p"] < 0.001 else f"{first['p']:.2g}"
    averaged = "averaged over" if first["n_seeds"] > 1 else "of"
    text = (
        f"Every new client ranks the {n_models} models by its error, {averaged} "
        f"{count(int(first['n_seeds']), 'seed')}; marks are mean ranks over "
        f"{count(n_clients, 'client')}, bars reach half the critical difference "
        f"({first['critical_difference']:.2f}) to both sides. Two models differ at 5% where their "
        "bars do not overlap (Nemenyi); all that reach the dashed line cannot be told from the "
        f"first. Friedman test of all models alike: p {p}."
    )
    if first["p"] > 0.05:
        text += " It does not reject that all serve alike, so no difference should be read here."
    return text


def pair_table(pairs: pd.DataFrame, models: pd.DataFrame) -> Table:
    """Every two models: difference, interval, corrected p-value, the smallest p first.

    ``models`` is any frame with ``label`` and ``predictor``, from which models are named.
    """
    names = model_names(models)
    frame = pairs.sort_values("p", kind="stable", ignore_index=True)
    shown = pd.DataFrame(
        {
            "method": names[row["label"], row["predictor"]],
            "compared with": names[row["other"], row["other_predictor"]],
            "difference (points)": points(row["difference"]),
            "95% interval": interval(row["lower"], row["upper"], points),
            "p (Holm)": chance_of(row["p_holm"]),
            "clients": str(row["n_clients"]),
            "seeds": str(row["n_seeds"]),
        }
        for row in records(frame)
    )
    marked = frame["p_holm"] <= 0.05
    bold = tuple((int(i), "p (Holm)") for i in frame.index[marked])
    caption = (
        "New-client error of the first minus that of the second, paired over clients, each client "
        "averaged over the seeds both have. Intervals are 95% t-intervals over clients, each for "
        "itself; p-values are of the paired t-test, corrected after Holm over "
        f"{count(len(frame), 'pair')}, 5% or less in bold. What is compared are these trained "
        "models: seeds are no part of the test."
    )
    words, label = ("method", "compared with"), "Every two models compared"
    return Table("pairs", caption, frame, shown, words, bold, label, "comparisons")


def chance_of(p: float) -> str:
    """Write a p-value with two digits.

    >>> chance_of(0.03141), chance_of(0.00001), chance_of(1.0)
    ('0.031', '< 0.001', '1')
    """
    if pd.isna(p):
        return DASH
    return "< 0.001" if p < 0.001 else f"{p:.2g}" if p < 0.1 else f"{p:.2f}".replace("1.00", "1")


def _comparison(material: Material) -> Iterator[Block]:
    errors = unshifted(material.errors)
    pairs = pair_frame(errors)
    if pairs.empty:
        return
    differing = int((pairs["p_holm"] <= 0.05).sum())
    yield Text(
        f"{differing} of {count(len(pairs), 'pair')} of models "
        f"{'differs' if differing == 1 else 'differ'} at 5% (paired t-test over "
        f"{counts(pairs['n_clients'], 'client')}, Holm over all pairs)."
    )
    ranks = rank_test_frame(errors)
    if len(ranks):
        names = model_names(ranks)
        told = [f"{names[model_of(row)]} {row['mean_rank']:.1f}" for row in records(ranks)]
        yield Plot(
            "ranks",
            partial(rank_test_figure, ranks, material.looks),
            ranks,
            title="Mean ranks",
            alt=f"Mean ranks over new clients, 1 is least error: {', '.join(told)}.",
            caption=ranks_caption(ranks),
        )
    yield pair_table(pairs, material.ordered(errors))


COMPARISON = Section(
    "comparison",
    _comparison,
    title="Which differences are more than chance",
    cites=("holm1979", "demsar2006"),
)


def sameness_frame(rows: pd.DataFrame) -> pd.DataFrame:
    """Return mean and spread over seeds of how alike clients' models are, one row per method.

    Columns ``label protocol n_clients n_seeds model_spread spread_sd swap_cost swap_sd warning``;
    ``warning`` is the first one in a method's rows, mostly empty.
    """
    own = rows[rows["metric"].isin(["model_spread", "swap_cost"])]
    methods = []
    for label, model in own.groupby("label", sort=False):
        spread, swap = (model[model["metric"] == name] for name in ("model_spread", "swap_cost"))
        warned = [str(text) for text in spread["message"].dropna() if text]
        methods.append(
            {
                "label": label,
                "protocol": str(model["personalization"].iloc[0]),
                "n_clients": int(model["n_clients"].max()),
                "n_seeds": int(model["seed"].nunique()),
                "model_spread": spread["value"].mean(),
                "spread_sd": spread["value"].std(),
                "swap_cost": swap["value"].mean(),
                "swap_sd": swap["value"].std(),
                "warning": warned[0] if warned else "",
            }
        )
    columns = ["label", "protocol", "n_clients", "n_seeds", "model_spread", "spread_sd"]
    return pd.DataFrame(methods, columns=[*columns, "swap_cost", "swap_sd", "warning"])


def say_sameness(frame: pd.DataFrame) -> list[str]:
    """Warn of each method that is called personalised but serves one model.

    >>> row = {"label": "odpfl_hn", "model_spread": 0.0015, "warning": "serves one model"}
    >>> say_sameness(pd.DataFrame([row]))
    ['ODPFL-HN serves one model: they differ by 0.15% of their size.']
    """
    return [
        f"{model_called(row['label'])} {row['warning']}: they differ by "
        f"{percent(row['model_spread'], 2)} of their size."
        for row in records(frame)
        if row["warning"]
    ]


def sameness_table(frame: pd.DataFrame, labels: Sequence[str]) -> Table:
    """Set spread of the models and cost of another client's model side by side."""
    frame = in_order(frame, labels)
    shown = pd.DataFrame(
        {
            "method": model_called(row["label"]),
            "served by": PROTOCOLS.get(row["protocol"], row["protocol"]),
            "models differ by": plus_minus(percent(row["model_spread"]), row["spread_sd"]),
            "another client's model costs (points)": plus_minus(
                points(row["swap_cost"]), row["swap_sd"]
            ),
        }
        for row in records(frame)
    )
    caption = (
        f"Over {int(frame['n_clients'].max())} seen clients at most. Models differ by: distance of "
        "clients' weights from their mean relative to their size (root mean squares); 0% is one "
        "model for all. Cost: error under the next client's model minus error under the own; "
        f"{over_seeds(frame)}. Methods that train to serve a seen client are left out."
    )
    words, label = ("method", "served by"), "Do models differ between clients?"
    return Table("sameness", caption, frame, shown, words, label=label, noun="methods")


SAMENESS = Section(
    "sameness",
    tabled(lambda material: sameness_frame(material.rows), sameness_table),
    title="Do models differ between clients?",
)
