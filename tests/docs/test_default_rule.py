"""The page about the default rule holds what its program makes, and what the rule is held to."""

import re

import pytest


@pytest.fixture(scope="module")
def program(building):
    return building("default_rule")


@pytest.fixture(scope="module")
def page(program):
    return program.PAGE.read_text("utf-8")


@pytest.mark.parametrize("place", [4, 5, 17])
def test_samples_that_cost_little_are_computed_anew(program, page, block, place):
    assert block(page, "bank")[place] == program.bank_line(program.BANK[place])


def test_the_page_says_what_its_lines_come_to_and_the_rule_keeps_its_limits(program, page, block):
    lines = block(page, "bank")
    assert len(lines) == len(program.BANK) == 19
    said = program.summary(lines)
    assert said in page
    mean, most, within, over = map(float, re.findall(r"\d?\.\d+", said))
    assert (mean <= 0.010, most <= 0.033, within, over <= 0.003) == (True, True, 0.003, True)


def test_a_kept_run_is_issued_anew_and_the_others_are_there(program, page, block):
    lines = block(page, "kept")
    names = [line.split(" | ")[0].strip("| ") for line in lines]
    assert names == [name for name in (*program.KEPT, *program.INDEPENDENT) for _ in range(3)]
    own = [line for line in lines if line.startswith("| certificates-mnist |")]
    assert own == program.kept_lines("certificates-mnist")
    assert "blend, issued afterwards" in page
    assert "**no certificate**" in page
