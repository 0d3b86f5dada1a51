"""The page on one's own data: its Python runs as it stands, and so do its study and commands."""

import doctest
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "pages" / "own_data.md").read_text("utf-8")


def blocks(kind):
    return re.findall(rf"^```{kind}\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)


def test_every_block_is_run_by_a_test():
    kinds = ("pycon", "python", "yaml", "console")
    assert PAGE.count("```") == 2 * sum(len(blocks(kind)) for kind in kinds)


@pytest.mark.nightly
def test_python_study_and_commands_run_as_they_stand(tmp_path, monkeypatch, disagreement):
    pytest.importorskip("datasets")
    monkeypatch.chdir(tmp_path)
    (module,) = blocks("python")
    (tmp_path / "mine.py").write_text(module)
    test = doctest.DocTestParser().get_doctest("\n".join(blocks("pycon")), {}, "page", None, 0)
    told = []
    found = doctest.DocTestRunner().run(test, out=told.append)
    assert found.failed == 0, "".join(told)
    assert found.attempted > 35
    (study,) = blocks("yaml")
    (tmp_path / "scans.yaml").write_text(study)
    program = tmp_path / "bin" / "latecomer"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m latecomer "$@"\n')
    program.chmod(0o755)
    path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
    commands = [block.removeprefix("$ ").partition("\n") for block in blocks("console")]
    for command, _, shown in commands:
        done = subprocess.run(
            ["bash", "-c", command],
            env={**os.environ, "PATH": path, "OMP_NUM_THREADS": "1", "COLUMNS": "200"},
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert done.returncode == 0, done.stderr
        assert disagreement(shown, done.stdout, trained=True) == "", done.stdout
    assert len(commands) == 2
