"""Programs that make pages, and comparing what a page shows with what a program prints."""

import contextlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
from operator import eq
from pathlib import Path

import pytest

BUILDING = Path(__file__).resolve().parents[2] / "docs" / "building"
EXAMPLES = BUILDING.parent / "examples"
sys.path.append(str(BUILDING))  # as MkDocs has it: the programs import one another

NUMBER = re.compile(r"(?P<number>[+-]?\d*\.\d+)(?P<end>%?[,.;:)]*)")


def alike(shown, printed):
    """Words must be equal, decimals of trained models within .05 and 5%.

    A percentage is the fraction that it says: processors round sums differently, and training goes
    on from there. What is computed from given data is the same everywhere, to the last digit.
    """
    one, other = NUMBER.fullmatch(shown), NUMBER.fullmatch(printed)
    if one is None or other is None or one["end"] != other["end"]:
        return shown == printed
    unit = 100 if "%" in one["end"] else 1
    first, second = (float(found["number"]) / unit for found in (one, other))
    return abs(first - second) <= 0.05 + 0.05 * abs(first)


def line_agrees(shown, printed, same):
    """Say whether words are the same one by one; ``...`` stands for one word or more."""
    if shown[:1] == ["..."]:
        rests = (printed[skip:] for skip in range(1, len(printed) + 1))
        return any(line_agrees(shown[1:], rest, same) for rest in rests)
    if not shown or not printed:
        return shown == printed
    return same(shown[0], printed[0]) and line_agrees(shown[1:], printed[1:], same)


@pytest.fixture
def disagreement():
    """Return a function: the first shown line that no further printed line agrees with, or ''.

    Numbers must be equal as they are written, unless they are said to be of ``trained`` models.
    """

    def first(shown, printed, *, trained=False):
        same = alike if trained else eq
        left = iter(printed.splitlines())
        for line in shown.splitlines():
            words = line.split()
            if words in ([], ["..."]):
                continue
            if not any(line_agrees(words, other.split(), same) for other in left):
                return line
        return ""

    return first


def loaded(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def building():
    """Return a function: a program of ``docs/building`` by its name."""
    return lambda name: loaded(f"building_{name}", BUILDING / f"{name}.py")


@pytest.fixture(scope="session")
def example():
    """Return a function: a program of ``docs/examples`` by its place there."""
    return lambda place: loaded(f"example_{Path(place).stem}", EXAMPLES / place)


@pytest.fixture(scope="session")
def commands():
    """Return a function: each command of a console's blocks with what is shown below it."""

    def balanced(command):
        with contextlib.suppress(ValueError):
            return bool(shlex.split(command))
        return False

    def typed(*consoles):
        for console in consoles:
            for part in re.split(r"^\$ ", console, flags=re.MULTILINE)[1:]:
                lines = part.splitlines()
                # An open quote goes on in the next line.
                ends = range(1, len(lines) + 1)
                length = next(end for end in ends if balanced("\n".join(lines[:end])))
                yield "\n".join(lines[:length]), lines[length:]

    return typed


@pytest.fixture
def shell(tmp_path):
    """Return a function: what a command prints in a folder where ``latecomer`` is this one."""
    program = tmp_path / "bin" / "latecomer"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m latecomer "$@"\n')
    program.chmod(0o755)
    place = tmp_path / "work"
    place.mkdir()
    known = os.environ | {"PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}"}
    known |= {"OMP_NUM_THREADS": "1"}

    def printed(command, *, columns=80, quiet=True):
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=place,
            env=known | {"COLUMNS": str(columns)},
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stderr}"
        assert done.stderr == "" or not quiet, f"{command}\n{done.stderr}"
        return done.stdout + done.stderr

    printed.place = place
    return printed


@pytest.fixture
def chromium():
    """Return a browser."""
    from playwright.sync_api import sync_playwright

    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.fail("this test needs Chromium: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def block():
    """Return a function: the lines of the table between two comments of a page."""

    def lines(page, name):
        text = page.partition(f"<!-- {name} -->")[2].partition(f"<!-- end of {name} -->")[0]
        return [line for line in text.splitlines() if line.startswith("| ")][1:]

    return lines
