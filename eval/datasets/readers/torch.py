"""A PyTorch Dataset made by a user's own Python file or module."""

from types import ModuleType
from typing import Any

from latecomer.declared import module_at
from latecomer.errors import InputError
from latecomer.eval.datasets.dataset import Dataset
from latecomer.eval.datasets.reader import Reader
from latecomer.eval.datasets.samples import from_samples


def read_torch(*, path: str, layout: str | None = None, tokens: bool = False) -> Dataset:
    """Read a Dataset from ``file.py:name`` or ``package.module:name``; this runs the file.

    Parameters
    ----------
    path : str
        Names a map-style Dataset of samples ``(x, y, client)``; a pair of a Dataset of ``(x, y)``
        and its client index (see :func:`~latecomer.eval.datasets.samples.from_samples`); or a
        function without arguments that returns either. Every process of a run calls the function
        again: it must return the same samples each time.
    layout : {"vector", "hw", "chw", "hwc"}, optional
        Layout of ``x``; needed only where two fit.
    tokens : bool
        Whether ``x`` [T] holds tokens: whole numbers that stand for words.

    Raises
    ------
    InputError
        There is no such name, its code fails, or the result is no such Dataset.
    """
    place, _, name = path.rpartition(":") if isinstance(path, str) else ("", "", "")
    if not place or not name.isidentifier():
        raise InputError(f"data.path must read file.py:name or module:name, got {path!r}")
    try:
        member = getattr(_module(place), name, None)
        made = isinstance(member, type) or not hasattr(member, "__getitem__")
        held = member() if made and callable(member) else member
    except InputError:
        raise
    except Exception as error:
        said = " ".join(f"{type(error).__name__}: {error}".split())[:160]
        raise InputError(f"data.path: {path} failed: {said}") from error
    if member is None:
        raise InputError(f"data.path: {place} has no {name}")
    source, client = held, None
    if isinstance(held, tuple) and len(held) == 2:
        source, client = held
    try:
        how: Any = {"client": client, "layout": layout, "tokens": tokens}
        return from_samples(name, source, f"Dataset {path}", **how)
    except InputError as error:
        raise InputError(f"data.path: {path}: {error}") from error


def _module(place: str) -> ModuleType:
    try:
        return module_at(place)
    except ValueError as error:
        raise InputError(f"data.path: {error}") from error


READERS = (
    Reader(
        name="torch",
        description="a PyTorch Dataset that your own Python file makes, with its client index",
        read=read_torch,
        required=("path",),
        optional=("layout", "tokens"),
    ),
)
