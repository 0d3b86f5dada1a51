"""Examples in docstrings of the package hold; those of reports have a test beside their own."""

import doctest
import re
from importlib import import_module
from pathlib import Path

import pytest

# What trains is run by tests/docs/test_help.py.
EXAMPLE = re.compile(r"^ *>>> (?!.*# doctest: \+SKIP)", re.MULTILINE)
ROOT = Path(__file__).resolve().parent.parent
MODULES = sorted(
    ".".join(("latecomer", *path.relative_to(ROOT).with_suffix("").parts)).replace(".cli.", ".")
    for folder in ("cli", "bounds", "certify", "models", "eval", "commands")
    for path in (ROOT / folder).rglob("*.py")
    if EXAMPLE.search(path.read_text("utf-8"))
)


@pytest.mark.parametrize("name", MODULES)
def test_examples_of_docstrings_hold(name):
    found = doctest.testmod(import_module(name.removesuffix(".__init__")))
    assert found.attempted
    assert not found.failed
