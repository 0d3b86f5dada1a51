"""What the directory of a cell says: done, failed and why, or nothing yet."""

import errno
import hashlib
import json
import shutil
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from latecomer.files import write_atomic

if TYPE_CHECKING:
    from latecomer.eval.studies.cells import Cell

# What a cell's directory may hold when its work begins; all else is left from an earlier attempt.
_STAYS = ("checkpoints", "progress.jsonl")
_STORAGE = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.ENODEV, errno.ESTALE)


def is_done(folder: Path) -> bool:
    """Whether a cell is finished and its rows are the ones it finished with."""
    try:
        return (folder / "done").read_text("utf-8") == seal((folder / "rows.csv").read_bytes())
    except (FileNotFoundError, UnicodeDecodeError):
        return False


def seal(rows: bytes) -> str:
    """Return what ``done`` holds: the hash of the rows that the cell finished with."""
    return json.dumps({"rows_sha256": hashlib.sha256(rows).hexdigest()}) + "\n"


def failure_of(folder: Path) -> str | None:
    """Return why a cell failed, None when it has not; an incomplete record is ignored."""
    try:
        return str(json.loads((folder / "failed.json").read_text("utf-8"))["message"])
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None


def record_failure(cell: "Cell", folder: Path, message: str, details: str) -> None:
    """Write a row that says why a cell failed."""
    from latecomer.eval.results.rows import write_rows  # with pandas, which a status needs not

    folder.mkdir(parents=True, exist_ok=True)
    row = {**identity(cell), "status": "failed", "message": message}
    write_rows(folder / "rows.csv", [row])
    failure = {"message": message, "details": details}
    write_atomic(folder / "failed.json", json.dumps(failure, indent=1) + "\n")


def tidy(folder: Path, *, keep: str) -> None:
    """Remove what an earlier attempt left, drafts included; keep what the cell can resume from."""
    (folder / "done").unlink(missing_ok=True)
    for path in folder.iterdir():
        if path.name in (*_STAYS, keep):
            continue
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    for path in folder.glob("checkpoints/.*"):
        path.unlink()


def says_storage(error: BaseException, folder: Path) -> bool:
    """Whether an error says that a directory cannot be written: full, read-only, gone, denied."""
    if not isinstance(error, OSError):
        return False
    denied = error.errno in (errno.EACCES, errno.EPERM)
    return error.errno in _STORAGE or (denied and str(folder) in str(error.filename))


def identity(cell: "Cell") -> dict[str, Any]:
    """Return the columns that name a cell, the same in all of its rows."""
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
        "version": metadata.version("latecomer"),
    }
