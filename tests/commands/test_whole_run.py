"""One small study through the real command: cells, report, resumption, data that cannot work."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

TINY = """
study: tiny
data: {name: digits}
split: {kind: by_class, clients: 19, certify: 3, novel: 10, classes_per_client: 2}
methods: [{name: local, novel_steps: 20}]
train: {rounds: 2, cohort: 2, local_steps: 2, batch_size: 4}
certificates: [{route: r0, rule: product}]
"""


def latecomer(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "latecomer", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
def test_tiny_study(tmp_path: Path) -> None:
    (tmp_path / "tiny.yaml").write_text(TINY)
    first = latecomer(tmp_path, "run", "tiny.yaml", "--workers", "1")
    assert (first.returncode, first.stderr) == (0, "")
    plan, *_, last = first.stdout.splitlines()
    assert plan == ("tiny: 2 cells (1 method x 1 seed, 1 split), 0 done, 2 to run on 1 worker")
    assert last == " report       runs/tiny/report.html"
    assert (tmp_path / "runs" / "tiny" / "report.html").stat().st_size > 10_000
    rows = (tmp_path / "runs" / "tiny" / "rows.csv").read_bytes()

    again = latecomer(tmp_path, "run", "tiny.yaml")
    assert again.stdout.splitlines()[0].endswith("2 done, nothing to run")
    assert (tmp_path / "runs" / "tiny" / "rows.csv").read_bytes() == rows

    other = latecomer(tmp_path, "run", "tiny.yaml", "train.rounds=3")
    assert (other.returncode, other.stdout) == (2, "")
    assert other.stderr.count("\n") == 1
    assert "train.rounds" in other.stderr

    report = latecomer(tmp_path, "report", "runs/tiny")
    assert report.stdout == "runs/tiny/report.html\n"


@pytest.mark.slow
def test_unusable_data_leaves_nothing_behind(tmp_path: Path) -> None:
    np.savez(tmp_path / "bare.npz", x=np.zeros((40, 4), np.float32))
    (tmp_path / "tiny.yaml").write_text(
        TINY.replace("{name: digits}", "{name: npz, path: bare.npz}")
    )
    before = sorted(tmp_path.iterdir())
    done = latecomer(tmp_path, "run", "tiny.yaml")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("latecomer: ")
    assert done.stderr.count("\n") == 1
    assert "bare.npz" in done.stderr
    assert sorted(tmp_path.iterdir()) == before
