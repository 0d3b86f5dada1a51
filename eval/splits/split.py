"""A finished split: its clients' rows and their law, its checksum, its file.

Where clients follow a law, every class is cut in two before any client is made: seen clients are
filled from one part, each image to at most one client; certification, novel and new clients draw
independently from the other part, the pools. Given the training part they are therefore independent
and identically distributed, which a finite pool of clients is not; the price is that two held-out
clients may hold the same image. No seen client holds an image of a pool.
"""

import hashlib
import json
import lzma
import zipfile
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from latecomer.errors import InputError
from latecomer.eval.datasets.dataset import Dataset
from latecomer.eval.datasets.reader import one_line
from latecomer.eval.splits.dealing import (
    QUERY,
    SUPPORT,
    VALIDATION,
    Filling,
    Pool,
    assign_roles,
    class_totals,
    deal_rows,
    log_dirichlet,
    stable_order,
)
from latecomer.files import at_home

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Law:
    """The law that held-out clients are drawn from.

    Attributes
    ----------
    classes_per_client : int
        Classes of a client; 0 where the law is given by types or concentrations.
    train, test : int
        Samples per class; ``test`` is 0 where the publisher has no test set.
    pools : tuple of ndarray of int64
        Train rows that no seen client holds, per class.
    test_pools : tuple of ndarray of int64
        Test rows likewise; all empty where the publisher has no test set.
    types, weights : tuple
        The class sets that a client may have and their probabilities; if empty, all sets of
        ``classes_per_client`` classes are equally likely.
    concentrations : tuple of float
        Parameters of the Dirichlet law of a client's class proportions, if there is one: ``train``
        and ``test`` are then samples of all classes together.
    """

    classes_per_client: int = 0
    train: int = 0
    test: int = 0
    pools: tuple[Ints, ...] = ()
    test_pools: tuple[Ints, ...] = ()
    types: tuple[tuple[int, ...], ...] = ()
    weights: tuple[float, ...] = ()
    concentrations: tuple[float, ...] = ()

    def counts(self, n_clients: int, rng: np.random.Generator) -> tuple[Ints, Ints]:
        """Draw the numbers of train and test samples per class for each held-out client."""
        n_classes = len(self.pools)
        if self.concentrations:
            logs = log_dirichlet(n_clients, n_classes, np.array(self.concentrations), rng)
            shares = np.exp(logs)
            shares /= shares.sum(axis=1, keepdims=True)
            return rng.multinomial(self.train, shares), rng.multinomial(self.test, shares)
        present = np.array([c for c, rows in enumerate(self.pools) if len(rows)], dtype=np.int64)
        sets = self.class_sets(n_clients, present, n_classes, rng)
        return self.train * sets, self.test * sets

    def class_sets(
        self, n_clients: int, present: Ints, n_classes: int, rng: np.random.Generator
    ) -> Ints:
        """Draw each client's class set independently: 1 where a client holds a class."""
        sets = np.zeros((n_clients, n_classes), dtype=np.int64)
        if not self.types:
            order = np.argsort(rng.random((n_clients, len(present))), axis=1)
            np.put_along_axis(sets, present[order[:, : self.classes_per_client]], 1, axis=1)
            return sets
        for client, kind in enumerate(rng.choice(len(self.types), n_clients, p=self.weights)):
            sets[client, list(self.types[kind])] = 1
        return sets


def fill_from_law(
    pool: Pool,
    kind: Law,
    n_training: int,
    share: float,
    rng: np.random.Generator,
    size_of: Callable[[int], int],
) -> tuple[Filling, Law]:
    """Fill the seen clients and set aside pools for a law that has none yet.

    ``size_of`` maps the most samples per class that every client can get to the number it gets.
    """
    present = np.unique(pool.y[pool.train])
    kept, pools = cut_pools(pool.y, pool.train, pool.n_classes, share, rng)
    sets = kind.class_sets(n_training, present, pool.n_classes, rng)
    size = size_of(_most(pool, sets, kept, pools, share > 0))
    rows, owners = deal_rows(pool.y, kept, size * sets, rng)
    test, test_pools = 0, tuple(rows[:0] for _ in pools)
    if pool.test is not None:
        kept, test_pools = cut_pools(pool.y, pool.test, pool.n_classes, share, rng)
        ratio = size * len(pool.test) / len(pool.train)
        test = min(max(1, round(ratio)), _most(pool, sets, kept, test_pools, share > 0))
        if test < 1:
            raise InputError(
                f"split.clients: {n_training} seen clients would hold 0 test samples of "
                "a class (at least 1)"
            )
        more, theirs = deal_rows(pool.y, kept, test * sets, rng)
        rows, owners = np.concatenate([rows, more]), np.concatenate([owners, theirs])
    law = replace(kind, train=size, test=test, pools=pools, test_pools=test_pools)
    return Filling(rows, owners, np.arange(n_training)), law


def draw_held_out(law: Law, n_clients: int, rng: np.random.Generator) -> Filling:
    """Draw independent clients from a law; two of them may hold the same image."""
    train, test = law.counts(n_clients, rng)
    rows: list[Ints] = []
    owners: list[Ints] = []
    for client, c in np.argwhere(train + test).tolist():
        for pools, sizes in ((law.pools, train), (law.test_pools, test)):
            size = int(sizes[client, c])
            if size:
                rows.append(rng.choice(pools[c], size, replace=False))
                owners.append(np.full(size, client))
    nothing = np.zeros(0, dtype=np.int64)
    return Filling(
        np.concatenate([nothing, *rows]),
        np.concatenate([nothing, *owners]),
        np.arange(n_clients),
    )


def cut_pools(
    y: Ints, rows: Ints, n_classes: int, share: float, rng: np.random.Generator
) -> tuple[Ints, tuple[Ints, ...]]:
    """Set aside a random share of each class; return the kept rows and the pools per class."""
    totals = class_totals(y, rows, n_classes)
    aside = np.rint(share * totals).astype(np.int64)
    dealt, owners = deal_rows(y, rows, np.stack([aside, totals - aside]), rng)
    pool = dealt[owners == 0]
    pool.setflags(write=False)
    return dealt[owners == 1], tuple(np.split(pool, np.cumsum(aside)[:-1]))


def _most(pool: Pool, sets: Ints, kept: Ints, pools: tuple[Ints, ...], drawn: bool) -> int:
    """Return the most images per class that every client can get; ``drawn``: also from pools."""
    demand = sets.sum(axis=0)
    asked = demand > 0
    supply = class_totals(pool.y, kept, pool.n_classes)
    for_training = int((supply[asked] // demand[asked]).min())
    present = np.unique(pool.y[pool.train])
    sizes = [len(pools[c]) for c in present]
    return min(for_training, *sizes) if drawn else for_training


Role = Literal["support", "validation", "query", "all"]


@dataclass(frozen=True, eq=False)
class ClientRows:
    """The samples of one client, as row numbers of the data set, each in random order.

    Attributes
    ----------
    id : int
        Unique within a split; a natural client keeps its number in the data set.
    support : ndarray of int64
        Samples that the client may learn from; never empty.
    validation : ndarray of int64
        Samples for model selection; may be empty.
    query : ndarray of int64
        Samples that the client is scored on; never empty.
    """

    id: int
    support: Ints = field(repr=False)
    validation: Ints = field(repr=False)
    query: Ints = field(repr=False)

    def rows(self, role: Role) -> Ints:
        """Return the rows of one role, or of all."""
        if role == "all":
            return np.concatenate([self.support, self.validation, self.query])
        rows: Ints = getattr(self, role)
        return rows


def label_counts(
    y: Ints, clients: Sequence[ClientRows], n_classes: int, *, role: Role = "all"
) -> Ints:
    """Count each client's samples per class, [clients, classes]; ``y`` [N] is of all data."""
    rows = [client.rows(role) for client in clients]
    owners = np.repeat(np.arange(len(rows)), [len(r) for r in rows])
    labels = y[np.concatenate(rows)] if rows else np.zeros(0, dtype=np.int64)
    cells = np.bincount(owners * n_classes + labels, minlength=len(rows) * n_classes)
    return cells.reshape(len(rows), n_classes)


def cut_into_roles(
    dataset: Dataset,
    filling: Filling,
    order: Ints,
    ids: Ints,
    query: float,
    validation: float,
    rng: np.random.Generator,
) -> tuple[ClientRows, ...]:
    """Divide every client's rows into roles, with the same shares in each class.

    Client ``order[i]`` of the filling becomes the i-th of the result, with id ``ids[i]``. Where
    the publisher has a test set, its samples are the query and the query share does not apply.
    """
    n_clients = len(order)
    rank = np.empty(n_clients, dtype=np.int64)
    rank[order] = np.arange(n_clients)
    shuffle = rng.permutation(len(filling.rows))
    rows, owners = filling.rows[shuffle], rank[filling.owners[shuffle]]
    roles = np.full(len(rows), QUERY, dtype=np.int64)
    train = slice(None) if dataset.test is None else ~dataset.test[rows]
    roles[train] = assign_roles(
        dataset.y,
        rows[train],
        owners[train],
        n_clients=n_clients,
        query=query if dataset.test is None else 0.0,
        validation=validation,
        rng=rng,
    )
    cell = owners * 3 + roles
    rows = rows[stable_order(cell)]
    rows.setflags(write=False)
    ends = np.cumsum(np.bincount(cell, minlength=3 * n_clients)).tolist()
    parts = [rows[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    return tuple(
        ClientRows(
            id=int(name),
            support=parts[3 * i + SUPPORT],
            validation=parts[3 * i + VALIDATION],
            query=parts[3 * i + QUERY],
        )
        for i, name in enumerate(ids.tolist())
    )


_FORMAT = "latecomer split 1"
_DAMAGE = (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile, zlib.error)


@dataclass(frozen=True, eq=False)
class Split:
    """Clients in three groups, and the samples held back.

    Attributes
    ----------
    kind : str
    seed : int
    seen, certification, novel : tuple of ClientRows
        Clients that train, clients scored once for certificates, and clients that are not used
        before evaluation.
    reserve : tuple of ndarray of int64
        Rows held back per class, from which extrapolated clients are dealt.
    content_hash : str
        SHA-256 over groups, ids, rows, reserve and law.
    left_out : tuple of int
        Natural clients that have no role: too small, or not drawn (from all, or from their group).
    law : Law or None
        Law of held-out clients, for kinds ``environment``, ``client_types``, ``client_mixtures``.
    settings : mapping
        Settings that the split was made with, seed included; empty where unknown.
    dealt : bool
        Whether the clients are known to be dealt at random: the split was made here, or it was read
        from a file and its settings give the same clients again.
    apart : tuple of (str, tuple of ClientRows)
        Groups of natural clients that were held back: new clients of another population.
    """

    kind: str
    seed: int
    seen: tuple[ClientRows, ...] = field(repr=False)
    certification: tuple[ClientRows, ...] = field(repr=False)
    novel: tuple[ClientRows, ...] = field(repr=False)
    reserve: tuple[Ints, ...] = field(repr=False)
    content_hash: str
    left_out: tuple[int, ...] = field(default=(), repr=False)
    law: Law | None = field(default=None, repr=False)
    settings: Mapping[str, Any] = field(default_factory=dict, repr=False)
    dealt: bool = True
    apart: tuple[tuple[str, tuple[ClientRows, ...]], ...] = field(default=(), repr=False)

    @property
    def clients(self) -> tuple[ClientRows, ...]:
        """All clients: seen, certification, novel, and held-back groups apart."""
        held_back = (client for _, clients in self.apart for client in clients)
        return (*self.seen, *self.certification, *self.novel, *held_back)

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Numbers of seen, certified and new clients."""
        return len(self.seen), len(self.certification), len(self.novel)

    @property
    def grouped(self) -> bool:
        """Whether only clients of some groups were drawn, or some were held back."""
        return bool(self.settings.get("certify_groups") or self.settings.get("novel_groups"))

    @property
    def n_left_out(self) -> int:
        """Clients of the data on whom nobody trained, and who are not in the certified pool."""
        return len(self.left_out) + sum(len(clients) for _, clients in self.apart)

    @property
    def n_outside(self) -> int:
        """Clients of the certified ones' population that neither train nor are certified."""
        return len(self.novel) if novel_alike(self.settings) else 0


def novel_alike(settings: Mapping[str, Any]) -> bool:
    """Whether a split's new clients are of the population that certified ones are drawn from.

    They are not where they are the clients of held-back groups.
    """
    held = {*(settings.get("novel_groups") or ())}
    alike = not held or held == {*(settings.get("certify_groups") or ())}
    return alike or bool(settings.get("novel"))


def checksum(split: Split) -> str:
    """Return the SHA-256 of a split's contents, without its kind and seed."""
    parts = [*_client_rows(split), *split.reserve, *_law_pools(split.law)]
    ids = [client.id for client in split.clients]
    header = [*split.sizes, *ids, *map(len, parts), *_law_sizes(split.law)]
    digest = hashlib.sha256(np.array(header, dtype="<i8").tobytes())
    digest.update(np.concatenate(parts).astype("<i8").tobytes())
    if split.law is not None and split.law.types:
        digest.update(json.dumps([split.law.types, split.law.weights]).encode())
    if split.law is not None and split.law.concentrations:
        digest.update(json.dumps(split.law.concentrations).encode())
    if split.apart:
        digest.update(json.dumps(_apart(split)).encode())
    return digest.hexdigest()


def split_arrays(split: Split, data_hash: str) -> dict[str, NDArray[Any]]:
    """Return a split as plain arrays, with everything that :func:`read_split` needs.

    ``rows`` holds all row numbers client by client, each as support, validation, query;
    ``sizes`` [clients, 3] their numbers; ``groups`` the numbers of seen, certification and new
    clients; reserve and pools are stored likewise. ``about`` is JSON text.
    """
    about = {
        "format": _FORMAT,
        "kind": split.kind,
        "seed": split.seed,
        "data_hash": data_hash,
        "content_hash": split.content_hash,
        "law": _law_sizes(split.law),
        "settings": dict(split.settings),
    }
    if split.law is not None and split.law.types:
        about["types"] = [split.law.types, split.law.weights]
    if split.law is not None and split.law.concentrations:
        about["concentrations"] = split.law.concentrations
    if split.apart:
        about["apart"] = _apart(split)
    rows, pools = _client_rows(split), _law_pools(split.law)
    return {
        "about": np.array(json.dumps(about, sort_keys=True)),
        "groups": np.array(split.sizes, dtype=np.int64),
        "ids": np.array([client.id for client in split.clients], dtype=np.int64),
        "sizes": _sizes(rows).reshape(-1, 3),
        "rows": _joined(rows),
        "reserve_sizes": _sizes(split.reserve),
        "reserve": _joined(split.reserve),
        "pool_sizes": _sizes(pools),
        "pools": _joined(pools),
        "left_out": np.array(split.left_out, dtype=np.int64),
    }


def frozen_facts(path: str | Path) -> Mapping[str, Any]:
    """Return what a frozen split says of itself, its checksum too, which is not verified."""
    return _about(_load(path), path)


def read_split(path: str | Path, dataset: Dataset, *, expected: str | None = None) -> Split:
    """Read a frozen split, refusing one that is damaged, of other data or of another checksum."""
    arrays = _load(path)
    about = _about(arrays, path)
    if about["data_hash"] != dataset.content_hash:
        raise InputError(f"split.path: {path} was made for other data than {dataset.name}")
    try:
        split = _rebuilt(arrays, about, len(dataset))
    except _DAMAGE as error:
        raise InputError(f"split.path: {path} is damaged: {one_line(error)}") from error
    content_hash = checksum(split)
    if content_hash != split.content_hash:
        raise InputError(f"split.path: {path} is damaged: its checksum does not fit its contents")
    if expected is not None and content_hash != expected:
        raise InputError(f"split.hash must be {content_hash} for {path}, got {expected}")
    return split


def _rebuilt(arrays: Mapping[str, NDArray[Any]], about: Mapping[str, Any], n: int) -> Split:
    for name in ("rows", "reserve", "pools"):
        part = arrays[name]
        if part.dtype != np.int64 or (part.size and not 0 <= part.min() <= part.max() < n):
            raise ValueError(f"{name} holds no row numbers below {n}")
    sizes, groups = arrays["sizes"], arrays["groups"]
    apart = {str(name): int(size) for name, size in about.get("apart") or ()}
    group_sizes = [*groups.tolist(), *apart.values()]
    fitting = sizes.shape == (len(arrays["ids"]), 3) and sum(group_sizes) == len(sizes)
    if not fitting or groups.min() < 0:
        raise ValueError("groups, ids and sizes do not fit")
    if (sizes[:, [0, 2]] < 1).any():
        raise ValueError("a client holds no support or no query data")
    parts = _parted(arrays["rows"], sizes.reshape(-1))
    clients = tuple(
        ClientRows(int(name), *parts[3 * i : 3 * i + 3]) for i, name in enumerate(arrays["ids"])
    )
    seen, certification, novel, *held_back = consecutive(clients, group_sizes)
    return Split(
        kind=str(about["kind"]),
        seed=int(about["seed"]),
        seen=seen,
        certification=certification,
        novel=novel,
        reserve=_parted(arrays["reserve"], arrays["reserve_sizes"]),
        content_hash=str(about["content_hash"]),
        left_out=tuple(arrays["left_out"].tolist()),
        law=_law_of(arrays, about) if about["law"] else None,
        settings=dict(about.get("settings") or {}),
        dealt=False,
        apart=tuple(zip(apart, held_back, strict=True)),
    )


def _law_of(arrays: Mapping[str, NDArray[Any]], about: Mapping[str, Any]) -> Law:
    pools = _parted(arrays["pools"], arrays["pool_sizes"])
    half = len(pools) // 2
    per_client, train, test = (int(size) for size in about["law"])
    types, weights = about.get("types") or ((), ())
    return Law(
        classes_per_client=per_client,
        train=train,
        test=test,
        pools=pools[:half],
        test_pools=pools[half:],
        types=tuple(tuple(int(c) for c in classes) for classes in types),
        weights=tuple(float(weight) for weight in weights),
        concentrations=tuple(float(one) for one in about.get("concentrations") or ()),
    )


def consecutive(
    clients: Iterable[ClientRows], sizes: Iterable[int]
) -> list[tuple[ClientRows, ...]]:
    """Return the clients in groups of these sizes, one after another."""
    left = iter(clients)
    return [tuple(islice(left, size)) for size in sizes]


def _client_rows(split: Split) -> list[Ints]:
    return [rows for c in split.clients for rows in (c.support, c.validation, c.query)]


def _sizes(parts: Sequence[Ints]) -> Ints:
    return np.array([len(rows) for rows in parts], dtype=np.int64)


def _apart(split: Split) -> list[tuple[str, int]]:
    return [(name, len(clients)) for name, clients in split.apart]


def _law_sizes(law: Law | None) -> list[int]:
    return [] if law is None else [law.classes_per_client, law.train, law.test]


def _law_pools(law: Law | None) -> tuple[Ints, ...]:
    return () if law is None else (*law.pools, *law.test_pools)


def _joined(parts: Sequence[Ints]) -> Ints:
    return np.concatenate([np.zeros(0, dtype=np.int64), *parts])


def _parted(rows: Ints, sizes: Ints) -> tuple[Ints, ...]:
    if sizes.sum() != len(rows) or (sizes.size and sizes.min() < 0):
        raise ValueError("sizes do not add up to the rows")
    rows.setflags(write=False)
    return tuple(np.split(rows, np.cumsum(sizes)[:-1])) if len(sizes) else ()


def _load(path: str | Path) -> dict[str, NDArray[Any]]:
    file = at_home(path)
    if not file.is_file():
        raise InputError(f"split.path: there is no file {file}")
    try:
        with file.open("rb") as stream, np.load(stream, allow_pickle=False) as stored:
            return {name: stored[name] for name in stored.files}
    except (*_DAMAGE, lzma.LZMAError, AttributeError) as error:
        raise InputError(f"split.path: {file} is no frozen split: {one_line(error)}") from error


def _about(arrays: Mapping[str, NDArray[Any]], path: str | Path) -> dict[str, Any]:
    try:
        about: dict[str, Any] = json.loads(str(arrays["about"]))
        if about["format"] != _FORMAT:
            raise ValueError(f"its format is {about['format']}")
    except _DAMAGE as error:
        raise InputError(f"split.path: {path} is no frozen split: {one_line(error)}") from error
    return about
