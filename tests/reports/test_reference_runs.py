"""Finished runs are kept as ``tests/keep.py`` keeps them: small, and all that pages quote."""

import importlib.util
import json
import re
import shutil
import tarfile
from pathlib import Path

import pytest
import yaml

from latecomer.eval.results.kept_cells import ARCHIVE, PACKED_ROWS, rows_content
from latecomer.eval.results.rows import load_run, read_records
from latecomer.eval.runs import runner
from latecomer.eval.runs.cell_directory import is_done, run_status
from latecomer.eval.studies.loading import load_study

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = ROOT / "reports" / "reference"
RUNS = sorted(path.parent for path in REFERENCE.glob(f"*/{PACKED_ROWS}"))
KEPT = [run for run in RUNS if (run / ARCHIVE).is_file()]
# Their data come with scikit-learn; the others' are read from the publishers' files.
OF_DIGITS = [
    kept
    for kept in KEPT
    if yaml.load((kept / "study.yaml").read_bytes(), yaml.CSafeLoader)["data"]["name"] == "digits"
]
MOST = 8e6  # bytes


def loaded(path):
    spec = importlib.util.spec_from_file_location(path.stem, ROOT / path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def keeping():
    return loaded(Path("tests/keep.py"))


@pytest.mark.parametrize("kept", KEPT, ids=lambda path: path.name)
def test_an_archive_holds_the_cells_that_the_rows_come_from(kept):
    run = load_run(kept)
    assert run.cells
    assert all(cell.status == "done" and is_done(cell.path) for cell in run.cells)
    packed = [record for cell in run.cells for record in read_records(cell.path / "rows.csv")]
    merged = read_records(kept / PACKED_ROWS)
    assert sorted(packed) == sorted(merged)
    assert all(file.load().kind == file.kind for file in run.artifacts)
    status = run_status(kept)
    assert status.count("done") == len(status.cells) == len(run.cells)
    # It says nothing of who made it and when, nor where on a machine it lay.
    with tarfile.open(kept / ARCHIVE) as archive:
        members = archive.getmembers()
    names = [member.name.split("/") for member in members]
    assert names == sorted(names)
    assert {(m.uid, m.gid, m.uname, m.gname, m.mtime) for m in members} == {(0, 0, "", "", 0)}
    assert all(member.isreg() for member in members)
    told = [
        json.loads((cell.path / name).read_text("utf-8"))
        for cell in run.cells
        for name in ("config.json", "adopted.json")
        if (cell.path / name).is_file()
    ]
    told.append(json.loads((kept / "env.json").read_text("utf-8")))
    assert not re.findall(r'["\s=]/\w[^"\s]*', json.dumps(told))


@pytest.mark.parametrize("kept", [run for run in RUNS if run not in KEPT], ids=lambda run: run.name)
def test_a_run_without_its_cells_is_a_finished_one(kept):
    assert {cell.status for cell in load_run(kept).cells} == {"done"}


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
    assert (out / "rows.csv").read_bytes() == rows_content(kept / PACKED_ROWS)


def test_a_run_is_kept_with_its_cells_where_they_took_long_or_a_page_is_made_of_them(keeping):
    of_pages = {*loaded(Path("docs/building/gallery.py")).GALLERY}
    assert of_pages <= {run.name for run in KEPT}
    # Sentences about what was searched are made from the checks of each training.
    of_pages |= {run.name for run in KEPT if run.name.startswith("odpfl-search-")}
    long = {run.name for run in KEPT if keeping.longest(run) >= keeping.LASTING}
    assert {run.name for run in KEPT} == long | of_pages


def test_a_run_is_kept_in_the_same_bytes_again(keeping, tmp_path):
    (small,) = (run for run in KEPT if run.name == "odpfl-search-fedavg-epochs-1")
    copy, cells = tmp_path / "copy", load_run(small).cells
    shutil.copytree(small, copy)
    (copy / ARCHIVE).unlink()
    (copy / PACKED_ROWS).unlink()
    (copy / "rows.csv").write_bytes(rows_content(small / PACKED_ROWS))
    for cell in cells:
        shutil.copytree(cell.path, copy / "cells" / cell.id)
    assert keeping.longest(copy) < keeping.LASTING
    keeping.main([str(copy), "--cells"])
    for path in copy.rglob("*"):
        assert path.is_dir() or path.read_bytes() == (small / path.relative_to(copy)).read_bytes()
    keeping.main([str(copy)])
    assert not (copy / ARCHIVE).exists()
    assert [cell.status for cell in load_run(copy).cells] == ["done"] * len(cells)


def test_what_is_kept_is_small_and_is_read():
    files = [path for path in REFERENCE.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) <= MOST
    assert not [path for path in files if path.name == "rows.csv" or "cells" in path.parts]
    quotes = "".join(path.read_text("utf-8") for path in Path(__file__).parent.glob("quotes/*.py"))
    tables = [path for path in files if path.parent.name == "tables"]
    assert all(f'"tables/{path.name}"' in quotes for path in tables)


def test_of_a_reports_pictures_and_cards_those_that_pages_show_are_kept():
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    told = "\n".join(page.read_text("utf-8") for page in pages)
    shown = set(re.findall(r"reports/reference/([\w./-]+\.(?:svg|png))", told))
    kept = {path.relative_to(REFERENCE).as_posix() for path in REFERENCE.rglob("*.*")}
    made = re.compile(r"/(?:cards|figures)/|\.(?:svg|png|pdf|html|bib)$")
    assert {path for path in kept if made.search(path)} == shown
