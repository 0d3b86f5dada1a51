"""New clients' p-values of likeness, one after another: what each is worth as evidence."""

from collections.abc import Sequence

import numpy as np

from latecomer.bounds.certificate import Array
from latecomer.errors import InputError

_OFF = 0.1
"""How far a p-value times the number of ranks may lie from a whole number: it was rounded."""
_LESS = 1.0 - 1e-9
"""Takes off more than rounding can add."""


def unlikeness(p_values: Sequence[float], held_out: int) -> Array:
    r"""Return e-values: at least 0, and 1 in the mean given all before while new clients are like.

    A p-value of likeness is the rank of a new client's distance among those of ``k`` held-out
    clients: one of k + 1 gaps between them. New clients share the held-out clients, so their
    p-values depend on each other. While held-out and new clients are exchangeable and no two
    distances are equal, the next new client is as likely to come to each place in the order of all
    k + n before it: it falls into gap j with probability (1 + n_j) / (k + 1 + n), where n_j of the
    n new clients before it fell (Polya's urn). These probabilities cut [0, 1] into k + 1 parts
    [a_j, b_j], the farthest gap first: a uniform draw from the new client's part is the smoothed
    online p-value, and independent of those before (Vovk, Gammerman, Shafer, 2005, Theorem 8.1). It
    is not drawn: the e-value is the mean over the part of the mixture of all power bets
    ``e p^(e-1)``,

    ``(G(b_j) - G(a_j)) / (b_j - a_j)``, ``G(x) = int_0^1 x^e de = (x - 1) / log x``

    (Vovk, Wang, 2021, section 2, for the mixture). Its mean over the gaps is G(1) - G(0) = 1.

    Parameters
    ----------
    p_values : sequence of float, shape [n]
        In the order of arrival; each ``r / (held_out + 1)`` for a whole r, up to rounding.
    held_out : int
        Clients whose distances new clients are ranked among, at least 1.

    Returns
    -------
    ndarray of shape [n]
        Rounded down; larger is less alike, at most ``held_out + 1 + n``.

    Raises
    ------
    InputError
        A p-value is no rank among so many clients.

    Examples
    --------
    >>> unlikeness([0.25, 0.25, 1.0], held_out=3).round(3).tolist()
    [2.164, 1.637, 0.515]
    """
    newcomers = np.zeros(held_out + 1)
    values = np.empty(len(p_values))
    for place, p in enumerate(p_values):
        gap = round(p * (held_out + 1)) - 1
        if not 0 <= gap <= held_out or abs(p * (held_out + 1) - gap - 1) > _OFF:
            raise InputError(
                f"likeness must be a rank among {held_out} certified clients, a multiple of"
                f" 1/{held_out + 1} from 1/{held_out + 1} to 1, got {p:g}"
            )
        total = held_out + 1 + place
        below = gap + newcomers[:gap].sum()
        width = 1 + newcomers[gap]
        gained = _mixed(below + width, total) - _mixed(below, total)
        values[place] = _LESS * gained * total / width
        newcomers[gap] += 1
    return values


def _mixed(places: float, total: int) -> float:
    """Return G of a share of all places."""
    if places in (0, total):
        return float(places == total)
    return float((places / total - 1.0) / np.log(places / total))
