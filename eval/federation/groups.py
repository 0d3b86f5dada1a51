"""Groups of clients on a device, made from a data set and its split, and facts about the split.

Nothing here depends on a method or a training seed, so every method meets the same clients.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from latecomer.errors import InputError
from latecomer.eval.datasets import load_dataset
from latecomer.eval.datasets.dataset import Dataset
from latecomer.eval.devices import claim
from latecomer.eval.federation.distances import label_distances, split_diagnostics
from latecomer.eval.results.rows import Artifact
from latecomer.eval.settings.cell import FederationSettings
from latecomer.eval.shifts.kinds.declaration import unit_floats
from latecomer.eval.shifts.populations import (
    Population,
    combined_hash,
    shifted_certification,
    shifted_populations,
)
from latecomer.eval.splits.build import ClientRows, Split, split_of
from latecomer.eval.splits.split import label_counts, split_arrays
from latecomer.models.task.clients import Clients


@dataclass(frozen=True)
class Standardisation:
    """Mean and standard deviation that inputs are standardised with.

    One value per channel for images ([C, 1, 1]), one per feature for vectors ([D]); computed from
    the seen clients' support data only, so that other clients do not affect it.
    """

    mean: NDArray[np.float32]
    sd: NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Group:
    """One population under one condition.

    ``name`` is ``seen``, ``certification`` or ``novel``; ``shift`` is ``none`` or the name of the
    shift applied to its data, ``severity`` its strength in its own unit.
    """

    name: str
    shift: str
    severity: float | None
    clients: Clients

    def condition(self) -> dict[str, Any]:
        """Return the columns that identify a row's group and shift."""
        severity = "" if self.severity is None else self.severity
        return {"group": self.name, "shift": self.shift, "severity": severity}


@dataclass(frozen=True, eq=False)
class Federation:
    """All groups of one data set, split and set of shifts.

    Attributes
    ----------
    seen, certification, novel : Group
        The unshifted groups; ``certification`` may be empty.
    validation : Group
        The seen clients with their validation data as query; empty unless every client has some.
    shifted : tuple of Group
        New clients under every shift and severity of the study.
    data_hash : str
        Hash of the data set and of the other data sets and functions that shifts use.
    shifted_certification : tuple of Group
        Held-out clients under the shifts for which certificates are requested.
    populations : tuple of Population
        The populations that ``shifted`` is made from.
    """

    dataset: Dataset
    split: Split
    seen: Group
    certification: Group
    novel: Group
    validation: Group
    shifted: tuple[Group, ...]
    data_hash: str = ""
    shifted_certification: tuple[Group, ...] = ()
    populations: tuple[Population, ...] = ()

    def with_clients(
        self, made_of: Callable[[Sequence[Clients]], Sequence[Clients]]
    ) -> "Federation":
        """Return the federation with other clients in its groups, those made of all of them."""
        single = self.seen, self.certification, self.novel, self.validation
        groups = (*single, *self.shifted, *self.shifted_certification)
        others = zip(groups, made_of([group.clients for group in groups]), strict=True)
        seen, certification, novel, validation, *shifted = (
            replace(group, clients=clients) for group, clients in others
        )
        return replace(
            self,
            seen=seen,
            certification=certification,
            novel=novel,
            validation=validation,
            shifted=tuple(shifted[: len(self.shifted)]),
            shifted_certification=tuple(shifted[len(self.shifted) :]),
        )

    def evaluated(self) -> Iterator[Group]:
        """Every group a trained model is measured on, in the order of the rows."""
        unshifted = (self.seen, self.certification, self.novel)
        for group in (*unshifted, *self.shifted, *self.shifted_certification):
            if len(group.clients):
                yield group


def standardisation(
    dataset: Dataset, seen: Sequence[ClientRows], *, block: int = 4096
) -> Standardisation:
    """Compute mean and sd over the seen clients' support data; constant inputs get sd 1.

    Constant is what deviates by no more than a millionth of its mean, or of 1 if that is less: in
    whatever unit inputs come, they are scaled. Two passes, ``block`` samples at a time, so that
    memory does not grow with the data. Tokens are left as they are: mean 0 and sd 1.
    """
    if dataset.vocabulary:
        zero = np.zeros(dataset.input_shape, dtype=np.float32)
        return Standardisation(zero, np.ones_like(zero))
    rows = np.concatenate([client.support for client in seen])
    axes = (0,) if dataset.x.ndim == 2 else (0, 2, 3)

    def mean_of(function: Callable[[NDArray[np.float64]], NDArray[np.float64]]) -> Any:
        total, count = 0.0, 0
        for first in range(0, len(rows), block):
            x = function(unit_floats(dataset.x[rows[first : first + block]]).astype(np.float64))
            total = total + x.sum(axis=axes, keepdims=True)[0]
            count += x.size // total.size
        return total / count

    mean = mean_of(lambda x: x)
    sd = np.sqrt(mean_of(lambda x: np.square(x - mean))).astype(np.float32)
    varies = sd > 1e-6 * np.minimum(np.abs(mean), 1)
    return Standardisation(mean.astype(np.float32), np.where(varies, sd, np.float32(1)))


def _padded(rows: Sequence[NDArray[np.int64]]) -> tuple[torch.Tensor, torch.Tensor]:
    sizes = [len(part) for part in rows]
    table = np.zeros((len(rows), max(sizes, default=0)), dtype=np.int64)
    for index, part in enumerate(rows):
        table[index, : len(part)] = part
    return torch.from_numpy(table), torch.tensor(sizes, dtype=torch.int64)


def make_clients(
    x: NDArray[Any],
    y: NDArray[np.int64],
    rows: Sequence[ClientRows],
    scale: Standardisation,
    *,
    store: "Store | None" = None,
) -> Clients:
    """Build the tensors of a group of clients, who hold ``rows`` of samples ``x`` [N, ...].

    ``scale`` is the frozen standardisation; ``store`` puts the tensors on its device, the CPU
    unless given.
    """
    store = store or Store()
    device = store.device
    support, support_sizes = _padded([client.support for client in rows])
    query, query_sizes = _padded([client.query for client in rows])
    return Clients(
        x=store.put(x),
        y=store.put(y),
        support=support.to(device),
        support_sizes=support_sizes.to(device),
        query=query.to(device),
        query_sizes=query_sizes.to(device),
        ids=torch.tensor([client.id for client in rows], dtype=torch.int64),
        mean=store.put(scale.mean),
        sd=store.put(scale.sd),
    )


class Store:
    """Arrays as tensors on a device; each array is copied once, however often it is put.

    On the CPU they share the arrays' memory.
    """

    def __init__(self, device: str = "cpu") -> None:
        self.device = torch.device(device)
        self._held: dict[int, tuple[NDArray[Any], torch.Tensor]] = {}

    def put(self, array: NDArray[Any]) -> torch.Tensor:
        """Return the tensor of an array."""
        if id(array) not in self._held:
            # Keep a reference to the array, or another one could get the same id.
            self._held[id(array)] = array, torch.from_numpy(array).to(self.device)
        return self._held[id(array)][1]


def _judged_by_validation(seen: Sequence[ClientRows]) -> Sequence[ClientRows]:
    """Return clients with validation rows as query; no clients if any has no validation rows."""
    if not all(len(client.validation) for client in seen):
        return ()
    return tuple(replace(client, query=client.validation) for client in seen)


def build_federation(settings: FederationSettings) -> Federation:
    """Load, split and shift the data that a study asks for.

    Samples are stored on the device once, even if they occur in several groups.
    """
    device = settings.device or "cpu"
    claim(device)
    dataset = load_dataset(settings.data.model_dump())
    if (dataset.y == dataset.y[0]).all():
        label = int(dataset.y[0])
        only = dict(enumerate(dataset.class_names)).get(label, label)
        raise InputError(
            f"data must have labels of at least 2 classes, got {only!r} alone in {dataset.name}"
        )
    split = split_of(dataset, settings.split)
    scale, store = standardisation(dataset, split.seen), Store(device)

    def group(name: str, rows: Sequence[ClientRows]) -> Group:
        clients = make_clients(dataset.x, dataset.y, rows, scale, store=store)
        return Group(name, "none", None, clients)

    def shifted(name: str, one: Population) -> Group:
        clients = make_clients(one.x, one.y, one.rows, scale, store=store)
        return Group(name, one.shift, one.severity, clients)

    novel, certified = _shifted(dataset, split, settings)
    return Federation(
        dataset=dataset,
        split=split,
        seen=group("seen", split.seen),
        certification=group("certification", split.certification),
        novel=group("novel", split.novel),
        validation=group("seen", _judged_by_validation(split.seen)),
        shifted=tuple(shifted("novel", one) for one in novel),
        data_hash=combined_hash(dataset.content_hash, novel),
        shifted_certification=tuple(shifted("certification", one) for one in certified),
        populations=novel,
    )


def _shifted(
    dataset: Dataset, split: Split, settings: FederationSettings
) -> tuple[tuple[Population, ...], tuple[Population, ...]]:
    """Return new clients under every shift, held-out clients under certified shifts."""
    # Sorted by name, so that the order of the study's shifts does not matter.
    shifts = dict(sorted(settings.shifts.model_dump(mode="json").items()))
    seed, (query, validation) = settings.split.seed, settings.split.role_shares
    novel = shifted_populations(
        dataset, split, shifts, seed=seed, query=query, validation=validation
    )
    certified = shifted_certification(dataset, split, shifts, settings.certified_shifts, seed=seed)
    return novel, certified


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
            **{"group": "novel", "shift": lack.shift, "client": lack.client},
            **{"metric": "samples_missing", "value": lack.n_samples, "message": lack.message},
        }
        for one in federation.populations
        for lack in one.lacks
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
