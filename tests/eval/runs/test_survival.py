"""Runs that are disturbed: by each other, by signals, by disks, by files that were damaged."""

import contextlib
import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import cell_doubles
import pytest
import yaml

from latecomer.errors import CannotWriteError, InputError
from latecomer.eval.results.rows import load_run
from latecomer.eval.runs import lock as locks
from latecomer.eval.runs.cell_directory import is_done, run_status
from latecomer.eval.runs.lock import Owner, this_process
from latecomer.eval.runs.runner import run
from latecomer.eval.studies.checking import parse_study

HERE = Path(cell_doubles.__file__).parent
STUDY = {
    "study": "tiny",
    "data": {"name": "digits"},
    "split": {"kind": "by_class", "clients": 20, "classes_per_client": 2, "novel": 5},
    "methods": ["local", "fedavg"],
    "train": {"rounds": 10},
    "seeds": [0, 1],
}


@pytest.fixture
def study():
    return parse_study(STUDY)


def rows(folder):
    return (folder / "rows.csv").read_bytes()


def first_cell(out, label="local", seed=0):
    about = json.loads((out / "cells.json").read_text())["about"]
    return next(
        out / "cells" / i for i, a in about.items() if (a["label"], a["seed"]) == (label, seed)
    )


EVERY_CELL = ["fedavg 0", "fedavg 1", "local 0", "local 1", "split None"]


@pytest.mark.slow
def test_two_runs_in_one_directory_do_every_cell_once(double, study, tmp_path, monkeypatch, log):
    monkeypatch.setenv("LATECOMER_TEST_PAUSE", "0.02")
    out = tmp_path / "out"
    results, events = [], []

    def go():
        results.append(run(study, out=out, on_event=events.append, **double("saves")))

    threads = [threading.Thread(target=go) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(log.read_text().splitlines()) == EVERY_CELL
    assert [result.n_done for result in results] == [5, 5]
    assert [event.kind for event in events if event.kind == "held"]
    run(study, out=tmp_path / "alone", **double("saves"))
    assert rows(out) == rows(tmp_path / "alone")
    assert not list(out.rglob("lock.*"))


@pytest.mark.slow
def test_a_cell_that_another_run_holds_is_waited_for(double, study, tmp_path, monkeypatch, log):
    """It is done by the other here; fails there; or the other falls silent and it is taken over."""
    monkeypatch.setattr(locks, "STALE_AFTER", 0.3)
    monkeypatch.setattr("latecomer.eval.runs.runner._LOOK_EVERY", 0.02)
    run(study, out=tmp_path / "model", **double("saves"))
    out = tmp_path / "out"
    shutil.copytree(tmp_path / "model", out)
    places = [first_cell(out, *name) for name in (("local", 0), ("fedavg", 0), ("local", 1))]
    for number, place in enumerate(places):
        shutil.rmtree(place)
        place.mkdir()
        lock = Owner("ada", "elsewhere", 7 + number, 1, f"t{number}")
        (place / "lock.1").write_bytes(lock.line())
    beats = 0

    def beat(event):
        nonlocal beats
        if event.kind == "held" and event.label == "local" and event.seed == 1:
            threading.Thread(target=others).start()

    def others():
        for number in range(60):
            for owner in (1, 2):
                lock = Owner("ada", "elsewhere", 7 + owner, 1, f"t{owner}", beat=number)
                (places[owner] / "lock.1").write_bytes(lock.line())
            time.sleep(0.02)
        for name in ("rows.csv", "done"):
            shutil.copy(tmp_path / "model/cells" / places[2].name / name, places[2])
        (places[2] / "lock.1").unlink()
        # What ends the waiting comes last: no rows are written into a run that is being merged.
        shutil.copy(tmp_path / "model/cells" / places[1].name / "rows.csv", places[1])
        (places[1] / "failed.json").write_text('{"message": "no luck", "details": ""}')
        (places[1] / "lock.1").unlink()

    log.unlink()
    result = run(study, out=out, on_event=beat, **double("saves"))
    assert [failure.message for failure in result.failures] == ["no luck"]
    assert (result.n_done, result.n_failed) == (4, 1)
    taken_over = sorted(log.read_text().splitlines())
    assert "local 0" in taken_over
    assert "fedavg 0" not in taken_over
    assert "local 1" not in taken_over


def test_finished_cells_of_another_directory_are_adopted(double, study, tmp_path, log):
    source, out = tmp_path / "source", tmp_path / "out"
    smaller = parse_study({**STUDY, "seeds": [0]})
    run(smaller, out=source, **double("saves"))
    (first_cell(source) / "rows.csv").write_text("damaged")
    log.unlink()
    events = []
    result = run(study, out=out, adopt=[source], on_event=events.append, **double("saves"))
    assert (result.n_adopted, result.n_done, result.n_skipped) == (2, 5, 0)
    assert sorted(log.read_text().splitlines()) == ["fedavg 1", "local 0", "local 1"]
    notes = [event.message for event in events if event.kind == "note"]
    assert notes == [f"{first_cell(source)} is damaged and not adopted"]
    origin = json.loads((first_cell(out, "fedavg") / "adopted.json").read_text())
    assert origin["from"] == str(source)
    assert origin["env"]["versions"]["torch"]
    run(study, out=tmp_path / "alone", **double("saves"))
    assert rows(out) == rows(tmp_path / "alone")
    with pytest.raises(InputError, match=r"cannot adopt .*: it is no run directory"):
        run(study, out=out, adopt=[tmp_path], **double("saves"))


def test_packed_cells_are_adopted_and_nothing_else_of_their_archive(double, study, tmp_path):
    source, out, elsewhere = tmp_path / "source", tmp_path / "out", tmp_path / "elsewhere"
    run(study, out=source, **double("saves"))
    elsewhere.write_text("not for you")
    with tarfile.open(source / "cells.tar.xz", "w:xz") as packed:
        packed.add(elsewhere, "cells/../../elsewhere")
        packed.add(elsewhere, "study.yaml")
        packed.add(source / "cells", "cells")
    elsewhere.unlink()
    shutil.rmtree(source / "cells")
    before = rows(source)
    assert run_status(source).count("done") == 5
    assert [cell.status for cell in load_run(source).cells] == ["done"] * 5
    result = run(study, out=out, adopt=[source], **double("saves"))
    assert (result.n_adopted, result.n_skipped) == (5, 0)
    assert rows(out) == before
    assert not elsewhere.exists()
    assert not (source / "cells").exists()
    # The directory itself goes on from its own.
    shutil.copytree(source, tmp_path / "kept")
    assert run(study, out=tmp_path / "kept", **double("saves")).n_adopted == 5
    assert rows(tmp_path / "kept") == before
    whole = (source / "cells.tar.xz").read_bytes()
    (source / "cells.tar.xz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=r"cells.tar.xz is damaged: "):
        run(study, out=tmp_path / "other", adopt=[source], **double("saves"))
    assert not (tmp_path / "other").exists()


@pytest.mark.slow
def test_a_directory_is_extended_by_methods_seeds_and_shifts_only(double, study, tmp_path, log):
    out = tmp_path / "out"
    small = parse_study({**STUDY, "seeds": [1], "methods": ["fedavg"]})
    run(small, out=out, **double("saves"))
    with pytest.raises(InputError, match="use another --out, or --extend to add to this one"):
        run(study, out=out, **double("saves"))
    result = run(study, out=out, extend=True, **double("saves"))
    assert (result.n_skipped, result.n_done) == (2, 5)
    assert sorted(log.read_text().splitlines()) == EVERY_CELL
    run(study, out=tmp_path / "alone", **double("saves"))
    assert rows(out) == rows(tmp_path / "alone")
    for changed in ({"seeds": [0]}, {"methods": ["local"]}, {"train": {"rounds": 11}}):
        with pytest.raises(InputError, match="--extend adds methods, seeds and shifts"):
            run(parse_study({**STUDY, **changed}), out=out, extend=True, **double("saves"))
    blurred = parse_study({**STUDY, "shifts": {"blur": [1.0]}})
    assert run(blurred, out=out, extend=True, **double("saves")).n_skipped == 0


def test_a_corrupt_rows_file_is_made_again(double, study, tmp_path):
    out = tmp_path / "out"
    run(study, out=out, **double("saves"))
    before = rows(out)
    (out / "rows.csv").write_bytes(before[:-20])
    with pytest.raises(InputError, match="is torn: row"):
        load_run(out)
    assert run(study, out=out, **double("saves")).n_skipped == 5
    assert rows(out) == before
    (first_cell(out) / "rows.csv").write_bytes(b"\0\xff")
    events = []
    result = run(study, out=out, on_event=events.append, **double("saves"))
    assert (result.n_skipped, rows(out)) == (4, before)
    assert [event.message for event in events if event.kind == "note"] == [
        "its rows are not those it finished with: it is run anew"
    ]


def test_damaged_lists_are_refused_with_what_to_do(double, study, tmp_path):
    out = tmp_path / "out"
    certified = {**STUDY, "split": {**STUDY["split"], "clients": 30, "certify": 3, "novel": 14}}
    certified |= {"certificates": [{"rule": "product"}]}
    run(parse_study(certified), out=out, **double("saves"))
    (out / "certification.jsonl").write_text('{"split": "')
    with pytest.raises(InputError, match=r"certification.jsonl is damaged, and what it counted"):
        run(parse_study(certified), out=out, **double("saves"))
    (out / "study.yaml").write_text("a: [")
    with pytest.raises(InputError, match=r"study.yaml is damaged: use another --out, with --adopt"):
        run(parse_study(certified), out=out, **double("saves"))
    again = run(parse_study(certified), out=tmp_path / "b", adopt=[out], **double("saves"))
    assert (again.n_adopted, rows(tmp_path / "b")) == (5, rows(out))


def test_what_a_process_left_that_ended_just_after_its_cell_is_removed(double, study, tmp_path):
    out = tmp_path / "out"
    run(study, out=out, **double("saves"))
    place = first_cell(out)
    gone = replace(this_process(), started=1)
    (place / "lock.1").write_bytes(gone.line())
    (place / "checkpoints").mkdir()
    (place / "checkpoints" / "train-00000010.json").write_text("{}")
    assert run(study, out=out, **double("saves")).n_skipped == 5
    assert not list(out.rglob("lock.*"))
    assert not list(out.rglob("checkpoints"))


def test_a_date_that_jumps_changes_nothing(double, study, tmp_path, monkeypatch):
    run(study, out=tmp_path / "alone", **double("saves"))
    now = [1.8e9]

    def jumping():
        now[0] += 1e7 if int(now[0]) % 2 else -3e7 + 1
        return now[0]

    monkeypatch.setattr(time, "time", jumping)
    run(study, out=tmp_path / "out", **double("saves"))
    assert rows(tmp_path / "out") == rows(tmp_path / "alone")
    timings = [cell.timing["seconds"] for cell in load_run(tmp_path / "out").cells]
    assert all(0 <= seconds < 60 for seconds in timings)


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 1 MiB of its own."""
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        pytest.skip(f"nothing can be mounted: {error}")
    if done.returncode:
        pytest.skip(f"nothing can be mounted: {done.stderr.strip()}")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def refused(study, out, double):
    with pytest.raises(CannotWriteError) as caught:
        run(study, out=out, **double("saves"))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def fill(path):
    handle = os.open(path, os.O_CREAT | os.O_WRONLY)
    with contextlib.suppress(OSError):
        while os.write(handle, b"\0" * 512):
            pass
    os.close(handle)
    assert os.statvfs(path).f_bavail == 0


@pytest.mark.parametrize("full", [True, False])
def test_a_disk_that_is_full_or_read_only_halts_the_run_and_costs_nothing(
    double, study, tmp_path, small_disk, full
):
    run(study, out=tmp_path / "alone", **double("saves"))
    out = small_disk / "out"
    with pytest.raises(KeyboardInterrupt):
        run(study, out=out, on_event=stop_after(2), **double("saves"))

    def remount(how):
        subprocess.run(["mount", "-o", f"remount,{how}", str(small_disk)], check=True)

    fill(small_disk / "ballast") if full else remount("ro")
    said = refused(study, out, double)
    assert said.startswith(f"{out} cannot be written (")
    assert ("No space left on device" if full else "Read-only file system") in said
    assert said.endswith(
        "2 of 5 cells are done and safe: put that right and the same command continues"
    )
    (small_disk / "ballast").unlink() if full else remount("rw")
    assert not list(out.rglob("failed.json"))
    assert sum(map(is_done, (out / "cells").iterdir())) == 2
    assert run(study, out=out, **double("saves")).n_skipped == 2
    assert rows(out) == rows(tmp_path / "alone")
    if not full:  # what is finished can be gone through again where nothing can be written
        remount("ro")
        assert run(study, out=out, **double("saves")).n_skipped == 5


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO])
def test_a_disk_that_fails_while_a_cell_ends_is_not_the_cells_fault(
    double, study, tmp_path, monkeypatch, number
):
    from latecomer import files

    real, out = files.os.replace, tmp_path / "out"

    def failing(source, target):
        if Path(target).name == "timing.json" and list(out.rglob("done")):
            raise OSError(number, os.strerror(number), str(source))
        real(source, target)

    monkeypatch.setattr(files.os, "replace", failing)
    said = refused(study, out, double)
    assert os.strerror(number) in said
    assert "1 of 5 cells are done and safe" in said
    monkeypatch.setattr(files.os, "replace", real)
    result = run(study, out=out, **double("saves"))
    assert (result.n_skipped, result.n_done, result.n_failed) == (1, 5, 0)


def stop_after(n_done):
    def hear(event):
        if event.kind == "done" and event.done == n_done:
            raise KeyboardInterrupt

    return hear


def test_status_tells_how_far_a_run_is(double, study, tmp_path, monkeypatch):
    out = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        run(study, out=out, on_event=stop_after(3), **double("saves"))
    stopped, silent = first_cell(out, "local", 1), first_cell(out, "fedavg", 1)
    stopped.mkdir()
    (stopped / "progress.jsonl").write_text('{"round": 4, "loss": 0.5, "seconds": 20.0}\n{"rou')
    silent.mkdir()
    (silent / "lock.1").write_bytes(Owner("ada", "elsewhere", 7, 1, "t").line())
    os.utime(silent / "lock.1", (time.time() - 100, time.time() - 100))
    status = run_status(out)
    assert [(cell.label, cell.seed, cell.state) for cell in status.cells] == [
        ("split", None, "done"),
        ("local", 0, "done"),
        ("fedavg", 0, "done"),
        ("local", 1, "stopped"),
        ("fedavg", 1, "running"),
    ]
    assert (status.cells[3].round, status.cells[3].rounds, status.cells[3].loss) == (5, 10, 0.5)
    assert status.cells[4].message.startswith("process 7 on ada, silent for 1")
    assert status.seconds_left >= 0
    (silent / "lock.1").unlink()
    (silent / "failed.json").write_text('{"message": "no luck"}')
    failed = run_status(out).cells[4]
    assert (failed.state, failed.message) == ("failed", "no luck")
    with pytest.raises(InputError, match="is no run directory"):
        run_status(tmp_path)
    for damaged in ("{", "", "{}", "[1]", '{"cells": 3}'):
        (out / "cells.json").write_text(damaged)
        for read in (run_status, load_run):
            with pytest.raises(InputError, match=r"holds a damaged run: cells\.json"):
                read(out)


def test_time_left_is_estimated_from_rounds_until_a_cell_of_the_method_is_done(
    double, study, tmp_path
):
    out = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        run(study, out=out, on_event=stop_after(1), **double("saves"))
    assert run_status(out).seconds_left is None
    cell = first_cell(out, "local", 0)
    cell.mkdir()
    (cell / "progress.jsonl").write_text('{"round": 4, "loss": 0.5, "seconds": 20.0}\n')
    status = run_status(out)
    assert [found.seconds_left for found in status.cells] == [0.0, 20.0, 40.0, 40.0, 40.0]
    assert status.seconds_left == 140.0


SCRIPT = """
import signal, sys
from latecomer.eval.training.checkpoint_slots import CheckpointEvery
from latecomer.eval.runs.runner import run
from latecomer.eval.studies.loading import load_study
if __name__ == "__main__":
    sys.path.insert(0, {here!r})
    # As a terminal starts it: under nohup, or behind a shell, tests inherit signals ignored.
    asked = signal.Signals({number})
    signal.signal(asked, signal.default_int_handler if asked == signal.SIGINT else signal.SIG_DFL)
    try:
        run(load_study({study!r}), out={out!r}, workers=2, evaluate="cell_doubles:saves",
            every=CheckpointEvery(seconds=1000),
            on_event=lambda event: print(event.kind, event.cell, flush=True))
    except KeyboardInterrupt as stop:
        print(stop, file=sys.stderr)
        sys.exit(130)
"""


def wait_for_a_round_that_is_noted(lines):
    """Read events until a cell is in its third round, and some cell is done: the split's own."""
    told, done = Counter(), 0
    for line in lines:
        kind, _, cell = line.strip().partition(" ")
        done += kind == "done"
        told[cell] += kind == "round"
        if kind == "round" and done and told[cell] >= 2:
            return done
    pytest.fail("the run ended by itself")


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(signal.SIGTERM, marks=pytest.mark.slow),
        *(
            pytest.param(number, marks=pytest.mark.nightly)
            for number in (signal.SIGINT, signal.SIGHUP, signal.SIGUSR1)
        ),
    ],
)
def test_a_run_asked_to_stop_leaves_checkpoints(double, study, tmp_path, monkeypatch, number):
    monkeypatch.setenv("LATECOMER_TEST_PAUSE", "0.3")
    (tmp_path / "tiny.yaml").write_text(yaml.safe_dump(STUDY))
    out, script = tmp_path / "out", tmp_path / "script.py"
    about = {"here": str(HERE), "study": str(tmp_path / "tiny.yaml"), "out": str(out)}
    script.write_text(SCRIPT.format(**about, number=int(number)))
    command = [sys.executable, str(script)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, start_new_session=True, **pipes) as parent:
        done = wait_for_a_round_that_is_noted(parent.stdout)
        os.killpg(parent.pid, number)  # as a terminal or a scheduler does: everyone at once
        printed, said = parent.communicate(timeout=60)
    assert parent.returncode == 130
    done += printed.count("done ")
    assert said.splitlines()[-1] == (
        f"stopped with {done} of 5 cells done; the same command continues in {out}"
    )
    begun = [json.loads(path.read_text())["round"] for path in out.rglob("train-*.json")]
    assert begun
    assert min(begun) >= 1
    assert not list(out.rglob("lock.*"))
    assert not list(out.rglob("*.tmp"))
    monkeypatch.setenv("LATECOMER_TEST_PAUSE", "0")
    run(study, out=out, **double("saves"))
    run(study, out=tmp_path / "alone", **double("saves"))
    assert rows(out) == rows(tmp_path / "alone")


UNGUARDED = """
import sys
sys.path.insert(0, {here!r})
from latecomer.eval.runs.runner import run
from latecomer.eval.studies.loading import load_study
{before}
found = run(load_study({study!r}), out={out!r}, workers=2, evaluate="cell_doubles:work")
print(found.n_done, "done", found.n_failed, "failed")
"""
READ_AGAIN = "cells run in processes of their own, which read the script again"


@pytest.fixture
def unguarded(tmp_path, log):
    """Write a script without a main guard, run it in some way, and say how that ended."""
    (tmp_path / "tiny.yaml").write_text(yaml.safe_dump(STUDY))
    (tmp_path / "data.txt").write_text("once")
    about = {"here": str(HERE), "study": "tiny.yaml", "out": "out"}

    def started(how, before=""):
        text = UNGUARDED.format(**about, before=before)
        (tmp_path / "script.py").write_text(text)
        return subprocess.run(
            [sys.executable, *how],
            cwd=tmp_path,
            input=text if how == ["-"] else "",
            capture_output=True,
            text=True,
            check=False,
        )

    return started


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("how", "before", "says"),
    [
        (["script.py"], "", f"{READ_AGAIN}: put what starts the run below `if __name__ =="),
        (["-m", "script"], "", f"{READ_AGAIN}: put what starts the run below `if __name__ =="),
        (["./script.py"], "import atexit", f"{READ_AGAIN}: put what starts the run below"),
        (["-"], "", f"{READ_AGAIN}, and there is no file <stdin>: put the script into a file, "),
        (
            ["script.py"],
            "import os; os.rename('data.txt', 'moved.txt')",
            "a worker ended with exit code 1 before it took a cell: it reads the script again, so ",
        ),
    ],
)
def test_a_script_without_a_main_guard_begins_no_cell(
    unguarded, double, study, tmp_path, how, before, says
):
    done = unguarded(how, before)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith(f"latecomer.errors.InputError: {says}")
    assert done.stderr.count("InputError: ") == 1
    assert done.stdout == ""
    assert not (tmp_path / "out" / "cells").exists()
    assert not (tmp_path / "log").exists()
    # Nothing is left that stands in the way of the right command.
    tally = run(study, out=tmp_path / "out", **double("work"))
    assert (tally.n_done, tally.n_failed, tally.n_skipped) == (5, 0, 0)
