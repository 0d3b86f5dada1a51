"""Sends rounds and results of a run to TensorBoard, MLflow or a user's own function.

A tracker is called with a `Scalar` for every reported round (at most ten a second) and, when a cell
is done, for each of its numbers over clients.  It only listens: if it raises, its error is reported
once and the run goes on without it.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from latecomer.errors import InputError
from latecomer.eval.results.rows import read_rows
from latecomer.eval.runs.tally import Event
from latecomer.eval.shifts.populations import function_at


@dataclass(frozen=True)
class Scalar:
    """One number of a run.

    Attributes
    ----------
    series : str
        Label of the method and training seed: ``"pefll seed 0"``.
    name : str
        What it is: ``train/loss``, ``novel/error``, ``novel/error@blur 1``,
        ``certificate/r0:product``.
    value : float
    step : int
        Rounds trained by then.
    """

    series: str
    name: str
    value: float
    step: int


Tracker = Callable[[Scalar], None]


class _TensorBoard:
    """Event files in ``tensorboard`` of the run directory, a folder per series."""

    def __init__(self, study: str, out: Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise _lacks("tensorboard") from error
        self._make, self._folder = SummaryWriter, out / "tensorboard"
        self._writers: dict[str, Any] = {}

    def __call__(self, scalar: Scalar) -> None:
        if scalar.series not in self._writers:
            self._writers[scalar.series] = self._make(str(self._folder / scalar.series))
        self._writers[scalar.series].add_scalar(scalar.name, scalar.value, scalar.step)

    def close(self) -> None:
        for writer in self._writers.values():
            writer.close()


class _Mlflow:
    """An experiment named after the study, a run per series, stored as MLflow's settings say."""

    def __init__(self, study: str, out: Path) -> None:
        try:
            from mlflow import MlflowClient
        except ImportError as error:
            raise _lacks("mlflow") from error
        self._client = MlflowClient()
        known = self._client.get_experiment_by_name(study)
        self._experiment = known.experiment_id if known else self._client.create_experiment(study)
        self._runs: dict[str, str] = {}

    def __call__(self, scalar: Scalar) -> None:
        if scalar.series not in self._runs:
            made = self._client.create_run(self._experiment, run_name=scalar.series)
            self._runs[scalar.series] = made.info.run_id
        # MLflow's names have letters, digits and "_-. :/".
        name = "".join(c if c.isalnum() or c in "_-. :/" else " at " for c in scalar.name)
        self._client.log_metric(self._runs[scalar.series], name, scalar.value, step=scalar.step)

    def close(self) -> None:
        for run in self._runs.values():
            self._client.set_terminated(run)


TRACKERS: Mapping[str, type[_TensorBoard | _Mlflow]] = MappingProxyType(
    {"tensorboard": _TensorBoard, "mlflow": _Mlflow}
)
"""Trackers by name; anything else is the import path of a function that takes a `Scalar`."""


def _lacks(name: str) -> InputError:
    return InputError(f'track: {name} is not installed; pip install "latecomer[{name}]"')


def _opened(name: str, study: str, out: Path) -> tuple[Tracker, Callable[[], None]]:
    """Return a tracker and what closes it; a function of the user's own needs no closing."""
    if name in TRACKERS:
        made = TRACKERS[name](study, out)
        return made, made.close
    legal = f"track must be {', '.join(TRACKERS)} or module:function"
    return function_at(name, "track", legal), lambda: None


def _hand_on(tracker: Tracker, event: Event, out: Path) -> None:
    """Tell a tracker what an event says in numbers."""
    series = event.label if event.seed is None else f"{event.label} seed {event.seed}"
    if event.kind == "round" and event.loss is not None and event.round is not None:
        tracker(Scalar(series, "train/loss", event.loss, event.round + 1))
    elif event.kind == "done":
        for name, value in results_of(out / "cells" / event.cell / "rows.csv"):
            tracker(Scalar(series, name, value, event.rounds or 0))


@contextmanager
def tracked(
    names: tuple[str, ...], study: str, out: Path, say: Callable[[str], None]
) -> Iterator[Callable[[Event], None]]:
    """Open trackers for a run and yield the function that passes its events to them.

    They are names in `TRACKERS`, or places ``module:function`` and ``file.py:function``; one that
    is unknown or not installed is refused before any work.  ``say`` is called with a line about a
    tracker that stopped.
    """
    made = dict(enumerate(_opened(name, study, out) for name in names))
    going = dict(made)

    def attempt(place: int, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # whatever a server or a user's function raises
            going.pop(place, None)
            said = " ".join(f"{type(error).__name__}: {error}".split())
            say(f"tracking stopped, the run goes on: {said}")

    def tell(event: Event) -> None:
        for place, (tracker, _) in [*going.items()]:
            attempt(place, partial(_hand_on, tracker, event, out))

    try:
        yield tell
    finally:
        for place, (_, close) in made.items():
            attempt(place, close)


def results_of(rows: Path) -> Iterator[tuple[str, float]]:
    """Yield name and value of every number over clients in a cell's rows.

    Means over clients are ``group/metric``, with the shift after an ``@``; certificates are
    ``certificate/bound``; ``novel/gap`` is the error of new minus that of seen clients.
    """
    frame = read_rows(rows)
    certified = frame["metric"] == "certificate"
    means = (frame["aggregation"] == "per-client") & (frame["client"] == "") & ~certified
    for row in frame[means & frame["value"].notna()].to_dict("records"):
        moved = row["shift"] != "none"
        severity = f" {row['severity']:g}" if moved and row["severity"] == row["severity"] else ""
        shift = f"@{row['shift']}{severity}" if moved else ""
        # A row holds the gap of accuracies, people read that of errors: positive is worse.
        value = -row["value"] if row["metric"] == "gap" else row["value"]
        yield f"{row['group']}/{row['metric']}{shift}", float(value)
    for row in frame[certified & frame["value"].notna()].to_dict("records"):
        yield f"certificate/{row['bound']}", float(row["value"])
