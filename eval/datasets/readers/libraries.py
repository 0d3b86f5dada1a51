"""Data sets of other libraries: of Hugging Face from disk, of PyTorch from a user's own Python."""

from pathlib import Path
from types import ModuleType
from typing import Any

from latecomer.declared import module_at
from latecomer.errors import InputError
from latecomer.eval.datasets.columns import ROLES, from_columns
from latecomer.eval.datasets.dataset import Dataset
from latecomer.eval.datasets.from_objects import from_samples, hugging_columns
from latecomer.eval.datasets.reader import Reader, given_path, reading


def read_huggingface(*, path: str | Path, split: object = None, **roles: Any) -> Dataset:
    """Read a folder that ``Dataset.save_to_disk`` wrote; nothing is downloaded.

    Parameters
    ----------
    path : str or Path
        The folder.
    split : str, optional
        Part to read, where ``DatasetDict.save_to_disk`` wrote several.
    **roles
        Roles of the columns: see :func:`~latecomer.eval.datasets.columns.from_columns`.

    Raises
    ------
    InputError
        The folder holds no such Dataset, the package datasets is not installed, or a column is
        absent or holds something else.
    """
    folder = given_path(path, "a folder that save_to_disk wrote")
    with reading(folder, "data.path"):
        held, about = _part(_loaded(folder), split), f"Hugging Face Dataset in {folder}"
        return from_columns(hugging_columns(held, folder.name, about, folder=folder), **roles)


def _loaded(folder: Path) -> Any:
    try:
        from datasets import load_from_disk
    except ImportError as error:
        raise InputError(
            "is read with the package datasets, which is not installed: "
            "pip install 'latecomer[data]'"
        ) from error
    try:
        return load_from_disk(str(folder))
    except LookupError as error:  # raised by datasets for empty files or missing keys
        raise InputError("holds no rows, or is damaged") from error


def _part(held: Any, split: object) -> Any:
    """Return the Dataset that ``split`` names."""
    parts = held if isinstance(held, dict) else {None: held}
    if split is None and len(parts) == 1:
        return next(iter(parts.values()))
    if split is None or split not in parts:
        listed = ", ".join(map(str, parts)) if isinstance(held, dict) else "none: it has no parts"
        raise InputError(f"split must be one of its parts, {listed}, got {split!r}")
    return parts[split]


def read_torch(*, path: str, layout: str | None = None, tokens: bool = False) -> Dataset:
    """Read a Dataset from ``file.py:name`` or ``package.module:name``; this runs the file.

    Parameters
    ----------
    path : str
        Names a map-style Dataset of samples ``(x, y, client)``; a pair of a Dataset of ``(x, y)``
        and its client index (see :func:`~latecomer.eval.datasets.from_objects.from_samples`); or a
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
    except (Exception, SystemExit) as error:
        said = " ".join(f"{type(error).__name__}: {error}".split())[:160]
        raise InputError(f"data.path: {path} failed: {said}") from error
    if member is None:
        raise InputError(f"data.path: {place} has no {name}")
    source, client = held, None
    if isinstance(held, tuple) and len(held) == 2:
        source, client = held
    try:
        about = f"Dataset {path}"
        return from_samples(name, source, about, client=client, layout=layout, tokens=tokens)
    except InputError as error:
        raise InputError(f"data.path: {path}: {error}") from error


def _module(place: str) -> ModuleType:
    try:
        return module_at(place)
    except ValueError as error:
        raise InputError(f"data.path: {error}") from error


READERS = (
    Reader(
        name="huggingface",
        description="a folder that Hugging Face's save_to_disk wrote, with columns as a table",
        read=read_huggingface,
        required=("path",),
        optional=(*ROLES, "split"),
    ),
    Reader(
        name="torch",
        description="a PyTorch Dataset that your own Python file makes, with its client index",
        read=read_torch,
        required=("path",),
        optional=("layout", "tokens"),
    ),
)
