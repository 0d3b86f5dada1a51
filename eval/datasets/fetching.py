"""Fetch, unpack and verify a whole data set."""

import shutil
import tarfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from latecomer.errors import InputError, nearest
from latecomer.eval.datasets.download import (
    Fetched,
    OnBytes,
    download,
    recorded_hash,
)
from latecomer.eval.datasets.locations import data_root, reading
from latecomer.eval.datasets.registry import DATASETS, load_dataset
from latecomer.eval.datasets.sources import SOURCES, Archive, Source
from latecomer.files import sum_of

_SPARE = 1 << 20


@dataclass(frozen=True)
class Checked:
    """Result of a verification: one line for each archive, then lines about the data."""

    lines: tuple[str, ...]


def source_of(name: str) -> Source:
    """Return where a data set comes from; for an unknown name, suggest the nearest one.

    Raises
    ------
    InputError
        The name is unknown, or the data set needs no files of its own.
    """
    if name not in DATASETS:
        listed = ", ".join(DATASETS)
        raise InputError(f"no data set {name!r}{nearest(name, DATASETS)}; there are {listed}")
    if name not in SOURCES:
        raise InputError(f"{name} has no files to fetch or verify; {DATASETS[name].description}")
    return SOURCES[name]


def fetch(
    name: str,
    *,
    root: str | Path | None = None,
    on_bytes: OnBytes | None = None,
    source: Source | None = None,
) -> tuple[Fetched, ...]:
    """Download and unpack a data set below its root; existing files are only verified.

    Parameters
    ----------
    name : str
    root : str or Path, optional
        See :func:`~latecomer.eval.datasets.locations.data_root`.
    on_bytes : callable, optional
        Called after every block.
    source : Source, optional
        Source to use instead of the known one.

    Raises
    ------
    InputError
        The data set cannot be downloaded (the message says how to make it), or the download
        failed.
    """
    wanted = source or source_of(name)
    base = data_root(root)
    if not wanted.archives:
        raise InputError(
            f"{name} is not for download: put {wanted.place} below {base}; "
            f"'latecomer datasets {name}' tells how to make it"
        )
    fetched = []
    for archive in wanted.archives:
        done = download(archive, base, on_bytes=on_bytes)
        fetched.append(done)
        unpack(archive, base)
    return tuple(fetched)


def unpack(archive: Archive, root: Path) -> None:
    """Write the wanted members of a tar archive below ``root``, all or none.

    Only regular files that are listed by name are extracted, so that nothing in the archive can
    be written elsewhere.

    Raises
    ------
    InputError
        The archive is damaged, lacks a member or does not fit on the disk.
    """
    if not archive.members or all((root / member).exists() for member in archive.members):
        return
    file = root / archive.file
    folder = archive.members[0].partition("/")[0]
    workplace = root / f".{folder}.part"
    shutil.rmtree(workplace, ignore_errors=True)
    try:
        with reading(file), tarfile.open(file) as held:
            missing = set(archive.members)
            for member in held:
                if member.name not in missing or not member.isfile():
                    continue
                missing.remove(member.name)
                content = held.extractfile(member)
                place = workplace / member.name
                place.parent.mkdir(parents=True, exist_ok=True)
                if member.size + _SPARE > shutil.disk_usage(place.parent).free:
                    raise InputError(f"no space left to unpack {member.name}")
                with place.open("wb") as stream:
                    if content is not None:
                        shutil.copyfileobj(content, stream)
                if not missing:
                    break
            if missing:
                raise InputError(f"has no {sorted(missing)[0]}")
            (root / folder).mkdir(exist_ok=True)
            for name in archive.members:
                (workplace / name).replace(root / name)
    finally:
        shutil.rmtree(workplace, ignore_errors=True)


def verify(name: str, *, root: str | Path | None = None, source: Source | None = None) -> Checked:
    """Compare existing archives with their sums, read the data and count the samples.

    Raises
    ------
    InputError
        A sum differs, the data cannot be read, or the number of samples is not the published one.
    """
    wanted = source or source_of(name)
    base = data_root(root)
    lines = [_check(archive, base) for archive in wanted.archives]
    data = load_dataset({"name": name, "root": root if root is None else str(base)})
    test = 0 if data.test is None else int(np.count_nonzero(data.test))
    counts = (len(data) - test, test) if test else (len(data),)
    spoken = " + ".join(f"{count:,}" for count in counts)
    if wanted.counts and counts != wanted.counts:
        published = " + ".join(f"{count:,}" for count in wanted.counts)
        raise InputError(
            f"{name} in {base} has {spoken} samples, the publisher's has {published}: "
            "it can be used, but it is not the whole set"
        )
    lines.append(f"data: {data.provenance}")
    lines.append(f"data: {spoken} samples{', as published' if wanted.counts else ''}")
    lines.append(f"data: content hash {data.content_hash}")
    return Checked(tuple(lines))


def _check(archive: Archive, root: Path) -> str:
    file = root / archive.file
    if not file.exists():
        return f"{archive.file}: not there, so its sum was not checked"
    known = archive.known_hash or recorded_hash(root, archive.file)
    if known is None:
        return f"{archive.file}: no sum is known; sha256 {sum_of(file)}"
    algorithm, _, digest = known.partition(":")
    with reading(file):
        computed = sum_of(file, algorithm)
    if computed != digest:
        raise InputError(f"{file}: has {algorithm} {computed}, not {digest}")
    origin = "published" if archive.known_hash else "recorded at first download, unverified"
    return f"{archive.file}: {algorithm} as {origin}"
