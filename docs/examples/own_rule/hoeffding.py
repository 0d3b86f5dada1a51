"""A rule of one's own: ``latecomer certify losses.csv --rule hoeffding.py:bound``.

In a study beside this file, ``certificates: [{rule: "hoeffding.py:bound"}]``, and where it is to be
compared and not to certify, ``bounds: ["hoeffding.py:bound"]``.
"""

from math import log, sqrt


def bound(losses, delta):
    """Bound the mean by Hoeffding's inequality, from losses in [0, 1] of independent clients."""
    return sum(losses) / len(losses) + sqrt(log(1 / delta) / (2 * len(losses)))


def mean_of_the_better_half(losses, delta):
    """Promise what no inequality does: simulated coverage refuses it."""
    half = sorted(losses)[: (len(losses) + 1) // 2]
    return sum(half) / len(half)
