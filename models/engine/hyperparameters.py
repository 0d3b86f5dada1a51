"""Hyper-parameters declared with their ranges, checked in one place.

A method writes ``local_lr: float = number(0.005, above=0)``; the range travels in the dataclass
field, and :func:`check` refuses values outside it with the name, the range and the value.
"""

import sys
from dataclasses import Field, field, fields
from typing import Any

import numpy as np

from latecomer.checks import MOST_COUNT, MOST_SIZE

OF_ENTRIES = ("label", "bounds", "serving", "needs_training")
"""What an entry of a study's methods says besides hyper-parameters: none of them is called so."""


def number(
    default: float | None,
    *,
    least: float | None = None,
    above: float | None = None,
    below: float | None = None,
    most: float | None = None,
) -> Any:
    """Declare a real number in an interval given by its ends; None only as default."""
    low, strict = (above, True) if least is None else (least, False)
    ends = {"low": low, "strict": strict, "below": below, "most": most}
    return field(default=default, metadata=ends)


def count(default: int | None, *, least: int = 1) -> Any:
    """Declare a whole hyper-parameter ``>= least``; None only as its default."""
    return field(default=default, metadata={"least": least, "most": MOST_COUNT})


def size(default: int | None, *, least: int = 1) -> Any:
    """Declare a count of units or of samples in a batch, which are all in memory at once."""
    return field(default=default, metadata={"least": least, "most": MOST_SIZE})


def choice(default: str, *options: str) -> Any:
    """Declare a hyper-parameter that takes one of a few words."""
    return field(default=default, metadata={"options": (default, *options)})


def several(*options: str) -> Any:
    """Declare a hyper-parameter that lists different words out of a few; none by default."""
    return field(default=(), metadata={"among": options})


def legal(declared: "Field[Any]") -> str:
    """Describe the values that a hyper-parameter takes.

    >>> from dataclasses import dataclass, fields
    >>> @dataclass
    ... class Rule:
    ...     momentum: float = number(0.9, least=0, below=1)
    >>> legal(fields(Rule)[0])
    'must be at least 0 and below 1'
    """
    rule = declared.metadata
    if "options" in rule:
        return "must be one of " + ", ".join(rule["options"])
    if "among" in rule:
        return "must be a list of different names among " + ", ".join(rule["among"])
    if "least" in rule:
        return f"must be a whole number >= {rule['least']}"
    text = "must be a number"
    if rule["low"] is not None:
        text = f"must be {'above' if rule['strict'] else 'at least'} {rule['low']:g}"
    if rule["most"] is not None:
        text = f"{text} and at most {rule['most']:g}"
    return text if rule["below"] is None else f"{text} and below {rule['below']:g}"


def _holds(declared: "Field[Any]", value: Any) -> bool:
    rule = declared.metadata
    if "options" in rule:
        return value in rule["options"]
    if "among" in rule:
        listed = isinstance(value, list | tuple) and all(isinstance(v, str) for v in value)
        return listed and len(set(value)) == len(value) and set(value) <= set(rule["among"])
    if value is None:
        return declared.default is None
    if isinstance(value, bool) or not isinstance(value, int | float) or not _finite(value):
        return False
    if "least" in rule:
        return isinstance(value, int) and rule["least"] <= value <= rule["most"]
    low, below, most = rule["low"], rule["below"], rule["most"]
    over = low is None or (value > low if rule["strict"] else value >= low)
    return over and (below is None or value < below) and (most is None or value <= most)


def _finite(value: float) -> bool:
    return abs(value) <= sys.float_info.max  # whole numbers of any length too


def _besides(declared: "Field[Any]", value: Any) -> str:
    """Say what else a number must be, that lies in the range as it is written or in none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return ""
    if "least" in declared.metadata and value > declared.metadata["most"]:
        return f" and <= {declared.metadata['most']}"
    return "" if _finite(value) else " and finite"


def refuse_word(name: str, default: Any, value: Any) -> None:
    """Refuse a word in place of true or false, where these are what the default is one of.

    Every text but the empty one is true to Python, and YAML 1.2 reads ``off`` and ``no`` as text.

    Examples
    --------
    >>> refuse_word("nesterov", False, "off")
    Traceback (most recent call last):
    ValueError: nesterov must be true or false, got nesterov='off'
    """
    words = ("y", "n", "yes", "no", "on", "off", "true", "false")
    if isinstance(default, bool) and isinstance(value, str) and value.lower() in words:
        raise ValueError(f"{name} must be true or false, got {name}={value!r}")


def check(owner: Any) -> None:
    """Refuse the first hyper-parameter of a dataclass that is out of its range.

    Raises
    ------
    ValueError
        ``"<name> must be <range>, got <name>=<value>"``.
    """
    for declared in fields(owner):
        value = getattr(owner, declared.name)
        refuse_word(declared.name, declared.default, value)
        if declared.metadata and isinstance(value, np.integer | np.floating):
            plain = int(value) if isinstance(value, np.integer) else float(value)
            value = plain if plain == value else value
            object.__setattr__(owner, declared.name, value)  # frozen; ids hold Python's numbers
        if declared.metadata and not _holds(declared, value):
            must = legal(declared) + _besides(declared, value)
            raise ValueError(f"{declared.name} {must}, got {declared.name}={value!r}")
