"""A trained method and its federation: the input of bounds and certificates."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from latecomer.eval.federation.groups import Federation, Group
from latecomer.eval.scoring.scores import ClientScore, group_score
from latecomer.eval.scoring.serving import ServedPoints
from latecomer.models.engine.method import Method
from latecomer.models.task.state import State
from latecomer.models.task.task import Task


@dataclass(frozen=True, eq=False)
class TrainedModel:
    """A trained method with everything that its bounds need.

    Attributes
    ----------
    method, task, state
        The model.
    federation : Federation
        The clients it was trained and measured on.
    seen_error : mapping of str to float
        Pooled query error of the seen clients, by predictor.
    support_scores : callable
        Maps a predictor to the seen clients' scores on their own support data.
    seed : int
        Training seed.
    held_out : mapping of str to sequence of ClientScore
        Scores of the held-out clients, by predictor.
    points : callable
        Maps a group and a predictor to what its clients' models, as served, say of their points.
    """

    method: Method
    task: Task
    state: State
    federation: Federation
    seen_error: Mapping[str, float]
    support_scores: Callable[[str], Sequence[ClientScore]]
    seed: int
    held_out: Mapping[str, Sequence[ClientScore]] = field(default_factory=dict)
    points: Callable[[Group, str], Sequence[ServedPoints]] = lambda group, predictor: ()

    def support_error(self, predictor: str) -> float:
        """Return the mean error of the seen clients on their own support data."""
        return group_score(self.support_scores(predictor)).per_client
