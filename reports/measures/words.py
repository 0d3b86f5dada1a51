"""Words for figures of descriptors, mixed bodies and serving: what they show, how to read them."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from latecomer.reports.frames.errors import first_record, records
from latecomer.reports.measures.descriptors import PERPLEXITY, SEED, main_superclass, panel_classes
from latecomer.reports.measures.mix_and_match import mix_and_match_summary
from latecomer.reports.measures.serving import duration, serving_summary, size
from latecomer.reports.words import count, listing, percent


@dataclass(frozen=True)
class Neighbours:
    """How often a client's nearest neighbour in a map is of its kind.

    Attributes
    ----------
    alike : float
        Share of the clients of which it is.
    chance : float
        The same share for a neighbour picked at random.
    kind : str
        What clients are told apart by.
    """

    alike: float
    chance: float
    kind: str


def describe_descriptors(frame: pd.DataFrame, label: str) -> str:
    """Describe ``descriptor_figure``: who is drawn, and who is a client's nearest neighbour."""
    own = frame[frame["label"] == label]
    kinds = own.drop_duplicates("client")["group"].value_counts()
    who = listing([count(int(n), f"{group} client") for group, n in kinds.items()])
    near = neighbours_alike(own)
    return (
        f"Map of {who} of {label} by their descriptors (t-SNE). {percent(near.alike, 0)} of "
        f"clients have a nearest neighbour in the map with the same {near.kind}; "
        f"by chance {percent(near.chance, 0)} would."
    )


def neighbours_alike(own: pd.DataFrame) -> Neighbours:
    """Compare each client of one method's map with the client nearest to it in the map.

    They are told apart by the superclass that they have most of, or else by the class.
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
        text += " A ring: a novel client."
    n = own["client"].nunique()
    near = neighbours_alike(own)
    return (
        f"{text} {percent(near.alike, 0)} of {count(n, 'client')} have a nearest neighbour in "
        f"this map with the same {near.kind}, by chance {percent(near.chance, 0)}. The model "
        f"of seed {int(own['seed'].iloc[0])}; t-SNE with perplexity "
        f"{min(PERPLEXITY, (n - 1) / 3):.3g} and seed {SEED} keeps neighbours together, not "
        "distances."
    )


def describe_correlation(frame: pd.DataFrame) -> str:
    """Describe ``correlation_figure``: where each method starts and ends."""
    said = []
    for label, own in frame.groupby("label", sort=False):
        means = own.groupby("round")["spearman"].mean()
        said.append(f"{label} {means.iloc[0]:.2f} to {means.iloc[-1]:.2f}")
    rounds = f"{frame['round'].min():.0f} to {frame['round'].max():.0f}"
    text = f"Rank correlation of descriptors and classes, rounds {rounds}: {'; '.join(said)}."
    return text.replace("-", "\N{MINUS SIGN}")


def correlation_caption(frame: pd.DataFrame) -> str:
    """Say what ``correlation_figure`` averages."""
    seeds, clients = int(frame["seed"].nunique()), int(frame["n_clients"].max())
    ribbon = "; a ribbon of one standard deviation over seeds" if seeds > 1 else ""
    return (
        f"Spearman's rank correlation, over the seen clients, of a novel client's distance in "
        f"descriptors with its distance in class proportions: 1 where descriptors rank clients as "
        f"their classes do. Mean over {count(clients, 'novel client')}, then over "
        f"{count(seeds, 'seed')}{ribbon}."
    )


def describe_mix(frame: pd.DataFrame, label: str) -> str:
    """Describe ``mix_and_match_figure``."""
    own = frame[frame["label"] == label]
    first = first_record(mix_and_match_summary(own))
    return (
        f"Map of {first['n_clients']} heads by {own['body'].nunique()} bodies of {label}: a head "
        f"has {percent(first['own'])} accuracy on the body made for its own client and "
        f"{percent(first['others'])} on the others', on average (seed {first['seed']})."
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


def describe_serving(frame: pd.DataFrame) -> str:
    """Describe ``serving_figure``: seconds, bytes and error per method."""
    said = [
        f"{row['label']} {duration(row['seconds'])}, "
        f"{size(row['bytes']) if pd.notna(row['bytes']) else 'bytes not counted'}, "
        f"error {percent(row['error'])}"
        for row in records(serving_summary(frame))
    ]
    return f"Cost of serving one novel client and its error: {'; '.join(said)}."


def serving_caption(frame: pd.DataFrame) -> str:
    """Say how to read ``serving_figure``."""
    clients, seeds = frame["client"].nunique(), frame["seed"].nunique()
    text = (
        f"A mark per method, {count(clients, 'novel client')}, {count(seeds, 'seed')}; the upright "
        "bar is the 95% t-interval of the error over clients, the level one reaches from the "
        "fastest to the slowest client. Further down is better, further left is cheaper."
    )
    unknown = list(frame.loc[frame["bytes"].isna(), "label"].unique())
    if unknown:
        text += f" The bytes of {listing(unknown)} are not counted."
    return text
