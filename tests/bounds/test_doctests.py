"""The examples in the docstrings of bounds and certificates, run under their import names."""

import doctest
import pkgutil
from importlib import import_module
from types import ModuleType

import pytest

import latecomer.bounds
import latecomer.certify


def modules(package: ModuleType) -> list[str]:
    found = pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    return sorted(module.name for module in found)


@pytest.mark.parametrize(
    "name",
    [
        *modules(latecomer.bounds),
        *(pytest.param(name, marks=pytest.mark.slow) for name in modules(latecomer.certify)),
    ],
)
def test_examples(name: str) -> None:
    assert doctest.testmod(import_module(name)).failed == 0


def test_every_calculator_has_an_example() -> None:
    finder = doctest.DocTestFinder(recurse=False)
    bare = [
        entry.name
        for entry in latecomer.bounds.CATALOGUE.values()
        if not any(test.examples for test in finder.find(entry.function, entry.name))
    ]
    assert bare == []
