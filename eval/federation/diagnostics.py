"""Facts about a split, independent of the method: distances, missing samples, the split."""

from typing import Any

import numpy as np

from latecomer.eval.datasets.dataset import Dataset
from latecomer.eval.federation.distances import label_distances, split_diagnostics
from latecomer.eval.federation.groups import Federation
from latecomer.eval.results.artifacts import Artifact
from latecomer.eval.splits.clients import label_counts
from latecomer.eval.splits.split import split_arrays

Row = dict[str, Any]
_MOST_PAIRS = 1_000_000


def split_facts(
    federation: Federation, *, classifier: str = "linear"
) -> tuple[list[Row], dict[str, Artifact]]:
    """Return rows and artifacts of a split.

    Rows: each new client's distance to the seen clients, unshifted and under every shift;
    the number of its samples that another data set could not replace (``samples_missing``); the
    distance of another population of clients from the split's (``population_distance``).
    Artifacts: ``label_counts``; ``names``, of natural clients and classes by number; ``split``,
    the frozen split, which ``split: {kind: frozen, path: ...}`` reads; ``label_distances`` of every
    new and seen client, up to a million pairs, validation samples counted, which the rows leave
    out. ``classifier`` is the domain classifier of the A-distance.
    """
    rows: list[Row] = []
    for group in (federation.novel, *federation.shifted):
        if len(group.clients):
            facts = split_diagnostics(federation.seen.clients, group.clients, classifier=classifier)
            rows += [{**group.condition(), **fact} for fact in facts]
    rows += [
        {
            "group": "novel",
            "shift": lack.shift,
            "client": lack.client,
            "metric": "samples_missing",
            "value": lack.n_samples,
            "message": lack.message,
        }
        for lack in federation.lacks
    ]
    rows += [
        {
            **{"group": "novel", "shift": one.shift, "severity": one.severity},
            **{"metric": "population_distance", "term": measure, "value": value},
        }
        for one in federation.populations
        for measure, value in one.distances.items()
    ]
    frozen = split_arrays(federation.split, federation.dataset.content_hash)
    artifacts = {
        "label_counts": _label_counts(federation),
        "split": Artifact(kind="split", arrays=frozen, axes=("client", "role")),
    }
    split, dataset = federation.split, federation.dataset
    if named := _names(dataset):
        artifacts["names"] = Artifact(kind="names", table=named, axes=("client or class",))
    if 0 < len(split.novel) * len(split.seen) <= _MOST_PAIRS:
        novel, seen = (
            label_counts(dataset.y, clients, dataset.n_classes)
            for clients in (split.novel, split.seen)
        )
        artifacts["label_distances"] = Artifact(
            kind="label_distances",
            arrays=label_distances(novel, seen),
            axes=("novel client", "training client"),
            ids={
                "novel client": [client.id for client in split.novel],
                "training client": [client.id for client in split.seen],
            },
        )
    return rows, artifacts


def _names(dataset: Dataset) -> list[Row]:
    """Return the names of natural clients and classes by number, where they have names."""
    return [
        {"what": what, "number": number, "name": name}
        for what, names in (("client", dataset.client_names), ("class", dataset.class_names))
        for number, name in enumerate(names)
        if any(name != str(number) for number, name in enumerate(names))
    ]


def _label_counts(federation: Federation) -> Artifact:
    """Return the client-by-class counts of the split, one row per client."""
    split, dataset = federation.split, federation.dataset
    groups = {"seen": split.seen, "certification": split.certification, "novel": split.novel}
    records: list[Row] = []
    for name, clients in groups.items():
        counts = label_counts(dataset.y, clients, dataset.n_classes)
        for client, held in zip(clients, np.asarray(counts).tolist(), strict=True):
            record = {"client": client.id, "group": name}
            records.append(record | {f"class_{c}": n for c, n in enumerate(held)})
    return Artifact(kind="label_counts", table=records, axes=("client",))
