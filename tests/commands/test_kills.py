"""A study killed again and again, and shared by two runs: the rows of one that was left alone."""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

ROUNDS = 60
TRAINED = 7  # cells with rounds: all but the split's
STUDY = f"""
study: kills
data: {{name: digits}}
split: {{kind: by_class, clients: 21, certify: 3, novel: 10, classes_per_client: 2}}
model: {{hypernetwork: {{hidden: 1, width: 20}}}}
methods: [{{name: local, novel_steps: 20}}, fedavg, {{name: fedrep, novel_steps: 20}}, per_fedavg,
  knn_per, pefll, {{name: pefll, posterior: gaussian, label: stochastic}}]
train: {{rounds: {ROUNDS}, cohort: 3, local_steps: 6, batch_size: 8}}
certificates: [{{route: r0, rule: product}}]
"""
KILLS = 20
OUT = "runs/kills"
COMMAND = (
    *(sys.executable, "-m", "latecomer", "run", "kills.yaml", "--workers", "2"),
    *("--checkpoint-rounds", "4", "--retry-failed", "--out"),
)


def start(folder: Path, out: str = OUT) -> "subprocess.Popen[bytes]":
    log = (folder / "output").open("ab")
    with log:
        return subprocess.Popen(
            [*COMMAND, out], cwd=folder, stdout=log, stderr=log, start_new_session=True
        )


def rounds_written(folder: Path) -> int:
    """Count the lines about rounds of all cells."""
    return sum(
        path.read_bytes().count(b'"round"') for path in folder.glob("cells/*/progress.jsonl")
    )


def wait_for(folder: Path, goal: int, parent: "subprocess.Popen[bytes]", seconds: float) -> None:
    """Wait until that many rounds are written, the run ends or the seconds are over."""
    deadline = time.monotonic() + seconds
    while rounds_written(folder) < goal and time.monotonic() < deadline and parent.poll() is None:
        time.sleep(0.005)


def workers_of(parent: "subprocess.Popen[bytes]") -> list[int]:
    found = []
    with contextlib.suppress(OSError):
        for pid in Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text().split():
            with contextlib.suppress(OSError):
                if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    found.append(int(pid))
    return found


@contextlib.contextmanager
def cleaned_up(parents: "list[subprocess.Popen[bytes]]") -> Iterator[None]:
    try:
        yield
    finally:
        for parent in parents:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(parent.pid, signal.SIGKILL)
            parent.wait()


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = tmp_path_factory.mktemp("uninterrupted")
    (folder / "kills.yaml").write_text(STUDY)
    assert start(folder).wait(timeout=600) == 0, (folder / "output").read_text()
    return (folder / OUT / "rows.csv").read_bytes()


def check_cells(folder: Path) -> None:
    """Every cell done, its rounds written down once each, and nothing left lying about."""
    places = [folder / "cells" / name for name in cells(folder)]
    assert len(places) == 8
    for place in places:
        assert (place / "done").is_file()
        lines = (place / "progress.jsonl").read_text().splitlines()
        rounds = [entry["round"] for entry in map(json.loads, lines) if "round" in entry]
        assert rounds == (list(range(ROUNDS)) if rounds else [])
        left = {path.name for path in place.iterdir()}
        files = {"config.json", "progress.jsonl", "rows.csv", "timing.json", "done"}
        assert left <= {*files, "artifacts"}


def cells(folder: Path) -> list[str]:
    found: list[str] = json.loads((folder / "cells.json").read_text())["cells"]
    return found


@pytest.mark.nightly
def test_twenty_kills_change_no_byte(tmp_path: Path, uninterrupted: bytes) -> None:
    (tmp_path / "kills.yaml").write_text(STUDY)
    out, draw = tmp_path / OUT, random.Random(0)
    parents = [start(tmp_path)]
    kills = {"parent": 0, "child": 0}
    with cleaned_up(parents):
        while sum(kills.values()) < KILLS:
            victim = "child" if draw.random() < 0.5 else "parent"
            # Some while starting, most after some rounds; then a moment that no line marks. A quick
            # machine must not be done before the last kill: each has its share of all rounds.
            share = TRAINED * ROUNDS * (sum(kills.values()) + 1) // (KILLS + 1)
            goal = min(rounds_written(out) + draw.choice((0, 1, 3, 6, 10, 15)), share)
            wait_for(out, goal, parents[-1], seconds=60)
            wait_for(out, share, parents[-1], seconds=draw.uniform(0, 0.5))
            if parents[-1].poll() == 1:  # all that is left was killed twice, and failed
                parents.append(start(tmp_path))
                continue
            assert parents[-1].poll() is None, (tmp_path / "output").read_text()
            if victim == "child":
                pids = workers_of(parents[-1])
                if not pids:
                    continue
                with contextlib.suppress(ProcessLookupError):
                    os.kill(draw.choice(pids), signal.SIGKILL)
            else:
                parents[-1].kill()
                parents[-1].wait()
                parents.append(start(tmp_path))
            kills[victim] += 1
        code = parents[-1].wait(timeout=300)
        if code == 1:  # a cell whose process was killed twice stays failed until asked for
            parents.append(start(tmp_path))
            code = parents[-1].wait(timeout=300)
    assert code == 0, (tmp_path / "output").read_text()
    assert min(kills.values()) >= 5
    assert (out / "rows.csv").read_bytes() == uninterrupted
    check_cells(out)


@pytest.mark.nightly
def test_two_runs_at_once_do_every_cell_once(tmp_path: Path, uninterrupted: bytes) -> None:
    (tmp_path / "kills.yaml").write_text(STUDY)
    out = tmp_path / OUT
    parents = [start(tmp_path), start(tmp_path)]
    with cleaned_up(parents):
        codes = [parent.wait(timeout=600) for parent in parents]
    assert codes == [0, 0], (tmp_path / "output").read_text()
    assert (out / "rows.csv").read_bytes() == uninterrupted
    check_cells(out)
    scored = (out / "certification.jsonl").read_text().splitlines()
    assert [json.loads(line)["times"] for line in scored] == list(range(1, 8))
