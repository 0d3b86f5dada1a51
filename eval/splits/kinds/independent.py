"""Kinds of split whose clients are drawn independently: mixtures, types, sets of classes.

``client_mixtures``: every client draws proportions from Dir(concentrations) and its labels from
these proportions; its images of a class are a uniform subset of that class's pool, all distinct.
Held-out clients are independent draws, as in :mod:`latecomer.eval.splits.split`. A population with
other concentrations draws from the same pools. Given its proportions, a client has the same law in
both populations, so the populations differ exactly as their Dirichlet laws do.

``client_types``: a type is a set of classes. Every client draws a type by the weights and, from
each of the type's classes, the same number of distinct images, a uniform subset of that class's
pool: held-out clients are independent draws, as in :mod:`latecomer.eval.splits.split`. A population
with other weights draws from the same pools. Types differ in their classes, so a client reveals its
type; given the type, its law is the same in both: the divergences equal those of the weights.

``environment``: of each of its classes a client holds the same number of distinct images, a uniform
subset of that class's pool; :mod:`latecomer.eval.splits.split` says why held-out clients are i.i.d.
draws.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Literal

import numpy as np
import scipy
from numpy.typing import NDArray
from pydantic import Field, model_validator

from latecomer.checks import whole
from latecomer.errors import InputError
from latecomer.eval.schema import Count, Number
from latecomer.eval.splits.dealing import (
    Filling,
    Pool,
    class_totals,
    deal_rows,
    draw_labels,
    log_dirichlet,
)
from latecomer.eval.splits.kinds.declaration import Dealt, SplitKind
from latecomer.eval.splits.split import Law, cut_pools, fill_from_law

Ints = NDArray[np.int64]
_RANGE = (1e-3, 1e6)


def check_concentrations(concentrations: Sequence[float], n_classes: int | None = None) -> None:
    """Refuse what is no Dirichlet law's; the message follows the name of a section."""
    if n_classes is not None and len(concentrations) != n_classes:
        raise ValueError(f"must list one number a class ({n_classes}), got {len(concentrations)}")
    if len(concentrations) < 2:
        raise ValueError(f"must list at least 2 classes, got {len(concentrations)}")
    low, high = _RANGE
    outside = [a for a in concentrations if not low <= a <= high]
    if outside:
        raise ValueError(f"must list numbers from {low:g} to {high:g}, got {outside[0]:g}")


def dirichlet_distances(first: Sequence[float], other: Sequence[float]) -> Mapping[str, float]:
    """Return how far another Dirichlet law is from the first, in every available measure.

    With ln B(a) = sum ln Gamma(a_i) - ln Gamma(sum a_i), a the first law and b the other:

    * ``kl`` = ln B(a) - ln B(b) + sum (b_i - a_i) (digamma(b_i) - digamma(sum b));
    * ``chi2`` = B(2b - a) B(a) / B(b)^2 - 1, left out if some 2 b_i <= a_i (it is infinite);
    * ``subgroup``, the largest share of the first law that the other can make up, is 1 over the
      largest density ratio, attained at proportions in the ratio of b - a; left out if some
      b_i < a_i (the ratio is unbounded);
    * ``tv`` has no closed form and is the smallest of four upper bounds: sqrt(1 - c^2), with the
      Hellinger affinity c = B((a + b) / 2) / sqrt(B(a) B(b)); Pinsker's sqrt(kl / 2), in either
      direction; and sqrt(chi2) / 2.

    A certificate for all populations within the bound on ``tv`` holds for this population.

    >>> away = dirichlet_distances([1, 1], [2, 1])
    >>> {name: round(value, 4) for name, value in away.items()}
    {'kl': 0.1931, 'tv': 0.2887, 'chi2': 0.3333, 'subgroup': 0.5}

    The densities are 1 and 2 p; their total variation is .25.
    """
    a, b = np.asarray(first, dtype=np.float64), np.asarray(other, dtype=np.float64)
    kl = max(0.0, _divergence(b, a))
    bounds = [
        math.sqrt(-math.expm1(2 * min(0.0, _affinity(a, b)))),
        math.sqrt(min(kl, max(0.0, _divergence(a, b))) / 2),
    ]
    distances = {"kl": kl}
    if (2 * b > a).all():
        distances["chi2"] = max(
            0.0, math.expm1(_log_beta(2 * b - a) + _log_beta(a) - 2 * _log_beta(b))
        )
        bounds.append(math.sqrt(distances["chi2"]) / 2)
    distances = {"kl": kl, "tv": min(1.0, *bounds), **distances}
    if (b >= a).all():
        more = (b - a)[b > a]
        ratio = _log_beta(a) - _log_beta(b) + float((more * np.log(more / more.sum())).sum())
        distances["subgroup"] = math.exp(-max(0.0, ratio))
    return distances


class ClientMixtures(Dealt):
    """Clients are independent draws: class proportions from one Dirichlet law.

    Attributes
    ----------
    concentrations : tuple of float
        One number a class.
    samples_per_client : int, optional
        Train samples; unless given, the most that every seen client can get.
    held_out : float, optional
        Share of each class set aside; unless given, the held-out clients' share of all clients.
    """

    kind: Literal["client_mixtures"]
    clients: Count
    concentrations: tuple[Number, ...]
    samples_per_client: Count | None = None
    held_out: Annotated[Number, Field(gt=0, lt=1)] | None = None

    @model_validator(mode="after")
    def _is_a_law(self) -> "ClientMixtures":
        check_concentrations(self.concentrations)
        return self


def fill_client_mixtures(
    pool: Pool,
    n_training: int,
    share: float,
    rng: np.random.Generator,
    *,
    concentrations: Sequence[float],
    samples_per_client: int | None = None,
) -> tuple[Filling, Law]:
    """Fill each seen client by its own proportions; set aside the held-out clients' pools.

    Each training image goes to at most one client: when a class runs out, a seen client
    draws the rest from its proportions over the other classes. Held-out clients are never short.
    """
    try:
        check_concentrations(concentrations, pool.n_classes)
    except ValueError as error:
        raise InputError(f"split.concentrations {error}") from error
    law = Law(concentrations=tuple(float(a) for a in concentrations))
    logs = log_dirichlet(n_training, pool.n_classes, np.array(law.concentrations), rng)
    kept, pools = cut_pools(pool.y, pool.train, pool.n_classes, share, rng)
    most = _most(kept, pools, n_training, drawn=share > 0)
    if most < pool.least:
        raise InputError(
            f"split.clients: every client can hold {most} samples at most (at least {pool.least}), "
            "ask for fewer clients"
        )
    why = " (what the seen clients share, and the smallest pool of a class)"
    asked = most if samples_per_client is None else samples_per_client
    size = whole("split.samples_per_client", asked, pool.least, most, why)
    rows, owners = _dealt(pool, kept, logs, size, rng)
    law = replace(law, train=size, pools=pools, test_pools=tuple(rows[:0] for _ in pools))
    clients = np.arange(n_training)
    if pool.test is None:
        return Filling(rows, owners, clients), law
    kept, pools = cut_pools(pool.y, pool.test, pool.n_classes, share, rng)
    most = _most(kept, pools, n_training, drawn=share > 0)
    test = min(max(1, round(size * len(pool.test) / len(pool.train))), most)
    if test < 1:
        raise InputError(f"split.clients: {n_training} seen clients would hold no test sample")
    more, theirs = _dealt(pool, kept, logs, test, rng)
    filling = Filling(np.concatenate([rows, more]), np.concatenate([owners, theirs]), clients)
    return filling, replace(law, test=test, test_pools=pools)


def _most(kept: Ints, pools: Sequence[Ints], n_training: int, *, drawn: bool) -> int:
    """Return how many samples every client can get, even if all come from one class's pool."""
    for_training = len(kept) // n_training
    return min(for_training, *(len(rows) for rows in pools)) if drawn else for_training


def _dealt(
    pool: Pool, kept: Ints, logs: NDArray[np.float64], size: int, rng: np.random.Generator
) -> tuple[Ints, Ints]:
    totals = class_totals(pool.y, kept, pool.n_classes)
    counts = draw_labels(logs, np.full(len(logs), size), totals, rng)
    return deal_rows(pool.y, kept, counts, rng)


def _log_beta(a: NDArray[np.float64]) -> float:
    ln_gamma = scipy.special.gammaln
    return float(ln_gamma(a).sum() - ln_gamma(a.sum()))


def _divergence(b: NDArray[np.float64], a: NDArray[np.float64]) -> float:
    """KL(Dir(b) || Dir(a))."""
    slopes = scipy.special.digamma(b) - scipy.special.digamma(b.sum())
    return _log_beta(a) - _log_beta(b) + float(((b - a) * slopes).sum())


def _affinity(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    """Return ln of the Hellinger affinity of two Dirichlet laws."""
    return _log_beta((a + b) / 2) - (_log_beta(a) + _log_beta(b)) / 2


_EPS = 1e-9
Class = Annotated[int, Field(strict=True, ge=0)]


def check_types(types: Sequence[Sequence[int]], weights: Sequence[float]) -> None:
    """Refuse invalid types and weights; the message follows the name of a section."""
    if len(types) < 2:
        raise ValueError(f"must list at least 2 types, got {len(types)}")
    sets = [frozenset(classes) for classes in types]
    for classes, one in zip(types, sets, strict=True):
        if not classes or len(one) < len(classes):
            raise ValueError(f"must list each class of a type once, got {list(classes)}")
        if sets.count(one) > 1:
            raise ValueError(f"must tell types apart by their classes, got {list(classes)} twice")
    check_weights(weights, len(types))
    if min(weights) <= 0:
        raise ValueError(f"must give every type a weight above 0, got {min(weights):g}")


def check_weights(weights: Sequence[float], n_types: int) -> None:
    """Refuse weights that are no law over the types; the message follows a section's name."""
    if len(weights) != n_types:
        raise ValueError(f"must list one weight a type ({n_types}), got {len(weights)}")
    total = math.fsum(weights)
    if min(weights) < 0 or abs(total - 1) > _EPS:
        raise ValueError(f"must list weights of at least 0 that sum to 1, got {list(weights)}")


def distances(weights: Sequence[float], others: Sequence[float]) -> Mapping[str, float]:
    """Return how far a population with other weights is from the first, in every measure.

    ``kl`` and ``chi2`` are of the other from the first; ``subgroup`` is the largest share of the
    first population that the other can make up, 1 over the largest ratio of weights. All
    ``weights`` are above 0.

    >>> apart = distances([0.5, 0.5], [0.25, 0.75])
    >>> {name: round(value, 4) for name, value in apart.items()}
    {'kl': 0.1308, 'tv': 0.25, 'chi2': 0.25, 'subgroup': 0.6667}
    """
    pairs = list(zip(others, weights, strict=True))
    return {
        "kl": max(0.0, math.fsum(q * math.log(q / p) for q, p in pairs if q > 0)),
        "tv": 0.5 * math.fsum(abs(q - p) for q, p in pairs),
        "chi2": math.fsum((q - p) ** 2 / p for q, p in pairs),
        "subgroup": 1 / max(1.0, *(q / p for q, p in pairs)),
    }


class ClientTypes(Dealt):
    """Clients are independent draws from a few types: class sets with known weights.

    Attributes
    ----------
    types : tuple of tuple of int
        Classes of each type.
    weights : tuple of float
        Probability of each type; they sum to 1.
    samples_per_class : int, optional
        Train samples per class that a client holds; unless given, the most that every seen
        client can get.
    held_out : float, optional
        Share of each class set aside; unless given, the held-out clients' share of all clients.
    """

    kind: Literal["client_types"]
    clients: Count
    types: tuple[tuple[Class, ...], ...]
    weights: tuple[Number, ...]
    samples_per_class: Count | None = None
    held_out: Annotated[Number, Field(gt=0, lt=1)] | None = None

    @model_validator(mode="after")
    def _is_a_law(self) -> "ClientTypes":
        check_types(self.types, self.weights)
        return self


def fill_client_types(
    pool: Pool,
    n_training: int,
    share: float,
    rng: np.random.Generator,
    *,
    types: Sequence[Sequence[int]],
    weights: Sequence[float],
    samples_per_class: int | None = None,
) -> tuple[Filling, Law]:
    """Fill the seen clients by their types; set aside the held-out clients' pools."""
    present = np.unique(pool.y[pool.train]).tolist()
    for classes in types:
        missing = [c for c in classes if c not in present]
        if missing:
            raise InputError(
                f"split.types must name classes that have samples (of {pool.n_classes}, from 0), "
                f"got {missing[0]}"
            )
    listed = tuple(tuple(int(c) for c in classes) for classes in types)
    kind = Law(types=listed, weights=tuple(float(w) for w in weights))
    return fill_from_law(
        pool, kind, n_training, share, rng, partial(_size, asked=samples_per_class, pool=pool)
    )


def _size(most: int, *, asked: int | None, pool: Pool) -> int:
    """Return the number of train samples of each class that a client holds."""
    least = pool.least  # a type may consist of one class
    if most < least or (asked is not None and not least <= asked <= most):
        key = "split.clients" if most < least else "split.samples_per_class"
        got = f"got {asked}" if most >= least else "ask for fewer clients"
        raise InputError(
            f"{key}: every client can hold {most} samples of each of its classes at most (at least "
            f"{least}), {got}"
        )
    return most if asked is None else asked


class Environment(Dealt):
    """Clients are independent draws: random class sets, images that no seen client holds.

    Attributes
    ----------
    classes_per_client : int
        Distinct classes that a client holds.
    samples_per_client : int, optional
        Train samples, a multiple of ``classes_per_client``; unless given, the most that every
        seen client can get.
    held_out : float, optional
        Share of each class set aside; unless given, the held-out clients' share of all clients.
    """

    kind: Literal["environment"]
    clients: Count
    classes_per_client: Count
    samples_per_client: Count | None = None
    held_out: Annotated[Number, Field(gt=0, lt=1)] | None = None


def fill_environment(
    pool: Pool,
    n_training: int,
    share: float,
    rng: np.random.Generator,
    *,
    classes_per_client: int,
    samples_per_client: int | None = None,
) -> tuple[Filling, Law]:
    """Fill the seen clients; set aside the held-out clients' pools."""
    n_present = len(np.unique(pool.y[pool.train]))
    why = " (the classes that have samples)"
    key = "split.classes_per_client"
    per_client = whole(key, classes_per_client, 1, n_present, why)

    def size(most: int) -> int:
        return _per_class(pool, n_training, most, per_client, samples_per_client)

    return fill_from_law(pool, Law(per_client), n_training, share, rng, size)


def _per_class(
    pool: Pool, n_training: int, most: int, per_client: int, samples_per_client: int | None
) -> int:
    """Return the number of train samples of each class that a client holds."""
    least = -(-pool.least // per_client)
    if most < least:
        raise InputError(
            f"split.clients: {n_training} seen clients leave {most} samples of some class for "
            f"each client (at least {least}): ask for fewer clients or classes_per_client"
        )
    if samples_per_client is None:
        return most
    why = f" (a multiple of classes_per_client={per_client}, with {most} of a class at most)"
    key = "split.samples_per_client"
    size = whole(key, samples_per_client, least * per_client, most * per_client, why)
    if size % per_client:
        raise InputError(f"{key} must be a multiple of classes_per_client={per_client}, got {size}")
    return size // per_client


SPLITS = (
    SplitKind(
        name="client_mixtures",
        settings=ClientMixtures,
        description="independent clients: class proportions from a Dirichlet law of known "
        "concentrations",
        law=fill_client_mixtures,
    ),
    SplitKind(
        name="client_types",
        settings=ClientTypes,
        description="independent clients of a few types, which are class sets with known weights",
        law=fill_client_types,
    ),
    SplitKind(
        name="environment",
        settings=Environment,
        description="independent clients: random class sets, images from pools no seen client "
        "holds",
        law=fill_environment,
    ),
)
