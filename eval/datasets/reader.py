"""What a data set says of itself: how it is read, where it comes from, what goes where.

Sums: MD5 as the publishers of CIFAR and Fashion-MNIST print them and as widely used loaders pin
the others; SHA-256 as TensorFlow Datasets and Keras pin the same archives. A sum is never
computed from a copy of unknown origin.
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
        Known sums; both empty when nobody trustworthy has published one.
    size : int
        Bytes; 0 when unknown.
    members : tuple of str
        Files that are unpacked beside a tar archive; empty when it is read as it is.
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
        What goes where, below the data root.
    archives : tuple of Archive
        Downloads; empty when the files are the user's to make.
    counts : tuple of int
        Training and test samples as published (all, where there is no test set); else empty.
    recipe : str
        How to make the files, where nobody offers them for download.
    """

    home: str
    place: str
    archives: tuple[Archive, ...] = ()
    counts: tuple[int, ...] = ()
    recipe: str = field(default="", repr=False)


def mirrored(mirrors: tuple[str, ...], file: str) -> tuple[str, ...]:
    """Return the addresses of a file on several servers.

    >>> mirrored(("https://a.org/data", "https://b.org"), "x.gz")
    ('https://a.org/data/x.gz', 'https://b.org/x.gz')
    """
    return tuple(f"{mirror}/{file}" for mirror in mirrors)


@dataclass(frozen=True, kw_only=True)
class Reader:
    """A data set that can be asked for: what it is, how it is read, which keys it takes.

    Attributes
    ----------
    name : str
        Its name in a study.
    description : str
        One line.
    read : callable
        Keyword arguments ``required`` and ``optional`` to :class:`Dataset`.
    required, optional : tuple of str
        Keys beside ``name``.
    source : Source or None
        How its files get onto a machine; None where there are none to get.
    """

    name: str
    description: str
    read: Callable[..., Dataset]
    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    source: Source | None = None
