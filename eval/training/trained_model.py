"""A trained method and its federation: what bounds and certificates start from."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from latecomer.eval.federation.groups import Federation
from latecomer.models.engine.method import Method
from latecomer.models.task.state import State
from latecomer.models.task.task import Task

__all__ = ["TrainedModel"]


@dataclass(frozen=True, eq=False)
class TrainedModel:
    """A trained method with what its bounds need.

    Attributes
    ----------
    method, task, state
        The model.
    federation : Federation
        Who it was trained and measured on.
    seen_error : mapping of str to float
        Pooled query error of the seen clients, by predictor.
    support_error : callable
        Maps a predictor to the mean error of the seen clients on their own support data.
    seed : int
        Training seed.
    """

    method: Method
    task: Task
    state: State
    federation: Federation
    seen_error: Mapping[str, float]
    support_error: Callable[[str], float]
    seed: int
