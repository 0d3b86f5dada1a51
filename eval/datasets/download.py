"""Downloads that resume after an interruption and are kept only when intact."""

import errno
import json
import logging
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from latecomer.errors import InputError
from latecomer.eval.datasets.reader import Archive
from latecomer.files import sum_of, write_atomic

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

    Attributes
    ----------
    path : Path
    sha256 : str
        Hash of its contents.
    verified : bool
        Whether its contents were compared with a published sum.
    fresh : bool
        Whether this call downloaded it.
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
    timeout: tuple[float, float] = _TIMEOUT,
) -> Fetched:
    """Fetch one file to its place below ``root``, from the first address that has an intact copy.

    An interrupted download is resumed from ``<file>.part``, within this call or by the next. The
    file appears under its name only after its sum was compared; where no sum is published, its
    SHA-256 is written to ``latecomer-hashes.json`` and compared from then on.

    Parameters
    ----------
    archive : Archive
    root : Path
    on_bytes : callable, optional
    timeout : (float, float)
        Seconds to connect, and to wait for the next byte.

    Raises
    ------
    InputError
        No address has the file intact, the disk is full, or an existing file has another sum.
    """
    target = root / archive.file
    known = archive.known_hash or recorded_hash(root, archive.file)
    if target.exists():
        return _keep(archive, target, known)
    failures: list[str] = []
    place = Path(os.path.realpath(target))  # a link that leads to nothing yet is followed
    for url in archive.urls:
        getter = _Getter(place, archive, on_bytes, timeout, resume=known is not None)
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
    import pooch
    import requests

    for _ in range(2):  # once more from the start when a resumed download is not intact
        try:
            with _quiet_pooch():
                pooch.retrieve(url, known, target.name, target.parent, downloader=getter)
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
        except ValueError:  # pooch: the sum differs; it has already removed the file
            failures.append(f"{_host(url)}: not the published file (another sum)")
            if not getter.continued:
                return False
        else:
            return True
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
    """Downloader that pooch calls: it resumes where an earlier attempt broke off."""

    def __init__(
        self,
        target: Path,
        archive: Archive,
        on_bytes: OnBytes | None,
        timeout: tuple[float, float],
        *,
        resume: bool,
    ) -> None:
        self.part = target.with_name(target.name + ".part")
        self.continued = False
        self._answered = False
        self._archive = archive
        self._on_bytes = on_bytes
        self._timeout = timeout
        if not resume:  # without a known sum, halves of two versions could be joined
            self.part.unlink(missing_ok=True)

    def __call__(self, url: str, output_file: str, _: Any) -> None:
        import requests

        reason = ""
        for attempt in range(_ATTEMPTS):
            if attempt:
                time.sleep(min(_PAUSE * 2 ** (attempt - 1), self._timeout[1]))
            try:
                if self._get(requests, url):
                    os.replace(self.part, output_file)
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
        with requests.get(url, headers=headers, stream=True, timeout=self._timeout) as response:
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
            self._check_space(total - start)
            done = start
            with self.part.open("ab" if start else "wb") as stream:
                for block in response.iter_content(_BLOCK):
                    stream.write(block)
                    done += len(block)
                    if self._on_bytes is not None:
                        self._on_bytes(self._archive.file, done, total)
            return not length or done >= start + length

    def _check_space(self, needed: int) -> None:
        free = shutil.disk_usage(self.part.parent).free
        if needed > free:
            raise OSError(errno.ENOSPC, f"{needed:,} bytes needed, {free:,} free")


def _total(content_range: str) -> int | None:
    match = re.fullmatch(r"bytes \*/(\d+)", content_range)
    return int(match[1]) if match else None


@contextmanager
def _quiet_pooch() -> Iterator[None]:
    """Keep pooch from writing its own lines to the terminal."""
    import pooch

    logger = pooch.get_logger()
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


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
