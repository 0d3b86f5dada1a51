"""Labels, which decide what a model learns to tell apart: a class has one name, and no gap is one.

A class that is written in two ways, a number among names, or a program's mark for a missing value
would each become a class of its own; they are refused, whichever door they come through.
"""

import re
from collections.abc import Collection, Sequence
from typing import Any

from latecomer.errors import InputError
from latecomer.reading.delimited import decimal_comma
from latecomer.reading.ids import refuse_alike, refuse_scientific, stands_for_none

ALPHABET = 11
"""From so many names of one character each on, the classes are characters: all may be one."""
# Marks that publishers of data put where nothing is known, what infinity is written as, and what
# spreadsheets put where a formula failed.
_GAP = re.compile(
    r"\?+|\.|n\.a\.?|missing|[-+]?(inf|infinity)|[-+]?1\.#(ind|inf|qnan)|#(value!|ref!|div/0!|name\?|num!|null!)",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?")


def is_gap(cell: Any) -> bool:
    """Whether a cell stands for no label: missing, or what programs write as text for that.

    Examples
    --------
    >>> [is_gap(cell) for cell in (None, float("nan"), "NA", " ?", "inf", "", "cat", 0)]
    [True, True, True, True, True, True, False, False]
    """
    if stands_for_none(cell):
        return True
    return isinstance(cell, str) and bool(_GAP.fullmatch(cell.strip()))


def are_characters(names: Collection[str]) -> bool:
    """Whether classes are characters, among which ``a`` and ``A`` are two and ``?`` is one.

    Examples
    --------
    >>> are_characters(set("abcdefghijkA?")), are_characters({"y", "n", "?"})
    (True, False)
    """
    return len(names) >= ALPHABET and all(len(name) == 1 for name in names)


def first_gap(cells: Sequence[Any]) -> int | None:
    """Return the place of the first cell that stands for no label; None where there is none.

    Where all labels are characters, marks and blanks among them are labels, too.

    Examples
    --------
    >>> first_gap(["cat", "?"]), first_gap(["cat", "dog"]), first_gap([*"abcdefghijk?"])
    (1, None, None)
    """
    gaps = (place for place, cell in enumerate(cells) if is_gap(cell))
    found = next(gaps, None)
    if found is None or not are_characters({str(cell) for cell in cells}):
        return found
    return next((place for place, cell in enumerate(cells) if not isinstance(cell, str)), None)


def holds_quantity(names: Collection[str]) -> bool:
    """Whether names are all numbers, some of them with a fraction: a quantity as text.

    Examples
    --------
    >>> holds_quantity(["0.5", "1"]), holds_quantity(["1", "2.0"]), holds_quantity(["0.5", "high"])
    (True, False, False)
    """
    numbers = all(map(_NUMBER.fullmatch, names))
    return numbers and any(not float(name).is_integer() for name in names)


def refuse_labels(names: Collection[str]) -> None:
    """Refuse names of classes that may be one class, or that are no names beside the others.

    Parameters
    ----------
    names : collection of str
        The different names, blanks at their ends taken off.

    Raises
    ------
    InputError
        Two differ only in letter case, in blanks, or in how a number is written; one is a number
        and another a name; one has a decimal comma or is in scientific notation. Names of one
        character each are legal from eleven of them on, and so are numbers beside what holds
        digits and signs alone, as in ``0``, ``1``, ``2+``.

    Examples
    --------
    >>> refuse_labels(["0", "1", "2+"])
    >>> refuse_labels(["1", "cat"])
    Traceback (most recent call last):
    latecomer.errors.InputError: labels must be of one kind, whole numbers or names, got name \
'cat' and number '1'
    """
    if are_characters(names):
        return
    for name in names:
        if hint := decimal_comma(name):
            raise InputError(f"labels must be whole numbers or names, got {name!r}{hint}")
    refuse_scientific(names, "label")
    of_kind = {_kind(name): name for name in names}
    of_kind.pop("range", None)
    if len(of_kind) > 1:
        told = " and ".join(f"{kind} {name!r}" for kind, name in sorted(of_kind.items()))
        raise InputError(f"labels must be of one kind, whole numbers or names, got {told}")
    refuse_alike(names, "label")


def _kind(text: str) -> str:
    """Return what a label is; a range or an open end of numbers (``3+``, ``<5``) goes with any."""
    if _NUMBER.fullmatch(text):
        return "number"
    if any(map(str.isalpha, text)):
        return "name"
    return "range" if any(map(str.isdigit, text)) else "mark"
