"""The worst law near a given one, found without duality: what certificates over a ball must cover.

A law has finitely many losses and their probabilities.
"""

from collections.abc import Callable

import numpy as np
import pytest
from scipy.optimize import brentq

from latecomer.bounds.certificate import Array


def _tv(losses: Array, weights: Array, radius: float) -> float:
    """Move mass from the smallest losses to the largest."""
    kept, left = weights.copy(), min(radius, 1.0 - float(weights[losses == losses.max()].sum()))
    moved = left
    for i in np.argsort(losses):
        taken = min(left, kept[i])
        kept[i], left = kept[i] - taken, left - taken
    return float(kept @ losses + moved * losses.max())


def _subgroup(losses: Array, weights: Array, share: float) -> float:
    """Take the worst clients until they make up the share."""
    taken, left = np.zeros_like(weights), 1.0
    for i in np.argsort(-losses):
        taken[i] = min(left, weights[i] / share)
        left -= taken[i]
    return float(taken @ losses)


def _kl(losses: Array, weights: Array, radius: float) -> float:
    """Tilt exponentially, at most to the largest loss."""

    def tilted(temperature: float) -> Array:
        raised = weights * np.exp(temperature * (losses - losses.max()))
        return np.asarray(raised / raised.sum())

    def excess(temperature: float) -> float:
        law = tilted(temperature)
        seen = law > 0
        return float(np.sum(law[seen] * np.log(law[seen] / weights[seen]))) - radius

    if radius == 0:
        return float(weights @ losses)
    if excess(1e4) < 0:
        return float(losses.max())
    return float(tilted(brentq(excess, 0.0, 1e4, xtol=1e-13)) @ losses)


def _chi2(losses: Array, weights: Array, radius: float) -> float:
    """Weigh by (L - threshold)_+, whose threshold falls as the radius does."""

    def law(threshold: float) -> Array:
        raised = weights * np.maximum(losses - threshold, 0.0)
        return np.asarray(raised / raised.sum())

    def excess(threshold: float) -> float:
        return float(np.sum(law(threshold) ** 2 / weights)) - 1.0 - radius

    if radius == 0:
        return float(weights @ losses)
    highest = float(losses.max()) - 1e-9
    if excess(highest) < 0:
        return float(losses.max())
    return float(law(brentq(excess, -1e4, highest, xtol=1e-13)) @ losses)


_WORST = {"tv": _tv, "kl": _kl, "chi2": _chi2, "subgroup": _subgroup}
Worst = Callable[[str, Array, Array, float], float]


@pytest.fixture(scope="session")
def worst_mean() -> Worst:
    """``(ball, losses, weights, radius) -> largest mean of laws within the radius``."""
    return lambda ball, losses, weights, radius: _WORST[ball](losses, weights, radius)
