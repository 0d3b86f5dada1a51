"""Commands that train nothing, against importing pandas: ``make bench``."""

import os
import subprocess
import sys
from pathlib import Path

from contest import Finding
from populations import SMALL

REPEATS = 2 if SMALL else 5
LISTS = ("methods", "studies", "bounds", "rules", "shifts", "datasets", "methods fedavg")
RUN = ("run", "quickstart", "train.rounds=3", "seeds=[0]", "--workers", "1", "--out", "run")
MODULE = ("-m", "latecomer")
COMMANDS = {
    **{f"latecomer {line}": (*MODULE, *line.split()) for line in LISTS},
    "latecomer status": (*MODULE, "status", "run"),
    "a finished run given again": (*MODULE, *RUN),
    "report of a quickstart, nothing changed": (*MODULE, "report", "run"),
    "page of a quickstart made anew": ("-c", "import latecomer.reports as r; r.report('run')"),
}


def seconds(folder: Path, *arguments: str) -> float:
    """Return the least processor time of several processes, their children's included."""
    taken = []
    for _ in range(REPEATS):
        before = os.times()
        subprocess.run([sys.executable, *arguments], cwd=folder, check=True, capture_output=True)
        after = os.times()
        taken.append(
            after.children_user
            - before.children_user
            + after.children_system
            - before.children_system
        )
    return min(taken)


def test_commands_that_train_nothing(benchmark, judge, tmp_path):
    """Lists at most .7 s, a finished run 3 s and a page 5 s, where pandas takes .55 s to import."""
    first = [sys.executable, "-m", "latecomer", *RUN]
    benchmark.pedantic(
        lambda: subprocess.run(first, cwd=tmp_path, check=True, capture_output=True), rounds=1
    )
    reading = seconds(tmp_path, "-c", "import pandas")
    judge(
        *(
            Finding(
                f"{name} / import pandas",
                taken / reading,
                absolute={"cpu_s": taken, "import_pandas_cpu_s": reading},
            )
            for name, command in COMMANDS.items()
            for taken in [seconds(tmp_path, *command)]
        )
    )
