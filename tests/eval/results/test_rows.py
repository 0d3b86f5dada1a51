import csv
import io
import json
import math

import numpy as np
import pandas as pd
import pytest
from doors import refusal
from hypothesis import given
from hypothesis import strategies as st

from latecomer.errors import InputError
from latecomer.eval.results.rows import (
    COLUMNS,
    Artifact,
    load_run,
    make_row,
    read_artifact,
    read_records,
    read_rows,
    rows_to_text,
    write_artifact,
    write_rows,
)


def test_columns_are_those_of_the_format():
    assert len(COLUMNS) == len(set(COLUMNS)) == 33
    assert COLUMNS[:4] == ("study", "cell", "dataset", "split")
    assert COLUMNS[-3:] == ("status", "message", "version")


def test_unknown_column_names_the_nearest():
    with pytest.raises(TypeError, match="did you mean 'metric'"):
        make_row(metrik="error")


def test_round_trip_keeps_numbers_and_kinds(tmp_path):
    path = tmp_path / "rows.csv"
    rows = [
        make_row(
            client=7, seed=0, value=0.1 + 0.2, rigorous=True, severity=0.5, message='a, "b"\nc'
        ),
        make_row(
            seed=1, value=np.float64(1) / 3, rigorous=False, n_clients=np.int64(12), delta=0.05
        ),
        make_row(value=math.inf, metric="x"),
    ]
    write_rows(path, rows)
    frame = read_rows(path)
    assert list(frame.columns) == list(COLUMNS)
    by_value = frame.set_index("value")
    assert list(frame["client"]) == ["", "", "7"]
    assert set(frame["shift"]) == {"none"}  # as a blank one is read
    assert by_value.loc[0.1 + 0.2, "message"] == 'a, "b"\nc'
    assert by_value.loc[0.1 + 0.2, "rigorous"] is True
    assert by_value.loc[1 / 3, "rigorous"] is False
    assert by_value.loc[math.inf, "rigorous"] == ""
    assert by_value.loc[1 / 3, "n_clients"] == 12
    assert pd.isna(by_value.loc[math.inf, "seed"])
    assert frame["value"].dtype == frame["delta"].dtype == np.float64


def test_empty_rows_still_have_a_header(tmp_path):
    write_rows(tmp_path / "rows.csv", [])
    assert (tmp_path / "rows.csv").read_text() == ",".join(COLUMNS) + "\n"
    assert read_rows(tmp_path / "rows.csv").empty


def test_order_is_by_number_for_clients_and_severities_and_total_before_terms():
    rows = [
        make_row(cell="a", client=10),
        make_row(cell="a", client=9),
        make_row(cell="a", client=""),
        make_row(cell="a", client=9, shift="blur", severity=10.0),
        make_row(cell="a", client=9, shift="blur", severity=2.0),
        make_row(cell="a", client="", metric="certificate", term="empirical risk"),
        make_row(cell="a", client="", metric="certificate", term=""),
    ]
    table = csv.DictReader(io.StringIO(rows_to_text(rows)))
    found = [(r["client"], r["severity"], r["metric"], r["term"]) for r in table]
    assert found == [
        ("", "", "", ""),
        ("", "", "certificate", ""),
        ("", "", "certificate", "empirical risk"),
        ("9", "", "", ""),
        ("9", "2.0", "", ""),
        ("9", "10.0", "", ""),
        ("10", "", "", ""),
    ]


@given(st.permutations(range(6)))
def test_order_of_the_input_never_shows(order):
    rows = [make_row(cell="a", client=n // 2, value=n / 3) for n in range(6)]
    assert rows_to_text([rows[n] for n in order]) == rows_to_text(rows)


@given(st.floats(allow_nan=False))
def test_floats_come_back_exactly(value):
    text = rows_to_text([make_row(value=value)])
    assert float(text.splitlines()[1].split(",")[COLUMNS.index("value")]) == value


def test_records_written_again_are_the_same_bytes(tmp_path):
    path = tmp_path / "rows.csv"
    write_rows(path, [make_row(client=n, value=n / 3, rigorous=n > 3) for n in range(5)])
    again = [dict(zip(COLUMNS, record, strict=True)) for record in read_records(path)]
    assert rows_to_text(again) == path.read_text()


def test_rows_hold_text_and_numbers_only():
    with pytest.raises(TypeError, match="list"):
        rows_to_text([make_row(value=[1])])


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "column 'study' is absent"),
        ("a,b\n1,2\n", "unknown column 'a'"),
        (",".join(reversed(COLUMNS)) + "\n", "another order"),
        (rows_to_text([make_row(value=0.5)])[:-20], "torn: row 2"),
        (rows_to_text([make_row(value=0.5, version="0.1.0")])[:-1], "torn: row 2"),
        (rows_to_text([make_row(value="wide")]), "column 'value'"),
        (rows_to_text([make_row(seed="1.5")]), "column 'seed'"),
        (rows_to_text([make_row(rigorous="yes")]), "column 'rigorous'"),
        (rows_to_text([make_row(message='a "b"')])[:-40], "torn"),
        (b"\xff\xfe\x00", "cannot be read"),
    ],
)
def test_torn_and_foreign_files_are_refused_in_one_line(tmp_path, content, said):
    path = tmp_path / "rows.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InputError, match=said) as caught:
        read_rows(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_absent_file_is_said_plainly(tmp_path):
    assert "there is no rows file" in refusal(read_rows, tmp_path / "none.csv")


def test_arrays_and_tables_come_back(tmp_path):
    counts = np.arange(6).reshape(2, 3)
    axes, ids = ("client", "class"), {"client": [3, 5]}
    path = write_artifact(
        tmp_path, "label_counts", Artifact("counts", {"n": counts}, None, axes, ids)
    )
    found = read_artifact(path)
    assert (found.kind, found.axes, found.ids) == ("counts", axes, ids)
    np.testing.assert_array_equal(found.arrays["n"], counts)

    table = [
        {"bound": "pefll_32", "value": 1 / 3, "text": ""},
        {"bound": "b", "value": "", "text": "x"},
    ]
    path = write_artifact(tmp_path, "certificates", Artifact("certificates", table=table))
    first, second = read_artifact(path).table
    assert first == {"bound": "pefll_32", "value": 1 / 3, "text": ""}
    assert math.isnan(second["value"])
    assert second["text"] == "x"


def test_data_frames_are_taken_as_records(tmp_path):
    artifact = Artifact("t", table=pd.DataFrame({"a": [1.0, 2.5]}))
    assert read_artifact(write_artifact(tmp_path, "t", artifact)).table == [{"a": 1.0}, {"a": 2.5}]
    assert read_artifact(write_artifact(tmp_path, "e", Artifact("t", table=[]))).table == []


def test_same_arrays_are_the_same_bytes(tmp_path):
    one = write_artifact(tmp_path / "a", "x", Artifact("k", {"n": np.ones(3)}))
    two = write_artifact(tmp_path / "b", "x", Artifact("k", {"n": np.ones(3)}))
    assert one.read_bytes() == two.read_bytes()


def test_artifacts_are_arrays_or_a_table_and_never_objects(tmp_path):
    with pytest.raises(TypeError, match="either"):
        Artifact("k")
    with pytest.raises(TypeError, match="objects"):
        write_artifact(tmp_path, "x", Artifact("k", {"n": np.array([{}])}))
    with pytest.raises(TypeError, match="differ"):
        write_artifact(tmp_path, "x", Artifact("k", table=[{"a": 1}, {"b": 1}]))


def test_damaged_artifacts_are_said_plainly(tmp_path):
    path = write_artifact(tmp_path, "x", Artifact("k", {"n": np.ones(3)}))
    path.write_bytes(path.read_bytes()[:30])
    assert "no readable artifact" in refusal(read_artifact, path)


def begin(folder, *cells):
    (folder / "study.yaml").write_text("study: s\n")
    (folder / "cells.json").write_text(json.dumps({"cells": cells}))


def test_run_directories_are_read_or_refused(tmp_path):
    assert "no run directory" in refusal(load_run, tmp_path)
    (tmp_path / "study.yaml").write_text("study: s\n")
    assert "no cell of which has ended" in refusal(load_run, tmp_path)
    write_rows(tmp_path / "rows.csv", [])
    (tmp_path / "cells.json").write_text(json.dumps({"cells": ["b", "a"]}))
    for name, status in (("a", "done"), ("b", "failed.json"), ("stale", "done")):
        (tmp_path / "cells" / name).mkdir(parents=True)
        (tmp_path / "cells" / name / status).write_text('{"message": "why"}')
        write_artifact(
            tmp_path / "cells" / name / "artifacts", "t", Artifact("k", table=[{"v": 1}])
        )
    run = load_run(tmp_path)
    assert [(cell.id, cell.status, cell.message) for cell in run.cells] == [
        ("b", "failed", "why"),
        ("a", "done", ""),
    ]
    assert [(file.cell, file.name, file.kind) for file in run.artifacts] == [("a", "t", "k")]
    assert run.artifacts[0].load().table == [{"v": 1.0}]
    assert run.study == {"study": "s"}
    for file, damage, said in (
        ("cells/a/artifacts/t.manifest.json", b'{"file": 3, "kind": "k"}', "in cell a names no"),
        ("cells/a/artifacts/t.manifest.json", b"{", r"cell a: t\.manifest\.json: Exp"),
        ("certification.jsonl", b"\xff", r"certification\.jsonl: 'utf-8'"),
        ("study.yaml", b"study: \xff", r"study\.yaml: line 1: not UTF-8"),
        ("study.yaml", b"{}", r"study\.yaml names no study"),
        ("study.yaml", b"study: s\nseeds: 3", r"study\.yaml: seeds must be a list, got 3"),
    ):
        before = (tmp_path / file).read_bytes() if (tmp_path / file).is_file() else b""
        (tmp_path / file).write_bytes(damage)
        with pytest.raises(InputError, match=f"holds a damaged run: .*{said}"):
            load_run(tmp_path)
        (tmp_path / file).write_bytes(before)
    (tmp_path / "env.json").write_text("[")
    assert "damaged run" in refusal(load_run, tmp_path)


def test_merged_rows_are_those_of_the_cells(tmp_path):
    begin(tmp_path, "a")
    rows = [make_row(cell="a", metric="error", value=value) for value in (0.25, 0.5)]
    (tmp_path / "cells" / "a").mkdir(parents=True)
    write_rows(tmp_path / "cells" / "a" / "rows.csv", rows)
    for sign, merged, said in (
        ("done", rows[:1], r"cells/a/rows.csv was: their rows differ; give the run's command"),
        ("done", [rows[0], rows[0]], "their rows differ"),
        ("done", rows, ""),
        ("done", [], ""),  # of an earlier end: the cell's are read
        ("rows.csv", rows[:1], ""),  # the cell is not done, and may be written anew
    ):
        (tmp_path / "cells" / "a" / "done").unlink(missing_ok=True)
        (tmp_path / "cells" / "a" / sign).touch()
        write_rows(tmp_path / "rows.csv", merged)
        if said:
            with pytest.raises(InputError, match=rf"rows.csv was changed or cut short.*{said}"):
                load_run(tmp_path)
        else:
            assert len(load_run(tmp_path).rows) == (len(merged) or len(rows))


def test_a_run_that_goes_on_is_read_with_the_cells_that_ended(tmp_path):
    begin(tmp_path, "c", "b", "a")

    def end(name, value, sign="done"):
        folder = tmp_path / "cells" / name
        folder.mkdir(parents=True, exist_ok=True)
        write_rows(folder / "rows.csv", [make_row(cell=name, metric="error", value=value)])
        if sign:
            (folder / sign).write_text('{"message": "why"}')

    end("a", 0.25, sign="")  # its worker has written rows and no ``done``
    assert "no cell of which has ended" in refusal(load_run, tmp_path)
    end("b", 0.5)
    assert load_run(tmp_path).rows[["cell", "value"]].to_numpy().tolist() == [["b", 0.5]]
    # rows.csv is of an earlier end of the run; what it holds is not read twice.
    write_rows(tmp_path / "rows.csv", [make_row(cell="b", metric="error", value=0.5)])
    end("a", 0.25)
    end("c", 0.75, sign="failed.json")
    rows = load_run(tmp_path).rows
    assert list(rows["cell"]) == ["a", "b", "c"]
    assert list(rows["value"]) == [0.25, 0.5, 0.75]
