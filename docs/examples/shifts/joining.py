"""Blur before or after a client joins, for clients whose last sixth of samples is their query data.

A shift gets each client's samples in order: support, validation, query. In `odpfl-table1` they are
425, 75 and 100. The blur is the built-in one.
"""

import numpy as np

from latecomer.eval.shifts.transforms import SHIFTS


def blurred_after(x, severity, rng):
    """Blur what a client is measured on; it joined, and described itself, with sharp pictures."""
    joined = len(x) - len(x) // 6
    return np.concatenate([x[:joined], SHIFTS["blur"].apply(x[joined:], severity, rng)])


def blurred_before(x, severity, rng):
    """Blur what a client describes itself with; it is measured on sharp pictures."""
    joined = len(x) - len(x) // 6
    return np.concatenate([SHIFTS["blur"].apply(x[:joined], severity, rng), x[joined:]])
