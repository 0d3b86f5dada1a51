"""Columns that say whose the rows are, or which row it is, or the label again, are no features."""

import numpy as np
import pandas as pd
import pytest
from doors import files, refusal, tables

from latecomer.eval.datasets.from_objects import clients_from
from latecomer.reading.column_names import counts_rows, names_owner, numbers_rows

RNG = np.random.default_rng(7)
FRAME = pd.DataFrame(
    {"age": RNG.normal(size=12), "dose": RNG.normal(size=12), "label": np.arange(12) % 2}
)
OWNERS = [
    *("user", "patient_id", "hospital", "site", "cid", "device", "subject", "Subject ID", "userId"),
    *("PatientID", "uid", "customers", "school", "sensor no", "writer", "participant", "id"),
]


@pytest.mark.parametrize("values", [[1, 1, 2, 2, 3, 3] * 2, ["p1", "p2", "p3"] * 4])
@pytest.mark.parametrize("name", OWNERS)
def test_whose_the_rows_are_is_no_feature_while_there_are_no_clients(name, values, tmp_path):
    frame = FRAME.assign(**{name: values})
    for door, make in files(frame, tmp_path):
        said = refusal(make)
        assert f"column {name!r} seems to hold clients" in said or door == "features"
        if door != "features":
            assert f"say client: {name}, or rename it, or list the columns" in said
    assert f"did you mean {name!r}?" in refusal(clients_from, frame)
    for door, make in files(frame, tmp_path, client=name):
        if door != "features":
            data = make()
            assert (door, data.feature_names) == (door, ("age", "dose"))
            assert len(data.client_names) == 3
    for door, make in files(frame, tmp_path, features=["age", "dose"]):
        if door != "features":
            assert make().notes == (
                f"no clients were read; if the column {name!r} holds them, say client: {name}",
            )


@pytest.mark.parametrize("name", ["hospital", "patient_id", "device"])
def test_whose_the_rows_are_is_warned_of_beside_clients(name, tmp_path):
    frame = FRAME.assign(**{name: [5, 1, 3] * 4, "client": list("aabbccddeeff")})
    for _, make in files(frame, tmp_path):
        (note,) = make().notes
        assert note.startswith(f"warning: the column {name!r} was taken as a feature")
    assert clients_from(frame).notes == (note,)
    assert clients_from(frame, features=["age"]).notes == ()


ROW_NUMBERS = {
    "counted backwards": range(12, 0, -1),
    "shuffled": RNG.permutation(12),
    "with gaps, as filtered rows have": [0, 3, 4, 9, 11, 12, 17, 20, 21, 30, 31, 40],
    "text": [f"r{row}" for row in range(12)],
}


@pytest.mark.parametrize(
    "name", ["id", "index", "ID", "row_id", "Unnamed: 0", "__index_level_0__", "...1", " "]
)
@pytest.mark.parametrize("how", ROW_NUMBERS)
def test_row_numbers_in_any_order_are_no_features(name, how, tmp_path):
    frame = FRAME.assign(client=list("aabbccddeeff"))
    frame.insert(0, name, list(ROW_NUMBERS[how]))
    wanted = clients_from(FRAME.assign(client=list("aabbccddeeff"))).content_hash
    for door, make in tables(frame, tmp_path):
        data = make()
        assert (door, data.feature_names) == (door, ("age", "dose"))
        if door != "features":
            # A blank is what the doors make of it.
            (note,) = data.notes
            assert note.startswith("left out, row numbers or without a name: ")
            assert not name.strip() or note.endswith(f": {name}")
        if door in ("frame", "parquet"):
            assert data.content_hash == wanted


@pytest.mark.parametrize(
    ("name", "cells", "is_number"),
    [
        ("row number", [2, 1, 3], True),
        ("Sample ID", [7, 3, 9], True),
        ("sl. no.", [1, 2, 3], True),
        ("x", [3, 2, 1], True),
        ("x", [3, 1, 2], False),
        ("id", [1, 1, 2], False),
        ("index", [0.5, 1.5, 2.5], False),
        ("bmi index", [1, 2, 3], False),
        ("age", [1, 2, 3], False),
        ("#", [1, 2, 3], True),
    ],
)
def test_which_columns_number_rows(name, cells, is_number):
    assert numbers_rows(name, cells) == is_number


def test_counting_is_by_one_either_way():
    assert counts_rows([5, 4, 3])
    assert not counts_rows([5, 4, 4])
    assert not counts_rows([1])
    assert not counts_rows(["1", "2"])


@pytest.mark.parametrize("name", ["age", "site age", "price", "video", "grid", "acid", "dosage"])
def test_names_of_features_are_no_owners(name):
    assert not names_owner(name)


@pytest.mark.parametrize("name", ["Label", "LABEL", "label.1", " label "])
def test_a_second_label_is_refused(name, tmp_path):
    frame = FRAME.assign(client=list("aabbccddeeff"), **{name: FRAME.label})
    for _, make in files(frame, tmp_path):
        said = refusal(make)
        assert "differ only in letter case" in said or "second 'label'" in said or "twice" in said
    refusal(clients_from, frame)


@pytest.mark.parametrize("name", ["Client", "client.1", "CLIENT"])
def test_a_second_column_of_clients_is_refused(name, tmp_path):
    frame = FRAME.assign(client=list("aabbccddeeff"), **{name: list("aabbccddeeff")})
    for _, make in files(frame, tmp_path):
        said = refusal(make)
        assert "differ only in letter case" in said or "is a second 'client'" in said


@pytest.mark.parametrize("name", ["target", "y", "outcome"])
def test_a_feature_that_says_the_label_is_warned_of(name, tmp_path):
    frame = FRAME.assign(client=list("aabbccddeeff"), **{name: 5 - FRAME.label})
    said = f"warning: the column {name!r} was taken as a feature, and says every row's label"
    for door, make in tables(frame, tmp_path):
        assert said in make().notes or door == "features"


def test_a_column_that_counts_the_rows_under_another_name_is_warned_of():
    frame = FRAME.assign(client=list("aabbccddeeff"), day=range(12))
    (note,) = clients_from(frame).notes
    assert note == "warning: the column 'day' was taken as a feature, though it counts the rows"
