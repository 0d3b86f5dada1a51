"""Precomputed feature vectors: iNaturalist, Landmarks, Yahoo Answers, or any other.

The papers train small dense nets on vectors from a frozen public network. Users make the files
(``latecomer data info NAME`` prints the recipe): each row has one vector, its label and, where the
publisher names it, its client.
"""

import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latecomer.eval.datasets.dataset import Dataset, make_dataset
from latecomer.eval.datasets.locations import data_root, reading, require_file
from latecomer.eval.datasets.reader import Reader, Source
from latecomer.eval.datasets.readers.npz import read_arrays
from latecomer.eval.datasets.text_form import form_of, header_of
from latecomer.eval.errors import InputError
from latecomer.eval.reading.column_names import is_unnamed, means_client
from latecomer.eval.reading.delimited import foreign_header

WIDTHS = {"inaturalist": 1280, "landmarks": 1280, "yahoo_answers": 768}
"""Length of the papers' vectors, from MobileNetV2's pooled layer or from BERT-base."""
_ROWS = 4096


def reader_of(name: str) -> Any:
    """Return the reader of one of the papers' feature sets, which checks its vectors' length."""
    return partial(_read, name=name, width=WIDTHS[name])


def read_features(*, path: str | Path) -> Dataset:
    """Read feature vectors, labels and clients from an npz or csv file: float32 [N, D].

    An npz file has arrays ``x`` [N, D] of floats, ``y`` [N] and, optionally, ``client`` [N] and
    ``test`` [N] (bool). A csv file has a header with ``label``, optionally ``client`` and ``test``
    (0 or 1); all other columns are features, in their order.

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
    key = "data.root" if path is None else "data.path"
    file = _file(name, root) if path is None else Path(path).expanduser()
    with reading(file, key):
        require_file(file)
        if file.suffix == ".csv":
            arrays = _read_csv(file)
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
        )


def _file(name: str, root: object) -> Path:
    base = data_root(root)
    for suffix in (".npz", ".csv"):
        if (base / f"{name}{suffix}").exists():
            return base / f"{name}{suffix}"
    raise InputError(
        f"data.root: {base} has no {name}.npz or {name}.csv: make it once ('latecomer data info "
        f"{name}' says how), or give data.path"
    )


def _read_csv(file: Path) -> dict[str, NDArray[Any]]:
    import pandas as pd

    names, begins = header_of(file)
    special = ("label", "client", "test")
    features = [name for name in names if name not in special and not is_unnamed(name)]
    alike = next((name for name in features if means_client(name)), None)
    if alike is not None:
        raise InputError(f"column {alike!r} seems to hold clients: call it client, or leave it out")
    if "label" not in names or not features:
        raise InputError(
            "must have a header with label, optionally client and test, and features under "
            f"distinct names, got {', '.join(names[:6])}{foreign_header(file.read_text('utf-8'))}"
        )
    kinds = dict.fromkeys(features, "float32") | {"label": "int64", "client": "str", "test": "str"}
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
    arrays: dict[str, NDArray[Any]] = {
        "x": np.concatenate([part[features].to_numpy(np.float32) for part in parts]),
        "y": np.concatenate([part["label"].to_numpy(np.int64) for part in parts]),
    }
    if "client" in names:
        arrays["client"] = np.concatenate([part["client"].to_numpy(np.str_) for part in parts])
        if (arrays["client"] == "").any():
            raise InputError("has a row without client")
    if "test" in names:
        marks = np.concatenate([part["test"].to_numpy(np.str_) for part in parts])
        if not np.isin(marks, ("0", "1")).all():
            raise InputError("test must be 0 or 1 in every row")
        arrays["test"] = marks == "1"
    return arrays


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
