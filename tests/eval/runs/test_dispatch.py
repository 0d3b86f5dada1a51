"""The loop that sends cells elsewhere, with a cluster that does as it is told."""

import json
import os
import socket
import sys
from dataclasses import replace

import pytest

from latecomer.errors import InputError
from latecomer.eval.runs.elsewhere import (
    Board,
    Errand,
    Lost,
    NoRoom,
    Refusal,
    Setting,
    board_in,
    carry_out_elsewhere,
    dispatch,
)
from latecomer.eval.runs.executor import ONE_THREAD, Retries
from latecomer.eval.runs.job import Ending, Job
from latecomer.eval.studies.cells import Cell


class Told:
    """A cluster where each attempt at a job ends as it was told to, after some looks."""

    def __init__(self, *endings, room=100, looks=0):
        self.endings = list(endings)
        self.room = room
        self.looks = looks
        self.sent = []
        self.cancelled = []
        self.most = 0

    def send(self, errand):
        out = len(self.sent) - self.over()
        if out >= self.room:
            raise NoRoom("no room at all")
        errand.board.sign(errand.number, errand.attempt, kind="start", host="far", pid="1")
        self.sent.append([errand, self.endings.pop(0), self.looks])
        self.most = max(self.most, out + 1)
        return len(self.sent) - 1

    def over(self):
        return sum(entry[2] < 0 for entry in self.sent)

    def wait(self, handles):
        pass

    def outcome(self, handle):
        entry = self.sent[handle]
        entry[2] -= 1
        return entry[1] if entry[2] < 0 else None

    def cancel(self, handles):
        self.cancelled += handles


FAILED = Ending("failed", "it went wrong", "details")


@pytest.fixture
def jobs(tmp_path):
    return [Job(Cell(name, {}), tmp_path / "cells" / name, "none:none") for name in "abc"]


def kinds(cluster, jobs, at_most=None):
    reports = []
    dispatch(cluster, jobs, reports.append, at_most=at_most, cpus_per_cell=1)
    return [(report.kind, report.job) for report in reports], reports


def test_each_job_is_sent_once_and_its_end_reported(jobs, tmp_path):
    cluster = Told(FAILED, Ending("held"), FAILED)
    found, reports = kinds(cluster, jobs)
    ends = zip(("failed", "held", "failed"), range(3), strict=True)
    assert found == [told for end in ends for told in (("start", end[1]), end)]
    assert reports[1].message == "it went wrong"
    assert reports[1].details == "details"
    assert not list(tmp_path.glob(".workers-*"))


def test_no_more_are_out_than_asked_for(jobs):
    cluster = Told(FAILED, FAILED, FAILED, looks=3)
    kinds(cluster, jobs, at_most=2)
    assert cluster.most == 2


def test_a_lost_job_is_tried_again_once(jobs):
    cluster = Told(Lost("node gone"), FAILED, FAILED, Lost("node gone too"))
    found, reports = kinds(cluster, jobs)
    assert [kind for kind, job in found if job == 0] == ["start", "retry", "start", "failed"]
    assert reports[-1].message == "node gone too; so was its first try"
    assert [entry[0].attempt for entry in cluster.sent] == [1, 1, 1, 2]


def test_a_lost_job_is_tried_as_often_as_its_checkpoints_go_on(jobs):
    folder = jobs[0].folder / "checkpoints"
    folder.mkdir(parents=True)
    retries = Retries(jobs)
    for count in (10, 20, 30):
        (folder / f"model-{count:08d}.json").write_text("{}")
        assert retries.due(0)
    assert not retries.due(0)
    assert retries.due(1)
    assert not retries.due(1)


def test_a_full_queue_is_waited_for(jobs):
    cluster = Told(FAILED, FAILED, FAILED, room=1, looks=2)
    found, _ = kinds(cluster, jobs)
    assert [job for kind, job in found if kind == "failed"] == [0, 1, 2]
    with pytest.raises(InputError, match="no room at all"):
        kinds(Told(room=0), jobs)


def test_a_refusal_ends_the_run_and_what_is_out(jobs, tmp_path):
    cluster = Told(Refusal("the worker on far does not see it"), FAILED, FAILED, looks=0)
    with pytest.raises(InputError, match="the worker on far does not see it"):
        kinds(cluster, jobs)
    assert cluster.cancelled == [1, 2]
    assert not list(tmp_path.glob(".workers-*"))


def test_notes_and_rounds_come_through(jobs):
    class Busy(Told):
        def outcome(self, handle):
            errand = self.sent[handle][0]
            left = self.sent[handle][2]
            folder = errand.job.folder
            folder.mkdir(parents=True, exist_ok=True)
            with (folder / "progress.jsonl").open("a") as file:
                file.write(json.dumps({"round": 3 - left, "loss": 0.5}) + "\n")
            errand.board.sign(0, 1, kind="note", message=f"{left} left")
            return super().outcome(handle)

    _, reports = kinds(Busy(FAILED, looks=2), jobs[:1])
    assert [(r.kind, r.round, r.message) for r in reports] == [
        ("start", None, ""),
        ("note", None, "2 left"),
        ("round", 1, ""),
        ("note", None, "1 left"),
        ("round", 2, ""),
        ("note", None, "0 left"),
        ("round", 3, ""),
        ("failed", None, "it went wrong"),
    ]


def test_rows_that_do_not_show_up_here_end_the_run(jobs, monkeypatch):
    monkeypatch.setattr("latecomer.eval.runs.elsewhere._LATE_CELL", 0.1)
    with pytest.raises(InputError, match=r"finished .* but its rows do not show up here"):
        kinds(Told(Ending("done"), FAILED, FAILED), jobs)


@pytest.fixture
def errand(jobs, tmp_path, monkeypatch):
    for name, value in ONE_THREAD.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "cells").mkdir()
    with board_in(tmp_path) as board:
        yield Errand(0, 1, jobs[0], board, Setting.here())


def refusal(errand, **about):
    """Return why a worker refuses an errand, which differs in some way from one that is right."""
    refused = carry_out_elsewhere(replace(errand, **about))
    assert isinstance(refused, Refusal)
    return refused.message


def test_a_worker_that_sees_another_disk_says_so(errand, tmp_path, monkeypatch):
    monkeypatch.setattr("latecomer.eval.runs.elsewhere._LATE_FILE", 0.0)
    for board in (Board(errand.board.folder, "another token"), Board(tmp_path / "absent", "token")):
        told = refusal(errand, board=board)
        assert f"does not see {tmp_path}: the run directory must lie on a file system" in told


def test_a_worker_with_another_version_says_so(errand):
    here = Setting.here()
    told = refusal(errand, setting=replace(here, versions={**here.versions, "torch": "1.0"}))
    assert "has torch" in told
    assert "the study was started with 1.0" in told


def test_a_worker_with_many_threads_says_so(errand, monkeypatch):
    monkeypatch.setenv("MKL_NUM_THREADS", "8")
    assert "was not started with MKL_NUM_THREADS=1" in refusal(errand)


def test_a_worker_without_the_device_says_so(errand, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    job = replace(errand.job, cell=Cell("a", {"kind": "method", "train": {"device": "cuda"}}))
    told = refusal(errand, job=job)
    assert told.startswith(f"the worker on {socket.gethostname()} cannot compute with train.device")
    assert "=cuda: torch " in told
    assert not job.folder.exists()


def test_a_worker_takes_over_what_is_the_studys(tmp_path, monkeypatch):
    (tmp_path / "far").mkdir()
    monkeypatch.chdir(tmp_path / "far")
    here = Setting.here()
    ours = Setting(str(tmp_path), (str(tmp_path / "own"),), {"LATECOMER_X": "7"}, here.versions)
    monkeypatch.delenv("LATECOMER_X", raising=False)
    before = [*sys.path]
    monkeypatch.setattr(sys, "path", [*before])
    assert ours.adopt() == ""
    assert sys.path == [*before, str(tmp_path / "own")]
    assert os.environ.pop("LATECOMER_X") == "7"
    assert os.getcwd() == str(tmp_path)


def test_what_is_installed_is_not_handed_over():
    assert not [entry for entry in Setting.here().path if "packages" in entry]
