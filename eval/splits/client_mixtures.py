"""Clients whose class proportions are draws of one Dirichlet law: others at known distances.

Every client draws proportions from Dir(concentrations), its labels from these proportions, and of
each class as many distinct images, a uniform subset of that class's pool: held-out clients are
independent draws, as in :mod:`latecomer.eval.splits.environment`. A population with other
concentrations draws from the same pools. Given its proportions a client's law is the same in both,
so what their populations differ by is what the Dirichlet laws differ by.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma, gammaln

from latecomer.eval.checks import whole
from latecomer.eval.errors import InputError
from latecomer.eval.splits.dealing import class_totals, deal_rows, log_dirichlet
from latecomer.eval.splits.dirichlet import draw_labels
from latecomer.eval.splits.environment import Law, cut_pools, held_out_share
from latecomer.eval.splits.pool import Filling, Pool

Ints = NDArray[np.int64]
_RANGE = (1e-3, 1e6)


def check_concentrations(concentrations: Sequence[float], n_classes: int | None = None) -> None:
    """Refuse concentrations that are no Dirichlet law over so many classes.

    Raises
    ------
    ValueError
        In words that follow the name of the section.
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
    """Return how far a Dirichlet law is from a first one, as every ball measures it.

    With ln B(a) = sum ln Gamma(a_i) - ln Gamma(sum a_i), a the first law and b the other:

    * ``kl`` = ln B(a) - ln B(b) + sum (b_i - a_i) (digamma(b_i) - digamma(sum b));
    * ``chi2`` = B(2b - a) B(a) / B(b)^2 - 1, left out where some 2 b_i <= a_i: it is infinite;
    * ``subgroup``, the largest share that the other can make up of the first, is 1 over the largest
      ratio of densities, which stands at proportions in the ratio of b - a; left out where some
      b_i < a_i: there is none;
    * ``tv`` has no closed form and is the smallest of four upper bounds: by the Hellinger affinity
      c = B((a + b) / 2) / sqrt(B(a) B(b)), sqrt(1 - c^2); by Pinsker, sqrt(kl / 2), in either
      direction; and sqrt(chi2) / 2.

    A certificate for every population within the bound on ``tv`` is one for this population.

    Parameters
    ----------
    first, other : sequence of float
        Concentrations above 0, one a class.

    Examples
    --------
    >>> away = dirichlet_distances([1, 1], [2, 1])
    >>> {name: round(value, 4) for name, value in away.items()}
    {'kl': 0.1931, 'tv': 0.2887, 'chi2': 0.3333, 'subgroup': 0.5}

    Densities are 1 and 2 p: of a total variation of .25.
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
    """Fill the training clients by proportions of their own and set aside the others' pools.

    Each training image goes to one client at most: where a class has run out, a training client
    draws the rest from its proportions over the others. Held-out clients are never short.

    Parameters
    ----------
    pool : Pool
    n_training, n_held_out : int
        Clients that train, and certification and novel clients.
    rng : Generator
    concentrations, samples_per_client, held_out
        One number a class; train samples; share of each class set aside (`fill_environment`).

    Raises
    ------
    InputError
        The concentrations are not one a class, or a class has fewer images than a client may draw.
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
    why = " (what the training clients share, and the smallest pool of a class)"
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
        raise InputError(f"split.clients: {n_training} training clients would hold no test sample")
    more, theirs = _dealt(pool, kept, logs, test, rng)
    filling = Filling(np.concatenate([rows, more]), np.concatenate([owners, theirs]), clients)
    return filling, replace(law, test=test, test_pools=pools)


def _most(kept: Ints, pools: Sequence[Ints], n_training: int, *, drawn: bool) -> int:
    """Return how many samples every client can get, should all be of one class in a pool."""
    for_training = len(kept) // n_training
    return min(for_training, *(len(rows) for rows in pools)) if drawn else for_training


def _dealt(
    pool: Pool, kept: Ints, logs: NDArray[np.float64], size: int, rng: np.random.Generator
) -> tuple[Ints, Ints]:
    totals = class_totals(pool.y, kept, pool.n_classes)
    counts = draw_labels(logs, np.full(len(logs), size), totals, rng)
    return deal_rows(pool.y, kept, counts, rng)


def _log_beta(a: NDArray[np.float64]) -> float:
    return float(gammaln(a).sum() - gammaln(a.sum()))


def _divergence(b: NDArray[np.float64], a: NDArray[np.float64]) -> float:
    """KL(Dir(b) || Dir(a))."""
    slopes = digamma(b) - digamma(b.sum())
    return _log_beta(a) - _log_beta(b) + float(((b - a) * slopes).sum())


def _affinity(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    """Return ln of the Hellinger affinity of two Dirichlet laws."""
    return _log_beta((a + b) / 2) - (_log_beta(a) + _log_beta(b)) / 2
