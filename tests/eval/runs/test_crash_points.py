"""A process that ends between any two steps on the disk: the next one ends with the same rows."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent

# Forked from a process that has done the cell once, so that an attempt takes a fraction of a
# second; in a process of its own, which has no threads but this one.
SCRIPT = """
import json, os, shutil, sys
from pathlib import Path

sys.path.insert(0, {here!r})
from test_checkpoints import job_of
from latecomer.eval.runs.cell_directory import is_done
from latecomer.eval.runs.job import carry_out

STEPS = ("replace", "rename", "link", "unlink", "fsync", "mkdir", "rmdir")


def attempt(job, end_before):
    '''Carry the cell out in a process that ends before its step of this number.'''
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    count = 0

    def counted(step):
        def call(*args, **extra):
            nonlocal count
            count += 1
            if count == end_before:
                os._exit(9)
            return step(*args, **extra)

        return call

    for name in STEPS:
        setattr(os, name, counted(getattr(os, name)))
    carry_out(job, lambda count, loss: None)
    os._exit(0)


def lines(job):
    text = (job.folder / "progress.jsonl").read_text().splitlines()
    return [entry["round"] for entry in map(json.loads, text)]


root = Path({root!r})
whole = job_of(root / "whole")
carry_out(whole, lambda count, loss: None)
reference, step, wrong = (whole.folder / "rows.csv").read_bytes(), 0, []
while True:
    step += 1
    job = job_of(root / "cell")
    shutil.rmtree(job.folder, ignore_errors=True)
    code = attempt(job, step)
    if code == 0:
        break
    finished = is_done(job.folder)
    again = attempt(job, -1)
    same = (job.folder / "rows.csv").read_bytes() == reference
    left = sorted(set(os.listdir(job.folder)) - set(os.listdir(whole.folder)))
    if (code, again, same, lines(job)) != (9, 0, True, lines(whole)) or (left and not finished):
        wrong.append((step, code, again, same, lines(job), left))
print(json.dumps({{"steps": step - 1, "wrong": wrong}}))
"""


@pytest.mark.nightly
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_every_step_on_the_disk_may_be_the_last(tmp_path):
    script = SCRIPT.format(here=str(HERE), root=str(tmp_path))
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["wrong"] == []
    assert found["steps"] > 60
