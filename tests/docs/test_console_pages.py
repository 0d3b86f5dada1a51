"""Every command of the pages about tables of losses runs, in order, and prints what is shown."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```console\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "commands"), [("arriving", 7), ("losses", 4)])
def test_the_commands_print_what_is_shown(name, commands, tmp_path, disagreement):
    page = (ROOT / "docs" / "pages" / f"{name}.md").read_text("utf-8")
    assert page.count("```") == 2 * len(BLOCK.findall(page))
    program = tmp_path / "bin" / "latecomer"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m latecomer "$@"\n')
    program.chmod(0o755)
    path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
    run = 0
    for block in BLOCK.findall(page):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, shown = part.partition("\n")
            done = subprocess.run(
                ["bash", "-c", command],
                cwd=tmp_path,
                env={**os.environ, "PATH": path},
                capture_output=True,
                text=True,
                check=False,
            )
            assert (done.returncode, done.stderr) == (0, ""), command
            assert disagreement(shown, done.stdout) == "", f"{command}\n{done.stdout}"
            run += command.startswith("latecomer ")
    assert run == commands
