"""Which columns of a table are features, where the user names none, and what to say of others."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latecomer.errors import InputError
from latecomer.reading.column_names import (
    averaged_over,
    counts_rows,
    is_unnamed,
    means_client,
    names_owner,
    numbers_rows,
)

_REMEDY = "say client: {}, or rename it, or list the columns to learn from under features"
_FEW_ROWS = 10  # fewer may count up, or go with the label, by chance
_GLANCE = 1000  # rows that show most columns to hold more values than there are classes


def feature_columns(
    cells: Mapping[str, Any],
    asked: Sequence[str] | None = None,
    *,
    apart: Sequence[str | None],
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the columns to take as features, and what is to be said of them and of the others.

    Columns without a name, and row numbers under the usual names, are left out; a column that says
    whose the rows are is refused while there are no clients, and is warned of beside them.

    Parameters
    ----------
    cells : mapping of str to sequence
        All columns.
    asked : sequence of str, optional
        The columns that the user names.
    apart : sequence of str or None
        Columns of labels, of clients and perhaps of groups, which are no features; None where there
        is none.

    Raises
    ------
    InputError
        No column remains, one has two roles, or one says whose the rows are and no other does.

    Examples
    --------
    >>> table = {"id": [7, 3, 5], "age": [61, 47, 70], "label": [0, 1, 1], "client": [1, 1, 2]}
    >>> feature_columns(table, apart=("label", "client"))
    (('age',), ('left out, row numbers or without a name: id',))
    """
    notes: list[str] = []
    names = list(cells if asked is None else asked)
    if asked is None:
        names = [name for name in names if name not in apart]
        left = [name for name in names if is_unnamed(name) or numbers_rows(name, cells[name])]
        names = [name for name in names if name not in left]
        notes += [f"left out, row numbers or without a name: {', '.join(left)}"] if left else []
    if not names:
        raise InputError("features: there is no column beside label and client")
    if len(set(names)) < len(names) or not set(names).isdisjoint(apart):
        raise InputError(f"features must be distinct columns without another role, got {names}")
    unnamed = next(filter(is_unnamed, names), None)
    if unnamed is not None:
        raise InputError(f"features: column {unnamed!r} has no name: give it one")
    refuse_owner([name for name in names if asked is None or means_client(name)], apart)
    notes += _doubtful(cells, names) if asked is None else []
    return tuple(names), tuple(notes)


def refuse_owner(
    names: Sequence[str], apart: Sequence[str | None], *, remedy: str = _REMEDY
) -> None:
    """Refuse a column that says whose the rows are while there is no column of clients.

    Beside clients only what is nearly called so is refused.

    Raises
    ------
    InputError
        The message names the column; ``remedy`` says what to do with it.
    """
    has_clients = apart[1] is not None
    for name in names:
        if means_client(name) or (names_owner(name) and not has_clients):
            raise InputError(
                f"features: column {name!r} seems to hold clients: {remedy.format(name)}"
            )


def _doubtful(cells: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    """Warn of columns that were taken and may be no features."""
    notes = []
    owner = next(filter(names_owner, names), None)
    if owner is not None:
        notes.append(
            f"warning: the column {owner!r} was taken as a feature; where it names people, places"
            " or devices, list the columns to learn from under features"
        )
    over = averaged_over(names)
    counted = next((one for one in names if _counted(cells[one])), None) if not over else None
    if over or counted:
        why = "" if over else ", though it counts the rows"
        notes.append(f"warning: the column {over or counted!r} was taken as a feature{why}")
    return notes


def same_as_label(
    blocks: Mapping[str, NDArray[np.float32]], y: NDArray[np.int64]
) -> tuple[str, ...]:
    """Warn of a column that says every row's label: perhaps the label under another name.

    Examples
    --------
    >>> y = np.arange(20) % 2
    >>> same_as_label({"age": np.arange(20.0)[:, None], "target": y[:, None] + 1}, y)
    ("warning: the column 'target' was taken as a feature, and says every row's label",)
    """
    classes = len(np.unique(y))
    for name, block in blocks.items():
        if len(y) < _FEW_ROWS or classes < 2 or block.shape[1] > 1:
            continue
        if len(np.unique(block[:_GLANCE])) > classes or len(np.unique(block)) != classes:
            continue
        if len(np.unique(np.column_stack([block[:, 0], y]), axis=0)) == classes:
            said = f"the column {name!r} was taken as a feature, and says every row's label"
            return (f"warning: {said}",)
    return ()


def _counted(cells: Any) -> bool:
    return len(cells) >= _FEW_ROWS and counts_rows(cells)


def unread_owner(cells: Mapping[str, Any]) -> tuple[str, ...]:
    """Say which column seems to hold clients where none were read.

    Examples
    --------
    >>> unread_owner({"file": ["a.png"], "label": [0], "patient": [1]})
    ("no clients were read; if the column 'patient' holds them, say client: patient",)
    """
    owner = next(filter(names_owner, cells), None)
    said = f"no clients were read; if the column {owner!r} holds them, say client: {owner}"
    return () if owner is None else (said,)
