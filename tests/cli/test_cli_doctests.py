import doctest
from importlib import import_module
from pathlib import Path

import pytest

CLI = Path(__file__).resolve().parent.parent.parent / "cli"
MODULES = sorted(
    ".".join(path.relative_to(CLI).with_suffix("").parts)
    for path in CLI.rglob("*.py")
    if ">>>" in path.read_text("utf-8")
)


@pytest.mark.parametrize("name", MODULES)
def test_examples_of_docstrings_hold(name):
    found = doctest.testmod(import_module(f"latecomer.{name}"))
    assert found.attempted
    assert not found.failed
