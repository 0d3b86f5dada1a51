"""Make a data set from named columns of a table: features or pictures, labels and clients."""

import csv
import math
import re
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latecomer.errors import InputError, nearest
from latecomer.eval.datasets.dataset import Dataset, as_float32, as_labels, in_groups, make_dataset
from latecomer.eval.datasets.pictures import pictures
from latecomer.files import at_home
from latecomer.reading.column_names import (
    averaged_over,
    client_hint,
    column_names,
    counts_rows,
    is_unnamed,
    means_client,
    names_owner,
    numbers_rows,
    refuse_repeated,
)
from latecomer.reading.delimited import (
    decimal_comma,
    file_beginning,
    find_misfit,
    foreign_header,
    read_header,
    refuse_other_than_text,
    text_of,
)
from latecomer.reading.ids import (
    first_gap,
    holds_quantity,
    is_gap,
    refuse_labels,
    spelt_array,
    stands_for_none,
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
    ``asked`` are those that the user names; ``apart`` those of labels, of clients and perhaps of
    groups, None where there is none, which are no features.

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

    Beside clients only what is nearly called so is refused. ``remedy`` says what to do with it.
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
    many = [one for one in names if not over and len(cells[one]) >= _FEW_ROWS]
    counted = next((one for one in many if counts_rows(cells[one])), None)
    if over or counted:
        why = "" if over else ", though it counts the rows"
        notes.append(f"warning: the column {over or counted!r} was taken as a feature{why}")
    return notes


def same_as_label(
    blocks: Mapping[str, NDArray[np.float32]], y: NDArray[np.int64]
) -> tuple[str, ...]:
    """Warn of a column that says every row's label: perhaps the label under another name."""
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


def unread_owner(cells: Mapping[str, Any]) -> tuple[str, ...]:
    """Say which column seems to hold clients where none were read."""
    owner = next(filter(names_owner, cells), None)
    said = f"no clients were read; if the column {owner!r} holds them, say client: {owner}"
    return () if owner is None else (said,)


ROLES = ("label", "client", "features", "image", "root", "size", "group", "tokens")
"""Keys that a study may give for a table: arguments of :func:`from_columns` of the same names."""
# Above these, labels are a quantity, or an id: whole numbers without names; different labels, from
# how many on, by sample.
MOST_UNNAMED, FEW_CLASSES, LARGEST_SHARE = 50, 10, 0.25
# How numbers are written; 07 and 1_000 are read as names.
WHOLE = re.compile(r"0|-?[1-9][0-9]{0,17}")
REAL = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]*)?(e[-+]?[0-9]+)?", re.IGNORECASE)


@dataclass(frozen=True, eq=False)
class Columns:
    """A table, with name and provenance as ``make_dataset`` takes them.

    Attributes
    ----------
    cells : mapping of str to sequence
        The cells of each column, all columns equally long.
    folder : Path
        Folder that the paths of pictures start from unless a study says otherwise.
    text : bool
        Whether cells are untyped text, as in CSV: a column that holds only whole numbers is then
        read as numbers.
    class_names : mapping of str to tuple of str
        Class names that a column's whole numbers stand for, where the table has them.
    levels : tuple of str
        Names of the index, which holds no column.
    """

    name: str
    provenance: str
    cells: Mapping[str, Any]
    folder: Path = Path()
    text: bool = False
    class_names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    levels: tuple[str, ...] = ()


def from_columns(
    columns: Columns,
    *,
    label: object = None,
    client: object = None,
    features: object = None,
    image: object = None,
    root: object = None,
    size: int | None = None,
    layout: str | None = None,
    group: object = None,
    tokens: bool = False,
) -> Dataset:
    """Make a data set from the columns of a table, one sample per row.

    Parameters
    ----------
    columns : Columns
    label : str, optional
        Column of the labels, ``label`` unless given: whole numbers from 0, or class names, which
        are numbered in sorted order.
    client : str, optional
        Column of the clients, whole numbers or strings; ``client`` unless given, if it exists.
    features : str or sequence of str, optional
        Columns of numbers or vectors; unless given, all others that have a name and do not number
        the rows.
    image : str, optional
        Column of pictures, in place of features.
    root : str or Path, optional
        Folder that the paths of pictures start from.
    size, layout : int, str, optional
        Pixels of a side that pictures are resized to; layout of those that are arrays.
    group : str, optional
        Column of the groups that clients belong to, the same for all samples of a client.
    tokens : bool
        Whether the features are whole numbers that stand for words.

    Raises
    ------
    InputError
        A column is absent or holds something else; the message names the column and the row.
    """
    labels = _label_column(columns, label)
    if client is None and "client" in columns.cells:
        client = "client"
    clients = None if client is None else _column(columns, "client", client)
    groups = None if group is None else _column(columns, "group", group)
    refuse_repeated(list(columns.cells), [role for role in (labels, clients, groups) if role])
    y, class_names = _classes(columns, labels)
    ids = _ids(columns, "client", clients) if clients else None
    _refuse_together(features, image, root, size)
    if image is not None:
        x, told = _pictures(columns, image, root, size, layout), dict[str, Any]()
    else:
        x, told = _features(columns, features, y, tokens, apart=(labels, clients, groups))
    unread = unread_owner(columns.cells) if clients is None else ()
    told |= {"notes": (*told.get("notes", ()), *unread), "class_names": class_names}
    told |= {"provenance": columns.provenance, "tokens": tokens}
    data = make_dataset(columns.name, x, y, client=ids, **told)
    return data if groups is None else in_groups(data, _ids(columns, "group", groups), groups)


def _ids(columns: Columns, what: str, column: str) -> NDArray[Any]:
    cells = columns.cells[column]
    return as_clients(cells, f"{what} {column!r}", text=columns.text, what=what)


def _refuse_together(features: object, image: object, root: object, size: object) -> None:
    if image is not None and features is not None:
        raise InputError("features and image exclude each other, got both")
    if image is None and (root is not None or size is not None):
        raise InputError("root and size are for pictures: say their column with image")


def _label_column(columns: Columns, label: object) -> str:
    labels = _column(columns, "label", "label" if label is None else label)
    if not len(columns.cells[labels]):
        raise InputError("holds no rows")
    return labels


def _classes(columns: Columns, column: str) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Return labels and class names of a column, refusing one that holds no classes."""
    y, names = as_classes(columns.cells[column], f"label {column!r}", text=columns.text)
    names = names or columns.class_names.get(column, ())
    refuse_regression(y, f"label {column!r}", named=bool(names))
    return y, names


def _pictures(
    columns: Columns, image: object, root: object, size: int | None, layout: str | None
) -> NDArray[Any]:
    if root is not None and not isinstance(root, str | Path):
        raise InputError(f"root must be the path of a folder, got {root!r}")
    column = _column(columns, "image", image)
    folder = columns.folder if root is None else at_home(root)
    cells = list(columns.cells[column])
    return pictures(cells, column=f"image {column!r}", folder=folder, size=size, layout=layout)


def as_classes(
    cells: Any, column: str, *, text: bool = False
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Return labels as whole numbers from 0, and the class names if there are any.

    ``column`` is what messages call them; with ``text``, names are read as numbers when all of them
    are whole numbers. A label that is missing, continuous, or neither number nor string is refused.

    >>> as_classes(["dog", "cat", "dog"], "label")
    (array([1, 0, 1]), ('cat', 'dog'))
    >>> as_classes([2, 0], "label")
    (array([2, 0]), ())
    """
    array = _typed(cells, column, "label", text=text)
    if array.dtype.kind == "b":
        array = array.astype(np.str_)
    if array.dtype.kind in "iuf":
        return as_labels(array, column), ()
    names, y = np.unique(array, return_inverse=True)
    return y.astype(np.int64), tuple(names.tolist())


def refuse_regression(y: NDArray[Any], column: str, *, named: bool) -> None:
    """Refuse labels that are a quantity, or one of its own for nearly every sample, as classes.

    Whole numbers without names (``named``) are refused where they are more than 50 different ones;
    whole numbers and names alike where a quarter of the samples have labels that differ (from 11
    different labels on: a table of a few lines is no evidence).

    >>> refuse_regression(np.arange(442) % 40, "label 'target'", named=False)
    >>> refuse_regression(np.arange(442) % 51, "label 'target'", named=False)
    ... # doctest: +ELLIPSIS
    Traceback (most recent call last):
    latecomer.errors.InputError: label 'target' must hold classes, at most 50 ... got 51 ...
    """
    found, samples = len(np.unique(y)), len(y)
    legal = []
    if found > MOST_UNNAMED and not named:
        legal.append(f"at most {MOST_UNNAMED} unless they have names")
    if found > FEW_CLASSES and found > LARGEST_SHARE * samples:
        legal.append(f"at most one for {1 / LARGEST_SHARE:g} samples")
    if legal:
        raise InputError(
            f"{column} must hold classes, {' and '.join(legal)}, got {found} different labels in "
            f"{samples} samples: methods here classify; for regression, certify the losses of a "
            "model trained elsewhere (latecomer certify, or certify_predictor with loss=)"
        )


def as_clients(
    cells: Any, column: str, *, text: bool = False, what: str = "client"
) -> NDArray[Any]:
    """Return clients' ids, or their groups' names, as whole numbers or strings.

    >>> as_clients(["10", "9"], "client"), as_clients(["10", "9"], "client", text=True)
    (array(['10', '9'], dtype='<U2'), array([10,  9]))
    """
    array = _typed(cells, column, what, text=text)
    if array.dtype.kind == "f" and (np.abs(array) < 2**53).all() and (array % 1 == 0).all():
        array = array.astype(np.int64)  # whole numbers that a table stores as floats
    if array.dtype.kind not in "iuU":
        raise InputError(f"{column} must hold whole numbers or strings, got {array[0]!s}")
    return array


def _column(columns: Columns, role: str, name: object) -> str:
    if isinstance(name, str) and name in columns.cells:
        return name
    held = list(columns.cells)
    listed = ", ".join(held[:8]) + (", ..." if len(held) > 8 else "")
    hint = nearest(name, held) if isinstance(name, str) else ""
    hint = client_hint(held) if role == name == "client" else hint
    if name in columns.levels:
        hint = "; it is in the index: reset_index() makes it a column"
    raise InputError(f"{role} must be one of the columns {listed}, got {name!r}{hint}")


def _typed(cells: Any, column: str, what: str, *, text: bool) -> NDArray[Any]:
    """Return cells as an array of one type, refusing missing cells."""
    array = _array(cells)
    if array.dtype.kind not in "biuf" or isinstance(cells, list | tuple):
        # Look at the cells: NumPy makes text of text and numbers, numbers of truths and numbers.
        listed = [_plain(cell) for cell in cells]
        many = next((cell for cell in listed if hasattr(cell, "item")), None)
        if many is not None:
            shape = list(np.shape(many))
            raise InputError(f"{column} must hold one {what} a row, got an array of shape {shape}")
        _refuse_gaps(listed, column, what)
        kinds = {str if isinstance(cell, str) else type(cell) for cell in listed}
        if not (kinds <= {str} or kinds <= {int, float} or kinds <= {bool}):
            told = " and ".join(sorted(kind.__name__ for kind in kinds))
            raise InputError(f"{column} must hold whole numbers, or strings, got {told}")
        array = np.array(listed)
        if array.dtype.kind == "U":
            array = _spelt(array, column, what, text=text)
    if array.ndim != 1:
        raise InputError(f"{column} must hold one {what} a row, got shape {list(array.shape)}")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        row = int(np.argmin(np.isfinite(array)))
        raise InputError(f"{column}, row {row}: no {what} is given, got {array[row]}")
    return array


def _plain(cell: Any) -> Any:
    """Return a cell as Python's own value; text that came as bytes (UTF-8) as text."""
    one = hasattr(cell, "item") and math.prod(np.shape(cell)) == 1
    plain = cell.item() if one else cell
    with suppress(UnicodeDecodeError):
        return plain.decode() if isinstance(plain, bytes) else plain
    return plain


def _refuse_gaps(listed: list[Any], column: str, what: str) -> None:
    """Refuse cells in which nothing is given, or a mark that says so."""
    blanks = (row for row, cell in enumerate(listed) if stands_for_none(cell))
    row = first_gap(listed) if what == "label" else None
    row = next(blanks, None) if row is None else row
    if row is None:
        return
    cell, shown = listed[row], ""
    if isinstance(cell, str) and cell.strip():
        shown = f", got {cell!r}: leave such rows out, or, if that is a name, write another"
    raise InputError(f"{column}, row {row}: no {what} is given{shown}")


def _spelt(array: NDArray[Any], column: str, what: str, *, text: bool) -> NDArray[Any]:
    """Return text in one spelling, as numbers where untyped cells all are."""
    spelt, merged = spelt_array(array, what)
    if what != "label":
        # Which clients or groups became one is said where every door's ids are seen.
        return array if merged or not text else numbers_of(spelt)
    if merged:
        raise InputError(f"{column}: {merged[0]}: write every class one way")
    names = np.unique(spelt).tolist()
    try:
        refuse_labels(names)
    except InputError as error:
        raise InputError(f"{column}: {error}") from error
    return numbers_of(spelt, real=True) if text or holds_quantity(names) else spelt


def _array(cells: Any) -> NDArray[Any]:
    """Return cells as an array; a single object if they are of unequal length."""
    try:
        return np.asarray(cells)
    except ValueError:
        return np.array([None])


def numbers_of(array: NDArray[Any], *, real: bool = False) -> NDArray[Any]:
    """Return text as whole numbers if all cells are, or as real numbers if ``real`` allows it.

    >>> numbers_of(np.array(["3", "10"])), numbers_of(np.array(["3", "010"]))
    (array([ 3, 10]), array(['3', '010'], dtype='<U3'))
    """
    for pattern, kind in ((WHOLE, np.int64), (REAL, np.float64)):
        if (real or kind is np.int64) and all(map(pattern.fullmatch, array.tolist())):
            return array.astype(kind)
    return array


def _features(
    columns: Columns,
    features: object,
    y: NDArray[np.int64],
    tokens: bool,
    apart: tuple[str | None, ...],
) -> tuple[NDArray[np.float32], dict[str, Any]]:
    """Return the features, which columns they are, and what is to be said of the others."""
    listed = None if features is None else _asked(columns, features)
    names, notes = feature_columns(columns.cells, listed, apart=apart)
    blocks = {
        name: _block(columns.cells[name], name, text=columns.text, tokens=tokens) for name in names
    }
    told = {"feature_names": names, "notes": (*notes, *same_as_label(blocks, y))}
    return np.concatenate([*blocks.values()], axis=1), told


def _asked(columns: Columns, features: object) -> list[str]:
    if not isinstance(features, Sequence) or not features:
        raise InputError(f"features must be a list of columns, got {features!r}")
    listed = [features] if isinstance(features, str) else features
    return [_column(columns, "features", name) for name in listed]


def _block(cells: Any, name: str, *, text: bool, tokens: bool) -> NDArray[np.float32]:
    """Return a column of numbers or vectors as [N, D]."""
    column = f"features: column {name!r}"
    array = _array(cells)
    if array.dtype.kind not in "biuf":  # perhaps one vector per row
        array = _array(list(cells))
    if array.dtype.kind not in "biuf" or array.ndim not in (1, 2):
        wanted = f"{column} must hold numbers, or vectors of one length"
        for i, cell in enumerate(cells):
            if not (REAL.fullmatch(str(cell)) if text else _array(cell).dtype.kind in "biuf"):
                remedy = _remedy(cells, name, text=text, tokens=tokens)
                raise InputError(f"{wanted}, got {cell!r:.60} in row {i}: {remedy}")
        shapes = [list(np.shape(cell)) for cell in cells]
        other = next((i for i, shape in enumerate(shapes) if shape != shapes[0]), 0)
        raise InputError(
            f"{wanted}, got shape {shapes[0]} in row 0 and {shapes[other]} in row {other}"
        )
    block = array.reshape(len(array), -1)
    kept = as_float32(block, [column] * block.shape[1])
    wrong = ~np.isfinite(kept).all(axis=1)
    if wrong.any():
        row = int(np.argmax(wrong))
        value = block[row][~np.isfinite(kept[row])][0]
        hint = "; fill gaps, or leave out their rows" if np.isnan(value) else ""
        raise InputError(
            f"{column} must hold finite float32 numbers, got {value:g} in row {row}{hint}"
        )
    return kept


def _remedy(cells: Any, name: str, *, text: bool, tokens: bool) -> str:
    """Say what makes features of a column that holds something else than numbers."""
    held = [cell for cell in cells if isinstance(cell, str) and not REAL.fullmatch(cell)]
    if text and any(map(decimal_comma, held)):
        return "are these decimal commas?"
    if held and all(not cell.strip() or is_gap(cell) for cell in held):
        return "fill gaps, or leave out their rows"
    if tokens:
        return "number the words first, equally many a row"
    if any(cell.lstrip().startswith(("[", "(")) for cell in held):
        return "text holds no vectors: give every number a column, or write Parquet"
    if len(held) == len(cells) and len(set(held)) <= 20:
        return f"pandas.get_dummies(frame, columns=[{name!r}], dtype=int) makes numbers of it"
    return "features names the columns of numbers, image one of pictures"


def columns_of(
    frame: Any, name: str, provenance: str, *, folder: Path = Path(), text: bool = False
) -> Columns:
    """Return the columns of a DataFrame, whose names must differ and have one level."""
    names = column_names(frame.columns)
    refuse_repeated(names)
    cells = {column: frame.iloc[:, i] for i, column in enumerate(names)}
    levels = tuple(map(str, frame.index.names))
    return Columns(name, provenance, cells, folder=folder, text=text, levels=levels)


def header_of(file: Path) -> tuple[list[str], int]:
    """Return the distinct names of a CSV file's columns, and the lines before its first row."""
    with file.open("rb") as binary:
        refuse_other_than_text(file_beginning(binary))
    with file.open(encoding="utf-8-sig", newline="") as stream:
        reader = csv.reader(stream)
        names = read_header(reader)
        if len(set(names)) < len(names):
            listed = ", ".join(names[:8])
            raise InputError(f"has a header that names a column twice: {listed}: no distinct names")
        return names, reader.line_num


def csv_frame(file: Path, names: Sequence[str], begins: int, kinds: Mapping[str, str]) -> Any:
    """Return a CSV file as a DataFrame; columns without a type in ``kinds`` get what they hold."""
    import pandas as pd

    with warnings.catch_warnings():
        # pandas only warns if a row is longer than the header, and drops the excess.
        warnings.simplefilter("error", pd.errors.ParserWarning)
        frame = pd.read_csv(
            file,
            header=None,
            names=range(len(names)),
            skiprows=begins,
            dtype={place: kinds[name] for place, name in enumerate(names) if name in kinds},
            index_col=False,
            encoding="utf-8-sig",
            keep_default_na=False,
            low_memory=len(kinds) == len(names),  # by parts, unless all cells show the type
        )
    frame.columns = pd.Index(names)
    return frame


def form_of(file: Path, names: Sequence[str], label: object) -> str:
    """Say what is wrong with a file's form, if anything is: separator, comments, a row's length."""
    text = text_of(file.read_bytes())
    foreign = foreign_header(text)
    if label not in names and foreign:
        return f"no column {label!r} among {', '.join(names[:8])}{foreign}"
    return find_misfit(text)
