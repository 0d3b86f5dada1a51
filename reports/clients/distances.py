"""How far new clients are from the seen ones, and how well they are served."""

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from latecomer.certify.page.svg import MUTED, NARROW
from latecomer.certify.words import count, counts, listing
from latecomer.reports.display.drawing import Looks, leaders, leaders_caption, sheet, shown, styled
from latecomer.reports.display.naming import model_called
from latecomer.reports.display.pictures import Plot
from latecomer.reports.display.section import Block, Group, Material, Section, Text
from latecomer.reports.display.table import Table
from latecomer.reports.frames.errors import diagnostics_frame, in_order, rank_frame, records
from latecomer.reports.words import METRICS, file_stem, sentence_case, signed

# Jensen-Shannon and Hellinger rank clients nearly as TV does: they stand in the table only.
DRAWN = ("label_kl", "label_tv", "a_distance")
# Groups of clients less than this share of an axis apart are drawn as one.
NEAR = 0.04


@styled
def diagnostics_figure(
    frame: pd.DataFrame, metric: str, looks: Looks, *, width: float = NARROW
) -> Figure:
    """Draw error against one distance to the nearest seen client, a mark per client.

    The more marks there are, the fainter they are.  Lines join means of up to five groups of
    clients of about equal size.  Of more than eight methods only the lines are drawn: the five of
    least error named, the others grey.

    Parameters
    ----------
    frame : pandas.DataFrame
        ``diagnostics_frame`` of the rows.
    metric : str
        One of ``words.METRICS``.
    """
    own = frame[frame["metric"] == metric]
    named = leaders(own, "error")
    crowded = len(named) < own["label"].nunique()
    figure, [axes] = sheet(width, 0.9 * width)
    for name, part in own.groupby("label", sort=False):
        look, middle = looks[str(name)], binned(part)
        if name not in named:
            axes.plot(
                middle["distance"], 100 * middle["error"], color=MUTED, linewidth=0.7, alpha=0.45
            )
            continue
        if not crowded:
            axes.plot(
                part["distance"], 100 * part["error"], look.mark, color=look.colour,
                markersize=3.0, alpha=max(0.28, min(0.85, 60 / len(own))), markeredgewidth=0,
                # Thousands of vector marks make a slow page.
                rasterized=len(own) > 3000,
            )  # fmt: skip
        axes.plot(
            middle["distance"],
            100 * middle["error"],
            look.mark,
            color=look.colour,
            linestyle=look.line,
            markersize=4.2,
            label=shown(model_called(str(name))),
            zorder=3,
        )
    axes.set_xlabel(METRICS.get(metric, metric))
    axes.set_ylabel("error (%)")
    axes.set_ylim(bottom=0)
    axes.grid()
    figure.legend(loc="outside lower center", ncols=3, handletextpad=0.4, columnspacing=0.8)
    return figure


def binned(part: pd.DataFrame) -> pd.DataFrame:
    """Mean distance and error in up to five groups of about equal size, by distance.

    Groups that would overlap in the figure are merged.
    """
    groups = pd.qcut(part["distance"], 5, labels=False, duplicates="drop")
    if groups.isna().all():
        groups = groups.fillna(0)
    apart = part.groupby(groups)["distance"].mean().diff() > NEAR * np.ptp(part["distance"])
    groups = groups.map(apart.cumsum())
    return part.groupby(groups)[["distance", "error"]].mean()


def describe_diagnostics(frame: pd.DataFrame, metric: str, labels: Sequence[str]) -> str:
    """Describe ``diagnostics_figure``."""
    own = frame[frame["metric"] == metric]
    low, high = own["distance"].min(), own["distance"].max()
    n = len(own) // max(own["label"].nunique(), 1)
    return (
        f"Scatter of new clients' error against {METRICS.get(metric, metric)}, "
        f"{low:.2g} to {high:.2g}, {count(n, 'point')} for each of {listing(list(labels))}."
    )


def distance_caption(frame: pd.DataFrame, dealt: Sequence[str] = ()) -> str:
    """Say how many clients a ``diagnostics_figure`` of one distance shows, and who is in colour."""
    others = frame["shift"].isin(list(dealt))
    clients = count(int(frame.loc[~others, "client"].nunique()), "new client")
    for shift in dealt:
        # Clients of several severities have the same names and other samples.
        own = frame[frame["shift"] == shift].drop_duplicates(["client", "severity"])
        clients += f" and {len(own):,} others under {shift}" if len(own) else ""
    told = f"{clients}, {counts(frame['n_seeds'], 'seed')}. {leaders_caption(frame, 'error')}"
    return told.strip()


def rank_table(diagnostics: pd.DataFrame, labels: Sequence[str]) -> Table:
    """Rank correlations of error with distance to the nearest seen client."""
    frame = in_order(rank_frame(diagnostics), labels)
    shifted = bool((diagnostics["shift"] != "none").any())
    cells: dict[str, dict[str, str]] = {}
    for row in records(frame):
        if row["clients"] == "all" and not shifted:
            continue
        head = METRICS[row["metric"]].split(" to ")[0].removeprefix("label ")
        head += f" ({row['n']}{'' if row['clients'] == 'unshifted' else ', with shifts'})"
        own = cells.setdefault(row["label"], {"method": model_called(row["label"])})
        own[head] = signed(row["spearman"])
    caption = (
        "Spearman's rank correlation of a new client's error (averaged over seeds) with its "
        "distance to the nearest seen client: of labels (KL, TV, JS, Hellinger), of inputs "
        "(proxy A-distance); in brackets the number of points."
    )
    if shifted:
        caption += (
            " The same client under several shifts counts once per shift, and other clients, at "
            "several severities, may share samples, so that number overstates independence and no "
            "interval is given."
        )
    shown_cells = pd.DataFrame(list(cells.values()))
    label = "Rank correlations"
    return Table("rank-correlation", caption, frame, shown_cells, ("method",), label=label)


def _distances(material: Material) -> Iterator[Block]:
    frame = material.ordered(diagnostics_frame(material.rows))
    if frame.empty:
        yield Text("No distances between clients were computed.")
        return
    yield Text(
        "How far each new client is from its nearest seen client, and how well it was "
        "served. A mark is one client under one condition, averaged over seeds."
    )
    parts = {metric: frame[frame["metric"] == metric] for metric in DRAWN}
    yield Group(
        [
            Plot(
                f"distance-{file_stem(metric)}",
                partial(diagnostics_figure, frame, metric, material.looks),
                part,
                title=sentence_case(METRICS[metric].split(" to ")[0]),
                alt=describe_diagnostics(frame, metric, material.labels),
                caption=distance_caption(part, material.dealt),
                small=True,
            )
            for metric, part in parts.items()
            if len(part)
        ]
    )
    yield rank_table(frame, material.labels)


DISTANCES = Section("distances", _distances)
