"""Text from bytes: files are UTF-8, and what seems to be something else is told so in one line."""

from typing import BinaryIO

from latecomer.errors import InputError

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

    Raises
    ------
    InputError
        It is no UTF-8: the message says in which line, and what it seems to be.

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
    """Refuse a file that begins as no text does, or as text of two or four bytes a letter does.

    Raises
    ------
    InputError
    """
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
