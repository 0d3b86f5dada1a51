"""The walk in ARCHITECTURE.md is the way that a number takes through a run."""

import inspect
import re
import sys
from importlib import import_module
from pathlib import Path

import pytest

from latecomer.certify.words import percent
from latecomer.commands.run_display import run_and_report
from latecomer.eval.runs.executor import Report
from latecomer.eval.runs.job import attempt

pytestmark = pytest.mark.slow

PAGE = (Path(__file__).resolve().parent.parent / "ARCHITECTURE.md").read_text("utf-8")
WALK = PAGE.partition("\n## A walk")[2].partition("\n## ")[0]
STEP = re.compile(r"^( *)- `([\w.]+)`: \S", re.MULTILINE)
STEPS = [(len(indent) // 2, name) for indent, name in STEP.findall(WALK)]
SMALL = (
    "methods=[{name: pefll, server_lr: 0.002, local_lr: 0.05}]",
    "train.rounds=2",
    "seeds=[0]",
    "shifts={}",
    "bounds=[]",
    "certificates=[]",
)


def function(name):
    """Import what a step names, or say that the list is out of date."""
    module, _, attribute = f"latecomer.{name}".rpartition(".")
    try:
        return inspect.unwrap(getattr(import_module(module), attribute))
    except (ImportError, AttributeError):
        pytest.fail(f"ARCHITECTURE.md's walk names {name}, which is not there: say where it went")


def above(place):
    """Name the step that a step stands under."""
    depth, _ = STEPS[place]
    return next((name for d, name in reversed(STEPS[:place]) if d == depth - 1), None)


class Here:
    """An executor in this process, where a profile sees the calls."""

    def run(self, jobs, on_report):
        for number, job in enumerate(jobs):
            end = attempt(job, lambda *about: None, lambda text: None)
            on_report(Report(end.kind, number, message=end.message, details=end.details))


class Followed:
    """Hears of calls: within which steps each ran, in which order they returned, with what."""

    def __init__(self, codes):
        self.names = {code: name for name, code in codes.items()}
        self.within = {name: set() for name in codes}
        self.order = []
        self.novel = []

    def __call__(self, frame, event, given):
        name = self.names.get(frame.f_code) if event in ("call", "return") else None
        if name is None:
            return
        if event == "return" and name not in self.order:
            self.order.append(name)
        if event == "return" and name.endswith(".score_group"):
            novel = frame.f_locals["group"].name == "novel"
            self.novel += [score.error for score in given if novel]
        while event == "call" and (frame := frame.f_back) is not None:
            self.within[name].add(self.names.get(frame.f_code))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("walk") / "run"
    heard = Followed({name: function(name).__code__ for _, name in STEPS})
    sys.setprofile(heard)
    try:
        assert run_and_report("quickstart", SMALL, out=folder, executor=Here())
    finally:
        sys.setprofile(None)
    return heard, (folder / "report.html").read_text("utf-8")


def test_the_list_is_short_and_names_functions():
    assert 6 <= len(STEPS) <= 12
    assert len(STEPS) == WALK.count("\n- ") + WALK.count(" - `")
    for _, name in STEPS:
        assert inspect.isfunction(function(name)), name


def test_every_step_runs_within_the_one_it_stands_under(run):
    heard, _ = run
    for place, (depth, name) in enumerate(STEPS):
        assert name in heard.order, f"{name} is not called"
        if depth:
            assert above(place) in heard.within[name], f"{name} does not run within {above(place)}"


def test_steps_side_by_side_return_in_this_order(run):
    heard, _ = run
    for parent in {above(place) for place in range(len(STEPS))}:
        listed = [name for place, (_, name) in enumerate(STEPS) if above(place) == parent]
        assert listed == sorted(listed, key=heard.order.index)


def test_what_was_scored_stands_on_the_page(run):
    heard, page = run
    assert heard.novel
    assert percent(sum(heard.novel) / len(heard.novel)) in page
