"""Tables as text, with commas between values and a header: reading them, and what else they are."""

import csv
import io
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from latecomer.errors import InputError
from latecomer.reading.column_names import column_names

_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars", " ": "blanks"}
# A name of a column may stand in brackets.
_JSON = re.compile(r"\ufeff?\s*(\{|\[)(?=\s*(?:$|[\[{\"]))")
_COMMENT = re.compile(r"\s*(#|%|//)+[^,;\t]*\w")


def read_header(reader: Iterator[list[str]]) -> list[str]:
    """Return the names of the columns, and leave the reader of the rows behind them.

    Raises
    ------
    InputError
        There is none.

    Examples
    --------
    >>> read_header(iter([[], [" client", "loss"], ["ann", "0.1"]]))
    ['client', 'loss']
    """
    cells = next((cells for cells in reader if any(map(str.strip, cells))), None)
    if cells is None:
        raise InputError("the file is empty")
    if begins := _JSON.match(cells[0]):
        raise InputError(f"it begins with {begins[1]!r}, as JSON does: write a table with a header")
    return column_names(cells)


def foreign_header(text: str) -> str:
    r"""Say why a header that lacks a column may lack it: its separator, or a comment.

    Examples
    --------
    >>> foreign_header("client;loss\nann;0,1\n").partition(",")[0]
    '; values are separated by semicolons'
    >>> foreign_header("client,loss\nann,0.1\n")
    ''
    """
    lines = (line.strip("\ufeff") for line in text.splitlines())
    line = next((line for line in lines if line.strip(", \t")), "")
    if _COMMENT.match(line):
        return f"; it begins with the comment {line.strip()!r:.40}: comment lines are not read"
    if re.match(r"sep=,", line):
        return (
            f"; it begins with {line.strip(', ')!r:.20}, as spreadsheets write: leave that line out"
        )
    n_names = _count(line, ",")
    for separator, called in _SEPARATORS.items():
        if _count(line, separator) > n_names and (separator != " " or n_names == 1):
            return (
                f"; values are separated by {called}, perhaps with decimal commas: write commas"
                " between values and points in numbers"
            )
    return ""


def _count(line: str, separator: str) -> int:
    return len(next(csv.reader([line], delimiter=separator, skipinitialspace=True), []))


def misfit(n_columns: int, cells: Sequence[str]) -> str:
    """Say what is wrong with a row that has more or fewer values than the header.

    Examples
    --------
    >>> misfit(2, ["ann", "0", "1"])
    '3 values, but the header has 2 columns: decimal commas, or row names as R writes them? Write \
0.1 for 0,1 and give every column a name'
    """
    said = f"{len(cells)} values, but the header has {n_columns} columns"
    if cells and cells[0].lstrip().startswith(("#", "%", "//")):
        return f"{said}: comment lines are not read, leave them out"
    numbers = any(
        re.fullmatch(r"\s*-?[0-9]+", one) and re.fullmatch(r"[0-9]+\s*", other)
        for one, other in pairwise(cells)
    )
    named = len(cells) == n_columns + 1
    causes = ["decimal commas"] if numbers else []
    causes += ["row names as R writes them"] if named and len(cells) > 1 else []
    if not causes or len(cells) < n_columns:
        return said
    write = ["0.1 for 0,1"] if numbers else []
    remedy = f"Write {write[0]} and give" if write else "Give"
    return f"{said}: {', or '.join(causes)}? {remedy} every column a name"


def find_misfit(text: str) -> str:
    """Name the first line that does not fit its table's header; no text where all do."""
    reader = csv.reader(io.StringIO(text, newline=""))
    n_columns = len(read_header(reader))
    for cells in reader:
        if len(cells) != n_columns and any(map(str.strip, cells)):
            return f"line {reader.line_num}: {misfit(n_columns, cells)}"
    return ""


def decimal_comma(text: object) -> str:
    """Return a hint where a text is a number with a decimal comma, else no text.

    Examples
    --------
    >>> decimal_comma("0,135"), decimal_comma("ann")
    ('; a decimal comma? Write 0.135', '')
    """
    if isinstance(text, str) and re.fullmatch(r"\s*[-+]?[0-9]*,[0-9]+\s*", text):
        return f"; a decimal comma? Write {text.strip().replace(',', '.')}"
    return ""
