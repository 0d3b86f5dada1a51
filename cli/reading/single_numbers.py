"""Single numbers that come from anywhere: Python, text, arrays and tensors of one number."""

import math
from contextlib import suppress
from decimal import Decimal
from numbers import Real
from typing import Any, Self

import numpy as np

_TRUTH = {"true": 1.0, "false": 0.0}


class ScientificNumber(float):
    """A number that was written in scientific notation, which as an id says too little.

    Examples
    --------
    >>> ScientificNumber("1e5") + 0, str(ScientificNumber("1e5"))
    (100000.0, '1e5')
    """

    def __init__(self, text: str) -> None:
        self._text = text

    def __new__(cls, text: str) -> Self:
        """Make the number, which cannot be changed afterwards."""
        return super().__new__(cls, text)

    def __str__(self) -> str:
        """Return the text that it was written as."""
        return self._text


def written_number(text: str) -> float:
    """Return a number as JSON writes it, scientific notation remembered."""
    return ScientificNumber(text) if "e" in text.lower() else float(text)


def one_number(value: Any) -> float:
    """Return a value as a float; NaN where it is no number.

    Text counts in plain decimal notation; an array or tensor where it holds a single number.  True
    counts 1 and False 0, as text too: errors of 0 and 1 are often written so.

    Examples
    --------
    >>> from fractions import Fraction
    >>> one_number(Fraction(1, 4)), one_number(np.array([0.5])), one_number("1_0"), one_number([1])
    (0.25, 0.5, nan, nan)
    >>> one_number(True), one_number("False"), one_number("TRUE")
    (1.0, 0.0, 1.0)
    """
    if isinstance(value, str):
        if value.strip().lower() in _TRUTH:
            return _TRUTH[value.strip().lower()]
        with suppress(ValueError):
            return math.nan if "_" in value else float(value)
        return math.nan
    if value is np.ma.masked or isinstance(value, np.timedelta64 | np.datetime64):
        return math.nan
    if not isinstance(value, Real | Decimal | np.bool_):
        value = _single(value)
    with suppress(TypeError, ValueError, OverflowError):
        if isinstance(value, Real | Decimal | np.bool_):
            return float(value)
    return math.nan


def _single(value: Any) -> Any:
    """Return what an array or tensor of one entry holds, else None."""
    with suppress(TypeError, ValueError, RuntimeError, AttributeError):
        return value.item() if hasattr(value, "item") else None
    return None


def told(value: Any) -> str:
    """Show a value that is no number in one line, with its type unless that is Python's own.

    Examples
    --------
    >>> told("0,1"), told([0.1, 0.2]), told(np.zeros(2))
    ("'0,1'", '[0.1, 0.2]', 'ndarray array([0., 0.])')
    """
    shown = " ".join(repr(value).split())[:80]
    if type(value).__module__ == "builtins":
        return shown
    return f"{type(value).__name__} {shown}"
