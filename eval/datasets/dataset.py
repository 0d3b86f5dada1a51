"""The data set that every reader returns, and groups of its clients."""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latecomer.errors import InputError
from latecomer.files import at_home, replacing
from latecomer.reading.ids import is_missing, refuse_alike, refuse_clients, spelling, spelt_array

MAX_CLASSES = 65_536
MAX_TOKENS = 2**24
"""Tokens travel as float32, which holds whole numbers below this exactly."""
# What rounding to float32 may take of a column's spread; below which share of its largest value a
# spread may be rounding itself, unless the values are whole.
_LOST, _NOISE = 0.01, 1e-13
_CHUNK = 1 << 24  # values checked at a time, so that a check needs no second copy of the data


@dataclass(frozen=True, eq=False)
class Dataset:
    """Labelled samples; build one with :func:`make_dataset`, which checks them.

    Attributes
    ----------
    name : str
        Name of the data set in rows and reports.
    x : ndarray, uint8 or float32, shape [N, D] or [N, C, H, W], or int64, shape [N, T]
        Inputs; uint8 inputs are divided by 255 before use. int64 are tokens, numbers that stand for
        words or the like and are never scaled.
    y : ndarray of int64, shape [N]
        Labels from 0.
    n_classes : int
        Largest label + 1, or the number of class names if that is larger; some labels may be
        absent.
    client : ndarray of int64, shape [N], or None
        Natural client of each sample, numbered from 0.
    test : ndarray of bool, shape [N], or None
        Samples of the publisher's test set, where there is one.
    provenance : str
        Where the data came from, in words.
    content_hash : str
        SHA-256 over all arrays and client names; no other names and no file paths enter.
    client_names : tuple of str
        Publisher's name of each natural client, by its number.
    class_names : tuple of str
        Publisher's name of each class; empty when there are none.
    coarse : ndarray of int64, shape [N], or None
        Superclass of each sample (CIFAR-100 has 20), numbered from 0; each class lies in one.
    feature_names : tuple of str
        Columns that the inputs were taken from, where they come from a table.
    notes : tuple of str
        How the data were read, where they do not show it: columns left out, ids in two spellings.
    group : tuple of str
        Group of each natural client, by its number; empty where none was asked for.
    group_column : str
        What the groups were taken from.
    """

    name: str
    x: NDArray[Any] = field(repr=False)
    y: NDArray[np.int64] = field(repr=False)
    n_classes: int
    client: NDArray[np.int64] | None = field(repr=False)
    test: NDArray[np.bool_] | None = field(repr=False)
    provenance: str
    content_hash: str
    client_names: tuple[str, ...] = field(default=(), repr=False)
    class_names: tuple[str, ...] = field(default=(), repr=False)
    coarse: NDArray[np.int64] | None = field(default=None, repr=False)
    feature_names: tuple[str, ...] = field(default=(), repr=False)
    notes: tuple[str, ...] = field(default=(), repr=False)
    group: tuple[str, ...] = field(default=(), repr=False)
    group_column: str = ""

    def __len__(self) -> int:
        """Count the samples."""
        return len(self.y)

    def told(self) -> list[str]:
        """Say in lines what was taken: samples, clients, inputs and classes, and the notes.

        Examples
        --------
        >>> import numpy as np
        >>> data = make_dataset("toy", np.zeros((3, 2)), np.array([0, 2, 2]), provenance="made up")
        >>> data.told()
        ['toy: 3 samples, inputs of shape 2, 3 classes (0 to 2)']
        """
        whose = "" if self.client is None else f" of {len(self.client_names)} clients"
        shape = " x ".join(map(str, self.input_shape))
        taken = f"inputs of shape {shape}"
        if self.vocabulary:
            taken = f"{shape} tokens each, from 0 to {self.vocabulary - 1}"
        elif self.feature_names:
            taken = f"{len(self.feature_names)} features ({listed(self.feature_names)})"
        numbered = tuple(map(str, range(self.n_classes)))
        unnamed = not self.class_names or self.class_names == numbered
        classes = f"0 to {self.n_classes - 1}" if unnamed else listed(self.class_names)
        known = f"{self.n_classes} classes ({classes})" if self.n_classes > 1 else "1 class"
        lines = [f"{self.name}: {len(self)} samples{whose}, {taken}, {known}"]
        if self.group:
            sizes = Counter(self.group)
            own = [f"{name} {sizes[name]}" for name in sorted(sizes)]
            lines.append(f"clients by {self.group_column}: {listed(own)}")
        return [*lines, *self.notes]

    def copies(self) -> dict[str, int]:
        """Count samples that more than one client holds, to the last bit, and those clients.

        Returns
        -------
        dict
            ``points`` and ``clients``; empty where no sample is in two clients, no client is
            natural, or inputs take fewer values than half as many as there are samples, as answers
            to a questionnaire do, so that equal ones are no copies.

        Examples
        --------
        >>> x = np.array([[1.0], [2.0], [1.0], [3.0]])
        >>> owner = np.array(["ann", "ann", "ben", "cy"])
        >>> make_dataset("toy", x, np.zeros(4), provenance="made up", client=owner).copies()
        {'points': 2, 'clients': 2}
        """
        if self.client is None:
            return {}
        owner: dict[bytes, int] = {}
        # Hashes in place of samples, so that large data are not in memory twice.
        held = [hashlib.blake2b(sample.data, digest_size=16).digest() for sample in self.x]
        shared = {
            sample
            for sample, client in zip(held, self.client.tolist(), strict=True)
            if owner.setdefault(sample, client) != client
        }
        if not shared or 2 * len(owner) < len(held):
            return {}
        rows = np.array([sample in shared for sample in held])
        return {"points": int(rows.sum()), "clients": len(np.unique(self.client[rows]))}

    @cached_property
    def vocabulary(self) -> int:
        """Largest token + 1; 0 where inputs are no tokens."""
        return int(self.x.max()) + 1 if self.x.dtype == np.int64 else 0

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one sample."""
        return self.x.shape[1:]

    def save(self, path: str | Path) -> Path:
        """Write an npz file that ``data: {name: npz, path: ...}`` reads as this same data set.

        Parameters
        ----------
        path : str or Path
            Ends in ``.npz``; the file is written whole or not at all. Where images are 1 or 3
            pixels wide, the study must add ``layout: chw``, and for tokens ``tokens: true``.

        Raises
        ------
        InputError
            The path does not end in ``.npz``, or the data have a publisher's test set or
            superclasses, which such a file does not hold.
        """
        target = at_home(path)
        if target.suffix != ".npz":
            raise InputError(f"path must end in .npz, got {str(path)!r}")
        if self.test is not None or self.coarse is not None:
            raise InputError(f"{self.name} has test rows or superclasses, which npz does not hold")
        held: dict[str, Any] = {"x": self.x, "y": self.y}
        if self.client is not None:
            held["client"] = _ids(self.client_names)[self.client]
        if self.class_names:
            held["class_names"] = np.array(self.class_names)
        if self.group:
            held["group"] = np.array(self.group)[self.client]
        with replacing(target) as stream:
            np.savez(stream, **held)
        return target


def unowned(left_out: int, total: int) -> str:
    """Say how many samples no client holds.

    >>> unowned(2, 1000)
    '2 of 1,000 samples belong to no client: left out'
    """
    return f"{left_out:,} of {total:,} samples belong to no client: left out"


def listed(names: Sequence[str]) -> str:
    """Name the first of them."""
    return ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")


def _ids(names: tuple[str, ...]) -> NDArray[Any]:
    """Return clients' names, as numbers or as strings, so that sorting them gives their order."""
    texts = np.array(names)
    if np.array_equal(np.unique(texts), texts):
        return texts
    return np.array([int(name) for name in names])


def make_dataset(
    name: str,
    x: NDArray[Any],
    y: NDArray[Any],
    *,
    provenance: str,
    client: NDArray[Any] | None = None,
    test: NDArray[np.bool_] | None = None,
    class_names: tuple[str, ...] = (),
    coarse: NDArray[Any] | None = None,
    tokens: bool = False,
    **told: Any,
) -> Dataset:
    """Check the arrays, number the clients and hash the contents.

    Parameters
    ----------
    name : str
    x : ndarray, shape [N, D] or [N, C, H, W]
        uint8 is kept; floats become float32; others are refused, their scale being unknown.
    y : ndarray, shape [N]
        Whole numbers from 0, of any numeric type.
    client : ndarray of whole numbers or strings, shape [N], optional
        Numbered from 0 in sorted order; spelt as :mod:`~latecomer.reading.ids` says.
    test : ndarray of bool, shape [N], optional
    coarse : ndarray, shape [N], optional
        Superclass of each sample, whole numbers from 0; a class must not lie in two.
    tokens : bool
        Whether ``x`` [N, T] holds tokens: whole numbers from 0 of any numeric type, kept as int64.
    **told
        Fields ``feature_names`` and ``notes``.

    Raises
    ------
    InputError
        Arrays are empty, unequal, of a wrong type or not finite, or labels not in 0..65535.

    Examples
    --------
    >>> data = make_dataset("toy", np.zeros((3, 2)), np.array([0, 2, 2]), provenance="made up")
    >>> len(data), data.n_classes, data.input_shape, data.x.dtype.name
    (3, 3, (2,), 'float32')
    """
    _check_lengths({"x": x, "y": y, "client": client, "test": test, "coarse": coarse})
    inputs, labels = np.ascontiguousarray(_as_inputs(x, tokens)), as_labels(y)
    numbers, names, merged = _as_clients(client)
    publisher = None if test is None else np.array(test, dtype=np.bool_)
    superclass = None if coarse is None else _as_superclasses(labels, coarse)
    kept: dict[str, Any] = {"x": inputs, "y": labels, "client": numbers}
    kept |= {"test": publisher, "coarse": superclass}
    return Dataset(
        name=name,
        n_classes=max(int(labels.max()) + 1, len(class_names)),
        provenance=provenance,
        content_hash=_hash_of(kept, names),
        client_names=names,
        class_names=class_names,
        **kept,
        **told | {"notes": (*told.get("notes", ()), *merged)},
    )


def _check_lengths(arrays: Mapping[str, NDArray[Any] | None]) -> None:
    """Refuse arrays that are empty or unequally long; absent ones are ignored."""
    lengths = {key: array for key, array in arrays.items() if array is not None}
    for key, array in lengths.items():
        if array.ndim == 0 or array.size == 0:
            raise InputError(f"{key} must hold at least one sample, got shape {array.shape}")
    counts = {key: len(array) for key, array in lengths.items()}
    if len(set(counts.values())) != 1:
        listed = ", ".join(f"{key} has {count}" for key, count in counts.items())
        raise InputError(f"{' and '.join(counts)} must be equally long, got {listed}")


def _hash_of(kept: Mapping[str, NDArray[Any] | None], names: Sequence[str]) -> str:
    """Return the SHA-256 of arrays and of the clients' names."""
    digest = hashlib.sha256()
    for key, part in kept.items():
        if part is not None:
            digest.update(f"{key} {part.dtype.str} {part.shape};".encode())
            digest.update(part.data)
    digest.update("\0".join(names).encode())
    return digest.hexdigest()


def _as_pixels(x: NDArray[Any]) -> NDArray[Any]:
    """Return inputs as they are stored: uint8 unchanged, floats as finite float32."""
    if x.ndim not in (2, 4):
        raise InputError(f"x must have shape [N, D] or [N, C, H, W], got {list(x.shape)}")
    if x.dtype == np.uint8:
        return x
    if x.dtype.kind != "f":
        raise InputError(
            f"x must be uint8 (0 to 255) or floating point, got {x.dtype}: save bytes as uint8, "
            "other numbers as float32, or say tokens: true of numbers that stand for words"
        )
    part = "column" if x.ndim == 2 else "channel"
    pixels = as_float32(x, [f"x, {part} {number}," for number in range(x.shape[1])])
    flat = pixels.reshape(-1)
    for start in range(0, flat.size, _CHUNK):
        wrong = ~np.isfinite(flat[start : start + _CHUNK])
        if wrong.any():
            first = start + int(np.argmax(wrong))
            sample = first // (pixels.size // len(pixels))
            value = x.reshape(-1)[first]
            raise InputError(f"x must be finite float32 numbers, got {value:g} in sample {sample}")
    return pixels


def as_reals(x: NDArray[Any]) -> NDArray[Any]:
    """Return inputs as :func:`make_dataset` takes them: other numbers than bytes as floats."""
    return x if x.dtype == np.uint8 or x.dtype.kind == "f" else x.astype(np.float64)


def as_float32(values: NDArray[Any], called: Sequence[str]) -> NDArray[np.float32]:
    """Return numbers [N, C, ...] as float32; what does not fit becomes infinite.

    ``called`` names each of the C parts in messages: one is refused whose values differ by less
    than float32 shows, such as times in milliseconds or long ids.

    >>> as_float32(1.7e12 + 1000 * np.arange(9.0)[:, None], ["column 'when'"])
    ... # doctest: +ELLIPSIS
    Traceback (most recent call last):
    latecomer.errors.InputError: column 'when' must differ by more than float32 rounds away ...
    """
    with np.errstate(over="ignore"):
        kept = values.astype(np.float32, copy=False)
    if np.can_cast(values.dtype, np.float32) or not values.size:
        return kept
    exact_type = np.float64 if values.dtype.kind == "f" else np.longdouble
    others = tuple(axis for axis in range(values.ndim) if axis != 1)
    low, high = kept.min(axis=others), kept.max(axis=others)
    # A spread is at least the range over the root of twice as many values: most parts pass here.
    with np.errstate(invalid="ignore"):  # infinite ones
        least = (high - low) / np.sqrt(2 * values.size // len(called))
    doubtful = ~(np.maximum(np.abs(low), np.abs(high)) * 2.0**-23 <= _LOST * least)
    for number in np.flatnonzero(doubtful).tolist():
        name = called[number]
        if not np.isfinite(kept[:, number]).all():
            continue  # refused in other words
        exact: NDArray[Any] = values[:, number].astype(exact_type)
        spread, lost = np.std(exact - exact[:1]), np.std(kept[:, number] - exact)
        whole = bool((exact == np.rint(exact)).all())
        noise = 0 if whole else _NOISE * np.abs(exact).max()
        if spread > noise and lost > _LOST * spread:
            raise InputError(
                f"{name} must differ by more than float32 rounds away (its values have 7 digits), "
                f"got {exact.min():.20g} to {exact.max():.20g}: subtract one number from all of "
                "them first, the same in all files, or leave them out"
            )
    return kept


def _as_inputs(x: NDArray[Any], tokens: object) -> NDArray[Any]:
    if not isinstance(tokens, bool):
        raise InputError(f"tokens must be true or false, got {tokens!r}")
    return as_tokens(x) if tokens else _as_pixels(x)


def as_tokens(x: NDArray[Any]) -> NDArray[np.int64]:
    """Return tokens ``[N, T]`` as int64, refusing any that is no whole number in 0..16777215.

    >>> as_tokens(np.array([[3.0, 0.0]])).tolist()
    [[3, 0]]
    """
    legal = f"x must hold tokens [N, T], whole numbers from 0 to {MAX_TOKENS - 1}"
    if x.ndim != 2 or x.dtype.kind not in "iuf":
        raise InputError(f"{legal}, got {x.dtype} of shape {list(x.shape)}")
    wrong = ~((x >= 0) & (x < MAX_TOKENS))
    if x.dtype.kind == "f":
        wrong |= x != np.floor(x)
    if wrong.any():
        row, column = np.argwhere(wrong)[0].tolist()
        raise InputError(f"{legal}, got {x[row, column]} in sample {row}")
    return x.astype(np.int64)


def as_labels(y: NDArray[Any], key: str = "y") -> NDArray[np.int64]:
    """Return labels as int64, refusing any that is not a whole number in 0..65535."""
    legal = f"{key} must hold one whole number from 0 to {MAX_CLASSES - 1} per sample"
    if y.ndim != 1:
        raise InputError(f"{legal}, got shape {list(y.shape)}")
    if y.dtype.kind not in "iuf":
        raise InputError(f"{legal}, got {y.dtype}")
    wrong = ~((y >= 0) & (y < MAX_CLASSES))
    if y.dtype.kind == "f":
        wrong |= y != np.floor(y)
    if wrong.any():
        first = int(np.argmax(wrong))
        continuous = np.isfinite(y[first]) and y[first] != np.floor(y[first])
        hint = ": methods here classify; certify_predictor takes any loss in [0, 1], a regression's"
        raise InputError(f"{legal}, got {key}[{first}]={y[first]}{hint if continuous else ''}")
    return y.astype(np.int64)


def _as_superclasses(y: NDArray[np.int64], coarse: NDArray[Any]) -> NDArray[np.int64]:
    """Return superclasses as int64, refusing a class that lies in two of them."""
    superclass = as_labels(coarse, "coarse")
    of_class = np.full(int(y.max()) + 1, -1, dtype=np.int64)
    of_class[y] = superclass
    wrong = of_class[y] != superclass
    if wrong.any():
        torn = int(y[np.argmax(wrong)])
        raise InputError(
            f"coarse must give all samples of a class one superclass, got class {torn} in two"
        )
    return superclass


def _as_clients(
    client: NDArray[Any] | None,
) -> tuple[NDArray[np.int64] | None, tuple[str, ...], tuple[str, ...]]:
    """Return the number of each sample's client, the clients' names, and which became one."""
    if client is None:
        return None, (), ()
    legal = "client must hold one whole number or string per sample"
    if client.ndim != 1:
        raise InputError(f"{legal}, got shape {list(client.shape)}")
    if client.dtype.kind not in "iuSU":
        raise InputError(f"{legal}, got {client.dtype}")
    merged: tuple[str, ...] = ()
    if client.dtype.kind in "SU":
        client, merged = spelt_array(client)
    ids, numbers = np.unique(client, return_inverse=True)
    names = tuple(map(str, ids.tolist()))
    if "" in names:
        first = int(np.argmax(client == ""))
        raise InputError(f"{legal}, got none for sample {first}")
    refuse_clients(names)
    return numbers.astype(np.int64), names, merged


@dataclass(frozen=True, eq=False)
class Part:
    """Images and labels of a training or test set, with superclasses where there are any."""

    x: NDArray[Any] = field(repr=False)
    y: NDArray[Any] = field(repr=False)
    coarse: NDArray[Any] | None = field(default=None, repr=False)


def joined(parts: Sequence[Part]) -> Part:
    """Append parts to one another, with superclasses where all have them."""
    coarse = [part.coarse for part in parts if part.coarse is not None]
    return Part(
        np.concatenate([part.x for part in parts]),
        np.concatenate([part.y for part in parts]),
        np.concatenate(coarse) if len(coarse) == len(parts) else None,
    )


def join_sets(
    name: str,
    train: Part,
    test: Part,
    *,
    source: str,
    class_names: tuple[str, ...],
    remark: str = "",
) -> Dataset:
    """Append the publisher's test rows to the training rows and mark them.

    ``source`` says what was read, and ``remark`` what else the reader changed. Sets of unlike image
    sizes, or of the same images, are refused.
    """
    if train.x.shape[1:] != test.x.shape[1:]:
        raise InputError(
            f"data.root: {source}: training and test images differ in size: "
            f"{list(train.x.shape[1:])} and {list(test.x.shape[1:])}"
        )
    if np.array_equal(train.x, test.x):
        raise InputError(f"data.root: {source}: training and test set are the same images")
    counts = f"{len(train.y):,} training and {len(test.y):,} test images"
    both = joined([train, test])
    return make_dataset(
        name,
        both.x,
        both.y,
        test=np.arange(len(both.y)) >= len(train.y),
        coarse=both.coarse,
        class_names=class_names,
        provenance="; ".join(filter(None, [source, counts, remark])),
    )


def in_groups(data: Dataset, groups: NDArray[Any], column: str) -> Dataset:
    """Return the data set with the group of each of its clients, which its hash then covers.

    ``groups`` [N] has the group of each sample, the same for all samples of a client; ``column`` is
    what the grouping is called.

    >>> data = make_dataset("toy", np.zeros((3, 2)), np.array([0, 1, 1]), provenance="made up",
    ...                     client=np.array(["ann", "bob", "ann"]))
    >>> in_groups(data, np.array(["day", "night", "day"]), "shift").group
    ('day', 'night')
    """
    if data.client is None:
        raise InputError(f"group {column!r} is of clients: say the column of the clients, client")
    names, merged = spelt_array(groups.astype(np.str_), "group")
    if (names == "").any():
        raise InputError(f"group {column!r}, row {int(np.argmax(names == ''))}: no group is given")
    of_client = np.empty(len(data.client_names), dtype=names.dtype)
    of_client[data.client] = names
    torn = of_client[data.client] != names
    if torn.any():
        row = int(np.argmax(torn))
        whose = data.client_names[data.client[row]]
        raise InputError(
            f"group {column!r} must be the same for all samples of a client, got "
            f"{str(names[row])!r} and {str(of_client[data.client[row]])!r} for client {whose!r}"
        )
    group = tuple(of_client.tolist())
    refuse_alike(sorted(set(group)), "group")
    digest = hashlib.sha256("\0".join([data.content_hash, *group]).encode())
    return replace(
        data,
        group=group,
        group_column=column,
        content_hash=digest.hexdigest(),
        notes=(*data.notes, *merged),
    )


def in_mapped_groups(data: Dataset, groups: Mapping[Any, Any]) -> Dataset:
    """Return the data set with the groups that a mapping ``{client: group}`` gives its clients."""
    told: dict[str, str] = {}
    for client, group in groups.items():
        if is_missing(group):
            raise InputError(f"group: no group is given for client {client!r}")
        name = spelling(client)
        if name in told:
            raise InputError(f"group: client {name!r} occurs twice")
        told[name] = spelling(group)
    lacking = [name for name in data.client_names if name not in told]
    if lacking:
        raise InputError(f"group must name the group of every client, got none for {lacking[0]!r}")
    if data.client is None:
        raise InputError("group is of clients, and the samples have none")
    each = np.array([told[name] for name in data.client_names])
    return in_groups(data, each[data.client], "group")
