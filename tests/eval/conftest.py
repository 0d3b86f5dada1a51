"""Small data sets in their publishers' formats, made on the spot."""

import csv
import gzip
import json
import pickle
import struct
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import cell_doubles
import numpy as np
import pytest
from PIL import Image

from latecomer.eval.runs.executor import Report
from latecomer.eval.runs.job import Job, carry_out
from latecomer.eval.training.checkpoint_slots import CheckpointEvery

CIFAR10 = b"airplane automobile bird cat deer dog frog horse ship truck".split()
STL10 = b"airplane\nbird\ncar\ncat\ndeer\ndog\nhorse\nmonkey\nship\ntruck\n"


class _Here:
    def run(self, jobs, on_report):
        for number, job in enumerate(jobs):
            on_report(Report("start", number))
            carry_out(job, lambda *_: None)
            on_report(Report("done", number))


@pytest.fixture(scope="session")
def here() -> _Here:
    """Return an executor in this process: nothing to start, and an error is the test's own."""
    return _Here()


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file in which doubles of cells note every attempt."""
    monkeypatch.setenv(cell_doubles.LOG, str(tmp_path / "log"))
    return tmp_path / "log"


@pytest.fixture
def make_jobs(log: Path, tmp_path: Path) -> Callable[..., list[Job]]:
    """Make jobs of a double in a run directory."""

    def jobs(double, names=("local", "fedavg"), run="run"):
        (tmp_path / run / "cells").mkdir(parents=True)
        return cell_doubles.jobs_of(double, names, tmp_path / run / "cells")

    return jobs


@pytest.fixture
def double(log: Path) -> Callable[..., dict[str, object]]:
    """Return what a run takes to have a double do its cells in this process."""
    return lambda name, stop_after=None: {
        "executor": cell_doubles.Here(stop_after),
        "evaluate": f"cell_doubles:{name}",
        "every": CheckpointEvery(rounds=1),
    }


def images(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.integers(0, 256, shape, dtype=np.uint8)


def save(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def dump(path: Path, held: object, protocol: int = 2) -> None:
    save(path, pickle.dumps(held, protocol=protocol))


def cifar10(root: Path, rng: np.random.Generator, per_class: int = 2) -> None:
    folder = root / "cifar-10-batches-py"
    titles = {f"data_batch_{i}": f"training batch {i} of 5" for i in range(1, 6)}
    for file, title in (titles | {"test_batch": "testing batch 1 of 1"}).items():
        y = [int(v) for v in rng.permutation(np.repeat(np.arange(10), per_class))]
        held = {b"batch_label": title.encode(), b"labels": y, b"data": images(rng, len(y), 3072)}
        dump(folder / file, held | {b"filenames": [b"%d.png" % i for i in range(len(y))]})
    dump(folder / "batches.meta", {b"label_names": CIFAR10, b"num_vis": 3072})


def cifar10_binary(root: Path, rng: np.random.Generator) -> None:
    folder = root / "cifar-10-batches-bin"
    for file in (*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"):
        records = images(rng, 20, 3073)
        records[:, 0] = np.arange(20) % 10
        save(folder / file, records.tobytes())
    save(folder / "batches.meta.txt", b"\n".join(CIFAR10) + b"\n\n")


def cifar100(root: Path, rng: np.random.Generator) -> None:
    folder = root / "cifar-100-python"
    for file, title, n in (("train", b"training", 400), ("test", b"testing", 200)):
        fine = rng.permutation(np.arange(n) % 100)
        held = {
            b"batch_label": title + b" batch 1 of 1",
            b"fine_labels": fine.tolist(),
            b"coarse_labels": (fine // 5).tolist(),
            b"data": images(rng, n, 3072),
        }
        dump(folder / file, held)
    names = {b"fine_label_names": [b"class %d" % i for i in range(100)]}
    dump(folder / "meta", names | {b"coarse_label_names": [b"kind %d" % i for i in range(20)]})


def cifar100_binary(root: Path, rng: np.random.Generator) -> None:
    folder = root / "cifar-100-binary"
    for file, n in (("train.bin", 400), ("test.bin", 200)):
        records = images(rng, n, 3074)
        records[:, 1] = np.arange(n) % 100
        records[:, 0] = records[:, 1] // 5
        save(folder / file, records.tobytes())
    for kind, n in (("fine", 100), ("coarse", 20)):
        names = "".join(f"{kind} {i}\n" for i in range(n))
        save(folder / f"{kind}_label_names.txt", names.encode())


def idx(array: np.ndarray) -> bytes:
    header = struct.pack(f">{1 + array.ndim}I", 0x800 + array.ndim, *array.shape)
    return header + array.tobytes()


def four_idx_files(folder: Path, rng: np.random.Generator, *, packed: bool) -> None:
    for prefix, n in (("train", 80), ("t10k", 40)):
        y = rng.permutation(np.arange(n) % 10).astype(np.uint8)
        parts = {"images-idx3-ubyte": images(rng, n, 28, 28), "labels-idx1-ubyte": y}
        for name, array in parts.items():
            content = gzip.compress(idx(array)) if packed else idx(array)
            save(folder / f"{prefix}-{name}{'.gz' if packed else ''}", content)


def mnist(root: Path, rng: np.random.Generator) -> None:
    four_idx_files(root / "MNIST" / "raw", rng, packed=False)


def fashion_mnist(root: Path, rng: np.random.Generator) -> None:
    four_idx_files(root / "FashionMNIST" / "raw", rng, packed=True)


def stl10(root: Path, rng: np.random.Generator) -> None:
    folder = root / "stl10_binary"
    for prefix, n in (("train", 40), ("test", 20)):
        save(folder / f"{prefix}_X.bin", images(rng, n, 3, 96, 96).tobytes())
        save(folder / f"{prefix}_y.bin", (np.arange(n) % 10 + 1).astype(np.uint8).tobytes())
    save(folder / "class_names.txt", STL10)


def shard(writers: dict[str, int], rng: np.random.Generator) -> bytes:
    data = {
        name: {"x": (images(rng, n, 784) / 255).tolist(), "y": (np.arange(n) % 62).tolist()}
        for name, n in writers.items()
    }
    held = {"users": list(writers), "num_samples": list(writers.values()), "user_data": data}
    return json.dumps(held).encode()


def femnist(root: Path, rng: np.random.Generator) -> None:
    for part, n in (("train", 12), ("test", 4)):
        for number in range(2):
            writers = {f"f{number}{i:03d}_0{i}": n for i in range(4)}
            file = root / "femnist" / part / f"all_data_{number}_niid_0_{part}_9.json"
            save(file, shard(writers, rng))


def drawings(rng: np.random.Generator) -> dict[str, np.ndarray]:
    return {
        f"{alphabet}/character{c:02d}/{c + 1:04d}_{drawer:02d}.png": images(rng, 105, 105) > 200
        for alphabet in ("Greek", "Latin", "Tagalog", "Japanese_(katakana)", "Korean")
        for c in range(1, 4)
        for drawer in range(1, 7)
    }


def omniglot(root: Path, rng: np.random.Generator) -> None:
    for name, image in drawings(rng).items():
        file = root / "omniglot-py" / "images_background" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(file)


def omniglot_zip(root: Path, rng: np.random.Generator) -> None:
    omniglot(root / "loose", rng)
    archive = root / "omniglot-py" / "images_background.zip"
    archive.parent.mkdir(parents=True)
    folder = root / "loose" / "omniglot-py"
    with zipfile.ZipFile(archive, "w") as held:
        for file in sorted(folder.rglob("*.png")):
            held.write(file, file.relative_to(folder))
            file.unlink()


def vectors(rng: np.random.Generator, width: int) -> dict[str, np.ndarray]:
    x = rng.normal(size=(60, width)).astype(np.float32)
    return {"x": x, "y": np.arange(60) % 5, "client": np.arange(60) // 10}


def feature_npz(name: str, width: int) -> Callable[[Path, np.random.Generator], None]:
    def write(root: Path, rng: np.random.Generator) -> None:
        root.mkdir(parents=True, exist_ok=True)
        np.savez(root / f"{name}.npz", **vectors(rng, width))

    return write


def feature_csv(name: str, width: int) -> Callable[[Path, np.random.Generator], None]:
    def write(root: Path, rng: np.random.Generator) -> None:
        root.mkdir(parents=True, exist_ok=True)
        held = vectors(rng, width)
        with (root / f"{name}.csv").open("w", encoding="utf-8", newline="") as stream:
            rows = csv.writer(stream)
            rows.writerow(["client", "label", *(f"f{i}" for i in range(width))])
            for client, label, x in zip(held["client"], held["y"], held["x"], strict=True):
                rows.writerow([f"anna {client}", label, *(f"{v:.4f}" for v in x)])

    return write


MAKERS: dict[str, Callable[[Path, np.random.Generator], None]] = {
    "cifar10": cifar10,
    "cifar10-larger": partial(cifar10, per_class=10),
    "cifar10-binary": cifar10_binary,
    "cifar100": cifar100,
    "cifar100-binary": cifar100_binary,
    "mnist": mnist,
    "fashion_mnist": fashion_mnist,
    "stl10": stl10,
    "femnist": femnist,
    "omniglot": omniglot,
    "omniglot-zip": omniglot_zip,
    "inaturalist": feature_npz("inaturalist", 1280),
    "landmarks": feature_npz("landmarks", 1280),
    "yahoo_answers": feature_csv("yahoo_answers", 768),
}


@pytest.fixture(scope="session")
def small_files() -> Callable[[str, Path], dict[str, str]]:
    """Write one of ``MAKERS`` below a folder; returns the ``data`` key that reads it."""

    def write(kind: str, root: Path) -> dict[str, str]:
        MAKERS[kind](root, np.random.default_rng(7))
        return {"name": kind.partition("-")[0], "root": str(root)}

    return write
