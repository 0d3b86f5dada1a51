"""Data sets of real size: what they cost in memory and time."""

import subprocess
import sys
import tracemalloc

import numpy as np
import pytest

from latecomer.eval.datasets import load_dataset
from latecomer.eval.datasets.readers import handwriting

# FEMNIST as LEAF counts it (all writers): 3,597 clients, 817,851 images.
CLIENTS, IMAGES = 3_597, 817_851

# The kernel's own high-water mark: ru_maxrss also counts the process that started this one.
MEASURE = """
import sys
from pathlib import Path
from latecomer.eval.datasets import load_dataset
from latecomer.eval.federation.groups import build_federation
from latecomer.eval.settings.cell import FederationSettings

def peak():
    told = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(told["VmHWM"].split()[0]) / 2**20

data = load_dataset({"name": "npz", "path": sys.argv[1]})
print(len(data), len(data.client_names))
print(peak())
del data
split = {"kind": "natural", "novel": 0.1}
build_federation(FederationSettings(data={"name": "npz", "path": sys.argv[1]}, split=split))
print(peak())
"""


@pytest.mark.nightly
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process its peak memory")
def test_femnist_sized_npz_fits_in_memory(tmp_path):
    rng = np.random.default_rng(0)
    sizes = rng.multinomial(IMAGES - 20 * CLIENTS, rng.dirichlet(np.full(CLIENTS, 8.0))) + 20
    x = np.zeros((IMAGES, 28, 28), np.uint8)
    x[:, 0, 0] = rng.integers(0, 256, IMAGES)
    client = np.repeat(np.arange(CLIENTS), sizes)
    # More than fifty classes are a quantity unless they have names.
    named = {"class_names": np.array([f"character {number}" for number in range(62)])}
    np.savez(tmp_path / "big.npz", x=x, y=rng.integers(0, 62, IMAGES), client=client, **named)
    code = [sys.executable, "-c", MEASURE, str(tmp_path / "big.npz")]
    done = subprocess.run(code, capture_output=True, text=True, check=True)
    counts, loaded, built = done.stdout.splitlines()
    assert counts == f"{IMAGES} {CLIENTS}"
    assert float(loaded) < 1.5
    # Splitting and standardising must not hold the samples a second time.
    assert float(built) < 1.5


@pytest.mark.slow
def test_leaf_shards_are_never_held_whole(small_files, tmp_path, monkeypatch):
    """Python holds a shard in ten times its file's size and more; one writer is a small part."""
    config = small_files("femnist", tmp_path)
    monkeypatch.setattr(handwriting, "_BLOCK", 64)
    shard = tmp_path / "femnist" / "train" / "all_data_0_niid_0_train_9.json"
    row = "[" + ", ".join(["0.4980392156862745"] * 784) + "]"
    writers = [f"w{i:02d}" for i in range(40)]
    data = ", ".join(f'"{w}": {{"x": [{", ".join([row] * 20)}], "y": {[3] * 20}}}' for w in writers)
    names = ", ".join(f'"{w}"' for w in writers)
    shard.write_text(f'{{"users": [{names}], "num_samples": {[20] * 40}, "user_data": {{{data}}}}}')
    assert shard.stat().st_size > 12_000_000
    tracemalloc.start()
    try:
        found = load_dataset(config)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (found.x[found.client == 8][:20, 0, 2:30, 2:30] == 127).all()
    assert peak < 8_000_000
