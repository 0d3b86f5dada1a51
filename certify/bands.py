"""Bands around the share of clients above a threshold."""

from dataclasses import dataclass

import numpy as np

from latecomer.bounds.certificate import Array, Certificate, certificate
from latecomer.bounds.held_out.counting import dkw_band
from latecomer.bounds.held_out.local_levels import local_level_band
from latecomer.bounds.held_out.pool_curve import pool_band

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
        width = float(pool_band(n_sampled=n_clients, pool_size=pool_size, delta=delta))
        return Band("pool_band", width, np.minimum(1.0, above + width))
    if band == "dkw":
        width = float(dkw_band(n_clients=n_clients, delta=delta))
        return Band("dkw_band", width, np.minimum(1.0, above + width))
    limits = local_level_band(n_clients=n_clients, delta=delta)
    return Band("local_level_band", float((limits - above).max()), limits)
