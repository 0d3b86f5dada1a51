"""What a run shows: plan, progress in a pipe and on a terminal, summary, exit code."""

import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console
from typer.testing import CliRunner

from latecomer.commands.app import app
from latecomer.commands.run_display import CellsInWork, LineDisplay, TableDisplay, plan_line
from latecomer.eval.results.rows import write_rows
from latecomer.eval.runs.runner import Event, Failure, RunResult
from latecomer.eval.studies.loading import load_study
from latecomer.eval.training.checkpoint_slots import CheckpointEvery

STUDY = load_study("quickstart")
CELL = {"total": 19, "workers": 2, "cell": "c1", "label": "pefll", "seed": 1, "rounds": 150}
EVENTS = [
    Event(kind="plan", done=0, total=19, workers=2),
    Event(kind="start", done=0, **CELL),
    Event(kind="round", done=0, round=95, loss=0.2131, **CELL),
    Event(kind="retry", done=0, message="its process was killed by SIGKILL", **CELL),
    Event(kind="start", done=0, **CELL),
    Event(kind="done", done=1, **CELL),
    Event(kind="start", done=1, total=19, workers=2, cell="c2", label="split"),
    Event(kind="failed", done=2, total=19, workers=2, cell="c2", label="split", message="no room"),
]


@pytest.fixture
def finished(tmp_path: Path) -> Path:
    """A run directory without results."""
    write_rows(tmp_path / "rows.csv", [])
    (tmp_path / "study.yaml").write_text("study: small\n", "utf-8")
    (tmp_path / "env.json").write_text("{}", "utf-8")
    (tmp_path / "cells.json").write_text('{"cells": []}', "utf-8")
    return tmp_path


@pytest.fixture(autouse=True)
def _no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


def test_plain_lines(capsys: pytest.CaptureFixture[str]) -> None:
    with LineDisplay(STUDY, clock=iter([0, 0, 0, 5, 6, 7, 8, 9, 10]).__next__) as show:
        for event in EVENTS:
            show(event)
    assert capsys.readouterr().out.splitlines() == [
        "quickstart: 19 cells (6 methods x 3 seeds, 1 split), 0 done, 19 to run on 2 workers",
        " 0/19  pefll seed 1  tried again: its process was killed by SIGKILL",
        " 1/19  pefll seed 1  done",
        " 2/19  split  FAILED: no room",
    ]


@pytest.mark.parametrize(
    ("workers", "threads", "said"),
    [(1, 1, "1 worker"), (1, 4, "1 worker of 4 threads"), (3, 2, "3 workers of 2 threads")],
)
def test_threads_for_clients_are_told(workers: int, threads: int, said: str) -> None:
    event = Event(kind="plan", done=0, total=19, workers=workers, threads=threads)
    assert plan_line(STUDY, event).endswith(f"19 to run on {said}")


HINT = " on the CPU: the study names no device, --device auto uses the GPU here"


@pytest.mark.parametrize(
    ("overrides", "there", "where", "done", "said"),
    [
        ([], True, "", 0, True),
        ([], False, "", 0, False),
        (["train.device=cpu"], True, "", 0, False),
        (["train.device=auto"], True, "", 0, False),
        ([], True, "Slurm", 0, False),
        ([], True, "", 19, False),
    ],
)
def test_a_gpu_that_nobody_named_is_mentioned(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    overrides: list[str],
    there: bool,
    where: str,
    done: int,
    said: bool,
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: there)
    with LineDisplay(load_study("quickstart", overrides), where) as show:
        show(Event(kind="plan", done=done, total=19, workers=2))
    assert capsys.readouterr().out.splitlines()[1:] == [HINT] * said


@pytest.mark.slow
def test_torch_is_not_loaded_to_mention_a_gpu() -> None:
    code = (
        "import sys\n"
        "from types import SimpleNamespace\n"
        "from latecomer.eval.studies.loading import leaves_gpu_idle\n"
        "study = SimpleNamespace(train=SimpleNamespace(model_fields_set=set()))\n"
        "assert not leaves_gpu_idle(study)\n"
        "assert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_long_cells_show_a_round_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    times = iter([0.0, 0.0, 29.0, 31.0, 32.0])
    with LineDisplay(STUDY, clock=times.__next__) as show:
        show(EVENTS[0])
        for _ in range(3):
            show(EVENTS[2])
    assert capsys.readouterr().out.splitlines()[1:] == [
        " 0/19  pefll seed 1  round 96/150  loss 0.213"
    ]


def test_a_table_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()

    def terminal(**options: Any) -> Console:
        return Console(file=screen, force_terminal=True, width=80, **options)

    monkeypatch.setattr("rich.console.Console", terminal)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    with TableDisplay(STUDY) as show:
        for event in EVENTS[:3]:
            show(event)
        show._live.refresh()
        middle = screen.getvalue()
        for event in EVENTS[3:]:
            show(event)
    plan = "quickstart: 19 cells (6 methods x 3 seeds, 1 split), 0 done, 19 to run on 2"
    assert f"{plan} \nworkers\n" in middle, "80 columns break between words"
    assert HINT in middle
    assert "pefll" in middle
    assert "round 96/150" in middle
    assert "loss 0.213" in middle
    assert " 2/19  split  FAILED: no room" in screen.getvalue()


def test_time_left_counts_from_the_first_round_told_of() -> None:
    now = [0.0]
    cells = CellsInWork(clock=lambda: now[0])
    cells.hear(EVENTS[1])

    def row(number: int, seconds: float) -> list[str]:
        now[0] = seconds
        cells.hear(Event(kind="round", done=3, round=number - 1, loss=0.5, **CELL))
        table = cells.table()
        return [str(next(iter(column.cells))) for column in table.columns]

    # On from a checkpoint of round 100: two seconds a round from there on, 40 rounds left.
    assert row(101, 60.0)[2:] == ["round 101/150", "loss 0.500", "━" * 13 + "╌" * 7, ""]
    assert row(110, 78.0)[5] == "1 m 20 s left"
    assert row(150, 158.0)[5] == "serving"
    cells.hear(EVENTS[5])
    assert list(cells.table().columns[0].cells) == ["1/19 cells"]


def test_what_happened_before_and_elsewhere(capsys: pytest.CaptureFixture[str]) -> None:
    with LineDisplay(STUDY) as show:
        show(Event(kind="plan", done=5, failed=2, total=19, workers=2))
        show(Event(kind="note", done=5, message="the checkpoint cannot be used", **CELL))
        show(Event(kind="held", done=5, message="process 7 on ada is working on it", **CELL))
        show(Event(kind="done", done=6, message="by another run", **CELL))
    assert capsys.readouterr().out.splitlines() == [
        "quickstart: 19 cells (6 methods x 3 seeds, 1 split), 3 done, 2 failed before,"
        " 14 to run on 2 workers",
        " 5/19  pefll seed 1  note: the checkpoint cannot be used",
        " 5/19  pefll seed 1  left to another run: process 7 on ada is working on it",
        " 6/19  pefll seed 1  done: by another run",
    ]


def test_resumed_run_with_nothing_left() -> None:
    event = Event(kind="plan", done=19, total=19, workers=1)
    assert plan_line(STUDY, event).endswith("19 done, nothing to run")


@pytest.mark.parametrize("n_failed", [0, 1])
def test_run_reports_and_its_exit_code_counts_failures(
    finished: Path, monkeypatch: pytest.MonkeyPatch, n_failed: int
) -> None:
    asked: dict[str, Any] = {}

    def run(study: Any, **options: Any) -> RunResult:
        asked.update(options, rounds=study.train.rounds)
        options["on_event"](EVENTS[0])
        return RunResult(
            path=finished,
            n_cells=19,
            n_done=19 - n_failed,
            n_failed=n_failed,
            n_skipped=0,
            failures=(Failure("c2", "split", None, "no room"),) * n_failed,
            seconds=112.4,
        )

    monkeypatch.setattr("latecomer.commands.run_display.run", run)
    monkeypatch.setattr("latecomer.reports.page.page.report", lambda path: path / "report.html")
    result = CliRunner().invoke(
        app, ["run", "quickstart", "train.rounds=7", "--out", str(finished), "--workers", "2"]
    )
    lines = result.stdout.splitlines()
    assert result.exit_code == n_failed
    assert lines[1] == f" {19 - n_failed}/19 cells, {n_failed} failed, 1 m 52 s"
    assert lines[2].startswith(" failed cells stay failed") == bool(n_failed)
    assert lines[-1] == f" report       {finished / 'report.html'}"
    assert (asked["rounds"], asked["workers"], asked["out"]) == (7, 2, finished)
    assert asked["every"] == CheckpointEvery(seconds=60.0, rounds=None)
    assert (list(asked["adopt"]), asked["retry_failed"], asked["extend"]) == ([], False, False)
