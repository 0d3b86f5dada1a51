"""Keep finished runs in little space: ``python tests/keep.py RUN... [--cells]``.

The rows become ``rows.csv.xz``.  Cells are kept in ``cells.tar.xz`` where a training took ten
minutes, or with ``--cells``, because a page is drawn from them; other cells are trained again
sooner than they are looked for.  The record of a split is left out of the cells where no
certificate bets along its order: the study and its seed give it again.  Arrays lie open in the
archive, which packs them better than they were, and what is only drawn, the losses of rounds, is
kept to four digits.  The same run gives the same bytes.
"""

import argparse
import json
import lzma
import shutil
import sys
import tarfile
import zipfile
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

import yaml

from latecomer.eval.results.kept_cells import ARCHIVE, PACKED_ROWS, ROWS, cells_of

LASTING = 600
"""Seconds of training from which on cells are kept."""
SPLIT = ("split.npz", "split.manifest.json")


def longest(run: Path) -> float:
    """Return the seconds of a run's longest cell; 0 where no cells are kept."""
    timings = cells_of(run).glob("*/timing.json")
    return max(
        (float(json.loads(path.read_text("utf-8"))["seconds"]) for path in timings), default=0
    )


def keep(run: Path, *, cells: bool = False) -> None:
    """Pack a finished run's rows, and its cells where they are worth it, in its directory."""
    if (run / ROWS).is_file():
        (run / PACKED_ROWS).write_bytes(packed((run / ROWS).read_bytes()))
        (run / ROWS).unlink()
    if cells or longest(run) >= LASTING:
        (run / ARCHIVE).write_bytes(packed(archived(run)))
    else:
        (run / ARCHIVE).unlink(missing_ok=True)
    shutil.rmtree(run / "cells", ignore_errors=True)


def archived(run: Path) -> bytes:
    """Return the cells as a tar file that says nothing of who made it and when."""
    study = yaml.safe_load((run / "study.yaml").read_text("utf-8"))
    left_out = () if study.get("certificates") else SPLIT
    place, content = cells_of(run), BytesIO()
    with tarfile.open(fileobj=content, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for path in sorted(place.rglob("*"), key=lambda path: path.relative_to(place).parts):
            if path.is_file() and path.name not in left_out:
                member = tarfile.TarInfo(f"cells/{path.relative_to(place).as_posix()}")
                file = _KEPT.get(path.suffix, Path.read_bytes)(path)
                member.size = len(file)
                archive.addfile(member, BytesIO(file))
    return content.getvalue()


def opened(arrays: Path) -> bytes:
    """Return an npz file whose arrays are not compressed."""
    content = BytesIO()
    with zipfile.ZipFile(arrays) as held, zipfile.ZipFile(content, "w") as written:
        for name in held.namelist():
            written.writestr(zipfile.ZipInfo(name), held.read(name))
    return content.getvalue()


def logged(rounds: Path) -> bytes:
    """Return the log of a training's rounds with as many digits as a curve shows."""
    lines = []
    for line in rounds.read_text("utf-8").splitlines():
        entry = json.loads(line)
        if "loss" in entry:
            entry |= {"loss": float(f"{entry['loss']:.4g}"), "seconds": round(entry["seconds"], 1)}
        lines.append(f"{json.dumps(entry)}\n")
    return "".join(lines).encode("utf-8")


_KEPT = {".npz": opened, ".jsonl": logged}
"""How files of cells are kept, by their ending; others as they are."""


def packed(content: bytes) -> bytes:
    """Compress as ``xz -9e`` does."""
    return lzma.compress(content, preset=9 | lzma.PRESET_EXTREME)


def main(arguments: Sequence[str]) -> None:
    """Keep the runs that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN")
    parser.add_argument("--cells", action="store_true", help="keep cells of short trainings too")
    asked = parser.parse_args(arguments)
    for run in asked.runs:
        keep(run, cells=asked.cells)


if __name__ == "__main__":
    main(sys.argv[1:])
