"""The executors by name, their settings and what is refused."""

import re

import pytest

from latecomer.errors import InputError
from latecomer.eval.runs.executors import EXECUTORS, make_executor
from latecomer.eval.runs.local import LocalExecutor
from latecomer.eval.runs.ray import RayExecutor
from latecomer.eval.runs.slurm import SlurmExecutor


@pytest.mark.parametrize(
    ("name", "settings", "said"),
    [
        ("slrum", {}, "executor must be one of local, slurm, ray, got 'slrum'; did you mean"),
        ("local", {"address": "x"}, "'local' takes no address; it takes workers, memory-per-cell"),
        ("local", {"gpus-per-cell": 1}, "'local' takes no gpus-per-cell"),
        ("local", {"workers": 0}, "workers must be at least 1, got 0"),
        ("local", {"memory-per-cell": -1.0}, "memory-per-cell must be at least 0, got -1"),
        ("slurm", {"partion": "gpu"}, "takes no partion; did you mean 'partition'"),
        ("slurm", {"time": "1h"}, "time must be a whole number, got '1h'"),
        ("slurm", {"time": "0"}, "time must be at least 1, got 0"),
        ("slurm", {"gpus-per-cell": 0.5}, "gpus-per-cell must be a whole number, got 0.5"),
        ("slurm", {"cluster": "slum"}, "must be one of slurm, local, got 'slum'; did you mean"),
        ("ray", {"partition": "gpu"}, "'ray' takes no partition; it takes address, workers"),
        ("ray", {"memory-per-cell": "much"}, "memory-per-cell must be a number, got 'much'"),
        ("ray", {"cpus-per-cell": "nan"}, "cpus-per-cell must be at least 0 and finite, got nan"),
        ("ray", {"memory-per-cell": "inf"}, "memory-per-cell must be at least 0 and finite, got"),
    ],
)
def test_what_makes_no_sense_is_refused(name, settings, said):
    with pytest.raises(InputError, match=re.escape(said)):
        make_executor(name, settings)


def test_an_extra_that_is_absent_is_named(monkeypatch):
    monkeypatch.setattr("latecomer.eval.runs.executors.find_spec", lambda name: None)
    for name in ("slurm", "ray"):
        with pytest.raises(InputError, match=rf'pip install "latecomer\[{name}\]"$'):
            make_executor(name, {})
    assert make_executor("local", {}) == LocalExecutor()


def test_settings_reach_the_executor(monkeypatch):
    monkeypatch.setattr("latecomer.eval.runs.executors.find_spec", lambda name: name)
    assert set(EXECUTORS) == {"local", "slurm", "ray"}
    made = make_executor("ray", {"address": "h:1", "gpus-per-cell": "0.5", "workers": 3})
    assert made == RayExecutor(address="h:1", gpus_per_cell=0.5, workers=3)
    assert made.where == "the Ray cluster at h:1"
    made = make_executor("slurm", {"partition": "gpu", "gpus-per-cell": 2.0, "time": "90"})
    assert made == SlurmExecutor(partition="gpu", gpus_per_cell=2, time=90)
    assert made.where == "Slurm, partition gpu"


def test_an_address_where_nobody_listens_is_refused_at_once():
    with pytest.raises(InputError, match=r"address 127.0.0.2:9: no Ray cluster answers"):
        RayExecutor(address="127.0.0.2:9").check()
