"""Declaration of a data set: how it is read, where it comes from, where its files go.

Sums: MD5 as published for CIFAR and Fashion-MNIST and as pinned by widely used loaders for the
others; SHA-256 as TensorFlow Datasets and Keras pin the same archives. A sum is never computed
from a copy of unknown origin.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from latecomer.eval.datasets.dataset import Dataset


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
    """Return the addresses of a file on several servers.

    >>> mirrored(("https://a.org/data", "https://b.org"), "x.gz")
    ('https://a.org/data/x.gz', 'https://b.org/x.gz')
    """
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
