"""What ``latecomer certify`` costs on a table of a million rows: ``make bench``."""

import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

MILLION = 10**6


@pytest.mark.parametrize("clients", [1000, MILLION])
def test_a_million_rows(benchmark: BenchmarkFixture, tmp_path: Path, clients: int) -> None:
    """Seconds of processor time are told, and the command's largest memory is below 500 MB."""
    losses = np.random.default_rng(0).beta(2.8, 13.7, MILLION).round(4).tolist()
    path = tmp_path / "losses.csv"
    rows = (f"c{i % clients},{loss}\n" for i, loss in enumerate(losses))
    path.write_text("client,loss\n" + "".join(rows))
    asked = ["certify", str(path), "--shift", "kl=0.1", "--target", "0.3", "--above", "0.2"]
    command = [sys.executable, "-m", "latecomer", *asked]
    benchmark.pedantic(
        lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL), rounds=1
    )
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    megabytes = used.ru_maxrss / 1024
    benchmark.extra_info["processor_seconds"] = used.ru_utime + used.ru_stime
    benchmark.extra_info["megabytes"] = megabytes
    assert megabytes < 500
