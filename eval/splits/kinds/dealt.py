"""Kinds of split that deal all samples: every client is filled the same way from one pool."""

from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field

from latecomer.checks import whole
from latecomer.errors import InputError
from latecomer.eval.schema import Count, Label, Positive, sequence
from latecomer.eval.splits.dealing import (
    Filling,
    Pool,
    balanced_classes,
    check_sizes,
    class_totals,
    fill_by_counts,
    fill_by_weight,
    fill_dirichlet,
    share_counts,
)
from latecomer.eval.splits.kinds.declaration import ClassSets, Filled, SplitKind

Ints = NDArray[np.int64]
Groups = Annotated[tuple[Label, ...], BeforeValidator(sequence), Field(min_length=1)]
_UNIFORM = (0.4, 0.6)


class ByClass(ClassSets):
    """Every client holds a few classes.

    Attributes
    ----------
    classes_per_client : int
        Distinct classes that a client holds.
    shares : str
        A class is divided among its clients in ``equal`` shares, or in proportion to draws from
        U(.4, .6) (``uniform``); ``uniform_and_one_unused``: one share more is given to nobody.
    """

    kind: Literal["by_class"]
    clients: Count
    classes_per_client: Count
    shares: Literal["equal", "uniform", "uniform_and_one_unused"] = "equal"


class Pathological(Filled):
    """Samples sorted by label are cut into shards; every client gets a few.

    Attributes
    ----------
    shards_per_client : int
        Shards that a client gets.
    """

    kind: Literal["pathological"]
    clients: Count
    shards_per_client: Count


class Dirichlet(Filled):
    """Each client's class proportions are drawn from a symmetric Dirichlet distribution.

    Attributes
    ----------
    alpha : float
        Concentration: the smaller, the fewer classes a client holds.
    form : str
        ``shares``: each class is divided by the proportions; ``draws``: every client draws its
        labels by them.
    samples_per_client : int, optional
        Samples that every client draws, with ``draws``.
    """

    kind: Literal["dirichlet"]
    clients: Count
    alpha: Positive
    form: Literal["shares", "draws"] = "shares"
    samples_per_client: Count | None = None


class Coarse(ClassSets):
    """Every client holds all classes of a few superclasses.

    Attributes
    ----------
    superclasses_per_client : int
        Distinct superclasses that a client holds.
    """

    kind: Literal["coarse"]
    clients: Count
    superclasses_per_client: Count = 1


class Iid(Filled):
    """Samples are dealt at random regardless of class."""

    kind: Literal["iid"]
    clients: Count


class Natural(Filled):
    """Clients as the data define them.

    Attributes
    ----------
    novel_groups : tuple of str, optional
        Groups of which no client trains.
    certify_groups : tuple of str, optional
        Groups that certified and new clients are drawn from; where they are the ``novel_groups``
        too, these are left out.
    """

    kind: Literal["natural"]
    certify_groups: Groups | None = None
    novel_groups: Groups | None = None


def fill_by_class(
    pool: Pool,
    clients: int | None,
    rng: np.random.Generator,
    *,
    classes_per_client: int,
    shares: str,
    min_samples: int | None = None,
    n_held_out: int = 0,
) -> Filling:
    """Give each client ``classes_per_client`` distinct classes and a share of each.

    Every class goes to the same number of clients up to rounding; classes without samples are
    never given, and some stay unused if clients times ``classes_per_client`` is below the number of
    classes. Shares of a class are ``equal``, or in proportion to independent U(.4, .6) draws. With
    ``uniform_and_one_unused`` such a share more is drawn for every class and given to nobody, as in
    pFedHN's published code (its text has ``uniform``). Held-out clients who are dealt to apart are
    the last ``n_held_out``, see :func:`~latecomer.eval.splits.dealing.balanced_classes`.
    """
    n_clients, least = check_sizes(pool, clients, min_samples)
    totals = class_totals(pool.y, pool.train, pool.n_classes)
    present = np.flatnonzero(totals)
    why = " (the classes that have samples)"
    key = "split.classes_per_client"
    per_client = whole(key, classes_per_client, 1, len(present), why)
    chosen = np.zeros((n_clients, pool.n_classes), dtype=np.bool_)
    chosen[:, present] = balanced_classes(n_clients, len(present), per_client, rng, n_held_out)
    weights = chosen.astype(np.float64)
    if shares != "equal":
        weights *= rng.uniform(*_UNIFORM, chosen.shape)
    divided = weights
    if shares == "uniform_and_one_unused":
        divided = np.vstack([weights, rng.uniform(*_UNIFORM, len(totals))])
    counts = share_counts(divided, totals)[:n_clients]
    places = chosen.sum(axis=0)
    crowded = np.flatnonzero((places > totals) | (chosen & (counts == 0)).any(axis=0))
    if len(crowded):
        c = int(crowded[0])
        raise InputError(
            f"split.clients={n_clients} with classes_per_client={per_client} gives class {c} to "
            f"{places[c]} clients, but it has {totals[c]} samples"
        )
    return fill_by_counts(pool, counts, weights, least, rng)


def fill_coarse(
    pool: Pool,
    clients: int | None,
    rng: np.random.Generator,
    *,
    superclasses_per_client: int,
    min_samples: int | None = None,
    n_held_out: int = 0,
) -> Filling:
    """Give each client ``superclasses_per_client`` superclasses and equal shares of their classes.

    Every superclass goes to the same number of clients up to rounding (in pFedHN's Figure 4, each
    of CIFAR-100's twenty goes to five clients). ``n_held_out`` as for :func:`fill_by_class`.
    """
    if pool.coarse is None:
        raise InputError("split.kind=coarse needs data with superclasses, such as cifar100")
    n_clients, least = check_sizes(pool, clients, min_samples)
    totals = class_totals(pool.y, pool.train, pool.n_classes)
    superclass = np.full(pool.n_classes, -1)
    superclass[pool.y] = pool.coarse
    names = np.unique(superclass[totals > 0])
    key, why = "split.superclasses_per_client", " (the superclasses that have samples)"
    per_client = whole(key, superclasses_per_client, 1, len(names), why)
    chosen = balanced_classes(n_clients, len(names), per_client, rng, n_held_out)
    place = np.searchsorted(names, superclass).clip(max=len(names) - 1)
    weights = np.where(names[place] == superclass, chosen[:, place], 0).astype(np.float64)
    return fill_by_weight(pool, weights, least, rng)


def fill_pathological(
    pool: Pool,
    clients: int | None,
    rng: np.random.Generator,
    *,
    shards_per_client: int,
    min_samples: int | None = None,
) -> Filling:
    """Sort by label, cut into ``clients * shards_per_client`` shards, deal them at random.

    Shard sizes differ by at most one sample; a shard may span several classes. Test rows of a class
    are divided in proportion to the clients' train rows of it. Source: B. McMahan et al.,
    "Communication-efficient learning of deep networks from decentralized data", AISTATS 2017,
    section 3.
    """
    n_clients, least = check_sizes(pool, clients, min_samples)
    n = len(pool.train)
    why = f" ({n} samples for {n_clients} clients)"
    per_client = whole("split.shards_per_client", shards_per_client, 1, n // n_clients, why)
    n_shards = n_clients * per_client
    owner_of_shard = rng.permutation(np.repeat(np.arange(n_clients), per_client))
    shard = np.arange(n) * n_shards // n
    labels = np.sort(pool.y[pool.train])
    cells = owner_of_shard[shard] * pool.n_classes + labels
    counts = np.bincount(cells, minlength=n_clients * pool.n_classes)
    counts = counts.reshape(n_clients, pool.n_classes)
    return fill_by_counts(pool, counts, counts.astype(np.float64), least, rng)


def fill_iid(
    pool: Pool,
    clients: int | None,
    rng: np.random.Generator,
    *,
    min_samples: int | None = None,
) -> Filling:
    """Deal shuffled samples regardless of class; client sizes differ by at most one sample."""
    n_clients, least = check_sizes(pool, clients, min_samples)
    if pool.test is not None and len(pool.test) < n_clients:
        raise InputError(
            f"split.clients={n_clients}: a client would hold 0 test samples (at least 1 each)"
        )
    parts = [rng.permutation(rows) for rows in (pool.train, pool.test) if rows is not None]
    owners = [np.arange(len(rows)) * n_clients // len(rows) for rows in parts]
    if len(pool.train) // n_clients < least:
        raise InputError(f"split.min_samples={least} is more than {n_clients} clients can hold")
    return Filling(np.concatenate(parts), np.concatenate(owners), np.arange(n_clients))


def fill_natural(
    pool: Pool,
    clients: int | None,
    rng: np.random.Generator,
    *,
    min_samples: int | None = None,
) -> Filling:
    """Take the data's own clients: all of them, or ``clients`` of them drawn at random.

    Clients too small to be split are refused, unless ``min_samples`` is given: then clients with
    fewer samples are left out. The split lists them, and those that were not drawn.
    """
    if pool.client is None:
        raise InputError("split.kind=natural needs data with an array client, got none")
    given = 0 if min_samples is None else whole("split.min_samples", min_samples, 1)
    least = max(given, pool.least)
    n_natural = int(pool.client.max()) + 1
    large = np.bincount(pool.client[pool.train], minlength=n_natural) >= least
    if pool.test is not None:
        large &= np.bincount(pool.client[pool.test], minlength=n_natural) >= 1
    if min_samples is None and not large.all():
        raise InputError(
            f"split.kind=natural: {int((~large).sum())} of {n_natural} clients hold too few "
            f"samples to be split (at least {least} each): split.min_samples leaves them out"
        )
    ids = np.flatnonzero(large)
    if not len(ids):
        raise InputError(f"split.min_samples={least} leaves out all {n_natural} clients")
    if clients is not None:
        wanted = whole("split.clients", clients, 1, len(ids), " (the natural clients)")
        ids = np.sort(rng.permutation(ids)[:wanted])
    number = np.full(n_natural, -1, dtype=np.int64)
    number[ids] = np.arange(len(ids))
    rows = pool.train if pool.test is None else np.concatenate([pool.train, pool.test])
    owners = number[pool.client[rows]]
    kept = owners >= 0
    return Filling(rows[kept], owners[kept], ids, tuple(np.flatnonzero(number < 0).tolist()))


SPLITS = (
    SplitKind(
        name="by_class",
        settings=ByClass,
        description="each client holds classes_per_client distinct classes, in equal or U(.4, .6) "
        "shares",
        fill=fill_by_class,
    ),
    SplitKind(
        name="pathological",
        settings=Pathological,
        description="samples sorted by label are cut into shards, shards_per_client of them to "
        "each client",
        fill=fill_pathological,
    ),
    SplitKind(
        name="dirichlet",
        settings=Dirichlet,
        description="Dir(alpha) class proportions per client: classes divided by them, or labels "
        "drawn",
        fill=fill_dirichlet,
    ),
    SplitKind(
        name="coarse",
        settings=Coarse,
        description="each client holds all classes of superclasses_per_client superclasses",
        fill=fill_coarse,
    ),
    SplitKind(
        name="iid",
        settings=Iid,
        description="samples are dealt at random whatever their class",
        fill=fill_iid,
    ),
    SplitKind(
        name="natural",
        settings=Natural,
        description="the data's own clients",
        fill=fill_natural,
        natural=True,
    ),
)
