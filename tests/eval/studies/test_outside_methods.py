"""Methods from outside the package: the example of CONTRIBUTING.md, and what is refused."""

import re
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
import yaml

from latecomer.errors import InputError
from latecomer.eval.results.rows import load_run
from latecomer.eval.runs.runner import run
from latecomer.eval.settings.study_sections import MethodSettings
from latecomer.eval.studies.checking import parse_study
from latecomer.eval.studies.loading import load_study
from latecomer.models import outside
from latecomer.models.engine.hyperparameters import OF_ENTRIES
from latecomer.models.methods import find_method, known_names, make_method

ROOT = Path(__file__).resolve().parents[3]
NAME = "server_step.py:ServerStep"
STUDY = {
    "study": "tiny",
    "data": {"name": "digits"},
    "split": {"kind": "by_class", "clients": 10, "classes_per_client": 2, "novel": 2},
    "methods": ["fedavg", {"name": NAME}, {"name": NAME, "label": "short", "server_lr": 0.5}],
    "train": {"rounds": 2, "cohort": 2, "local_steps": 2, "batch_size": 4},
}


@pytest.fixture
def example(tmp_path):
    """The example, extracted from the page into a file of its own."""
    page = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    (code,) = re.findall(r"^```python\n(.*?)^```$", page, flags=re.MULTILINE | re.DOTALL)
    assert code.count("\n") < 40
    path = tmp_path / "server_step.py"
    path.write_text(code)
    return path


@pytest.fixture
def write(example):
    def written(**changed):
        path = example.parent / "study.yaml"
        path.write_text(yaml.safe_dump(STUDY | changed))
        return path

    return written


def offer(monkeypatch, *pairs):
    entries = [EntryPoint(name, value, outside.GROUP) for name, value in pairs]
    monkeypatch.setattr(outside, "entry_points", lambda group: entries)
    outside.offered.cache_clear()


@pytest.fixture(autouse=True)
def _forget_entry_points():
    yield
    outside.offered.cache_clear()


@pytest.mark.slow
def test_the_example_runs_in_worker_processes(write, tmp_path):
    study = load_study(write())
    assert [method.label for method in study.methods] == ["fedavg", "server_step", "short"]
    result = run(study, out=tmp_path / "run", workers=1)
    assert (result.n_failed, result.n_done) == (0, 4)
    rows = load_run(tmp_path / "run").rows
    total = rows[(rows.metric == "error") & (rows.client == "") & (rows.group == "novel")]
    assert set(total.label) == {"fedavg", "server_step", "short"}
    losses = rows[(rows.metric == "loss") & (rows.group == "seen") & (rows.client == "")]
    by_label = losses.groupby("label").value.first()
    assert by_label["server_step"] == by_label["fedavg"] != by_label["short"]
    assert parse_study(study.resolved()) == study  # what a resumed run reads


def test_a_cell_is_named_after_version_and_source(write, example):
    def ids():
        return [cell.id for cell in load_study(write()).cells()]

    first, again = ids(), ids()
    assert first == again
    example.write_text(example.read_text() + "# changed\n")
    changed = ids()
    assert [a == b for a, b in zip(first, changed, strict=True)] == [True, True, False, False]


def test_by_module_and_by_entry_point(example, monkeypatch):
    monkeypatch.syspath_prepend(str(example.parent))
    by_module = make_method("server_step:ServerStep", server_lr=0.5)
    assert by_module.server_lr == 0.5
    offer(monkeypatch, ("server_step", "server_step:ServerStep"))
    assert find_method("server_step") is type(by_module)
    assert "server_step" in known_names()
    study = parse_study(STUDY | {"methods": ["server_step"]})
    assert study.methods[0].label == "server_step"
    with pytest.raises(InputError, match="did you mean 'server_step'"):
        parse_study(STUDY | {"methods": ["server_stp"]})


def test_hyperparameters_are_checked_as_for_built_in_methods(write):
    for setting, message in (
        ({"server_rl": 1.0}, "server_step has no hyper-parameter 'server_rl'; did you mean"),
        ({"server_lr": 0}, "server_lr must be a number above 0|server_lr must be above 0"),
    ):
        with pytest.raises(InputError, match=message) as caught:
            load_study(write(methods=[{"name": NAME, **setting}]))
        assert str(caught.value).startswith("methods.0: ")


def test_a_word_in_place_of_true_or_false_is_refused(write, example):
    code = example.read_text().replace("    name = ", "    halved: bool = False\n    name = ")
    example.write_text(code)
    with pytest.raises(InputError, match="halved must be true or false, got halved='no'"):
        load_study(write(methods=[{"name": NAME, "halved": "no"}]))
    study = load_study(write(methods=[{"name": NAME, "halved": True}]))
    assert study.methods[0].hyper()["halved"] is True


def test_a_list_that_a_method_changes_stays_as_the_study_says(write, example):
    code = "    layers: tuple = ()\n    name = "
    example.write_text(example.read_text().replace("    name = ", code))
    study = load_study(write(methods=[{"name": NAME, "layers": [1]}]))
    before = [cell.id for cell in study.cells()]
    make_method(study.methods[0].name, **study.methods[0].hyper()).layers.append(2)
    assert [cell.id for cell in study.cells()] == before


MISTAKES = [
    ("absent.module:Mine", "", "methods.0: there is no module absent.module"),
    ("absent.py:Mine", "", "methods.0: there is no file absent.py, looked for from "),
    ("server_step.py:Absent", "", "methods.0: there is no Absent of "),
    ("math:sqrt", "", "math:sqrt is not a subclass of latecomer.models.Method"),
    ("server_step.py:", "", "method must read module:Class or file.py:Class"),
    ("bad.py:Mine", "import nowhere_at_all", "failed: ModuleNotFoundError: No module named"),
    ("bad.py:Mine", "1 / 0", "failed: ZeroDivisionError: division by zero"),
    (
        "bad.py:Mine",
        "from latecomer.models import Method\nclass Mine(Method): pass",
        "must define aggregate, init, local, personalize, start, name, paper, personalization",
    ),
    (
        "bad.py:Mine",
        "from latecomer.models.methods.fedavg import FedAvg\nclass Mine(FedAvg): name = 'mine'",
        "must be decorated with @dataclass",
    ),
    (
        "bad.py:Mine",
        "from dataclasses import dataclass\n"
        "from latecomer.models.methods.fedavg import FedAvg\n"
        "@dataclass(frozen=True, kw_only=True)\n"
        "class Mine(FedAvg):\n    bounds: int = 0\n    name = 'mine'",
        "has a hyper-parameter 'bounds', a name that studies use: rename it",
    ),
    *(
        (
            "bad.py:Mine",
            "from dataclasses import dataclass\n"
            "from latecomer.models.methods.fedavg import FedAvg\n"
            "@dataclass(frozen=True, kw_only=True)\n"
            f"class Mine(FedAvg):\n    name = 'mine'\n    {written}",
            told,
        )
        for written, told in (
            ("name = ''", "bad.py: name must be text, got ''"),
            ("name = 3", "bad.py: name must be text, got 3"),
            ("paper = 2018", "bad.py: paper must be text, got 2018"),
            ("needs_labels = 'no'", "bad.py: needs_labels must be True or False, got 'no'"),
            (
                "name = 'mine'\n    def agregate(self): pass",
                "defines 'agregate', which nothing calls: did you mean 'aggregate'? (names",
            ),
        )
    ),
    (
        "bad.py:FedAvg",
        "from latecomer.models.methods.fedavg import FedAvg",
        "needs a name of its own: 'fedavg' is built in",
    ),
]


@pytest.mark.parametrize(("name", "code", "message"), MISTAKES)
def test_what_is_refused_in_one_line(name, code, message, write, example):
    (example.parent / "bad.py").write_text(code)
    with pytest.raises(InputError, match=re.escape(message)):
        load_study(write(methods=[{"name": name}]))


def test_a_module_that_ends_the_program(tmp_path, monkeypatch):
    (tmp_path / "ends_here.py").write_text("raise SystemExit(3)")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ValueError, match="ends_here ends the program when it is imported"):
        find_method("ends_here:Mine")


def test_two_owners_of_a_name(example, monkeypatch):
    monkeypatch.syspath_prepend(str(example.parent))
    offer(monkeypatch, ("fedavg", "server_step:ServerStep"))
    with pytest.raises(ValueError, match="'fedavg' must be offered once"):
        make_method("fedavg")
    offer(monkeypatch, ("twice", "a:A"), ("twice", "b:B"))
    with pytest.raises(ValueError, match=r"offered once under latecomer\.methods, found: a:A, b:B"):
        make_method("twice")
    offer(monkeypatch, ("other", "server_step:ServerStep"))
    with pytest.raises(ValueError, match="entry point 'other' must offer a method of that name"):
        make_method("other")


def test_unwritten_annotations_do_not_break_a_file(example):
    source = "from __future__ import annotations\n" + example.read_text().partition('"""\n')[2]
    path = example.parent / "later.py"
    path.write_text(source)
    assert make_method(f"{path}:ServerStep", server_lr=2).server_lr == 2


BROKEN = """from dataclasses import dataclass
from latecomer.models.methods.fedavg import FedAvg
@dataclass(frozen=True, kw_only=True)
class Mine(FedAvg):
    name = "mine"
    def {}
"""


@pytest.mark.parametrize(
    ("hook", "message"),
    [
        ("phases(self, task): return 1 / 0", "mine cannot train this target: ZeroDivisionError: "),
        ("start(self, task): pass", "mine cannot train this target: TypeError: Mine.start() takes"),
        (
            "personalize(self, *given, **more): return lambda x: x.flatten(1)",
            "mine cannot train this target: it must serve logits [2, 10], a tensor of floats, got "
            "[2, 64] of torch.float32",
        ),
        *(
            (
                "personalize(self, task, state, support, **more):\n        served = "
                f"FedAvg.personalize(self, task, state, support, **more)\n        return {made}",
                f"mine cannot train this target: it must serve logits [2, 10], {told}",
            )
            for made, told in (
                ("lambda x: served(x).long()", "a tensor of floats, got [2, 10] of torch.int64"),
                ("lambda x: served(x).numpy()", "a tensor of floats, got ndarray"),
            )
        ),
    ],
)
def test_hooks_are_tried_before_anything_is_trained(hook, message, write, example):
    (example.parent / "bad.py").write_text(BROKEN.format(hook))
    with pytest.raises(InputError) as caught:
        run(
            load_study(write(methods=["fedavg", {"name": "bad.py:Mine"}])),
            out=example.parent / "run",
        )
    assert str(caught.value).startswith(f"methods.1: {message}")
    assert not (example.parent / "run").exists()


def test_hyperparameters_have_no_names_of_an_entrys_own():
    assert {"name", *OF_ENTRIES} == {*MethodSettings.model_fields, "needs_training"}
