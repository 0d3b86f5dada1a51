"""Input validation: every error names the argument, its legal range and the value given.

Each function takes the argument's name and value, returns a float64 array (or an int64 one for
counts) and raises ``TypeError`` for what is no number and ``ValueError`` for what is out of range.
For arrays the message shows the first offending entry and its index.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from latecomer.bounds.certificate import Array

__all__ = [
    "count",
    "failure_probability",
    "interval",
    "losses_in",
    "nonnegative",
    "one_of",
    "positive",
    "real",
    "same_length",
]


def _refuse(name: str, legal: str, array: NDArray[Any], wrong: NDArray[np.bool_]) -> None:
    if not wrong.any():
        return
    index = tuple(int(i) for i in np.argwhere(wrong)[0])
    where = name if not index else f"{name}[{', '.join(map(str, index))}]"
    raise ValueError(f"{name} {legal}, got {where}={array[index]:g}")


def real(name: str, value: ArrayLike, *, legal: str = "must be a finite number") -> Array:
    """Return ``value`` as finite float64, refusing strings, booleans, None, NaN and infinities."""
    try:
        raw = np.asarray(value)
    except ValueError as error:
        raise ValueError(f"{name} {legal}, got {name}={value!r}") from error
    if raw.dtype.kind not in "iuf":
        raise TypeError(f"{name} {legal}, got {name}={value!r}")
    array = raw.astype(np.float64)
    _refuse(name, legal, array, ~np.isfinite(array))
    return array


def interval(name: str, value: ArrayLike, low: float, high: float) -> Array:
    """Return ``value`` as float64 with ``low <= value <= high``."""
    legal = f"must lie in [{low:g}, {high:g}]"
    array = real(name, value, legal=legal)
    _refuse(name, legal, array, (array < low) | (array > high))
    return array


def nonnegative(name: str, value: ArrayLike) -> Array:
    """Return ``value`` as float64 with ``value >= 0``."""
    legal = "must be at least 0"
    array = real(name, value, legal=legal)
    _refuse(name, legal, array, array < 0)
    return array


def positive(name: str, value: ArrayLike) -> Array:
    """Return ``value`` as float64 with ``value > 0``."""
    legal = "must be greater than 0"
    array = real(name, value, legal=legal)
    _refuse(name, legal, array, array <= 0)
    return array


def failure_probability(name: str, value: ArrayLike) -> Array:
    """Return ``value`` as float64 with ``0 < value < 1``."""
    legal = "must lie strictly between 0 and 1"
    array = real(name, value, legal=legal)
    _refuse(name, legal, array, (array <= 0) | (array >= 1))
    return array


def count(name: str, value: ArrayLike, *, minimum: int = 1) -> NDArray[np.int64]:
    """Return ``value`` as int64 with ``value >= minimum``; integral floats pass."""
    legal = f"must be a whole number of at least {minimum}"
    array = real(name, value, legal=legal)
    _refuse(name, legal, array, (array != np.floor(array)) | (array < minimum) | (array > 2**62))
    return array.astype(np.int64)


def losses_in(name: str, value: ArrayLike, *, loss_max: float = 1.0, minimum: int = 1) -> Array:
    """Return losses in ``[0, loss_max]``, shape [..., k] with ``k >= minimum``."""
    legal = f"must hold at least {minimum} losses in [0, {loss_max:g}] along its last axis"
    array = real(name, value, legal=legal)
    if array.ndim == 0 or array.shape[-1] < minimum:
        raise ValueError(f"{name} {legal}, got shape {array.shape}")
    _refuse(name, legal, array, (array < 0) | (array > loss_max))
    return array


def one_of(name: str, value: object, choices: Sequence[str]) -> str:
    """Return ``value`` if it is one of ``choices``."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}, got {name}={value!r}")
    return value


def same_length(**arrays: NDArray[Any]) -> int:
    """Return the common length of the last axes, refusing arrays whose lengths differ."""
    lengths = {name: array.shape[-1] if array.ndim else 0 for name, array in arrays.items()}
    if len(set(lengths.values())) != 1 or 0 in lengths.values():
        listed = ", ".join(f"{name} has {length}" for name, length in lengths.items())
        raise ValueError(f"{' and '.join(lengths)} must be lists of one same length, got {listed}")
    return next(iter(lengths.values()))
