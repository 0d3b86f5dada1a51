"""The pickles of CIFAR-10 and CIFAR-100, read without trusting them.

A pickle is a program. These files need four names (a NumPy array, its dtype, the function that
makes an array, and the codec by which Python 3 writes bytes into old pickles); each is replaced by
a class of this module that only stores its arguments. Every other name, and every opcode that such
files do not need, is refused before anything is loaded.
"""

import io
import pickle
import pickletools
from math import prod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from latecomer.eval.errors import InputError

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


class _Array:
    """Stands in for an array: keeps the state that its pickle carries."""

    state: tuple[Any, ...] = ()

    def __init__(self, *_: Any) -> None:
        pass

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.state = state

    def as_bytes(self) -> NDArray[np.uint8]:
        """Return the array, refusing a state that does not describe a uint8 array."""
        if not isinstance(self.state, tuple) or len(self.state) != 5:
            raise InputError("holds an array without its contents")
        _, shape, dtype, fortran, content = self.state
        if not isinstance(dtype, _Dtype) or dtype.code not in ("u1", "|u1"):
            raise InputError("holds images that are not uint8")
        whole = isinstance(shape, tuple) and all(type(side) is int and side >= 0 for side in shape)
        if not whole or not isinstance(content, bytes) or prod(shape) != len(content):
            raise InputError("holds an array whose shape does not fit its contents")
        return np.frombuffer(content, np.uint8).reshape(shape, order="F" if fortran else "C")


class _Dtype:
    """Stands in for a dtype: keeps its code, such as ``u1``."""

    code = ""

    def __init__(self, code: Any = "", *_: Any) -> None:
        self.code = code.decode("latin1") if isinstance(code, bytes) else str(code)

    def __setstate__(self, state: Any) -> None:
        pass


class _Latin1:
    """Stands in for ``_codecs.encode``: bytes that Python 3 wrote into an old pickle."""

    def __new__(cls, text: Any, codec: Any) -> Any:
        if not isinstance(text, str) or codec not in ("latin1", b"latin1"):
            raise pickle.UnpicklingError("asks for a codec other than latin1")
        return text.encode("latin1")

    def __setstate__(self, state: Any) -> None:
        raise pickle.UnpicklingError("sets the state of a codec")


class _Restricted(pickle.Unpickler):
    NAMES: ClassVar[dict[tuple[str, str], type]] = {
        ("numpy.core.multiarray", "_reconstruct"): _Array,
        ("numpy._core.multiarray", "_reconstruct"): _Array,
        ("numpy", "ndarray"): _Array,
        ("numpy", "dtype"): _Dtype,
        ("_codecs", "encode"): _Latin1,
    }

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self.NAMES:
            raise InputError(
                f"asks for {module}.{name}, which no CIFAR file needs: nothing of it was run"
            )
        return self.NAMES[module, name]


def load_cifar_pickle(content: bytes) -> dict[str, Any]:
    """Return what a CIFAR pickle holds: lists of numbers or bytes, and uint8 arrays.

    Parameters
    ----------
    content : bytes
        The whole file.

    Returns
    -------
    dict
        Contents by key, keys as text; arrays as uint8.

    Raises
    ------
    InputError
        The pickle holds or asks for anything else, is cut short or goes on after its end.

    Examples
    --------
    >>> load_cifar_pickle(pickle.dumps({b"labels": [3, 8]}, protocol=2))
    {'labels': [3, 8]}
    """
    _check_opcodes(content)
    try:
        held = _Restricted(io.BytesIO(content), encoding="bytes").load()
    except InputError:
        raise
    except Exception as error:  # a damaged pickle may make the loader raise anything at all
        raise InputError(f"is no intact pickle ({' '.join(str(error).split())[:100]})") from error
    if not isinstance(held, dict):
        raise InputError(f"holds a {type(held).__name__}, no table of CIFAR images")
    named = {k.decode("latin1") if isinstance(k, bytes) else str(k): v for k, v in held.items()}
    return {key: v.as_bytes() if isinstance(v, _Array) else v for key, v in named.items()}


def _check_opcodes(content: bytes) -> None:
    last = -1
    try:
        for opcode, argument, place in pickletools.genops(content):
            if opcode.name not in _OPCODES:
                raise InputError(f"has opcode {opcode.name}, which no CIFAR file needs")
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
