"""Losses that come as JSON or Parquet instead of CSV, turned into rows or columns."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from latecomer.errors import InputError
from latecomer.reading.single_numbers import written_number

Record = dict[str, Any]


def is_json(data: bytes) -> bool:
    """Whether a file's content is JSON: no CSV table of losses begins with a bracket."""
    return data.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"[", b"{")


def json_value(path: str, text: str) -> Any:
    """Return what a JSON text holds; a name that an object gives twice is refused."""
    try:
        held = json.loads(text, object_pairs_hook=_once, parse_float=written_number)
    except (ValueError, RecursionError) as error:
        lines = "Extra data" in str(error) and text.lstrip().startswith("{")
        hint = "; records a line are no JSON: put them in one list, [...]" if lines else ""
        raise InputError(f"{path}: not JSON: {error}{hint}") from error
    if isinstance(held, dict) and {"certificate", "rule", "orders"} <= held.keys():
        raise InputError(f"{path}: holds a certificate, no losses")
    return held


def records_of(label: str, held: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield where each row stands, and its values by column, from records or a list per column.

    Examples
    --------
    >>> list(records_of("stdin", [{"client": "ann", "loss": 0.1}]))
    [('stdin, record 0', {'client': 'ann', 'loss': 0.1})]
    """
    if isinstance(held, Mapping):
        yield from _columns(label, held)
    else:
        for number, one in enumerate(held):
            yield f"{label}, record {number}", _record(label, number, one)


def _once(pairs: list[tuple[str, Any]]) -> Record:
    record = dict(pairs)
    if len(record) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{twice!r} occurs twice")
    return record


def _record(path: str, number: int, one: Any) -> Mapping[str, Any]:
    if not isinstance(one, Mapping):
        raise InputError(
            f"{path}, record {number}: must hold client and loss by name, got {one!r:.60}"
        )
    return one


def _columns(path: str, held: Mapping[str, Any]) -> Iterator[tuple[str, Record]]:
    lengths = {name: len(one) if is_list(one) else None for name, one in held.items()}
    if len(set(lengths.values())) > 1:
        told = ", ".join(f"{name} {length or 'no list'}" for name, length in lengths.items())
        raise InputError(f"{path}: columns must be lists of one length, got {told}")
    for number, values in enumerate(zip(*held.values(), strict=True)):
        yield f"{path}, record {number}", dict(zip(held, values, strict=True))


def is_list(value: Any) -> bool:
    """Whether a value can be a column."""
    return isinstance(value, (list, tuple)) or getattr(value, "ndim", 0) == 1


def parquet_frame(path: str) -> Any:
    """Read a Parquet file as a DataFrame, where pandas can."""
    try:
        import pandas as pd

        return pd.read_parquet(path)
    except ImportError as error:
        raise InputError(
            f"{path}: Parquet is read by pandas with pyarrow or fastparquet, and these are not"
            " installed: pip install pandas pyarrow, or write CSV"
        ) from error
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file") from error
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read as Parquet: {error}") from error
