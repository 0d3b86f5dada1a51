"""Points of clients that keep arriving: how many of each client's own a fixed threshold misses."""

from collections.abc import Callable
from functools import partial
from os import PathLike

import numpy as np

from latecomer.certify.label_scores import LABEL_SCORES, labels_kept
from latecomer.certify.points import PointRows, read_points
from latecomer.certify.sources import file_bytes, named
from latecomer.certify.table import read_arrivals
from latecomer.errors import InputError

Arrivals = tuple[tuple[str, float], ...]


def missed_in_order(source: str | bytes | PathLike[str], threshold: float) -> Arrivals:
    r"""Return clients in the order of arrival, each with the share of its points that sets miss.

    A set holds the labels whose 1 - p is at most the threshold, and the likeliest if none is.

    Parameters
    ----------
    source : path or bytes
        As for :func:`~latecomer.certify.points.score_points`, with the probabilities of all labels;
        a client's points stand together.
    threshold : float
        Of 1 - p, fixed before these clients.

    Raises
    ------
    InputError
        Without probabilities, with weights, or where a client comes back after another one.

    Examples
    --------
    >>> points = b"client,label,p_0,p_1\nann,0,.9,.1\nann,1,.8,.2\nbob,1,.4,.6\n"
    >>> missed_in_order(points, 0.5)
    (('ann', 0.5), ('bob', 0.0))
    """
    rows = read_points(source)
    if not rows.classes:
        raise InputError(
            f"{rows.called}: sets need the probabilities of all labels, p_0, p_1, ..., got a"
            " prediction alone"
        )
    points = rows.points()
    _refuse(rows)
    held = labels_kept(LABEL_SCORES["probability"].of(np.array(rows.chances)), threshold)
    missed = ~held[np.arange(len(held)), points.truth]
    counts = np.bincount(points.client)
    shares = np.bincount(points.client, missed) / counts
    return tuple(zip(rows.numbers, shares.tolist(), strict=True))


def _refuse(rows: PointRows) -> None:
    """Refuse weights, and clients whose points do not stand together."""
    for weight in rows.weight:
        if weight != 1:
            raise InputError(
                f"{rows.called}: sets count the points of a client equally, got a weight of"
                f" {weight:g}"
            )
    names, latest = list(rows.numbers), -1
    for number in rows.client:
        if number < latest:
            raise InputError(
                f"{rows.called}: client {names[number]!r} has points after those of"
                f" {names[latest]!r}; a client arrives once, with all of its points"
            )
        latest = max(latest, number)


def _arrivals(
    path: str | PathLike[str], *, loss_max: float, whole: bool, threshold: float
) -> Arrivals:
    """Read a file of points that may grow: its last client may have further points to come."""
    if whole:
        return missed_in_order(path, threshold)
    data = file_bytes(named(path))
    data = data[: data.rfind(b"\n") + 1]
    if data.count(b"\n") < 2:
        return ()
    return missed_in_order(data, threshold)[:-1]


def reader_of(threshold: float | None, column: str = "loss") -> Callable[..., Arrivals]:
    """Return what reads arrivals: a column's numbers or, with a threshold of sets, points."""
    if threshold is None:
        return partial(read_arrivals, column=column)
    return partial(_arrivals, threshold=threshold)
