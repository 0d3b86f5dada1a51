"""Examples in docstrings run under the real import name."""

import doctest
from importlib import import_module
from pathlib import Path

import pytest

import latecomer.models as package

FOLDER = Path(str(package.__file__)).parent
MODULES = sorted(
    ".".join(path.relative_to(FOLDER).with_suffix("").parts) for path in FOLDER.rglob("*.py")
)


@pytest.mark.parametrize("name", [name for name in MODULES if not name.endswith("__init__")])
def test_examples_run(name: str) -> None:
    failed, _ = doctest.testmod(import_module(f"latecomer.models.{name}"))
    assert failed == 0


def test_there_are_examples() -> None:
    found = [import_module(f"latecomer.models.{name}") for name in ("task.task", "task.targets")]
    assert all(doctest.testmod(module).attempted for module in found)
