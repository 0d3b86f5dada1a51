"""Comparing what a page shows with what a program prints."""

import re

import pytest

NUMBER = re.compile(r"[+-]?\d*\.\d+")


def alike(shown, printed):
    """Words must be equal, decimals within .05 and 5%; ``...`` stands for one word or more."""
    if NUMBER.fullmatch(shown.rstrip(",")) and NUMBER.fullmatch(printed.rstrip(",")):
        one, other = float(shown.rstrip(",")), float(printed.rstrip(","))
        return abs(one - other) <= 0.05 + 0.05 * abs(one)
    return shown == printed


def line_agrees(shown, printed):
    if shown[:1] == ["..."]:
        return any(line_agrees(shown[1:], printed[skip:]) for skip in range(1, len(printed) + 1))
    if not shown or not printed:
        return shown == printed
    return alike(shown[0], printed[0]) and line_agrees(shown[1:], printed[1:])


@pytest.fixture
def disagreement():
    """Return a function: the first shown line that no further printed line agrees with, or ''."""

    def first(shown, printed):
        left = iter(printed.splitlines())
        for line in shown.splitlines():
            words = line.split()
            if words in ([], ["..."]):
                continue
            if not any(line_agrees(words, other.split()) for other in left):
                return line
        return ""

    return first
