"""Models and training: target nets, encoders, hypernetworks, the engine and the methods.

Everything here is PyTorch; public names are imported on first use, so that importing the package
itself loads no torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if __name__ != "latecomer.models":
    raise ImportError("import latecomer.models, not the folder models")

if TYPE_CHECKING:
    from latecomer.models.checkpoint import Checkpoint as Checkpoint
    from latecomer.models.encoders import ENCODERS as ENCODERS
    from latecomer.models.engine import DivergedError as DivergedError
    from latecomer.models.engine import RoundLog as RoundLog
    from latecomer.models.engine import train as train
    from latecomer.models.method import Method as Method
    from latecomer.models.method import Predictor as Predictor
    from latecomer.models.methods.registry import METHODS as METHODS
    from latecomer.models.methods.registry import make_method as make_method
    from latecomer.models.phases import Phase as Phase
    from latecomer.models.phases import Stage as Stage
    from latecomer.models.posterior import PosteriorNorms as PosteriorNorms
    from latecomer.models.schedule import Schedule as Schedule
    from latecomer.models.schedule import TrainConfig as TrainConfig
    from latecomer.models.state import Params as Params
    from latecomer.models.state import State as State
    from latecomer.models.targets import TARGETS as TARGETS
    from latecomer.models.task import Clients as Clients
    from latecomer.models.task import Samples as Samples
    from latecomer.models.task import Task as Task
    from latecomer.models.task import make_task as make_task

_HOME: dict[str, str] = {
    "Checkpoint": "checkpoint",
    "Clients": "task",
    "DivergedError": "engine",
    "ENCODERS": "encoders",
    "METHODS": "methods.registry",
    "Method": "method",
    "Params": "state",
    "Phase": "phases",
    "PosteriorNorms": "posterior",
    "Predictor": "method",
    "RoundLog": "engine",
    "Samples": "task",
    "Schedule": "schedule",
    "Stage": "phases",
    "State": "state",
    "TARGETS": "targets",
    "Task": "task",
    "TrainConfig": "schedule",
    "make_method": "methods.registry",
    "make_task": "task",
    "train": "engine",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"latecomer.models.{_HOME[name]}"), name)
    raise AttributeError(f"module 'latecomer.models' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
