"""What tests of the whole package share."""

import gc
import os
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path

import pytest
import typer.testing
from hypothesis import HealthCheck, settings

from latecomer.errors import InputError
from latecomer.models.methods.registry import METHODS

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


# Files outlast a test without being on the disk, for which runs and pages would wait, twice a file.
os.fsync = lambda descriptor: None

# A command's options are read from signatures, which takes longer than many a command.
typer.testing._get_command = cache(typer.testing._get_command)

# What is tried on all methods is fast for one of each kind: without a server, global, with own
# heads, with own steps, with own memory, in groups, by embeddings, by descriptors.
FAST = {"local", "fedavg", "fedper", "per_fedavg", "knn_per", "ifca", "pfedhn", "pefll"}
MANY_METHODS = 20


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(items):
    """Divide tests among fast, slow and nightly ones, and put the longest files first.

    Files begin with those of tests that take longest, then of simulations, then of most tests.
    Processes take whole files in this order, so that none works alone at the end.
    """
    mark_slow_methods(items)
    mark_nightly_cases(items)
    yield
    tests = Counter(item.path for item in items)
    marked = [
        {item.path for item in items if item.get_closest_marker(mark)}
        for mark in ("nightly", "slow", "theory")
    ]
    items.sort(key=lambda item: (*(item.path not in files for files in marked), -tests[item.path]))


def pytest_collection_finish():
    """Leave what imports and collection made out of the search for garbage, and search seldom.

    Tests of pages, methods and splits take .93 of their processor time this way.
    """
    gc.freeze()
    gc.set_threshold(100_000, 20, 100)


def mark_slow_methods(items):
    """Mark cases of tests over most methods: those of a method that is not among the fast ones."""
    cases = defaultdict(list)
    for item in items:
        if hasattr(item, "callspec"):
            named = set(re.split("[^a-z_]+", item.callspec.id)) & METHODS.keys()
            cases[item.path, item.originalname].append((item, named))
    for of_one_test in cases.values():
        if len(set().union(*(named for _, named in of_one_test))) >= MANY_METHODS:
            for item, named in of_one_test:
                if named and not named & FAST:
                    item.add_marker("slow")


def mark_nightly_cases(items):
    """Mark cases of thinned tests: all but the first and the last of each."""
    cases = defaultdict(list)
    for item in items:
        if item.get_closest_marker("thinned"):
            cases[item.path, item.originalname].append(item)
    for of_one_test in cases.values():
        for item in of_one_test[1:-1]:
            item.add_marker("nightly")


@pytest.fixture(scope="session")
def refusal():
    """Call a function with arguments that it refuses; return what it says, which is one line."""

    def called(function, *given, **asked):
        with pytest.raises(InputError) as caught:
            function(*given, **asked)
        message = str(caught.value)
        assert "\n" not in message
        return message

    return called


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
