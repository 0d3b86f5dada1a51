"""Points in place of losses: what a model predicted for each sample, and one score a client.

A score is the same function of every client's points, so that whatever is certified of losses is
certified of it: the error, one minus the area under the ROC curve, the Brier score, the calibration
error.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latecomer.bounds.certificate import Array
from latecomer.certify.table import LossTable, Source, named, rows_of, table_of
from latecomer.certify.table_rows import Rows
from latecomer.checks import one_number, one_of, told
from latecomer.errors import InputError, refused_at
from latecomer.reading.ids import is_gap, refuse_labels

_OF_LABEL = re.compile(r"p_(.+)")
_INTEGRAL = re.compile(r"[+-]?\d+(\.0*)?")
_CALIBRATION_BINS = 10
# Probabilities written with four digits may miss 1 by so much.
_SUM_SLACK = 1e-3


@dataclass(frozen=True, eq=False)
class Points:
    """What was predicted for the points of clients."""

    # The classes: those that have a column of probabilities, or those that occur, sorted.
    labels: tuple[str, ...]
    # Place of the true label in ``labels``; -1 where none is given; [points].
    truth: NDArray[np.int64]
    # Place of the predicted label; with a single column of numbers, those numbers; [points].
    predicted: Array
    probabilities: Array | None  # [points, classes]; None where only a prediction is given
    # Number of the client, and weight of the point among its client's; [points].
    client: NDArray[np.int64]
    weight: Array


@dataclass
class PointRows(Rows):
    """Rows of points as columns; what a row of losses must hold but the loss, they hold too."""

    loss_max: float = 1.0
    by: str | None = None
    labelled: bool = True  # whether every point must have its true label
    numbers_wanted: bool = False  # whether predictions that stand alone are numbers, not labels
    called: str = "points"  # what messages call the source
    truth: list[str] = field(default_factory=list)
    predicted: list[Any] = field(default_factory=list)
    chances: list[tuple[float, ...]] = field(default_factory=list)
    classes: tuple[str, ...] = ()

    def asked(self, names: Sequence[str]) -> list[str]:
        """Return the columns that a source must have; ``names`` are those that it has."""
        self.classes = tuple(m[1] for name in names if (m := _OF_LABEL.fullmatch(name)))
        self._check_classes()
        label = ["label"] if self.labelled or "label" in names else []
        own = [f"p_{name}" for name in self.classes]
        predicted = ["prediction"] if not own or "prediction" in names else []
        return ["client", *label, *predicted, *own, *self.further]

    def hint(self, wanted: str, names: Sequence[str]) -> str:
        """Return what may help somebody whose source lacks a column; maybe nothing."""
        if wanted == "prediction":
            return "; or probabilities, one column a label: p_0, p_1, ..."
        return Rows.hint(self, wanted, names)

    def put(self, where: Callable[[], str], values: Mapping[str, Any]) -> None:
        """Add one point."""
        if self.classes:
            self.chances.append(self._chances(where, values))
        truth = values.get("label")
        if self.labelled and is_gap(truth):
            raise InputError(f"{where()}: no label is given, got {told(truth)}")
        self.truth.append("" if is_gap(truth) else _label(truth))
        if "prediction" in values:
            self.predicted.append(self._predicted(where, values["prediction"]))
        Rows.put(self, where, {**values, "loss": 0.0})

    def _predicted(self, where: Callable[[], str], given: Any) -> Any:
        """Read a prediction: a label's name, or a number."""
        if is_gap(given):
            raise InputError(f"{where()}: no prediction is given, got {told(given)}")
        number = one_number(given)
        if self.numbers_wanted and not self.classes:
            if not math.isfinite(number):
                raise InputError(f"{where()}: prediction must be a number, got {told(given)}")
            return number
        if math.isfinite(number) and not number.is_integer():
            raise InputError(
                f"{where()}: prediction must be a label, got {told(given)}; numbers go with score"
                " auc, brier or calibration"
            )
        return _label(given)

    def _check_classes(self) -> None:
        if len(self.classes) == 1:
            raise InputError(
                f"probabilities need one column a label, p_0, p_1, ..., got p_{self.classes[0]}"
                " alone"
            )
        numbered = all(map(str.isdecimal, self.classes))
        missing = [str(i) for i in range(len(self.classes)) if str(i) not in self.classes]
        if self.classes and numbered and missing:
            raise InputError(
                f"probabilities of labels 0, 1, ... need a column each: no p_{missing[0]} among"
                f" {', '.join(f'p_{name}' for name in self.classes)}"
            )

    def _chances(self, where: Callable[[], str], values: Mapping[str, Any]) -> tuple[float, ...]:
        """Read the probabilities of all labels."""
        names = [f"p_{name}" for name in self.classes]
        chances = tuple(one_number(values[name]) for name in names)
        for name, chance in zip(names, chances, strict=True):
            if not 0 <= chance <= 1:
                raise InputError(f"{where()}: {name} must lie in [0, 1], got {told(values[name])}")
        total = math.fsum(chances)
        if abs(total - 1) > _SUM_SLACK:
            raise InputError(
                f"{where()}: probabilities must sum to 1, got {total:.6g} in {', '.join(names[:8])}"
            )
        return chances

    def points(self) -> Points:
        """Return all points; the labels that were written are checked together."""
        written = {name for name in self.truth if name}
        names = self.classes or tuple(sorted(written, key=_by_number))
        named = [] if self.numbers_wanted and not self.classes else self.predicted
        with refused_at(self.called):
            refuse_labels(written.union(names, named))
        place = {name: i for i, name in enumerate(names)}
        if self.classes and (unknown := sorted(written - place.keys())):
            columns = ", ".join(f"p_{name}" for name in names[:8])
            raise InputError(f"{self.called}: label {unknown[0]!r} has no column among {columns}")
        chances = np.array(self.chances) if self.classes else None
        # A prediction that is nobody's label is a class of its own: never right.
        places = named and [place.get(name, len(place)) for name in named]
        predicted = np.array(places or self.predicted, dtype=float)
        if not len(predicted) and chances is not None:
            predicted = chances.argmax(axis=1).astype(float)
        return Points(
            labels=names,
            truth=np.array([place.get(name, -1) for name in self.truth], dtype=np.int64),
            predicted=predicted,
            probabilities=chances,
            client=np.array(self.client, dtype=np.int64),
            weight=np.array(self.weight),
        )


def _label(cell: Any) -> str:
    """Return a label's name: 1.0, 1 and True are one."""
    if isinstance(cell, str):
        return cell.strip()
    number = one_number(cell)
    return str(int(number)) if number.is_integer() else str(cell)


def _by_number(name: str) -> tuple[float, str]:
    return (float(name), name) if _INTEGRAL.fullmatch(name) else (math.inf, name)


def _of_one_label(points: Points, score: str) -> Array:
    """Return the number that speaks for the second of two labels, one a point."""
    if len(points.labels) != 2:
        raise InputError(
            f"score {score} of one number a point needs two labels, got {len(points.labels)}:"
            f" {', '.join(points.labels[:5])}"
        )
    if points.probabilities is not None:
        return np.asarray(points.probabilities[:, 1])
    return points.predicted


def _chances(points: Points, score: str) -> Array:
    """Return the probabilities of all labels, of two where the second's are given."""
    if points.probabilities is not None:
        return points.probabilities
    second = _of_one_label(points, score)
    outside = second[(second < 0) | (second > 1)]
    if outside.size:
        raise InputError(
            f"score {score} needs probabilities: prediction must lie in [0, 1], got {outside[0]:g}"
        )
    return np.stack([1 - second, second], axis=1)


def _error(points: Points, rows: Rows) -> Array:
    return rows.means((points.predicted != points.truth).astype(float))


def _brier(points: Points, rows: Rows) -> Array:
    chances = _chances(points, "brier")
    away = chances - np.eye(chances.shape[1])[points.truth]
    return rows.means(np.minimum((away**2).sum(axis=1) / 2, 1.0))


def _by_client(points: Points, rows: Rows, of: Callable[[NDArray[np.int64]], float]) -> Array:
    rows.means()  # which refuses clients without any weight
    order = np.argsort(points.client, kind="stable")
    ends = np.searchsorted(points.client[order], np.arange(len(rows.numbers) + 1))
    return np.array([of(order[ends[i] : ends[i + 1]]) for i in range(len(rows.numbers))])


def _auc(points: Points, rows: Rows) -> Array:
    number = _of_one_label(points, "auc")

    def of(own: NDArray[np.int64]) -> float:
        levels, level = np.unique(number[own], return_inverse=True)
        second = points.truth[own] == 1
        weight = points.weight[own]
        above = np.bincount(level, weight * second, len(levels))
        below = np.bincount(level, weight * ~second, len(levels))
        pairs = above.sum() * below.sum()
        if not pairs:
            return math.nan
        # A pair is wrong where the first label has the larger number, half wrong in a tie.
        wrong = above * (below.sum() - np.cumsum(below) + below / 2)
        return min(1.0, float(wrong.sum() / pairs))

    return _by_client(points, rows, of)


def _calibration(points: Points, rows: Rows) -> Array:
    chances = _chances(points, "calibration")
    confidence = chances.max(axis=1)
    hit = chances.argmax(axis=1) == points.truth
    bins = np.minimum((confidence * _CALIBRATION_BINS).astype(int), _CALIBRATION_BINS - 1)

    def of(own: NDArray[np.int64]) -> float:
        off = points.weight[own] * (hit[own] - confidence[own])
        gaps = np.bincount(bins[own], off, _CALIBRATION_BINS)
        return min(1.0, float(np.abs(gaps).sum() / points.weight[own].sum()))

    return _by_client(points, rows, of)


@dataclass(frozen=True)
class _Score:
    words: str
    of_clients: Callable[[Points, Rows], Array]
    of_numbers: bool = True  # whether it needs a number a point rather than a label


SCORES: Mapping[str, _Score] = {
    "error": _Score("share of its points that are predicted wrongly", _error, of_numbers=False),
    "auc": _Score("1 - area under the ROC curve of its points, ties counted half", _auc),
    "brier": _Score("mean Brier score of its points, in [0, 1]", _brier),
    "calibration": _Score(
        f"expected calibration error in {_CALIBRATION_BINS} equal bins of the largest probability,"
        " as measured on its own points, which few points make larger",
        _calibration,
    ),
}


def read_points(
    source: Source | PointRows,
    *,
    score: str = "error",
    labelled: bool = True,
    by: str | None = None,
    order: str | None = None,
) -> PointRows:
    r"""Read points for a score, each with a label unless ``labelled`` is false.

    ``PointRows`` are returned unchanged.

    Examples
    --------
    >>> read_points(b"client,label,prediction\nann,cat,dog\n").points().labels
    ('cat',)
    """
    one_of("score", score, tuple(SCORES))
    if isinstance(source, PointRows):
        return source
    rows = PointRows(
        by=by,
        order=order,
        called=named(source),
        labelled=labelled,
        numbers_wanted=SCORES[score].of_numbers,
    )
    rows_of(source, rows)
    if len(rows.truth) != len(rows.loss):
        raise InputError(
            "points need a file or a DataFrame with the columns client, label and prediction, or"
            f" p_0, p_1, ..., got {type(source).__name__}"
        )
    return rows


def score_points(
    source: Source | PointRows,
    *,
    score: str = "error",
    by: str | None = None,
    order: str | None = None,
) -> LossTable:
    r"""Score every client on its points: a table of losses that ``certify_losses`` takes.

    Parameters
    ----------
    source : path, bytes, DataFrame or PointRows
        CSV, JSON or Parquet file, its bytes, or a frame: a row a point with the columns ``client``,
        ``label`` and ``prediction``, or in its place probabilities ``p_0``, ``p_1``, ... that sum
        to 1 (``p_cat``, ``p_dog``, ... of named labels).  ``prediction`` holds labels, or one
        number that speaks for the second of two labels.  ``weight`` weighs points inside a client,
        never clients.  Or what `read_points` made of one, with its own ``by`` and ``order``.
    score : {"error", "auc", "brier", "calibration"}
        Smaller is better, all lie in [0, 1]: share of wrong predictions (the largest probability is
        the prediction, the first of equal ones); one minus the area under the ROC curve; half the
        squared distance of the probabilities from the truth; expected calibration error in ten
        equal bins.
    by, order : str, optional
        Columns, as for :func:`~latecomer.certify.losses.certify_losses`, which is to be given the
        same ``by``; the order it takes from the table.

    Returns
    -------
    LossTable
        A client whose points hold one label has no AUC and is left out; the notes say how many, and
        that what is certified is of clients whose points hold both.

    Raises
    ------
    InputError
        One line naming file, line and column, what is legal and what was given.

    Examples
    --------
    >>> points = b"client,label,p_0,p_1\nann,0,.9,.1\nann,1,.2,.8\nbob,0,.3,.7\nbob,1,.4,.6\n"
    >>> table = score_points(points, score="auc")
    >>> table.clients, table.losses
    (('ann', 'bob'), (0.0, 1.0))
    """
    rows = read_points(source, score=score, by=by, order=order)
    losses = SCORES[score].of_clients(rows.points(), rows)
    without = int(np.isnan(losses).sum())
    if without == len(losses):
        raise InputError(f"score {score} needs clients whose points hold both labels, got none")
    notes = [f"score {score}: a client's {SCORES[score].words}"]
    if without:
        notes.append(
            f"{without} of {len(losses)} clients left out: their points hold one label; what is"
            " certified is of clients whose points hold both, and so must a pool size be"
        )
    kept = [note for note in rows.notes() if not note.endswith(", averaged")]
    return table_of(rows, losses, (*notes, *kept))
