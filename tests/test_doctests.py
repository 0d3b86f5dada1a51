import doctest
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
MODULES = sorted(
    ".".join(("latecomer", *path.relative_to(ROOT).with_suffix("").parts)).replace(".cli.", ".")
    for folder in ("cli", "commands", "certify")
    for path in (ROOT / folder).rglob("*.py")
    if ">>>" in path.read_text("utf-8")
)


@pytest.mark.parametrize("name", MODULES)
def test_examples_of_docstrings_hold(name):
    found = doctest.testmod(import_module(name.removesuffix(".__init__")))
    assert found.attempted
    assert not found.failed
