"""Pickles of NumPy arrays in dictionaries and lists, as other libraries save partitions.

Such a file needs six names of NumPy and one of Python; none of them is run, so what is read does
not depend on the version of NumPy.
"""

from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latecomer.errors import InputError
from latecomer.eval.datasets.restricted_pickle import (
    Array,
    Dtype,
    Kind,
    Latin1,
    StandIn,
    load_pickle,
    whole,
)

_KINDS = {f"{kind}{size}": f"{kind}{size}" for kind in "iu" for size in (1, 2, 4, 8)}
_KINDS |= {"f2": "f2", "f4": "f4", "f8": "f8", "b1": "?"}


class _Scalar(StandIn):
    def __init__(self, dtype: Any = None, content: Any = None) -> None:
        self.dtype, self.content = dtype, content


def _kind(called: str) -> Kind:
    names: dict[tuple[str, str], type] = {("numpy", "ndarray"): Array, ("numpy", "dtype"): Dtype}
    for module in ("numpy.core.multiarray", "numpy._core.multiarray"):
        names |= {(module, "_reconstruct"): Array, (module, "scalar"): _Scalar}
    names["_codecs", "encode"] = Latin1
    return Kind(called, names, opcodes=("BINBYTES8", "BINFLOAT"))


def load_arrays(content: bytes, called: str) -> Any:
    """Return what a pickle holds: dictionaries, lists, numbers, texts and arrays of numbers.

    Parameters
    ----------
    content : bytes
        The whole pickle.
    called : str
        One such file, in messages: "partition of FL-bench".

    Raises
    ------
    InputError
        It holds or asks for anything else, is cut short or goes on after its end.

    Examples
    --------
    >>> import pickle
    >>> load_arrays(pickle.dumps({"train": np.arange(3)}, protocol=4), "partition")
    {'train': array([0, 1, 2])}
    >>> load_arrays(pickle.dumps(np.array(["a"], object), protocol=3), "partition")
    Traceback (most recent call last):
    latecomer.errors.InputError: holds an array of Python objects, where numbers are expected
    """
    return _plain(load_pickle(content, _kind(called)))


def load_boxed(content: bytes, called: str) -> Any:
    """Return what an array of no dimension holds, which is how NumPy saves a dictionary.

    Raises
    ------
    InputError
        As :func:`load_arrays`, or the array is none of one object.
    """
    match load_pickle(content, _kind(called)):
        case Array(state=(_, (), Dtype(code="O8" | "O"), _, [held])):
            return _plain(held)
    raise InputError("holds no dictionary where one is expected")


def _plain(held: Any) -> Any:
    """Replace stand-ins by arrays and numbers, however deep they lie."""
    if isinstance(held, dict):
        return {key: _plain(value) for key, value in held.items()}
    if isinstance(held, list | tuple):
        return [_plain(value) for value in held]
    if isinstance(held, Array):
        shape, dtype, fortran, content = held.parts()
        return _numbers(shape, dtype, content, "F" if fortran else "C")
    if isinstance(held, _Scalar):
        return _numbers((), held.dtype, held.content, "C").item()
    if isinstance(held, StandIn):
        raise InputError("holds a type where a number or an array is expected")
    return held


def _numbers(shape: Any, dtype: Any, content: Any, order: Any) -> NDArray[Any]:
    """Return an array of numbers, refusing any whose description does not fit its contents."""
    if isinstance(dtype, Dtype) and dtype.code.startswith("O"):
        raise InputError("holds an array of Python objects, where numbers are expected")
    code = _KINDS.get(dtype.code.lstrip("|<>=")) if isinstance(dtype, Dtype) else None
    if code is None or dtype.order not in ("<", ">", "|", "="):
        raise InputError("holds an array that is not of numbers")
    kind = np.dtype(code).newbyteorder("<" if dtype.order in "|=" else dtype.order)
    if not whole(tuple(shape)) or not isinstance(content, bytes):
        raise InputError("holds an array without its contents")
    if len(content) != prod(shape) * kind.itemsize:
        raise InputError("holds an array whose shape does not fit its contents")
    native = np.frombuffer(content, kind).astype(kind.newbyteorder("="), copy=False)
    return native.reshape(shape, order=order)
