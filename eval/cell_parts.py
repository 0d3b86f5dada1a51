"""What every kind of cell is made of: its federation, its task, and what it leaves behind."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any

from latecomer.eval.artifacts import Artifact
from latecomer.eval.federation import Federation, build_federation, federation_settings
from latecomer.models.method import Method
from latecomer.models.schedule import TrainConfig
from latecomer.models.target_sizes import largest
from latecomer.models.task import Task, make_task

__all__ = ["Outcome", "Row", "budget_of", "federation_of", "task_of"]

Row = dict[str, Any]


@dataclass(frozen=True)
class Outcome:
    """What a cell leaves behind: rows for ``rows.csv`` and named artifacts."""

    rows: list[Row]
    artifacts: Mapping[str, Artifact]


@lru_cache(maxsize=2)
def _federation(key: str) -> Federation:
    return build_federation(json.loads(key))


def federation_of(config: Mapping[str, Any]) -> Federation:
    """Return the cell's federation; cells of one study in one process share it."""
    return _federation(json.dumps(federation_settings(config), sort_keys=True))


def budget_of(config: Mapping[str, Any]) -> TrainConfig:
    """Return how long and in what portions the cell's configuration trains."""
    train = config["train"]
    portions = {one.name: train[one.name] for one in fields(TrainConfig) if one.name != "precision"}
    return TrainConfig(**portions, precision=train.get("precision"))


@lru_cache(maxsize=2)
def _task(federation: Federation, key: str) -> Task:
    dataset = federation.dataset
    model = json.loads(key)
    sizes = {k: v for k, v in model.get("hypernetwork", {}).items() if v != "auto"}
    return make_task(
        input_shape=tuple(dataset.x.shape[1:]),
        n_classes=dataset.n_classes,
        target=model.get("target", "auto"),
        encoder=model.get("encoder", "auto"),
        hypernetwork=sizes,
    )


def task_of(federation: Federation, config: Mapping[str, Any], method: Method) -> Task:
    """Return the task with the study's target, or the largest of the method's own sizes.

    Cells of one study in one process share it.
    """
    model = dict(config.get("model") or {})
    if method.sizes:
        model["target"] = largest(method.sizes)
    return _task(federation, json.dumps(model, sort_keys=True))
