"""Text from bytes, and tables as text, with commas between values and a header."""

import csv
import io
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import BinaryIO

from latecomer.errors import InputError
from latecomer.reading.column_names import column_names

_MARKS = (b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")
# How files begin that people take for text, and what they are.
_BEGINNINGS = {
    b"PK\x03\x04": "a zip archive, as spreadsheets (.xlsx, .ods) and .npz files are",
    b"\xd0\xcf\x11\xe0": "a spreadsheet of old (.xls)",
    b"\x1f\x8b": "compressed by gzip",
    b"BZh": "compressed by bzip2",
    b"\xfd7zXZ": "compressed by xz",
    b"\x28\xb5\x2f\xfd": "compressed by zstd",
    b"PAR1": "Parquet",
    b"ARROW1": "Arrow or Feather",
    b"\x93NUMPY": "a NumPy array",
    b"\x89HDF": "HDF5",
    b"%PDF": "PDF",
}
_GLANCE = 400  # bytes from a file's beginning that show its encoding


def text_of(data: bytes) -> str:
    r"""Return UTF-8 text, without the byte-order mark that some programs put before it.

    Of bytes that are no UTF-8 the refusal says in which line, and what they seem to be.

    Examples
    --------
    >>> text_of("\ufeffclient,loss".encode())
    'client,loss'
    >>> text_of("client,loss".encode("utf-16"))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    latecomer.errors.InputError: not UTF-8 text: it seems to be UTF-16 or UTF-32, ...
    """
    refuse_other_than_text(data)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(f"line {line}: {undecodable(error)}") from error


def undecodable(error: UnicodeDecodeError) -> str:
    """Say what bytes may be that are no UTF-8."""
    byte = error.object[error.start]
    said = f"not UTF-8 text, for it holds the byte {byte:#04x}"
    return f"{said}: is it Latin-1 or Windows-1252? Save it as UTF-8"


def refuse_other_than_text(data: bytes) -> None:
    """Refuse a file that begins as no text does, or as text of two or four bytes a letter does."""
    start = data[:_GLANCE]
    if start.startswith(_MARKS) or _every_other(start):
        raise InputError("not UTF-8 text: it seems to be UTF-16 or UTF-32, save it as UTF-8")
    for beginning, kind in _BEGINNINGS.items():
        if start.startswith(beginning):
            raise InputError(f"not UTF-8 text: it seems to be {kind}")


def _every_other(start: bytes) -> bool:
    """Whether zeros stand at every second place, as in UTF-16 of mostly ASCII letters."""
    if len(start) < 4:
        return False
    fewer, more = sorted(half.count(0) / len(half) for half in (start[::2], start[1::2]))
    return fewer < 0.6 < more


def file_beginning(stream: BinaryIO) -> bytes:
    """Return as much of a file as `refuse_other_than_text` looks at, and go back to its start."""
    start = stream.read(_GLANCE)
    stream.seek(0)
    return start


_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars", " ": "blanks"}
# A name of a column may stand in brackets.
_JSON = re.compile(r"\ufeff?\s*(\{|\[)(?=\s*(?:$|[\[{\"]))")
_COMMENT = re.compile(r"\s*(#|%|//)+[^,;\t]*\w")


def read_header(reader: Iterator[list[str]]) -> list[str]:
    """Return the names of the columns, and leave the reader of the rows behind them.

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
    remedy = "Write 0.1 for 0,1 and give" if numbers else "Give"
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
