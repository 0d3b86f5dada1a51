"""Make a data set from a PyTorch Dataset, which returns samples one at a time."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latecomer.errors import InputError
from latecomer.eval.datasets.columns import as_classes, as_clients, refuse_regression
from latecomer.eval.datasets.dataset import Dataset, make_dataset
from latecomer.eval.datasets.pictures import pictures

_READ_AGAIN = 8  # samples read twice, to detect random transforms


def from_samples(
    name: str,
    source: Any,
    provenance: str,
    *,
    client: Any = None,
    layout: str | None = None,
    tokens: bool = False,
) -> Dataset:
    """Make a data set from a map-style Dataset: any object with ``len()`` and ``source[i]``.

    Parameters
    ----------
    name, provenance, tokens
        As for :func:`~latecomer.eval.datasets.dataset.make_dataset`.
    source : sequence
        Samples ``(x, y)``, or ``(x, y, client)`` where ``client`` is not given.
    client : sequence or mapping, optional
        The client of each sample, or each client's sample numbers; other samples are left out.
    layout : str, optional
        As for :func:`~latecomer.eval.datasets.pictures.pictures`.

    Raises
    ------
    InputError
        It is no such Dataset, or a sample has another form or differs when it is read again.
    """
    count = _count(source)
    owners = None if client is None else _owners(client, count)
    rows = range(count) if owners is None else sorted(owners)
    if not len(rows):
        raise InputError("holds no samples")
    samples = [_sample(source, row, 3 if owners is None else 2) for row in rows]
    for place in range(0, len(rows), max(1, len(rows) // _READ_AGAIN)):
        again = _sample(source, rows[place], len(samples[place]))
        if not np.array_equal(again[0], samples[place][0]):
            raise InputError(
                f"sample {rows[place]} differs when it is read again: leave random transforms out"
            )
    ids = [sample[2] for sample in samples] if owners is None else [owners[row] for row in rows]
    y, class_names = as_classes([sample[1] for sample in samples], "y")
    refuse_regression(y, "y", named=bool(class_names) or bool(getattr(source, "classes", None)))
    return make_dataset(
        name,
        _inputs([sample[0] for sample in samples], layout),
        y,
        client=as_clients(ids, "client"),
        class_names=class_names,
        provenance=provenance,
        tokens=tokens,
    )


def _count(source: Any) -> int:
    known = hasattr(source, "__len__") and hasattr(source, "__getitem__")
    if known and not isinstance(source, str | bytes | type | Mapping | np.ndarray):
        return len(source)
    raise InputError(
        "must be a map-style Dataset, with len() and samples (x, y, client) under [i], got "
        f"{type(source).__name__}"
    )


def _owners(client: Any, count: int) -> dict[int, Any]:
    """Return the client of each sample that has one."""
    if not isinstance(client, Mapping):
        ids = list(client) if hasattr(client, "__len__") and not isinstance(client, str) else []
        if len(ids) != count:
            raise InputError(
                f"client must be one id a sample, {count} of them, or a mapping of client to "
                f"sample numbers, got {f'{len(ids)} ids' if ids else repr(client)[:60]}"
            )
        return dict(enumerate(ids))
    owners: dict[int, Any] = {}
    for one, numbers in client.items():
        for number in np.asarray(numbers).reshape(-1).tolist():
            if type(number) is not int or not 0 <= number < count or number in owners:
                raise InputError(
                    f"client {one!r}: samples must be whole numbers from 0 to {count - 1}, each "
                    f"one client's, got {number}"
                )
            owners[number] = one
    return owners


def _sample(source: Any, row: int, parts: int) -> tuple[Any, ...]:
    try:
        sample = source[row]
        if isinstance(sample, tuple | list) and len(sample) >= parts:
            x = sample[0]
            return (x if _is_file_or_picture(x) else np.asarray(x).copy(), *sample[1:parts])
    except Exception as error:
        said = " ".join(f"{type(error).__name__}: {error}".split())[:160]
        raise InputError(f"sample {row} cannot be read: {said}") from error
    wanted = "(x, y)" if parts == 2 else "(x, y, client), or client be given"
    got = f"{len(sample)} parts" if isinstance(sample, tuple | list) else type(sample).__name__
    raise InputError(f"sample {row} must be {wanted}, got {got}")


def _is_file_or_picture(x: Any) -> bool:
    return isinstance(x, str | Path | bytes) or hasattr(x, "getexif")


def _inputs(inputs: list[Any], layout: str | None) -> NDArray[Any]:
    if not all(isinstance(x, np.ndarray) and x.ndim == 1 for x in inputs):
        return pictures(inputs, column="x", folder=Path(), layout=layout)
    for row, x in enumerate(inputs):
        if (x.shape, x.dtype) != (inputs[0].shape, inputs[0].dtype):
            raise InputError(
                f"x must be vectors of one length and type, got {inputs[0].dtype} of length "
                f"{len(inputs[0])} in sample 0 and {x.dtype} of length {len(x)} in sample {row}"
            )
    return np.stack(inputs)
