"""Labels that are a quantity are refused as classes, with the way that exists; classes are not."""

import numpy as np
import pandas as pd
import pytest

from latecomer.certify.predictor import score_clients
from latecomer.errors import InputError
from latecomer.eval.datasets.columns import as_classes, refuse_regression
from latecomer.eval.datasets.from_objects import clients_from
from latecomer.eval.datasets.readers.arrays import read_npz

RNG = np.random.default_rng(3)
TARGETS = {
    "diabetes-like": RNG.integers(25, 347, 442),
    "51 numbers": np.arange(510) % 51,
    "every second sample its own": np.arange(40) % 20,
    "whole numbers stored as floats": RNG.integers(0, 300, 600).astype(float),
}
CLASSES = {
    "50 numbers": np.arange(500) % 50,
    "two": np.arange(4) % 2,
    "a few lines": np.arange(10),
}


def frame(y):
    return pd.DataFrame({"a": np.arange(len(y), dtype=float), "label": y, "client": 0})


@pytest.mark.parametrize("y", TARGETS.values(), ids=TARGETS)
def test_a_quantity_is_refused_by_every_door(y, tmp_path):
    whole = as_classes(y, "y")[0]
    np.savez(tmp_path / "own.npz", x=np.zeros((len(y), 2), np.float32), y=whole)
    doors = {
        "frame": lambda: clients_from(frame(y)),
        "mapping": lambda: clients_from({"one": (np.zeros((len(y), 2), np.float32), whole)}),
        "npz": lambda: read_npz(path=str(tmp_path / "own.npz")),
    }
    for door in doors.values():
        with pytest.raises(InputError, match=r"must hold classes, .* got \d+ different labels in"):
            door()


@pytest.mark.parametrize("y", CLASSES.values(), ids=CLASSES)
def test_classes_are_taken(y):
    assert clients_from(frame(y)).y.tolist() == y.tolist()


def test_classes_with_names_may_be_many(tmp_path):
    names = np.array([f"character {number}" for number in np.arange(480) % 60])
    assert len(clients_from(frame(names)).class_names) == 60
    y = np.arange(480) % 60
    named = {"class_names": np.array([f"c{number}" for number in range(60)])}
    np.savez(tmp_path / "own.npz", x=np.zeros((480, 2), np.float32), y=y, **named)
    assert len(read_npz(path=str(tmp_path / "own.npz")).class_names) == 60
    # A name for nearly every sample is an id, or a text.
    with pytest.raises(InputError, match="at most one for 4 samples, got 40 different labels"):
        refuse_regression(np.arange(60) % 40, "y", named=True)


def test_float_labels_need_a_loss():
    x, y = np.zeros((3, 1)), np.array([25.0, 151.0, 346.0])
    with pytest.raises(InputError, match=r"client 'a': labels must be classes, .* got float64"):
        score_clients(lambda support, x: x[:, 0], {"a": ((x, y), (x, y))})
    scored = score_clients(
        lambda support, x: x[:, 0], {"a": ((x, y), (x, y))}, loss=lambda p, y: abs(p - y) / 1000
    )
    assert scored.losses["a"] == pytest.approx(0.174)
