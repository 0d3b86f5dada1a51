"""Models and training: target nets, encoders, hypernetworks, the engine and the methods.

Everything here is PyTorch; public names are imported on first use, so that importing the package
itself loads no torch.
"""

from typing import TYPE_CHECKING

from latecomer.extras import front_door

if __name__ != "latecomer.models":
    raise ImportError("import latecomer.models, not the folder models")

if TYPE_CHECKING:
    from latecomer.models.engine.method import Method as Method
    from latecomer.models.engine.method import Predictor as Predictor
    from latecomer.models.engine.schedule import Phase as Phase
    from latecomer.models.engine.schedule import Schedule as Schedule
    from latecomer.models.engine.schedule import Stage as Stage
    from latecomer.models.engine.schedule import TrainConfig as TrainConfig
    from latecomer.models.engine.training import Checkpoint as Checkpoint
    from latecomer.models.engine.training import DivergedError as DivergedError
    from latecomer.models.engine.training import RoundLog as RoundLog
    from latecomer.models.engine.training import train as train
    from latecomer.models.generators.encoders import ENCODERS as ENCODERS
    from latecomer.models.methods.registry import METHODS as METHODS
    from latecomer.models.methods.registry import make_method as make_method
    from latecomer.models.posteriors import PosteriorNorms as PosteriorNorms
    from latecomer.models.task.clients import Clients as Clients
    from latecomer.models.task.clients import Samples as Samples
    from latecomer.models.task.state import Params as Params
    from latecomer.models.task.state import State as State
    from latecomer.models.task.targets import TARGETS as TARGETS
    from latecomer.models.task.task import Task as Task
    from latecomer.models.task.task import make_task as make_task

_HOME, __getattr__, __dir__ = front_door(__name__, __file__)

__all__ = [*sorted(_HOME)]
