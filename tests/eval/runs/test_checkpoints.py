"""Checkpoints of cells: going on from them, and from what is left when they are damaged."""

import json
import os
import signal
import time
from dataclasses import fields
from pathlib import Path

import pytest
import torch

from latecomer.errors import InputError
from latecomer.eval.runs import checkpoints as checkpoint_files
from latecomer.eval.runs.cell_directory import Place, Progress, is_done, last_entry
from latecomer.eval.runs.checkpoints import CellCheckpoints
from latecomer.eval.runs.job import Job, carry_out
from latecomer.eval.runs.stopping import (
    STOPPING,
    allow_stop,
    signals_interrupt,
    stop_on_signals,
    stop_waits,
)
from latecomer.eval.studies.checking import parse_study
from latecomer.eval.training.checkpoint_slots import NO_CHECKPOINTS, CheckpointEvery
from latecomer.models.engine.schedule import TrainConfig
from latecomer.models.engine.training import Checkpoint, RoundLog, train
from latecomer.models.methods import METHODS, make_method
from latecomer.models.task.state import State
from latecomer.models.task.task import make_task

ROUNDS = 6
STUDY = {
    "study": "tiny",
    "data": {"name": "digits"},
    "split": {
        "kind": "by_class",
        "clients": 17,
        "classes_per_client": 2,
        "certify": 2,
        "novel": 10,
    },
    "train": {"rounds": ROUNDS, "cohort": 2, "local_steps": 2, "batch_size": 4},
    "model": {"hypernetwork": {"hidden": 1, "width": 12}},
    "bounds": ["pfedhn_eps"],
    "certificates": [{"rule": "product"}],
}
VARIANTS = [
    ("per_fedavg", {"variant": "hessian_free"}),
    ("pefll", {"posterior": "gaussian"}),
    ("odpfl_hn", {"training": "two_phase"}),
]
EVALUATE = "latecomer.eval.protocol:evaluate_cell"


def job_of(folder, method="fedavg", *, every=None, path="serial", **sections):
    settings = dict(method) if isinstance(method, dict) else {"name": method}
    train = STUDY["train"] | {"path": path}
    study = parse_study({**STUDY, "methods": [settings], "train": train, **sections})
    cell = study.cells()[1]
    return Job(cell, Path(folder), EVALUATE, every or CheckpointEvery(rounds=1))


def stop_at(number):
    """End the process, as SIGTERM does, when a round is over."""

    def on_round(count, loss):
        if count == number:
            raise SystemExit(143)

    return on_round


def entries(job):
    return [json.loads(line) for line in (job.folder / "progress.jsonl").read_text().splitlines()]


def without_times(job):
    return [{key: value for key, value in e.items() if key != "seconds"} for e in entries(job)]


def quiet(count, loss):
    pass


QUICK = ("fedavg", "pefll")
ALL = [(name, {}) for name in METHODS] + VARIANTS
# What a cell trains after its rounds is begun anew by a process that goes on, however long it is.
AFTERWARDS = {"novel_steps": 3, "novel_rounds": 2, "finetune_steps": 3, "serving_steps": 3}


@pytest.mark.parametrize(
    ("name", "hyper"),
    [
        pytest.param(name, hyper, marks=() if name in QUICK else pytest.mark.nightly)
        for name, hyper in ALL
    ],
)
def test_a_stopped_cell_ends_with_the_rows_of_one_that_was_not(tmp_path, monkeypatch, name, hyper):
    monkeypatch.setattr(checkpoint_files, "_COPIED_EVERY", 0.0)  # rounds here take no second
    own = {field.name for field in fields(make_method(name, **hyper))}
    short = {key: steps for key, steps in AFTERWARDS.items() if key in own}
    settings = {"name": name, **hyper, **short}
    every = CheckpointEvery()  # nothing but on the way out
    whole = job_of(tmp_path / "whole", settings, every=every)
    parts = job_of(tmp_path / "parts", settings, every=every)
    carry_out(whole, quiet)
    for number in (1, 2, 4):
        with pytest.raises(SystemExit):
            carry_out(parts, stop_at(number))
        assert not is_done(parts.folder)
    told = []
    carry_out(parts, lambda count, loss: told.append(count))
    assert told == [4, 5]  # round 4 was over when the process was asked to end, but not noted
    assert (parts.folder / "rows.csv").read_bytes() == (whole.folder / "rows.csv").read_bytes()
    assert without_times(parts) == without_times(whole)
    assert [entry["round"] for entry in entries(parts)] == list(range(ROUNDS))
    assert sorted(path.name for path in parts.folder.iterdir()) == sorted(
        path.name for path in whole.folder.iterdir()
    )


@pytest.fixture
def files():
    """Make the checkpoints of a directory, as a process that works on it would."""
    opened = []

    def make(folder, *, every=None, cell="c", notes=None, clock=time.monotonic):
        progress = Progress(folder / "progress.jsonl")
        opened.append(progress)
        note = (lambda text: None) if notes is None else notes.append
        every = every or CheckpointEvery(rounds=1)
        return CellCheckpoints(folder, cell, progress, every=every, note=note, clock=clock)

    yield make
    for progress in opened:
        progress.close()


@pytest.fixture(scope="module")
def seen():
    from latecomer.eval.federation.groups import build_federation
    from latecomer.eval.settings.cell import federation_settings

    study = parse_study({**STUDY, "methods": ["local"]})
    return build_federation(federation_settings(study)).seen


@pytest.mark.parametrize("path", ["serial", "vectorised"])
@pytest.mark.parametrize(("name", "hyper"), ALL)
def test_the_state_read_back_trains_on_to_the_same_bits(files, tmp_path, seen, path, name, hyper):
    method = make_method(name, **hyper)
    if path == "vectorised" and (
        method.serial_only or name not in (*QUICK, "local", "pfedhn", "fedrep")
    ):
        pytest.skip("trains serially, or is left to the serial path")
    task = make_task(input_shape=(1, 8, 8), n_classes=10, hypernetwork={"hidden": 1, "width": 12})
    config = TrainConfig(**STUDY["train"])
    about = {"seed": 1, "rounds": ROUNDS}

    def go(slot, stop=None):
        def offer(checkpoint):
            slot.offer(checkpoint)
            if checkpoint.rounds_done == stop:
                raise SystemExit

        resume = slot.load()
        return train(
            method,
            task,
            seen.clients,
            config,
            seed=1,
            path=path,
            resume=resume,
            on_checkpoint=offer,
        )

    whole = go(NO_CHECKPOINTS.slot("train", **about))
    for stop in (1, 3, 4):
        with pytest.raises(SystemExit):
            go(files(tmp_path).slot("train", **about), stop)
    state = go(files(tmp_path).slot("train", **about))
    for one, other in ((state.server, whole.server), (state.clients, whole.clients)):
        assert list(one) == list(other)
        for key, value in one.items():
            assert torch.equal(value, other[key]), key
            assert (value.dtype, value.stride()) == (other[key].dtype, other[key].stride()), key


def state(number):
    return Checkpoint(number, State({"w": torch.full((3,), float(number))}, {}))


def kept(folder):
    return sorted(path.name for path in (folder / "checkpoints").iterdir())


def test_two_checkpoints_are_kept_and_the_newest_is_used(files, tmp_path):
    slot = files(tmp_path).slot("train", seed=0, rounds=9)
    assert slot.load() is None
    for number in (1, 2, 3):
        slot.offer(state(number))
    assert kept(tmp_path) == [
        f"train-0000000{number}.{suffix}" for number in (2, 3) for suffix in ("json", "safetensors")
    ]
    found = files(tmp_path).slot("train", seed=0, rounds=9).load()
    assert (found.rounds_done, found.state.server["w"].tolist()) == (3, [3.0] * 3)
    about = json.loads((tmp_path / "checkpoints/train-00000003.json").read_text())
    assert about["random"] == {
        "generator": "philox",
        "address": ["seed", "stream", "round", "client"],
        "seed": 0,
        "next_round": 3,
    }
    assert (about["selection"], about["torch"], about["device"]) == ({}, torch.__version__, "cpu")


def truncate(path):
    path.write_bytes(path.read_bytes()[:-2])


def flip(path):
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def version(path):
    path.write_text(path.read_text().replace(torch.__version__, "1.0"))


@pytest.mark.parametrize(
    ("suffix", "damage", "said"),
    [
        ("safetensors", truncate, "its tensors are damaged"),
        ("safetensors", flip, "its tensors are damaged"),
        ("safetensors", Path.unlink, "its tensors are gone"),
        ("json", truncate, "cannot be used: "),
        ("json", lambda path: path.write_text("[]"), "cannot be used: "),
        ("json", lambda path: path.write_text("{}"), "cannot be used: 'format'"),
        ("json", version, f"torch is 1.0 there, {torch.__version__} here"),
    ],
)
def test_a_damaged_checkpoint_gives_way_to_the_one_before_it(files, tmp_path, suffix, damage, said):
    slot = files(tmp_path).slot("train", seed=0, rounds=9)
    for number in (1, 2):
        slot.offer(state(number))
    damage(tmp_path / f"checkpoints/train-00000002.{suffix}")
    notes = []
    again = files(tmp_path, notes=notes).slot("train", seed=0, rounds=9)
    assert again.load().rounds_done == 1
    assert len(notes) == 1
    assert "the checkpoint of round 2 cannot be used: " in notes[0]
    assert said in notes[0]
    assert notes[0].endswith("training goes on from round 1")
    again.offer(state(2))
    again.offer(state(3))
    assert files(tmp_path).slot("train", seed=0, rounds=9).load().rounds_done == 3
    assert len(kept(tmp_path)) == 4

    for path in tmp_path.glob("checkpoints/*.safetensors"):
        truncate(path)
    assert files(tmp_path, notes=notes).slot("train", seed=0, rounds=9).load() is None
    assert notes[-1].endswith("training starts anew")


@pytest.mark.parametrize(
    "other", [{"cell": "d"}, {"seed": 1}, {"rounds": 10}, {"device": "cuda:0"}]
)
def test_a_checkpoint_of_another_training_is_not_used(files, tmp_path, other):
    files(tmp_path).slot("train", seed=0, rounds=9).offer(state(1))
    about = {"seed": 0, "rounds": 9, **other}
    notes = []
    slot = files(tmp_path, cell=about.pop("cell", "c"), notes=notes).slot("train", **about)
    assert slot.load() is None
    assert len(notes) == 1


def test_a_cell_may_train_several_models(files, tmp_path):
    cell = files(tmp_path)
    first = cell.slot("base", seed=0, rounds=2)
    first.offer(state(1))
    first.offer(state(2))
    second = cell.slot("fold_1", seed=5, rounds=3)
    second.offer(state(1))
    again = files(tmp_path)
    assert again.slot("base", seed=0, rounds=2).load().rounds_done == 2
    assert again.slot("fold_1", seed=5, rounds=3).load().rounds_done == 1
    with pytest.raises(ValueError, match="slot names consist of"):
        cell.slot("a/b", seed=0, rounds=1)


def test_checkpoints_are_written_when_it_is_time(files, tmp_path):
    now = [0.0]
    every = CheckpointEvery(seconds=60, rounds=None)
    cell = files(tmp_path, every=every, clock=lambda: now[0])
    slot = cell.slot("train", seed=0, rounds=9)
    for number, seconds in ((1, 59), (2, 61), (3, 100), (4, 120), (5, 121), (6, 122)):
        now[0] = float(seconds)
        slot.offer(state(number))
    assert [name for name in kept(tmp_path) if name.endswith("json")] == [
        "train-00000002.json",
        "train-00000005.json",
    ]
    cell.write_last()
    assert "train-00000006.json" in kept(tmp_path)
    slot.offer(state(9))  # the end is always written
    assert "train-00000009.json" in kept(tmp_path)
    before = (tmp_path / "checkpoints/train-00000009.json").stat().st_mtime_ns
    cell.write_last()
    assert (tmp_path / "checkpoints/train-00000009.json").stat().st_mtime_ns == before


class Clock:
    """Rounds of four tenths of a second, which overwrite one another's weights."""

    def __init__(self, files, folder):
        self.files, self.folder = files, folder
        self.now, self.weights = 0.0, torch.zeros(3)
        every = CheckpointEvery(seconds=60)
        self.cell = files(folder, every=every, clock=lambda: self.now)
        self.slot = self.cell.slot("train", seed=0, rounds=99)

    def end(self, number, **about):
        self.now = 0.4 * number
        self.weights.fill_(number)
        self.slot.offer(Checkpoint(number, State({"w": self.weights}, {})), **about)

    def left(self):
        """Write the last round, whose tensors the next has overwritten, and read what is there."""
        self.weights.fill_(-1)
        self.cell.write_last()
        found = self.files(self.folder).slot("train", seed=0, rounds=99).load()
        return found.rounds_done, found.state.server["w"].tolist()


def test_what_is_written_within_a_round_is_a_copy(files, tmp_path):
    rounds = Clock(files, tmp_path)
    for number in range(1, 9):
        rounds.end(number)
    assert rounds.left() == (7, [7.0] * 3), "copied after .4, 1.6 and 2.8 seconds"


@pytest.fixture
def stopped():
    """Ask this process to stop, as a worker is asked."""
    before = {number: signal.getsignal(number) for number in STOPPING}
    stop_on_signals()
    yield lambda: os.kill(os.getpid(), signal.SIGTERM)
    stop_on_signals()
    allow_stop()
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", STOPPING)
def test_what_nohup_ignores_stops_neither_a_worker_nor_a_run(stopped, number):
    signal.signal(number, signal.SIG_IGN)
    stop_on_signals()
    with signals_interrupt():
        os.kill(os.getpid(), number)
        assert not stop_waits()
    assert signal.getsignal(number) == signal.SIG_IGN


def test_a_stop_within_a_short_round_waits_for_its_end(files, tmp_path, stopped):
    rounds = Clock(files, tmp_path)
    rounds.end(1)
    rounds.end(2)
    stopped()
    assert stop_waits()
    with pytest.raises(SystemExit) as ended:
        rounds.end(3)
    assert ended.value.code == 128 + signal.SIGTERM
    assert rounds.left() == (3, [3.0] * 3)
    stopped()  # it is raised once
    allow_stop()


@pytest.mark.parametrize("number", [1, 4, 6])
def test_a_stop_does_not_wait_where_a_copy_is_at_hand(files, tmp_path, stopped, number):
    rounds = Clock(files, tmp_path)
    for earlier in range(1, number + 1):
        rounds.end(earlier, long_ahead=earlier == 6)
    with pytest.raises(SystemExit):
        stopped()
    assert rounds.left() == (number, [number] * 3)


def test_the_frequency_is_checked():
    with pytest.raises(InputError, match="checkpoint rounds must be at least 1, got 0"):
        CheckpointEvery(rounds=0)
    with pytest.raises(InputError, match="checkpoint seconds must be at least 0, got -1"):
        CheckpointEvery(seconds=-1)


def test_a_killed_cell_starts_at_serving_when_its_training_was_over(tmp_path, monkeypatch):
    job = job_of(tmp_path / "cell", every=CheckpointEvery())  # by default, nothing before the end
    monkeypatch.setattr("latecomer.eval.training.setup.score_group", lambda *a, **b: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        carry_out(job, quiet)
    (job.folder / "failed.json").unlink()
    monkeypatch.undo()
    told = []
    carry_out(job, lambda count, loss: told.append(count))
    assert told == []
    assert [entry["round"] for entry in entries(job)] == list(range(ROUNDS))
    assert not (job.folder / "checkpoints").exists()


def test_a_damaged_checkpoint_is_told_of_and_changes_no_number(tmp_path):
    whole, job = job_of(tmp_path / "whole"), job_of(tmp_path / "cell")
    carry_out(whole, quiet)
    with pytest.raises(SystemExit):
        carry_out(job, stop_at(3))
    for path in job.folder.glob("checkpoints/*00003.safetensors"):
        truncate(path)
    notes = []
    carry_out(job, quiet, notes.append)
    assert notes == [
        "the checkpoint of round 3 cannot be used: its tensors are damaged;"
        " training goes on from round 2"
    ]
    assert (job.folder / "rows.csv").read_bytes() == (whole.folder / "rows.csv").read_bytes()
    assert [e["round"] for e in entries(job) if "round" in e] == list(range(ROUNDS))
    assert [e["note"] for e in entries(job) if "note" in e] == notes


def test_progress_goes_on_after_the_checkpoint_and_not_after_a_torn_line(tmp_path):
    path, now = tmp_path / "progress.jsonl", [0.0]
    first = Progress(path, clock=lambda: now[0])
    places = []
    for number in range(3):
        now[0] += 10
        first.log(RoundLog(number, 0.5))
        places.append(first.place())
    assert places[1] == Place(places[1].size, 20.0)
    first.close()
    with path.open("a") as file:
        file.write('{"round": 3, "lo')
    assert last_entry(path)["round"] == 2

    now[0] = 1000.0
    second = Progress(path, clock=lambda: now[0])
    second.keep(places[1])
    now[0] += 5
    second.log(RoundLog(2, 0.5))
    second.close()
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(line["round"], line["seconds"]) for line in lines] == [(0, 10), (1, 20), (2, 25)]

    truncate(path)  # the machine went down before the last line was on the disk
    third = Progress(path, clock=lambda: now[0])
    third.keep(Place(10_000, 25.0))
    third.log(RoundLog(3, 0.5))
    third.close()
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["round"] for line in lines] == [0, 1, 3]
    assert last_entry(tmp_path / "absent") == {}
