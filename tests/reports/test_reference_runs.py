"""Finished runs are kept as CONTRIBUTING says: an archive of cells that add up to the rows."""

import json
import re
import tarfile
from pathlib import Path

import pytest
import yaml

from latecomer.eval.results.kept_cells import ARCHIVE
from latecomer.eval.results.rows import load_run, read_records
from latecomer.eval.runs import runner
from latecomer.eval.runs.cell_directory import is_done
from latecomer.eval.runs.status import run_status
from latecomer.eval.studies.loading import load_study

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = ROOT / "reports" / "reference"
KEPT = sorted(path.parent for path in REFERENCE.glob(f"*/{ARCHIVE}"))
# Their data come with scikit-learn; the others' are read from the publishers' files.
OF_DIGITS = [
    kept
    for kept in KEPT
    if yaml.safe_load((kept / "study.yaml").read_text("utf-8"))["data"]["name"] == "digits"
]


@pytest.mark.parametrize("kept", KEPT, ids=lambda path: path.name)
def test_an_archive_holds_the_cells_that_the_rows_come_from(kept):
    run = load_run(kept)
    assert run.cells
    assert all(cell.status == "done" and is_done(cell.path) for cell in run.cells)
    packed = [record for cell in run.cells for record in read_records(cell.path / "rows.csv")]
    merged = read_records(kept / "rows.csv")
    assert sorted(packed) == sorted(merged)
    assert all(file.load().kind == file.kind for file in run.artifacts)
    status = run_status(kept)
    assert status.count("done") == len(status.cells) == len(run.cells)


@pytest.mark.slow
@pytest.mark.parametrize("kept", OF_DIGITS, ids=lambda path: path.name)
def test_an_empty_directory_takes_every_cell_over_and_has_the_same_rows(kept, tmp_path):
    """A cell that had to be computed would fail: nothing there does the work."""
    study, out = load_study(kept / "study.yaml"), tmp_path / "again"
    found = runner.run(
        study, out=out, workers=1, adopt=[kept], evaluate="latecomer.nowhere:nothing"
    )
    assert found.n_adopted == found.n_cells
    assert found.n_failed == 0
    assert (out / "rows.csv").read_bytes() == (kept / "rows.csv").read_bytes()


@pytest.mark.parametrize("kept", KEPT, ids=lambda path: path.name)
def test_an_archive_says_nothing_of_who_made_it_and_when(kept):
    with tarfile.open(kept / ARCHIVE) as packed:
        members = packed.getmembers()
    names = [member.name.split("/") for member in members]
    assert names == sorted(names)
    assert {(m.uid, m.gid, m.uname, m.gname, m.mtime) for m in members} == {(0, 0, "", "", 0)}
    assert all(member.isdir() or member.isreg() for member in members)


@pytest.mark.parametrize("kept", KEPT, ids=lambda path: path.name)
def test_no_kept_cell_says_where_on_a_machine_it_lay(kept):
    told = [
        json.loads((cell.path / name).read_text("utf-8"))
        for cell in load_run(kept).cells
        for name in ("config.json", "adopted.json")
        if (cell.path / name).is_file()
    ]
    told.append(json.loads((kept / "env.json").read_text("utf-8")))
    assert not re.findall(r'["\s=]/\w[^"\s]*', json.dumps(told))


def test_every_run_with_rows_has_its_cells_in_an_archive():
    assert KEPT
    assert sorted(path.parent for path in REFERENCE.glob("*/rows.csv")) == KEPT
    assert not list(REFERENCE.glob("*/cells"))


def test_of_a_reports_pictures_and_cards_those_that_pages_show_are_kept():
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    told = "\n".join(page.read_text("utf-8") for page in pages)
    shown = set(re.findall(r"reports/reference/([\w./-]+\.(?:svg|png))", told))
    kept = {path.relative_to(REFERENCE).as_posix() for path in REFERENCE.rglob("*.*")}
    made = re.compile(r"/(?:cards|figures)/|\.(?:svg|png|pdf|html|bib)$")
    assert {path for path in kept if made.search(path)} == shown
