"""The work of one cell in its directory: from its configuration to ``done``."""

import hashlib
import json
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module, metadata
from pathlib import Path
from typing import Any, Protocol

from latecomer.eval.cells import Cell
from latecomer.eval.errors import InputError
from latecomer.eval.files import write_atomic
from latecomer.eval.rows import Artifact, rows_to_text, write_artifact, write_rows

__all__ = ["Job", "carry_out", "is_done", "record_failure", "why"]


class RoundLog(Protocol):
    """What a training loop tells after a round."""

    @property
    def round(self) -> int:
        """Number of the round."""

    @property
    def loss(self) -> float:
        """Training loss of the round."""

    @property
    def reason(self) -> str:
        """Why clients did not train the way that was asked for; empty if they did."""


class Outcome(Protocol):
    """What the work of a cell gives back."""

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Rows; columns that only name the cell may be left out."""

    @property
    def artifacts(self) -> Mapping[str, Artifact]:
        """Artifacts by name."""


Evaluate = Callable[[Mapping[str, Any], Callable[[RoundLog], None]], Outcome]


@dataclass(frozen=True)
class Job:
    """A cell, its directory, and the function that does its work.

    Attributes
    ----------
    cell : Cell
    folder : Path
    evaluate : str
        ``"module:function"``, imported by whoever does the work.
    """

    cell: Cell
    folder: Path
    evaluate: str


def carry_out(job: Job, on_round: Callable[[int, float], None]) -> None:
    """Do the work of a cell from its start and mark it done.

    What an earlier attempt left behind is removed first.  ``done`` is written last and holds the
    hash of ``rows.csv``; a cell without it never happened.
    """
    shutil.rmtree(job.folder, ignore_errors=True)
    config = job.cell.config
    write_atomic(job.folder / "config.json", json.dumps(config, indent=1, sort_keys=True) + "\n")
    started = time.time()
    clock = time.monotonic()
    evaluate = _load(job.evaluate)
    with (job.folder / "progress.jsonl").open("w", encoding="utf-8") as progress:

        def log(entry: RoundLog) -> None:
            line = {"round": int(entry.round), "loss": float(entry.loss)}
            why_not = {"reason": entry.reason} if entry.reason else {}
            seconds = round(time.monotonic() - clock, 3)
            progress.write(json.dumps({**line, **why_not, "seconds": seconds}) + "\n")
            progress.flush()
            on_round(int(entry.round), float(entry.loss))

        outcome = evaluate(config, log)
    for name, artifact in outcome.artifacts.items():
        write_artifact(job.folder / "artifacts", name, artifact)
    text = rows_to_text({**row, **_identity(job.cell, row)} for row in outcome.rows)
    write_atomic(job.folder / "rows.csv", text)
    timing = {"started": started, "seconds": round(time.monotonic() - clock, 3)}
    write_atomic(job.folder / "timing.json", json.dumps(timing) + "\n")
    write_atomic(job.folder / "done", _seal(text.encode("utf-8")))


def _seal(rows: bytes) -> str:
    return json.dumps({"rows_sha256": hashlib.sha256(rows).hexdigest()}) + "\n"


def is_done(folder: Path) -> bool:
    """Whether a cell is finished and its rows are the ones it finished with."""
    try:
        return (folder / "done").read_text("utf-8") == _seal((folder / "rows.csv").read_bytes())
    except (FileNotFoundError, UnicodeDecodeError):
        return False


def record_failure(job: Job, message: str, details: str) -> None:
    """Make a failed cell a row that says why."""
    job.folder.mkdir(parents=True, exist_ok=True)
    row = {**_identity(job.cell, {}), "status": "failed", "message": message}
    write_rows(job.folder / "rows.csv", [row])
    failure = {"message": message, "details": details}
    write_atomic(job.folder / "failed.json", json.dumps(failure, indent=1) + "\n")


def why(error: BaseException) -> str:
    """Say an error in one line; a user's mistake speaks for itself, others are named."""
    text = " ".join(str(error).split())
    named = type(error).__name__
    return text if isinstance(error, InputError) and text else f"{named}: {text}" if text else named


def _load(path: str) -> Evaluate:
    module, _, name = path.partition(":")
    found: Evaluate = getattr(import_module(module), name)
    return found


def _identity(cell: Cell, row: Mapping[str, Any]) -> dict[str, Any]:
    """Fill the columns that name a cell, and the state of a row that says nothing else."""
    config = cell.config
    method = config["method"] or {"name": "", "label": ""}
    return {
        "study": config["study"],
        "cell": cell.id,
        "dataset": config["data"]["name"],
        "split": config["split"]["kind"],
        "split_seed": config["split"]["seed"],
        "method": method["name"],
        "label": method["label"],
        "seed": config["seed"],
        "status": row.get("status") or "done",
        "version": metadata.version("latecomer"),
    }
