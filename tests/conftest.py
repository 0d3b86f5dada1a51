"""What tests of the whole package share."""

import shutil
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Property tests draw the same examples in every run, however slow or busy the machine is.
settings.register_profile(
    "seeded", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("seeded")

ROOT = Path(__file__).resolve().parent.parent
LAYERS = ("bounds", "certify", "models", "eval", "reports", "commands")

# A shell's background job starts with SIGINT ignored, and the commands that tests interrupt would
# inherit that and never stop.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    """Begin with files of tests that take longest, then of simulations, then of most tests.

    Processes take whole files in this order, so that none works alone at the end.
    """
    tests = Counter(item.path for item in items)
    marked = [
        {item.path for item in items if item.get_closest_marker(mark)}
        for mark in ("nightly", "slow", "theory")
    ]
    items.sort(key=lambda item: (*(item.path not in files for files in marked), -tests[item.path]))


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """Build wheel and sdist of a copy of the tree; the folder that holds both."""
    place = tmp_path_factory.mktemp("built")
    build = "from setuptools import build_meta as b; import sys; b.build_{0}(sys.argv[1])"
    copy = place / "tree"
    copy.mkdir()
    for folder in ("cli", *LAYERS):
        shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy / name)
    for kind in ("sdist", "wheel"):
        command = [sys.executable, "-c", build.format(kind), str(place)]
        subprocess.run(command, cwd=copy, check=True, capture_output=True)
    return place
