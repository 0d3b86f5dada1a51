"""A dense net's cohorts and newcomers side by side, beside a loop by hand and one by one."""

import bare_dense
import torch
from contest import compare
from contestants import BareFederation, engine, local_rule, newcomers
from populations import SMALL, cifar_shaped

from latecomer.models.engine.schedule import Schedule, TrainConfig
from latecomer.models.engine.training import train
from latecomer.models.methods.fedavg import FedAvg
from latecomer.models.methods.local import Local
from latecomer.models.task.targets import DenseNet
from latecomer.models.task.task import Task, make_task

FEATURES, WIDTHS, CLASSES = 27, (64, 64), 2
CONFIG = TrainConfig(rounds=10**6, cohort=5, local_steps=50, batch_size=32)
# Half of the people of a federation who answered 24 items each, half of these known.
NEWCOMERS, POINTS = 20 if SMALL else 158, 12
REPEATS = 3 if SMALL else 25


def dense_task() -> Task:
    with torch.device("meta"):
        net = DenseNet((FEATURES,), CLASSES, dense=WIDTHS)
    return make_task(input_shape=(FEATURES,), n_classes=CLASSES, target=net)


def test_dense_round(take_turns, judge):
    """At most 1.3 times a loop that somebody wrote for this net."""
    clients = cifar_shaped(24, 200, 1, shape=(FEATURES,), dtype=torch.float32, n_classes=CLASSES)
    task, method = dense_task(), FedAvg()
    schedule = Schedule(0, clients, CONFIG)
    drawn = schedule.cohort(0)
    server = method.init(task, clients, drawn, schedule.initial_noise()).server
    weights, data = list(server.values()), BareFederation.of(clients, "plain")
    rows, rule = drawn.rows[:, :, 0], local_rule(method)

    def by_hand() -> None:
        bare_dense.fedavg_round(weights, data.x[rows], data.y[rows], rule)

    with engine(method, task, clients, CONFIG) as ours:
        turns = take_turns({"engine": ours, "by hand": by_hand}, repeats=REPEATS)
    judge(compare("FedAvg round, 27-64-64-2 / loop by hand", turns["engine"], turns["by hand"]))


def test_newcomers_of_local(take_turns, judge):
    """At most a tenth of training one after another."""
    clients = cifar_shaped(
        NEWCOMERS, POINTS, 1, shape=(FEATURES,), dtype=torch.float32, n_classes=CLASSES
    )
    task, method = dense_task(), Local(novel_steps=50)
    state = train(method, task, clients, TrainConfig(1, 5, 2, 12), seed=0)
    ways = newcomers(method, task, state, clients)
    turns = take_turns(ways, repeats=2 if SMALL else 5)
    what = "158 newcomers of Local, 27-64-64-2, side by side / one by one"
    judge(compare(what, turns["together"], turns["alone"]))
