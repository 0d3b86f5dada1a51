"""Points given as frames and series: what their names say, before arrays drop the names."""

from typing import Any

from latecomer.errors import InputError


def columns_of_points(x: Any) -> tuple[Any, ...]:
    """Return the names of a frame's columns, none for an array."""
    return tuple(x.columns) if hasattr(x, "columns") and hasattr(x, "iloc") else ()


def refuse_other_order(first: tuple[Any, ...], columns: tuple[Any, ...], called: str) -> None:
    """Refuse columns that are named like the first ones and stand in other places.

    Arrays have no names, and names that share none with the first are other names for the same.

    Examples
    --------
    >>> refuse_other_order(("age", "dose"), ("dose", "age"), "client 'b': x")
    Traceback (most recent call last):
    latecomer.errors.InputError: client 'b': x must have the columns of the first, in their order: \
age, dose, got dose, age
    """
    if columns != first and not {*first}.isdisjoint(columns):
        wanted, got = (", ".join(str(one) for one in names[:20]) for names in (first, columns))
        raise InputError(
            f"{called} must have the columns of the first, in their order: {wanted}, got {got}"
        )


def refuse_other_rows(x: Any, y: Any, called: str) -> None:
    """Refuse a frame and a series whose indexes hold the same entries in another order."""
    if not all(hasattr(one, "iloc") and hasattr(one, "index") for one in (x, y)):
        return
    if len(x) != len(y) or x.index.equals(y.index):
        return
    if {*x.index} == {*y.index}:
        raise InputError(
            f"{called}: x and y must have their rows in one order, got one index in two: y.loc["
            "x.index] puts them in order, reset_index(drop=True) says that they are"
        )
