"""A map of clients by their descriptors."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from numpy.typing import NDArray

from latecomer.certify.page.svg import INK, MUTED, WIDE
from latecomer.certify.words import count, listing, percent
from latecomer.eval.results.rows import Artifact
from latecomer.reports.display.drawing import Looks, sheet, styled
from latecomer.reports.display.pictures import Plot
from latecomer.reports.display.section import Block, Material, Section
from latecomer.reports.display.style import looks
from latecomer.reports.frames.artifacts import cell_artifacts, stems
from latecomer.reports.words import CLIENTS

# How many neighbours count in t-SNE; its authors advise 5 to 50, and fewer than all clients.
PERPLEXITY = 30.0
SEED = 0
# One panel per class, for the classes that clients hold most of; a phone has rows of two.
MOST_PANELS = 10
COLUMNS = ("label", "seed", "group", "client", "x", "y", "class", "share", "superclass")


def descriptor_frame(cells: Iterable[tuple[str, int, Artifact]]) -> pd.DataFrame:
    """Place every client in the plane by t-SNE of the descriptors, beside the classes it holds.

    Each method's model of its first seed is taken, as every model has its own space.  The seed of
    t-SNE is fixed, its perplexity 30, or a third of the other clients if that is less.

    Parameters
    ----------
    cells : iterable of (label, seed, artifact)
        The artifacts ``descriptors``.

    Returns
    -------
    pandas.DataFrame
        ``label seed group client x y class share superclass``, one row per client and class it
        holds; ``share`` of the client's samples, ``superclass`` of the class where the data set
        has them, else NaN.  A method of fewer than four clients, or whose clients all have the
        same descriptor, is left out.
    """
    first: dict[str, tuple[int, Artifact]] = {}
    for label, seed, artifact in cells:
        if label not in first or seed < first[label][0]:
            first[label] = (seed, artifact)
    parts = [_placed(label, seed, artifact) for label, (seed, artifact) in first.items()]
    parts = [part for part in parts if len(part)]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=list(COLUMNS))


def _placed(label: str, seed: int, artifact: Artifact) -> pd.DataFrame:
    arrays = dict(artifact.arrays or {})
    descriptors = np.asarray(arrays["descriptor"], dtype=float)
    shares = np.asarray(arrays["class_proportions"], dtype=float)
    if len(descriptors) < 4 or not np.ptp(descriptors, axis=0).any():
        return pd.DataFrame(columns=list(COLUMNS))
    place = plane(descriptors)
    client, held = np.nonzero(shares)
    above = np.asarray(arrays.get("superclass", np.full(shares.shape[1], np.nan)), dtype=float)
    groups = np.where(arrays["novel"], "novel", "seen")
    return pd.DataFrame(
        {
            "label": label,
            "seed": seed,
            "group": groups[client],
            "client": np.asarray(artifact.ids["client"])[client],
            "x": place[client, 0],
            "y": place[client, 1],
            "class": held,
            "share": shares[client, held],
            "superclass": above[held],
        }
    )


def plane(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Map points ``[n, dim]`` to the plane ``[n, 2]`` by t-SNE (van der Maaten & Hinton 2008)."""
    from sklearn.manifold import TSNE  # a second to load, and few reports need it

    # Tiny descriptors would all coincide in the initial layout by principal components.
    scaled = (points - points.mean(axis=0)) / points.std()
    made: NDArray[np.float64] = TSNE(
        perplexity=min(PERPLEXITY, (len(points) - 1) / 3),
        init="pca" if points.shape[1] > 1 else "random",
        random_state=SEED,
        n_jobs=1,
    ).fit_transform(scaled)
    return made.astype(np.float64)


def panel_classes(frame: pd.DataFrame) -> list[int]:
    """List the classes with a panel: the ten that clients hold most of, in order."""
    most = frame.groupby("class")["share"].sum().nlargest(MOST_PANELS)
    return sorted(int(name) for name in most.index)


@styled
def descriptor_figure(
    frame: pd.DataFrame, label: str, look: Looks, *, width: float = WIDE
) -> Figure:
    """Draw one method's map of clients.

    Where classes have superclasses, a client bears the colour and mark of the one it has most of
    (as in Figure 4 of pFedHN).  Else there is one panel per class; the more of it a client
    holds, the fuller its mark (after Figure 6 of OD-PFL).  New clients have a ring.

    Parameters
    ----------
    frame : pandas.DataFrame
        ``descriptor_frame`` of the artifacts.
    label : str
        The method.
    look : mapping
        Colour and mark per label.
    width : float
        Inches.
    """
    own = frame[frame["label"] == label]
    if own["superclass"].notna().any():
        return _by_superclass(own, width)
    return _by_class(own, look[label].colour, width)


def main_superclass(own: pd.DataFrame) -> pd.DataFrame:
    """Give each client's superclass of largest share: ``group client x y superclass``."""
    keys = ["group", "client", "x", "y", "superclass"]
    sums = own.groupby(keys, sort=True)["share"].sum().reset_index()
    order = sums.sort_values("share", ascending=False, kind="stable")
    return order.drop_duplicates("client")[keys].sort_values("client", ignore_index=True)


def _by_superclass(own: pd.DataFrame, width: float) -> Figure:
    clients, narrow = main_superclass(own), width < 5
    names = [str(int(n)) for n in sorted(clients["superclass"].unique())]
    colours, columns = looks(names), 5 if narrow else 10
    lines = -(-len(names) // columns)
    figure, [axes] = sheet(width, 0.85 * width * (1.0 if narrow else 0.72) + 0.2 * lines)
    for name in names:
        part = clients[clients["superclass"] == float(name)]
        look = colours[name]
        axes.plot(part["x"], part["y"], look.mark, color=look.colour, label=name, linestyle="")
    _rings(axes, clients)
    _bare(axes)
    figure.legend(
        loc="outside lower center", ncols=min(columns, len(names)), handletextpad=0.1,
        columnspacing=0.9, title="superclass",
    )  # fmt: skip
    return figure


def _by_class(own: pd.DataFrame, colour: str, width: float) -> Figure:
    classes, narrow = panel_classes(own), width < 5
    columns = min(2 if narrow else 5, len(classes))
    lines = -(-len(classes) // columns)
    side = width / columns
    height = lines * (0.86 * side + 0.2)
    figure, panels = sheet(width, height, lines, columns, sharex=True, sharey=True)
    clients = own.drop_duplicates("client").sort_values("client")
    shares = own.pivot_table(index="client", columns="class", values="share", fill_value=0.0)
    shares = shares.loc[clients["client"]]
    for axes, name in zip(panels, classes, strict=False):
        share = shares[name].to_numpy()
        holds = share > 0
        axes.plot(
            clients["x"][~holds], clients["y"][~holds], ".", color=MUTED, markersize=2.6, alpha=0.55
        )
        axes.scatter(
            clients["x"][holds], clients["y"][holds], s=17,
            color=[to_rgba(colour, 0.25 + 0.75 * min(x / 0.5, 1.0)) for x in share[holds]],
            linewidths=0, zorder=3,
        )  # fmt: skip
        _rings(axes, clients, size=5.5)
        axes.set_title(f"class {name} ({int(holds.sum())})", fontsize=8, pad=3)
        _bare(axes)
    for axes in panels[len(classes) :]:
        axes.set_visible(False)
    return figure


def _rings(axes: Axes, clients: pd.DataFrame, size: float = 8.5) -> None:
    late = clients[clients["group"] == "novel"]
    axes.plot(
        late["x"], late["y"], "o", color=INK, markerfacecolor="none", markersize=size,
        markeredgewidth=0.8, zorder=4,
    )  # fmt: skip


def _bare(axes: Axes) -> None:
    """Remove what would suggest that positions in such a map have units."""
    axes.set_xticks([])
    axes.set_yticks([])
    axes.margins(0.07)
    for spine in axes.spines.values():
        spine.set_visible(True)
        spine.set_color(MUTED)
        spine.set_linewidth(0.6)


@dataclass(frozen=True)
class Neighbours:
    """How often a client's nearest neighbour in a map is of its kind.

    Attributes
    ----------
    alike : float
        Share of clients whose nearest neighbour is of their kind.
    chance : float
        The same share for a neighbour picked at random.
    kind : str
        What defines a client's kind.
    """

    alike: float
    chance: float
    kind: str


def describe_descriptors(frame: pd.DataFrame, label: str) -> str:
    """Describe ``descriptor_figure``: who is drawn, and who is a client's nearest neighbour."""
    own = frame[frame["label"] == label]
    kinds = own.drop_duplicates("client")["group"].value_counts()
    who = listing([count(int(n), CLIENTS[str(group)]) for group, n in kinds.items()])
    near = neighbours_alike(own)
    return (
        f"Map of {who} of {label} by their descriptors (t-SNE). {percent(near.alike, 0)} of "
        f"clients have a nearest neighbour in the map with the same {near.kind}; "
        f"by chance {percent(near.chance, 0)} would."
    )


def neighbours_alike(own: pd.DataFrame) -> Neighbours:
    """Compare each client of one method's map with the client nearest to it in the map.

    A client's kind is the superclass that it has most of, or else the class.
    """
    by = "superclass" if own["superclass"].notna().any() else "class"
    if by == "superclass":
        clients = main_superclass(own)
    else:
        order = own.sort_values("share", ascending=False, kind="stable")
        clients = order.drop_duplicates("client").sort_values("client", ignore_index=True)
    place, kind = clients[["x", "y"]].to_numpy(), clients[by].to_numpy()
    apart = ((place[:, None] - place[None]) ** 2).sum(axis=2)
    np.fill_diagonal(apart, np.inf)
    same = kind[:, None] == kind[None]
    return Neighbours(
        alike=float((kind[apart.argmin(axis=1)] == kind).mean()),
        chance=float((same.sum(axis=1) - 1).mean() / (len(kind) - 1)),
        kind=f"main {by}",
    )


def descriptors_caption(frame: pd.DataFrame, label: str) -> str:
    """Say how to read ``descriptor_figure``."""
    own = frame[frame["label"] == label]
    if own["superclass"].notna().any():
        text = "A mark per client, its colour and shape by the superclass that it has most of."
    else:
        some = len(panel_classes(own)) < own["class"].nunique()
        most = " of the classes that clients hold most of" if some else ""
        text = (
            f"A panel per class{most}: in colour the clients that hold it (their number in "
            "brackets), the fuller the larger its share, full from a half on; the others are grey "
            "points at the same places."
        )
    if (own["group"] == "novel").any():
        text += " A ring: a new client."
    n = own["client"].nunique()
    near = neighbours_alike(own)
    return (
        f"{text} {percent(near.alike, 0)} of {count(n, 'client')} have a nearest neighbour in "
        f"this map with the same {near.kind}, by chance {percent(near.chance, 0)}. The model "
        f"of seed {int(own['seed'].iloc[0])}; t-SNE with perplexity "
        f"{min(PERPLEXITY, (n - 1) / 3):.3g} and seed {SEED} keeps neighbours together, not "
        "distances."
    )


def _descriptors(material: Material) -> Iterator[Block]:
    frame = material.ordered(descriptor_frame(cell_artifacts(material.run, "descriptors")))
    for label, stem in stems(frame["label"]).items():
        yield Plot(
            f"descriptors-{stem}",
            partial(descriptor_figure, frame, label, material.looks),
            frame[frame["label"] == label],
            title=f"Clients by their descriptors, {label}",
            alt=describe_descriptors(frame, label),
            caption=descriptors_caption(frame, label),
        )


DESCRIPTORS = Section(
    "descriptors", _descriptors, title="What descriptors know of the clients", cites=("maaten2008",)
)
