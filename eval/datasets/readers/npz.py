"""A user's own data: any npz file with arrays x, y and, optionally, client, class_names, group."""

import lzma
import tokenize
import warnings
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from latecomer.errors import InputError, nearest
from latecomer.eval.datasets.client_groups import in_groups
from latecomer.eval.datasets.columns import refuse_regression
from latecomer.eval.datasets.dataset import Dataset, make_dataset
from latecomer.eval.datasets.locations import given_path
from latecomer.eval.datasets.pictures import channels_first, check_layout
from latecomer.eval.datasets.reader import Reader
from latecomer.reading.column_names import may_number_rows, means_client, names_owner

# Exceptions that zipfile, its decompressors and NumPy's header parser raise on invalid bytes.
_DAMAGE = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, ValueError, MemoryError),
    *(NotImplementedError, RuntimeError, TypeError, SyntaxError, OverflowError),
    *(tokenize.TokenError, OSError),
)


def read_npz(*, path: str | Path, layout: str | None = None, tokens: bool = False) -> Dataset:
    """Read ``x``, ``y``; optionally ``client``, ``class_names``, ``group``; no other arrays.

    Parameters
    ----------
    path : str or Path
        The file; ``~`` is the home directory.
    layout : {"vector", "hw", "chw", "hwc"}, optional
        Layout of ``x``: [N, D], [N, H, W], [N, C, H, W] or [N, H, W, C] with C = 1 or 3.
        Needed only where both four-dimensional forms fit.
    tokens : bool
        Whether ``x`` [N, T] holds tokens: whole numbers that stand for words.

    Returns
    -------
    Dataset
        Images as [N, C, H, W]. ``n_classes`` is the largest label + 1, or the number of names.

    Raises
    ------
    InputError
        The file is absent, not an npz, truncated or lacks an array; an array has pickled objects;
        the layout does not fit; or :func:`~latecomer.eval.datasets.make_dataset` refuses the
        arrays. Nothing in the file is ever executed.
    """
    file = given_path(path, "an npz file")
    check_layout(layout)
    if not file.exists():
        raise InputError(f"data.path: there is no file {file}")
    if not file.is_file():
        raise InputError(f"data.path: {file} is not a file")
    try:
        with file.open("rb") as stream:
            arrays = read_arrays(stream, ("x", "y"), ("client", "class_names", "group"))
        names = arrays.get("class_names", np.array([], np.str_))
        if names.ndim != 1 or names.dtype.kind != "U":
            raise InputError(f"class_names must be one string a class, got {names.dtype}")
        made = make_dataset(
            file.stem,
            channels_first(arrays["x"], layout),
            arrays["y"],
            client=arrays.get("client"),
            class_names=tuple(names.tolist()),
            provenance=f"npz file {file}",
            tokens=tokens,
        )
        refuse_regression(made.y, "y", named=bool(names.size))
        return made if "group" not in arrays else _in_groups(made, arrays["group"])
    except InputError as error:
        raise InputError(f"data.path: {file}: {error}") from error
    except OSError as error:
        raise InputError(f"data.path: {file} cannot be read: {error.strerror or error}") from error


def _in_groups(made: Dataset, groups: NDArray[Any]) -> Dataset:
    if groups.shape != (len(made),) or groups.dtype.kind not in "iuU":
        raise InputError(
            f"group must be one whole number or string a sample, {len(made)} of them, got "
            f"{groups.dtype} {list(groups.shape)}"
        )
    return in_groups(made, groups, "group")


def read_arrays(
    stream: BinaryIO, required: tuple[str, ...], optional: tuple[str, ...]
) -> dict[str, NDArray[Any]]:
    """Read arrays of an npz file by name; others are not read, and nothing is executed.

    Others whose names mean one of these that is not there are refused.

    Raises
    ------
    InputError
        It is not an npz file, or a required array is absent, damaged or holds Python objects.
    """
    if not zipfile.is_zipfile(stream):
        raise InputError("is no npz file, or one that was cut short")
    try:
        archive = zipfile.ZipFile(stream)
    except _DAMAGE as error:
        raise InputError(f"is a damaged npz file ({_one_line(error)})") from error
    with archive:
        held = archive.namelist()
        for name in required:
            if f"{name}.npy" not in held:
                listed = ", ".join(repr(member.removesuffix(".npy")) for member in held[:8])
                raise InputError(f"has no array {name}; it holds {listed or 'nothing'}")
        _refuse_meant(held, required, optional)
        wanted = [name for name in (*required, *optional) if f"{name}.npy" in held]
        return {name: _read_one(archive, name) for name in wanted}


def _refuse_meant(
    held: Sequence[str], required: tuple[str, ...], optional: tuple[str, ...]
) -> None:
    """Refuse an array that would not be read, and whose name means one that is not there."""
    names = [member.removesuffix(".npy") for member in held]
    absent = [name for name in optional if name not in names]
    for name in names:
        if name in (*required, *optional):
            continue
        owner = names_owner(name) and not may_number_rows(name)
        meant = nearest(name.casefold(), absent)
        if not meant and "client" in absent and (owner or means_client(name)):
            meant = "; did you mean 'client'?"
        if meant:
            raise InputError(f"has an array {name!r}, which is not read{meant}")


def _read_one(archive: zipfile.ZipFile, name: str) -> NDArray[Any]:
    try:
        with archive.open(f"{name}.npy") as member, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # NumPy's warnings about old or odd headers
            array: NDArray[Any] = np.lib.format.read_array(member, allow_pickle=False)
    except _DAMAGE as error:
        if "allow_pickle" in str(error):
            raise InputError(f"{name} holds Python objects, which are never loaded") from error
        raise InputError(f"{name} is damaged or cut short ({_one_line(error)})") from error
    return array


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:120] or type(error).__name__


READERS = (
    Reader(
        name="npz",
        description="your own file with arrays x, y and optional client; keys path, layout, tokens",
        read=read_npz,
        required=("path",),
        optional=("layout", "tokens"),
    ),
)
