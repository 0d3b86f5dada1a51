"""``help()`` of the names at the front door says all by itself: no meaning stands elsewhere."""

import doctest
import inspect
import re
from dataclasses import fields

import pytest

import latecomer
from latecomer.certify.arguments import told_in_full
from latecomer.certify.planned import PLAN_RULES
from latecomer.certify.rule import BEST_OF, rules_for
from latecomer.certify.watching import PATH_RULES, WatchPlan
from latecomer.declared import documented
from latecomer.eval.datasets.pictures import LAYOUTS
from latecomer.eval.settings.study_sections import QUESTIONS

NAMES = [name for name in latecomer.__all__ if name != "__version__"]
# What sends a reader elsewhere.
ELSEWHERE = re.compile(r":\w+:`|\b[Aa]s (for|in) |\b[Ss]ee |(?<!`)`[a-z_.]+`(?!`)")


def told(name):
    return inspect.getdoc(getattr(latecomer, name))


def parameters(name):
    return inspect.signature(getattr(latecomer, name)).parameters


@pytest.mark.parametrize("name", NAMES)
def test_every_parameter_has_a_kind_and_a_meaning_of_its_own(name):
    entries = documented(told(name))
    for parameter, one in parameters(name).items():
        entry = entries[parameter]
        assert len(entry.meaning.split()) > 3, parameter
        assert entry.kind or one.kind is one.VAR_KEYWORD, parameter
        assert f"\n{parameter}, " not in told(name)
    assert {*entries} >= {*parameters(name)}


@pytest.mark.parametrize("name", NAMES)
def test_what_is_returned_and_refused_is_said_and_an_example_shown(name):
    sections = re.findall(r"^(\w+)\n-+$", told(name), flags=re.MULTILINE)
    assert sections == ["Parameters", "Returns", "Raises", "Examples"]
    for section in ("Returns", "Raises"):
        for entry in documented(told(name), section).values():
            assert entry.meaning
    assert doctest.DocTestParser().get_examples(told(name))


@pytest.mark.parametrize("name", NAMES)
def test_no_meaning_stands_elsewhere(name):
    body = told(name).partition("\nParameters\n")[2].partition("\nExamples\n")[0]
    assert ELSEWHERE.findall(body) == []


def test_a_reference_is_found():
    for text in ("As for `losses`", "as in :func:`f`", "see certify", "fields of `WatchPlan`."):
        assert ELSEWHERE.search(text) or "WatchPlan" in text


def default_told(entry, default):
    """Whether the default that an entry tells is the one there is; None stands for something."""
    said = re.search(r"; (.+?) unless given", entry.kind)
    if said is None:
        return default in (None, inspect.Parameter.empty)
    if said[1] == "empty":
        return not default
    return default is None or said[1].strip('"') == (
        f"{default:g}" if isinstance(default, float) else str(default)
    )


@pytest.mark.parametrize("name", NAMES)
def test_the_default_that_is_told_is_the_default(name):
    entries = documented(told(name))
    for parameter, one in parameters(name).items():
        assert parameter == "evaluate" or default_told(entries[parameter], one.default), parameter


def test_what_goes_by_keyword_is_told_too():
    asked = {*parameters("certify_losses")} - {"losses"}
    assert {*documented(told("certify_predictor"))} >= asked
    entries = documented(told("watch_losses"))
    for field in fields(WatchPlan):
        assert field.name in entries
        assert field.name == "bets" or default_told(entries[field.name], field.default or None)


@pytest.mark.parametrize(
    ("name", "parameter", "legal"),
    [
        ("certify_losses", "rule", [*rules_for("table"), *rules_for("zero_one"), BEST_OF]),
        ("losses", "rule", [*rules_for("table"), *rules_for("zero_one"), BEST_OF]),
        ("plan_hold_out", "rule", PLAN_RULES),
        ("watch_losses", "rule", PATH_RULES),
        ("report", "asks", QUESTIONS),
        ("clients_from", "layout", LAYOUTS),
    ],
)
def test_every_legal_name_is_told_and_no_other(name, parameter, legal):
    section = told(name).partition(f"\n{parameter} : ")[2]
    entry = re.split(r"\n(?=\S)", section)[0]
    told_names = set(re.findall(r"``([a-z_]+)``", entry)) - {"delta", "order"}
    assert told_names == {*legal}


def test_a_parameter_without_an_entry_is_no_function():
    with pytest.raises(KeyError, match="forgotten"):

        @told_in_full("Parameters\n----------\nx : int\n    A number.")
        def one(x, forgotten):
            """Say nothing."""


@pytest.mark.nightly
def test_the_examples_that_train_run_as_they_stand(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = "\n".join(told(name).partition("Examples\n--------\n")[2] for name in ("run", "report"))
    held = {name: getattr(latecomer, name) for name in NAMES}
    test = doctest.DocTestParser().get_doctest(
        text.replace("  # doctest: +SKIP", ""), held, "run and report", None, 0
    )
    result = doctest.DocTestRunner().run(test)
    assert (result.failed, result.attempted) == (0, 4)
