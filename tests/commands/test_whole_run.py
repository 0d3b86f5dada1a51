"""One small study through the real command: cells, report, resumption."""

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from latecomer.commands.app import app

TINY = """
study: tiny
data: {name: digits}
split: {kind: by_class, clients: 19, certify: 3, novel: 10, classes_per_client: 2}
methods: [{name: local, novel_steps: 20}]
train: {rounds: 2, cohort: 2, local_steps: 2, batch_size: 4}
certificates: [{route: r0, rule: product}]
"""


def latecomer(*arguments: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, list(arguments), prog_name="latecomer")
    return done.exit_code, done.stdout, done.stderr


@pytest.mark.slow
def test_tiny_study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("tiny.yaml").write_text(TINY)
    command = [sys.executable, "-m", "latecomer", "run", "tiny.yaml", "--workers", "1"]
    first = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (first.returncode, first.stderr) == (0, "")
    plan, *_, last = first.stdout.splitlines()
    assert plan == ("tiny: 2 cells (1 method x 1 seed, 1 split), 0 done, 2 to run on 1 worker")
    assert last == " report       runs/tiny/report.html"
    assert Path("runs/tiny/report.html").stat().st_size > 10_000
    rows = Path("runs/tiny/rows.csv").read_bytes()

    _, again, _ = latecomer("run", "tiny.yaml")
    assert again.splitlines()[0].endswith("2 done, nothing to run")
    assert Path("runs/tiny/rows.csv").read_bytes() == rows

    code, out, told = latecomer("run", "tiny.yaml", "train.rounds=3")
    assert (code, out, told.count("\n")) == (2, "", 1)
    assert "train.rounds" in told

    assert latecomer("report", "runs/tiny") == (0, "runs/tiny/report.html\n", "")
