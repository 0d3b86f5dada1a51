"""Who holds which classes: the split as a map of clients by classes."""

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from latecomer.certify.page.svg import MUTED, WIDE
from latecomer.certify.words import count, counts
from latecomer.reports.display.drawing import SHARES, sheet, styled
from latecomer.reports.display.pictures import Plot
from latecomer.reports.display.section import Block, Material, Section
from latecomer.reports.frames.artifacts import split_tables
from latecomer.reports.frames.errors import GROUPS
from latecomer.reports.words import CLIENTS

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
    width : float
        Inches.
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
