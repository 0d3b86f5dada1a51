import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from pathlib import Path
from types import SimpleNamespace

import cell_doubles
import pytest
import yaml
from cell_doubles import Here
from PIL import Image

from latecomer.errors import InputError
from latecomer.eval.results.rows import load_run, read_rows
from latecomer.eval.runs import directory, runner, tally
from latecomer.eval.runs.runner import run
from latecomer.eval.studies.checking import parse_study
from latecomer.eval.studies.loading import load_study
from latecomer.files import own_folder, write_changed

NET = """
from math import prod

from torch import nn


def Net(input_shape, n_out):
    return nn.Sequential(nn.Flatten(), nn.Linear(prod(input_shape), n_out))
"""
STUDY = {
    "study": "tiny",
    "question": "Does it run?",
    "data": {"name": "digits"},
    "split": {
        "kind": "by_class",
        "clients": 25,
        "classes_per_client": 2,
        "certify": 5,
        "novel": 10,
    },
    "methods": ["local", "fedavg"],
    "train": {"rounds": 3},
    "certificates": [{"rule": "product"}],
    "seeds": [0, 1],
}


@pytest.fixture
def study():
    return parse_study(STUDY)


def changed(**sections):
    return parse_study({**STUDY, **sections})


def test_run_writes_the_directory_of_the_format(double, study, tmp_path):
    out = tmp_path / "runs" / "tiny"
    events = []
    result = run(study, out=out, on_event=events.append, **double("work"))
    assert (result.n_cells, result.n_done, result.n_failed, result.n_skipped) == (5, 5, 0, 0)
    assert result.path == out
    written = ("cells.json", "certification.jsonl", "env.json", "rows.csv", "study.yaml")
    assert sorted(entry.name for entry in out.iterdir()) == ["cells", *written]
    assert parse_study(yaml.safe_load((out / "study.yaml").read_text())) == study
    record = load_run(out)
    assert [cell.status for cell in record.cells] == ["done"] * 5
    assert {len(cell.id) for cell in record.cells} == {12}
    assert record.cells[0].config["kind"] == "split"
    assert all(cell.timing["seconds"] >= 0 for cell in record.cells)
    assert len(record.rows) == 5 * 4
    assert set(record.rows["status"]) == {"done"}
    assert set(record.rows["dataset"]) == {"digits"}
    assert sorted(record.rows["cell"].unique()) == list(record.rows["cell"].unique())
    assert len(record.artifacts) == 5
    assert {"git_commit", "device", "threads", "platform", "cpu_count"} < set(record.env)
    assert record.env["versions"]["torch"]
    assert [event.kind for event in events] == ["plan", *["start", *["round"] * 3, "done"] * 5]
    assert [event.done for event in events if event.kind == "done"] == [1, 2, 3, 4, 5]
    assert {event.total for event in events} == {5}
    assert (events[-1].label, events[-1].seed, events[-1].rounds) == ("fedavg", 1, 3)


def test_scorings_are_counted_once_per_model(double, study, tmp_path):
    for _ in range(2):
        run(study, out=tmp_path / "out", **double("work"))
    lines = [json.loads(s) for s in (tmp_path / "out/certification.jsonl").read_text().splitlines()]
    assert [line["times"] for line in lines] == [1, 2, 3, 4]
    assert len({line["split"] for line in lines}) == 1
    assert {line["n_clients"] for line in lines} == {5}
    assert {line["systems"] for line in lines} == {1}
    told = [(line["label"], line["seed"]) for line in lines]
    assert told == [("local", 0), ("fedavg", 0), ("local", 1), ("fedavg", 1)]


def test_finished_cells_are_never_run_again(double, study, tmp_path, log):
    out = tmp_path / "out"
    run(study, out=out, **double("work"))
    before = (out / "rows.csv").read_bytes()
    env = (out / "env.json").read_bytes()
    result = run(study, out=out, **double("work"))
    assert (result.n_done, result.n_skipped) == (5, 5)
    assert log.read_text().count("\n") == 5
    assert (out / "rows.csv").read_bytes() == before
    assert (out / "env.json").read_bytes() == env


def test_a_failing_cell_is_a_row_and_is_tried_again_when_asked(double, study, tmp_path):
    out = tmp_path / "out"
    result = run(study, out=out, **double("fedavg_fails"))
    assert (result.n_done, result.n_failed) == (3, 2)
    assert [(f.label, f.seed, f.message) for f in result.failures] == [
        ("fedavg", 0, "ArithmeticError: loss is nan in round 3"),
        ("fedavg", 1, "ArithmeticError: loss is nan in round 3"),
    ]
    failed = read_rows(out / "rows.csv").query("status == 'failed'")
    assert list(failed["label"]) == ["fedavg", "fedavg"]
    assert set(failed["message"]) == {"ArithmeticError: loss is nan in round 3"}
    assert [c.status for c in load_run(out).cells] == ["done", "done", "failed", "done", "failed"]
    scored = (out / "certification.jsonl").read_text().splitlines()
    assert len(scored) == 2

    before = (out / "rows.csv").read_bytes()
    events = []
    again = run(study, out=out, on_event=events.append, **double("work"))
    assert (again.n_done, again.n_failed, again.n_skipped) == (3, 2, 3)
    assert again.failures == result.failures
    assert [(event.kind, event.done, event.failed) for event in events] == [("plan", 5, 2)]
    assert (out / "rows.csv").read_bytes() == before

    result = run(study, out=out, retry_failed=True, **double("work"))
    assert (result.n_done, result.n_failed, result.n_skipped) == (5, 0, 3)
    run(study, out=tmp_path / "clean", **double("work"))
    assert (out / "rows.csv").read_bytes() == (tmp_path / "clean/rows.csv").read_bytes()
    assert not list(out.glob("cells/*/failed.json"))


def test_a_cell_tried_again_with_success_is_read_before_its_run_ends(double, study, tmp_path):
    out = tmp_path / "out"
    run(study, out=out, **double("fedavg_fails"))
    with pytest.raises(KeyboardInterrupt):
        run(study, out=out, retry_failed=True, **double("work", stop_after=1))
    record = load_run(out)
    assert [c.status for c in record.cells] == ["done", "done", "done", "done", "unfinished"]
    told = record.rows.groupby(["label", "seed"])["status"].agg(set)
    assert (told["fedavg", 0], told["fedavg", 1]) == ({"done"}, {"failed"})


def test_a_run_ends_while_another_tries_its_failed_cells_again(double, study, tmp_path):
    out = tmp_path / "out"
    run(study, out=out, **double("fedavg_fails"))
    place = next(path.parent for path in out.glob("cells/*/failed.json"))

    def tried_again(event):
        (place / "failed.json").unlink(missing_ok=True)
        (place / "rows.csv").unlink(missing_ok=True)

    assert run(study, out=out, on_event=tried_again, **double("work")).n_failed == 2
    assert place.name not in set(read_rows(out / "rows.csv")["cell"])
    run(study, out=out, retry_failed=True, **double("work"))
    run(study, out=tmp_path / "clean", **double("work"))
    assert (out / "rows.csv").read_bytes() == (tmp_path / "clean/rows.csv").read_bytes()


def test_a_run_that_another_has_extended_leaves_the_rows_of_both(double, study, tmp_path):
    out, fewer = tmp_path / "out", changed(methods=["local"])

    class Overtaken(Here):
        def run(self, jobs, on_report):
            super().run(jobs, on_report)
            run(study, out=out, extend=True, **double("work"))

    assert run(fewer, out=out, **{**double("work"), "executor": Overtaken()}).n_done == 3
    run(study, out=tmp_path / "alone", **double("work"))
    for name in ("rows.csv", "cells.json", "study.yaml"):
        assert (out / name).read_bytes() == (tmp_path / "alone" / name).read_bytes()


@pytest.mark.parametrize("begun", [False, True])
def test_of_two_runs_that_begin_at_once_the_one_that_adds_is_kept(
    double, study, tmp_path, monkeypatch, begun
):
    """One has looked at the directory, or has just made it; the other adds to it meanwhile."""
    out, fewer = tmp_path / "out", changed(methods=["local"])
    step = "held_in_turn" if begun else "make_new"
    if begun:
        run(fewer, out=out, **double("work"))
        fewer = changed(methods=["local"], question="Worded anew?")
    before = getattr(directory, step)

    def overtaken(*given):
        monkeypatch.undo()
        made = before(*given)
        directory.declare(out, study, study.cells("data"), extend=True)
        return made

    monkeypatch.setattr(directory, step, overtaken)
    with pytest.raises(InputError, match="another study") if begun else nullcontext():
        directory.declare(out, fewer, fewer.cells("data"))
    assert parse_study(yaml.safe_load((out / "study.yaml").read_text())) == study
    assert len(json.loads((out / "cells.json").read_text())["cells"]) == 5


def test_interrupt_says_how_to_continue(double, study, tmp_path, log):
    out = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt, match="stopped with 2 of 5 cells done; the same command"):
        run(study, out=out, **double("work", stop_after=2))
    assert not (out / "rows.csv").exists()
    result = run(study, out=out, **double("work"))
    assert (result.n_done, result.n_skipped) == (5, 2)
    assert log.read_text().count("\n") == 5


def test_a_full_disk_of_who_listens_is_not_that_of_the_run(double, study, tmp_path):
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def listen(event):
        raise full

    with pytest.raises(OSError, match="No space left") as caught:
        run(study, out=tmp_path / "out", on_event=listen, **double("work"))
    assert caught.value is full


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"study": "quickstart"}, "study must be a Study, as load_study returns, got 'quickstart'"),
        ({"out": ""}, "out must not be empty, got ''"),
        ({"out": 3}, "out must be a path, got 3"),
        ({"workers": "2"}, "workers must be an integer of at least 1, got '2'"),
        ({"on_event": 3}, "on_event must be a function, got 3"),
        ({"executor": "slurm"}, "executor must have a method run, got 'slurm'"),
        ({"evaluate": "work"}, "evaluate must read module:function, got 'work'"),
        ({"every": 3}, "every must be a CheckpointEvery, got 3"),
        ({"adopt": "absent"}, "cannot adopt absent: it is no run directory (no study.yaml)"),
    ],
)
def test_arguments_of_another_kind_are_refused_by_name(study, tmp_path, asked, said):
    with pytest.raises(InputError) as caught:
        run(**{"study": study, "out": tmp_path / "out", **asked})
    assert str(caught.value) == said
    assert not (tmp_path / "out").exists()


def test_a_run_clears_away_what_a_killed_one_left(double, study, tmp_path):
    out = tmp_path / "out"
    kill = (
        "import os, signal, sys; from pathlib import Path; from latecomer.files import own_folder\n"
        "with own_folder(Path(sys.argv[1]), '.workers-') as folder:\n"
        "    (folder / 'token').write_text('')\n"
        "    os.kill(os.getpid(), signal.SIGKILL)"
    )
    run(study, out=out, **double("work"))
    subprocess.run([sys.executable, "-c", kill, out], check=False)
    (left,) = out.glob(".workers-*")
    assert (left / "token").is_file()
    (elsewhere := out / ".workers-0123abcd-made").mkdir()
    with own_folder(tmp_path, ".workers-") as alive:
        alive = alive.rename(out / alive.name)
        run(study, out=out, **double("work"))
        assert {*out.glob(".workers-*")} == {alive, elsewhere}


def test_a_directory_with_another_study_is_refused_with_the_difference(double, study, tmp_path):
    out = tmp_path / "out"
    run(study, out=out, **double("work"))
    before = sorted(path.name for path in out.rglob("*"))
    other = changed(train={"rounds": 4}, methods=["local", "pefll"])
    with pytest.raises(InputError) as caught:
        run(other, out=out, **double("work"))
    assert str(caught.value).split("; ") == [
        f"{out} holds another study: use another --out",
        'methods.1.name: "fedavg" there, "pefll" asked for',
        'methods.1.label: "fedavg" there, "pefll" asked for',
        "train.rounds: 3 there, 4 asked for",
    ]
    assert sorted(path.name for path in out.rglob("*")) == before


def test_of_two_studies_that_begin_at_once_the_later_is_refused(
    double, study, tmp_path, monkeypatch
):
    """Both find the folder empty, and prepare; one declares it while the other still prepares."""
    out, prepare = tmp_path / "out", runner._prepare
    there = []

    def overtaken(*given):
        monkeypatch.setattr(runner, "_prepare", prepare)
        run(study, out=out, **double("work"))
        there.append(contents(out))
        return prepare(*given)

    def contents(folder):
        return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    monkeypatch.setattr(runner, "_prepare", overtaken)
    with pytest.raises(InputError, match=r"another study: .*train\.rounds: 3 there, 4 asked"):
        run(changed(train={"rounds": 4}), out=out, adopt=[], **double("work"))
    assert contents(out) == there[0]
    monkeypatch.setattr(runner, "_prepare", overtaken)
    assert run(study, out=out, **double("work")).n_skipped == 5


def test_a_run_that_is_stopped_while_it_adopts_goes_on(double, study, tmp_path, monkeypatch):
    run(study, out=tmp_path / "there", **double("work"))
    done, out = tally.is_done, tmp_path / "out"

    def stopped(jobs, sources, note):
        directory.adopt(jobs[:2], sources, note)
        raise KeyboardInterrupt

    monkeypatch.setattr(tally, "adopt", stopped)
    with pytest.raises(KeyboardInterrupt, match="the same command continues"):
        run(study, out=out, adopt=[tmp_path / "there"], **double("work"))
    assert sum(map(done, (out / "cells").iterdir())) == 2
    monkeypatch.setattr(tally, "adopt", directory.adopt)
    result = run(study, out=out, adopt=[tmp_path / "there"], **double("work"))
    assert (result.n_skipped, result.n_adopted) == (2, 3)


def test_a_study_worded_anew_goes_on_in_its_directory(double, study, tmp_path):
    out = tmp_path / "out"
    run(study, out=out, **double("work"))
    reworded = study.model_copy(
        update={"question": "How well?", "note": "Said otherwise.", "scale": "reduced"}
    )
    again = run(reworded, out=out, **double("work"))
    assert (again.n_skipped, again.n_done) == (5, 5)
    assert "Said otherwise." in (out / "study.yaml").read_text("utf-8")


def test_data_that_moved_are_the_same_data(double, tmp_path):
    """A start where they lie elsewhere trains nothing again, nor does one that adopts."""
    for place in ("here", "there"):
        (tmp_path / place).mkdir()
        for number in range(8):
            Image.new("L", (8, 8), 30 * number).save(tmp_path / place / f"{number}.png")
    listed = [f"{sample % 8}.png,{sample % 4}\n" for sample in range(400)]
    (tmp_path / "samples.csv").write_text("file,label\n" + "".join(listed))

    def placed(root):
        data = {"name": "table", "path": str(tmp_path / "samples.csv"), "image": "file"}
        return changed(data={**data, "root": str(tmp_path / root)})

    out = tmp_path / "out"
    run(placed("here"), out=out, **double("work"))
    shutil.rmtree(tmp_path / "here")
    again = run(placed("there"), out=out, **double("work"))
    assert (again.n_skipped, again.n_done) == (5, 5)
    assert yaml.safe_load((out / "study.yaml").read_text())["data"]["root"].endswith("there")
    other = run(placed("there"), out=tmp_path / "other", adopt=[out], **double("work"))
    assert (other.n_adopted, other.n_done) == (5, 5)

    for number in range(8):
        Image.new("L", (8, 8), 20 * number).save(tmp_path / "there" / f"{number}.png")
    assert run(placed("there"), out=out, **double("work")).n_skipped == 0


def test_files_that_moved_with_their_study_are_the_same_files(double, tmp_path):
    shift = "def darker(x, severity, rng):\n    return x * severity\n"
    written = {
        **STUDY,
        "model": {"target": "net.py:Net"},
        "shifts": {"function": [{"path": "own.py:darker", "label": "dark", "severities": [0.5]}]},
    }
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "own.py").write_text(shift)
    (tmp_path / "here" / "net.py").write_text(NET)
    (tmp_path / "here" / "study.yaml").write_text(yaml.safe_dump(written))
    out = tmp_path / "out"
    run(load_study(tmp_path / "here" / "study.yaml"), out=out, **double("work"))

    (tmp_path / "here").rename(tmp_path / "there")
    moved = tmp_path / "there" / "study.yaml"
    again = run(load_study(moved), out=out, **double("work"))
    assert (again.n_skipped, again.n_done) == (5, 5)
    other = run(load_study(moved), out=tmp_path / "other", adopt=[out], **double("work"))
    assert other.n_adopted == 5

    (tmp_path / "there" / "own.py").write_text(shift.replace("x * severity", "x + severity"))
    assert run(load_study(moved), out=out, **double("work")).n_skipped == 0


def test_other_directories_are_refused_untouched(double, study, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("x")
    with pytest.raises(InputError, match="is no run directory"):
        run(study, out=tmp_path / "mine", **double("work"))
    assert os.listdir(tmp_path / "mine") == ["thesis.tex"]
    with pytest.raises(InputError, match="is a file"):
        run(study, out=tmp_path / "mine" / "thesis.tex", **double("work"))


@pytest.mark.parametrize(
    ("sections", "said"),
    [
        ({"data": {"name": "npz", "path": "absent.npz"}}, "absent.npz"),
        ({"data": {"name": "digitz"}}, "did you mean 'digits'"),
        ({"split": {**STUDY["split"], "classes_per_client": 11}}, "classes_per_client"),
        ({"split": {**STUDY["split"], "clients": 5000}}, "clients"),
        ({"split": {**STUDY["split"], "novel": 19}}, "train.cohort must be at most"),
        (
            {"methods": ["fedrep"], "train": {**STUDY["train"], "local_steps": 1}},
            "train.local_steps must be at least 2 for fedrep, whose .* in turn, got 1",
        ),
        (
            {"methods": ["fedavg", "flux"], "train": {**STUDY["train"], "rounds": 1}},
            "train.rounds must be at least 2 for flux, which trains in 2 phases, .*, got 1",
        ),
        (
            {"methods": ["fedavg", {"name": "fedper", "head_layers": 9}]},
            "methods.1: fedper cannot .*: head_layers must be at most the",
        ),
        ({"model": {"encoder": "cnvnet"}}, "model: encoder must be one of auto, convnet, mlp"),
        ({"model": {"encoder": "mlp"}}, "model: encoder mlp needs vectors; use encoder=convnet"),
        ({"certificates": [{"rule": "product", "folds": 500}]}, "points of the smallest"),
    ],
)
def test_what_cannot_work_leaves_no_trace(double, tmp_path, monkeypatch, sections, said):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=said):
        run(changed(**sections), **double("work"))
    assert not os.listdir(tmp_path)


def test_default_directory_bears_the_name_of_the_study(double, study, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run(study, **double("work")).path == Path("runs/tiny")
    assert (tmp_path / "runs/tiny/rows.csv").is_file()


def test_workers_must_be_positive(double, study, tmp_path):
    with pytest.raises(InputError, match="workers must be an integer of at least 1, got 0"):
        run(study, out=tmp_path / "out", workers=0, **double("work"))


SCRIPT = """
import os, sys
from latecomer.eval.runs.runner import run
from latecomer.eval.studies.loading import load_study
if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname({here!r}))
    run(load_study({study!r}), out={out!r}, workers=2, evaluate="cell_doubles:slow_work")
"""


@pytest.mark.slow
def test_a_killed_run_continues_to_the_same_bytes(double, study, tmp_path):
    (tmp_path / "tiny.yaml").write_text(yaml.safe_dump(STUDY))
    script = tmp_path / "script.py"
    out = tmp_path / "out"
    about = {"here": cell_doubles.__file__, "study": str(tmp_path / "tiny.yaml"), "out": str(out)}
    script.write_text(SCRIPT.format(**about))
    with subprocess.Popen([sys.executable, str(script)]) as parent:
        deadline = time.monotonic() + 60
        while not list(out.glob("cells/*/done")) and time.monotonic() < deadline:
            time.sleep(0.02)
        parent.send_signal(signal.SIGKILL)
    time.sleep(0.3)  # the workers end
    finished = len(list(out.glob("cells/*/done")))
    assert 1 <= finished < 5
    assert not (out / "rows.csv").exists()

    again = run(study, out=out, workers=2, evaluate="cell_doubles:work")
    assert (again.n_skipped, again.n_done) == (finished, 5)
    run(study, out=tmp_path / "whole", **double("work"))
    assert (out / "rows.csv").read_bytes() == (tmp_path / "whole/rows.csv").read_bytes()


def test_runs_that_end_at_once_count_the_models_of_both(tmp_path, monkeypatch):
    monkeypatch.setattr(directory, "is_done", lambda folder: True)
    monkeypatch.setattr(directory, "_systems", lambda job: 1)
    both = threading.Barrier(2, timeout=5)

    def slowly(path, text):
        with suppress(threading.BrokenBarrierError):
            both.wait(0.5)  # until the other has read the file, if it may
        write_changed(path, text)

    monkeypatch.setattr(directory, "write_changed", slowly)
    jobs = [
        SimpleNamespace(
            folder=tmp_path / name,
            cell=SimpleNamespace(id=name, kind="method", label=name, seed=0, config={}),
        )
        for name in ("first", "second")
    ]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda job: directory.count_scorings(tmp_path, [job], "split", 9), jobs))
    lines = (tmp_path / "certification.jsonl").read_text().splitlines()
    told = [json.loads(line) for line in lines]
    assert {one["cell"] for one in told} == {"first", "second"}
    assert [one["times"] for one in told] == [1, 2]
    assert [path.name for path in tmp_path.iterdir()] == ["certification.jsonl"]


def test_of_runs_that_end_at_once_the_last_to_write_has_read_all_cells(
    double, study, tmp_path, monkeypatch
):
    out = tmp_path / "out"
    run(study, out=out, **double("work"))
    whole, seal = (out / "rows.csv").read_bytes(), next(out.glob("cells/*/done"))
    (out / "rows.csv").unlink()
    held = seal.rename(seal.with_name("held"))
    others = []

    def slowly(path, text):
        """Write after another cell has ended, and another run has merged its rows, if it may."""
        if not others:
            held.rename(seal)
            others.append(threading.Thread(target=directory.merge, args=[out]))
            others[0].start()
            others[0].join(0.3)
        write_changed(path, text)

    monkeypatch.setattr(directory, "write_changed", slowly)
    directory.merge(out)
    others[0].join()
    assert (out / "rows.csv").read_bytes() == whole
