"""Precomputed feature vectors: iNaturalist, Landmarks, Yahoo Answers, or any other.

The papers train small dense nets on vectors from a frozen public network. Users make the files
(``latecomer datasets NAME`` prints the recipe): each row has one vector, its label and, where the
publisher names it, its client.
"""

import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latecomer.errors import InputError
from latecomer.eval.datasets.columns import REAL, as_classes, numbers_of
from latecomer.eval.datasets.dataset import Dataset, as_float32, make_dataset
from latecomer.eval.datasets.feature_columns import feature_columns, refuse_owner
from latecomer.eval.datasets.locations import data_root, reading, require_file
from latecomer.eval.datasets.reader import Reader, Source
from latecomer.eval.datasets.readers.npz import read_arrays
from latecomer.eval.datasets.text_form import form_of, header_of
from latecomer.files import at_home
from latecomer.reading.column_names import is_unnamed, may_number_rows, refuse_repeated
from latecomer.reading.delimited import foreign_header
from latecomer.reading.encoded_text import text_of

WIDTHS = {"inaturalist": 1280, "landmarks": 1280, "yahoo_answers": 768}
"""Length of the papers' vectors, from MobileNetV2's pooled layer or from BERT-base."""
_ROWS = 4096
_SPECIAL = ("label", "client", "test")


def reader_of(name: str) -> Any:
    """Return the reader of one of the papers' feature sets, which checks its vectors' length."""
    return partial(_read, name=name, width=WIDTHS[name])


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
    import pandas as pd

    kinds = {one: "float64" for one in features if not may_number_rows(one)}
    try:
        with warnings.catch_warnings():
            # pandas only warns if a row is longer than the header, and drops the excess.
            warnings.simplefilter("error", pd.errors.ParserWarning)
            parts = list(
                pd.read_csv(
                    file,
                    header=None,
                    names=names,
                    skiprows=begins,
                    dtype={name: kinds.get(name, "str") for name in names},
                    index_col=False,
                    encoding="utf-8",
                    keep_default_na=False,
                    chunksize=_ROWS,
                )
            )
    except (ValueError, Warning) as error:
        long = isinstance(error, Warning)
        said = "has a row that is longer than its header" if long else "is damaged"
        cause = form_of(file, names, "label") or " ".join(str(error).split())[:120]
        raise InputError(f"{said}: {cause}") from error
    if not any(map(len, parts)):
        raise InputError("has a header but no rows")
    held = {}
    for name in names:
        column = np.concatenate([part[name].to_numpy() for part in parts])
        held[name] = _numbers(name, column) if name in kinds else column
    texts = {name: cells.astype(np.str_) for name, cells in held.items() if name not in kinds}
    whole = {name: numbers_of(texts[name]) for name in features if name in texts}
    return held | texts | whole


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
READERS = (
    Reader(
        name="inaturalist",
        description="features of length 1280 of plant and animal "
        "photographs, from a file you make once",
        read=reader_of("inaturalist"),
        optional=("path", "root"),
        source=Source(
            "https://github.com/google-research/google-research/tree/master/federated_vision_datasets",
            "inaturalist.npz or inaturalist.csv",
            recipe=_FEATURES.format(width=1280, name="inaturalist", how=_INATURALIST),
        ),
    ),
    Reader(
        name="landmarks",
        description="features of length 1280 of landmark photographs, from a file you make once",
        read=reader_of("landmarks"),
        optional=("path", "root"),
        source=Source(
            "https://github.com/google-research/google-research/tree/master/federated_vision_datasets",
            "landmarks.npz or landmarks.csv",
            recipe=_FEATURES.format(width=1280, name="landmarks", how=_LANDMARKS),
        ),
    ),
    Reader(
        name="yahoo_answers",
        description="features of length 768 of questions and answers, from a file you make once",
        read=reader_of("yahoo_answers"),
        optional=("path", "root"),
        source=Source(
            "https://github.com/zhangxiangxiao/Crepe",
            "yahoo_answers.npz or yahoo_answers.csv",
            recipe=_FEATURES.format(width=768, name="yahoo_answers", how=_YAHOO),
        ),
    ),
    Reader(
        name="features",
        description="any feature vectors with labels and, optionally, clients: an npz or csv file",
        read=read_features,
        required=("path",),
    ),
)
