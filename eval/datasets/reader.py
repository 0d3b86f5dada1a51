"""Declaration of a data set: how it is read, where its files are and how they are opened.

A publisher's sums: MD5 as published for CIFAR and Fashion-MNIST and as pinned by widely used
loaders for the others; SHA-256 as TensorFlow Datasets and Keras pin the same archives. A sum is
never computed from a copy of unknown origin.
"""

import csv
import lzma
import os
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from latecomer.errors import InputError
from latecomer.eval.datasets.dataset import Dataset
from latecomer.files import at_home
from latecomer.reading.delimited import undecodable

ENVIRONMENT = "LATECOMER_DATA"
# Exceptions that file decoders raise on invalid bytes.
DAMAGE = (
    *(ValueError, TypeError, EOFError, OverflowError, MemoryError),
    *(RecursionError, NotImplementedError, RuntimeError, SyntaxError),
    *(struct.error, zlib.error, lzma.LZMAError, zipfile.BadZipFile, tarfile.TarError, csv.Error),
)


def data_root(root: object = None) -> Path:
    """Return the folder of the data: ``root``, else ``$LATECOMER_DATA``, else the user's cache.

    The cache is the platform's usual cache folder, ``~/.cache/latecomer`` on Linux.
    """
    if root is not None:
        if not isinstance(root, str | Path) or not str(root):
            raise InputError(f"data.root must be the path of a folder, got {root!r}")
        return at_home(root)
    if os.environ.get(ENVIRONMENT):
        return at_home(os.environ[ENVIRONMENT])
    import platformdirs

    return Path(platformdirs.user_cache_dir("latecomer"))


def find_folder(name: str, root: object, folders: Sequence[str], marks: Sequence[str]) -> Path:
    """Return the first of ``root/folder`` that holds a file or folder named in ``marks``.

    ``.`` among ``folders`` is the root itself. Where there is none, the message says how to get the
    files of data set ``name``.
    """
    base = data_root(root)
    if base.exists() and not base.is_dir():
        raise InputError(f"data.root: {base} is not a folder")
    for folder in folders:
        place = base / folder
        if any((place / mark).exists() for mark in marks):
            return place
    where = "an existing folder" if base.is_dir() else "a folder that does not exist"
    raise InputError(
        f"data.root: {base} ({where}) has no {folders[0]}/{marks[0]}: run 'latecomer data fetch "
        f"{name}', or set data.root or {ENVIRONMENT} to where {name} lies; 'latecomer datasets "
        f"{name}' says what to put where"
    )


def given_path(path: object, what: str) -> Path:
    """Return ``data.path`` as a path; ``what`` names the expected file or folder in the message."""
    if not isinstance(path, str | Path) or not str(path):
        raise InputError(f"data.path must be the path of {what}, got {path!r}")
    return at_home(path)


def given_folder(path: object, what: str) -> Path:
    """Return ``data.path`` as the path of an existing folder."""
    folder = given_path(path, what)
    if not folder.is_dir():
        problem = f"{folder} is not a folder" if folder.exists() else f"there is no folder {folder}"
        raise InputError(f"data.path: {problem}")
    return folder


def require_file(file: Path) -> None:
    """Refuse a path that is not a file, or an empty file; for use within :func:`reading`."""
    if not file.exists():
        raise InputError("there is no such file")
    if not file.is_file():
        raise InputError("is not a file")
    if not file.stat().st_size:
        raise InputError("is empty")


def read_bytes(file: Path) -> bytes:
    """Return all bytes of a file; for use within :func:`reading`."""
    require_file(file)
    return file.read_bytes()


@contextmanager
def reading(file: Path, key: str = "data.root") -> Iterator[None]:
    """Turn any error with a file into one line that names the file and the cause."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{key}: {file}: {error}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{key}: {file}: {undecodable(error)}") from error
    except OSError as error:
        raise InputError(f"{key}: {file}: cannot be read: {error.strerror or error}") from error
    except DAMAGE as error:
        raise InputError(f"{key}: {file}: is damaged or cut short ({one_line(error)})") from error


def one_line(error: Exception) -> str:
    """Return what an error says, in one line of at most 120 characters."""
    return " ".join(str(error).split())[:120] or type(error).__name__


@dataclass(frozen=True)
class Archive:
    """A file to download.

    Attributes
    ----------
    file : str
        Its place below the data root.
    urls : tuple of str
        The publisher's address first, then mirrors.
    sha256, md5 : str
        Known sums; both empty when no trustworthy source publishes one.
    size : int
        Bytes; 0 when unknown.
    members : tuple of str
        Files to unpack from a tar archive; empty when the file is read as it is.
    """

    file: str
    urls: tuple[str, ...]
    sha256: str = ""
    md5: str = ""
    size: int = 0
    members: tuple[str, ...] = ()

    @property
    def known_hash(self) -> str | None:
        """The stronger of the known sums as ``algorithm:digest``."""
        if self.sha256:
            return f"sha256:{self.sha256}"
        return f"md5:{self.md5}" if self.md5 else None


@dataclass(frozen=True)
class Source:
    """How a data set gets onto a machine.

    Attributes
    ----------
    home : str
        The publisher's page.
    place : str
        Which files go where, below the data root.
    archives : tuple of Archive
        Downloads; empty when users must make the files themselves.
    counts : tuple of int
        Published numbers of training and test samples (of all, without a test set); else empty.
    recipe : str
        How to make the files, where they cannot be downloaded.
    licence : str
        Terms of use, where the publisher states them.
    extra : str
        Name of the extra of this package that brings the data; empty where none does.
    """

    home: str
    place: str
    archives: tuple[Archive, ...] = ()
    counts: tuple[int, ...] = ()
    recipe: str = field(default="", repr=False)
    licence: str = ""
    extra: str = ""


def mirrored(mirrors: tuple[str, ...], file: str) -> tuple[str, ...]:
    """Return the addresses of a file on several servers."""
    return tuple(f"{mirror}/{file}" for mirror in mirrors)


@dataclass(frozen=True, kw_only=True)
class Reader:
    """A data set that a study can use: what it is, how it is read, which keys it takes.

    Attributes
    ----------
    name : str
        Its name in a study.
    description : str
        One line.
    read : callable
        Maps the keyword arguments ``required`` and ``optional`` to a :class:`Dataset`.
    required, optional : tuple of str
        Keys besides ``name``.
    source : Source or None
        How its files get onto a machine; None where no files are needed.
    """

    name: str
    description: str
    read: Callable[..., Dataset]
    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    source: Source | None = None
