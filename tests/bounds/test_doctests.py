"""Every calculator has an example in its docstring; tests/test_doctests.py runs them."""

import doctest

import latecomer.bounds


def test_every_calculator_has_an_example() -> None:
    finder = doctest.DocTestFinder(recurse=False)
    bare = [
        entry.name
        for entry in latecomer.bounds.CATALOGUE.values()
        if not any(test.examples for test in finder.find(entry.function, entry.name))
    ]
    assert bare == []
