"""Stand-ins for the work of a cell, and the jobs and the executor that do it; load no torch."""

import contextlib
import os
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path

from latecomer.eval.results.rows import Artifact
from latecomer.eval.runs.executor import Report, end
from latecomer.eval.runs.job import Job, attempt
from latecomer.eval.studies.cells import Cell
from latecomer.models.engine.threads import thread_count

LOG = "LATECOMER_TEST_LOG"  # file that every attempt is noted in


@dataclass(frozen=True)
class RoundLog:
    round: int
    loss: float
    reason: str = ""


@dataclass(frozen=True)
class Outcome:
    rows: list
    artifacts: dict = field(default_factory=dict)


def jobs_of(double, names, cells):
    """Return jobs of a double, for methods of these names, below the folder of cells."""
    config = {
        **{"kind": "method", "study": "s", "data": {"name": "digits"}, "seed": 0},
        **{"split": {"kind": "by_class", "seed": 0}, "train": {"rounds": 3}},
    }
    return [
        Job(
            Cell(name, config | {"method": {"name": name, "label": name}}),
            cells / name,
            f"cell_doubles:{double}",
        )
        for name in names
    ]


def carry_out(executor, jobs):
    """Return the reports of an executor."""
    reports = []
    executor.run(jobs, reports.append)
    return reports


def told(reports):
    """Return what became of jobs, in the order in which it was told, without rounds and notes."""
    return [(one.kind, one.job) for one in reports if one.kind not in ("round", "note")]


class Here:
    """An executor in this process, which stops before one of its jobs if told to."""

    def __init__(self, stop_after=None):
        self.stop_after = stop_after

    def run(self, jobs, on_report):
        for number, job in enumerate(jobs):
            if number == self.stop_after:
                raise KeyboardInterrupt
            on_report(Report("start", number))

            def on_round(count, loss, number=number):
                on_report(Report("round", number, round=count, loss=loss))

            def on_note(text, number=number):
                on_report(Report("note", number, message=text))

            on_report(end(number, attempt(job, on_round, on_note)))


def note(config):
    """Note an attempt and return how many there were for this cell."""
    label = config["method"]["label"] if config["method"] else "split"
    line = f"{label} {config['seed']}\n"
    path = Path(os.environ[LOG])
    with path.open("a") as file:
        file.write(line)
    return path.read_text().count(line)


def work(config, on_round, checkpoints=None):
    note(config)
    for count in range(3):
        on_round(RoundLog(count, 1.0 / (count + 1), "" if count else "one by one"))
    seed = config["seed"] or 0
    rows = [
        {"group": "novel", "client": client, "metric": "error", "value": (seed + client) / 7}
        for client in (10, 9, 2)
    ]
    rows.append({"group": "novel", "metric": "certificate", "value": 0.1 + 0.2, "rigorous": True})
    table = [{"bound": "r0:product", "value": 0.1}]
    return Outcome(rows, {"certificates": Artifact(kind="certificates", table=table)})


def slow_work(config, on_round, checkpoints=None):
    outcome = work(config, on_round)
    time.sleep(0.4)
    return outcome


def fedavg_fails(config, on_round, checkpoints=None):
    if config["method"] and config["method"]["name"] == "fedavg":
        raise ArithmeticError("loss is nan\nin round 3")
    return work(config, on_round)


def dies_once(config, on_round, checkpoints=None):
    if note(config) == 1 and config["method"] and config["method"]["name"] == "local":
        os.kill(os.getpid(), signal.SIGKILL)
    return work(config, on_round)


def local_always_dies(config, on_round, checkpoints=None):
    if config["method"] and config["method"]["name"] == "local":
        note(config)
        os.kill(os.getpid(), signal.SIGKILL)
    return work(config, on_round)


def local_always_crashes(config, on_round, checkpoints=None):
    if config["method"]["name"] == "local":
        note(config)
        os.kill(os.getpid(), signal.SIGSEGV)
    return work(config, on_round)


def local_always_leaves(config, on_round, checkpoints=None):
    if config["method"]["name"] == "local":
        os._exit(3)
    return work(config, on_round)


def waits(config, on_round, checkpoints=None):
    note(config)
    on_round(RoundLog(0, 1.0))
    for _ in range(600):
        time.sleep(0.1)
    return Outcome([])


def deaf(config, on_round, checkpoints=None):
    """Be asked to stop where Python drops what is raised, as it does in a finaliser."""
    while True:
        with contextlib.suppress(SystemExit):
            waits(config, on_round)


def waits_once(config, on_round, checkpoints=None):
    if note(config) == 1:
        time.sleep(60)
    return work(config, on_round)


def threads(config, on_round, checkpoints=None):
    return Outcome([{"metric": "error", "value": float(os.environ["OMP_NUM_THREADS"])}])


def client_threads(config, on_round, checkpoints=None):
    return Outcome([{"metric": "error", "value": float(thread_count())}])


def gpu_seen(config, on_round, checkpoints=None):
    time.sleep(0.5)  # so that nobody is done before all have begun
    seen = float(os.environ.get("CUDA_VISIBLE_DEVICES", "-1"))
    return Outcome([{"metric": "error", "value": seen}])


def variables(config, on_round, checkpoints=None):
    names = ("OMP_NUM_THREADS", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_")
    return Outcome([{"metric": "error", "value": float(os.environ[name])} for name in names])


def saves(config, on_round, checkpoints):
    """Train ten rounds of nothing, slowly, in a slot; the rows say what the rounds added up to."""
    import torch

    from latecomer.models.engine.training import Checkpoint
    from latecomer.models.task.state import State

    note(config)
    if config["kind"] == "split":
        return Outcome([])
    slot = checkpoints.slot("train", seed=config["seed"], rounds=10)
    begun = slot.load() or Checkpoint(0, State({"total": torch.zeros(())}))
    total = begun.state.server["total"]
    for count in range(begun.rounds_done, 10):
        time.sleep(float(os.environ.get("LATECOMER_TEST_PAUSE", "0")))
        total = total + count
        on_round(RoundLog(count, 1.0))
        slot.offer(Checkpoint(count + 1, State({"total": total})))
    return Outcome([{"group": "novel", "metric": "error", "value": total.item()}])
