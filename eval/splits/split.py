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

from latecomer.errors import InputError
from latecomer.eval.datasets.dataset import Dataset
from latecomer.eval.splits.clients import ClientRows
from latecomer.eval.splits.law import Law
from latecomer.files import at_home, write_atomic

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
        Natural clients too small to be used, or of a group that is left out and not drawn.
    law : Law or None
        Law of held-out clients, for kinds ``environment``, ``client_types``, ``client_mixtures``.
    settings : mapping
        Settings that the split was made with, seed included; empty where unknown.
    dealt : bool
        Whether the clients are known to be dealt at random: the split was made here, or it was read
        from a file and its settings give the same clients again.
    apart : tuple of (str, tuple of ClientRows)
        Groups of natural clients that were held back: new clients of another population.
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
    apart: tuple[tuple[str, tuple[ClientRows, ...]], ...] = field(default=(), repr=False)

    @property
    def clients(self) -> tuple[ClientRows, ...]:
        """All clients: seen, certification, novel, and held-back groups apart."""
        held_back = (client for _, clients in self.apart for client in clients)
        return (*self.seen, *self.certification, *self.novel, *held_back)

    @property
    def grouped(self) -> bool:
        """Whether only clients of some groups were drawn, or some were held back."""
        return bool(self.settings.get("certify_groups") or self.settings.get("novel_groups"))

    @property
    def n_outside(self) -> int:
        """Clients of the certified ones' population that neither train nor are certified."""
        return len(self.novel) if novel_alike(self.settings) else 0


def novel_alike(settings: Mapping[str, Any]) -> bool:
    """Whether a split's new clients are of the population that certified ones are drawn from.

    They are not where they are the clients of held-back groups.
    """
    held = {*(settings.get("novel_groups") or ())}
    alike = not held or held == {*(settings.get("certify_groups") or ())}
    return alike or bool(settings.get("novel"))


def checksum(
    clients: Sequence[ClientRows],
    groups: Sequence[int],
    reserve: Sequence[Ints],
    law: Law | None = None,
    *,
    apart: Sequence[tuple[str, int]] = (),
) -> str:
    """Return the SHA-256 of a split's contents, without its kind and seed.

    ``apart``: names and sizes of the held-back groups, whose clients are the last.
    """
    parts = [rows for c in clients for rows in (c.support, c.validation, c.query)]
    parts += [*reserve, *_law_pools(law)]
    header = [*groups, *(c.id for c in clients), *(len(rows) for rows in parts), *_law_sizes(law)]
    digest = hashlib.sha256(np.array(header, dtype="<i8").tobytes())
    digest.update(np.concatenate(parts).astype("<i8").tobytes())
    if law is not None and law.types:
        digest.update(json.dumps([law.types, law.weights]).encode())
    if law is not None and law.concentrations:
        digest.update(json.dumps(law.concentrations).encode())
    if apart:
        digest.update(json.dumps(apart).encode())
    return digest.hexdigest()


def split_arrays(split: Split, data_hash: str) -> dict[str, NDArray[Any]]:
    """Return a split as plain arrays, with everything that :func:`read_split` needs.

    ``rows`` holds all row numbers client by client, each as support, validation, query;
    ``sizes`` [clients, 3] their numbers; ``groups`` the numbers of seen, certification and new
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
    if split.apart:
        about["apart"] = _apart(split)
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
    content_hash = checksum(split.clients, groups, split.reserve, split.law, apart=_apart(split))
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
    apart = [(str(name), int(size)) for name, size in about.get("apart") or ()]
    ends = np.cumsum([*groups, *(size for _, size in apart)]).tolist()
    if sizes.shape != (len(arrays["ids"]), 3) or ends[-1] != len(sizes) or groups.min() < 0:
        raise ValueError("groups, ids and sizes do not fit")
    if (sizes[:, [0, 2]] < 1).any():
        raise ValueError("a client holds no support or no query data")
    parts = _parted(arrays["rows"], sizes.reshape(-1))
    clients = tuple(
        ClientRows(int(name), *parts[3 * i : 3 * i + 3]) for i, name in enumerate(arrays["ids"])
    )
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
        seen=clients[: ends[0]],
        certification=clients[ends[0] : ends[1]],
        novel=clients[ends[1] : ends[2]],
        reserve=_parted(arrays["reserve"], arrays["reserve_sizes"]),
        content_hash=str(about["content_hash"]),
        left_out=tuple(arrays["left_out"].tolist()),
        law=law,
        settings=dict(about.get("settings") or {}),
        dealt=False,
        apart=held_back(clients, apart, ends),
    )


def held_back(
    clients: Sequence[ClientRows], apart: Sequence[tuple[str, int]], ends: Sequence[int]
) -> tuple[tuple[str, tuple[ClientRows, ...]], ...]:
    """Return the held-back groups' clients, which follow the first three groups' in ``ends``."""
    return tuple(
        (name, tuple(clients[start:end]))
        for (name, _), start, end in zip(apart, ends[2:], ends[3:], strict=False)
    )


def _apart(split: Split) -> list[tuple[str, int]]:
    return [(name, len(clients)) for name, clients in split.apart]


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
    file = at_home(path)
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
