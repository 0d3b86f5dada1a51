"""How many clients are served badly: bounds on the share of clients whose error is large.

A mean does not say how well the next client to join will be served.  The rule ``conformal`` gives
the next client's quantile; here are two more statements, both exact for i.i.d. clients and for
finite pools: the share of clients whose error exceeds a threshold, and the whole curve of these
shares.
"""

from collections.abc import Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np

from latecomer.bounds.certificate import Certificate
from latecomer.certify.bands import BANDS, share_above, share_band
from latecomer.certify.rule import RULES
from latecomer.eval.routes.scored_clients import Scored

_ONE_DRAW = (
    "the model, the threshold and the number of clients were fixed before the first score was seen",
    "a client's error exceeds the threshold or not: one 0/1 draw a client",
)


def fractions_above(
    scored: Scored, *, thresholds: Sequence[float], delta: float
) -> dict[float, Certificate]:
    """Bound, for each threshold, the share of clients whose error exceeds it.

    By `share_above`.  The thresholds share ``delta`` equally: all the
    bounds hold together with probability 1 - delta.

    Parameters
    ----------
    scored : Scored
    thresholds : sequence of float
        Errors in [0, 1), fixed before the scores.
    delta : float
        Failure probability of all thresholds together.

    Returns
    -------
    dict of float to Certificate
        ``value`` is a share of clients, not an error.

    Examples
    --------
    >>> from latecomer.eval.scoring.scores import ClientScore
    >>> scores = [ClientScore(i, 20, 10, 1 + 3 * (i == 0), .3) for i in range(30)]
    >>> fractions = fractions_above(Scored(scores, "finite-pool", 40, "deterministic"),
    ...                         thresholds=[.2, .5], delta=.1)
    >>> {t: float(c) for t, c in fractions.items()}
    {0.2: 0.075, 0.5: 0.05}
    """
    scored.check(RULES["fraction_above"])
    share, losses, pool = delta / len(thresholds), np.array(scored.losses), _pool(scored)
    fractions = {}
    for threshold in thresholds:
        issued = share_above(losses, threshold, delta=share, pool_size=pool)
        if pool is None:
            sampled = issued.terms["empirical_risk"]
            terms = {"sampled_share": sampled, "price": issued.terms["price"]}
            issued = replace(issued, terms=MappingProxyType(terms), assumptions=_ONE_DRAW)
        named = f"a bound of the share of clients with error above {threshold:g}"
        if len(thresholds) > 1:
            named += f"; the {len(thresholds)} thresholds share delta, their bounds hold at once"
        tagged = scored.tagged(issued, RULES["fraction_above"])
        fractions[threshold] = replace(tagged, assumptions=(*tagged.assumptions, named))
    return fractions


def error_curve(
    scored: Scored, *, delta: float, band: str = BANDS[0]
) -> tuple[Certificate, list[dict[str, Any]]]:
    """Bound the share of clients above every threshold at once.

    Independent clients: by equal local levels, narrow where few or nearly all clients are above, or
    one width everywhere (Dvoretzky, Kiefer and Wolfowitz with Massart's constant).  In a finite
    pool: the exact width for sampling without replacement.

    Parameters
    ----------
    scored : Scored
    delta : float
        Failure probability of the whole curve, at most 1/2.
    band : {"local_levels", "dkw"}
        Of independent clients; fixed beforehand.

    Returns
    -------
    Certificate
        Its ``value`` is the largest excess over a sampled share.
    list of dict
        Steps of the curve by rising ``threshold``: from this threshold up to the next, ``sampled``
        is the share of sampled clients with a larger error, and ``upper`` the bound.

    Examples
    --------
    >>> from latecomer.eval.scoring.scores import ClientScore
    >>> scores = [ClientScore(i, 20, 10, i % 2, .3) for i in range(30)]
    >>> width, curve = error_curve(Scored(scores, "finite-pool", 40, "deterministic"), delta=.05)
    >>> round(float(width), 4), [(step["threshold"], step["sampled"]) for step in curve]
    (0.1083, [(0.0, 0.5), (0.1, 0.0)])
    """
    scored.check(RULES["error_curve"])
    found = share_band(len(scored.scores), delta=delta, pool_size=_pool(scored), band=band)
    names = ("threshold", "sampled", "upper")
    steps = [dict(zip(names, step, strict=True)) for step in found.steps(np.array(scored.losses))]
    return scored.tagged(found.certificate(delta), RULES["error_curve"]), steps


def _pool(scored: Scored) -> int | None:
    """Return the size of the pool that shares are counted in; None for independent clients."""
    return None if scored.sampling == "iid" else scored.pool_size or len(scored.scores)
