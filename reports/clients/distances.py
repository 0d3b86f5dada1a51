"""Who holds which classes, and how far new clients are from the seen and the certified ones."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from latecomer.certify.page.svg import MUTED, NARROW, WIDE
from latecomer.certify.words import count, counts, listing, percent
from latecomer.reports.display.drawing import (
    SHARES,
    Looks,
    leaders,
    leaders_caption,
    sheet,
    shown,
    styled,
)
from latecomer.reports.display.naming import model_called
from latecomer.reports.display.pictures import Plot, Table
from latecomer.reports.display.section import Block, Group, Material, Section, Text, tabled
from latecomer.reports.frames.errors import (
    CONDITION,
    GROUPS,
    diagnostics_frame,
    in_order,
    rank_frame,
    records,
    split_tables,
)
from latecomer.reports.words import CLIENTS, METRICS, file_stem, range_of, sentence_case, signed

# With more columns than this, each is narrower than a pixel of a phone.
MOST_CLIENTS = 300
# Most letters per inch of figure width, as axes are narrower than the figure.
_LETTERS = 12.5


def class_frame(records: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """Count each client's samples per class, one row per client and class.

    Parameters
    ----------
    records : iterable of mapping
        The table of the split's artifact ``label_counts``: ``client group class_0 class_1 ...``.

    Returns
    -------
    pandas.DataFrame
        ``group client class n share``, ``share`` of the client's samples; seen, certification and
        new clients in this order, each group sorted by the class a client has most of.
    """
    table = pd.DataFrame(list(records))
    columns = ["group", "client", "class", "n", "share"]
    if table.empty:
        return pd.DataFrame(columns=columns)
    classes = [name for name in table.columns if str(name).startswith("class_")]
    counts = table[classes].to_numpy(dtype=float)
    place = table["group"].map({group: i for i, group in enumerate(GROUPS)}).fillna(len(GROUPS))
    last = np.array([np.flatnonzero(held)[-1] if held.any() else 0 for held in counts])
    order = np.lexsort((table["client"].to_numpy(), last, counts.argmax(axis=1), place.to_numpy()))
    table, counts = table.iloc[order], counts[order]
    n_classes = len(classes)
    totals = np.maximum(counts.sum(axis=1, keepdims=True), 1)
    return pd.DataFrame(
        {
            "group": np.repeat(table["group"].to_numpy(), n_classes),
            "client": np.repeat(table["client"].to_numpy().astype("int64"), n_classes),
            "class": np.tile([int(name.removeprefix("class_")) for name in classes], len(table)),
            "n": counts.ravel().astype("int64"),
            "share": (counts / totals).ravel(),
        }
    )[columns]


@styled
def class_figure(frame: pd.DataFrame, *, width: float = WIDE) -> Figure:
    """Draw classes against clients; the darker, the larger the class's share of a client's data.

    Of more than 300 clients evenly spaced ones are drawn, the same share of every group.

    Parameters
    ----------
    frame : pandas.DataFrame
        ``class_frame`` of the split's label counts.
    """
    clients = frame[["group", "client"]].drop_duplicates(ignore_index=True)
    shares = frame["share"].to_numpy().reshape(len(clients), -1)
    step = max(1, -(-len(clients) // MOST_CLIENTS))
    clients, shares = clients.iloc[::step], shares[::step]
    n_classes = shares.shape[1]
    height = 1.15 + float(np.clip(0.17 * n_classes, 1.0, 4.2))
    figure, [axes] = sheet(width, height)
    most = max(float(shares.max()), 0.01)
    mesh = axes.pcolormesh(shares.T, cmap=SHARES, vmin=0, vmax=most, rasterized=True)
    axes.set_ylim(n_classes, 0)
    every = max(1, n_classes // 10)
    classes = sorted(frame["class"].unique())[::every]
    axes.set_yticks(np.arange(0, n_classes, every) + 0.5, [str(c) for c in classes])
    axes.set_ylabel("class")
    axes.set_xticks([])
    axes.set_xlabel(f"clients{'' if step == 1 else f', one in {step} drawn'}")
    _group_names(axes, clients["group"], width)
    bar = figure.colorbar(mesh, ax=axes, location="bottom", shrink=0.5, aspect=40, pad=0.04)
    bar.set_label("share of the client's samples (%)")
    bar.set_ticks([0, most / 2, most], labels=[f"{100 * x:.3g}" for x in (0, most / 2, most)])
    bar.outline.set_edgecolor(MUTED)
    return figure


def _group_names(axes: Axes, groups: pd.Series, width: float) -> None:
    """Write each group's name over its clients, with a line between groups."""
    start = 0
    for group, part in groups.groupby(groups, sort=False):
        end = start + len(part)
        room = len(part) / len(groups) * width * _LETTERS
        names = (
            f"{CLIENTS[str(group)]}s ({len(part)})",
            f"{CLIENTS[str(group)]}s",
            CLIENTS[str(group)].removesuffix(" client"),
        )
        axes.annotate(
            next((name for name in names if len(name) <= room), names[-1]),
            ((start + end) / 2, 1.0), (0, 4), xycoords=axes.get_xaxis_transform(),
            textcoords="offset points", ha="center",
        )  # fmt: skip
        if end < len(groups):
            axes.axvline(end, color=MUTED, linewidth=1.0)
        start = end


def describe_classes(frame: pd.DataFrame) -> str:
    """Describe ``class_figure``."""
    held = frame[frame["n"] > 0].groupby(["group", "client"])["class"].size()
    sizes = frame.groupby(["group", "client"], sort=False)["n"].sum()
    groups = [
        count(len(part), CLIENTS[str(group)])
        for group, part in sizes.groupby(level="group", sort=False)
    ]
    classes = counts([frame["class"].nunique()], "class")
    return (
        f"Map of {classes} by clients ({', '.join(groups)}): a client holds "
        f"{counts(held, 'class')} and {counts(sizes, 'sample')}."
    )


def _class_map(material: Material) -> Iterator[Block]:
    frame = class_frame(next(iter(split_tables(material.run, "label_counts")), ()))
    if len(frame):
        yield Plot(
            "classes",
            partial(class_figure, frame),
            frame,
            title="Who holds which classes",
            alt=describe_classes(frame),
            caption="A column per client, a row per class; the fuller the colour, the larger the "
            "share of the client's samples (support, validation and query together). New and "
            "held-out clients were not trained on.",
        )


CLASSES = Section("classes", _class_map)


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
    far = range_of(own["distance"], "{:.2g}".format)
    n = len(own) // max(own["label"].nunique(), 1)
    return (
        f"Scatter of new clients' error against {METRICS.get(metric, metric)}, "
        f"{far}, {count(n, 'point')} for each of {listing(list(labels))}."
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


ALARM = 0.05
"""A new client whose p-value is at most this is called unlike the certified clients."""


def likeness_frame(rows: pd.DataFrame) -> pd.DataFrame:
    """Sum up the p-values of new clients, by condition.

    They depend on no method and no training seed, so a client counts once for each split.
    ``alarms`` is the share of new clients with a p-value of at most ``ALARM``, ``least_p`` the
    smallest that there can be.
    """
    once = ["split", "split_seed", *CONDITION, "client"]
    chosen = rows[rows["metric"] == "likeness_p"].drop_duplicates(once)
    chosen = chosen.sort_values("shift", key=lambda shift: shift != "none", kind="stable")
    by = chosen.assign(alarm=chosen["value"] <= ALARM).groupby(CONDITION, sort=False, dropna=False)
    frame = by.agg(
        n_novel=("value", "size"),
        n_certified=("n_clients", "min"),
        alarms=("alarm", "mean"),
        median_p=("value", "median"),
    ).reset_index()
    return frame.assign(least_p=1 / (1 + frame["n_certified"].astype(float)))


def likeness_table(frame: pd.DataFrame, labels: Sequence[str]) -> Table:
    """Say how many new clients are unlike the certified clients, by condition."""
    shown = pd.DataFrame(
        {
            "shift": row["shift"],
            "severity": "" if pd.isna(row["severity"]) else f"{row['severity']:g}",
            f"p at most {ALARM:g}": percent(row["alarms"]),
            "median p": f"{row['median_p']:.2f}",
            "new clients": str(row["n_novel"]),
            "certified": str(int(row["n_certified"])),
        }
        for row in records(frame)
    )
    caption = (
        "How many new clients lie further from the seen ones than certified clients do, by their "
        "inputs alone: p is the rank of a new client's distance among the certified clients' "
        "distances. Of clients like those certified, on average at most one in twenty has a p of "
        ".05 or less. A small p says that certificates were not made on such clients, not that "
        "they are served badly; labels that differ where inputs do not leave no trace here."
    )
    if (frame["least_p"] > ALARM).any():
        caption += " Where fewer than 19 clients were certified, no p can be .05 or less."
    label = "Likeness to the certified clients"
    return Table("likeness", caption, frame, shown, ("shift",), label=label)


LIKENESS = Section(
    "likeness",
    tabled(lambda material: likeness_frame(material.rows), likeness_table),
    title="Are new clients like those certified?",
    cites=("vovk2005",),
    chapter="clients",
)
