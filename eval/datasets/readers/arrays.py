"""A user's own arrays: any npz file, and precomputed feature vectors of published data sets.

The papers train small dense nets on vectors from a frozen public network. Users make the files
(``latecomer datasets NAME`` prints the recipe): each row has one vector, its label and, where the
publisher names it, its client.
"""

import tokenize
import warnings
import zipfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from latecomer.errors import InputError, nearest
from latecomer.eval.datasets.columns import (
    REAL,
    as_classes,
    csv_frame,
    feature_columns,
    form_of,
    header_of,
    numbers_of,
    refuse_owner,
    refuse_regression,
)
from latecomer.eval.datasets.dataset import Dataset, as_float32, in_groups, make_dataset
from latecomer.eval.datasets.pictures import channels_first, check_layout
from latecomer.eval.datasets.reader import (
    DAMAGE,
    Reader,
    Source,
    data_root,
    given_path,
    one_line,
    reading,
    require_file,
)
from latecomer.files import at_home
from latecomer.reading.column_names import (
    is_unnamed,
    may_number_rows,
    means_client,
    names_owner,
    refuse_repeated,
)
from latecomer.reading.delimited import foreign_header, text_of

_DAMAGE = (*DAMAGE, tokenize.TokenError, OSError)


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
        if len(set(names.tolist())) < names.size:
            raise InputError(f"class_names must be all different, got {', '.join(names.tolist())}")
        made = make_dataset(
            file.stem,
            channels_first(arrays["x"], layout),
            arrays["y"],
            client=arrays.get("client"),
            class_names=tuple(names.tolist()),
            provenance=f"npz file {file}",
            tokens=tokens,
        )
        if 0 < names.size < made.n_classes:
            raise InputError(
                f"class_names must name every class, {made.n_classes} of them, got {names.size}"
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
    """
    if not zipfile.is_zipfile(stream):
        raise InputError("is no npz file, or one that was cut short")
    try:
        archive = zipfile.ZipFile(stream)
    except _DAMAGE as error:
        raise InputError(f"is a damaged npz file ({one_line(error)})") from error
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
        raise InputError(f"{name} is damaged or cut short ({one_line(error)})") from error
    return array


WIDTHS = {"inaturalist": 1280, "landmarks": 1280, "yahoo_answers": 768}
"""Length of the papers' vectors, from MobileNetV2's pooled layer or from BERT-base."""
_SPECIAL = ("label", "client", "test")


def read_features(*, path: str | Path) -> Dataset:
    """Read feature vectors, labels and clients from an npz or csv file: float32 [N, D].

    An npz file has arrays ``x`` [N, D] of floats, ``y`` [N] and, optionally, ``client`` [N] and
    ``test`` [N] (bool). A csv file has a header with ``label``, optionally ``client`` and ``test``
    (0 or 1); all other columns are features, in their order, but for those that have no name or
    number the rows. Labels are whole numbers or names, as in a table.

    Parameters
    ----------
    path : str or Path
        The file.

    Raises
    ------
    InputError
        The file is absent, damaged or holds something else.
    """
    return _read(path=path, name="features", width=None)


def _read(
    *,
    path: str | Path | None = None,
    root: str | Path | None = None,
    name: str,
    width: int | None,
) -> Dataset:
    """Read features of a known length.

    Parameters
    ----------
    path : str or Path, optional
        The file; unless given, the data set's name with .npz or .csv below ``root``.
    root : str or Path, optional
        Folder of the data.
    """
    key = "data.root" if path is None else "data.path"
    file = _file(name, root) if path is None else at_home(path)
    with reading(file, key):
        require_file(file)
        told: dict[str, Any] = {}
        if file.suffix == ".csv":
            arrays, told = _read_csv(file)
        elif file.suffix == ".npz":
            with file.open("rb") as stream:
                arrays = read_arrays(stream, ("x", "y"), ("client", "test"))
        else:
            raise InputError("must be an .npz or a .csv file")
        x = arrays["x"]
        if x.ndim != 2 or x.dtype.kind != "f":
            raise InputError(f"x must be floats [N, D], got {x.dtype} {list(x.shape)}")
        if width is not None and x.shape[1] != width:
            raise InputError(
                f"{name} has vectors of length {width}, got {x.shape[1]}: "
                "for other features use data.name=features"
            )
        test = arrays.get("test")
        if test is not None and test.dtype != np.bool_:
            raise InputError(f"test must be bool, got {test.dtype}")
        return make_dataset(
            name,
            x,
            arrays["y"],
            client=arrays.get("client"),
            test=test,
            provenance=f"features of length {x.shape[1]} from {file}",
            **told,
        )


def _file(name: str, root: object) -> Path:
    base = data_root(root)
    for suffix in (".npz", ".csv"):
        if (base / f"{name}{suffix}").exists():
            return base / f"{name}{suffix}"
    raise InputError(
        f"data.root: {base} has no {name}.npz or {name}.csv: make it once ('latecomer datasets "
        f"{name}' says how), or give data.path"
    )


def _read_csv(file: Path) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Return the arrays of a csv file, and what the data set is to say of them."""
    names, begins = header_of(file)
    apart = ("label", "client") if "client" in names else ("label", None)
    features = [one for one in names if one not in _SPECIAL and not is_unnamed(one)]
    if "label" not in names or not features:
        foreign = foreign_header(text_of(file.read_bytes()))
        raise InputError(
            "must have a header with label, optionally client and test, and features under "
            f"distinct names, got {', '.join(names[:6])}{foreign}"
        )
    refuse_repeated(names, [one for one in _SPECIAL if one in names])
    owners = [one for one in features if not may_number_rows(one)]
    refuse_owner(owners, apart, remedy="call it client, or leave it out")
    cells = _cells(file, names, begins, features)
    held = {one: cells[one] for one in names if one != "test"}
    taken, notes = feature_columns(held, apart=apart)
    y, class_names = as_classes(cells["label"], "label", text=True)
    columns = [_numbers(one, cells[one]) for one in taken]
    arrays: dict[str, NDArray[Any]] = {"x": np.stack(columns, axis=1), "y": y}
    if "client" in names:
        arrays["client"] = cells["client"]
    if "test" in names:
        if not np.isin(cells["test"], ("0", "1")).all():
            raise InputError("test must be 0 or 1 in every row")
        arrays["test"] = cells["test"] == "1"
    return arrays, {"class_names": class_names, "feature_names": taken, "notes": notes}


def _cells(
    file: Path, names: list[str], begins: int, features: list[str]
) -> dict[str, NDArray[Any]]:
    """Return each column: features as numbers, what may number the rows and the rest as text."""
    numbers = [one for one in features if not may_number_rows(one)]
    kinds = dict.fromkeys(names, "str") | dict.fromkeys(numbers, "float64")
    try:
        frame = csv_frame(file, names, begins, kinds)
    except (ValueError, Warning) as error:
        long = isinstance(error, Warning)
        said = "has a row that is longer than its header" if long else "is damaged"
        cause = form_of(file, names, "label") or " ".join(str(error).split())[:120]
        raise InputError(f"{said}: {cause}") from error
    if not len(frame):
        raise InputError("has a header but no rows")
    held = {}
    for name in names:
        cells = frame[name].to_numpy()
        held[name] = _numbers(name, cells) if name in numbers else cells.astype(np.str_)
    return held | {name: numbers_of(held[name]) for name in features if name not in numbers}


def _numbers(name: str, cells: NDArray[Any]) -> NDArray[np.float32]:
    """Return a column as float32."""
    try:
        numbers = cells if cells.dtype.kind in "iuf" else cells.astype(np.float64)
    except ValueError as error:
        text = next(cell for cell in cells.tolist() if not REAL.fullmatch(cell))
        raise InputError(f"column {name!r} must hold numbers, got {text!r}") from error
    return as_float32(numbers[:, np.newaxis], [f"column {name!r}"])[:, 0]


_FEATURES = """\
One row a sample. npz: x float32 [N, {width}], y int [N], client int or str [N] (optional), test
bool [N] (optional). csv: a header with label, optional client and test (0 or 1), then one column
a feature. Save it as {name}.npz or {name}.csv below the data root, or name it with data.path.
{how}"""
_INATURALIST = """\
iNaturalist 2017 images; users as in the federated split of Hsu, Qi and Brown (2020), whose csv
files give user, image and class. Resize each image to 256, crop 224x224 in the middle, normalise
as the network's authors say, and take the 1,280 numbers after the last global average pooling of
a MobileNetV2 trained on ImageNet, without its classifier. client = user, test = rows of the
split's test file."""
_LANDMARKS = """\
Google Landmarks v2 images; users (photographers) as in the federated split of Hsu, Qi and Brown
(2020), whose csv files give user, image and class. Features as for inaturalist: 1,280 numbers of
an ImageNet MobileNetV2 after its last global average pooling. client = user, test = rows of the
split's test file."""
_YAHOO = """\
Yahoo! Answers topic classification (Zhang, Zhao and LeCun 2015): ten topics. Join title, question
and best answer, cut at 512 word pieces, and take the 768 numbers of an uncased BERT-base at the
first position of the last layer. No clients are given: use a by_class or dirichlet split.
test = rows of the publisher's test file."""


_VISION = "https://github.com/google-research/google-research/tree/master/federated_vision_datasets"


def _of_paper(name: str, what: str, home: str, how: str) -> Reader:
    """Return the reader of one of the papers' feature sets, which checks its vectors' length."""
    width = WIDTHS[name]
    return Reader(
        name=name,
        description=f"features of length {width} of {what}, from a file you make once",
        read=partial(_read, name=name, width=width),
        optional=("path", "root"),
        source=Source(
            home,
            f"{name}.npz or {name}.csv",
            recipe=_FEATURES.format(width=width, name=name, how=how),
        ),
    )


READERS = (
    Reader(
        name="npz",
        description="your own file with arrays x, y and optional client; keys path, layout, tokens",
        read=read_npz,
        required=("path",),
        optional=("layout", "tokens"),
    ),
    _of_paper("inaturalist", "plant and animal photographs", _VISION, _INATURALIST),
    _of_paper("landmarks", "landmark photographs", _VISION, _LANDMARKS),
    _of_paper(
        "yahoo_answers",
        "questions and answers",
        "https://github.com/zhangxiangxiao/Crepe",
        _YAHOO,
    ),
    Reader(
        name="features",
        description="any feature vectors with labels and, optionally, clients: an npz or csv file",
        read=read_features,
        required=("path",),
    ),
)
