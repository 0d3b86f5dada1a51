"""What the lists say, and that what was counted once is what counting gives."""

import json
import re
from dataclasses import fields

import pytest
from typer.testing import CliRunner

from latecomer.bounds import CATALOGUE
from latecomer.certify.rule import RULES
from latecomer.commands import entries
from latecomer.commands.app import app
from latecomer.commands.listings import (
    COUNTED,
    COUNTED_NEWCOMERS,
    COUNTS,
    counted,
    counted_newcomer,
    methods,
    newcomers,
)
from latecomer.eval.datasets.registry import DATASETS
from latecomer.eval.shifts.transforms import SHIFTS
from latecomer.eval.studies.shipped import shipped_texts
from latecomer.models.engine.hyperparameters import legal
from latecomer.models.methods import METHODS

KEPT = json.loads(COUNTED.read_text("utf-8"))
LISTS = {
    "methods": METHODS,
    "studies": shipped_texts(),
    "bounds": CATALOGUE,
    "rules": RULES,
    "shifts": SHIFTS,
    "datasets": DATASETS,
}
ENTRIES = [(kind, name) for kind, names in LISTS.items() for name in names]


@pytest.fixture(autouse=True)
def own_root(monkeypatch, tmp_path):
    monkeypatch.setenv("LATECOMER_DATA", "data")


def said(*arguments):
    done = CliRunner().invoke(app, list(arguments), prog_name="latecomer")
    assert (done.exit_code, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize("name", sorted(KEPT))
def test_what_a_method_sends_was_counted_by_this_code(name):
    said = counted(name)
    assert KEPT[name] == {place: said[place] for place in COUNTS}, f"put right {COUNTED.name}"


def test_what_a_new_client_gets_was_counted_by_this_code():
    kept = newcomers()
    assert [one["name"] for one in kept] == list(METHODS)
    for one in kept:
        assert one == counted_newcomer(one["name"]), f"put right {COUNTED_NEWCOMERS.name}"


def test_a_method_without_a_line_is_counted(monkeypatch, tmp_path):
    listed = {one["name"]: one for one in methods()}
    assert list(listed)[: len(METHODS)] == list(METHODS)
    fewer = tmp_path / "counted.json"
    fewer.write_text(json.dumps({name: KEPT[name] for name in KEPT if name != "fedper"}))
    monkeypatch.setattr("latecomer.commands.listings.COUNTED", fewer)
    assert methods() == list(listed.values())


def test_what_files_say_is_what_classes_say():
    for one in methods():
        made = METHODS[one["name"]]
        assert one["paper"] == made.paper
        assert one["personalization"] == made.personalization
        assert one["needs_labels"] is made.needs_labels


@pytest.mark.parametrize("name", METHODS)
def test_settings_read_from_files_are_the_dataclass_fields(name):
    read = entries.method(name).settings
    declared = {one.name: one for one in fields(METHODS[name]) if one.metadata}
    assert {one.name for one in read} == set(declared)
    for one in read:
        assert one.default == entries.shown_default(declared[one.name].default)
        assert f"must be {one.legal}" == legal(declared[one.name])
        assert one.meaning, one.name


@pytest.mark.parametrize(("kind", "name"), ENTRIES)
def test_every_entry_of_a_list_is_described(kind, name):
    lines = said(kind, name).splitlines()
    assert lines[0].startswith(f"{name}: ")
    # A single word, an address or a list of numbers, does not wrap.
    assert max(len(line) for line in lines if " " in line.strip() and "https://" not in line) < 80
    found = json.loads(said(kind, name, "--json"))
    assert found["name"] == name
    assert found["says"]
    for one in found["settings"]:
        assert one["legal"] or one["meaning"], one


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_bound_explains_itself_and_each_of_its_arguments(name):
    entry, told = CATALOGUE[name], entries.bound(name)
    assert told.says == entry.claim
    assert told.facts["usage"].startswith(f"latecomer bound {name} ")
    assert bool(told.facts["about"]) == (entry.kind == "certificate")
    assert all(line.isprintable() for line in (told.says, *told.facts.values()))
    for one in told.settings:
        assert one.legal, one
        assert one.meaning[-1:] == ".", one
        told_elsewhere = re.findall(r"\b(?:as for|see) (\w+)", one.meaning, re.IGNORECASE)
        assert not CATALOGUE.keys() & told_elsewhere, one


@pytest.mark.parametrize("kind", LISTS)
def test_lists_fit_and_name_all(kind):
    lines = said(kind).splitlines()
    assert max(map(len, lines)) < 80
    assert {line.split()[0] for line in lines if line.startswith("  ") and line[2] != " "} == set(
        LISTS[kind]
    )


def test_what_to_start_with_comes_first():
    assert said("studies").splitlines()[:2] == ["start here", "  quickstart"]


def test_a_study_is_shown_as_its_file_is():
    assert said("studies", "quickstart", "--long").endswith(
        "\n\n" + shipped_texts()["quickstart"].rstrip() + "\n"
    )


@pytest.mark.slow
def test_examples_of_bounds_are_commands_that_run():
    shown = {name: entries.bound(name).example for name in CATALOGUE}
    assert sum(map(bool, shown.values())) > 65
    for name, line in shown.items():
        if line:
            done = CliRunner().invoke(app, line.split()[1:])
            assert (done.exit_code, done.stderr) == (0, ""), name


def test_a_method_in_a_file_of_ones_own_is_described_too(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(
        '"""One."""\n'
        "from dataclasses import dataclass\n"
        "from latecomer.models.methods.fedavg import FedAvg\n"
        "from latecomer.models.engine.hyperparameters import number\n"
        "@dataclass(frozen=True, kw_only=True)\n"
        "class Mine(FedAvg):\n"
        '    """Mine: a bolder server.\n\n    Attributes\n    ----------\n'
        '    pace : float\n        How bold.\n    """\n'
        "    pace: float = number(1.5, above=0)\n"
        '    name = "mine"\n'
    )
    lines = said("methods", f"{file}:Mine").splitlines()
    assert "Mine: a bolder server." in " ".join(" ".join(lines).split())
    assert "  pace = 1.5   above 0" in lines
    assert "      How bold." in lines


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("methods", "fedvg"), "no method 'fedvg'; did you mean 'fedavg'?; 'latecomer methods'"),
        (("studies", "quikstart"), "no study 'quikstart'; did you mean 'quickstart'?"),
        (("bounds", "mauer"), "no bound 'mauer'; did you mean 'maurer'?"),
        (("rules", "prodct"), "no rule 'prodct'; did you mean 'product'?"),
        (("shifts", "blurr"), "no shift 'blurr'; did you mean 'blur'?"),
        (("datasets", "digit"), "no data set 'digit'; did you mean 'digits'?"),
        (("methods", "nowhere.py:Mine"), "nowhere.py"),
        (("methods", "fedvg", "--newcomers"), "got 'fedvg'; did you mean 'fedavg'?"),
        (("methods", "fedavg", "--newcomers", "--long"), "a table of its own: leave --long out"),
        (("datasets", "--root", "."), "--root says where the files of a data set go: name one"),
    ],
)
def test_what_no_list_can_show_is_one_line(arguments, says):
    done = CliRunner().invoke(app, list(arguments))
    assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert says in done.stderr
