"""Clients of a few types with known weights: other populations at exactly known distances.

A type is a set of classes. Every client draws a type by the weights and, from each of the type's
classes, the same number of distinct images, a uniform subset of that class's pool: held-out clients
are independent draws, as in :mod:`latecomer.eval.splits.law`. A population with other
weights draws from the same pools. Types differ in their classes, so a client reveals its type;
given the type, its law is the same in both: the divergences equal those of the weights.
"""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from latecomer.errors import InputError
from latecomer.eval.schema import Count, Number
from latecomer.eval.splits.kinds.declaration import Dealt, SplitKind
from latecomer.eval.splits.law import Law, fill_from_law, held_out_share
from latecomer.eval.splits.pool import Filling, Pool

Ints = NDArray[np.int64]
_EPS = 1e-9
Class = Annotated[int, Field(strict=True, ge=0)]


def check_types(types: Sequence[Sequence[int]], weights: Sequence[float]) -> None:
    """Refuse invalid types, and weights that are not a probability law over them.

    Raises
    ------
    ValueError
        In words that follow the name of the section.
    """
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
    """Refuse weights that are not a probability law over ``n_types`` types.

    Raises
    ------
    ValueError
        In words that follow the name of the section.
    """
    if len(weights) != n_types:
        raise ValueError(f"must list one weight a type ({n_types}), got {len(weights)}")
    total = math.fsum(weights)
    if min(weights) < 0 or abs(total - 1) > _EPS:
        raise ValueError(f"must list weights of at least 0 that sum to 1, got {list(weights)}")


def distances(weights: Sequence[float], others: Sequence[float]) -> Mapping[str, float]:
    """Return how far a population with other weights is from the first, in every measure.

    ``kl`` and ``chi2`` are of the other from the first; ``subgroup`` is the largest share of the
    first population that the other can make up, 1 over the largest ratio of weights.

    Parameters
    ----------
    weights, others : sequence of float
        Laws over the types; all ``weights`` are above 0.

    Examples
    --------
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
    n_held_out: int,
    rng: np.random.Generator,
    *,
    types: Sequence[Sequence[int]],
    weights: Sequence[float],
    samples_per_class: int | None = None,
    held_out: float | None = None,
) -> tuple[Filling, Law]:
    """Fill the seen clients by their types; set aside the held-out clients' pools.

    Parameters
    ----------
    pool : Pool
    n_training, n_held_out : int
        Numbers of seen clients, and of certification and new clients together.
    rng : Generator
    types : sequence of sequence of int
        Classes of each type.
    weights : sequence of float
    samples_per_class : int, optional
        Train samples per class that a client holds; unless given, the most that every seen
        client can get.
    held_out : float in (0, 1), optional
        Share of each class set aside; unless given, the held-out clients' share of all clients.

    Raises
    ------
    InputError
        A type names a class without samples, or a class has fewer images than are needed.
    """
    present = np.unique(pool.y[pool.train]).tolist()
    for classes in types:
        missing = [c for c in classes if c not in present]
        if missing:
            raise InputError(
                f"split.types must name classes that have samples (of {pool.n_classes}, from 0), "
                f"got {missing[0]}"
            )
    listed = tuple(tuple(int(c) for c in classes) for classes in types)
    kind = Law(0, 0, 0, (), (), listed, tuple(float(w) for w in weights))
    share = held_out_share(n_training, n_held_out, held_out)
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


SPLITS = (
    SplitKind(
        name="client_types",
        settings=ClientTypes,
        description="independent clients of a few types, which are class sets with known weights",
        law=fill_client_types,
    ),
)
