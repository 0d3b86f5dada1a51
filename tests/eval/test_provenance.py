"""What is written down about where numbers come from."""

import sys
from types import ModuleType, SimpleNamespace

import pytest

from latecomer.eval.provenance import environment


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
