"""Labels that are none, or one class in two spellings, are refused at every door for samples."""

import numpy as np
import pandas as pd
import pytest

from latecomer.certify.predictor import score_clients
from latecomer.errors import InputError
from latecomer.eval.datasets import load_dataset
from latecomer.eval.datasets.from_objects import clients_from


def doors(labels, folder):
    """Yield a data set with these labels through every door that takes labels as text."""
    x = np.linspace(0, 1, 2 * len(labels), dtype=np.float32).reshape(-1, 2)
    owner = [f"c{row // 2}" for row in range(len(labels))]
    frame = pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "label": labels, "client": owner})
    frame.to_csv(folder / "t.csv", index=False)
    frame.to_parquet(folder / "t.parquet")
    yield "table", lambda: load_dataset({"name": "table", "path": folder / "t.csv"})
    yield "features", lambda: load_dataset({"name": "features", "path": folder / "t.csv"})
    yield "parquet", lambda: load_dataset({"name": "parquet", "path": folder / "t.parquet"})
    yield "frame", lambda: clients_from(frame)
    yield "categories", lambda: clients_from(frame.astype({"label": "category"}))
    yield "string", lambda: clients_from(frame.astype({"label": "string"}))
    rows = {one: [i for i, name in enumerate(owner) if name == one] for one in owner}
    yield (
        "mapping",
        lambda: clients_from({k: (x[r], [labels[i] for i in r]) for k, r in rows.items()}),
    )
    yield "samples", lambda: clients_from(list(zip(x, labels, owner, strict=True)))
    yield "client of each", lambda: clients_from(list(zip(x, labels, strict=True)), client=owner)


def refusal(make):
    with pytest.raises(InputError) as caught:
        make()
    assert "\n" not in str(caught.value)
    return str(caught.value)


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
    assert said in refusal(lambda: clients_from({k: (x, [y]) for k, y in enumerate(labels)}))
    assert said in refusal(lambda: clients_from([(x[0], y, i) for i, y in enumerate(labels)]))
    frame = pd.DataFrame({"a": [1.0, 2, 3, 4], "client": 0})
    frame["label"] = pd.Series(labels, dtype=object)
    assert said in refusal(lambda: clients_from(frame))


@pytest.mark.parametrize("labels", [np.eye(2), [np.zeros(2), np.zeros(3)]], ids=str)
def test_several_numbers_in_place_of_a_label_are_refused(labels):
    x = np.zeros((2, 2), np.float32)
    for source in ({"a": (x, labels)}, [(x[i], labels[i], "a") for i in range(2)]):
        assert "must hold one label a row, got " in refusal(lambda: clients_from(source))  # noqa: B023


def test_text_that_a_file_holds_as_bytes_is_text(tmp_path):
    frame = pd.DataFrame({"a": [1.0, 2], "label": [b"ill", b"well"], "client": [b"ann ", b"bob"]})
    frame.to_parquet(tmp_path / "t.parquet")
    data = load_dataset({"name": "parquet", "path": tmp_path / "t.parquet"})
    assert (data.class_names, data.client_names) == (("ill", "well"), ("ann", "bob"))
    wrong = frame.assign(client=[b"\xff", b"\xfe"])
    assert "got bytes" in refusal(lambda: clients_from(wrong))


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
