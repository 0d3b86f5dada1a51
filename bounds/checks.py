"""Input validation: every error names the argument, its legal range and the value given.

Each function takes the argument's name and value, returns a float64 array (or an int64 one for
counts) and raises ``TypeError`` for what is not a number and ``ValueError`` outside the range.
For arrays the message shows the first offending entry and its index.
"""

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from latecomer.bounds.certificate import Array

_SHOWN = 200  # characters of a value
_MOST_COUNT = 2**62
LEAST_PROBABILITY = 1e-287
"""Of failing: the largest count over a smaller one is infinite."""


def _shown(value: float) -> str:
    """Return the shortest text that reads back as the number, without ".0" for whole numbers."""
    return repr(float(value)).removesuffix(".0")


def written(value: object) -> str:
    """Return how a value is written in Python, on one line that can be read."""
    text = " ".join(repr(value).split())
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _refuse(name: str, legal: str, array: NDArray[Any], wrong: NDArray[np.bool_]) -> None:
    if not wrong.any():
        return
    index = tuple(int(i) for i in np.argwhere(wrong)[0])
    where = name if not index else f"{name}[{', '.join(map(str, index))}]"
    raise ValueError(f"{name} {legal}, got {where}={_shown(array[index])}")


def real(name: str, value: ArrayLike, *, legal: str = "must be a finite number") -> Array:
    """Return ``value`` as finite float64, refusing strings, booleans, None, NaN and infinities."""
    try:
        raw = np.asarray(value)
    except ValueError as error:
        raise ValueError(f"{name} {legal}, got {name}={written(value)}") from error
    except (TypeError, RuntimeError) as error:  # of a tensor on a GPU, or one with a gradient
        why = " ".join(str(error).split())
        raise TypeError(f"{name} {legal}, got {name}={written(value)}: {why}") from error
    if raw.dtype.kind == "O":
        raw = _of_numbers(raw)
    if raw.dtype.kind not in "iuf" or _holds_boolean(value) or np.ma.is_masked(value):
        raise TypeError(f"{name} {legal}, got {name}={written(value)}")
    with np.errstate(over="ignore"):  # of a wider float
        array = raw.astype(np.float64) + 0.0  # no -0.0, of which a logarithm is NaN
    _refuse(name, legal, array, ~np.isfinite(array))
    return array


def _of_numbers(objects: NDArray[Any]) -> NDArray[Any]:
    """Return Python's numbers of any kind and length as floats; other objects as they are."""
    held = objects.ravel().tolist()
    if not all(isinstance(one, Real | Decimal) and not isinstance(one, bool) for one in held):
        return objects
    return np.array([_as_float(one) for one in held]).reshape(objects.shape)


def _as_float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def _holds_boolean(value: object) -> bool:
    """Whether a list holds True or False, which beside numbers NumPy takes for 1 and 0."""
    if isinstance(value, list | tuple):
        return any(map(_holds_boolean, value))
    return isinstance(value, bool | np.bool_)


def interval(name: str, value: ArrayLike, low: float, high: float) -> Array:
    """Return ``value`` as float64 with ``low <= value <= high``."""
    legal = f"must lie in [{_shown(low)}, {_shown(high)}]"
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
    return above(name, value, 0.0)


def above(name: str, value: ArrayLike, low: float) -> Array:
    """Return ``value`` as float64 with ``value > low``."""
    legal = f"must be greater than {_shown(low)}"
    array = real(name, value, legal=legal)
    _refuse(name, legal, array, array <= low)
    return array


def between(name: str, value: ArrayLike, low: float, high: float) -> Array:
    """Return ``value`` as float64 with ``low < value < high``."""
    legal = f"must lie strictly between {_shown(low)} and {_shown(high)}"
    array = real(name, value, legal=legal)
    _refuse(name, legal, array, (array <= low) | (array >= high))
    return array


def failure_probability(name: str, value: ArrayLike, *, parts: int = 1) -> Array:
    """Return ``value`` as float64 with ``0 < value < 1``, none of its equal parts below the least.

    Who splits a probability says into how many parts: an error names what was given, no part.
    """
    array = between(name, value, 0.0, 1.0)
    split = f" to be split into {parts} parts" if parts > 1 else ""
    legal = f"must be at least {parts * LEAST_PROBABILITY:.3g}{split}"
    _refuse(name, legal, array, array / parts < LEAST_PROBABILITY)
    return array


def exactly(level: float) -> Fraction:
    """Return the number that a float was written as: a short fraction, else its decimal.

    In floats a whole number may just be missed: .1 must take 9 clients, and a third of it 29.
    A share of a level was rounded twice, as a decimal and when it was divided.

    Examples
    --------
    >>> exactly(0.1), exactly(0.1 / 3), exactly(0.05 / 7)
    (Fraction(1, 10), Fraction(1, 30), Fraction(1, 140))
    """
    decimal = Fraction(repr(float(level)))
    short = decimal.limit_denominator(10**6)
    return short if abs(short - decimal) * 2**51 <= abs(decimal) else decimal


def count(
    name: str, value: ArrayLike, *, minimum: int = 1, most: int = _MOST_COUNT
) -> NDArray[np.int64]:
    """Return ``value`` as int64 with ``minimum <= value <= most``; integral floats pass."""
    legal = f"must be a whole number of at least {minimum}"
    array = real(name, value, legal=legal)
    _refuse(name, legal, array, (array != np.floor(array)) | (array < minimum))
    _refuse(name, f"{legal} and at most {_shown(most)}", array, array > most)
    return array.astype(np.int64)


def one_count(name: str, value: ArrayLike, *, minimum: int = 1, most: int = _MOST_COUNT) -> int:
    """Return ``value`` as one int with ``minimum <= value <= most``; an integral float passes."""
    found = count(name, value, minimum=minimum, most=most)
    if found.ndim:
        raise ValueError(
            f"{name} must be one whole number of at least {minimum}, got shape {found.shape}"
        )
    return int(found)


def at_once(name: str, value: ArrayLike) -> int:
    """Return a number of bets or orders, for each of which a wealth of every client is held."""
    return one_count(name, value, most=100_000)


def at_most(name: str, value: NDArray[Any], limit_name: str, limit: NDArray[Any]) -> None:
    """Refuse a ``value`` that exceeds another argument, entry by entry after broadcasting."""
    mine, other = np.broadcast_arrays(value, limit)
    wrong = mine > other
    if wrong.any():
        index = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise ValueError(
            f"{name} must be at most {limit_name}, "
            f"got {name}={_shown(mine[index])} and {limit_name}={_shown(other[index])}"
        )


def sample_variance(name: str, value: ArrayLike, n: NDArray[Any], loss_max: float) -> Array:
    """Return ``value`` as a sample variance (divided by n - 1) that ``n`` losses can have."""
    array = nonnegative(name, value)
    # Sample variances computed in floats may exceed the largest possible one by rounding.
    # A product, of which infinity is the largest; a power of Python's floats overflows.
    limit = np.asarray(loss_max * loss_max * n / (4.0 * (n - 1)))
    legal = "must be at most loss_max^2 n / (4 (n - 1))"
    mine, largest = np.broadcast_arrays(array, limit)
    _refuse(name, legal, mine, mine > largest * (1.0 + 1e-9))
    return array


def largest_loss(name: str, value: ArrayLike) -> float:
    """Return ``value`` as a float above 0: one number, since it sets the scale of a whole call.

    It leaves room for sums of losses, and for their digits.
    """
    legal = "must be one number greater than 0"
    array = real(name, value, legal=legal)
    if array.ndim:
        raise ValueError(f"{name} {legal}, got shape {array.shape}")
    _refuse(name, legal, array, array <= 0)
    return float(interval(name, array, 1e-300, 1e300))


def one_in(name: str, value: ArrayLike, low: float, high: float) -> float:
    """Return ``value`` as one float with ``low <= value <= high``."""
    array = interval(name, value, low, high)
    if array.ndim:
        raise ValueError(
            f"{name} must be one number in [{_shown(low)}, {_shown(high)}], got shape {array.shape}"
        )
    return float(array)


def losses_in(name: str, value: ArrayLike, *, loss_max: float = 1.0) -> Array:
    """Return losses in ``[0, loss_max]``, shape [..., k], k at least 1."""
    legal = f"must hold at least 1 losses in [0, {_shown(loss_max)}] along its last axis"
    array = real(name, value, legal=legal)
    if array.ndim == 0:
        raise ValueError(f"{name} {legal}, got the single number {name}={_shown(float(array))}")
    if not array.shape[-1]:
        raise ValueError(f"{name} {legal}, got shape {array.shape}")
    _refuse(name, legal, array, (array < 0) | (array > loss_max))
    return array


def scored(
    losses: ArrayLike, delta: ArrayLike, loss_max: ArrayLike = 1.0
) -> tuple[Array, Array, float]:
    """Return one score a client [..., k], the failure probability and the largest loss."""
    top = largest_loss("loss_max", loss_max)
    scores = losses_in("losses", losses, loss_max=top)
    return scores, failure_probability("delta", delta), top


def flag(name: str, value: object) -> bool:
    """Return ``value`` if it is True or False."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, got {name}={written(value)}")
    return bool(value)


def one_of(name: str, value: object, choices: Sequence[str]) -> str:
    """Return ``value`` if it is one of ``choices``."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}, got {name}={written(value)}")
    return value


def same_length(**arrays: NDArray[Any]) -> int:
    """Return the common length of the last axes, refusing arrays whose lengths differ."""
    lengths = {name: array.shape[-1] if array.ndim else 0 for name, array in arrays.items()}
    if len(set(lengths.values())) != 1 or 0 in lengths.values():
        listed = ", ".join(f"{name} has {length}" for name, length in lengths.items())
        raise ValueError(f"{' and '.join(lengths)} must be lists of one same length, got {listed}")
    return next(iter(lengths.values()))
