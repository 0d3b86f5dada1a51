"""Mix and match: each client's head on every other client's body."""

from collections.abc import Iterable, Iterator, Mapping
from functools import partial

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from latecomer.certify.page.svg import INK, MUTED, WIDE
from latecomer.certify.words import DASH, PLUS_MINUS, count, percent, points
from latecomer.eval.results.rows import Artifact, RunRecord
from latecomer.reports.display.drawing import SHARES, sheet, styled
from latecomer.reports.display.naming import model_called
from latecomer.reports.display.pictures import Plot, Table
from latecomer.reports.display.section import Block, Material, Section
from latecomer.reports.frames.errors import (
    cell_artifacts,
    first_record,
    records,
    split_tables,
    stems,
)

HEAD, BODY = "client of the head", "client of the body"
# With more rows than this, names have no room; with more columns, numbers have none.
MOST_NAMES, MOST_NUMBERS = 30, 12
# On fuller cells white text is easier to read than the page's own ink, light or dark.
FULL = 0.85
# A client that holds more classes than this is not named by them.
MOST_HELD = 4


def mix_and_match_frame(cells: Iterable[tuple[str, int, Artifact]]) -> pd.DataFrame:
    """Join the ``mix_and_match`` artifacts of all cells (pFedHN, Figure 3).

    Returns
    -------
    pandas.DataFrame
        ``label seed head body accuracy normalised``: accuracy on the query data of client ``head``
        of its own head on the body made for client ``body``; ``normalised`` stretches the
        accuracies of a head to [0, 1], NaN where all are equal.
    """
    parts = []
    for label, seed, artifact in cells:
        arrays = dict(artifact.arrays or {})
        n_heads, n_bodies = arrays["accuracy"].shape
        parts.append(
            pd.DataFrame(
                {
                    "label": label,
                    "seed": seed,
                    "head": np.repeat(np.asarray(artifact.ids[HEAD]), n_bodies),
                    "body": np.tile(np.asarray(artifact.ids[BODY]), n_heads),
                    "accuracy": np.asarray(arrays["accuracy"], dtype=float).ravel(),
                    "normalised": np.asarray(arrays["normalised"], dtype=float).ravel(),
                }
            )
        )
    columns = ["label", "seed", "head", "body", "accuracy", "normalised"]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=columns)


def mix_and_match_summary(frame: pd.DataFrame) -> pd.DataFrame:
    """Summarise accuracies under the client's own body and under the others', per trained model.

    Means and standard deviations over clients, the others' bodies averaged for each client first;
    ``best`` counts the clients for whom no other body is more accurate than their own.
    """
    rows = []
    for (label, seed), part in frame.groupby(["label", "seed"], sort=False):
        same = part["head"] == part["body"]
        own = part[same].set_index("head")["accuracy"]
        rest = part[~same].groupby("head")["accuracy"]
        others = rest.mean().reindex(own.index)
        best = int((own >= rest.max().reindex(own.index)).sum())
        rows.append(
            (label, seed, len(own), own.mean(), own.std(), others.mean(), others.std(), best)
        )
    columns = ["label", "seed", "n_clients", "own", "own_sd", "others", "others_sd", "best"]
    return pd.DataFrame(rows, columns=columns)


@styled
def mix_and_match_figure(
    frame: pd.DataFrame,
    label: str,
    *,
    classes: Mapping[int, str] | None = None,
    width: float = WIDE,
) -> Figure:
    """Draw one method's accuracies, a row per head, a column per body, each row stretched to 0-1.

    The client's own body has a frame.  Several seeds are averaged after stretching.

    Parameters
    ----------
    frame : pandas.DataFrame
        ``mix_and_match_frame`` of the artifacts.
    label : str
        The method.
    classes : mapping of int to str, optional
        What to write beside a client's number: the classes that it holds.
    """
    own, narrow = frame[frame["label"] == label], width < 5
    table = own.pivot_table(index="head", columns="body", values="normalised", dropna=False)
    ids, values = [int(name) for name in table.index], table.to_numpy(dtype=float)
    n = len(ids)
    side = width if narrow else 0.72 * width
    figure, [axes] = sheet(width, 0.8 * side + 0.8)
    mesh = axes.pcolormesh(values, cmap=SHARES, vmin=0, vmax=1, rasterized=n > MOST_NAMES)
    for place in range(n):
        edge = Rectangle((place, place), 1, 1, fill=False, edgecolor=INK, linewidth=0.9)
        axes.add_patch(edge)
    if n <= MOST_NUMBERS:
        for row, column in np.argwhere(np.isfinite(values)):
            value = values[row, column]
            axes.text(
                column + 0.5, row + 0.5, _short(value), ha="center", va="center",
                fontsize=7, color="white" if value > FULL else INK,
            )  # fmt: skip
    axes.set_xlim(0, n)
    axes.set_ylim(n, 0)
    every = 1 if n <= MOST_NAMES else n // 10
    told = classes or {}
    rows = [f"{name}: {told[name]}" if told.get(name) and n <= MOST_NAMES else str(name)
            for name in ids[::every]]  # fmt: skip
    axes.set_yticks(np.arange(0, n, every) + 0.5, rows)
    step = every if n <= 15 or not narrow else 2 * every
    axes.set_xticks(np.arange(0, n, step) + 0.5, [str(name) for name in ids[::step]])
    axes.set_ylabel("head of client" + (": its classes" if told and n <= MOST_NAMES else ""))
    axes.set_xlabel("body made for client")
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    bar = figure.colorbar(mesh, ax=axes, location="bottom", shrink=0.5, aspect=40, pad=0.03)
    bar.set_label("accuracy, stretched to 0-1 in each row")
    bar.set_ticks([0, 0.5, 1], labels=["0", "0.5", "1"])
    bar.outline.set_edgecolor(MUTED)
    return figure


def _short(value: float) -> str:
    """Write a number in [0, 1] with two digits and no zero before the point.

    >>> _short(0.0), _short(0.07), _short(0.5), _short(0.996)
    ('0', '.07', '.5', '1')
    """
    return f"{value:.2f}".rstrip("0").rstrip(".").removeprefix("0") or "0"


def mix_and_match_table(frame: pd.DataFrame) -> Table:
    """Show accuracies on the client's own body and on the others', per trained model."""
    summary = mix_and_match_summary(frame)
    shown = pd.DataFrame(
        {
            "method": model_called(row["label"]),
            "seed": str(row["seed"]),
            "accuracy on its own body": _with_sd(row["own"], row["own_sd"]),
            "on the others'": _with_sd(row["others"], row["others_sd"]),
            "no other body better": f"{row['best']} of {row['n_clients']}",
            "clients": str(row["n_clients"]),
        }
        for row in records(summary)
    )
    caption = (
        f"Accuracy of a seen client's head on its query data; mean over clients {PLUS_MINUS} one "
        "standard deviation over clients, in points, a row per trained model. On the others': "
        "averaged over all other clients' bodies first. The last count includes ties."
    )
    label = "Accuracy on own and others' bodies"
    return Table("mix-and-match", caption, summary, shown, ("method",), label=label)


def _with_sd(mean: float, sd: float) -> str:
    return f"{percent(mean)} {PLUS_MINUS} {DASH if pd.isna(sd) else points(sd).lstrip('+')}"


def describe_mix(frame: pd.DataFrame, label: str) -> str:
    """Describe ``mix_and_match_figure``."""
    own = frame[frame["label"] == label]
    first = first_record(mix_and_match_summary(own))
    return (
        f"Map of {first['n_clients']} heads by {own['body'].nunique()} bodies of "
        f"{model_called(label)}: a head has {percent(first['own'])} accuracy on the body made for "
        f"its own client and {percent(first['others'])} on the others', on average "
        f"(seed {first['seed']})."
    )


def mix_caption(frame: pd.DataFrame, label: str) -> str:
    """Say how to read ``mix_and_match_figure``, and what it says, seed by seed."""
    own = frame[frame["label"] == label]
    seeds = int(own["seed"].nunique())
    text = (
        "A row is one client's head and query data, a column the body that the hypernetwork makes "
        "for another client; framed, its own. Accuracies are stretched to 0-1 in each row, "
        "so rows cannot be compared with each other"
    )
    text += f"; mean over {seeds} seeds" if seeds > 1 else ""
    flat = own.groupby(["seed", "head"])["normalised"].count() == 0
    if flat.any():
        text += f". Empty: {count(int(flat.sum()), 'row')} in which all bodies do alike"
    return f"{text}."


def held_classes(run: RunRecord) -> Mapping[int, str]:
    """Name the classes of every client; empty if one has more than four, or none are known."""
    counts = pd.DataFrame(next(iter(split_tables(run, "label_counts")), ()))
    if counts.empty:
        return {}
    classes = [name for name in counts.columns if str(name).startswith("class_")]
    held = counts[classes] > 0
    if int(held.sum(axis=1).max()) > MOST_HELD:
        return {}
    names = [name.removeprefix("class_") for name in classes]
    return {
        int(client): ", ".join(name for name, has in zip(names, row, strict=True) if has)
        for client, row in zip(counts["client"], held.to_numpy().tolist(), strict=True)
    }


def _mix_and_match(material: Material) -> Iterator[Block]:
    frame = mix_and_match_frame(cell_artifacts(material.run, "mix_and_match"))
    frame = material.ordered(frame)
    if frame.empty:
        return
    classes = held_classes(material.run)
    for label, stem in stems(frame["label"]).items():
        yield Plot(
            f"mix-and-match-{stem}",
            partial(mix_and_match_figure, frame, label, classes=classes),
            frame[frame["label"] == label],
            title=f"Heads on other clients' bodies, {model_called(label)}",
            alt=describe_mix(frame, label),
            caption=mix_caption(frame, label),
        )
    yield mix_and_match_table(frame)


MIX_AND_MATCH = Section(
    "mix-and-match", _mix_and_match, title="Whether bodies differ between clients"
)
