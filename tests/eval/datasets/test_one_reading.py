"""A table of samples is read the same through every door: features, labels, whose they are."""

import io
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from doors import arrays, files, refusal, tables

from latecomer.eval.datasets import load_dataset
from latecomer.eval.datasets.from_objects import clients_from

TABLES = Path(__file__).resolve().parents[2] / "reading" / "tables"
FRAME = pd.DataFrame(
    {"a": [0.1, 0.2, 0.3, 0.4], "b": [1.0, 0.0, 1.0, 0.0], "label": [0, 1, 1, 0]}
    | {"client": ["ann", "ann ", "bob", "\u00a0bob"]}
)


def load(path, **roles):
    return load_dataset({"name": "table", "path": path, **roles})


def test_two_spellings_are_one_client_at_every_door(tmp_path):
    for door, make in (*tables(FRAME, tmp_path), *arrays(FRAME, tmp_path)):
        data = make()
        assert (door, data.client_names) == (door, ("ann", "bob"))
        assert data.client.tolist() == [0, 0, 1, 1]
        assert any("are one client" in note for note in data.notes), door
    data = load(TABLES / "spaces.csv")
    assert len(data.client_names) == 30
    assert data.notes == ("'h00' and 'h00 ' are one client, 'h00', and 29 more",)


@pytest.mark.parametrize(
    ("ids", "said"),
    [
        (["ann", "Ann", "bob", "bob"], "differ only in letter case"),
        (["1e5", "b", "b", "b"], "scientific notation"),
        (["1.0E+05", "100007", "7", "8"], "scientific notation"),
        (["01", "1", "2", "2"], "differ only in how they are written"),
        (["Ann Lee", "AnnLee", "b", "b"], "differ only in how they are written"),
    ],
)
def test_unclear_ids_are_refused_at_every_door(tmp_path, ids, said):
    frame = FRAME.assign(client=ids)
    for _, make in (*tables(frame, tmp_path), *arrays(frame, tmp_path)):
        assert said in refusal(make)
    x, y = np.zeros((1, 2), np.float32), [0]
    if len(set(ids)) == 4:
        assert said in refusal(clients_from, {one: (x, y) for one in ids})


def test_a_mapping_names_each_client_once():
    x, y = np.zeros((1, 2), np.float32), [0]
    assert "'ann' occurs twice" in refusal(clients_from, {"ann": (x, y), "ann ": (x, y)})
    assert "got tuple" in refusal(clients_from, {("ann", 0): (x, y), ("bob", 0): (x, y)})


def test_a_row_number_without_a_name_is_no_feature():
    data = load(TABLES / "index.csv")
    assert data.feature_names == ("a", "b", "c")
    assert data.x.shape == (600, 3)
    assert data.told() == [
        "index: 600 samples of 30 clients, 3 features (a, b, c), 2 classes (0 to 1)",
        "left out, row numbers or without a name: Unnamed: 0",
    ]
    right = pd.read_csv(TABLES / "index.csv", index_col=0)
    assert clients_from(right).content_hash == data.content_hash


def test_a_column_called_id_that_counts_nothing_is_a_feature():
    assert clients_from(FRAME.assign(id=[3, 1, 4, 1])).feature_names == ("a", "b", "id")


@pytest.mark.parametrize("name", ["Client", "clinet", "client_id", "CLIENTS"])
def test_a_misspelt_client_is_no_feature(tmp_path, name):
    frame = FRAME.assign(client=[1, 1, 2, 2]).rename(columns={"client": name})
    for _, make in files(frame, tmp_path):
        assert "seems to hold clients" in refusal(make)
    assert "seems to hold clients" in refusal(load, tmp_path / "t.csv", features=["a", name])
    named = load(tmp_path / "t.csv", client=name)
    assert named.feature_names == ("a", "b")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ((TABLES / "semicolons.csv").read_text(), "values are separated by semicolons, perhaps"),
        ((TABLES / "r_row_names.csv").read_text(), "line 2: 6 values, but the header has 5 col"),
        ("a\tlabel\tclient\n1\t0\tx\n", "values are separated by tabs"),
        ("a label client\n1 0 x\n", "values are separated by blanks"),
        ("# made by me\na,label,client\n1,0,x\n", "begins with the comment '# made by me'"),
        ("a,label,client\n1,0,x\n# end\n2,1,y\n", "line 3: 1 values, but the header has 3 columns"),
        ("a,label,client\n1,0,x\n0,5,1,y\n", "line 3: 4 values, but the header has 3 columns: dec"),
        ('a,label,client\n"0,5",0,x\n"0,7",1,y\n', "are these decimal commas?"),
        ("a,label,client\n1,0,x\n,1,y\n", "got '' in row 1: fill gaps, or leave out their rows"),
        ("a,label,client\n1,0,x\nNA,1,y\n", "got 'NA' in row 1: fill gaps, or leave out"),
        ("a,label,client\nf,0,x\nm,1,y\n", "get_dummies(frame, columns=['a'], dtype=int) makes"),
        ("a,label,client\nf,0,x\n1,1,y\n", "features names the columns of numbers, image one"),
        ("a,label,client\n1,0,x\n2,1\n", "line 3: 2 values, but the header has 3 columns"),
        ("a,label,client\n1,0,x\n1\n", "row 1: no label is given"),
        ("a,label\n1e300,0\n", "must hold finite float32 numbers, got 1e+300 in row 0"),
        ("", "is empty"),
        ('[{"a": 1, "label": 0}]', "begins with '[', as JSON does"),
        ("a,a,label\n1,2,0\n", "names a column twice: a, a, label"),
        ("a,label,client\n1,ill,x\n2,ill ,y\n", "are one label, 'ill': write every class one way"),
        ("a,label,client\n1,ill,x\n2,,y\n", "row 1: no label is given"),
        ("a,label,client\n1,0,x\n2,1, \n", "row 1: no client is given"),
    ],
)
def test_files_of_another_form_are_refused_in_one_line(tmp_path, text, said):
    file = tmp_path / "mine.csv"
    file.write_text(text)
    assert said in refusal(load, file)


def test_blanks_byte_marks_and_line_ends_change_nothing(tmp_path):
    plain = "a,b,label,client\n1,2,0,x\n3,4,1,y\n"
    (tmp_path / "t.csv").write_text(plain)
    first = load(tmp_path / "t.csv")
    for text in (
        "\ufeff" + plain,
        plain.replace("\n", "\r\n"),
        "a, b, label , client\n1, 2, 0, x\n3, 4, 1, y\n",
        "\n" + plain,
        plain.replace("x", '" x "'),
    ):
        (tmp_path / "t.csv").write_bytes(text.encode())
        data = load(tmp_path / "t.csv")
        assert data.content_hash == first.content_hash
        assert (data.feature_names, data.client_names) == (("a", "b"), ("x", "y"))


def test_clients_in_an_index_are_asked_for_as_a_column():
    frame = FRAME.assign(client=list("xxyy")).set_index("client")
    assert "it is in the index: reset_index()" in refusal(clients_from, frame, client="client")
    levels, twice = pd.concat({"x": FRAME}, axis=1), pd.concat([FRAME, FRAME[["a"]]], axis=1)
    assert "columns must have one level" in refusal(clients_from, levels)
    assert "occurs twice" in refusal(clients_from, twice)


def test_whole_numbers_that_a_gap_made_floats_are_whole_numbers():
    text = "a,label,client\n1,0,7\n2,1,\n3,1,8\n"
    frame = pd.read_csv(io.StringIO(text))
    assert "no client is given" in refusal(clients_from, frame)
    assert clients_from(frame.dropna()).client_names == ("7", "8")
    assert clients_from(frame.dropna().astype({"client": "Int64"})).client_names == ("7", "8")
    assert clients_from(frame.dropna().astype({"client": "category"})).client_names == ("7", "8")
    truths = frame.dropna().assign(client=[True, False])
    assert "whole numbers or strings" in refusal(clients_from, truths)


def test_a_column_called_round_among_features_is_warned_of():
    data = clients_from(FRAME.assign(client=list("xxyy"), round=[0, 1, 0, 1]))
    assert data.told()[1] == "warning: the column 'round' was taken as a feature"
