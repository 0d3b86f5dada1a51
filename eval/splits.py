"""Client splits: which samples each client holds, and which clients train.

A split depends on the data, its own options and ``split.seed`` alone: never on the method or the
training seed. Every sample belongs to at most one client and there to one role.
"""

import hashlib
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latecomer.eval.client_rows import ClientRows, cut_into_roles, label_counts
from latecomer.eval.datasets.dataset import Dataset
from latecomer.eval.errors import InputError, nearest
from latecomer.eval.split_kinds import (
    MIN_SAMPLES,
    SPLITS,
    Pool,
    SplitKind,
    fill_dirichlet,
    fraction,
    whole,
)

__all__ = ["ClientRows", "Split", "deal_extrapolated", "label_counts", "make_split"]

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Split:
    """Clients in three groups, and what was held back.

    Attributes
    ----------
    kind : str
    seed : int
    seen, certification, novel : tuple of ClientRows
        Those that train, those scored once for certificates, and those that play no part before
        evaluation.
    reserve : tuple of ndarray of int64
        Rows held back per class, from which extrapolated clients are dealt.
    content_hash : str
        SHA-256 over groups, ids, rows and reserve.
    left_out : tuple of int
        Natural clients too small to be used.
    """

    kind: str
    seed: int
    seen: tuple[ClientRows, ...] = field(repr=False)
    certification: tuple[ClientRows, ...] = field(repr=False)
    novel: tuple[ClientRows, ...] = field(repr=False)
    reserve: tuple[Ints, ...] = field(repr=False)
    content_hash: str
    left_out: tuple[int, ...] = field(default=(), repr=False)

    @property
    def clients(self) -> tuple[ClientRows, ...]:
        """All clients: seen, certification, novel."""
        return self.seen + self.certification + self.novel


def make_split(
    dataset: Dataset,
    *,
    kind: str,
    clients: int | None = None,
    certify: float = 0,
    novel: float = 0,
    seed: int = 0,
    query: float = 0.25,
    validation: float = 0.2,
    reserve: float = 0.0,
    **options: Any,
) -> Split:
    """Split a data set over clients and cut the clients into groups.

    Parameters
    ----------
    dataset : Dataset
    kind : str
        One of :data:`~latecomer.eval.split_kinds.SPLITS`.
    clients : int, optional
        Number of clients; for ``natural`` all of them when omitted.
    certify, novel : int or float
        Certification and novel clients: an int is a count, a float a fraction of all clients.
        Clients are permuted uniformly before they are cut into groups.
    seed : int
        The split seed.
    query : float, strictly between 0 and 1
        Share of a client's samples that it is scored on; where the publisher has a test set, its
        samples are the query instead, dealt by the same classes and shares.
    validation : float in [0, 1)
        Share of a client's other samples kept for selection.
    reserve : float in [0, 1)
        Share of each class held back before clients are filled.
    **options
        ``classes_per_client`` (by_class), ``alpha`` (dirichlet), ``min_samples``.

    Raises
    ------
    InputError
        The split cannot exist, or an argument is out of range.

    Examples
    --------
    >>> from latecomer.eval.datasets import load_dataset
    >>> digits = load_dataset({"name": "digits"})
    >>> split = make_split(digits, kind="by_class", clients=60, novel=0.2, classes_per_client=2)
    >>> len(split.seen), len(split.novel), len(split.novel[0].query)
    (48, 12, 8)
    """
    if not isinstance(kind, str) or kind not in SPLITS:
        hint = nearest(kind, SPLITS) if isinstance(kind, str) else ""
        raise InputError(f"split.kind must be one of {', '.join(SPLITS)}, got {kind!r}{hint}")
    chosen = SPLITS[kind]
    given = _check_options(kind, chosen, options)
    seed = whole("split.seed", seed, 0)
    query = fraction("split.query", query, above=True)
    validation = fraction("split.validation", validation)
    held_back = fraction("split.reserve", reserve)
    if held_back and chosen.natural:
        raise InputError(f"split.reserve must be 0 for split.kind={kind}, got {reserve!r}")
    kept, reserved = _hold_back(dataset, held_back, _generator(seed, "reserve"))
    filling = chosen.fill(_pool(dataset, kept), clients, _generator(seed, "fill"), **given)
    n_clients = len(filling.ids)
    n_certify = _group_size("split.certify", certify, n_clients)
    n_novel = _group_size("split.novel", novel, n_clients)
    n_seen = n_clients - n_certify - n_novel
    if n_seen < 1:
        raise InputError(
            f"split.certify and split.novel leave no seen client: {n_certify} + {n_novel} "
            f"of {n_clients}"
        )
    order = _generator(seed, "groups").permutation(n_clients)
    # Natural clients keep their numbers; others are numbered in their new order.
    ids = filling.ids[order] if chosen.natural else np.arange(n_clients)
    everyone = cut_into_roles(
        dataset, filling, order, ids, query, validation, _generator(seed, "roles")
    )
    return Split(
        kind=kind,
        seed=seed,
        seen=everyone[:n_seen],
        certification=everyone[n_seen : n_seen + n_certify],
        novel=everyone[n_seen + n_certify :],
        reserve=reserved,
        content_hash=_hash(everyone, (n_seen, n_certify, n_novel), reserved),
        left_out=filling.left_out,
    )


def deal_extrapolated(
    dataset: Dataset,
    split: Split,
    *,
    alpha: float,
    seed: int,
    n_clients: int,
    query: float = 0.25,
    validation: float = 0.2,
    min_samples: int = MIN_SAMPLES,
) -> tuple[ClientRows, ...]:
    """Deal the whole reserve anew to clients with Dirichlet(alpha) class proportions.

    No sample of another client is touched. Ids follow on the split's largest.

    Parameters
    ----------
    dataset : Dataset
    split : Split
        Made with ``reserve`` above 0.
    alpha : float in [0.0001, 1e6]
        Small: few classes per client; large: every client alike.
    seed : int
    n_clients : int
    query, validation : float
        As in :func:`make_split`.
    min_samples : int
        Fewest samples per client; too small clients are drawn anew, at most 100 times.

    Raises
    ------
    InputError
        The split has no reserve, or one too small for so many clients.
    """
    query = fraction("split.query", query, above=True)
    validation = fraction("split.validation", validation)
    rows = np.concatenate(split.reserve) if split.reserve else np.zeros(0, dtype=np.int64)
    if not len(rows):
        raise InputError(
            "split.reserve must be above 0 for shifts.extrapolation (and split.kind not natural), "
            "got an empty reserve"
        )
    rng = _generator(whole("split.seed", seed, 0), "extrapolation")
    filling = fill_dirichlet(
        _pool(dataset, rows),
        n_clients,
        rng,
        alpha=alpha,
        min_samples=min_samples,
        key="shifts.extrapolation",
    )
    first = 1 + max(client.id for client in split.clients)
    ids = first + np.arange(n_clients)
    return cut_into_roles(dataset, filling, np.arange(n_clients), ids, query, validation, rng)


def _generator(seed: int, purpose: str) -> np.random.Generator:
    """Return a stream of its own for each purpose, so that one never disturbs another."""
    return np.random.default_rng([seed, zlib.crc32(purpose.encode())])


def _check_options(kind: str, chosen: SplitKind, options: dict[str, Any]) -> dict[str, Any]:
    given = {key: value for key, value in options.items() if value is not None}
    legal = (*chosen.required, *chosen.optional)
    for key in given:
        if key not in legal:
            raise InputError(
                f"split.{key} is no option of split.kind={kind}, which takes "
                f"{', '.join(legal)}{nearest(key, legal)}"
            )
    for key in chosen.required:
        if key not in given:
            raise InputError(f"split.{key} must be given for split.kind={kind}")
    return given


def _group_size(key: str, value: object, n_clients: int) -> int:
    """Turn a count or a fraction of the clients into a count."""
    if isinstance(value, float):
        size = round(fraction(key, value) * n_clients)
        if value and not size:
            raise InputError(f"{key}={value!r} of {n_clients} clients is not one client")
        return size
    return whole(key, value, 0, n_clients, " (or a decimal fraction in [0, 1))")


def _pool(dataset: Dataset, rows: Ints) -> Pool:
    train, test = rows, None
    if dataset.test is not None:
        is_test = dataset.test[rows]
        train, test = rows[~is_test], rows[is_test]
    return Pool(dataset.y, train, test, dataset.client, dataset.n_classes)


def _hold_back(
    dataset: Dataset, share: float, rng: np.random.Generator
) -> tuple[Ints, tuple[Ints, ...]]:
    """Hold back a share of each class, of the publisher's train and test samples alike."""
    n = len(dataset)
    if not share:
        return np.arange(n), ()
    is_test = np.zeros(n, dtype=np.int64) if dataset.test is None else dataset.test
    stratum = dataset.y * 2 + is_test
    order = rng.permutation(n)
    order = order[np.argsort(stratum[order], kind="stable")]
    sizes = np.bincount(stratum, minlength=2 * dataset.n_classes)
    wanted = np.rint(share * sizes).astype(np.int64)
    place = np.arange(n) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    reserved = order[place < np.repeat(wanted, sizes)]
    kept = order[place >= np.repeat(wanted, sizes)]
    ends = np.cumsum(wanted.reshape(-1, 2).sum(axis=1))[:-1]
    reserved.setflags(write=False)
    return kept, tuple(np.split(reserved, ends))


def _hash(
    clients: Sequence[ClientRows], groups: tuple[int, int, int], reserve: tuple[Ints, ...]
) -> str:
    parts = [rows for c in clients for rows in (c.support, c.validation, c.query)] + list(reserve)
    header = [*groups, *(c.id for c in clients), *(len(rows) for rows in parts)]
    digest = hashlib.sha256(np.array(header, dtype="<i8").tobytes())
    digest.update(np.concatenate(parts).astype("<i8").tobytes())
    return digest.hexdigest()
