"""Sets of labels for the points of new clients: what is left once labels are ruled out.

A score is computed from a point's probabilities alone, so that the threshold of certified clients'
true labels says which labels of another point may be ruled out.
"""

import csv
import io
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from os import PathLike
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latecomer.bounds.certificate import Array
from latecomer.bounds.checks import exactly, failure_probability
from latecomer.bounds.next_client import client_threshold, confident_threshold
from latecomer.certify.points import PointRows, Points, read_points
from latecomer.certify.table import Source
from latecomer.certify.words import chance, count, rounded
from latecomer.checks import checked, one_of, output_file
from latecomer.errors import InputError
from latecomer.files import at_home, write_atomic


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
    """A score of every label of a point: small where the label is likely, at most 1."""

    words: str  # what it is
    shown: str  # what it is called where there is little room
    of: Callable[[Array], Array]  # from probabilities to scores, both ``[points, labels]``


LABEL_SCORES: Mapping[str, LabelScore] = MappingProxyType(
    {
        "probability": LabelScore("1 - p(label)", "1 - p", lambda chances: 1 - chances),
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

    An empty set gets the label of least score, and is counted with it.  Scores and sets are
    [points, labels]; an infinite threshold keeps all labels.

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
    return math.ceil(1 / exactly(alpha)) - 1


def refuse_too_few(n_clients: int, alpha: float, *, called: str = "") -> None:
    """Refuse sets at a level, ``called`` so in a study, that so few clients cannot prove.

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


_COLUMNS = ("client", "labels", "size", "holds_label")


@dataclass(frozen=True, eq=False)
class LabelSets:
    """A threshold of a score of labels, and the sets that it leaves of some points.

    Attributes
    ----------
    alpha, delta : float
        Miss rate that new clients' points have on average; failure probability of ``confident``.
    score : str
        One of ``LABEL_SCORES``.
    threshold : float
        Labels that score at most this are in a set: the miss rate holds over the certified clients
        and the new one together.
    confident : float
        The same with confidence 1 - delta over the certified clients; infinite where nothing is
        proved, which leaves all labels.
    n_clients, n_points : int
        Certified clients and all of their points.
    labels : tuple of str
        All labels.
    clients : tuple of str
        Client of each point that a set was made for.
    held : ndarray of bool, [points, labels]
        The sets.
    truth : ndarray of int, [points]
        Place of the true label; -1 where none is given.
    """

    alpha: float
    delta: float
    score: str
    threshold: float
    confident: float
    n_clients: int
    n_points: int
    labels: tuple[str, ...]
    clients: tuple[str, ...]
    held: NDArray[np.bool_]
    truth: NDArray[np.int64]

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Labels in each set."""
        return np.asarray(self.held.sum(axis=1))

    def lines(self) -> list[str]:
        """Return what the terminal shows of them."""
        sizes, score = self.sizes, LABEL_SCORES[self.score]
        within, surely = _shown(self.threshold), _shown(self.confident)
        named = "" if score.words.startswith(score.shown) else f" by {score.shown}: {score.words}"
        return [
            f"Sets of labels{named}",
            f"  labels with {score.shown} <= {within:<12}   hold the true label of a new"
            f" client's point with probability at least {1 - self.alpha:g}",
            f"  labels with {score.shown} <= {surely:<12}   miss at most {self.alpha:g} of"
            f" clients' points on average, with {chance(self.delta)} confidence",
            f"  {count(len(sizes), 'set')} by the first line: {sizes.mean():.3g} labels on average,"
            f" {(sizes == 1).mean():.0%} of them a single one",
            "The first holds over the certified clients, the new client and one of its points at"
            " random; clients are the units, however many points each has. A client's points must"
            " have played no part in making its model, and models, score and alpha must have been"
            " fixed before. Both stand beside the statements above, at levels of their own,"
            f" {self.alpha:g} and {self.delta:g}.",
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers."""
        sizes = self.sizes
        return {
            "alpha": self.alpha,
            "delta": self.delta,
            "score": self.score,
            "threshold": _finite(self.threshold),
            "confident_threshold": _finite(self.confident),
            "n_clients": self.n_clients,
            "n_points": self.n_points,
            "n_sets": len(sizes),
            "mean_size": float(sizes.mean()),
            "single": float((sizes == 1).mean()),
        }

    def rows(self) -> list[dict[str, Any]]:
        """Return a record a point: client, its set, the set's size, whether it holds the truth.

        Raises
        ------
        InputError
            A label holds the stroke that stands between labels.
        """
        if joined := next((name for name in self.labels if "|" in name), None):
            raise InputError(
                f"labels of a set are written with | between them: name {joined!r} another way"
            )
        names = np.array(self.labels)
        return [
            {
                "client": client,
                "labels": "|".join(names[own]),
                "size": int(own.sum()),
                "holds_label": "" if true < 0 else int(own[true]),
            }
            for client, own, true in zip(self.clients, self.held, self.truth, strict=True)
        ]

    def write(self, path: str | PathLike[str]) -> None:
        """Write `rows` as CSV."""
        output_file("path", path)
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, _COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.rows())
        write_atomic(at_home(path), text.getvalue())


def _shown(threshold: float) -> str:
    return rounded(threshold, decimals=3, up=True) if math.isfinite(threshold) else "1 (all)"


def _finite(threshold: float) -> float | None:
    return threshold if math.isfinite(threshold) else None


def label_sets(
    source: Source | PointRows,
    *,
    alpha: float,
    delta: float = 0.05,
    score: str = "probability",
    serve: Source | None = None,
) -> LabelSets:
    """Make sets of labels that hold the true one of new clients' points with probability 1 - alpha.

    Parameters
    ----------
    source : path, bytes, DataFrame or PointRows
        Points of the certified clients, as for :func:`~latecomer.certify.points.score_points`, with
        the probabilities of all labels.
    alpha : float, in (0, 1)
        Probability that a set misses; needs ``1 / alpha - 1`` clients.
    delta : float, in (0, 1)
        Failure probability of the threshold that holds with confidence over the certified clients.
    score : str, one of ``LABEL_SCORES``
        What labels are ruled out by: ``probability``, 1 - p, gives the smallest sets, ``adaptive``,
        the probability of all labels at least as likely, sets that are larger where a point is
        harder.
    serve : path, bytes or DataFrame, optional
        Points to make sets for, whose labels may be left out; else those of ``source``.

    Returns
    -------
    LabelSets
        Its threshold is that of ``latecomer.bounds.client_threshold``, on true labels' scores.

    Raises
    ------
    InputError
        Without probabilities, with weights, with too few clients, or for broken rows: one line.

    Examples
    --------
    >>> points = [
    ...     {"client": client, "label": 1, "p_0": 0.02 * client, "p_1": 1 - 0.02 * client}
    ...     for client in range(19)
    ... ]
    >>> sets = label_sets(points, alpha=0.1)
    >>> round(sets.threshold, 2), int(sets.sizes.max())
    (0.34, 1)
    """
    alpha = float(checked(failure_probability, "alpha of sets", alpha))
    delta = float(checked(failure_probability, "delta of sets", delta))
    one_of("score of sets", score, tuple(LABEL_SCORES))
    rows = read_points(source)
    served = rows if serve is None else read_points(serve, labelled=False)
    return _sets(rows, served, alpha, delta, score)


def _sets(rows: PointRows, served: PointRows, alpha: float, delta: float, score: str) -> LabelSets:
    of_labels = LABEL_SCORES[score].of
    chances, points = chances_of(rows), rows.points()
    served_chances = chances if served is rows else chances_of(served, rows.classes)
    scores = _scores(rows.called, points, of_labels(chances), alpha)
    threshold = float(client_threshold(scores=scores, alpha=alpha))
    names = list(served.numbers)
    return LabelSets(
        alpha=alpha,
        delta=delta,
        score=score,
        threshold=threshold,
        confident=float(confident_threshold(scores=scores, alpha=alpha, delta=delta)),
        n_clients=len(scores),
        n_points=len(chances),
        labels=rows.classes,
        clients=tuple(names[owner] for owner in served.client),
        held=labels_kept(of_labels(served_chances), threshold),
        truth=points.truth if served is rows else served.points().truth,
    )


def _scores(called: str, points: Points, every: Array, alpha: float) -> list[Array]:
    """Return each client's scores of its true labels; ``every`` has those of all labels."""
    refuse_weights(called, points)
    k = int(points.client.max()) + 1
    refuse_too_few(k, alpha)
    missed = of_truth(every, points.truth)
    return [missed[points.client == client] for client in range(k)]


def refuse_weights(called: str, points: Points) -> None:
    """Refuse points that do not count alike."""
    if (points.weight != 1).any():
        raise InputError(
            f"{called}: sets count the points of a client equally, got a weight of"
            f" {points.weight[points.weight != 1][0]:g}"
        )


def chances_of(rows: PointRows, labels: tuple[str, ...] = ()) -> Array:
    """Return the probabilities of all labels, which must be these if any are named."""
    if not rows.classes:
        raise InputError(
            f"{rows.called}: sets need the probabilities of all labels, p_0, p_1, ..., got a"
            " prediction alone"
        )
    if labels and rows.classes != labels:
        wanted, got = (
            ", ".join(f"p_{name}" for name in each[:8]) for each in (labels, rows.classes)
        )
        raise InputError(f"{rows.called}: must have the probabilities {wanted}, got {got}")
    return np.array(rows.chances)
