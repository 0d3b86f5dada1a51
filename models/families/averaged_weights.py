"""What methods with one set of global weights have in common."""

from abc import ABC
from dataclasses import dataclass

from torch import Generator

from latecomer.models.engine.hyperparameters import number
from latecomer.models.engine.local_steps import LocalSGD
from latecomer.models.engine.method import Method, Predictor, Start, predict_with
from latecomer.models.engine.schedule import Cohort
from latecomer.models.task.clients import Clients, Samples
from latecomer.models.task.state import Params, State, add, nest, part, repeat, weighted_mean
from latecomer.models.task.task import Task


@dataclass(frozen=True, kw_only=True)
class GlobalWeights(Method, ABC):
    """Global weights, sent to everyone and moved by the cohort's mean change."""

    def init(self, task: Task, clients: Clients, first: Cohort, generator: Generator) -> State:
        """Return random global weights."""
        return State(nest("target", task.initial(generator)))

    def start(
        self, task: Task, state: State, clients: Clients, cohort: Cohort, generator: Generator
    ) -> Start:
        """Send the global weights, which the objective finds in ``context.shared`` too."""
        weights = part(state.server, "target")
        return Start(repeat(weights, len(cohort)), shared=weights)

    def aggregate(
        self, task: Task, state: State, cohort: Cohort, start: Start, uploads: Params
    ) -> State:
        """Add the mean change, weighted by support sizes, of whatever was uploaded."""
        weights, mean = part(state.server, "target"), weighted_mean(uploads, cohort.sizes)
        moved = add({name: weights[name] for name in mean}, mean)
        return State(nest("target", {**weights, **moved}), state.clients)

    def personalize(
        self,
        task: Task,
        state: State,
        support: Samples,
        *,
        predictor: str = "deterministic",
        generator: Generator,
    ) -> Predictor:
        """Return the global model, whoever is served."""
        self.refuse_predictor(predictor)
        return predict_with(task, part(state.server, "target"))


@dataclass(frozen=True, kw_only=True)
class AveragedWeights(GlobalWeights, ABC):
    """Global weights whose local step is SGD with momentum.

    Attributes
    ----------
    local_lr, local_momentum, local_weight_decay, clip_norm : float
        The local step.
    """

    local_lr: float = number(5e-3, above=0)
    local_momentum: float = number(0.9, least=0, below=1)
    local_weight_decay: float = number(5e-5, least=0)
    clip_norm: float = number(50.0, above=0)

    @property
    def local(self) -> LocalSGD:
        """The rule of a local step."""
        return LocalSGD(self.local_lr, self.local_momentum, self.local_weight_decay, self.clip_norm)
