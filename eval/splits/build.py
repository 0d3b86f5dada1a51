"""Client splits: which samples each client holds, and which clients train.

A split depends only on its data, options and ``split.seed``, never on the method or training seed.
A sample belongs to at most one client (or several held-out draws of a law) and to one role there.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latecomer.checks import fraction, whole
from latecomer.errors import InputError, nearest
from latecomer.eval.datasets.dataset import Dataset
from latecomer.eval.splits.dealing import Filling, Pool, generator, only, pool_of, stable_order
from latecomer.eval.splits.further_clients import deal_extrapolated, drawn_clients
from latecomer.eval.splits.kinds.dealt import Natural
from latecomer.eval.splits.kinds.declaration import QUERY, VALIDATION, Dealt
from latecomer.eval.splits.registry import SPLITS, Frozen, SplitSettings, split_settings
from latecomer.eval.splits.split import (
    ClientRows,
    Law,
    Split,
    checksum,
    consecutive,
    cut_into_roles,
    label_counts,
    read_split,
)

__all__ = [
    "ClientRows",
    "Split",
    "deal_extrapolated",
    "label_counts",
    "make_split",
    "split_of",
]

Ints = NDArray[np.int64]
Sizes = tuple[int, int, int]
GROUPS = ("certify_groups", "novel_groups")
"""Settings of a natural split that are about groups, not about filling clients."""
_ALL_HELD = "split.novel_groups leave no seen client: they hold all"


def ordered_by_groups(
    dataset: Dataset, filling: Filling, order: Ints, settings: Natural
) -> tuple[Filling, Sizes, tuple[tuple[str, int], ...]]:
    """Divide permuted clients into roles, as the settings say of their groups.

    Let H be the clients of ``novel_groups`` and C those of ``certify_groups`` (unless given, all
    that are not in H). No client of H ever trains. If C is H, one or more groups are left out:
    the certified clients are drawn from H and its others are the novel ones. Otherwise certified
    and new clients are drawn from C, its others train like the clients of all other groups, and
    the clients of H are new clients of another population, measured beside; if no number of new
    clients is given, they are the novel ones. Shares are of the clients that are drawn from.

    ``order`` are the places of the filled clients, permuted uniformly: so certified and new clients
    are a uniform sample of C, in uniform order. Returns the clients by role, seen ones first,
    the numbers of seen, certified and new ones, and names and sizes of groups measured beside.
    """
    if not dataset.group:
        raise InputError(
            "split.certify_groups and split.novel_groups need clients in groups: data.group names "
            "the column"
        )
    group = np.array(dataset.group)[filling.ids[order]]
    held = _listed("novel_groups", settings.novel_groups, group)
    certified = _listed("certify_groups", settings.certify_groups, group)
    certified = certified or tuple(name for name in np.unique(group).tolist() if name not in held)
    if not certified:
        raise InputError(_ALL_HELD)
    outside = set(certified) == set(held)
    both = sorted(set(certified) & set(held))
    if both and not outside:
        raise InputError(
            "split.certify_groups and split.novel_groups must be the same, or have no group in "
            f"common, got {both[0]!r} in both"
        )
    drawn, other = order[np.isin(group, certified)], order[~np.isin(group, [*certified, *held])]
    n_certify = amount("split.certify", settings.certify, len(drawn))
    n_novel = amount("split.novel", settings.novel, len(drawn))
    if outside:
        n_novel = n_novel or len(drawn) - n_certify
    _check_sizes(n_certify, n_novel, len(drawn), certified, others_train=outside or len(other) > 0)
    measured, rest = np.split(drawn, [n_certify + n_novel])
    seen, unused = (other, rest) if outside else (np.concatenate([rest, other]), rest[:0])
    if not len(seen):
        raise InputError(_ALL_HELD)
    held_back = [] if outside else [order[group == name] for name in held]
    made = only(filling, np.concatenate([seen, measured, *held_back]))
    left_out = (*filling.left_out, *sorted(filling.ids[unused].tolist()))
    apart = tuple((name, len(own)) for name, own in zip(held, held_back, strict=False))
    if apart and not n_novel:
        n_novel, apart = sum(size for _, size in apart), ()
    return replace(made, left_out=left_out), (len(seen), n_certify, n_novel), apart


def amount(key: str, value: object, n_clients: int) -> int:
    """Turn a count or a fraction of the clients into a count."""
    if isinstance(value, float):
        size = round(fraction(key, value) * n_clients)
        if value and not size:
            raise InputError(f"{key}={value!r} of {n_clients} clients is not one client")
        return size
    return whole(key, value, 0, n_clients, " (or a decimal fraction in [0, 1))")


def _listed(key: str, asked: Sequence[str] | None, group: NDArray[np.str_]) -> tuple[str, ...]:
    known = np.unique(group).tolist()
    for name in asked or ():
        if name not in known:
            legal = ", ".join(known)
            raise InputError(
                f"split.{key} must list groups of the clients that the split holds ({legal}), "
                f"got {name!r}{nearest(name, known)}"
            )
    return tuple(asked or ())


def _check_sizes(
    n_certify: int, n_novel: int, drawn: int, groups: Sequence[str], *, others_train: bool
) -> None:
    """Refuse to draw more clients than there are, or all clients of all groups that train."""
    if n_certify + n_novel > drawn or (n_certify + n_novel == drawn and not others_train):
        left = "no seen client" if not others_train else "nobody to draw"
        raise InputError(
            f"split.certify and split.novel leave {left}: {n_certify} + {n_novel} of the {drawn} "
            f"clients of {', '.join(groups)}"
        )


def split_of(dataset: Dataset, settings: SplitSettings) -> Split:
    """Make or read the split that a study's ``split`` section asks for."""
    if isinstance(settings, Frozen):
        split = read_split(settings.path, dataset, expected=settings.hash)
        again = _dealt_again(dataset, split)
        # Who has no role is no part of the checksum, and follows from the settings.
        return split if again is None else replace(split, dealt=True, left_out=again.left_out)
    try:
        return _dealt(dataset, settings)
    except InputError as error:
        if not dataset.notes or not SPLITS[settings.kind].natural:
            raise
        raise InputError(f"{error} ({'; '.join(dataset.notes)})") from error


def _dealt_again(dataset: Dataset, split: Split) -> Split | None:
    """Return the split that the settings stored in a split file give, if it has the same clients.

    Only then is it known that clients were permuted and drawn at random, as certificates need: a
    file written by hand may hold any choice of clients.
    """
    if not split.settings:
        return None
    try:
        again = make_split(dataset, **split.settings)
    except (InputError, TypeError):
        return None
    mine = (split.kind, split.seed, split.content_hash)
    return again if mine == (again.kind, again.seed, again.content_hash) else None


def make_split(
    dataset: Dataset,
    *,
    kind: str,
    clients: int | None = None,
    certify: float = 0,
    novel: float = 0,
    seed: int = 0,
    query: float = QUERY,
    validation: float = VALIDATION,
    reserve: float = 0.0,
    **options: Any,
) -> Split:
    """Split a data set over clients and cut the clients into groups.

    Parameters
    ----------
    dataset : Dataset
    kind : str
        One of :data:`~latecomer.eval.splits.registry.SPLITS`.
    clients : int, optional
        Number of clients; for ``natural``, all clients when omitted.
    certify, novel : int or float
        Certification and new clients: an int is a count, a float is a fraction of all clients.
        Clients are permuted uniformly before they are cut into groups. Of natural clients in
        groups, as `ordered_by_groups` says.
    seed : int
        The split seed.
    query : float, strictly between 0 and 1
        Share of a client's samples that it is scored on; where the publisher has a test set, its
        samples, dealt by the same classes and shares, are the query data instead.
    validation : float in [0, 1)
        Share of a client's other samples kept for selection.
    reserve : float in [0, 1)
        Share of each class held back before clients are filled.
    **options
        Options of the kind, see :data:`~latecomer.eval.splits.registry.SPLITS`.

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
    shared = {"kind": kind, "clients": clients, "certify": certify, "novel": novel, "seed": seed}
    shared |= {"query": query, "validation": validation, "reserve": reserve}
    return split_of(dataset, split_settings({**shared, **options}))


@dataclass(frozen=True)
class _Dealt:
    """All clients, seen first; sizes; clients left out; held-out clients' law; groups apart."""

    clients: tuple[ClientRows, ...]
    sizes: Sizes
    left_out: tuple[int, ...] = ()
    law: Law | None = None
    apart: tuple[tuple[str, int], ...] = ()


def _dealt(dataset: Dataset, settings: Dealt) -> Split:
    """Fill clients as the settings say, and divide them into groups."""
    kind, seed, reserve = settings.kind, settings.seed, settings.reserve or 0.0
    if reserve and SPLITS[kind].natural:
        raise InputError(f"split.reserve must be 0 for split.kind={kind}, got {reserve!r}")
    kept, reserved = _hold_back(dataset, reserve, generator(seed, "reserve"))
    pool = pool_of(dataset, kept)
    fill, law = SPLITS[kind].fill, SPLITS[kind].law
    if fill is not None:
        made = _filled(dataset, pool, settings, fill)
    elif law is not None:
        made = _drawn(dataset, pool, settings, law)
    else:
        raise TypeError(f"split kind {kind} fills nobody")
    apart = dict(made.apart)
    seen, certification, novel, *held_back = consecutive(
        made.clients, [*made.sizes, *apart.values()]
    )
    shared = settings.model_dump(include=set(Dealt.model_fields)) | {"reserve": reserve}
    split = Split(
        kind=kind,
        seed=seed,
        seen=seen,
        certification=certification,
        novel=novel,
        apart=tuple(zip(apart, held_back, strict=True)),
        reserve=reserved,
        content_hash="",
        left_out=made.left_out,
        law=made.law,
        settings={**shared, **settings.own},
    )
    return replace(split, content_hash=checksum(split))


def _filled(dataset: Dataset, pool: Pool, settings: Dealt, fill: Callable[..., Filling]) -> _Dealt:
    """Fill all clients the same way and permute them before they are divided into groups.

    Where class sets are dealt by group, clients are permuted within the seen and within the
    held-out ones: held-out clients are then still a uniform sample of those held out.
    """
    seed, n_apart = settings.seed, 0
    own = {name: v for name, v in settings.own.items() if name not in GROUPS}
    if own.pop("classes_dealt", None):
        n_apart = sum(_groups(settings.certify, settings.novel, settings.clients or 0)[1:])
        own["n_held_out"] = n_apart
    filling = fill(pool, settings.clients, generator(seed, "fill"), **own)
    n_clients = len(filling.ids)
    rng = generator(seed, "groups")
    first = n_clients - n_apart
    order = np.concatenate([rng.permutation(first), first + rng.permutation(n_apart)])
    apart: tuple[tuple[str, int], ...] = ()
    if isinstance(settings, Natural) and (settings.certify_groups or settings.novel_groups):
        filling, sizes, apart = ordered_by_groups(dataset, filling, order, settings)
        order = np.arange(len(filling.ids))
    else:
        sizes = _groups(settings.certify, settings.novel, n_clients)
    # Natural clients keep their numbers; others are numbered in their new order.
    ids = filling.ids[order] if SPLITS[settings.kind].natural else np.arange(n_clients)
    rng = generator(seed, "roles")
    clients = cut_into_roles(dataset, filling, order, ids, *settings.role_shares, rng)
    return _Dealt(clients, sizes, filling.left_out, apart=apart)


def _drawn(
    dataset: Dataset, pool: Pool, settings: Dealt, fill: Callable[..., tuple[Filling, Law]]
) -> _Dealt:
    """Fill the seen clients; draw the others from samples that these do not hold."""
    seed, shares = settings.seed, settings.role_shares
    most = len(pool.train) // pool.least
    n_clients = whole("split.clients", settings.clients, 1, most, " for this kind of split")
    sizes = _groups(settings.certify, settings.novel, n_clients)
    n_seen, n_others = sizes[0], sum(sizes[1:])
    filler, rng = generator(seed, "fill"), generator(seed, "roles")
    own = settings.own
    share = own.pop("held_out", n_others / n_clients)
    filling, law = fill(pool, n_seen, share, filler, **own)
    order = np.arange(n_seen)
    clients = cut_into_roles(dataset, filling, order, order, *shares, rng)
    clients += drawn_clients(dataset, law, n_others, n_seen, *shares, rng)
    return _Dealt(clients, sizes, law=law)


def _groups(certify: float, novel: float, n_clients: int) -> Sizes:
    """Return the numbers of seen, certification and new clients."""
    n_certify = amount("split.certify", certify, n_clients)
    n_novel = amount("split.novel", novel, n_clients)
    n_seen = n_clients - n_certify - n_novel
    if n_seen < 1:
        raise InputError(
            f"split.certify and split.novel leave no seen client: {n_certify} + {n_novel} "
            f"of {n_clients}"
        )
    return n_seen, n_certify, n_novel


def _hold_back(
    dataset: Dataset, share: float, rng: np.random.Generator
) -> tuple[Ints, tuple[Ints, ...]]:
    """Hold back a share of each class, from the publisher's train and test samples separately."""
    n = len(dataset)
    if not share:
        return np.arange(n), ()
    is_test = np.zeros(n, dtype=np.int64) if dataset.test is None else dataset.test
    stratum = dataset.y * 2 + is_test
    order = rng.permutation(n)
    order = order[stable_order(stratum[order])]
    sizes = np.bincount(stratum, minlength=2 * dataset.n_classes)
    wanted = np.rint(share * sizes).astype(np.int64)
    place = np.arange(n) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    reserved = order[place < np.repeat(wanted, sizes)]
    kept = order[place >= np.repeat(wanted, sizes)]
    ends = np.cumsum(wanted.reshape(-1, 2).sum(axis=1))[:-1]
    reserved.setflags(write=False)
    return kept, tuple(np.split(reserved, ends))
