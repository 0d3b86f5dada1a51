"""Pickles of others, read without trusting them.

A pickle is a program. A reader names the few things that its files need, each replaced by a class
of this project that only stores its arguments; every other name, and every opcode that such files
do not need, is refused before anything is loaded.
"""

import io
import pickle
import pickletools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

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
        """Return shape, dtype, whether columns come first, and contents.

        Raises
        ------
        InputError
            The state is not that of an array.
        """
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
    """Whether a pickle's shape is one: whole numbers from 0.

    >>> whole((2, 0)), whole((-1,)), whole((1.0,))
    (True, False, False)
    """
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

    Raises
    ------
    InputError
        The pickle asks for anything else, is cut short or goes on after its end.

    Examples
    --------
    >>> load_pickle(pickle.dumps([1, "two"], protocol=2), Kind("list", {}))
    [1, 'two']
    >>> load_pickle(pickle.dumps(print, protocol=2), Kind("list", {}))
    Traceback (most recent call last):
    latecomer.errors.InputError: asks for __builtin__.print, which no list needs: nothing of \
it was run
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
