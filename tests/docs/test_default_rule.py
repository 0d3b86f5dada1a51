"""The page about the default rule holds what its program makes, and what the rule is held to."""

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def program():
    path = ROOT / "docs" / "building" / "default_rule.py"
    spec = importlib.util.spec_from_file_location("building_default_rule", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def page(program):
    return program.PAGE.read_text("utf-8")


def block(page, name):
    text = page.partition(f"<!-- {name} -->")[2].partition(f"<!-- end of {name} -->")[0]
    return [line for line in text.splitlines() if line.startswith("| ")][1:]


@pytest.mark.parametrize("place", [4, 5, 17])
def test_samples_that_cost_little_are_computed_anew(program, page, place):
    assert block(page, "bank")[place] == program.bank_line(program.BANK[place])


def test_the_page_says_what_its_lines_come_to_and_the_rule_keeps_its_limits(program, page):
    lines = block(page, "bank")
    assert len(lines) == len(program.BANK) == 19
    said = program.summary(lines)
    assert said in page
    mean, most, within, over = map(float, re.findall(r"\d?\.\d+", said))
    assert (mean <= 0.010, most <= 0.033, within, over <= 0.003) == (True, True, 0.003, True)


def test_a_kept_run_is_issued_anew_and_the_others_are_there(program, page):
    lines = block(page, "kept")
    names = [line.split(" | ")[0].strip("| ") for line in lines]
    assert names == [name for name in (*program.KEPT, *program.INDEPENDENT) for _ in range(3)]
    own = [line for line in lines if line.startswith("| certificates-mnist |")]
    assert own == program.kept_lines("certificates-mnist")
    assert "blend, issued afterwards" in page
    assert "**no certificate**" in page
