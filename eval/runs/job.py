"""The work of one cell in its directory: from its configuration, or its checkpoint, to ``done``."""

import contextlib
import json
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from latecomer.declared import imported
from latecomer.errors import InputError
from latecomer.eval.results.rows import rows_to_text, write_artifact
from latecomer.eval.runs.cell_directory import (
    Progress,
    failure_of,
    identity,
    is_done,
    record_failure,
    says_storage,
    seal,
    tidy,
)
from latecomer.eval.runs.checkpoints import CellCheckpoints, remove_checkpoints
from latecomer.eval.runs.lock import HeldError, Lock, held, owner_of
from latecomer.eval.runs.stopping import allow_stop
from latecomer.eval.studies.cells import Cell
from latecomer.eval.training.checkpoint_slots import CheckpointEvery, Checkpoints
from latecomer.files import write_atomic
from latecomer.models.engine.threads import client_threads

if TYPE_CHECKING:
    from latecomer.eval.training.setup import Outcome
    from latecomer.models.engine.training import RoundLog

    Evaluate = Callable[[Mapping[str, Any], Callable[[RoundLog], None], Checkpoints], Outcome]


@dataclass(frozen=True)
class Job:
    """A cell, its directory, and the function that does its work."""

    cell: Cell
    folder: Path
    evaluate: str  # ``"module:function"``, imported by whoever does the work
    every: CheckpointEvery = field(default_factory=CheckpointEvery)
    overrules: str = ""  # token of a lock on the cell whose owner has been found dead
    threads: int = 1  # threads that the clients of its trainings work in, which changes no row


@dataclass(frozen=True)
class Ending:
    """How an attempt at a cell ended."""

    # ``done``; ``failed``; ``held`` (another process works on it); ``halted`` (its directory cannot
    # be written, which is not the cell's fault).
    kind: Literal["done", "failed", "held", "halted"]
    message: str = ""  # why, in a line
    details: str = ""  # the full traceback


class FailedBeforeError(RuntimeError):
    """The cell has failed in another process, whose message this has."""


def attempt(
    job: Job, on_round: Callable[[int, float], None], on_note: Callable[[str], None]
) -> Ending:
    """Do the work of a cell and say how it ended; a failure is recorded while the cell is held.

    Raises only what ends the process: ``SystemExit`` and ``KeyboardInterrupt``.
    """
    try:
        carry_out(job, on_round, on_note)
    except HeldError as error:
        return Ending("held", str(error))
    except FailedBeforeError as error:
        return Ending("failed", str(error))
    except Exception as error:
        kind: Literal["failed", "halted"] = (
            "halted" if says_storage(error, job.folder) else "failed"
        )
        return Ending(kind, why(error), "".join(traceback.format_exception(error)))
    return Ending("done")


def carry_out(
    job: Job,
    on_round: Callable[[int, float], None],
    on_note: Callable[[str], None] = lambda text: None,
) -> None:
    """Do the work of a cell, from its last checkpoint if it has one, and mark it done.

    The cell is locked meanwhile.  ``done`` is written last and holds the hash of ``rows.csv``; a
    cell without it counts as not run.  A process that is asked to end first writes a checkpoint of
    the last finished round.  ``HeldError``: another process works on the cell, or has taken it
    over; ``FailedBeforeError``: it has meanwhile failed in another.
    """
    with held(job.folder, overrules=job.overrules) as lock:
        if is_done(job.folder):
            return  # finished by another process since the plan was made
        failure = failure_of(job.folder)
        if failure is not None:
            raise FailedBeforeError(failure)
        try:
            _carry_out(job, lock, on_round, on_note)
        except HeldError:
            raise
        except Exception as error:
            if not says_storage(error, job.folder):
                lock.check()
                details = "".join(traceback.format_exception(error))
                record_failure(job.cell, job.folder, why(error), details)
            raise


def sweep(folder: Path) -> None:
    """Remove what is left of a process that ended just after it had marked its cell done."""
    if owner_of(folder) is None and not (folder / "checkpoints").exists():
        return
    # A directory that cannot be written stays as it is, and what another process holds is not ours.
    with contextlib.suppress(HeldError, OSError), held(folder):
        remove_checkpoints(folder)


def _carry_out(
    job: Job,
    lock: Lock,
    on_round: Callable[[int, float], None],
    on_note: Callable[[str], None],
) -> None:
    folder, config = job.folder, job.cell.config
    tidy(folder, keep=lock.path.name)
    write_atomic(folder / "config.json", json.dumps(config, indent=1, sort_keys=True) + "\n")
    started = time.time()
    evaluate: Evaluate = imported(job.evaluate)
    progress = Progress(folder / "progress.jsonl")
    notes: list[str] = []

    def note(text: str) -> None:
        notes.append(text)
        with _while_anyone_listens():
            on_note(text)

    kept = CellCheckpoints(
        folder, job.cell.id, progress, every=job.every, guard=lock.check, note=note
    )

    def log(entry: "RoundLog") -> None:
        if lock.lost:
            lock.check()
        while notes:
            progress.note(notes.pop(0))
        progress.log(entry)
        with _while_anyone_listens():
            on_round(int(entry.round), float(entry.loss))

    try:
        with client_threads(job.threads):
            outcome = evaluate(config, log, kept)
    except (SystemExit, KeyboardInterrupt):
        kept.write_last()
        raise
    else:
        progress.finish()
    finally:
        progress.close()
        allow_stop()
    lock.check()
    for name, artifact in outcome.artifacts.items():
        write_artifact(folder / "artifacts", name, artifact)
    named = identity(job.cell)
    text = rows_to_text(
        {**row, **named, "status": row.get("status") or "done"} for row in outcome.rows
    )
    write_atomic(folder / "rows.csv", text)
    timing = {"started": started, "seconds": progress.seconds()}
    write_atomic(folder / "timing.json", json.dumps(timing) + "\n")
    lock.check()
    write_atomic(folder / "done", seal(text.encode("utf-8")))
    remove_checkpoints(folder)


@contextlib.contextmanager
def _while_anyone_listens() -> Iterator[None]:
    """End the process if the one it reports to is gone: that is not a failure of the cell."""
    try:
        yield
    except OSError:
        raise SystemExit(1) from None


def why(error: BaseException) -> str:
    """Word an error in one line; all but a user's mistake begin with the error's type."""
    text = " ".join(str(error).split())
    named = type(error).__name__
    return text if isinstance(error, InputError) and text else f"{named}: {text}" if text else named
