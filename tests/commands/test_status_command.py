"""``latecomer status``: a line per cell, a line about all, JSON for machines, and no torch."""

import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from latecomer.commands.app import app
from latecomer.commands.render import duration
from latecomer.commands.run_directories import _line, tell_missing
from latecomer.errors import InputError
from latecomer.eval.results.rows import load_run, make_row, write_rows
from latecomer.eval.runs.cell_directory import run_status, seal


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "study.yaml").write_text("study: tiny\n")
    labels = {"a": ("split", None, None), "b": ("fedavg", 0, 50), "c": ("fedavg", 1, 50)}
    labels |= {"d": ("pefll", 0, 50), "e": ("local", 0, 50)}
    about = {i: {"label": n, "seed": s, "rounds": r} for i, (n, s, r) in labels.items()}
    (tmp_path / "cells.json").write_text(json.dumps({"cells": list(about), "about": about}))
    for name, seconds in (("a", 2.0), ("b", 100.0)):
        place = tmp_path / "cells" / name
        place.mkdir(parents=True)
        (place / "rows.csv").write_text("x\n")
        seal = {"rows_sha256": hashlib.sha256(b"x\n").hexdigest()}
        (place / "done").write_text(json.dumps(seal) + "\n")
        (place / "timing.json").write_text(json.dumps({"seconds": seconds}))
    for name in ("c", "d"):
        (tmp_path / "cells" / name).mkdir()
    line = {"round": 24, "loss": 0.25, "seconds": 40.0}
    (tmp_path / "cells/c/progress.jsonl").write_text(json.dumps(line) + "\n")
    (tmp_path / "cells/d/failed.json").write_text('{"message": "no luck"}')
    return tmp_path


def test_a_line_per_cell_and_one_about_all(directory: Path) -> None:
    result = CliRunner().invoke(app, ["status", str(directory)])
    assert result.exit_code == 0
    assert [line.split() for line in result.stdout.splitlines()[:-1]] == [
        ["cell", "label", "seed", "state", "round", "loss", "time", "left", "about"],
        ["a", "split", "done", "2", "s"],
        ["b", "fedavg", "0", "done", "1", "m", "40", "s"],
        ["c", "fedavg", "1", "stopped", "25/50", "0.250", "40", "s", "1", "m", "0", "s"],
        ["d", "pefll", "0", "failed", "no", "luck"],
        ["e", "local", "0", "to", "do", "1", "m", "30", "s"],
    ]
    assert result.stdout.splitlines()[-1] == (
        "tiny: 5 cells: 2 done, 0 running, 1 failed, 2 to do; about 2 m 30 s left"
    )


def test_cells_of_which_only_rows_are_kept_are_done(directory: Path) -> None:
    write_rows(directory / "rows.csv", [make_row(cell=one, status="done") for one in "ab"])
    shutil.rmtree(directory / "cells")
    said = CliRunner().invoke(app, ["status", str(directory)]).output
    assert said.splitlines()[-1] == "tiny: 5 cells: 2 done, 0 running, 0 failed, 3 to do"


def test_json_for_machines(directory: Path) -> None:
    result = CliRunner().invoke(app, ["status", str(directory), "--json"])
    found = json.loads(result.stdout)
    counts = ("done", "running", "failed", "to_do")
    assert [found[key] for key in counts] == [2, 0, 1, 2]
    assert found["seconds_left"] == 150.0
    assert found["cells"][2] == {
        **{"id": "c", "label": "fedavg", "seed": 1, "state": "stopped", "message": ""},
        **{"round": 25, "rounds": 50, "loss": 0.25, "seconds": 40.0, "seconds_left": 60.0},
    }


def test_it_loads_no_torch_and_writes_nothing(directory: Path) -> None:
    before = sorted(directory.rglob("*"))
    code = (
        "import sys\nfrom latecomer.commands.app import main\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code, end.code\n"
        "heavy = {'torch', 'sklearn', 'matplotlib', 'pandas', 'scipy'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    command = [sys.executable, "-c", code, "status", str(directory)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(directory.rglob("*")) == before


def test_what_is_no_run_directory_is_refused(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["status", str(tmp_path)])
    assert done.exit_code == 2
    assert done.stderr == f"latecomer: {tmp_path} is no run directory: it has no study.yaml\n"


@pytest.mark.parametrize(("held", "said"), [("", "Expecting value"), ("[1]", "is no mapping")])
def test_a_damaged_file_of_a_cell_is_named_with_its_cell(
    directory: Path, held: str, said: str
) -> None:
    (directory / "cells/b/timing.json").write_text(held)
    for read in (run_status, load_run):
        with pytest.raises(InputError, match=rf"damaged run: cell b: timing\.json:? {said}"):
            read(directory)


def test_durations() -> None:
    told = ["0 s", "1 m 0 s", "1 h 0 m", "24 h 0 m"]
    assert [duration(seconds) for seconds in (0.4, 59.6, 3599.6, 86400)] == told


def test_what_is_made_of_a_run_that_lacks_cells_says_so(directory: Path, capsys: Any) -> None:
    tell_missing(directory)
    told = capsys.readouterr()
    said = f"{directory}, of 5 cells: 1 failed and 2 unfinished; 'latecomer status' lists them\n"
    assert (told.out, told.err) == ("", said)
    (directory / "cells.json").write_text('{"cells": ["a", "b"]}')
    tell_missing(directory)
    assert capsys.readouterr() == ("", "")
    (directory / "cells" / "b" / "done").unlink()  # its rows may be in rows.csv all the same
    write_rows(directory / "rows.csv", [make_row(cell=one, status="done") for one in "ab"])
    own = directory / "cells" / "a"
    write_rows(own / "rows.csv", [make_row(cell="a", status="done")])
    (own / "done").write_text(seal((own / "rows.csv").read_bytes()))
    same = CliRunner().invoke(app, ["compare", str(directory), str(directory)])
    assert same.stderr.splitlines() == [
        f"{directory}, of 2 cells: 1 unfinished; 'latecomer status' lists them"
    ]


def test_a_comparison_names_every_predictor_but_the_fixed_weights():
    row = {"label": "pefll", "seed": 0, "first": 0.1, "second": 0.2, "difference": 0.1}
    row |= {"lower": float("nan"), "upper": float("nan"), "n_clients": 12, "n_seeds": 1}
    named = [_line({**row, "predictor": name})["method"] for name in ("deterministic", "prior")]
    assert named == ["pefll", "pefll (prior)"]
