import doctest
import re
from importlib import import_module
from pathlib import Path

import pytest

# What trains is run by tests/docs/test_help.py.
EXAMPLE = re.compile(r"^ *>>> (?!.*# doctest: \+SKIP)", re.MULTILINE)
EVAL = Path(__file__).resolve().parent.parent.parent / "eval"
MODULES = sorted(
    ".".join(path.relative_to(EVAL).with_suffix("").parts)
    for path in EVAL.rglob("*.py")
    if EXAMPLE.search(path.read_text("utf-8"))
)


@pytest.mark.parametrize("name", MODULES)
def test_examples_of_docstrings_hold(name):
    found = doctest.testmod(import_module(f"latecomer.eval.{name}"))
    assert found.attempted
    assert not found.failed
