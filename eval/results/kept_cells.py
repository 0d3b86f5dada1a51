"""A run's directory, its rows and cells: as a run leaves them, or packed where it is kept."""

import atexit
import contextlib
import json
import lzma
import tarfile
from functools import cache
from pathlib import Path, PurePosixPath
from tempfile import gettempdir
from typing import Any

from latecomer.checks import as_path, short
from latecomer.errors import InputError
from latecomer.files import own_folder
from latecomer.reading.delimited import text_of
from latecomer.reading.yaml_text import read_mapping

ARCHIVE = "cells.tar.xz"
"""Holds the folder ``cells`` of a finished run; ``tests/keep.py`` makes it."""
ROWS = "rows.csv"
PACKED_ROWS = "rows.csv.xz"


_SECTIONS: dict[type, tuple[str, tuple[str, ...]]] = {
    dict: ("keys and values", ("data", "split", "model", "train", "evaluation", "shifts")),
    list: ("a list", ("methods", "bounds", "certificates", "seeds")),
}


def run_folder(path: str | Path) -> Path:
    """Return the path of a run's directory, refusing one without ``study.yaml``."""
    folder = as_path("directory", path)
    if not (folder / "study.yaml").is_file():
        raise InputError(f"{folder} is no run directory: it has no study.yaml")
    return folder


def declared_study(directory: Path) -> dict[str, Any]:
    """Return the ``study.yaml`` of a run directory, resolved when the run began."""
    try:
        text = text_of((directory / "study.yaml").read_bytes())
    except InputError as error:
        raise InputError(f"study.yaml: {error}") from error
    study = read_mapping(text, "study.yaml", "must hold keys and values")
    if not isinstance(study.get("study"), str):
        raise InputError("study.yaml names no study")
    for kind, (called, keys) in _SECTIONS.items():
        for key in keys:
            if not isinstance(study.get(key, kind()), kind):
                raise InputError(f"study.yaml: {key} must be {called}, got {short(study[key])}")
    return study


def mapping_in(file: Path) -> dict[str, Any]:
    """Return what a run's JSON file maps; nothing where there is no such file.

    A ValueError names a damaged one.
    """
    if not file.is_file():
        return {}
    try:
        value = json.loads(file.read_text("utf-8-sig"))
    except ValueError as error:
        raise ValueError(f"{file.name}: {error}") from error
    if not isinstance(value, dict):
        raise ValueError(f"{file.name} is no mapping")
    return value


def mapping_of_cell(place: Path, name: str) -> dict[str, Any]:
    """Return what a JSON file of the cell at a place maps; a ValueError names file and cell."""
    try:
        return mapping_in(place / name)
    except ValueError as error:
        raise ValueError(f"cell {place.name}: {error}") from error


def listed_cells(directory: Path) -> dict[str, dict[str, Any]]:
    """Return what ``cells.json`` says of each of a run's cells, by their ids."""
    file = directory / "cells.json"
    index = mapping_in(file)
    ids, about = index.get("cells", [] if not file.is_file() else None), index.get("about") or {}
    if not isinstance(ids, list) or not isinstance(about, dict):
        raise ValueError("cells.json lists no cells")
    return {str(name): about.get(name) or {} for name in ids}


def rows_file(directory: Path) -> Path:
    """Return the path of a run's merged rows: ``rows.csv``, or its packed form if only that is."""
    rows, packed = directory / ROWS, directory / PACKED_ROWS
    return packed if packed.is_file() and not rows.is_file() else rows


def rows_content(path: Path) -> bytes:
    """Return the text of a rows file, unpacked where its name says that it is packed."""
    content = path.read_bytes()
    if path.suffix != ".xz":
        return content
    try:
        return lzma.decompress(content)
    except lzma.LZMAError as error:
        raise InputError(f"{path} is damaged: {error}") from None


def cells_of(directory: Path) -> Path:
    """Return the folder of a run's cells; an unpacked copy if only their archive is kept."""
    cells = directory / "cells"
    return cells if cells.is_dir() else packed_cells(directory) or cells


def packed_cells(directory: Path) -> Path | None:
    """Unpack the archive of a run's cells, once per process; return None if there is none.

    The copy is removed when the process ends.
    """
    archive = directory / ARCHIVE
    if not archive.is_file():
        return None
    about = archive.stat()
    return _unpacked(archive.resolve(), about.st_mtime_ns, about.st_size)


@cache
def _unpacked(archive: Path, written: int, size: int) -> Path:
    """Write an archive's regular files below ``cells``, and nothing else, to a new folder."""
    unpacked = contextlib.ExitStack()
    folder = unpacked.enter_context(own_folder(Path(gettempdir()), "latecomer-cells-"))
    atexit.register(unpacked.close)
    try:
        with tarfile.open(archive, "r:xz") as packed:
            for member in packed:
                place = PurePosixPath(member.name)
                content = packed.extractfile(member) if member.isreg() else None
                if content is None or place.parts[0] != "cells" or ".." in place.parts:
                    continue
                path = folder / place
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content.read())
    except (tarfile.TarError, lzma.LZMAError, EOFError) as error:
        raise InputError(f"{archive} is damaged: {error}") from None
    return folder / "cells"
