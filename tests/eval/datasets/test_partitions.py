"""Clients as PFLlib and FL-bench leave them are read as they lie; no pickle of theirs is run."""

import json
import os
import pickle
import re
import zipfile

import numpy as np
import pytest
from doors import Runs, refusal

from latecomer.errors import InputError
from latecomer.eval.datasets import load_dataset
from latecomer.eval.datasets.restricted_pickle import load_arrays, load_boxed

SIZES = {"train": 6, "test": 3}


BOMB = Runs(os.mkdir, "exploded")


def saved(file, held):
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("wb") as stream:
        np.savez_compressed(stream, data=held)


def counts(labels):
    return [[int(c), int((labels == c).sum())] for c in np.unique(labels)]


@pytest.fixture
def pfllib(tmp_path):
    """A folder of four clients as PFLlib writes it, and what each client holds."""
    rng = np.random.default_rng(0)
    held = {}
    for part, least in SIZES.items():
        for number in range(4):
            n = least + number
            x, y = rng.normal(size=(n, 1, 8, 8)).astype("f4"), rng.integers(0, 3, n)
            held[part, number] = x, y
            saved(tmp_path / "toy" / part / f"{number}.npz", {"x": x, "y": y})
    config = {
        "num_clients": 4,
        "num_classes": 3,
        "non_iid": True,
        "partition": "dir",
        "Size of samples for labels in clients": [
            counts(np.concatenate([held[part, number][1] for part in SIZES])) for number in range(4)
        ],
    }
    (tmp_path / "toy" / "config.json").write_text(json.dumps(config))
    return tmp_path / "toy", held


def load(folder, name="pfllib", **keys):
    return load_dataset({"name": name, "path": str(folder), **keys})


def test_clients_and_test_samples_of_pfllib_stay_what_they_are(pfllib):
    folder, held = pfllib
    data = load(folder)
    assert data.client_names == ("0", "1", "2", "3")
    for (part, number), (x, y) in held.items():
        own = (data.client == number) & (data.test == (part == "test"))
        np.testing.assert_array_equal(data.x[own], x)
        np.testing.assert_array_equal(data.y[own], y)
    assert data.told() == ["toy: 48 samples of 4 clients, inputs of shape 1 x 8 x 8, "
                           "3 classes (0 to 2)"]  # fmt: skip


def test_client_ten_follows_nine(pfllib):
    folder, held = pfllib
    (folder / "config.json").unlink()
    x, y = held["train", 0]
    for part in SIZES:
        saved(folder / part / "10.npz", {"x": x, "y": y})
    assert load(folder).client_names == ("0", "1", "2", "3", "10")


@pytest.mark.parametrize("module", ["numpy.core.multiarray", "numpy._core.multiarray"])
@pytest.mark.parametrize("order", "CF")
def test_files_of_both_generations_of_numpy_are_read(module, order):
    values = np.asarray(np.arange(6, dtype=">i4").reshape(2, 3), order=order)
    written = pickle.dumps({"y": values, "n": np.int64(7)}, protocol=2)
    written = written.replace(b"numpy._core.multiarray", module.encode())
    read = load_arrays(written.replace(b"numpy.core.multiarray", module.encode()), "partition")
    np.testing.assert_array_equal(read["y"], values)
    assert read["n"] == 7
    assert read["y"].dtype.isnative


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_a_bomb_is_not_lit(protocol, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for load_one in (load_arrays, load_boxed):
        for held in (BOMB, {"data_indices": [BOMB]}, np.array({"x": BOMB}, object)):
            with pytest.raises(InputError):
                load_one(pickle.dumps(held, protocol), "partition")
    assert not (tmp_path / "exploded").exists()


def test_a_bomb_in_pfllibs_place_is_named(pfllib, monkeypatch):
    folder, _ = pfllib
    monkeypatch.chdir(folder)
    saved(folder / "train" / "0.npz", {"x": BOMB, "y": np.zeros(2, int)})
    with pytest.raises(
        InputError, match=r"train/0\.npz: asks for .*mkdir.*: nothing of it was run"
    ):
        load(folder)
    assert not (folder / "exploded").exists()


def spoilt(part):
    """Put something else in the place of a client's file of PFLlib."""
    return lambda folder: saved(folder / "train" / "1.npz", part)


def changed(**facts):
    """Say something else in PFLlib's config.json."""

    def spoil(folder):
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(config | facts))

    return spoil


def other_counts(folder):
    key = "Size of samples for labels in clients"
    counted = json.loads((folder / "config.json").read_text())[key]
    counted[3][0][1] += 1
    changed(**{key: counted})(folder)


def cut(folder):
    file = folder / "train" / "1.npz"
    file.write_bytes(file.read_bytes()[:-40])


def foreign(folder):
    with zipfile.ZipFile(folder / "train" / "1.npz", "w") as archive:
        archive.writestr("data.npy", b"no array")


TWO = np.arange(2)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (
            lambda folder: (folder / "test" / "2.npz").unlink(),
            "client 2 is in train, but not in test",
        ),
        (
            spoilt({"x": np.array([["a"], ["b"]], object), "y": TWO}),
            "array of Python objects, where numbers are expected",
        ),
        (
            spoilt({"x": [[1, 2], [3, 4]], "y": TWO}),
            "must hold x and y as arrays of numbers; text cannot be trained on",
        ),
        (
            lambda folder: np.savez(folder / "train" / "1.npz", x=np.zeros((2, 3)), y=TWO),
            "has no array data: it is no file of PFLlib",
        ),
        (spoilt({"x": np.zeros((3, 1, 8, 8), "f4"), "y": TWO}), "holds 3 inputs and 2 labels"),
        (
            spoilt({"x": np.zeros((2, 1, 8, 9), "f4"), "y": TWO}),
            r"clients have inputs of shapes \[1, 8, 8\] and \[1, 8, 9\]",
        ),
        (cut, "train/1.npz: is damaged or cut short"),
        (foreign, "train/1.npz: is damaged or cut short"),
        (
            lambda folder: (folder / "train" / "1.npz").rename(folder / "train" / "client1.npz"),
            "clients' files are 0.npz, 1.npz, ..., got client1.npz",
        ),
        (changed(num_clients=5), "says num_clients=5, but there are files of 4"),
        (changed(num_classes=2), "says num_classes=2, but labels go to 2"),
        (other_counts, "says client 3 has .* samples a class, the files"),
    ],
)
def test_what_is_wrong_with_pfllibs_folder_is_one_line(pfllib, spoil, message):
    folder, _ = pfllib
    spoil(folder)
    said = refusal(load, folder)
    assert re.search(message, said)
    assert said.startswith("data.path: ")


@pytest.fixture
def bench(tmp_path):
    """A folder of three clients as FL-bench writes it, of 12 samples of which two are nobody's."""
    folder = tmp_path / "synthetic"
    folder.mkdir()
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(12, 5)), rng.integers(0, 2, 12)
    np.save(folder / "data.npy", x)
    np.save(folder / "targets.npy", y)
    dealt = [
        {"train": np.array([0, 4]), "val": [7], "test": np.array([1])},
        {"train": [2, 3], "val": [], "test": [5, 6]},
        {"train": np.array([8]), "val": np.array([], int), "test": [np.int64(11)]},
    ]
    everyone = list(range(3))
    partition = {
        "separation": {"train": everyone, "val": everyone, "test": everyone, "total": 3},
        "data_indices": dealt,
    }
    (folder / "partition.pkl").write_bytes(pickle.dumps(partition))
    (folder / "args.json").write_text(json.dumps({"dataset": "synthetic", "client_num": 3}))
    return folder, partition, x, y


def test_clients_and_test_samples_of_fl_bench_stay_what_they_are(bench):
    folder, partition, x, y = bench
    data = load(folder, "fl_bench")
    assert data.client_names == ("0", "1", "2")
    for number, one in enumerate(partition["data_indices"]):
        for tested, rows in ((False, [*one["train"], *one["val"]]), (True, one["test"])):
            own = (data.client == number) & (data.test == tested)
            np.testing.assert_array_equal(data.x[own], x[rows].astype("f4"))
            np.testing.assert_array_equal(data.y[own], y[rows])
    assert data.notes == (
        "1 validation samples joined the training samples",
        "2 of 12 samples belong to no client: left out",
    )


def test_fl_benchs_whole_clients_laid_aside_are_clients_like_all_others(bench):
    folder, partition, _, _ = bench
    partition["data_indices"][2] = {"train": [], "val": [], "test": [8, 11]}
    for one in partition["data_indices"][:2]:
        one["test"] = []
    (folder / "partition.pkl").write_bytes(pickle.dumps(partition))
    data = load(folder, "fl_bench")
    assert data.test is None
    assert len(data.client_names) == 3


def dealt(*clients, told=None, of="synthetic"):
    """Deal other rows to FL-bench's clients."""

    def spoil(folder):
        (folder / "partition.pkl").write_bytes(pickle.dumps({"data_indices": [*clients]}))
        facts = {"dataset": of, "client_num": told or len(clients)}
        (folder / "args.json").write_text(json.dumps(facts))

    return spoil


def test_fl_bench_on_a_publishers_files(small_files, tmp_path):
    published = load_dataset(small_files("mnist", tmp_path))
    dealt({"train": [0, 87], "test": [1]}, {"train": [88], "test": [9]}, of="mnist")(tmp_path)
    data = load(tmp_path, "fl_bench")
    assert (len(data), data.n_classes) == (5, 10)
    own = (data.client == 0) & ~data.test
    held = {published.x[row].tobytes() for row in (0, 87)}
    assert {one.tobytes() for one in data.x[own]} == held


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (dealt(BOMB), "partition.pkl: asks for .*mkdir.*: nothing of it was run"),
        (dealt({"train": [0, 1], "test": [1]}), "deals row 1 more than once"),
        (
            dealt({"train": [0, 12], "test": [1]}),
            "the partition names row 12, but there are only 12 samples",
        ),
        (
            dealt({"train": [0, -1], "test": [1]}),
            "must list rows of client 0 as whole numbers from 0",
        ),
        (dealt({"train": [], "test": []}), "deals no samples"),
        (
            dealt({"train": [0], "test": [1]}, {"train": [2], "test": [3]}, told=3),
            "deals to 2 clients, but args.json says client_num=3",
        ),
        (
            lambda folder: (folder / "data.npy").unlink(),
            "synthetic is read from cifar10, cifar100, mnist, fmnist or from data.npy",
        ),
        (
            lambda folder: np.save(folder / "data.npy", np.array([[1], "a"], object)),
            "data.npy: is damaged or cut short",
        ),
    ],
)
def test_what_is_wrong_with_fl_benchs_folder_is_one_line(bench, spoil, message):
    folder = bench[0]
    spoil(folder)
    said = refusal(load, folder, "fl_bench")
    assert re.search(message, said)
    assert said.startswith("data.path: ")
