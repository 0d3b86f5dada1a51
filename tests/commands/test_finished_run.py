"""A finished run given again says what it said without work, unless anything changed."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from latecomer.commands import run_display
from latecomer.commands.app import app
from latecomer.reports.display import pictures
from latecomer.reports.page import page

pytestmark = pytest.mark.slow

STUDY = """
study: again
data: {name: npz, path: points.npz}
split: {kind: by_class, clients: 8, novel: 2, certify: 2, classes_per_client: 2}
methods: [{name: local, novel_steps: 20}]
train: {rounds: 1, cohort: 2, local_steps: 1, batch_size: 4}
seeds: [0]
"""


def write_points(seed: int) -> None:
    draw = np.random.default_rng(seed)
    y = np.arange(160) % 4
    np.savez("points.npz", x=draw.normal(size=(160, 3)).astype(np.float32), y=y)


def run(*more: str) -> list[str]:
    done = CliRunner().invoke(app, ["run", "again.yaml", *more], prog_name="latecomer")
    assert done.exit_code == 0, done.output
    return re.sub(r"(?<= failed), .*$", "", done.stdout, flags=re.MULTILINE).splitlines()


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """Run a small study; its directory, and what the terminal said of what came out."""
    place = tmp_path_factory.mktemp("finished")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        write_points(0)
        Path("again.yaml").write_text(STUDY)
        return place, answers(run())


def answers(lines: list[str]) -> list[str]:
    """Return what follows the count of cells, and that count."""
    return lines[lines.index(" 2/2 cells, 0 failed") :]


def idle(*_: object, **__: object) -> None:
    raise AssertionError("there was work")


def append(name: str) -> None:
    with open(name, "a", encoding="utf-8") as file:
        file.write("\n# something else\n")


def drop(name: str) -> None:
    Path(name).unlink()


def cell(name: str) -> str:
    return str(next(Path("runs/again/cells").iterdir()) / name)


CHANGES: dict[str, Callable[[], object]] = {
    "data": lambda: write_points(1),
    "study file": lambda: append("again.yaml"),
    "rows": lambda: append("runs/again/rows.csv"),
    "page": lambda: drop("runs/again/report.html"),
    "table": lambda: append("runs/again/tables/accuracy.csv"),
    "scorings": lambda: drop("runs/again/certification.jsonl"),
    "cell": lambda: drop(cell("done")),
    "rows of a cell": lambda: append(cell("rows.csv")),
    "what was kept": lambda: append("runs/again/finished.json"),
}


def test_it_says_the_same_without_work(finished, monkeypatch):
    place, said = finished
    monkeypatch.chdir(place)
    monkeypatch.setattr(run_display, "run_and_report", idle)
    again = run()
    assert again[0].startswith("again: 2 cells (1 method x 1 seed, ")
    assert again[0].endswith("2 done, nothing to run")
    assert again[1].startswith(" points: 160 samples")
    assert answers(again) == said
    assert run("--workers", "1") == again


@pytest.mark.parametrize("what", CHANGES)
def test_it_is_looked_at_when_anything_changed(finished, monkeypatch, tmp_path, what):
    copied = Path(shutil.copytree(finished[0], tmp_path / "copy"))
    monkeypatch.chdir(copied)
    monkeypatch.setattr("latecomer.commands.run_directories.os.getcwd", lambda: str(finished[0]))
    with monkeypatch.context() as patch:
        patch.setattr(run_display, "run_and_report", idle)
        assert answers(run()) == finished[1]  # the copy itself is no change
    looked: list[str] = []
    monkeypatch.setattr(run_display, "run_and_report", lambda *_, **__: not looked.append(what))
    CHANGES[what]()
    run()
    assert looked == [what]


@pytest.mark.parametrize(
    "more", [("train.rounds=1",), ("--scale", "smoke"), ("--adopt", "x"), ("--retry-failed",), ()]
)
def test_another_command_or_an_edit_of_the_package_is_looked_at(finished, monkeypatch, more):
    monkeypatch.chdir(finished[0])
    if not more:
        code = "latecomer.commands.run_directories._code"
        monkeypatch.setattr(code, lambda: iter([("a.py", b"")]))
    looked: list[int] = []
    monkeypatch.setattr(run_display, "run_and_report", lambda *_, **__: not looked.append(1))
    run("--out", "runs/again", *more)
    assert looked == [1]


def report_of(folder: str = "runs/again", *more: str) -> str:
    done = CliRunner().invoke(app, ["report", folder, *more], prog_name="latecomer")
    assert done.exit_code == 0, done.output
    return done.stdout


def pages_made(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """List the pages that are made from now on, their figures left out."""
    made: list[Path] = []
    true_report = page.report
    monkeypatch.setattr(pictures, "svg_of", lambda figure: "<svg></svg>")
    monkeypatch.setattr(
        page, "report", lambda place, **asks: made.append(place) or true_report(place, **asks)
    )
    return made


def test_a_page_that_would_come_out_the_same_is_not_made_again(finished, monkeypatch, tmp_path):
    monkeypatch.chdir(shutil.copytree(finished[0], tmp_path / "copy"))
    before = {path: path.stat().st_mtime_ns for path in Path("runs/again").rglob("*")}
    made = pages_made(monkeypatch)
    assert report_of() == "runs/again/report.html\n"
    assert made == []
    assert {path: path.stat().st_mtime_ns for path in Path("runs/again").rglob("*")} == before
    Path("runs/again/report-shift.html").touch()  # a page for other questions is no other run
    # Of processes that were killed, or are at work.
    for name in ("tables/.gap.csv.1a2b3c4d.tmp", "lock.1", ".workers-a/token"):
        Path("runs/again", name).parent.mkdir(exist_ok=True)
        Path("runs/again", name).touch()
    Path(cell("lock.2")).touch()
    Path(cell("checkpoints")).mkdir()
    Path(cell("checkpoints/train-000003.json")).touch()
    assert report_of() == "runs/again/report.html\n"
    assert made == []
    held = {path: path.read_bytes() for path in before if path.is_file()}
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path / "copy")
    page.report("runs/again")
    assert {path: path.read_bytes() for path in held} == held


CHANGES_OF_PAGE: dict[str, Callable[[], object]] = {
    "page": lambda: drop("runs/again/report.html"),
    "table": lambda: append("runs/again/tables/accuracy.csv"),
    "figure for a paper": lambda: Path("runs/again/figures/mine.pdf").touch(),
    "lines of rounds": lambda: append(cell("progress.jsonl")),
    "time of a cell": lambda: Path(cell("timing.json")).write_text('{"seconds": 7}'),
    "link": lambda: linked("runs/again/checks.csv"),
    "what was kept": lambda: append("runs/again/finished.json"),
    "nothing kept": lambda: drop("runs/again/finished.json"),
    "another note": lambda: Path("runs/again/finished.json").write_text("[]"),
}


def linked(name: str) -> None:
    Path(name).rename("elsewhere")
    Path(name).symlink_to(Path("elsewhere").resolve())


@pytest.mark.thinned
@pytest.mark.parametrize("what", CHANGES_OF_PAGE)
def test_a_page_is_made_again_when_anything_changed(finished, monkeypatch, tmp_path, what):
    monkeypatch.chdir(shutil.copytree(finished[0], tmp_path / "copy"))
    CHANGES_OF_PAGE[what]()
    made = pages_made(monkeypatch)
    assert report_of() == "runs/again/report.html\n"
    assert made == [Path("runs/again")]


def test_a_page_is_made_again_by_other_code_and_for_other_questions(
    finished, monkeypatch, tmp_path
):
    monkeypatch.chdir(shutil.copytree(finished[0], tmp_path / "copy"))
    made = pages_made(monkeypatch)
    with monkeypatch.context() as patch:
        patch.setattr("latecomer.commands.run_directories._code", lambda: iter([("a.py", b"")]))
        report_of()
    assert len(made) == 1
    assert report_of("runs/again", "--asks", "accuracy") == "runs/again/report-accuracy.html\n"
    assert len(made) == 2
