"""Damaged, swapped, foreign and hostile files, for every reader: one line, and nothing happens."""

import json
import pickle
import re
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest
import yaml
from doors import Runs, outcome, refusal
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from latecomer.commands.app import app
from latecomer.errors import InputError
from latecomer.eval.datasets import load_dataset
from latecomer.eval.datasets.restricted_pickle import load_cifar_pickle

PY, BIN = "cifar-10-batches-py", "cifar-10-batches-bin"
IDX = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)
LEAF = [f"femnist/{p}/all_data_{n}_niid_0_{p}_9.json" for p in ("train", "test") for n in (0, 1)]
FILES = {
    "cifar10": [
        f"{PY}/{f}" for f in ("data_batch_1", "data_batch_4", "test_batch", "batches.meta")
    ],
    "cifar10-binary": [
        f"{BIN}/{f}" for f in ("data_batch_1.bin", "test_batch.bin", "batches.meta.txt")
    ],
    "cifar100": [f"cifar-100-python/{f}" for f in ("train", "test", "meta")],
    "cifar100-binary": [
        f"cifar-100-binary/{f}"
        for f in ("train.bin", "test.bin", "fine_label_names.txt", "coarse_label_names.txt")
    ],
    "mnist": [f"MNIST/raw/{f}" for f in IDX],
    "fashion_mnist": [f"FashionMNIST/raw/{f}.gz" for f in IDX],
    "stl10": [
        f"stl10_binary/{f}"
        for f in ("train_X.bin", "train_y.bin", "test_X.bin", "test_y.bin", "class_names.txt")
    ],
    "femnist": LEAF,
    "omniglot": ["omniglot-py/images_background/Greek/character02/0003_04.png"],
    "omniglot-zip": ["omniglot-py/images_background.zip"],
    "inaturalist": ["inaturalist.npz"],
    "landmarks": ["landmarks.npz"],
    "yahoo_answers": ["yahoo_answers.csv"],
}
CASES = [(kind, file) for kind, files in FILES.items() for file in files]
TEXT_OR_LIST = ("batches.meta.txt", "names.txt")  # a further letter changes a name, no length
OPEN_ENDED = (".png", ".zip", ".npz", ".csv")  # may be followed by bytes that mean nothing


@pytest.fixture
def refused(small_files, tmp_path):
    """Damage the files of a reader; returns the one line that refuses them."""

    def run(kind, damage):
        config = small_files(kind, tmp_path)
        damage(tmp_path)
        before = sorted(tmp_path.rglob("*"))
        message = refusal(load_dataset, config)
        assert sorted(tmp_path.rglob("*")) == before, "nothing is cached"
        assert message.startswith("data.root: ")
        return message

    return run


DAMAGE = {
    "cut": lambda content: content[: len(content) // 2 - 7],
    "no UTF-8": lambda _: b"\xff\xfe\xfd" * 2000,
    "a web page": lambda _: b"<html>404</html>\n",
    "a pickle of another kind": lambda _: b"\x80\x04N.",
    "one byte too long": lambda content: content + b"\x07",
}
DAMAGED = [
    (kind, file, how)
    for kind, file in CASES
    for how in DAMAGE
    if how != "one byte too long"
    or not file.endswith((*OPEN_ENDED, *TEXT_OR_LIST, "class_names.txt"))
]


def rewritten(file, change):
    """Damage a file by what makes other bytes of its own."""
    return lambda root: (root / file).write_bytes(change((root / file).read_bytes()))


@pytest.mark.parametrize(("kind", "file", "how"), DAMAGED)
def test_bytes_that_are_not_the_publishers(kind, file, how, refused):
    assert Path(file).name.split("-idx")[0] in refused(kind, rewritten(file, DAMAGE[how]))


@pytest.mark.parametrize(("kind", "file"), CASES)
def test_empty(kind, file, refused):
    message = refused(kind, rewritten(file, lambda _: b""))
    assert f"{file}: is empty" in message or f"{file}: is no zip archive" in message


@pytest.mark.parametrize(("kind", "file"), CASES)
def test_missing(kind, file, refused):
    if kind == "omniglot":  # the publisher's count is for 'data verify'; without any there is none
        message = refused(kind, lambda root: shutil.rmtree(root / "omniglot-py"))
    elif kind == "femnist":
        folder = str(Path(file).parent)
        message = refused(kind, lambda root: [f.unlink() for f in (root / folder).iterdir()])
        assert f"{folder}: there is no JSON shard" in message
        return
    else:
        message = refused(kind, lambda root: (root / file).unlink())
    named = f"{file.removesuffix('.gz')}: there is no such file" in message
    assert named or "'latecomer datasets" in message


@pytest.mark.parametrize(("kind", "file"), CASES)
def test_a_folder_of_that_name(kind, file, refused):
    def damage(root):
        (root / file).unlink()
        (root / file).mkdir()

    assert "is not a file" in refused(kind, damage) or kind == "omniglot-zip"


@pytest.mark.parametrize(
    ("kind", "first", "second"),
    [
        ("cifar10", f"{PY}/data_batch_1", f"{PY}/test_batch"),
        ("cifar10", f"{PY}/data_batch_1", f"{PY}/data_batch_2"),
        ("cifar10", f"{PY}/data_batch_1", f"{PY}/batches.meta"),
        ("cifar10-binary", f"{BIN}/data_batch_1.bin", f"{BIN}/batches.meta.txt"),
        ("cifar100", "cifar-100-python/train", "cifar-100-python/test"),
        ("cifar100", "cifar-100-python/train", "cifar-100-python/meta"),
        (
            "cifar100-binary",
            "cifar-100-binary/fine_label_names.txt",
            "cifar-100-binary/coarse_label_names.txt",
        ),
        ("mnist", f"MNIST/raw/{IDX[0]}", f"MNIST/raw/{IDX[1]}"),
        ("mnist", f"MNIST/raw/{IDX[1]}", f"MNIST/raw/{IDX[3]}"),
        ("fashion_mnist", f"FashionMNIST/raw/{IDX[0]}.gz", f"FashionMNIST/raw/{IDX[2]}.gz"),
        ("stl10", "stl10_binary/train_X.bin", "stl10_binary/train_y.bin"),
        ("stl10", "stl10_binary/train_X.bin", "stl10_binary/test_X.bin"),
    ],
)
def test_swapped(kind, first, second, refused):
    def damage(root):
        a, b = (root / first).read_bytes(), (root / second).read_bytes()
        (root / first).write_bytes(b)
        (root / second).write_bytes(a)

    refused(kind, damage)


def test_the_whole_mnist_with_its_halves_swapped(tmp_path):
    folder = tmp_path / "MNIST" / "raw"
    folder.mkdir(parents=True)
    for prefix, n in (("train", 10_000), ("t10k", 60_000)):
        for name, shape in (("images-idx3-ubyte", (n, 1, 1)), ("labels-idx1-ubyte", (n,))):
            header = b"".join(s.to_bytes(4, "big") for s in (0x800 + len(shape), *shape))
            (folder / f"{prefix}-{name}").write_bytes(header + bytes(n))
    with pytest.raises(InputError, match="the train and t10k files are swapped"):
        load_dataset({"name": "mnist", "root": str(tmp_path)})


def test_a_training_set_that_is_also_the_test_set(refused):
    def damage(root):
        for part in ("images-idx3", "labels-idx1"):
            folder = root / "MNIST" / "raw"
            shutil.copy(folder / f"train-{part}-ubyte", folder / f"t10k-{part}-ubyte")

    assert "training and test set are the same images" in refused("mnist", damage)


@pytest.mark.parametrize(("kind", "file"), CASES)
def test_a_hostile_pickle_in_every_place(kind, file, refused, tmp_path):
    def damage(root):
        (root / file).write_bytes(
            pickle.dumps({b"data": Runs(Path.touch, root / "ran")}, protocol=2)
        )

    refused(kind, damage)
    assert not (tmp_path / "ran").exists()


def array_of(dtype, length, contents):
    dtype = b"cnumpy\ndtype\n(S'" + dtype + b"'\ntR"
    state = b"(K\x01(" + length + b"t" + dtype + b"I00\n" + contents + b"tb"
    return b"}(S'data'\ncnumpy\nndarray\n(tR" + state + b"u."


HOSTILE = {
    "a call": b"\x80\x02cos\nsystem\nX\x04\x00\x00\x00true\x85R.",
    "a call, new opcode": b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x04true\x85R.",
    "an instance": b"(S'true'\nios\nsystem\n.",
    "an object": b"(cos\nsystem\nS'true'\no.",
    "a builtin": b"cbuiltins\neval\n(S'1'\ntR.",
    "a builtin of Python 2": b"c__builtin__\neval\n(S'1'\ntR.",
    "a loader within NumPy": b"cnumpy\nload\n(S'x'\ntR.",
    "a dotted name": b"\x80\x04\x8c\x05numpy\x8c\x0dndarray.tofile\x93\x8c\x01x\x85R.",
    "an extension": b"\x80\x02\x82\x01.",
    "a persistent id": b"Pfile\n.",
    "another codec": b"c_codecs\nencode\n(S'x'\nS'zlib'\ntR.",
    "a codec's state": b"c_codecs\nencode\n}b.",
    "a vast memo": b"\x80\x02}r\xff\xff\xff\x7f.",
    "no table": b"\x80\x02].",
    "an array of objects": array_of(b"O8", b"K\x01", b"]"),
    "a short array": array_of(b"u1", b"K\x05", b"S'x'\n"),
    "an array without contents": b"}(S'data'\ncnumpy\nndarray\n(tRu.",
}


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE)
def test_pickles_that_ask_for_more_than_data(content, monkeypatch):
    monkeypatch.setattr("os.system", lambda _: pytest.fail("was run"))
    refusal(load_cifar_pickle, content)


def test_a_pickle_is_not_run_and_says_what_it_asked_for(tmp_path):
    content = pickle.dumps({b"data": Runs(Path.touch, tmp_path / "ran")}, protocol=2)
    assert b"touch" in content
    assert "which no CIFAR file needs" in refusal(load_cifar_pickle, content)
    assert not (tmp_path / "ran").exists()
    pickle.loads(content)
    assert (tmp_path / "ran").exists(), "the same bytes do run where pickle is trusted"


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused_in_one_line(content):
    held, message = outcome(load_cifar_pickle, b"\x80\x02" + content)
    assert isinstance(held, dict) != bool(message)


def edit(change):
    """Damage a LEAF shard that stays JSON."""

    def changed(content):
        held = json.loads(content)
        change(held, held["user_data"]["f0001_01"])
        return json.dumps(held).encode()

    return rewritten(LEAF[0], changed)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda held, one: one["x"][3].pop(), "lists of 784 numbers"),
        (lambda held, one: one["x"].pop(), "got 11 and 12"),
        (lambda held, one: one["x"][0].__setitem__(5, 1.5), "pixels outside"),
        (lambda held, one: one["x"][0].__setitem__(5, "0.5x"), "damaged or cut short"),
        (lambda held, one: one["x"][0].__setitem__(5, None), "f0001_01 has pixels outside"),
        (lambda held, one: one["y"].__setitem__(5, 62), "labels from 0 to 61"),
        (lambda held, one: one["y"].__setitem__(5, 1.0), "labels from 0 to 61"),
        (lambda held, one: one.pop("y"), "must have x, lists of 784 numbers"),
        (lambda held, one: held["num_samples"].__setitem__(1, 5), "12 images, but 5 announced"),
        (lambda held, one: held["num_samples"].pop(), "lists 4 users, but 3 num_samples"),
        (lambda held, one: held["users"].__setitem__(1, "eve"), "but None announced"),
        (lambda held, one: held["user_data"].pop("f0001_01"), "announces writer f0001_01"),
        (lambda held, one: held.pop("user_data"), "has no user_data"),
        (lambda held, one: held.clear(), "has no user_data"),
    ],
)
def test_shards_that_are_json_but_not_leafs(change, words, refused):
    assert words in refused("femnist", edit(change))


@pytest.mark.parametrize("content", [b"[]", b"3", b'"x"', b"null", b"{}", b'{"user_data": 3}'])
def test_json_that_is_no_shard(content, refused):
    refused("femnist", rewritten(LEAF[1], lambda _: content))


def test_a_shard_that_occurs_twice(refused):
    def damage(root):
        shutil.copy(root / LEAF[0], root / LEAF[1])

    assert "writer f0000_00 is in all_data_0" in refused("femnist", damage)


def test_text_that_is_no_utf8_within_json(refused):
    damage = rewritten(LEAF[0], lambda content: content.replace(b"f0001_01", b"f0001_\xff1"))
    assert Path(LEAF[0]).name in refused("femnist", damage)


def test_omniglot_refuses_pictures_that_are_not_its_own(refused):
    from PIL import Image

    def small(root):
        Image.new("1", (28, 28)).save(root / FILES["omniglot"][0])

    def other_format(root):
        Image.new("L", (105, 105)).save(root / FILES["omniglot"][0], format="BMP")

    assert "must be 105x105 pixels" in refused("omniglot", small)
    assert "is no intact PNG" in refused("omniglot", other_format)


def test_omniglot_refuses_an_image_in_two_places_and_a_vast_one(small_files, tmp_path):
    config = small_files("omniglot-zip", tmp_path)
    archive = tmp_path / FILES["omniglot-zip"][0]
    twin = archive.with_name("images_evaluation.zip")
    shutil.copy(archive, twin)
    with pytest.raises(InputError, match=r"which .*images_background\.zip holds"):
        load_dataset(config)
    with zipfile.ZipFile(twin, "w", zipfile.ZIP_DEFLATED) as held:
        held.writestr("images_evaluation/Old/character01/0001_01.png", bytes(2 << 20))
    assert "is larger than" in refusal(load_dataset, config)


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"x": np.zeros((3, 4))}, "has vectors of length 1280, got 4"),
        ({"x": np.zeros((3, 1280, 1))}, "x must be floats [N, D]"),
        ({"x": np.zeros((3, 1280), np.uint8)}, "x must be floats [N, D]"),
        ({"x": np.zeros((2, 1280))}, "x has 2, y has 3"),
        ({"x": np.full((3, 1280), np.nan)}, "must be finite"),
        ({"x": np.zeros((3, 1280)), "test": np.zeros(3)}, "test must be bool"),
        ({"x": np.array([{}] * 3)}, "holds Python objects"),
        ({"z": np.zeros(3)}, "has no array x"),
    ],
)
def test_feature_arrays(arrays, words, refused):
    def damage(root):
        np.savez(root / "landmarks.npz", y=np.arange(3), **arrays)

    assert words in refused("landmarks", damage)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("label,a\n0,1\n1,2,3\n", "damaged"),
        ("label,a,b\n0,1\n", "damaged"),
        ("label,a\n0,1,2\n", "has a row that is longer than its header"),
        ("label,a\n0,x\n", "damaged"),
        ("label,a\n0.5,1\n", "got label[0]=0.5: methods here classify"),
        ("label,a\n,1\n", "label, row 0: no label is given"),
        ("label,a\n-1,1\n", "got label[0]=-1"),
        ("label,a\n0,inf\n", "must be finite"),
        ("label,a\n", "has a header but no rows"),
        ("a,b\n0,1\n", "must have a header with label"),
        ("label\n0\n", "must have a header with label"),
        ("label,a,a\n0,1,2\n", "distinct names"),
        ("label,client,a\n0,,2\n", "got none for sample 0"),
        ("label,test,a\n0,yes,2\n", "test must be 0 or 1"),
    ],
)
def test_feature_tables(text, words, tmp_path):
    file = tmp_path / "own.csv"
    file.write_text(text)
    said = refusal(load_dataset, {"name": "features", "path": str(file)})
    assert words in said
    assert said.startswith(f"data.path: {file}: ")


def test_feature_files_of_another_kind(tmp_path):
    (tmp_path / "own.parquet").write_bytes(b"PAR1")
    with pytest.raises(InputError, match=re.escape("must be an .npz or a .csv file")):
        load_dataset({"name": "features", "path": str(tmp_path / "own.parquet")})


@pytest.mark.parametrize("kind", FILES)
def test_any_damage_is_read_or_refused_in_one_line(kind, small_files, tmp_path):
    config = small_files(kind, tmp_path)
    rng = np.random.default_rng(3)
    refused = 0
    for file in FILES[kind] * (16 // len(FILES[kind])):
        whole = (tmp_path / file).read_bytes()
        place = int(rng.integers(len(whole)))
        patch = rng.bytes(int(rng.integers(1, 9)))
        (tmp_path / file).write_bytes(whole[:place] + patch + whole[place + rng.integers(2) :])
        refused += bool(outcome(load_dataset, config)[1])
        (tmp_path / file).write_bytes(whole)
    assert refused
    load_dataset(config)


@pytest.mark.parametrize("root", [3, "", ["x"]])
def test_a_root_that_is_no_path(root):
    with pytest.raises(InputError, match="must be the path of a folder"):
        load_dataset({"name": "cifar10", "root": root})


@pytest.mark.parametrize("kind", FILES)
def test_the_command_line_exits_with_2_and_leaves_nothing(kind, small_files, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = small_files(kind, tmp_path / "data")
    (tmp_path / "data" / FILES[kind][0]).write_bytes(b"\x80\x02cos\nsystem\n.")
    study = {
        "study": "bad",
        "data": config,
        "split": {"kind": "by_class", "clients": 2, "classes_per_client": 1},
        "methods": ["local"],
        "train": {"rounds": 1, "cohort": 1},
    }
    (tmp_path / "bad.yaml").write_text(yaml.safe_dump(study))
    before = sorted(tmp_path.rglob("*"))
    result = CliRunner().invoke(app, ["run", "bad.yaml"], prog_name="latecomer")
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1
    assert Path(FILES[kind][0]).name.split("-idx")[0] in result.stderr
    assert sorted(tmp_path.rglob("*")) == before
