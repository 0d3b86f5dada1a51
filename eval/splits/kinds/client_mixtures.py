"""Clients with class proportions from one Dirichlet law: other laws at known distances.

Every client draws proportions from Dir(concentrations) and its labels from these proportions; its
images of a class are a uniform subset of that class's pool, all distinct. Held-out clients are
independent draws, as in :mod:`latecomer.eval.splits.law`. A population with other
concentrations draws from the same pools. Given its proportions, a client has the same law in both
populations, so the populations differ exactly as their Dirichlet laws do.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Literal

import numpy as np
import scipy
from numpy.typing import NDArray
from pydantic import Field, model_validator

from latecomer.checks import whole
from latecomer.errors import InputError
from latecomer.eval.schema import Count, Number
from latecomer.eval.splits.dealing import class_totals, deal_rows, log_dirichlet
from latecomer.eval.splits.dirichlet import draw_labels
from latecomer.eval.splits.kinds.declaration import Dealt, SplitKind
from latecomer.eval.splits.law import Law, cut_pools, held_out_share
from latecomer.eval.splits.pool import Filling, Pool

Ints = NDArray[np.int64]
_RANGE = (1e-3, 1e6)


def check_concentrations(concentrations: Sequence[float], n_classes: int | None = None) -> None:
    """Refuse concentrations that do not define a Dirichlet law over ``n_classes`` classes.

    Raises
    ------
    ValueError
        The message is meant to follow the name of the section.
    """
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

    Parameters
    ----------
    first, other : sequence of float
        Concentrations above 0, one per class.

    Examples
    --------
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
    n_held_out: int,
    rng: np.random.Generator,
    *,
    concentrations: Sequence[float],
    samples_per_client: int | None = None,
    held_out: float | None = None,
) -> tuple[Filling, Law]:
    """Fill each seen client by its own proportions; set aside the held-out clients' pools.

    Each training image goes to at most one client: when a class runs out, a seen client
    draws the rest from its proportions over the other classes. Held-out clients are never short.

    Parameters
    ----------
    pool : Pool
    n_training, n_held_out : int
        Numbers of seen clients, and of certification and new clients together.
    rng : Generator
    concentrations, samples_per_client, held_out
        One number per class; train samples; share of each class set aside (`fill_environment`).

    Raises
    ------
    InputError
        There is not one concentration per class, or a class has too few images for a client.
    """
    try:
        check_concentrations(concentrations, pool.n_classes)
    except ValueError as error:
        raise InputError(f"split.concentrations {error}") from error
    share = held_out_share(n_training, n_held_out, held_out)
    law = Law(0, 0, 0, (), (), concentrations=tuple(float(a) for a in concentrations))
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


SPLITS = (
    SplitKind(
        name="client_mixtures",
        settings=ClientMixtures,
        description="independent clients: class proportions from a Dirichlet law of known "
        "concentrations",
        law=fill_client_mixtures,
    ),
)
