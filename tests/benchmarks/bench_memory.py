"""Peak memory of a training against the number of clients, the same data divided among them."""

import json
import subprocess
import sys
from pathlib import Path
from statistics import mean

import memory_of_training
import pytest
from contest import Finding

COUNTS = (100, 1_000, 5_000)
MIB = 2**20
pytestmark = pytest.mark.skipif(
    not Path("/proc/self/clear_refs").exists(), reason="peak memory is read from Linux's /proc"
)


def measure(method: str, n_clients: int, times: int = 2) -> dict[str, float]:
    """Return peak growth (the mean of fresh processes) and state, both in bytes."""
    program = [sys.executable, memory_of_training.__file__, method, str(n_clients)]
    found = [
        json.loads(subprocess.run(program, check=True, capture_output=True, text=True).stdout)
        for _ in range(times)
    ]
    return {key: mean(run[key] for run in found) for key in found[0]}


def in_mib(found: dict[int, dict[str, float]]) -> dict[str, float]:
    """Name the peaks by the number of clients."""
    return {f"{count}_clients_mib": run["peak_bytes"] / MIB for count, run in found.items()}


def test_memory_of_a_method_without_client_state(benchmark, judge):
    """PeFLL's peak is the same for 5,000 clients as for 100."""
    found = benchmark.pedantic(lambda: {n: measure("pefll", n) for n in COUNTS}, rounds=1)
    assert all(run["client_state_bytes"] == 0 for run in found.values())
    ratio = found[COUNTS[-1]]["peak_bytes"] / found[COUNTS[0]]["peak_bytes"]
    judge(Finding("PeFLL's peak memory, 5,000 clients / 100", ratio, absolute=in_mib(found)))


def test_memory_of_a_method_with_client_state(benchmark, judge):
    """FedPer's peak grows by its clients' heads, at most twice over while they are replaced."""
    found = benchmark.pedantic(lambda: {n: measure("fedper", n) for n in COUNTS}, rounds=1)
    few, many = found[COUNTS[0]], found[COUNTS[-1]]
    grown = many["peak_bytes"] - few["peak_bytes"]
    kept = many["client_state_bytes"] - few["client_state_bytes"]
    absolute = in_mib(found) | {"state_at_5000_mib": many["client_state_bytes"] / MIB}
    judge(Finding("FedPer's growth of peak memory / of its state", grown / kept, absolute=absolute))
