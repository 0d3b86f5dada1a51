"""The examples in the docstrings of the bounds, run under their import names."""

import doctest
import pkgutil
from importlib import import_module

import pytest

import latecomer.bounds

MODULES = sorted(
    module.name for module in pkgutil.walk_packages(latecomer.bounds.__path__, "latecomer.bounds.")
)


@pytest.mark.parametrize("name", MODULES)
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
