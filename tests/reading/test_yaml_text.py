"""The one reader of YAML, and every door that it stands behind."""

import math
from pathlib import Path

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from latecomer.certify.watching import read_plan
from latecomer.commands.app import app
from latecomer.errors import InputError
from latecomer.eval.datasets import load_dataset
from latecomer.eval.studies.loading import load_study
from latecomer.eval.studies.shipped import assigned, set_key
from latecomer.reading.yaml_text import _Dumper, read_mapping, read_value, write_yaml

# What each plain scalar is by the core schema of YAML 1.2, section 10.3.2.
SCALARS = {
    "05000": 5000,
    "0100": 100,
    "-017": -17,
    "09": 9,
    "0o17": 15,
    "0x1F": 31,
    "1e-1": 0.1,
    "1E+05": 1e5,
    ".5": 0.5,
    "5.": 5.0,
    "+12.5e-1": 1.25,
    "-.inf": -math.inf,
    "true": True,
    "False": False,
    "null": None,
    "~": None,
    "": None,
    "yes": "yes",
    "no": "no",
    "on": "on",
    "Off": "Off",
    "y": "y",
    "1:30": "1:30",
    "190:20:30": "190:20:30",
    "1_000": "1_000",
    "0b11": "0b11",
    "2026-11-26": "2026-11-26",
    "nan": "nan",
    "1e": "1e",
}


def same(one, other):
    return type(one) is type(other) and one == other


@pytest.mark.parametrize(("text", "value"), SCALARS.items())
def test_plain_scalars_mean_the_same_in_files_and_overrides(text, value):
    assert same(read_mapping(f"key: {text}", "here", "")["key"], value)
    assert same(read_mapping(f"key: [{text or '~'}]", "here", "")["key"][0], value)
    assert same(read_value(text, "key"), value)
    raw = {}
    set_key(raw, *assigned(f"key={text}"))
    assert same(raw["key"], value)


def test_leading_zeros_are_no_octal_for_calculators():
    def bound(n):
        asked = ["bound", "maurer", "empirical_risk=.05", "kl=100", f"n_samples={n}", "delta=.05"]
        result = CliRunner().invoke(app, asked)
        assert result.exit_code == 0, result.output
        return result.output.splitlines()[0]

    right = 0.05 + math.sqrt((100 + math.log(2 * math.sqrt(5000) / 0.05)) / 10000)
    assert f"{right:.4f}" == "0.1539"
    assert bound("05000") == bound("5000") == bound("5e3")
    assert "0.1539" in bound("05000") or "0.154" in bound("05000")
    assert bound("0o5000") != bound("05000")


@pytest.mark.parametrize("text", ["1_000", "1:30", "yes", "0b11"])
def test_what_is_no_number_is_refused_by_calculators(text):
    asked = ["bound", "maurer", "empirical_risk=.05", "kl=100", f"n_samples={text}", "delta=.05"]
    result = CliRunner().invoke(app, asked)
    assert result.exit_code == 2
    assert "n_samples" in result.output
    assert text in result.output


def test_a_plan_reads_numbers_as_they_look(tmp_path):
    plan = tmp_path / "plan.yaml"
    plan.write_text("run_length: 0100\ndelta: 5e-2\nalpha: 1e-1\ntrained_on: no\n")
    read = read_plan(plan)
    assert (read.run_length, read.delta, read.alpha, read.trained_on) == (100, 0.05, 0.1, "no")
    plan.write_text("run_length: 1:30\n")
    with pytest.raises(InputError, match="run_length must be a whole number"):
        read_plan(plan)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("set #2.npz", "set #2.npz"),
        ("#2.npz", "#2.npz"),
        ("runs/a: b # c.csv", "runs/a: b # c.csv"),
        ("*.npz", "*.npz"),
        ("C:\\data #1\\x.csv", "C:\\data #1\\x.csv"),
        ("'set #2.npz'", "set #2.npz"),
        ('["a #1.py:Net", 0100]', ["a #1.py:Net", 100]),
        ("{rounds: 05, name: 'x # y'}", {"rounds": 5, "name": "x # y"}),
    ],
)
def test_a_number_sign_in_an_override_is_kept(text, value):
    raw = {}
    set_key(raw, *assigned(f"data.path={text}"))
    assert raw == {"data": {"path": value}}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[1, 2] # seeds", "'# seeds' stands behind it"),
        ("'set' #2.npz", "'#2.npz' stands behind it"),
        ("{rounds: 1, rounds: 2}", "key 'rounds' is given twice"),
        ("[{name: pefll, lr: 1, lr: 2}]", "key 'lr' is given twice"),
        ("[a #1.npz]", "no YAML value"),
        ("{1: 2}", "1 is no key"),
    ],
)
def test_overrides_are_refused_in_one_line(text, told):
    with pytest.raises(InputError, match="train") as caught:
        assigned(f"train={text}")
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


VISIBLE = st.text(st.characters(categories=["L", "N", "P", "S", "Zs"]), max_size=8)
TEXTS = st.one_of(st.sampled_from([*SCALARS, "a #b", "a: b", "<<", "=", "-"]), VISIBLE)
PLAIN = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), TEXTS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.slow
@given(st.dictionaries(TEXTS, PLAIN, max_size=4))
def test_what_is_written_is_read_again(held):
    assert read_mapping(write_yaml(held), "here", "") == held
    in_a_line = yaml.dump([held], Dumper=_Dumper, default_flow_style=True, width=10**6)
    assert read_value(in_a_line, "key") == [held]


def test_a_study_reads_the_file_whose_name_has_a_number_sign(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, count in (("set", 2), ("set #2.npz", 3)):
        with open(name, "wb") as stream:
            np.savez(stream, x=np.zeros((count, 2)), y=np.arange(count), client=np.arange(count))
    Path("mine.yaml").write_text(
        "study: mine\ndata: {name: npz, path: placeholder.npz}\nsplit: {kind: natural}\n"
        "methods: [fedavg]\nseeds: [0]\ntrain: {rounds: 03, cohort: 2}\n"
    )
    study = load_study("mine.yaml", ["data.path=set #2.npz"])
    assert study.train.rounds == 3
    assert len(load_dataset(study.data.model_dump())) == 3


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("delta: 0.05\nthreshold: 0.25\ndelta: 0.5\n", "line 3: not YAML: key 'delta' is"),
        ("delta: 0.05\r\ndelta: 0.05\r\n", "key 'delta' is given twice"),
        ("\ufeffrule: product\n'rule': product\n", "key 'rule' is given twice"),
        ("bets: [0.5\n", "not YAML"),
        ("yes: 1\nrule: product\n", "yes is no setting"),
        ("- delta\n", "a plan names its settings"),
        ("delta: !!python/name:os.system x\n", "not YAML"),
        ("trained_on: set #2\n", "line 1: not YAML: '#2' behind 'set' begins a comment: quote all"),
        ("delta: .1\ntrained_on: a #b\r\n", "line 2: not YAML: '#b' behind 'a' begins a comment"),
        ("trained_on: [a #b\n]\n", "'#b' behind 'a' begins a comment"),
        ("delta:\t0.05\n", "line 1: not YAML: a tab stands here: write blanks"),
        ("\tdelta: 0.05\n", "line 1: not YAML: a tab stands here: write blanks"),
        ("delta: 0.05:\n", "line 1: not YAML: a colon within a value"),
        ("trained_on: a: b\n", "line 1: not YAML: a colon within a value"),
        ("bets: {0,5}\n", "0 is no key; a decimal comma? Write a point"),
        (f"run_length: {'9' * 400}\n", "a whole number has at most 300 digits, got 400"),
        ("delta: .nan\n", "delta must lie strictly between 0 and 1, got delta=nan"),
        ("delta: .inf\n", "delta must lie strictly between 0 and 1, got delta=inf"),
        ("delta: yes\n", "delta must lie strictly between 0 and 1, got delta='yes'"),
        ("threshold: on\n", "threshold must lie in [0, 1], got 'on'"),
        ("delta: 0,05\n", "delta must lie strictly between 0 and 1, got delta='0,05'"),
        ("loss_max: 1e400\n", "loss_max must lie in [1e-300, 1e+300], got inf"),
    ],
)
def test_what_a_plan_would_misread_is_refused(text, told, tmp_path, refusal):
    plan = tmp_path / "plan.yaml"
    plan.write_bytes(text.encode())
    message = refusal(read_plan, plan)
    assert message.startswith(f"{plan}: ")
    assert told in message


@pytest.mark.parametrize("text", ["a # b", "a ## b", "a  #", "a #! b", "a\n# b", "'a' #b"])
def test_comments_in_a_plan_are_comments(text):
    assert read_mapping(f"note: {text}\n", "here", "") == {"note": "a"}
    assert read_mapping("note: a#b\n", "here", "") == {"note": "a#b"}
    assert read_mapping("note: 5 #b\n", "here", "") == {"note": 5}


def study(folder, *overrides):
    (folder / "s.yaml").write_text(
        "study: mine\ndata: {name: npz, path: d.npz}\nsplit: {kind: natural, novel: 2}\n"
        "methods: [fedavg]\nseeds: [0]\ntrain: {rounds: 3, cohort: 2}\n"
    )
    return load_study(folder / "s.yaml", overrides)


@pytest.mark.parametrize(
    ("overrides", "told"),
    [
        (
            ["train.rounds=3", "train.rounds=4"],
            "train.rounds is given twice, last as 'train.rounds=",
        ),
        (["train.rounds=4", "train={rounds: 3}"], "would undo train.rounds=4: give both in one"),
        (["seeds=[0]", "train.rounds=4", "seeds=[1]"], "seeds is given twice"),
        (["methods.00.name=ditto"], "methods is a list, its entries are numbered 0 to 0"),
        (["methods.\u0660.name=ditto"], "methods is a list, its entries are numbered 0 to 0"),
        (["train.rounds=1:30"], "train.rounds: must be a valid integer, got '1:30'"),
        (["train.rounds=.inf"], "train.rounds: must be a valid integer, got inf"),
        (["train.rounds=yes"], "train.rounds: must be a valid integer, got 'yes'"),
        (["train.rounds=3 # x"], "got '3 # x'"),
        (["train.rounds=3:"], "got '3:'"),
        ([f"train.rounds={'9' * 5000}"], "a whole number has at most 300 digits, got 5000"),
        (["split.novel=.nan"], "split.novel: must be a count of at least 0 or a fraction"),
        (["split.novel=on"], "got 'on'"),
        (["seeds=[0,1"], "is no YAML value"),
        (["data={name: npz, name: table}"], "key 'name' is given twice"),
    ],
)
def test_what_an_override_would_misread_is_refused(overrides, told, tmp_path, refusal):
    assert told in refusal(study, tmp_path, *overrides)


def test_overrides_read_numbers_as_they_look(tmp_path):
    read = study(tmp_path, "train={rounds: 3}", "train.rounds=05", "split.query=5e-1", "seeds=[07]")
    assert (read.train.rounds, read.split.query, read.seeds) == (5, 0.5, (7,))


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ("kl=0,5", "kl"),
        ("kl=yes", "kl"),
        ("kl=.nan", "kl"),
        ("kl=1 # x", "kl"),
        ("kl=1:", "kl"),
        ("kl=", "kl must be a number or a list in brackets, got 'kl='"),
        ("kl={a: 1, a: 2}", "kl must be a number or a list in brackets"),
        (f"kl={'9' * 5000}", "kl must be a number or a list in brackets"),
        ("n_samples=5000", "n_samples is given twice"),
    ],
)
def test_what_a_calculator_would_misread_is_refused(asked, told):
    given_ = ["empirical_risk=.05", "n_samples=5000", "delta=.05", asked]
    done = CliRunner().invoke(app, ["bound", "maurer", *given_], prog_name="latecomer")
    assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert told in done.stderr
    assert len(done.stderr) < 400
