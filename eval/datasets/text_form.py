"""A data set as delimited text: its header, and what is wrong with its form."""

import csv
from collections.abc import Sequence
from pathlib import Path

from latecomer.errors import InputError
from latecomer.reading.delimited import find_misfit, foreign_header, read_header
from latecomer.reading.encoded_text import file_beginning, refuse_other_than_text, text_of


def header_of(file: Path) -> tuple[list[str], int]:
    """Return the names of a CSV file's columns, and the number of lines before its first row.

    Raises
    ------
    InputError
        There is no header, or it names a column twice.
    """
    with file.open("rb") as binary:
        refuse_other_than_text(file_beginning(binary))
    with file.open(encoding="utf-8-sig", newline="") as stream:
        reader = csv.reader(stream)
        names = read_header(reader)
        if len(set(names)) < len(names):
            listed = ", ".join(names[:8])
            raise InputError(f"has a header that names a column twice: {listed}: no distinct names")
        return names, reader.line_num


def form_of(file: Path, names: Sequence[str], label: object) -> str:
    """Say what is wrong with a file's form, if anything is: separator, comments, a row's length."""
    text = text_of(file.read_bytes())
    foreign = foreign_header(text)
    if label not in names and foreign:
        return f"no column {label!r} among {', '.join(names[:8])}{foreign}"
    return find_misfit(text)
