"""Peak memory of a training against the number of clients, the same data divided among them."""

import json
import subprocess
import sys
from pathlib import Path
from statistics import mean

import growth
import pytest
from contest import Finding

COUNTS = (100, 1_000, 5_000)
pytestmark = pytest.mark.skipif(
    not Path("/proc/self/clear_refs").exists(), reason="peak memory is read from Linux's /proc"
)


def measure(method: str) -> dict[int, dict[str, float]]:
    """Return what it took with so many clients, the mean of two fresh processes."""
    found = {}
    for count in COUNTS:
        program = [sys.executable, growth.__file__, method, str(count), "lenet"]
        each = [json.loads(subprocess.check_output(program, text=True)) for _ in range(2)]
        found[count] = {key: mean(run[key] for run in each) for key in each[0]}
    return found


def peaks(found: dict[int, dict[str, float]]) -> dict[str, float]:
    """Name the peaks by the number of clients."""
    return {f"{count}_clients_mib": run["training_mib"] for count, run in found.items()}


def test_memory_of_a_method_without_client_state(benchmark, judge):
    """PeFLL's peak is the same for 5,000 clients as for 100."""
    found = benchmark.pedantic(measure, args=("pefll",), rounds=1)
    assert all(run["kept_by_clients_mib"] == 0 for run in found.values())
    ratio = found[COUNTS[-1]]["training_mib"] / found[COUNTS[0]]["training_mib"]
    judge(Finding("PeFLL's peak memory, 5,000 clients / 100", ratio, absolute=peaks(found)))


def test_memory_of_a_method_with_client_state(benchmark, judge):
    """FedPer's peak grows by its clients' heads, at most twice over while they are replaced."""
    found = benchmark.pedantic(measure, args=("fedper",), rounds=1)
    few, many = found[COUNTS[0]], found[COUNTS[-1]]
    grown = many["training_mib"] - few["training_mib"]
    kept = many["kept_by_clients_mib"] - few["kept_by_clients_mib"]
    absolute = peaks(found) | {"state_at_5000_mib": many["kept_by_clients_mib"]}
    judge(Finding("FedPer's growth of peak memory / of its state", grown / kept, absolute=absolute))
