"""Downloads that resume and are kept only when intact: files, then whole data sets."""

import errno
import json
import os
import re
import shutil
import tarfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from latecomer.errors import InputError, nearest
from latecomer.eval.datasets.reader import Archive, data_root, reading
from latecomer.eval.datasets.registry import DATASETS, SOURCES, Source, load_dataset
from latecomer.files import lock_file, sum_of, sync_folder, write_atomic

OnBytes = Callable[[str, int, int], None]
"""Called with the file, the bytes downloaded so far and the total bytes (0: unknown)."""

RECORD = "latecomer-hashes.json"
_BLOCK = 1 << 14  # bytes; a broken connection loses less than this
_ATTEMPTS = 4
_PAUSE = 0.5  # seconds before the next attempt, doubled each time
_TIMEOUT = (10.0, 30.0)  # seconds to connect, and to wait for the next byte
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT)


@dataclass(frozen=True)
class Fetched:
    """A file that is on disk now.

    ``verified``: its contents were compared with a published sum; ``fresh``: this call downloaded
    it.
    """

    path: Path
    sha256: str
    verified: bool
    fresh: bool


def download(
    archive: Archive,
    root: Path,
    *,
    on_bytes: OnBytes | None = None,
) -> Fetched:
    """Fetch one file to its place below ``root``, from the first address that has an intact copy.

    An interrupted download is resumed from ``<file>.part``, within this call or by the next. The
    file appears under its name only after its sum was compared; where no sum is published, its
    SHA-256 is written to ``latecomer-hashes.json`` and compared from then on. ``on_bytes`` is
    called after every block.
    """
    target = root / archive.file
    known = archive.known_hash or recorded_hash(root, archive.file)
    if target.exists():
        return _keep(archive, target, known)
    failures: list[str] = []
    place = Path(os.path.realpath(target))  # a link that leads to nothing yet is followed
    for url in archive.urls:
        getter = _Getter(place, archive, on_bytes, resume=known is not None)
        if _intact(getter, url, known, place, failures):
            computed = sum_of(target)
            if archive.known_hash is None:
                _record(root, archive.file, computed, url)
            return Fetched(target, computed, archive.known_hash is not None, fresh=True)
    known_as = f" ({known.replace(':', ' ')})" if known else ""
    raise InputError(
        f"{target.name} could not be downloaded: {'; '.join(failures)}; without a network, put "
        f"{target.name}{known_as} into {target.parent} and fetch again; "
        "'latecomer datasets NAME' lists all files of a data set"
    )


def _intact(
    getter: "_Getter", url: str, known: str | None, target: Path, failures: list[str]
) -> bool:
    """Fetch a file from one address; return whether it is intact, else add why to ``failures``."""
    import requests

    algorithm, _, digest = (known or "").partition(":")
    for _ in range(2):  # once more from the start when a resumed download is not intact
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            getter.fetch(url)
            if not known or sum_of(getter.part, algorithm) == digest:
                getter.keep()
                return True
            getter.part.unlink()
        except OSError as error:
            if isinstance(error, requests.RequestException):
                failures.append(f"{_host(url)}: {_cause(error)}")
                return False
            if error.errno in _NO_SPACE:
                getter.part.unlink(missing_ok=True)
                raise InputError(
                    f"no space left on the disk of {target.parent} for {target.name}"
                ) from error
            raise InputError(f"{target}: cannot be written: {error.strerror or error}") from error
        except _StoppedError as error:
            failures.append(f"{_host(url)}: {error}")
            return False
        failures.append(f"{_host(url)}: not the published file (another sum)")
        if not getter.continued:
            return False
    return False


def recorded_hash(root: Path, file: str) -> str | None:
    """Return the recorded hash of the first download of a file without a published sum."""
    entry = _records(root).get(file)
    recorded = entry.get("sha256") if isinstance(entry, dict) else None
    return f"sha256:{recorded}" if isinstance(recorded, str) else None


def _records(root: Path) -> dict[str, Any]:
    try:
        held = json.loads((root / RECORD).read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise InputError(f"{root / RECORD}: is no record of downloads ({error})") from error
    return held if isinstance(held, dict) else {}


def _record(root: Path, file: str, sha256: str, url: str) -> None:
    held = _records(root) | {file: {"sha256": sha256, "url": url, "verified": False}}
    write_atomic(root / RECORD, json.dumps(held, indent=1, sort_keys=True) + "\n")


def _keep(archive: Archive, target: Path, known: str | None) -> Fetched:
    if not target.is_file():
        raise InputError(f"{target}: is not a file")
    if known is not None:
        algorithm, _, digest = known.partition(":")
        computed = sum_of(target, algorithm)
        if computed != digest:
            raise InputError(
                f"{target}: has {algorithm} {computed}, not {digest}: remove it and fetch again"
            )
    return Fetched(target, sum_of(target), archive.known_hash is not None, fresh=False)


class _StoppedError(Exception):
    """A download that broke off too often: no further attempt is made."""


class _Getter:
    """Downloads to a part of its own, and resumes where an earlier attempt broke off."""

    def __init__(
        self,
        target: Path,
        archive: Archive,
        on_bytes: OnBytes | None,
        *,
        resume: bool,
    ) -> None:
        self._target = target
        self.part = target.with_name(target.name + ".part")
        self.continued = False
        self._answered = False
        self._archive = archive
        self._on_bytes = on_bytes
        if not resume:  # without a known sum, halves of two versions could be joined
            self.part.unlink(missing_ok=True)

    def keep(self) -> None:
        """Give the part its file's name."""
        with self.part.open("rb+") as stream:
            os.fsync(stream.fileno())
        os.replace(self.part, self._target)
        sync_folder(self._target.parent)

    def fetch(self, url: str) -> None:
        """Complete the part from an address."""
        import requests

        reason = ""
        for attempt in range(_ATTEMPTS):
            if attempt:
                time.sleep(min(_PAUSE * 2 ** (attempt - 1), _TIMEOUT[1]))
            try:
                if self._get(requests, url):
                    return
                reason = "the connection was cut off"
            except requests.HTTPError:
                raise
            except requests.RequestException as error:
                if not self._answered and not isinstance(error, requests.Timeout):
                    raise
                reason = "the connection was cut off" if self._answered else _cause(error)
        raise _StoppedError(f"{reason}, {_ATTEMPTS} times; {self._size():,} bytes kept")

    def _size(self) -> int:
        return self.part.stat().st_size if self.part.exists() else 0

    def _get(self, requests: Any, url: str) -> bool:
        """Request the missing bytes; return whether the file is then complete."""
        start = self._size()
        headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={start}-"} if start else {})
        with requests.get(url, headers=headers, stream=True, timeout=_TIMEOUT) as response:
            self._answered = True
            if response.status_code == 416:  # nothing is missing, or the part is of another file
                total = _total(response.headers.get("Content-Range", ""))
                if total == start:
                    self.continued = True
                    return True
                self.part.unlink()
                return False
            response.raise_for_status()
            span = re.match(r"bytes (\d+)-", response.headers.get("Content-Range", ""))
            goes_on = response.status_code == 206 and span is not None and int(span[1]) == start
            if not goes_on:
                start = 0
            self.continued |= start > 0
            length = int(response.headers.get("Content-Length") or 0)
            total = start + length if length else self._archive.size
            needed, free = total - start, shutil.disk_usage(self.part.parent).free
            if needed > free:
                raise OSError(errno.ENOSPC, f"{needed:,} bytes needed, {free:,} free")
            done = start
            with self.part.open("ab" if start else "wb") as stream:
                for block in response.iter_content(_BLOCK):
                    stream.write(block)
                    done += len(block)
                    if self._on_bytes is not None:
                        self._on_bytes(self._archive.file, done, total)
            return not length or done >= start + length


def _total(content_range: str) -> int | None:
    match = re.fullmatch(r"bytes \*/(\d+)", content_range)
    return int(match[1]) if match else None


def _host(url: str) -> str:
    return url.split("/")[2]


def _cause(error: Exception) -> str:
    """Describe a network error in a few words."""
    import requests

    if isinstance(error, requests.HTTPError) and error.response is not None:
        return f"{error.response.status_code} {error.response.reason}".strip()
    if isinstance(error, requests.Timeout):
        return "no answer in time"
    if isinstance(error, requests.ConnectionError):
        return "cannot connect"
    return "the connection was cut off"


_SPARE = 1 << 20


def source_of(name: str) -> Source:
    """Return where a data set comes from; for an unknown name, suggest the nearest one."""
    if name not in DATASETS:
        listed = ", ".join(DATASETS)
        raise InputError(f"no data set {name!r}{nearest(name, DATASETS)}; there are {listed}")
    if name not in SOURCES:
        raise InputError(f"{name} has no files to fetch or verify; {DATASETS[name].description}")
    return SOURCES[name]


def fetch(
    name: str, *, root: str | Path | None = None, on_bytes: OnBytes | None = None
) -> tuple[Fetched, ...]:
    """Download and unpack a data set below its root; existing files are only verified.

    Where it cannot be downloaded, the message says how to make it.
    """
    source, base = source_of(name), data_root(root)
    if not source.archives:
        raise InputError(
            f"{name} is not for download: put {source.place} below {base}; "
            f"'latecomer datasets {name}' tells how to make it"
        )
    fetched = []
    with _in_turn(base):
        for archive in source.archives:
            fetched.append(download(archive, base, on_bytes=on_bytes))
            unpack(archive, base)
    return tuple(fetched)


@contextmanager
def _in_turn(folder: Path) -> Iterator[None]:
    """Let one process at a time write parts of files into a folder; the others wait."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise InputError(f"{folder}: cannot be written: {error.strerror}") from error
    try:
        with suppress(OSError):  # a file system without locks
            lock_file(handle, wait=True)
        yield
    finally:
        os.close(handle)


def unpack(archive: Archive, root: Path) -> None:
    """Write the wanted members of a tar archive below ``root``, all or none.

    Only regular files that are listed by name are extracted, so that nothing in the archive can
    be written elsewhere.
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


def verify(name: str, *, root: str | Path | None = None) -> tuple[str, ...]:
    """Compare existing archives with their sums, read the data and count the samples, in lines."""
    source, base = source_of(name), data_root(root)
    lines = [_check(archive, base) for archive in source.archives]
    data = load_dataset({"name": name, "root": root if root is None else str(base)})
    test = 0 if data.test is None else int(np.count_nonzero(data.test))
    counts = (len(data) - test, test) if test else (len(data),)
    spoken = " + ".join(f"{count:,}" for count in counts)
    if source.counts and counts != source.counts:
        published = " + ".join(f"{count:,}" for count in source.counts)
        raise InputError(
            f"{name} in {base} has {spoken} samples, the publisher's has {published}: "
            "it can be used, but it is not the whole set"
        )
    return (
        *lines,
        f"data: {data.provenance}",
        f"data: {spoken} samples{', as published' if source.counts else ''}",
        f"data: content hash {data.content_hash}",
    )


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
