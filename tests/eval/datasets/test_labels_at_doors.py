"""Labels that are none, a quantity, or one class in two spellings, are refused at every door."""

import numpy as np
import pandas as pd
import pytest
from doors import refusal, tables

from latecomer.certify.predictor import score_clients
from latecomer.errors import InputError
from latecomer.eval.datasets import load_dataset
from latecomer.eval.datasets.columns import as_classes, refuse_regression
from latecomer.eval.datasets.from_objects import clients_from
from latecomer.eval.datasets.readers.arrays import read_npz


def doors(labels, folder):
    """Yield a data set with these labels through every door that takes labels as text."""
    x = np.linspace(0, 1, 2 * len(labels), dtype=np.float32).reshape(-1, 2)
    owner = [f"c{row // 2}" for row in range(len(labels))]
    frame = pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "label": labels, "client": owner})
    yield from tables(frame, folder)
    yield "categories", lambda: clients_from(frame.astype({"label": "category"}))
    yield "string", lambda: clients_from(frame.astype({"label": "string"}))
    rows = {one: [i for i, name in enumerate(owner) if name == one] for one in owner}
    yield (
        "mapping",
        lambda: clients_from({k: (x[r], [labels[i] for i in r]) for k, r in rows.items()}),
    )
    yield "samples", lambda: clients_from(list(zip(x, labels, owner, strict=True)))
    yield "client of each", lambda: clients_from(list(zip(x, labels, strict=True)), client=owner)


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        (["cat", "dog", "cat", "NA"], "no label is given, got 'NA'"),
        (["cat", "dog", "?", "cat"], "no label is given, got '?'"),
        (["cat", "dog", "cat", ""], "no label is given"),
        (["cat", "dog", "inf", "cat"], "no label is given, got 'inf'"),
        (["0", "1", "0", "nan"], "no label is given"),
        (["cat", "None", "dog", "cat"], "no label is given, got 'None'"),
        (["0,5", "1,5", "0,5", "1,5"], "a decimal comma? Write 0.5"),
        (["cat", "0,5", "dog", "cat"], "a decimal comma? Write 0.5"),
        (["1", "cat", "1", "cat"], "got name 'cat' and number '1'"),
        (["yes", "0", "1", "yes"], "got name 'yes' and number"),
        (["cat", "Cat", "dog", "dog"], "'Cat' and 'cat' differ only in letter case"),
        (["True", "true", "False", "True"], "'True' and 'true' differ only in letter case"),
        (["cat", "cat ", "dog", "dog"], "are one label, 'cat': write every class one way"),
        (["sea cat", "sea  cat", "dog", "dog"], "differ only in how they are written"),
        (["01", "1", "01", "1"], "'01' and '1' differ only in how they are written"),
        (["1", "1.0", "0", "0"], "'1' and '1.0' differ only in how they are written"),
        (["1e5", "cat", "dog", "cat"], "'1e5' is in scientific notation"),
        (["0.5", "1.5", "0.5", "1.5"], "methods here classify"),
        (["2.25", "1", "2", "1"], "methods here classify"),
    ],
)
def test_unclear_labels_are_refused_at_every_door(labels, said, tmp_path):
    for door, make in doors(labels, tmp_path):
        assert said in refusal(make), door


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        (["cat", "dog", "dog", "cat"], ("cat", "dog")),
        (["0", "3+", "1", "0"], ("0", "1", "3+")),
        (["<=50K", ">50K", "<=50K", ">50K"], ("<=50K", ">50K")),
        (["+", "-", "-", "+"], ("+", "-")),
        ([*"abcdefghijkABC?1"] * 5, tuple("1?ABCabcdefghijk")),
    ],
)
def test_clear_labels_are_one_class_a_name_at_every_door(labels, names, tmp_path):
    for door, make in doors(labels, tmp_path):
        data = make()
        assert (door, data.class_names) == (door, names)
        assert [names[one] for one in data.y] == labels


@pytest.mark.parametrize("labels", [[True, 1, 0, False], [0, True, 1, 1], [1, "1", 0, 0]])
def test_labels_of_two_types_are_refused(labels):
    x = np.zeros((1, 2), np.float32)
    said = "must hold whole numbers, or strings, got"
    assert said in refusal(clients_from, {k: (x, [y]) for k, y in enumerate(labels)})
    assert said in refusal(clients_from, [(x[0], y, i) for i, y in enumerate(labels)])
    frame = pd.DataFrame({"a": [1.0, 2, 3, 4], "client": 0})
    frame["label"] = pd.Series(labels, dtype=object)
    assert said in refusal(clients_from, frame)


@pytest.mark.parametrize("labels", [np.eye(2), [np.zeros(2), np.zeros(3)]], ids=str)
def test_several_numbers_in_place_of_a_label_are_refused(labels):
    x = np.zeros((2, 2), np.float32)
    for source in ({"a": (x, labels)}, [(x[i], labels[i], "a") for i in range(2)]):
        assert "must hold one label a row, got " in refusal(clients_from, source)


def test_text_that_a_file_holds_as_bytes_is_text(tmp_path):
    frame = pd.DataFrame({"a": [1.0, 2], "label": [b"ill", b"well"], "client": [b"ann ", b"bob"]})
    frame.to_parquet(tmp_path / "t.parquet")
    data = load_dataset({"name": "parquet", "path": tmp_path / "t.parquet"})
    assert (data.class_names, data.client_names) == (("ill", "well"), ("ann", "bob"))
    assert "got bytes" in refusal(clients_from, frame.assign(client=[b"\xff", b"\xfe"]))


@pytest.mark.parametrize("label", ["NA", "?", "inf"])
def test_a_predictor_is_not_asked_about_points_without_a_label(label):
    points = np.zeros((2, 1)), np.array(["cat", label])
    with pytest.raises(InputError, match=r"client 'a': labels: none for point 1 of 2, got"):
        score_clients(lambda support, x: np.array(["cat", "cat"]), {"a": (points, points)})


def test_characters_are_labels_of_a_predictor():
    text = np.array([*"to be, or not to be? that is it."])
    points = np.zeros((len(text), 1)), text
    scored = score_clients(lambda support, x: np.roll(text, 1), {"a": (points, points)})
    assert scored.losses["a"] == np.mean(np.roll(text, 1) != text)


@pytest.mark.parametrize(
    ("labels", "said"),
    [(["cat", "Cat"], "letter case"), (["1", "cat"], "one kind"), (["1", "01"], "are written")],
)
def test_a_predictor_is_held_to_labels_that_are_clear(labels, said):
    points = np.zeros((2, 1)), np.array(labels)
    with pytest.raises(InputError, match=said):
        score_clients(lambda support, x: np.array(labels), {"a": (points, points)})
    # Also where each client's own labels are clear.
    each = {k: (np.zeros((1, 1)), np.array([one])) for k, one in enumerate(labels)}
    with pytest.raises(InputError, match=said):
        score_clients(
            lambda support, x: support[1], {str(k): (one, one) for k, one in each.items()}
        )


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
