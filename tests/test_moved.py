"""Every import path of old works, and warns with the new one."""

import doctest
import sys
import warnings
from importlib import import_module
from pathlib import Path

import pytest

from latecomer import moved as module_of_old_names
from latecomer.moved import MOVED, RENAMED

# The public names of every module, as they were before the layers were divided into wings.
LINES = (Path(__file__).parent / "public_names.txt").read_text("utf-8").splitlines()
OLD = {module: names.split() for module, _, names in (line.partition(": ") for line in LINES)}


def imported(module, names):
    """Import names from a module as if for the first time; return them and what was said."""
    if getattr(getattr(sys.modules.get(module), "__spec__", None), "origin", None) == "moved":
        del sys.modules[module]
    found = {}
    with warnings.catch_warnings(record=True, action="always") as told:
        exec(f"import {module}\nfrom {module} import {', '.join(names)}", found)
    return {name: found[name] for name in names}, told


@pytest.mark.parametrize("module", sorted(OLD))
def test_old_paths_work_or_warn(module):
    found, told = imported(module, OLD[module])
    places = MOVED.get(module.removeprefix("latecomer."), "").split()
    homes = [f"latecomer.{place}" for place in places]
    moved = [home for home in homes if home != module]
    renamed, told = ([w for w in told if (" is now " in str(w.message)) == now] for now in (1, 0))
    old = {f"{home}.{name}" for home in homes or [module] for name in OLD[module]}
    wanted = {f"{name} is now {RENAMED[name]}" for name in old & set(RENAMED)}
    assert {str(warning.message) for warning in renamed} == wanted
    assert {warning.category for warning in renamed} <= {DeprecationWarning}
    assert bool(told) == bool(moved)
    for warning in told:
        assert warning.category is DeprecationWarning
        assert warning.filename == "<string>"
        assert str(warning.message) == f"{module} has moved to {' and '.join(moved)}"
    for name, value in found.items():
        if any(f"{home}.{name}" in RENAMED for home in homes or [module]):
            continue
        lies = [vars(import_module(home)).get(name) is value for home in homes or [module]]
        # What a front door shows on first use it does not hold.
        assert any(lies) or not moved


@pytest.mark.parametrize("old", sorted(RENAMED))
def test_a_name_that_is_another_now_works_and_warns_where_it_is_used(old):
    home, _, name = old.rpartition(".")
    found, (told, *_) = imported(home, [name])
    assert told.filename == "<string>"
    assert str(told.message) == f"{old} is now {RENAMED[old]}"
    new_home, _, new = RENAMED[old].rpartition(".")
    assert found[name] is getattr(import_module(new_home), new)
    assert new in dir(import_module(new_home))
    assert name not in dir(import_module(home))


def test_every_entry_is_a_path_of_old():
    assert {f"latecomer.{old}" for old in MOVED} <= set(OLD)


@pytest.mark.parametrize("module", ["latecomer.eval.splits", "latecomer.eval.metrics"])
def test_names_that_never_were_are_refused(module):
    with pytest.raises(ImportError, match="no_such_name"):
        imported(module, ["no_such_name"])
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        import_module(f"{module}.no_such_module")


def test_examples_of_docstrings_hold():
    found = doctest.testmod(module_of_old_names)
    assert found.attempted
    assert not found.failed
