"""Two hundred cells in the same processes: neither open files nor memory grow."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

SOAK = Path(__file__).parents[1] / "soak.py"
STUDY = {
    "study": "soak",
    "question": "Does anything pile up?",
    "data": {"name": "digits"},
    "split": {
        "kind": "by_class",
        "clients": 20,
        "classes_per_client": 2,
        "certify": 2,
        "novel": 10,
    },
    "methods": [
        "fedavg",
        {"name": "per_fedavg", "finetune_steps": 2},
        "pefll",
        {"name": "lg_fedavg", "novel_steps": 2},
    ],
    "train": {"rounds": 2, "local_steps": 2, "batch_size": 8},
    "certificates": [{"rule": "product"}],
    "seeds": list(range(50)),
}
# A fraction of a KiB a cell is what C and Python keep of it; the images of a client are 20.
KIB_PER_CELL = 5


@pytest.mark.nightly
def test_two_hundred_cells_leave_nothing_behind(tmp_path):
    study = tmp_path / "soak.yaml"
    study.write_text(yaml.safe_dump(STUDY))
    done = subprocess.run(
        [sys.executable, SOAK, study, tmp_path / "out"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    told = [json.loads(line) for line in done.stdout.splitlines()]
    # The same processes from start to end: the one that runs the study, and two workers.
    processes = {line["process"] for line in told}
    assert len(processes) == 3
    for process in processes:
        mine = [line for line in told if line["process"] == process]
        # Warm is a process that has seen every method; a log that is being written comes and goes.
        cells, warm = len(mine), len(mine) // 2
        assert cells >= 80
        files = [line["files"] for line in mine]
        assert max(files[warm:]) <= max(files[:warm]) + 1
        held = np.array([line["held"] for line in mine])
        early, late = np.median(held[warm - 10 : warm + 10]), np.median(held[-20:])
        a_cell = (late - early) / (cells - warm - 10)
        print(f"{process}: {cells} cells, {max(files)} files, {a_cell:.2f} KiB kept a cell")
        assert a_cell <= KIB_PER_CELL
