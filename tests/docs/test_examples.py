"""The programs that pages show run as they stand, and print what the pages say they print."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from latecomer.eval.shifts.populations import import_shift

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted((ROOT / "docs" / "examples").glob("*.py"))
# The others train: each starts processes that import torch.
QUICK = {"certify_your_losses", "certify_a_secret_sum"}


def test_there_are_seven():
    assert len(EXAMPLES) == 7
    for path in EXAMPLES:
        page = (ROOT / "docs" / "pages" / "examples" / f"{path.stem}.md").read_text("utf-8")
        assert f"<!-- file {path.name} -->" in page
        assert f"<!-- file {path.stem}.txt -->" in page


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, id=path.stem, marks=[] if path.stem in QUICK else pytest.mark.nightly)
        for path in EXAMPLES
    ],
)
def test_it_prints_what_is_shown(path, tmp_path, disagreement):
    done = subprocess.run(
        [sys.executable, str(path)],
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    shown = path.with_suffix(".txt").read_text("utf-8")
    assert shown.strip()
    trained = path.stem not in QUICK
    assert disagreement(shown, done.stdout, trained=trained) == "", done.stdout
    assert len(shown.splitlines()) == len(done.stdout.splitlines())


def test_pictures_blur_before_or_after_joining_and_not_at_both_times():
    folder = ROOT / "docs" / "examples" / "shifts"
    before, after = (
        import_shift(f"{folder}/joining.py:blurred_{when}") for when in ("before", "after")
    )
    x = np.random.default_rng(0).random((12, 3, 8, 8), dtype=np.float32)
    early, late = (shift(x, 1.0, np.random.default_rng(1)) for shift in (before, after))
    assert early.shape == late.shape == x.shape
    assert np.array_equal(late[:10], x[:10])
    assert np.array_equal(early[10:], x[10:])
    assert not any(np.array_equal(*pair) for pair in zip(late[10:], x[10:], strict=True))
    assert not any(np.array_equal(*pair) for pair in zip(early[:10], x[:10], strict=True))


def test_disagreement_is_found(disagreement):
    printed = "a 0.10 b\nc took 3 s\n"
    assert disagreement("a 0.10 b\nc took ... s", printed) == ""
    assert disagreement("a 0.11 b", printed) == "a 0.11 b"
    assert disagreement("a 0.12 b\nc took ... s", printed, trained=True) == ""
    assert disagreement("a 0.30 b", printed, trained=True) == "a 0.30 b"
    assert disagreement("c took ... s\na 0.10 b", printed) == "a 0.10 b"
    assert disagreement("a 0.10", printed) == "a 0.10"
    assert disagreement("d", printed) == "d"
    assert disagreement("5.4% of them", "6.0% of them", trained=True) == ""
    assert disagreement("5.4% of them", "5.5% of them") == "5.4% of them"
    assert disagreement("5.4% of them", "16.0% of them", trained=True) == "5.4% of them"
    assert disagreement("0.05", "0.05%", trained=True) == "0.05"
