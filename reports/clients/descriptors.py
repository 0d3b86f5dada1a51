"""Maps of clients by their descriptors, and how well these rank clients by likeness."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from numpy.typing import NDArray

from latecomer.certify.page.svg import INK, MUTED, WIDE
from latecomer.certify.words import DASH, PLUS_MINUS, count, listing, percent
from latecomer.eval.results.rows import Artifact
from latecomer.reports.display.drawing import (
    Looks,
    looks,
    panels,
    sheet,
    shown,
    styled,
    until_round,
)
from latecomer.reports.display.naming import model_called
from latecomer.reports.display.pictures import Plot, Table
from latecomer.reports.display.section import Block, Material, Section
from latecomer.reports.frames.errors import (
    CellTables,
    cell_artifacts,
    joined,
    over_clients_and_seeds,
    records,
    stems,
)
from latecomer.reports.frames.paper import paper_correlations
from latecomer.reports.words import CLIENTS, interval, range_of, signed

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
    each = 0.86 * (width / columns) + 0.2
    figure, drawn = panels(
        len(classes), width, columns, above=0.0, each=each, sharex=True, sharey=True
    )
    clients = own.drop_duplicates("client").sort_values("client")
    shares = own.pivot_table(index="client", columns="class", values="share", fill_value=0.0)
    shares = shares.loc[clients["client"]]
    for axes, name in zip(drawn, classes, strict=True):
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
    """How often a client's nearest neighbour in a map is of its kind, and would be by chance."""

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


def correlation_frame(tables: CellTables) -> pd.DataFrame:
    """Take the correlation of descriptors and classes along the training from its curves.

    Parameters
    ----------
    tables : iterable of (label, seed, records)
        The artifacts ``training_curve``.

    Returns
    -------
    pandas.DataFrame
        ``label seed round spearman n_clients``: the mean over the new clients of
        ``spearman`` after ``round`` rounds; rounds in which it is not defined are left out.
    """
    columns = ("label", "seed", "group", "round", "spearman", "n_clients")
    frame = joined(tables, columns, ("round", "spearman", "n_clients"))
    frame = frame[frame["group"] == "novel"].drop(columns="group")
    return frame.dropna(subset=["spearman"]).reset_index(drop=True)


@styled
def correlation_figure(frame: pd.DataFrame, look: Looks, *, width: float = WIDE) -> Figure:
    """Draw the rank correlation of descriptors and classes against rounds.

    A line per method, the mean over seeds, a ribbon of one standard deviation over seeds.

    Parameters
    ----------
    frame : pandas.DataFrame
        ``correlation_frame`` of the artifacts.
    """
    figure, [axes] = sheet(width, 3.0 if width < 5 else 3.2)
    axes.axhline(0, color=MUTED, linewidth=0.8)
    for label, own in frame.groupby("label", sort=False):
        by_round = own.groupby("round")["spearman"]
        mean, sd = by_round.mean(), by_round.std(ddof=1)
        one = look[str(label)]
        if sd.notna().any():
            axes.fill_between(mean.index, mean - sd, mean + sd, color=one.colour, alpha=0.18, lw=0)
        axes.plot(
            mean.index, mean, marker=one.mark, color=one.colour, linestyle=one.line, markersize=3.6,
            label=shown(model_called(str(label))),
        )  # fmt: skip
    until_round(axes, float(frame["round"].max()))
    axes.set_ylabel("rank correlation")
    axes.set_ylim(min(0.0, 1.1 * float(frame["spearman"].min())), 1.02)
    figure.legend(loc="outside lower center", ncols=2 if width < 5 else 5)
    return figure


def agreement_frame(rows: pd.DataFrame) -> pd.DataFrame:
    """Rank correlation of descriptors and classes of the trained models.

    For a new client: Spearman's correlation, over the seen clients, of their descriptors'
    distance to its descriptor with the distance of class proportions (PeFLL, section 4.1).

    Returns
    -------
    pandas.DataFrame
        ``label spearman lower upper sd_seeds n_clients n_seeds``; ``lower`` and ``upper`` are the
        95% t-interval over clients, each averaged over seeds.
    """
    own = rows[(rows["metric"] == "spearman") & (rows["client"] != "") & (rows["method"] != "")]
    own = own.rename(columns={"value": "spearman"})
    frame = over_clients_and_seeds(own, ["label"], "spearman", least=-1.0, most=1.0)
    return frame[["label", "spearman", "lower", "upper", "sd_seeds", "n_clients", "n_seeds"]]


def agreement_table(
    frame: pd.DataFrame, published: Mapping[str, float], *, full: bool = True
) -> Table:
    """Show the correlation of descriptors and classes per method, and a paper's beside it.

    ``published`` has the papers' values by label; without ``full``, the run's length is not theirs.
    """
    shown_rows = [
        {
            "method": model_called(row["label"]),
            "rank correlation": f"{signed(row['spearman'])} {PLUS_MINUS} {_sd(row['sd_seeds'])}",
            **(_beside(row["spearman"], published.get(row["label"])) if published else {}),
            "95% over clients": interval(row["lower"], row["upper"], signed),
            "new clients": str(row["n_clients"]),
            "seeds": str(row["n_seeds"]),
        }
        for row in records(frame)
    ]
    caption = (
        "Spearman's rank correlation, over the seen clients, of a new client's distance in "
        "descriptors with its distance in class proportions, for the trained models: mean over "
        f"new clients, then over seeds, {PLUS_MINUS} one standard deviation over seeds. The "
        "interval is the 95% t-interval over new clients, each averaged over seeds."
    )
    if published:
        frame = frame.assign(paper=frame["label"].map(published))
        caption += " The paper gives no spread."
        caption += "" if full else " This run is not of the paper's length."
    cells, label = pd.DataFrame(shown_rows), "Correlation of descriptors and classes"
    return Table("descriptor-agreement", caption, frame, cells, ("method",), label=label)


def _beside(ours: float, paper: float | None) -> dict[str, str]:
    if paper is None:
        return {"paper": DASH, "difference": DASH}
    return {"paper": signed(paper), "difference": signed(ours - paper)}


def _sd(value: float) -> str:
    return DASH if pd.isna(value) else f"{value:.2f}"


def describe_correlation(frame: pd.DataFrame) -> str:
    """Describe ``correlation_figure``: where each method starts and ends."""
    said = []
    for label, own in frame.groupby("label", sort=False):
        means = own.groupby("round")["spearman"].mean()
        said.append(f"{model_called(str(label))} {means.iloc[0]:.2f} to {means.iloc[-1]:.2f}")
    rounds = range_of(frame["round"], "{:.0f}".format)
    text = f"Rank correlation of descriptors and classes, rounds {rounds}: {'; '.join(said)}."
    return text.replace("-", "\N{MINUS SIGN}")


def correlation_caption(frame: pd.DataFrame) -> str:
    """Say what ``correlation_figure`` averages."""
    seeds, clients = int(frame["seed"].nunique()), int(frame["n_clients"].max())
    ribbon = "; a ribbon of one standard deviation over seeds" if seeds > 1 else ""
    return (
        f"Spearman's rank correlation, over the seen clients, of a new client's distance in "
        f"descriptors with its distance in class proportions: 1 where descriptors rank clients as "
        f"their classes do. Mean over {count(clients, 'new client')}, then over "
        f"{count(seeds, 'seed')}{ribbon}."
    )


def _ranks(material: Material) -> Iterator[Block]:
    along = material.ordered(correlation_frame(material.tables("training_curve")))
    if along["round"].nunique() > 1:
        yield Plot(
            "descriptor-correlation",
            partial(correlation_figure, along, material.looks),
            along,
            title="Descriptors against classes along the training",
            alt=describe_correlation(along),
            caption=correlation_caption(along),
        )
    frame = material.ordered(agreement_frame(material.rows))
    if len(frame):
        published = paper_correlations(material.rows, material.study)
        yield agreement_table(frame, published, full=material.study.get("scale") == "paper")


RANKS = Section(
    "descriptor-ranks",
    _ranks,
    title="Whether descriptors rank clients as their classes do",
    cites=("spearman1904",),
)
