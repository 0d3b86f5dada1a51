"""Independent clients with random class sets, uniform over all sets of ``classes_per_client``.

Of each of its classes a client holds the same number of distinct images, a uniform subset of that
class's pool; :mod:`latecomer.eval.splits.law` says why held-out clients are i.i.d. draws.
"""

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from latecomer.checks import whole
from latecomer.errors import InputError
from latecomer.eval.schema import Count, Number
from latecomer.eval.splits.kinds.declaration import Dealt, SplitKind
from latecomer.eval.splits.law import Law, fill_from_law, held_out_share
from latecomer.eval.splits.pool import Filling, Pool


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
    n_held_out: int,
    rng: np.random.Generator,
    *,
    classes_per_client: int,
    samples_per_client: int | None = None,
    held_out: float | None = None,
) -> tuple[Filling, Law]:
    """Fill the seen clients; set aside the held-out clients' pools.

    Parameters
    ----------
    pool : Pool
    n_training, n_held_out : int
        Numbers of seen clients, and of certification and new clients together.
    rng : Generator
    classes_per_client : int
    samples_per_client : int, optional
        Train samples, a multiple of ``classes_per_client``; unless given, the most that every
        seen client can get.
    held_out : float in (0, 1), optional
        Share of each class set aside; unless given, the held-out clients' share of all clients.

    Returns
    -------
    Filling, Law
        The seen clients, and the law of the held-out clients.

    Raises
    ------
    InputError
        A class has fewer images than are asked of it.
    """
    share = held_out_share(n_training, n_held_out, held_out)
    n_present = len(np.unique(pool.y[pool.train]))
    why = " (the classes that have samples)"
    key = "split.classes_per_client"
    per_client = whole(key, classes_per_client, 1, n_present, why)

    def size(most: int) -> int:
        return _per_class(pool, n_training, most, per_client, samples_per_client)

    return fill_from_law(pool, Law(per_client, 0, 0, (), ()), n_training, share, rng, size)


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
        name="environment",
        settings=Environment,
        description="independent clients: random class sets, images from pools no seen client "
        "holds",
        law=fill_environment,
    ),
)
