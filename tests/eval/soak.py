"""Runs a study and prints, for every finished cell, what its processes hold.

``soak.py STUDY FOLDER`` prints lines of JSON: process id (0 for this one) to open files and
resident KiB.
"""

import json
import os
import sys
from pathlib import Path

from latecomer.eval.runs.runner import run
from latecomer.eval.studies.loading import load_study


def holdings(pid):
    place = Path("/proc") / pid
    resident = (place / "status").read_text().partition("VmRSS:")[2].split()[0]
    return len(os.listdir(place / "fd")), int(resident)


def workers():
    for task in Path("/proc/self/task").iterdir():
        for pid in (task / "children").read_text().split():
            if b"spawn_main" in (Path("/proc") / pid / "cmdline").read_bytes():
                yield pid


def tell(event):
    if event.kind == "done":
        print(json.dumps({pid: holdings(pid) for pid in ("self", *workers())}), flush=True)


if __name__ == "__main__":
    run(load_study(sys.argv[1]), out=sys.argv[2], workers=2, on_event=tell)
