"""Shares of clients whose loss is above a threshold: one at a time, and all of them in a band.

Both are exact for independent clients and for those of a finite pool, and both doors, tables of
losses and scores of a study, ask them here.
"""

from dataclasses import dataclass

import numpy as np

from latecomer.bounds.certificate import Array, Certificate, certificate
from latecomer.bounds.held_out.counting import clopper_pearson, dkw_band, pool_fraction
from latecomer.bounds.held_out.local_levels import local_level_band
from latecomer.bounds.held_out.pool_curve import LARGEST_POOL, pool_band
from latecomer.errors import InputError

BANDS = ("local_levels", "dkw")
"""Bands of independent clients' shares, the default first."""


@dataclass(frozen=True, eq=False)
class Band:
    """How far the share of clients above a threshold may lie above that of the sampled ones.

    Attributes
    ----------
    name : str
        The calculator.
    width : float
        The largest excess over the sampled share, whatever the threshold.
    limits : ndarray, shape [k + 1]
        Limit of the share above a threshold that j of k sampled clients do not exceed.
    """

    name: str
    width: float
    limits: Array

    def certificate(self, delta: float) -> Certificate:
        """Return the certificate of all shares at once, whose value is the width."""
        return certificate(self.name, terms={"width": self.width}, delta={"clients": delta})

    def steps(self, losses: Array, largest: float = 1.0) -> list[tuple[float, float, float]]:
        """List threshold, sampled share above it and bound; each holds up to the next threshold.

        Nobody's loss is above ``largest``.
        """
        ordered = np.sort(losses)
        # One call counts the clients up to every threshold.
        thresholds = np.unique(np.append(ordered, 0.0))
        below = np.searchsorted(ordered, thresholds, side="right")
        sampled = (len(ordered) - below) / len(ordered)
        upper = np.where(thresholds < largest, self.limits[below], 0.0)
        return list(zip(thresholds.tolist(), sampled.tolist(), upper.tolist(), strict=True))


def share_above(
    losses: Array, threshold: float, *, delta: float, pool_size: int | None = None
) -> Certificate:
    """Bound the share of clients with a loss above a threshold that was fixed before the losses.

    Clopper-Pearson over clients where these are independent draws (one client is one 0/1 draw), the
    exact hypergeometric limit in a finite pool.

    Examples
    --------
    >>> losses = np.array([0.3] + [0.1] * 29)
    >>> round(float(share_above(losses, 0.2, delta=0.025)), 3)
    0.172
    >>> float(share_above(losses, 0.2, delta=0.05, pool_size=40))
    0.075
    """
    above, k = int((losses > threshold).sum()), len(losses)
    if pool_size is None:
        return clopper_pearson(n_errors=above, n_samples=k, delta=delta)
    return pool_fraction(n_exceeding=above, n_sampled=k, pool_size=pool_size, delta=delta)


def share_band(
    n_clients: int, *, delta: float, pool_size: int | None = None, band: str = BANDS[0]
) -> Band:
    """Return the band of k clients: exact in a pool, by equal local levels (or DKW) otherwise.

    Examples
    --------
    >>> band = share_band(100, delta=0.05)
    >>> round(band.width, 3), round(float(band.limits[100]), 3)
    (0.145, 0.058)
    >>> round(share_band(100, delta=0.05, band="dkw").width, 3)
    0.122
    """
    above = 1.0 - np.arange(n_clients + 1) / n_clients
    if pool_size is not None:
        if pool_size > LARGEST_POOL:
            raise InputError(f"curve needs a pool_size of at most {LARGEST_POOL}, got {pool_size}")
        width = float(pool_band(n_sampled=n_clients, pool_size=pool_size, delta=delta))
        return Band("pool_band", width, np.minimum(1.0, above + width))
    if band == "dkw":
        width = float(dkw_band(n_clients=n_clients, delta=delta))
        return Band("dkw_band", width, np.minimum(1.0, above + width))
    limits = local_level_band(n_clients=n_clients, delta=delta)
    return Band("local_level_band", float((limits - above).max()), limits)
