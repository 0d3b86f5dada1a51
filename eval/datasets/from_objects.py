"""Clients from Python objects: a DataFrame, a mapping, a Dataset of another library."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latecomer.certify.arguments import told_in_full
from latecomer.errors import InputError
from latecomer.eval.datasets.columns import (
    Columns,
    as_classes,
    as_clients,
    columns_of,
    from_columns,
    refuse_regression,
)
from latecomer.eval.datasets.dataset import (
    Dataset,
    in_mapped_groups,
    listed,
    make_dataset,
    unowned,
)
from latecomer.eval.datasets.pictures import channels_first, pictures
from latecomer.reading.frames import columns_of_points, refuse_other_order, refuse_other_rows
from latecomer.reading.ids import spelling

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

    Samples are ``(x, y)``, or ``(x, y, client)`` where ``client`` is not given: the client of each
    sample, or each client's sample numbers (``notes`` count the others). A sample of another form,
    or that differs when it is read again, is refused.
    """
    if not _is_sequence(source):
        raise InputError(
            "must be a map-style Dataset, with len() and samples (x, y, client) under [i], got "
            f"{type(source).__name__}"
        )
    count = len(source)
    owners = None if client is None else _owners(client, count)
    rows = range(count) if owners is None else sorted(owners)
    if not len(rows):
        raise InputError("holds no samples")
    samples = [_sample(source, row, 3 if owners is None else 2) for row in rows]
    for place in range(0, len(rows), max(1, len(rows) // _READ_AGAIN)):
        again = _sample(source, rows[place], len(samples[place]))
        if not all(map(_same, again, samples[place])):
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
        notes=() if owners is None else _left_out(client, owners, count),
    )


def _is_sequence(source: Any) -> bool:
    known = hasattr(source, "__len__") and hasattr(source, "__getitem__")
    return known and not isinstance(source, str | bytes | type | Mapping | np.ndarray)


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


def _left_out(client: Any, owners: Mapping[int, Any], count: int) -> tuple[str, ...]:
    """Say how many samples no client holds, and which clients hold none."""
    notes = [unowned(count - len(owners), count)] if count > len(owners) else []
    held = set(owners.values())
    empty = [str(one) for one in client if one not in held] if isinstance(client, Mapping) else []
    if empty:
        notes.append(f"left out, clients without samples: {listed(empty)}")
    return tuple(notes)


def _sample(source: Any, row: int, parts: int) -> tuple[Any, ...]:
    try:
        sample = source[row]
        if isinstance(sample, tuple | list) and len(sample) >= parts:
            x = sample[0]
            is_picture = isinstance(x, str | Path | bytes) or hasattr(x, "getexif")
            return (x if is_picture else np.asarray(x).copy(), *sample[1:parts])
    except Exception as error:
        said = " ".join(f"{type(error).__name__}: {error}".split())[:160]
        raise InputError(f"sample {row} cannot be read: {said}") from error
    wanted = "(x, y)" if parts == 2 else "(x, y, client), or client be given"
    got = f"{len(sample)} parts" if isinstance(sample, tuple | list) else type(sample).__name__
    raise InputError(f"sample {row} must be {wanted}, got {got}")


def _same(one: Any, other: Any) -> bool:
    try:
        a, b = np.asarray(one), np.asarray(other)
        return np.array_equal(a, b, equal_nan=a.dtype.kind in "fc" and b.dtype.kind in "fc")
    except (TypeError, ValueError, RuntimeError):  # what is no label is told of as such
        return True


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


_ARGUMENTS = """
Parameters
----------
source : DataFrame, Hugging Face Dataset, mapping or map-style Dataset
    A table with one sample per row; ``{client: (x, y)}`` with arrays; or any object with ``len()``
    and samples ``(x, y)`` or ``(x, y, client)`` under ``[i]``: a PyTorch Dataset.  Inputs are
    vectors, or images [H, W], [C, H, W] or [H, W, C] with C = 1 or 3: numbers, or uint8, which are
    divided by 255 when they are used.  Labels are whole numbers from 0, or names of classes.
label : str; optional
    For a table: column of the labels, ``label`` unless given.
client : str, sequence or mapping; optional
    A table's column of clients, ``client`` unless given; a map-style Dataset's client of each
    sample, or ``{client: sample numbers}`` (``notes`` count the others); none for a mapping.
features : str or sequence of str; optional
    For a table: columns of numbers or vectors; unless given all others that have a name and do not
    number the rows.
image : str; optional
    For a table: column of pictures, or of paths to them, in place of features.
root : str or Path; optional
    For a table: folder that the paths of pictures start from.
size : int, at least 1; optional
    For a table: pixels of a side that pictures are resized to.
layout : str; optional
    Axes of inputs whose shape fits two: ``vector``, ``hw``, ``chw`` or ``hwc`` (images of height h,
    width w, c channels).
group : str or mapping; optional
    Groups of clients, of which whole ones can be kept from training: a table's column, or
    ``{client: group}``.
tokens : bool; False unless given
    Whether inputs are tokens: whole numbers from 0 that stand for words, equally many a sample.
name : str; "clients" unless given
    What rows and reports call the data.

Returns
-------
Dataset
    Frozen.  ``x``, ``y``, ``client`` (numbers from 0), ``class_names``, ``client_names`` and
    ``group``; ``content_hash`` names the content; ``save("mine.npz")`` writes a file that a study
    reads.
"""


@told_in_full(_ARGUMENTS)
def clients_from(
    source: Any,
    *,
    label: str | None = None,
    client: Any = None,
    features: str | Sequence[str] | None = None,
    image: str | None = None,
    root: str | Path | None = None,
    size: int | None = None,
    layout: str | None = None,
    group: str | Mapping[Any, Any] | None = None,
    tokens: bool = False,
    name: str = "clients",
) -> Dataset:
    """Make a data set from another library's clients: a table, a mapping, a Dataset.

    A study can read the file that ``.save("mine.npz")`` of the result writes. The same samples in
    one order have one content hash whatever the source type, but uint8 and floats differ.

    Parameters
    ----------
    source : DataFrame, Hugging Face Dataset, mapping or map-style Dataset
        A table with one sample per row; ``{client: (x, y)}`` with arrays; or any object with
        ``len()`` and samples ``(x, y)`` or ``(x, y, client)`` under ``[i]``: a PyTorch Dataset.
    label, features, image, root, size, layout
        For a table, as in :func:`~latecomer.eval.datasets.columns.from_columns`.
    client : str, sequence or mapping, optional
        A table's column, ``client`` unless given; a map-style Dataset's client of each sample, or
        ``{client: sample numbers}`` (``notes`` count the others, which are left out).
    group : str or mapping, optional
        Groups of clients: a table's column, or ``{client: group}``.
    tokens : bool
        Whether inputs are tokens: whole numbers from 0 that stand for words, equally many a sample.
    name : str

    Raises
    ------
    InputError
        The message names the column, row or client, what is legal and what was given.

    Examples
    --------
    >>> import pandas as pd
    >>> visits = pd.DataFrame({"age": [61, 47], "is": ["well", "ill"], "site": ["Lund", "Bern"]})
    >>> data = clients_from(visits, label="is", client="site")
    >>> data.y.tolist(), data.class_names, data.client.tolist(), data.client_names
    ([1, 0], ('ill', 'well'), [1, 0], ('Bern', 'Lund'))
    """
    roles: dict[str, Any] = {"label": label, "features": features, "image": image}
    roles |= {"root": root, "size": size, "group": None if isinstance(group, Mapping) else group}
    form: Any = {"client": client, "layout": layout, "tokens": tokens}
    if isinstance(group, Mapping):
        return in_mapped_groups(clients_from(source, name=name, **form, **roles), group)
    if _is_table(source):
        form["client"] = "client" if client is None else client
        return from_columns(_columns(source, name), **form, **roles)
    about = _refuse_roles(source, roles)
    made = _from_mapping if isinstance(source, Mapping) else from_samples
    return made(name, source, about, **form)


def _columns(table: Any, name: str) -> Columns:
    read = columns_of if hasattr(table, "iloc") else hugging_columns
    return read(table, name, f"{type(table).__name__} of {len(table)} rows")


def _refuse_roles(source: Any, roles: Mapping[str, Any]) -> str:
    """Refuse what is no source, and names of columns for one without; say what the source is."""
    kind, mapping = type(source).__name__, isinstance(source, Mapping)
    if not mapping and not _is_sequence(source):
        raise InputError(
            "source must be a table, a mapping {client: (x, y)} or a map-style Dataset, with len() "
            f"and samples (x, y, client) under [i], got {kind}"
        )
    for role, given in roles.items():
        if given is not None:
            hint = ": a mapping {client: group} says it for others" if role == "group" else ""
            raise InputError(f"{role} is for tables with columns, got {kind} as source{hint}")
    return f"mapping of {len(source)} clients" if mapping else f"{kind} of samples"


def _is_table(source: Any) -> bool:
    """Whether it is a DataFrame or a Hugging Face Dataset that is not streamed."""
    marks = ("columns", "iloc"), ("column_names", "features", "__len__")
    return any(all(hasattr(source, mark) for mark in one) for one in marks)


def _check_names(source: Mapping[Any, Any]) -> None:
    """Refuse a client that a mapping names twice, in two spellings."""
    spelt: dict[str, Any] = {}
    for client in source:
        name = spelling(client)
        if name in spelt:
            raise InputError(f"client {name!r} occurs twice, as {spelt[name]!r} and {client!r}")
        spelt[name] = client


def _classes_of(
    source: Mapping[Any, Any], labels: list[list[Any]]
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Return all clients' labels and the names of classes; an error names its client, if one."""
    try:
        return as_classes([one for own in labels for one in own], "y")
    except InputError:
        for client, own in zip(source, labels, strict=True):
            as_classes(own, f"client {client!r}: y")
        raise


def _from_mapping(
    name: str,
    source: Mapping[Any, Any],
    provenance: str,
    *,
    client: Any,
    layout: str | None,
    tokens: bool,
) -> Dataset:
    """Concatenate the samples of all clients."""
    if client is not None:
        raise InputError("client must not be given for a mapping, whose keys are the clients")
    if not source:
        raise InputError("source must hold at least one client, got an empty mapping")
    _check_names(source)
    inputs: list[NDArray[Any]] = []
    labels: list[list[Any]] = []
    columns: tuple[Any, ...] = ()
    for owner, held in source.items():
        where = f"client {owner!r}"
        if not isinstance(held, tuple | list) or len(held) != 2:
            raise InputError(f"{where} must hold (x, y), got {type(held).__name__}")
        refuse_other_rows(held[0], held[1], where)
        refuse_other_order(columns, named := columns_of_points(held[0]), f"{where}: x")
        columns = columns or named
        try:
            x, y = channels_first(np.asarray(held[0]), layout), list(held[1])
        except (InputError, TypeError, ValueError, RuntimeError) as error:
            raise InputError(f"{where}: {' '.join(str(error).split())}") from error
        if len(x) != len(y) or not y:
            raise InputError(
                f"{where} must hold equally many samples and labels, at least one, got {len(x)} "
                f"and {len(y)}"
            )
        first = inputs[0] if inputs else x
        if (x.shape[1:], x.dtype) != (first.shape[1:], first.dtype):
            raise InputError(
                f"{where}: x must be like that of the first client, {first.dtype} "
                f"{list(first.shape[1:])} a sample, got {x.dtype} {list(x.shape[1:])}"
            )
        inputs.append(x)
        labels.append(y)
    classes, class_names = _classes_of(source, labels)
    refuse_regression(classes, "y", named=bool(class_names))
    return make_dataset(
        name,
        np.concatenate(inputs),
        classes,
        client=np.repeat(as_clients(list(source), "client"), [len(x) for x in inputs]),
        class_names=class_names,
        provenance=provenance,
        tokens=tokens,
    )


def hugging_columns(dataset: Any, name: str, provenance: str, *, folder: Path = Path()) -> Columns:
    """Return the columns of a Hugging Face Dataset as they are stored, whatever its format."""
    plain = dataset.with_format(None)
    names = {
        column: tuple(feature.names)
        for column, feature in plain.features.items()
        if type(feature).__name__ == "ClassLabel"
    }
    return Columns(name, provenance, _Cells(plain), folder=folder, class_names=names)


class _Cells(Mapping[str, Any]):
    """The columns of a Dataset, each read on access."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset

    def __getitem__(self, column: str) -> Any:
        if type(self._dataset.features[column]).__name__ == "Image":
            return self._dataset[column]  # images are decoded one at a time
        return self._dataset.select_columns([column]).to_pandas()[column]

    def __iter__(self) -> Iterator[str]:
        return iter(self._dataset.column_names)

    def __len__(self) -> int:
        return len(self._dataset.column_names)
