"""Two hundred cells in the same processes: neither open files nor memory grow."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

SOAK = Path(__file__).parent / "soak.py"
STUDY = {
    "study": "soak",
    "question": "Does anything pile up?",
    "data": {"name": "digits"},
    "split": {
        "kind": "by_class",
        "clients": 12,
        "classes_per_client": 2,
        "certify": 2,
        "novel": 2,
    },
    "methods": ["fedavg", "per_fedavg", "pefll", "lg_fedavg"],
    "train": {"rounds": 2, "local_steps": 2, "batch_size": 8},
    "certificates": [{"rule": "product"}],
    "seeds": list(range(50)),
}


@pytest.mark.slow
def test_two_hundred_cells_leave_nothing_behind(tmp_path):
    study = tmp_path / "soak.yaml"
    study.write_text(yaml.safe_dump(STUDY))
    done = subprocess.run(
        [sys.executable, SOAK, study, tmp_path / "out"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(told) == 201
    processes = {pid for line in told for pid in line}
    assert len(processes) == 3  # this one's child and two workers, the same from start to end
    print()
    for pid in sorted(processes, reverse=True):
        files, resident = np.array([line[pid] for line in told if pid in line]).T
        print(pid, files[[50, 100, 150, -1]], resident[[10, 50, 100, 150, -1]])
