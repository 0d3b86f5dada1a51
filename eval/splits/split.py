"""A finished split: the clients' rows, its checksum, and writing it to a file and reading it."""

import hashlib
import io
import json
import lzma
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latecomer.eval.datasets.dataset import Dataset
from latecomer.eval.errors import InputError
from latecomer.eval.files import write_atomic
from latecomer.eval.splits.clients import ClientRows
from latecomer.eval.splits.environment import Law

Ints = NDArray[np.int64]
_FORMAT = "latecomer split 1"
_DAMAGE = (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile, zlib.error)


@dataclass(frozen=True, eq=False)
class Split:
    """Clients in three groups, and the samples held back.

    Attributes
    ----------
    kind : str
    seed : int
    seen, certification, novel : tuple of ClientRows
        Clients that train, clients scored once for certificates, and clients that are not used
        before evaluation.
    reserve : tuple of ndarray of int64
        Rows held back per class, from which extrapolated clients are dealt.
    content_hash : str
        SHA-256 over groups, ids, rows, reserve and law.
    left_out : tuple of int
        Natural clients too small to be used.
    law : Law or None
        Law of held-out clients, for kinds ``environment``, ``client_types``, ``client_mixtures``.
    settings : mapping
        Settings that the split was made with, seed included; empty where unknown.
    dealt : bool
        Whether the clients are known to be dealt at random: the split was made here, or it was read
        from a file and its settings give the same clients again.
    """

    kind: str
    seed: int
    seen: tuple[ClientRows, ...] = field(repr=False)
    certification: tuple[ClientRows, ...] = field(repr=False)
    novel: tuple[ClientRows, ...] = field(repr=False)
    reserve: tuple[Ints, ...] = field(repr=False)
    content_hash: str
    left_out: tuple[int, ...] = field(default=(), repr=False)
    law: Law | None = field(default=None, repr=False)
    settings: Mapping[str, Any] = field(default_factory=dict, repr=False)
    dealt: bool = True

    @property
    def clients(self) -> tuple[ClientRows, ...]:
        """All clients: seen, certification, novel."""
        return self.seen + self.certification + self.novel


def checksum(
    clients: Sequence[ClientRows],
    groups: Sequence[int],
    reserve: Sequence[Ints],
    law: Law | None = None,
) -> str:
    """Return the SHA-256 of a split's contents, without its kind and seed."""
    parts = [rows for c in clients for rows in (c.support, c.validation, c.query)]
    parts += [*reserve, *_law_pools(law)]
    header = [*groups, *(c.id for c in clients), *(len(rows) for rows in parts), *_law_sizes(law)]
    digest = hashlib.sha256(np.array(header, dtype="<i8").tobytes())
    digest.update(np.concatenate(parts).astype("<i8").tobytes())
    if law is not None and law.types:
        digest.update(json.dumps([law.types, law.weights]).encode())
    if law is not None and law.concentrations:
        digest.update(json.dumps(law.concentrations).encode())
    return digest.hexdigest()


def split_arrays(split: Split, data_hash: str) -> dict[str, NDArray[Any]]:
    """Return a split as plain arrays, with everything that :func:`read_split` needs.

    ``rows`` holds all row numbers client by client, each as support, validation, query;
    ``sizes`` [clients, 3] their numbers; ``groups`` the numbers of seen, certification and novel
    clients; reserve and pools are stored likewise. ``about`` is JSON text.
    """
    clients = split.clients
    about = {
        "format": _FORMAT,
        "kind": split.kind,
        "seed": split.seed,
        "data_hash": data_hash,
        "content_hash": split.content_hash,
        "law": _law_sizes(split.law),
        "settings": dict(split.settings),
    }
    if split.law is not None and split.law.types:
        about["types"] = [split.law.types, split.law.weights]
    if split.law is not None and split.law.concentrations:
        about["concentrations"] = split.law.concentrations
    groups = [len(split.seen), len(split.certification), len(split.novel)]
    sizes = [[len(c.support), len(c.validation), len(c.query)] for c in clients]
    pools = _law_pools(split.law)
    return {
        "about": np.array(json.dumps(about, sort_keys=True)),
        "groups": np.array(groups, dtype=np.int64),
        "ids": np.array([c.id for c in clients], dtype=np.int64),
        "sizes": np.array(sizes, dtype=np.int64),
        "rows": _joined([r for c in clients for r in (c.support, c.validation, c.query)]),
        "reserve_sizes": np.array([len(r) for r in split.reserve], dtype=np.int64),
        "reserve": _joined(split.reserve),
        "pool_sizes": np.array([len(r) for r in pools], dtype=np.int64),
        "pools": _joined(pools),
        "left_out": np.array(split.left_out, dtype=np.int64),
    }


def write_split(path: str | Path, split: Split, dataset: Dataset) -> None:
    """Write a split to an npz file, which ``split: {kind: frozen, path: ...}`` reads."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **split_arrays(split, dataset.content_hash))  # type: ignore[arg-type]
    write_atomic(Path(path), buffer.getvalue())


def frozen_hash(path: str | Path) -> str:
    """Return the checksum stored in a frozen split; :func:`read_split` verifies it.

    Raises
    ------
    InputError
        There is no such file, or it does not hold a split.
    """
    return str(_about(_load(path), path)["content_hash"])


def read_split(path: str | Path, dataset: Dataset, *, expected: str | None = None) -> Split:
    """Read a frozen split; check that it is intact and was made for this data set.

    Parameters
    ----------
    path : str or Path
    dataset : Dataset
    expected : str, optional
        The checksum it must have.

    Raises
    ------
    InputError
        The file is absent, damaged or not a split, was made for other data, or does not have
        the expected checksum.
    """
    arrays = _load(path)
    about = _about(arrays, path)
    if about["data_hash"] != dataset.content_hash:
        raise InputError(f"split.path: {path} was made for other data than {dataset.name}")
    try:
        split = _rebuilt(arrays, about, len(dataset))
    except _DAMAGE as error:
        raise InputError(f"split.path: {path} is damaged: {_line(error)}") from error
    groups = [len(split.seen), len(split.certification), len(split.novel)]
    content_hash = checksum(split.clients, groups, split.reserve, split.law)
    if content_hash != split.content_hash:
        raise InputError(f"split.path: {path} is damaged: its checksum does not fit its contents")
    if expected is not None and content_hash != expected:
        raise InputError(f"split.hash must be {content_hash} for {path}, got {expected}")
    return split


def _rebuilt(arrays: Mapping[str, NDArray[Any]], about: Mapping[str, Any], n: int) -> Split:
    for name in ("rows", "reserve", "pools"):
        part = arrays[name]
        if part.dtype != np.int64 or (part.size and not 0 <= part.min() <= part.max() < n):
            raise ValueError(f"{name} holds no row numbers below {n}")
    sizes, groups = arrays["sizes"], arrays["groups"]
    if sizes.shape != (len(arrays["ids"]), 3) or groups.sum() != len(sizes) or groups.min() < 0:
        raise ValueError("groups, ids and sizes do not fit")
    if (sizes[:, [0, 2]] < 1).any():
        raise ValueError("a client holds no support or no query data")
    parts = _parted(arrays["rows"], sizes.reshape(-1))
    clients = tuple(
        ClientRows(int(name), *parts[3 * i : 3 * i + 3]) for i, name in enumerate(arrays["ids"])
    )
    n_seen, n_certify, _ = (int(size) for size in groups)
    pools = _parted(arrays["pools"], arrays["pool_sizes"])
    half = len(pools) // 2
    law = None
    if about["law"]:
        per_client, train, test = (int(size) for size in about["law"])
        types, weights = about.get("types") or ((), ())
        kinds = tuple(tuple(int(c) for c in classes) for classes in types)
        probabilities = tuple(float(weight) for weight in weights)
        dirichlet = tuple(float(one) for one in about.get("concentrations") or ())
        law = Law(
            *(per_client, train, test, pools[:half], pools[half:]),
            *(kinds, probabilities, dirichlet),
        )
    return Split(
        kind=str(about["kind"]),
        seed=int(about["seed"]),
        seen=clients[:n_seen],
        certification=clients[n_seen : n_seen + n_certify],
        novel=clients[n_seen + n_certify :],
        reserve=_parted(arrays["reserve"], arrays["reserve_sizes"]),
        content_hash=str(about["content_hash"]),
        left_out=tuple(arrays["left_out"].tolist()),
        law=law,
        settings=dict(about.get("settings") or {}),
        dealt=False,
    )


def _law_sizes(law: Law | None) -> list[int]:
    return [] if law is None else [law.classes_per_client, law.train, law.test]


def _law_pools(law: Law | None) -> tuple[Ints, ...]:
    return () if law is None else (*law.pools, *law.test_pools)


def _joined(parts: Sequence[Ints]) -> Ints:
    return np.concatenate([np.zeros(0, dtype=np.int64), *parts])


def _parted(rows: Ints, sizes: Ints) -> tuple[Ints, ...]:
    if sizes.sum() != len(rows) or (sizes.size and sizes.min() < 0):
        raise ValueError("sizes do not add up to the rows")
    rows.setflags(write=False)
    return tuple(np.split(rows, np.cumsum(sizes)[:-1])) if len(sizes) else ()


def _load(path: str | Path) -> dict[str, NDArray[Any]]:
    file = Path(path).expanduser()
    if not file.is_file():
        raise InputError(f"split.path: there is no file {file}")
    try:
        with file.open("rb") as stream, np.load(stream, allow_pickle=False) as stored:
            return {name: stored[name] for name in stored.files}
    except (*_DAMAGE, lzma.LZMAError, AttributeError) as error:
        raise InputError(f"split.path: {file} is no frozen split: {_line(error)}") from error


def _about(arrays: Mapping[str, NDArray[Any]], path: str | Path) -> dict[str, Any]:
    try:
        about: dict[str, Any] = json.loads(str(arrays["about"]))
        if about["format"] != _FORMAT:
            raise ValueError(f"its format is {about['format']}")
    except _DAMAGE as error:
        raise InputError(f"split.path: {path} is no frozen split: {_line(error)}") from error
    return about


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:120] or type(error).__name__
