"""What simulations of certificates share: how often a correct rule may fail, samples of pools."""

import numpy as np
from numpy.random import Generator
from scipy.stats import binom

from latecomer.bounds.certificate import Array


def limit(trials: int, level: float = 0.05) -> int:
    """Failures that a rule with failure probability ``level`` exceeds with probability 1e-6."""
    return int(binom.isf(1e-6, trials, level))


def sampled(rng: Generator, pool: Array, k: int, trials: int) -> Array:
    """Clients of a pool without replacement, in the order of sampling, [trials, k]."""
    return np.asarray(pool[rng.random((trials, pool.size)).argsort(axis=1)[:, :k]])
