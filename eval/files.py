"""Files that are written whole or not at all."""

import os
import tempfile
from pathlib import Path


def write_atomic(path: str | Path, data: bytes | str) -> None:
    """Replace a file in one step: temporary name beside it, fsync, rename, fsync of the folder.

    After a crash at any moment the file holds either what it held before or all of ``data``.
    Text is written as UTF-8; missing parent folders are made.

    Raises
    ------
    OSError
        When the folder cannot be written or the disk is full; the old file is then untouched.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    payload = data.encode("utf-8") if isinstance(data, str) else data
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".tmp", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(payload)
            file.flush()
            os.fchmod(file.fileno(), 0o644)
            os.fsync(file.fileno())
        os.replace(name, target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    sync_folder(target.parent)


def write_changed(path: str | Path, data: str) -> None:
    """Write a text file atomically unless that is what it holds already.

    A complete run directory can then be processed again where nothing can be written.
    """
    target = Path(path)
    try:
        if target.read_bytes() == data.encode("utf-8"):
            return
    except FileNotFoundError:
        pass
    write_atomic(target, data)


def sync_folder(folder: Path) -> None:
    """Write a folder to the disk, so that files renamed into it survive a crash."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
