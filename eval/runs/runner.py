"""The runner: computes a study's rows in a directory, each cell once despite interruptions."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from latecomer.certify.arguments import told_in_full
from latecomer.certify.planned import foretold, refuse_too_few
from latecomer.certify.words import count, counts
from latecomer.checks import as_path, several, short
from latecomer.errors import CannotWriteError, InputError
from latecomer.eval.devices import visible_gpus
from latecomer.eval.results.kept_cells import ARCHIVE
from latecomer.eval.runs.cell_directory import failure_of, is_done, says_storage
from latecomer.eval.runs.directory import (
    check_directory,
    check_sources,
    count_scorings,
    declare,
    merge,
    write_environment,
)
from latecomer.eval.runs.elsewhere import BOARDS
from latecomer.eval.runs.executor import Executor, cores_here
from latecomer.eval.runs.job import Job
from latecomer.eval.runs.local import LocalExecutor, refuse_to_start_again
from latecomer.eval.runs.lock import Watch
from latecomer.eval.runs.stopping import signals_interrupt
from latecomer.eval.runs.tally import Event, Failure, Tally
from latecomer.eval.settings.cell import RouteSettings, federation_settings
from latecomer.eval.settings.study_sections import ModelSettings
from latecomer.eval.splits.registry import SPLITS
from latecomer.eval.splits.split import Split
from latecomer.eval.studies.cells import Cell
from latecomer.eval.studies.checking import check_held_back, check_scored
from latecomer.eval.studies.loading import settled
from latecomer.eval.studies.settings import Study
from latecomer.eval.training.checkpoint_slots import CheckpointEvery
from latecomer.extras import require
from latecomer.files import remove_abandoned

if TYPE_CHECKING:
    from latecomer.eval.federation.groups import Federation
    from latecomer.models.engine.method import Method
    from latecomer.models.task.task import Task

    Trained = dict[str, tuple[Method, Task]]
    """Methods and what they train, by label."""

__all__ = ["Event", "Failure", "RunResult", "run"]

EVALUATE = "latecomer.eval.protocol:evaluate_cell"
_LOOK_EVERY = 0.5  # seconds between two looks at what another run holds


@dataclass(frozen=True)
class RunResult:
    """The result of a run.

    Attributes
    ----------
    path : Path
        The run directory; ``path / "rows.csv"`` holds all rows.
    n_cells, n_done, n_failed : int
        Cells of the study; finished; failed.  Includes cells of earlier and concurrent runs.
    n_skipped : int
        Cells that an earlier run had finished.
    n_adopted : int
        Cells taken over from other directories.
    failures : tuple of Failure
    seconds : float
        Wall time of this call.
    """

    path: Path
    n_cells: int
    n_done: int
    n_failed: int
    n_skipped: int
    failures: tuple[Failure, ...]
    seconds: float
    n_adopted: int = 0


_ARGUMENTS = """
Parameters
----------
study : Study
    What is to be run, as ``load_study`` returns it.
out : str or Path; optional
    The run directory; ``runs/`` and the study's name unless given.
workers : int, at least 1; optional
    Cores to use, for cells first, then for clients of each; unless given all, or one process for
    each GPU.
on_event : callable; optional
    Called with an ``Event`` while the run goes on: ``kind`` (``plan``, ``start``, ``round``,
    ``note``, ``retry``, ``held``, ``done``, ``failed``), ``cell``, ``label``, ``seed``, ``round``,
    ``loss``, ``done`` of ``total`` cells, ``message``.
executor : Executor; optional
    Where cells run: an object whose ``run(jobs, on_report)`` returns when all have ended; processes
    on this machine unless given.
evaluate : str
    ``module:function`` that does the work of a cell; the package's own unless given.
every : CheckpointEvery; optional
    How often trainings are checkpointed: ``seconds``, at least 0, and ``rounds``, at least 1, of
    which the first counts; every 60 seconds unless given.  No result depends on it.
adopt : sequence of str or Path; empty unless given
    Other run directories, whose finished cells are taken over where study, data and settings agree.
retry_failed : bool; False unless given
    Whether cells that failed are tried again.
extend : bool; False unless given
    Whether the study may have more methods, seeds or shifts than the run in the directory.

Returns
-------
RunResult
    Frozen.  ``path`` of the directory, which has all rows in ``rows.csv``; numbers of cells:
    ``n_cells``, ``n_done``, ``n_failed``, ``n_skipped`` (finished by an earlier run) and
    ``n_adopted``; ``failures``, and ``seconds`` of wall time.

Examples
--------
>>> small = ["methods=[fedavg]", "train.rounds=2", "seeds=[0]"]  # doctest: +SKIP
>>> result = run(load_study("generalization-gap", small), out="mine", workers=1)  # doctest: +SKIP
>>> result.n_cells, result.n_failed  # doctest: +SKIP
(2, 0)
"""


@told_in_full(_ARGUMENTS)
def run(
    study: Study,
    *,
    out: str | Path | None = None,
    workers: int | None = None,
    on_event: Callable[[Event], None] | None = None,
    executor: Executor | None = None,
    evaluate: str = EVALUATE,
    every: CheckpointEvery | None = None,
    adopt: Sequence[str | Path] = (),
    retry_failed: bool = False,
    extend: bool = False,
) -> RunResult:
    """Run the cells of a study that are not done yet and merge the rows of all.

    Data and split are made once before anything is written, so a study that cannot work leaves no
    files.  A cell that fails becomes a row with its error.  A run that was killed continues when it
    is called again, and ends with the same rows; several runs may share a directory.  Cells run in
    newly started processes: a script that calls this needs ``if __name__ == "__main__":``.

    Parameters
    ----------
    study, out
        A study from `load_study`; the run directory, ``runs/<study>`` unless given.
    workers : int, optional
        Cores to use, for cells first, then for clients of each; all, or one process a GPU.
    on_event : callable, optional
        Called with an `Event`.
    executor, evaluate
        Where cells run, local processes unless given; ``module:function`` that does the work.
    every : CheckpointEvery, optional
        How often trainings are checkpointed; every minute unless given.
    adopt : sequence of str or Path
        Other run directories whose finished cells are taken over where the ids agree.
    retry_failed, extend : bool
        Whether to try failed cells again; whether methods, seeds and shifts may be added.

    Raises
    ------
    InputError
        For unavailable data, split or device, another directory, a script without main guard.
    CannotWriteError
        When the disk is full or read-only; finished cells stay finished.
    KeyboardInterrupt
        On Ctrl-C, SIGTERM, SIGHUP or SIGUSR1, after the workers stopped; it says how to continue.
    """
    began = time.monotonic()
    _refuse_to_begin(study, workers, on_event, executor, evaluate, every)
    folder = as_path("out", out) if out is not None else Path("runs") / study.study
    check_sources(sources := _sources(adopt, folder))
    study = settled(study, gpus_elsewhere=getattr(executor, "gpus_per_cell", None))
    check_directory(folder, study, extend=extend)
    prepared = _prepare(study)
    tally = Tally(folder, _jobs(prepared, folder, evaluate, every), on_event)
    with _told(tally):
        # First of all: what a run adopts lies in a run directory, if it is stopped too.
        declare(folder, study, prepared.cells, extend=extend)
        tally.plan(sources, retry_failed=retry_failed)
        _carry_out(study, prepared, tally, executor, workers)
    return _result(tally, time.monotonic() - began)


def _refuse_to_begin(
    study: Any, workers: Any, on_event: Any, executor: Any, evaluate: Any, every: Any
) -> None:
    """Refuse a second start by a worker, an install that cannot train, and what is not legal."""
    refuse_to_start_again()
    require()
    if workers is not None and (type(workers) is not int or workers < 1):
        raise InputError(f"workers must be an integer of at least 1, got {workers!r}")
    legal = {
        "study must be a Study, as load_study returns": (study, isinstance(study, Study)),
        "on_event must be a function": (on_event, on_event is None or callable(on_event)),
        "executor must have a method run": (executor, executor is None or hasattr(executor, "run")),
        "evaluate must read module:function": (evaluate, ":" in str(evaluate)),
        "every must be a CheckpointEvery": (every, isinstance(every, CheckpointEvery | None)),
    }
    for said, (given, fits) in legal.items():
        if not fits:
            raise InputError(f"{said}, got {short(given)}")


def _sources(adopt: Any, folder: Path) -> list[Path]:
    """Return the sources of finished cells, including this directory if its cells are packed."""
    given = [as_path("adopt", one) for one in several(adopt)]
    return [*given, *([folder] if (folder / ARCHIVE).is_file() else [])]


def _jobs(
    prepared: "_Prepared", folder: Path, evaluate: str, every: CheckpointEvery | None
) -> list[Job]:
    every = every or CheckpointEvery()
    return [Job(cell, folder / "cells" / cell.id, evaluate, every) for cell in prepared.cells]


def _carry_out(
    study: Study,
    prepared: "_Prepared",
    tally: Tally,
    executor: Executor | None,
    workers: int | None,
) -> None:
    """Run the cells that are left, and merge the rows of all."""
    remove_abandoned(tally.folder, BOARDS)
    # Several processes on one GPU only take turns: one process for each GPU.
    gpus = visible_gpus() if study.train.device else ()
    cores = max(len(gpus), 1) if study.train.device else cores_here()
    executor = executor or LocalExecutor(workers or cores)
    n_workers, threads = min(workers or cores, n_todo := max(len(tally.todo), 1)), 1
    if isinstance(executor, LocalExecutor):
        executor = replace(executor, gpus=gpus)
        n_workers = min(executor.processes(), n_todo)
        threads = executor.threads(n_workers)
    if tally.todo:
        write_environment(tally.folder, study, prepared.found)
    tally.announce(n_workers, prepared.data, threads)
    _work_off(tally, executor)
    merge(tally.folder)
    count_scorings(tally.folder, tally.jobs, prepared.split_hash, prepared.n_certification)


def _result(tally: Tally, seconds: float) -> RunResult:
    return RunResult(
        path=tally.folder,
        n_cells=len(tally.jobs),
        n_done=tally.n_done,
        n_failed=len(tally.failures),
        n_skipped=tally.n_skipped,
        failures=tuple(tally.failures),
        seconds=seconds,
        n_adopted=tally.n_adopted,
    )


@contextmanager
def _told(tally: Tally) -> Iterator[None]:
    """Make Ctrl-C, the signals that ask to stop and a disk that is full say how to continue."""
    try:
        with signals_interrupt():
            yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"stopped with {tally.n_done} of {len(tally.jobs)} cells done; "
            f"the same command continues in {tally.folder}"
        ) from None
    except OSError as error:
        known = isinstance(error, CannotWriteError) or error is tally.unheard
        if known or not says_storage(error, tally.folder):
            raise
        raise tally.cannot_write(error.strerror or str(error)) from error


def _work_off(tally: Tally, executor: Executor) -> None:
    """Continue until every cell is done or failed, in this run or in another that holds it."""
    watch = Watch()
    todo, elsewhere = tally.todo, list[Job]()
    while todo or elsewhere:
        if todo:
            executor.run(todo, tally.listener(todo))
        elsewhere += tally.take_held()
        todo = []
        for job in list(elsewhere):
            owner, free = watch.look(job.folder)
            if is_done(job.folder) or failure_of(job.folder) is not None:
                tally.settle(job)
            elif free:
                todo.append(replace(job, overrules=owner.token if owner else ""))
            else:
                continue
            elsewhere.remove(job)
        if elsewhere and not todo:
            time.sleep(_LOOK_EVERY)


@dataclass(frozen=True)
class _Prepared:
    """What preparing a study found."""

    cells: tuple[Cell, ...]
    split_hash: str
    n_certification: int
    data: str
    found: dict[str, Any]


def _delta_of(held: Sequence[RouteSettings]) -> float | None:
    """Return the failure probability of the first certificate that has one."""
    deltas = [getattr(entry, "delta", None) for entry in held]
    return next((one for one in deltas if one), None)


def _clients_told(
    split: Split, points: Sequence[int], held: Sequence[RouteSettings]
) -> Iterator[str]:
    """Say of natural clients who does what, and what certificates to expect."""
    if not SPLITS[split.kind].natural:
        return
    sizes = len(split.seen), len(split.certification), len(split.novel)
    yield foretold(sizes, split.n_outside, _delta_of(held))
    n_left = len(split.left_out)
    left = f"; {count(n_left, 'client')} left out" if n_left else ""
    yield f"a client holds {counts(points, 'point')}{left}"
    for name, clients in split.apart:
        yield f"held back, and measured beside: {count(len(clients), 'client')} of {name}"


def _foresee(study: Study, federation: "Federation") -> None:
    """Refuse methods that could not make the study's target, before anything is tried."""
    from latecomer.eval.training.setup import foresee
    from latecomer.models.methods import make_method

    for index, entry in enumerate(study.methods):
        try:
            foresee(federation, study.model, make_method(entry.name, **entry.hyper()))
        except ValueError as error:
            raise InputError(f"methods.{index}: {error}") from None


def _ways(study: Study, trained: "Trained") -> dict[str, tuple[str, int | None]]:
    """Say by a method's label which path its cells record, and that path's version."""
    from latecomer.eval.training.setup import recorded_way

    train = study.train
    return {
        label: recorded_way(train.path, method, task, train.device, train.precision)
        for label, (method, task) in trained.items()
    }


_WAYS = {"serial": "one after another", "vectorised": "all at once"}
"""How the clients of a round train, by path."""


def _chosen_told(study: Study, network: str, trained: "Trained") -> Iterator[str]:
    """Say what ``auto`` stands for here: the network, and the way that clients train."""
    import torch

    from latecomer.models.engine.vectorised import choose_path

    train, by_way = study.train, dict[str, list[str]]()
    chosen = [f"network {network}"] if network else []
    if train.path == "auto":
        device = torch.device(train.device or "cpu")
        for label, (method, task) in trained.items():
            if method.needs_training:
                way, _ = choose_path("auto", None, method, task, device, train.precision)
                by_way.setdefault(_WAYS[way], []).append(label)
        ways = [
            way if len(by_way) == 1 else f"{way} ({', '.join(labels)})"
            for way, labels in by_way.items()
        ]
        chosen += [f"clients of a round train {' and '.join(ways)}"] if ways else []
    if chosen:
        yield f"auto: {', '.join(chosen)}"


def _unread_told(study: Study, trained: "Trained") -> Iterator[str]:
    """Say which networks that are given not all methods read; those from outside may read any."""
    from latecomer.models.families.described_clients import DescribedClients
    from latecomer.models.families.embedded_clients import EmbeddedClients
    from latecomer.models.families.generated_clients import GeneratedClients
    from latecomer.models.methods import METHODS

    with_encoder = (GeneratedClients,)
    with_hypernetwork = (GeneratedClients, DescribedClients, EmbeddedClients)
    for key, families in (("encoder", with_encoder), ("hypernetwork", with_hypernetwork)):
        if getattr(study.model, key) == ModelSettings.model_fields[key].default:
            continue
        outside = {entry.label for entry in study.methods if entry.name not in METHODS}
        reading = [
            label
            for label, (method, _) in trained.items()
            if isinstance(method, families) or (label in outside and method.needs_training)
        ]
        if not reading:
            yield f"warning: model.{key} is read by no method of the study"
        elif len(reading) < len(trained):
            yield f"model.{key} is read by {', '.join(reading)} alone"


def _fitting(study: Study, federation: "Federation", index: int) -> "tuple[Method, Task]":
    """Return one of the study's methods and its task; refuse what could not be trained or serve."""
    from latecomer.eval.training.own_methods import refuse_broken_promises
    from latecomer.eval.training.setup import few_clients, rehearse, task_of, try_given
    from latecomer.models.engine.schedule import refuse_few_rounds, refuse_few_steps
    from latecomer.models.generators.hypernetworks import check_sizes
    from latecomer.models.methods import METHODS, make_method

    entry = study.methods[index]
    method = make_method(entry.name, **entry.hyper())
    try:
        task = task_of(federation, study.model, method)
        check_sizes(task, method.sizes, len(federation.split.seen))
    except ValueError as error:
        key = f"methods.{index}.sizes" if method.sizes else "model"
        raise InputError(f"{key}: {error}") from None
    try:
        if not method.needs_training:
            try_given(federation, method, task)
            return method, task
        # Of the others no setting is too much for a net of the package.
        if task.needs_trial or hasattr(method, "head_layers") or entry.name not in METHODS:
            rehearse(federation, method, task)
        if entry.name not in METHODS:
            refuse_broken_promises(method, task, few_clients(federation, task))
        phases = method.phases(task)
    except ValueError as error:
        raise InputError(f"methods.{index}: {error}") from None
    try:
        refuse_few_steps(phases, study.train.local_steps, str(entry.label))
        refuse_few_rounds(phases, study.train.rounds, str(entry.label))
    except ValueError as error:
        raise InputError(f"train.{error}") from None
    return method, task


def _prepare(study: Study) -> _Prepared:
    """Make data, split and shifts once, so that what cannot be made is found early."""
    from latecomer.eval.federation.groups import build_federation
    from latecomer.models.task.targets import choose

    # On the host, whatever the device: nothing is computed with it here.
    federation = build_federation(federation_settings(study))
    split = federation.split
    if study.train.cohort > len(split.seen):
        raise InputError(
            f"train.cohort must be at most the number of seen clients, {len(split.seen)}, "
            f"got {study.train.cohort}"
        )
    check_held_back(study, split)
    check_scored(study, split)
    held = [entry for entry in study.certificates if entry.needs_certification]
    points = [len(client.rows("all")) for client in split.clients]
    if held and SPLITS[split.kind].natural:
        refuse_too_few(len(points), points, _delta_of(held) or 0.05)
    for index, wanted in enumerate(study.certificates):
        wanted.check_split(f"certificates.{index}", split)
    _foresee(study, federation)
    trained: Trained = {}
    for index, entry in enumerate(study.methods):
        method, _ = trained[str(entry.label)] = _fitting(study, federation, index)
        for place, wanted in enumerate(study.certificates):
            wanted.check_predictors(f"certificates.{place}", split.kind, method.predictors)
    network = choose(federation.dataset.x.shape[1:]) if study.model.target == "auto" else ""
    told = "\n".join(
        [
            *federation.dataset.told(),
            *_chosen_told(study, network, trained),
            *_unread_told(study, trained),
            *_clients_told(split, points, held),
        ]
    )
    facts = {"copies": federation.dataset.copies(), "network": network}
    found = {name: fact for name, fact in facts.items() if fact}
    cells = study.cells(federation.data_hash, _ways(study, trained))
    return _Prepared(cells, split.content_hash, len(split.certification), told, found)
