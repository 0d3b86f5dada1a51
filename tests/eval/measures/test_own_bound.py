"""Bounds of one's own among a study's ``bounds``: refused in one line, or computed and named."""

import math
from html import unescape
from pathlib import Path

import pandas as pd
import pytest
from sketches import Sketcher

from latecomer.errors import InputError
from latecomer.eval.results.rows import load_run
from latecomer.eval.runs.runner import run
from latecomer.eval.settings.study_sections import OwnBound
from latecomer.eval.studies.checking import parse_study
from latecomer.eval.studies.loading import load_study
from latecomer.reports.guarantees.answer import _published
from latecomer.reports.page.page import page_of

EXAMPLE = Path(__file__).resolve().parents[3] / "docs" / "examples" / "own_rule"
MINE = """
from math import log, sqrt

from latecomer.bounds import product
from latecomer.certify.rules.declaration import Rule


def b(losses, delta):
    return sum(losses) / len(losses) + sqrt(log(1 / delta) / (2 * len(losses)))


def low(losses, delta):
    return min(losses)


def alone(losses):
    return 1.0


def nan(losses, delta):
    return float("nan")


def failing(losses, delta):
    raise RuntimeError("no\\nway")


def nothing(losses, delta):
    pass


number = 3
given = Rule(name="given", words="my product", least=15,
             bound=lambda a: product(losses=a.losses, delta=a.level))
"""
STUDY = """
study: own
data: {name: digits}
split: {kind: environment, clients: 40, certify: 12, novel: 10, classes_per_client: 2}
methods: [{name: fedavg, local_lr: 0.02}]
train: {rounds: 1, cohort: 2, local_steps: 1, batch_size: 4}
"""


@pytest.fixture
def study(tmp_path, monkeypatch):
    folder = tmp_path / "studies"
    folder.mkdir()
    (folder / "mine.py").write_text(MINE, "utf-8")
    (folder / "broken.py").write_text("x = undefined", "utf-8")
    (folder / "syntax.py").write_text("def f(:", "utf-8")
    (folder / "study.yaml").write_text(STUDY, "utf-8")
    monkeypatch.chdir(tmp_path)
    return folder / "study.yaml"


def refusal(study, *overrides):
    with pytest.raises(InputError) as caught:
        load_study(study, overrides)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("bound", "says"),
    [
        ("mine.py:low", "simulated samples of 12 clients"),
        ("mine.py:alone", "mine.py:alone must take (losses, delta), got (losses): too many"),
        ("mine.py:nan", "mine.py:nan must return a bound of at least 0, got nan"),
        ("mine.py:failing", "mine.py:failing failed: RuntimeError: no way"),
        ("mine.py:nothing", "mine.py:nothing must return a bound of at least 0, got None"),
        ("mine.py:number", "mine.py has no function or Rule number"),
        ("mine.py:absent", "mine.py has no function or Rule absent"),
        ("absent.py:b", "bound: there is no file absent.py"),
        ("no_such_module:b", "bound: there is no module no_such_module"),
        ("broken.py:b", "broken.py failed: NameError: name 'undefined' is not defined"),
        ("syntax.py:f", "syntax.py failed: SyntaxError: invalid syntax"),
        ("mine.py:", "bound must be a name, file.py:name or module:name, got"),
    ],
)
def test_what_is_no_bound_is_one_line_before_anything_is_trained(study, bound, says):
    told = refusal(study, f'bounds=[pefll_32, "{bound}"]')
    assert told.startswith("bounds.1: bound")
    assert says in told
    of_method = refusal(study, f'methods.0.bounds=["{bound}"]')
    assert of_method.startswith("methods.0.bounds.0: bound")
    assert says in of_method


@pytest.mark.parametrize(
    ("bounds", "says"),
    [
        ("[{name: pefll_32, trust: true}]", "{name: file.py:name, trust: true}, got {'name': 'pef"),
        ("[{name: 'mine.py:b', trust: 1}]", "bounds.0: must be a name, file.py:name, or"),
        ("[{name: 'mine.py:b', delta: .1}]", "bounds.0: must be a name, file.py:name, or"),
        ("[{nam: 'mine.py:b'}]", "bounds.0: must be a name, file.py:name, or"),
        ("['mine.py']", "'pfedhn_eps', 'ben_david' or file.py:name, got 'mine.py'"),
        ("[3]", "bounds.0: must be 'pefll_32'"),
        ("[['mine.py:b']]", "bounds.0: must be 'pefll_32'"),
        ("['mine.py:b', 'mine.py:b']", "bounds: must not repeat an entry"),
        ("[{name: 'mine.py:b'}, {name: 'mine.py:b'}]", "bounds: must not repeat an entry"),
        ("['mine.py:b', {name: 'mine.py:b', trust: true}]", "bounds must not repeat an entry"),
        ("[{name: 'mine.py:alone', trust: true}]", "must take (losses, delta)"),
        ("[{name: 'mine.py:failing', trust: true}]", "failed: RuntimeError: no way"),
    ],
)
def test_an_entry_of_another_kind_is_one_line(study, bounds, says):
    assert says in refusal(study, f"bounds={bounds}")


@pytest.mark.slow
def test_a_bound_needs_clients_held_out(study):
    told = refusal(study, "bounds=['mine.py:b']", "split.certify=0")
    assert "needs held-out clients: split.certify must be above 0" in told
    with pytest.raises(InputError, match=r"mine\.py:given needs 15 clients, got 12"):
        run(load_study(study, ["bounds=['mine.py:given']"]), out=study.parent / "run")


def test_trust_leaves_the_simulation_out_and_a_file_is_part_of_the_cells_name(study):
    bounds = "bounds=[{name: 'mine.py:low', trust: true}, {name: 'mine.py:b', trust: false}]"
    loaded = load_study(study, [bounds])
    place = study.parent / "mine.py"
    assert loaded.bounds == (OwnBound(name=f"{place}:low"), f"{place}:b")
    ids = [cell.id for cell in loaded.cells()]
    assert [cell.id for cell in parse_study(loaded.resolved()).cells()] == ids
    place.write_text(f"{MINE}\n# another", "utf-8")
    assert [cell.id for cell in load_study(study, [bounds]).cells()] != ids
    other = load_study(study, ["methods.0.bounds=['mine.py:b']"])
    assert parse_study(other.resolved()).methods[0].bounds == (f"{place}:b",)


@pytest.mark.slow
def test_the_example_runs_as_it_lies_and_its_page_names_the_bound(tmp_path, here):
    study = load_study(EXAMPLE / "beside.yaml")
    assert run(study, out=tmp_path / "run", executor=here).n_failed == 0
    rows = load_run(tmp_path / "run").rows
    errors = rows[
        (rows.group == "certification") & (rows.metric == "error") & (rows.client != "")
    ].value.astype(float)
    assert len(errors) == 20
    issued = rows[(rows.metric == "certificate") & (rows.term == "")].set_index("bound")
    place = f"{EXAMPLE}/hoeffding.py:bound"
    beside, certificate = issued.loc[place], issued.loc[f"r0:{place}"]
    assert float(beside.value) == pytest.approx(errors.mean() + math.sqrt(math.log(20) / 40))
    assert float(beside.value) == pytest.approx(float(certificate.value))
    assert (beside.rigorous, beside.population, beside.sampling, beside.predictor) == (
        *(False, "unseen-client", "iid", "deterministic"),
    )
    assert "whose proof is its author's: at level 0.1 it failed in at most" in beside.message
    writer = Sketcher()
    page = unescape(page_of(load_run(tmp_path / "run"), writer))
    assert "Bound hoeffding.py:bound" in page
    assert str(EXAMPLE) not in page
    assert "tables/bound-r0-hoeffding-py-bound.csv" in writer.files
    assert "As its author says: with probability at least 95%" in page


def test_an_answer_tells_the_papers_theorems_from_ones_own():
    frame = pd.DataFrame(
        {"shift": "none", "bound": ["pefll_32", "/home/me/mine.py:b"], "value": [2.5, 0.25]}
    )
    assert _published(frame) == (
        "The published theorems give PeFLL, Theorem 3.2 2.5 (vacuous from 100% on)."
        " The study's own formulas give bound mine.py:b 25.0%."
    )
    assert _published(frame[:0]) == ""
