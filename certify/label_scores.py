"""Scores of labels, the sets of labels that score little, and how many clients a set takes.

A score is computed from a point's probabilities alone, so that the threshold of certified clients'
true labels says which labels of another point may be ruled out.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from latecomer.bounds.certificate import Array
from latecomer.errors import InputError


def _complement(chances: Array) -> Array:
    return 1 - chances


def _mass(chances: Array) -> Array:
    """Sum of the probabilities of the labels that are at least as likely, ties shared."""
    order = np.argsort(-chances, axis=1, kind="stable")
    falling = np.take_along_axis(chances, order, axis=1)
    mass = np.minimum(np.cumsum(falling, axis=1), 1.0)
    for place in reversed(range(falling.shape[1] - 1)):
        tied = falling[:, place] == falling[:, place + 1]
        mass[tied, place] = mass[tied, place + 1]
    scores = np.empty_like(mass)
    np.put_along_axis(scores, order, mass, axis=1)
    return scores


@dataclass(frozen=True)
class LabelScore:
    """A score of every label of a point: small where the label is likely, at most 1.

    Attributes
    ----------
    words : str
        What it is.
    shown : str
        What it is called where there is little room.
    of : callable
        From probabilities to scores, both ``[points, labels]``.
    """

    words: str
    shown: str
    of: Callable[[Array], Array]


LABEL_SCORES: Mapping[str, LabelScore] = MappingProxyType(
    {
        "probability": LabelScore("1 - p(label)", "1 - p", _complement),
        # Romano, Sesia and Candes 2020 without their random number, ties counted in.
        "adaptive": LabelScore("the probability of all labels at least as likely", "mass", _mass),
    }
)
"""Scores by name; 1 - p gives the smallest sets, the adaptive one sets that follow a point."""


def of_truth(scores: Array, truth: NDArray[np.int64]) -> Array:
    """Return the score of each point's true label.

    Examples
    --------
    >>> chances = np.array([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]])
    >>> of_truth(LABEL_SCORES["adaptive"].of(chances), np.array([1, 0])).tolist()
    [0.8, 1.0]
    """
    return np.asarray(scores[np.arange(len(scores)), truth])


def labels_kept(scores: Array, threshold: float) -> NDArray[np.bool_]:
    """Return which labels are in which set: those that score at most the threshold.

    An empty set gets the label of least score, and is counted with it.

    Parameters
    ----------
    scores : ndarray [points, labels]
    threshold : float
        Infinite: all labels.

    Examples
    --------
    >>> labels_kept(np.array([[0.5, 0.7, 0.8], [0.9, 0.9, 0.2]]), 0.4).astype(int).tolist()
    [[1, 0, 0], [0, 0, 1]]
    """
    held = np.asarray(scores <= threshold)
    held[np.arange(len(held)), scores.argmin(axis=1)] |= ~held.any(axis=1)
    return held


def clients_needed(alpha: float) -> int:
    """Return the fewest clients that sets at this level take: k + 1 is at least 1 / alpha.

    Examples
    --------
    >>> clients_needed(0.1), clients_needed(0.05), clients_needed(0.3)
    (9, 19, 3)
    """
    return math.ceil(1 / Fraction(repr(float(alpha)))) - 1


def refuse_too_few(n_clients: int, alpha: float, *, called: str = "") -> None:
    """Refuse sets at a level that so few clients cannot prove.

    Parameters
    ----------
    n_clients : int
        Certified clients.
    alpha : float
    called : str
        What the level is called, in a study.

    Raises
    ------
    InputError
        One line: the clients it takes, and the least level that these can prove.

    Examples
    --------
    >>> refuse_too_few(5, 0.1)
    Traceback (most recent call last):
        ...
    latecomer.errors.InputError: sets at alpha=0.1 need at least 9 clients, got 5; with 5 clients \
alpha is at least 1/6
    """
    needed = clients_needed(alpha)
    if n_clients < needed:
        where = f"{called}: " if called else ""
        raise InputError(
            f"{where}sets at alpha={alpha:g} need at least {needed} clients, got {n_clients}; with "
            f"{n_clients} clients alpha is at least 1/{n_clients + 1}"
        )
