"""A user's own shift: a function given by its import path."""

import inspect
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latecomer.declared import module_at
from latecomer.errors import InputError
from latecomer.eval.shifts.transforms import unit_floats
from latecomer.files import sum_of

OwnShift = Callable[[NDArray[np.float32], float, np.random.Generator], Any]


def import_shift(path: str) -> OwnShift:
    """Import a shift from ``module:function`` or ``folder/file.py:function``.

    The function is called as ``function(x, severity, rng)`` with float32 inputs [n, ...] as the
    network sees them before standardisation (bytes divided by 255) and a generator seeded per
    client and severity. It returns an array of the same shape. Importing runs the module.

    Raises
    ------
    InputError
        There is no such module, file or function.

    Examples
    --------
    >>> import_shift("numpy:clip").__name__
    'clip'
    """
    key = "shifts.function"
    shift: OwnShift = function_at(path, key, f"{key}: path must read module:function")
    return shift


def function_at(path: str, key: str, legal: str) -> Callable[..., Any]:
    """Import a user's function; error messages begin with ``key`` or ``legal``."""
    place, _, name = path.rpartition(":")
    if not place or not name.isidentifier():
        raise InputError(f"{legal}, got {path!r}")
    try:
        module = module_at(place)
    except (ValueError, ImportError) as error:
        raise InputError(f"{key}: {error}") from error
    function: Callable[..., Any] | None = getattr(module, name, None)
    if not callable(function):
        raise InputError(f"{key}: {place} has no function {name}")
    return function


def source_hash(function: OwnShift) -> str:
    """Return the SHA-256 of the file that defines a function, empty if there is no such file."""
    try:
        file = inspect.getsourcefile(function)
    except TypeError:
        return ""
    return sum_of(file) if file else ""


def apply_own(
    function: OwnShift, label: str, x: Any, severity: float, rng: np.random.Generator
) -> NDArray[np.float32]:
    """Call a user's shift on one client's inputs and check the result.

    Raises
    ------
    InputError
        The function fails, returns another shape or non-finite numbers, or others when it is
        called again with the same generator.
    """
    inputs, drawn = unit_floats(x), deepcopy(rng)
    try:
        # Copies, in case the function writes into its argument or returns what it will change.
        given = np.array(function(inputs.copy(), severity, rng))
        again = np.asarray(function(inputs.copy(), severity, drawn))
    except (Exception, SystemExit) as error:
        said = " ".join(str(error).split())[:120]
        raise InputError(
            f"shifts.function: {label} failed: {type(error).__name__}: {said}"
        ) from error
    if given.shape != inputs.shape or given.dtype.kind not in "fiu":
        raise InputError(
            f"shifts.function: {label} must return numbers of shape {list(inputs.shape)}, got "
            f"{given.dtype} of shape {list(given.shape)}"
        )
    if not np.array_equal(given, again, equal_nan=given.dtype.kind == "f"):
        raise InputError(
            f"shifts.function: {label} must draw from the generator that it is given alone, for a "
            "run to be repeatable, got other inputs the second time"
        )
    with np.errstate(over="ignore"):
        shifted = given.astype(np.float32)
    if not np.isfinite(shifted).all():
        raise InputError(f"shifts.function: {label} must return finite numbers")
    return shifted
