"""A round on the small nets, in the quickstart's setting: the engine and bare PyTorch."""

import bare_nets
import pytest
import torch
from bare_rounds import ONE_ROW
from contest import compare, fastest
from contestants import BareFederation, bare_fedavg, bare_pefll, engine, every_variant
from populations import N_CLASSES, cifar_shaped

from latecomer.models.engine.schedule import TrainConfig
from latecomer.models.methods import make_method
from latecomer.models.methods.fedavg import FedAvg
from latecomer.models.task.task import make_task

CLIENTS, SUPPORT = 24, 24
CONFIG = TrainConfig(rounds=10**6, cohort=5, local_steps=20, batch_size=16)
NETS = {
    "small net": ((1, 8, 8), bare_nets.small),
    "dense net": ((64,), bare_nets.dense),
}
REPEATS = 40


@pytest.mark.parametrize("name", ["PeFLL", "FedAvg"])
@pytest.mark.parametrize("kind", NETS)
def test_small_round(kind, name, take_turns, judge):
    """At most 1.15 times the best bare loop.

    The engine draws up to sixteen small rounds at once, so that medians do not see the draws.
    """
    shape, net = NETS[kind]
    clients = cifar_shaped(CLIENTS, SUPPORT, 1, shape=shape, dtype=torch.float32)
    task = make_task(input_shape=shape, n_classes=N_CLASSES)
    method = make_method(name.lower())
    given = task, clients, CONFIG
    federations = every_variant(clients) | {ONE_ROW: BareFederation.of(clients, ONE_ROW)}
    rivals = {
        variant: bare_fedavg(method, *given, data, net)
        if isinstance(method, FedAvg)
        else bare_pefll(*given, data, net)
        for variant, data in federations.items()
    }
    with engine(method, task, clients, CONFIG) as ours:
        turns = take_turns({"engine": ours} | rivals, repeats=REPEATS)
    best = fastest({variant: turns[variant] for variant in rivals})
    found = f"{name} round, {kind} / best bare loop"
    judge(compare(found, turns["engine"], turns[best], note=best))
