"""Every reader on small files of its publisher's format: the right numbers, in the right place."""

import gzip
import json
import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from doors import refusal, three_rounds
from PIL import Image

from latecomer.errors import InputError
from latecomer.eval.datasets import load_dataset
from latecomer.eval.datasets.readers import arrays
from latecomer.eval.protocol import evaluate_cell
from latecomer.eval.results.rows import make_row

SIZES = {
    "cifar10": ((120, 3, 32, 32), 20, 10),
    "cifar10-binary": ((120, 3, 32, 32), 20, 10),
    "cifar100": ((600, 3, 32, 32), 200, 100),
    "cifar100-binary": ((600, 3, 32, 32), 200, 100),
    "mnist": ((120, 1, 28, 28), 40, 10),
    "fashion_mnist": ((120, 1, 28, 28), 40, 10),
    "stl10": ((54, 3, 32, 32), 18, 10),
    "femnist": ((128, 1, 32, 32), 32, 62),
    "omniglot": ((90, 1, 28, 28), None, 15),
    "omniglot-zip": ((90, 1, 28, 28), None, 15),
    "inaturalist": ((60, 1280), None, 5),
    "landmarks": ((60, 1280), None, 5),
    "yahoo_answers": ((60, 768), None, 5),
}


@pytest.mark.parametrize("kind", SIZES)
def test_shapes_and_test_rows(kind, small_files, tmp_path):
    data = load_dataset(small_files(kind, tmp_path))
    shape, n_test, n_classes = SIZES[kind]
    assert data.x.shape == shape
    assert data.x.dtype == (np.uint8 if len(shape) == 4 else np.float32)
    assert (data.test is None) == (n_test is None)
    assert data.test is None or int(data.test.sum()) == n_test
    assert data.n_classes == n_classes
    assert str(tmp_path) in data.provenance


def test_cifar_rows_keep_label_and_picture_together(small_files, tmp_path):
    data = load_dataset(small_files("cifar10", tmp_path))
    third = (tmp_path / "cifar-10-batches-py" / "data_batch_3").read_bytes()
    held = pickle.loads(third, encoding="bytes")
    np.testing.assert_array_equal(data.x[40:60].reshape(20, -1), held[b"data"])
    assert data.y[40:60].tolist() == held[b"labels"]
    assert data.class_names[6] == "frog"
    assert not data.test[:100].any()
    assert data.test[100:].all()


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4])
def test_cifar_pickles_of_every_age(protocol, small_files, tmp_path):
    config = small_files("cifar10", tmp_path)
    before = load_dataset(config).content_hash
    for file in (tmp_path / "cifar-10-batches-py").iterdir():
        held = pickle.loads(file.read_bytes(), encoding="bytes")
        file.write_bytes(pickle.dumps(held, protocol=protocol))
    assert load_dataset(config).content_hash == before


def test_a_pickle_as_python_2_wrote_it(small_files, tmp_path):
    """Opcode for opcode what the publisher's files are made of: byte strings, numpy.core."""
    config = small_files("cifar10", tmp_path)
    file = tmp_path / "cifar-10-batches-py" / "test_batch"
    held = pickle.loads(file.read_bytes(), encoding="bytes")
    raw = held[b"data"].tobytes()

    def text(value):
        return b"U" + bytes([len(value)]) + value

    state = b"(K\x01M\x14\x00M\x00\x0c\x86q\x05cnumpy\ndtype\nq\x06" + text(b"u1") + b"K\x00K\x01"
    state += b"\x87Rq\x07(K\x03" + text(b"|") + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89"
    state += b"T" + len(raw).to_bytes(4, "little") + raw + b"tb"
    array = b"cnumpy.core.multiarray\n_reconstruct\nq\x01cnumpy\nndarray\nq\x02K\x00\x85"
    array += text(b"b") + b"\x87Rq\x04" + state
    labels = b"](" + b"".join(b"K" + bytes([y]) for y in held[b"labels"]) + b"e"
    body = text(b"batch_label") + text(b"testing batch 1 of 1") + text(b"labels") + labels
    before = load_dataset(config).content_hash
    file.write_bytes(b"\x80\x02}q\x00(" + body + text(b"data") + array + b"u.")
    assert load_dataset(config).content_hash == before


def test_cifar100_superclasses_in_both_versions(small_files, tmp_path):
    for kind in ("cifar100", "cifar100-binary"):
        data = load_dataset(small_files(kind, tmp_path / kind))
        np.testing.assert_array_equal(data.coarse, data.y // 5)
        assert len(data.class_names) == 100


def test_the_folder_itself_is_a_root_too(small_files, tmp_path):
    config = small_files("mnist", tmp_path)
    inside = {"name": "mnist", "root": str(tmp_path / "MNIST" / "raw")}
    assert load_dataset(inside).content_hash == load_dataset(config).content_hash


def test_gz_and_plain_are_the_same(small_files, tmp_path):
    config = small_files("mnist", tmp_path)
    plain = load_dataset(config)
    for file in (tmp_path / "MNIST" / "raw").iterdir():
        file.with_name(file.name + ".gz").write_bytes(gzip.compress(file.read_bytes()))
        file.unlink()
    assert load_dataset(config).content_hash == plain.content_hash


def test_the_environment_names_the_root(small_files, tmp_path, monkeypatch):
    small_files("mnist", tmp_path)
    monkeypatch.setenv("LATECOMER_DATA", str(tmp_path))
    assert len(load_dataset({"name": "mnist"})) == 120


def test_stl10_is_turned_shrunk_and_relabelled(small_files, tmp_path):
    config = small_files("stl10", tmp_path)
    data = load_dataset(config)
    raw = np.fromfile(tmp_path / "stl10_binary" / "train_X.bin", np.uint8)
    # Column by column: the publisher's second axis is x, the third y.
    first = raw[: 3 * 96 * 96].reshape(3, 96, 96).transpose(0, 2, 1).astype(float)
    expected = np.floor(first.reshape(3, 32, 3, 32, 3).mean((2, 4)) + 0.5)
    np.testing.assert_array_equal(data.x[0], expected)
    # airplane bird car cat deer dog horse (monkey) ship truck, in CIFAR-10's numbers
    assert data.y[:9].tolist() == [0, 2, 1, 3, 4, 5, 7, 8, 9]
    assert "left out 6 images of monkey; no images of frog" in data.provenance
    own = load_dataset(config | {"classes": "stl10"})
    assert len(own) == 60
    assert own.y[:10].tolist() == list(range(10))
    with pytest.raises(InputError, match=r"data\.classes must be cifar10 or stl10"):
        load_dataset(config | {"classes": "cifar"})


def test_femnist_writers_pixels_and_paper(small_files, tmp_path):
    data = load_dataset(small_files("femnist", tmp_path))
    assert len(data.client_names) == 8
    file = sorted((tmp_path / "femnist" / "train").iterdir())[0]
    held = json.loads(file.read_text())["user_data"]["f0000_00"]
    expected = np.rint(np.array(held["x"]) * 255).reshape(-1, 28, 28)
    np.testing.assert_array_equal(data.x[:12, 0, 2:30, 2:30], expected)
    edge = data.x.copy()
    edge[:, :, 2:30, 2:30] = 255
    assert (edge == 255).all()
    assert data.client_names[data.client[0]] == "f0000_00"
    # 12 training and 4 test images for each writer
    assert np.bincount(data.client[data.test]).tolist() == [4] * 8


def test_femnist_split_by_user_has_no_test_rows(small_files, tmp_path):
    config = small_files("femnist", tmp_path)
    for file in (tmp_path / "femnist" / "test").iterdir():
        file.write_text(file.read_text().replace('"f', '"g'))
    data = load_dataset(config)
    assert data.test is None
    assert len(data.client_names) == 16


def test_femnist_shards_in_one_folder(small_files, tmp_path):
    config = small_files("femnist", tmp_path)
    (tmp_path / "femnist" / "train").rename(tmp_path / "femnist" / "all_data")
    data = load_dataset(config)
    assert (len(data), data.test) == (96, None)


def test_omniglot_clients_labels_and_size(small_files, tmp_path):
    config = small_files("omniglot", tmp_path)
    data = load_dataset(config)
    assert data.client_names == ("Greek", "Japanese_(katakana)", "Korean", "Latin", "Tagalog")
    assert data.class_names[3] == "Japanese_(katakana)/character01"
    assert all(len(set(data.y[data.client == c])) == 3 for c in range(5))
    by_drawer = load_dataset(config | {"clients": "drawer", "labels": "within", "size": 105})
    assert len(by_drawer.client_names) == 6
    assert by_drawer.n_classes == 3
    file = tmp_path / "omniglot-py" / "images_background" / "Greek" / "character01" / "0002_01.png"
    np.testing.assert_array_equal(by_drawer.x[0, 0], np.asarray(Image.open(file)) * 255)
    for key, value in (("clients", "x"), ("labels", "x"), ("size", 3), ("size", 28.0)):
        assert f"data.{key} must be" in refusal(load_dataset, config | {key: value})


def test_omniglot_zip_is_the_folder(small_files, tmp_path):
    loose = load_dataset(small_files("omniglot", tmp_path / "a"))
    packed = load_dataset(small_files("omniglot-zip", tmp_path / "b"))
    assert loose.content_hash == packed.content_hash


def test_feature_files(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4, 3)).astype(np.float32)
    test = np.array([False, True, False, True])
    np.savez(tmp_path / "own.npz", x=x, y=[0, 1, 1, 0], client=["b", "a", "a", "b"], test=test)
    data = load_dataset({"name": "features", "path": str(tmp_path / "own.npz")})
    np.testing.assert_array_equal(data.x, x)
    assert data.client.tolist() == [1, 0, 0, 1]
    assert data.test.tolist() == test.tolist()
    lines = ["f1,label,f2,test,client", "1.5,0,-2,0,b ä", "1e-3,1,3,1,a"]
    (tmp_path / "own.csv").write_text("\n".join(lines), encoding="utf-8")
    data = load_dataset({"name": "features", "path": Path(tmp_path / "own.csv")})
    np.testing.assert_array_equal(data.x, np.array([[1.5, -2], [1e-3, 3]], np.float32))
    assert data.y.tolist() == [0, 1]
    assert data.client_names == ("a", "b ä")
    assert data.test.tolist() == [False, True]


def test_each_name_of_a_column_is_looked_at_once(small_files, tmp_path, monkeypatch):
    """Not once for every other one, which took minutes for ten thousand columns."""
    asked = []
    monkeypatch.setattr(arrays, "is_unnamed", lambda name: bool(asked.append(name)))
    data = load_dataset(small_files("yahoo_answers", tmp_path))
    assert len(asked) == len(set(asked)) == data.x.shape[1]


BY_CLASS = {"kind": "by_class", "clients": 6, "classes_per_client": 2}
NATURAL = {"kind": "natural"}
SPLITS = {
    "cifar10": BY_CLASS,
    "cifar100": {"kind": "by_class", "clients": 10, "classes_per_client": 10},
    "mnist": BY_CLASS,
    "fashion_mnist": {"kind": "dirichlet", "clients": 6, "alpha": 10.0},
    "stl10": BY_CLASS,
    "femnist": NATURAL,
    "omniglot": NATURAL,
    "inaturalist": NATURAL,
    "landmarks": NATURAL,
    "yahoo_answers": NATURAL,
}


@pytest.mark.parametrize("kind", SPLITS)
def test_a_study_of_three_rounds(kind, small_files, tmp_path):
    rounds = []
    config = three_rounds(small_files(kind, tmp_path), novel=1, **SPLITS[kind])
    outcome = evaluate_cell(config, rounds.append)
    assert [log.round for log in rounds] == [0, 1, 2]
    rows = pd.DataFrame([make_row(**row) for row in outcome.rows])
    novel = rows[(rows.group == "novel") & (rows.metric == "error") & (rows.client != "")]
    assert len(novel) == 1
    assert novel.value.astype(float).between(0, 1).all()
