"""What can be wrong at every door for a user's own data: one line, before anything is done."""

import re

import numpy as np
import pandas as pd
import pytest
from doors import refusal, written
from PIL import Image
from typer.testing import CliRunner

from latecomer import clients_from
from latecomer.commands.app import app
from latecomer.errors import InputError
from latecomer.eval.datasets import load_dataset

STUDY = """
study: mine
data: {data}
split: {{kind: natural, novel: 1}}
methods: [fedavg]
train: {{rounds: 1, cohort: 2}}
"""


def good():
    """Twelve pictures of three clients."""
    return pd.DataFrame(
        {
            "file": [f"{number}.png" for number in range(12)],
            "label": np.arange(12) % 2,
            "client": np.repeat(["a", "b", "c"], 4),
        }
    )


@pytest.fixture(params=["table", "parquet", "huggingface", "frame", "hugging object"])
def refused(request, tmp_path):
    """Hand a frame to a door that must refuse it; returns the one line."""
    for number in range(12):
        Image.new("L", (4, 4), number).save(tmp_path / f"{number}.png")
    path, door = tmp_path / "mine", request.param

    def through(frame, **roles):
        roles = {"image": "file", "root": str(tmp_path)} | roles
        roles = {key: value for key, value in roles.items() if value is not None}
        if door == "hugging object":
            frame = pytest.importorskip("datasets").Dataset.from_pandas(frame)
        if door in ("frame", "hugging object"):
            return refusal(clients_from, frame, **roles)
        message = refusal(load_dataset, written(frame, door, path) | roles)
        assert message.startswith(f"data.path: {path}: ")
        return message

    return through


def test_a_column_that_is_missing(refused):
    for role in ("label", "client", "image"):
        message = refused(good(), **{role: "clinet"})
        assert f"{role} must be one of the columns file, label, client, got 'clinet'" in message
        assert "did you mean 'client'?" in message
    assert "label must be one of the columns" in refused(good().drop(columns="label"))
    assert "features must be one of the columns" in refused(
        good(), image=None, root=None, features=["labl"]
    )


def test_a_label_that_is_missing(refused):
    numbers = good().assign(label=[0.0, 1, np.nan, *[1] * 9])
    assert "label 'label', row 2: no label is given" in refused(numbers)
    names = good().assign(label=["x", "y", None, *["y"] * 9])
    assert "label 'label', row 2: no label is given" in refused(names)


def test_labels_that_are_no_classes(refused):
    message = refused(good().assign(label=np.linspace(0.5, 1, 12)))
    assert "got label 'label'[0]=0.5: methods here classify; certify_predictor takes" in message
    assert "got label 'label'[3]=-1" in refused(good().assign(label=[0, 1, 0, -1, *[1] * 8]))


def test_a_client_that_is_missing(refused):
    message = refused(good().assign(client=["a", None, *["b"] * 10]))
    assert "client 'client', row 1: no client is given" in message


def test_a_picture_that_does_not_exist(refused, tmp_path):
    files = [f"{number}.png" for number in range(11)]
    message = refused(good().assign(file=[*files, "12.png"]))
    assert f"image 'file', row 11: {tmp_path / '12.png'}: there is no such file" in message


def test_pictures_that_cannot_be_used(refused, tmp_path):
    (tmp_path / "5.png").write_text("no picture")
    assert f"row 5: {tmp_path / '5.png'}: is no picture that Pillow can read" in refused(good())
    Image.new("L", (4, 5)).save(tmp_path / "5.png")
    message = refused(good())
    assert "pictures must be of one size, got uint8 4x4 in row 0 and uint8 5x4 in row 5" in message
    two = [Image.new("L", (4, 4), colour) for colour in (0, 9)]
    for kind in ("GIF", "TIFF", "PNG"):
        two[0].save(tmp_path / "5.png", kind, save_all=True, append_images=two[1:])
        assert "row 5: " in (message := refused(good()))
        assert "5.png: must hold one picture, got 2" in message
    Image.new("I;16", (4, 4)).save(tmp_path / "5.png")
    assert "must have 8 bits a channel, got mode I" in refused(good())
    content = (tmp_path / "4.png").read_bytes()
    (tmp_path / "4.png").write_bytes(content[: len(content) - 20])
    assert "image 'file', row 4: " in refused(good())


def test_a_picture_that_is_not_named(refused):
    files = [f"{number}.png" for number in range(11)]
    message = refused(good().assign(file=[*files, " "]))
    assert "image 'file', row 11: picture: a picture must be the path" in message
    assert "got ' '" in message


def test_a_phone_adds_smaller_copies_to_a_picture(tmp_path):
    sizes = [Image.new("L", (side, side), 9) for side in (8, 4)]
    sizes[0].save(tmp_path / "0.jpg", "MPO", save_all=True, append_images=sizes[1:])
    frame = good().assign(file="0.jpg")
    assert clients_from(frame, image="file", root=tmp_path).x.shape == (12, 1, 8, 8)


def test_vectors_of_several_lengths_and_vectors_as_text(refused, request):
    short = good().assign(file=[[1, 2, 3]] * 11 + [[1, 2]])
    message = refused(short, image=None, root=None, tokens=True)
    if "[table]" in request.node.name:
        assert "got '[1, 2, 3]' in row 0: number the words first, equally many a row" in message
        message = refused(short, image=None, root=None)
        assert "got '[1, 2, 3]' in row 0: text holds no vectors: give every number a" in message
    else:
        assert message.endswith("got shape [3] in row 0 and [2] in row 11")
    texts = good().assign(file="hello world")
    message = refused(texts, image=None, root=None, tokens=True)
    assert message.endswith("'hello world' in row 0: number the words first, equally many a row")


def test_features_that_are_no_numbers(refused):
    plain = {"image": None, "root": None}
    message = refused(good(), **plain)
    assert "column 'file' must hold numbers" in message
    assert "got '0.png' in row 0" in message
    gaps = good().assign(file=[*np.arange(11.0), np.nan])
    assert "column 'file' must hold" in refused(gaps, **plain)
    assert "features and image exclude each other" in refused(good(), features=["file"])
    assert "say their column with image" in refused(good(), image=None)
    assert "without another role" in refused(good(), **plain, features=["label"])
    assert "features must be a list of columns, got 3" in refused(good(), **plain, features=3)
    assert "root must be the path of a folder, got 3" in refused(good(), root=3)
    assert "size must be a whole number from 1" in refused(good(), size=0)
    assert "holds no rows" in refused(good().iloc[:0])


TIMES = 1_700_000_000_000 + 1000 * np.arange(12)


def test_features_that_float32_makes_one_number(refused):
    plain = {"image": None, "root": None, "features": ["file"]}
    long_ids = 9_000_000_001 + np.arange(12), 1e16 + 4.0 * np.arange(12)
    for column in (TIMES, TIMES * 10**6, TIMES / 1e3 + 1e9, *long_ids):
        message = refused(good().assign(file=column), **plain)
        assert "column 'file' must differ by more than float32 rounds away" in message
    assert "got 1700000000000 to 1700000011000: " in refused(good().assign(file=TIMES), **plain)


@pytest.mark.parametrize("door", ["mapping", "samples", "features"])
def test_inputs_that_float32_makes_one_number(door, tmp_path):
    x, y = np.stack([np.arange(12.0), TIMES], axis=1), np.arange(12) % 2
    path = str(tmp_path / "m.csv")
    pd.DataFrame(x, columns=["age", "when"]).assign(label=y).to_csv(path, index=False)
    doors = {
        "mapping": (clients_from, {"a": (x, y)}),
        "samples": (clients_from, [(*sample, "a") for sample in zip(x, y, strict=True)]),
        "features": (load_dataset, {"name": "features", "path": path}),
    }
    read, source = doors[door]
    said = refusal(read, source)
    assert re.search(r"column .* must differ by more than float32", said)
    assert "column 'when'" in said or "x, column 1," in said


def test_what_float32_merely_rounds_is_read():
    rng, y = np.random.default_rng(0), np.arange(12) % 2
    kept = [rng.random(12), np.full(12, 0.1), 0.3 + 1e-16 * np.arange(12), TIMES * 2.0**y]
    assert clients_from({"a": (np.stack(kept, axis=1), y)}).x.shape == (12, 4)


@pytest.mark.parametrize("name", ["table", "parquet", "huggingface"])
def test_files_that_are_none(name, tmp_path):
    def refused(path):
        return refusal(load_dataset, {"name": name, "path": path})

    pytest.importorskip({"table": "pandas", "parquet": "pyarrow", "huggingface": "datasets"}[name])
    assert str(tmp_path / "absent") in refused(str(tmp_path / "absent"))
    assert "data.path must be the path of a" in refused(3)
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\xfd" * 99)
    assert str(tmp_path / "bytes") in refused(str(tmp_path / "bytes"))
    assert str(tmp_path) in refused(str(tmp_path))


@pytest.mark.parametrize(("name", "package"), [("parquet", "pyarrow"), ("huggingface", "datasets")])
def test_a_package_that_is_not_installed(name, package, tmp_path, monkeypatch):
    for absent in {package, "pyarrow", "fastparquet"} if name == "parquet" else {package}:
        monkeypatch.setitem(__import__("sys").modules, absent, None)
    (tmp_path / "m").write_bytes(b"x")
    with pytest.raises(InputError, match=r"not installed: pip install 'latecomer\[data\]'"):
        load_dataset({"name": name, "path": str(tmp_path / "m")})


def test_parts_of_a_hugging_face_dataset(tmp_path):
    datasets = pytest.importorskip("datasets")
    one = datasets.Dataset.from_dict({"a": [1.0, 2.0], "label": [0, 1], "client": [1, 2]})
    datasets.DatasetDict(train=one, test=one.select([1])).save_to_disk(tmp_path / "two")
    config = {"name": "huggingface", "path": str(tmp_path / "two")}
    assert len(load_dataset(config | {"split": "test"})) == 1
    for split in (None, "tset"):
        said = refusal(load_dataset, config | {"split": split})
        assert f"split must be one of its parts, train, test, got {split!r}" in said
    datasets.DatasetDict(train=one).save_to_disk(tmp_path / "one")
    assert len(load_dataset({"name": "huggingface", "path": str(tmp_path / "one")})) == 2
    one.save_to_disk(tmp_path / "none")
    with pytest.raises(InputError, match="none: it has no parts, got 'train'"):
        load_dataset({"name": "huggingface", "path": str(tmp_path / "none"), "split": "train"})


SOURCES = "source must be a table, a mapping {client: (x, y)} or a map-style Dataset"
PAIRS = [(np.zeros(2), 0, "a"), (np.ones(2), 1, "b")]


class Flipping:
    """What a random transform does."""

    rng = np.random.default_rng(0)

    def __len__(self):
        return 20

    def __getitem__(self, i):
        return self.rng.normal(size=3), 0, "a"


class NoisyLabels(Flipping):
    def __getitem__(self, i):
        return np.zeros(3), self.rng.integers(1000), "a"


SWAPPED = {
    "a": (pd.DataFrame({"age": [1.0], "dose": [2.0]}), [0]),
    "b": (pd.DataFrame({"dose": [2.0], "age": [1.0]}), [1]),
}
SHUFFLED = {"a": (pd.DataFrame({"age": [1.0, 2.0]}), pd.Series([0, 1], index=[1, 0]))}


class Broken(Flipping):
    def __getitem__(self, i):
        raise OSError("disk\ngone")


@pytest.mark.parametrize(
    ("source", "given", "words"),
    [
        (3, {}, "or a map-style Dataset, with len() and samples (x, y, client) under [i], got int"),
        (np.zeros((3, 2)), {}, SOURCES),
        ("mine.csv", {}, SOURCES),
        (iter(PAIRS), {}, SOURCES),
        ([], {}, "holds no samples"),
        (PAIRS, {"image": "file"}, "image is for tables with columns, got list as source"),
        ([pair[:2] for pair in PAIRS], {}, "sample 0 must be (x, y, client), or client be given"),
        ([{"x": 1}], {}, "sample 0 must be (x, y, client), or client be given, got dict"),
        (PAIRS, {"client": ["a"]}, "client must be one id a sample, 2 of them"),
        (PAIRS, {"client": "site"}, "client must be one id a sample, 2 of them"),
        (PAIRS, {"client": {"a": [0, 2]}}, "client 'a': samples must be whole numbers from 0 to 1"),
        (PAIRS, {"client": {"a": [0], "b": [0]}}, "each one client's, got 0"),
        (PAIRS, {"client": {}}, "holds no samples"),
        ([*PAIRS, (np.zeros(3), 0, "a")], {}, "length 2 in sample 0 and float64 of length 3"),
        ([*PAIRS, (np.zeros(2), None, "a")], {}, "y, row 2: no label is given"),
        ([*PAIRS, (np.zeros(2), 1, None)], {}, "client, row 2: no client is given"),
        ([(np.float64(3), 0, "a")], {}, "a picture must be the path"),
        (Flipping(), {}, "sample 0 differs when it is read again: leave random transforms out"),
        (NoisyLabels(), {}, "differs when it is read again: leave random transforms out"),
        ([(np.array([np.nan, 0]), 0, "a")], {}, "x must be finite float32 numbers, got nan"),
        (
            SWAPPED,
            {},
            "client 'b': x must have the columns of the first, in their order: age, dose",
        ),
        (SHUFFLED, {}, "client 'a': x and y must have their rows in one order"),
        (Broken(), {}, "sample 0 cannot be read: OSError: disk gone"),
        ({}, {}, "source must hold at least one client"),
        ({"a": 3}, {}, "client 'a' must hold (x, y), got int"),
        ({"a": (np.zeros((2, 3)), [0])}, {}, "client 'a' must hold equally many samples"),
        ({"a": (np.zeros((0, 3)), [])}, {}, "client 'a' must hold equally many samples"),
        ({"a": (np.zeros((2, 3)), [0, np.nan])}, {}, "client 'a': y, row 1: no label is given"),
        ({"a": (np.zeros((2, 3)), [0, 0.5])}, {}, "methods here classify"),
        ({"a": (np.zeros((1, 3)), [0]), "b": (np.zeros((1, 4)), [0])}, {}, "client 'b': x must be"),
        ({"a": ([["p"]], [0])}, {}, "x must be uint8 (0 to 255) or floating point"),
        ({"a": (np.zeros((1, 3)), [0])}, {"client": "a"}, "client must not be given for a mapping"),
        ({"a": (np.zeros((1, 3)), [0]), 1: (np.zeros((1, 3)), [0])}, {}, "got int and str"),
        ({"a": (np.zeros((2, 3, 5, 3)), [0, 1])}, {}, "fits chw and hwc: say which with layout"),
    ],
)
def test_objects_that_are_no_clients(source, given, words):
    assert words in refusal(clients_from, source, **given)


def test_what_npz_does_not_hold_is_not_saved(tmp_path):
    from latecomer.eval.datasets import make_dataset

    x, y = np.zeros((2, 1)), np.zeros(2)
    data = make_dataset("a", x, y, provenance="", test=np.array([True, False]))
    assert "test rows or superclasses" in refusal(data.save, tmp_path / "a.npz")
    with pytest.raises(InputError, match=r"path must end in \.npz, got 'a\.csv'"):
        make_dataset("a", x, y, provenance="").save("a.csv")
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize(
    ("code", "path", "words"),
    [
        ("", "mine.py", "data.path must read file.py:name or module:name, got 'mine.py'"),
        ("", "absent.py:data", "data.path: there is no file absent.py"),
        ("", "no_such_module:data", "data.path: there is no module no_such_module"),
        ("", "mine.py:data", "mine.py has no data"),
        ("1 / 0", "mine.py:data", "importing mine.py failed: ZeroDivisionError"),
        ("def data():\n    exit(3)", "mine.py:data", "mine.py:data failed: SystemExit: 3"),
        ("def data():\n    return 3", "mine.py:data", "must be a map-style Dataset"),
        ("data = 3", "mine.py:data", "must be a map-style Dataset"),
        ("data = [(1, 2)], [3, 4]", "mine.py:data", "client must be one id a sample, 1 of them"),
        ("class data:\n    def __getitem__(self, i): ...", "mine.py:data", "got data"),
    ],
)
def test_a_python_file_that_holds_no_dataset(code, path, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(code)
    assert words in refusal(load_dataset, {"name": "torch", "path": path})


BAD = {
    "missing column": good().drop(columns="label"),
    "no label": good().assign(label=[np.nan, *[1.0] * 11]),
    "one sample": good().assign(client=[*["a"] * 6, *["b"] * 5, "c"]),
    "no file": good().assign(file="absent.png"),
}


@pytest.mark.parametrize("kind", BAD)
@pytest.mark.parametrize("door", ["table", "parquet", "huggingface", "torch"])
def test_a_run_stops_before_any_work(kind, door, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for number in range(12):
        Image.new("L", (8, 8), number).save(tmp_path / f"{number}.png")
    data = f"{{name: {door}, path: mine, image: file, root: {tmp_path}}}"
    if door != "torch":
        written(BAD[kind], door, "mine")
    else:
        data = "{name: torch, path: 'mine.py:samples'}"
        samples = BAD[kind].to_numpy().tolist()
        (tmp_path / "mine.py").write_text(f"nan = None\nsamples = {samples!r}\n")
    (tmp_path / "mine.yaml").write_text(STUDY.format(data=data))
    before = {*tmp_path.iterdir()}
    done = CliRunner().invoke(app, ["run", "mine.yaml"], prog_name="latecomer")
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1, done.stderr
    # Python itself may keep mine.py compiled.
    assert {*tmp_path.iterdir()} - {tmp_path / "__pycache__"} == before
    words = {"one sample": "1 of 3 clients hold too few samples to be split"}
    assert words.get(kind, "data.path: ") in done.stderr
