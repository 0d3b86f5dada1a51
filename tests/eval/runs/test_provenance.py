"""What is written down about where numbers come from."""

import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from latecomer.eval.runs.directory import environment

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(
    ("package", "path", "named"),
    [
        (None, "/somewhere/bin/latecomer", "latecomer"),
        ("latecomer", "/somewhere/cli/__main__.py", "latecomer"),
        ("", "/somewhere/mine.py", "mine.py"),
    ],
)
def test_the_command_is_one_that_can_be_given_again(
    monkeypatch: pytest.MonkeyPatch, package: str | None, path: str, named: str
) -> None:
    main = ModuleType("__main__")
    main.__dict__["__spec__"] = None if package is None else SimpleNamespace(parent=package)
    monkeypatch.setitem(sys.modules, "__main__", main)
    monkeypatch.setattr(sys, "argv", [path, "run", "my study.yaml"])
    assert environment()["command"] == f"{named} run 'my study.yaml'"


def test_a_run_without_a_device_is_the_cpus() -> None:
    assert environment()["device"] == "cpu"


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="no checkout")
def test_a_checkout_names_its_commit() -> None:
    command = ["git", "-C", str(ROOT), "rev-parse", "HEAD"]
    head = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    assert environment()["git_commit"] in (head, f"{head}+changes")
