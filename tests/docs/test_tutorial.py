"""Every command of the tutorial is run, in order, and prints what the page shows below it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "pages" / "tutorial.md").read_text("utf-8")
BLOCK = re.compile(r"^```console\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)


def commands():
    """Yield each command with the output shown below it."""
    for block in BLOCK.findall(PAGE):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, shown = part.partition("\n")
            yield command, shown


def test_installing_is_what_ci_does():
    makes = [command for command, _ in commands() if command.startswith("make ")]
    assert makes == ["make install"]
    whole = (ROOT / ".ci" / "run").read_text("utf-8")
    done = re.findall(r"^ *(?:exec )?make .*$", whole, re.MULTILINE)
    assert {"install", "docs"} <= set(" ".join(done).split())


def test_no_command_hides_elsewhere():
    assert PAGE.count("```") == 2 * len(BLOCK.findall(PAGE))


@pytest.mark.nightly
def test_the_commands_print_what_is_shown(tmp_path, disagreement):
    program = tmp_path / "bin" / "latecomer"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m latecomer "$@"\n')
    program.chmod(0o755)
    work = tmp_path / "work"
    work.mkdir()
    path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
    run = 0
    for command, shown in commands():
        if command.startswith("make ") or command == "export PATH=$PWD/.venv/bin:$PATH":
            continue
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=work,
            env={**os.environ, "PATH": path, "OMP_NUM_THREADS": "1", "COLUMNS": "200"},
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert done.returncode == 0, done.stderr
        printed = done.stdout + done.stderr
        trained = "tiny" in command
        assert disagreement(shown, printed, trained=trained) == "", f"{command}\n{printed}"
        run += 1
    assert run >= 6
