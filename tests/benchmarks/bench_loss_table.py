"""What ``latecomer certify`` costs on a table of a million rows: ``make bench``."""

import subprocess
import sys

import numpy as np
import pytest

MILLION = 10**6
# A process counts what its parent held when it was started as its own: this one is large when other
# benchmarks went before, so that a small one in between starts the command.
LAUNCH = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(used.ru_maxrss, used.ru_utime + used.ru_stime)
"""


@pytest.mark.parametrize("clients", [1000, MILLION])
def test_a_million_rows(benchmark, tmp_path, clients):
    """Seconds of processor time are told, and the command's largest memory is below 500 MB."""
    losses = np.random.default_rng(0).beta(2.8, 13.7, MILLION).round(4).tolist()
    path = tmp_path / "losses.csv"
    rows = (f"c{i % clients},{loss}\n" for i, loss in enumerate(losses))
    path.write_text("client,loss\n" + "".join(rows))
    asked = ["certify", str(path), "--shift", "kl=0.1", "--target", "0.3", "--above", "0.2"]
    command = [sys.executable, "-m", "latecomer", *asked]
    told = benchmark.pedantic(
        subprocess.check_output, args=([sys.executable, "-c", LAUNCH, *command],), rounds=1
    )
    kilobytes, seconds = map(float, told.split())
    megabytes = kilobytes / 1024
    benchmark.extra_info |= {"processor_seconds": seconds, "megabytes": megabytes}
    assert megabytes < 500
