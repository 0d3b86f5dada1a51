"""Rounds on what a frozen body gives, computed once, beside rounds that compute it every step."""

from pathlib import Path

from contest import compare
from contestants import engine
from populations import N_CLASSES, SHAPE, SMALL, cifar_shaped

from latecomer.models.engine.schedule import TrainConfig
from latecomer.models.methods.fedavg import FedAvg
from latecomer.models.outside import import_target
from latecomer.models.task.stems import Frozen
from latecomer.models.task.task import make_task

BODY = Path(__file__).parents[2] / "docs" / "examples" / "networks" / "adapted_body.py"
CONFIG = TrainConfig(rounds=10_000, cohort=10, local_steps=5 if SMALL else 50, batch_size=32)


def test_round_on_a_stem(take_turns, judge):
    """The example of the documentation, on pictures of 3 x 32 x 32."""
    clients = cifar_shaped(20, 100, 1)
    make = import_target(f"{BODY}:AdaptedBody", {})
    target = Frozen(make, ("body",), make(SHAPE, N_CLASSES).state_dict())
    whole, rest = (
        make_task(input_shape=SHAPE, n_classes=N_CLASSES, target=target, stem=stem)
        for stem in (None, "body")
    )
    if rest.stem is None:
        raise ValueError("the task has no stem")
    (told,) = rest.stem.through([clients])
    with (
        engine(FedAvg(), whole, clients, CONFIG) as at_every_step,
        engine(FedAvg(), rest, told, CONFIG) as once,
    ):
        turns = take_turns({"once": once, "at every step": at_every_step}, repeats=3)
    what = "FedAvg round on a frozen body, computed once / at every step"
    judge(compare(what, turns["once"], turns["at every step"]))
