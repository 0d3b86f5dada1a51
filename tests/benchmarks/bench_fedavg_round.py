"""A FedAvg round in the setting of pfl's CIFAR-10 benchmark: engine, bare PyTorch, pfl, Flower.

1,000 clients of 50 samples, 50 a round, one epoch in batches of 10, SGD with step 0.1; LeNet.
"""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from contest import Turns, compare, fastest
from contestants import bare_fedavg, engine, every_variant
from populations import cifar_shaped
from users_net import lenet

from latecomer.models.engine.schedule import TrainConfig
from latecomer.models.methods.fedavg import FedAvg
from latecomer.models.task.clients import Clients

CONFIG = TrainConfig(rounds=10_000, cohort=50, local_steps=5, batch_size=10)
LR = 0.1
REPEATS = 9
FLOWER_ROUNDS = 6


@pytest.fixture(scope="module")
def clients() -> Clients:
    return cifar_shaped(1_000, 50, 1)


@pytest.fixture(scope="module")
def method() -> FedAvg:
    return FedAvg(local_lr=LR, local_momentum=0.0, local_weight_decay=0.0)


def test_fedavg_round_and_bare_loops(clients, task, method, take_turns, judge):
    """At most 1.10 times the best bare loop."""
    rivals = {
        name: bare_fedavg(method, task, clients, CONFIG, data)
        for name, data in every_variant(clients).items()
    }
    with engine(method, task, clients, CONFIG) as ours:
        turns = take_turns({"engine": ours} | rivals, repeats=REPEATS)
    best = fastest({name: turns[name] for name in rivals})
    judge(
        compare("FedAvg round / best bare loop", turns["engine"], turns[best], note=best),
        compare("FedAvg round / bare loop, plain", turns["engine"], turns["plain"]),
    )


@pytest.mark.skipif(find_spec("pfl") is None, reason="pfl is not installed (extra bench)")
@pytest.mark.filterwarnings("ignore")
def test_fedavg_round_and_pfl(clients, task, method, take_turns, judge):
    """No slower than pfl in one process."""
    from pfl_rounds import pfl

    theirs = pfl(lenet(), clients, cohort=CONFIG.cohort, batch_size=CONFIG.batch_size, lr=LR)
    with engine(method, task, clients, CONFIG) as ours, theirs:
        turns = take_turns({"engine": ours, "pfl": theirs}, repeats=REPEATS)
    judge(compare("FedAvg round / pfl", turns["engine"], turns["pfl"]))


@pytest.mark.skipif(
    find_spec("flwr") is None or find_spec("ray") is None,
    reason="flwr and its simulation are not installed (extra bench)",
)
def test_fedavg_round_and_flower(benchmark, judge):
    """No slower than Flower's simulation, which has a worker process for every processor."""
    workers = os.cpu_count() or 1
    program = Path(__file__).parent / "rounds" / "flower_rounds.py"
    path = os.pathsep.join([str(program.parent), *sys.path])

    def run() -> dict[str, list[float]]:
        done = subprocess.run(
            [sys.executable, str(program), str(FLOWER_ROUNDS), str(workers)],
            env=os.environ | {"PYTHONPATH": path},
            capture_output=True,
            text=True,
            check=True,
        )
        return json.loads(done.stdout.splitlines()[-1])

    found = benchmark.pedantic(run, rounds=1)
    ours, theirs = (Turns(tuple(found[name]), tuple(found[name])) for name in ("engine", "flower"))
    note = f"one process against {workers} workers"
    judge(compare("FedAvg round / Flower", ours, theirs, processes=True, note=note))
