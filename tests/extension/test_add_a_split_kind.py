"""A kind of split is one file: studies, messages and splits know it by that."""

import pytest

SPLIT = '''
"""Clients hold runs of samples that follow each other, as if they had come in that order."""

from typing import Literal

import numpy as np

from latecomer.eval.schema import Count
from latecomer.eval.splits.kinds.declaration import Filled, SplitKind
from latecomer.eval.splits.dealing import Filling, check_sizes


class Runs(Filled):
    kind: Literal["runs"]
    clients: Count
    gap: Count = 1


def fill_runs(pool, clients, rng, *, gap, min_samples=None):
    """Give each client a run of samples, and leave out ``gap`` of them behind it."""
    n_clients, _ = check_sizes(pool, clients, min_samples)
    owners = np.arange(len(pool.train)) * n_clients // len(pool.train)
    kept = np.concatenate([np.flatnonzero(owners == one)[:-gap] for one in range(n_clients)])
    return Filling(pool.train[kept], owners[kept], np.arange(n_clients))


SPLITS = (
    SplitKind(
        name="runs",
        settings=Runs,
        description="each client holds a run of samples that follow each other",
        fill=fill_runs,
    ),
)
'''
DOORS = """
from latecomer.errors import InputError
from latecomer.eval.datasets import load_dataset
from latecomer.eval.splits.build import make_split
from latecomer.eval.splits.registry import sampling_of
from latecomer.eval.studies.loading import load_study

print(*(cell.id for cell in load_study("quickstart").cells("data")))
split = "split={kind: runs, clients: 40, certify: 10, novel: 10, gap: 2}"
study = load_study("quickstart", [split])
print(study.split.gap, study.resolved()["split"]["kind"], sampling_of("runs"))
for mistake in ("gap: 0", "gaps: 2"):
    try:
        load_study("quickstart", [split.replace("gap: 2", mistake)])
    except InputError as error:
        print(str(error).splitlines()[-1])
made = make_split(load_dataset({"name": "digits"}), kind="runs", clients=40, novel=10, gap=2)
print(len(made.seen), len(made.novel), sum(len(one.rows("all")) for one in made.clients))
try:
    make_split(load_dataset({"name": "digits"}), kind="run", clients=40)
except InputError as error:
    print(error)
"""


@pytest.mark.slow
def test_one_file_opens_every_door(package, quickstart_ids):
    package.write("eval/splits/kinds/runs.py", SPLIT)
    ids, asked, low, unknown, made, misspelt = package.run("-c", DOORS).splitlines()
    assert ids == quickstart_ids, "a study that does not ask for it has the cells it had"
    assert asked == "2 runs finite-pool"
    assert low.endswith("split.gap: must be greater than or equal to 1, got 0")
    assert unknown.endswith("split.gaps is no setting of a runs split; did you mean split.gap?")
    assert made == "30 10 1717"
    assert "natural, runs, " in misspelt
    assert misspelt.endswith("got 'run'; did you mean 'runs'?")
    assert len(package.written) == 1
