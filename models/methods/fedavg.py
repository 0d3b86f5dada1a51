"""FedAvg: one global model, the average of what the cohort trained."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from torch import Generator, Tensor

from latecomer.models.engine.hyperparameters import number
from latecomer.models.engine.local_steps import LocalSGD
from latecomer.models.engine.method import Method, Personalization, Predictor, Start, predict_with
from latecomer.models.engine.schedule import Cohort
from latecomer.models.task.state import Params, State, add, nest, part, repeat, weighted_mean
from latecomer.models.task.task import Clients, Samples, Task


@dataclass(frozen=True, kw_only=True)
class FedAvg(Method):
    """Federated averaging (McMahan et al., 2017), weighted by support sizes.

    Every client, seen or not, is served the global model; labels are not needed for that.

    Attributes
    ----------
    local_lr, local_momentum, local_weight_decay, clip_norm : float
        The local step; published values for the images of the pFedHN and PeFLL papers.
    """

    local_lr: float = number(5e-3, above=0)
    local_momentum: float = number(0.9, least=0, below=1)
    local_weight_decay: float = number(5e-5, least=0)
    clip_norm: float = number(50.0, above=0)

    name: ClassVar[str] = "fedavg"
    called: ClassVar[str] = "FedAvg"
    paper: ClassVar[str] = "McMahan et al., AISTATS 2017"
    cites: ClassVar[tuple[str, ...]] = ("mcmahan2017",)
    look: ClassVar[int | None] = 2
    personalization: ClassVar[Personalization] = "global"
    needs_labels: ClassVar[bool] = False

    @property
    def local(self) -> LocalSGD:
        """The rule of a local step."""
        return LocalSGD(self.local_lr, self.local_momentum, self.local_weight_decay, self.clip_norm)

    def init(self, task: Task, clients: Clients, first: Cohort, generator: Generator) -> State:
        """Return random global weights."""
        return State(nest("target", task.initial(generator)))

    def start(
        self, task: Task, state: State, clients: Clients, cohort: Cohort, generator: Generator
    ) -> Start:
        """Send the global weights to everyone."""
        return Start(repeat(part(state.server, "target"), len(cohort)))

    def aggregate(
        self, task: Task, state: State, cohort: Cohort, start: Start, uploads: Params
    ) -> State:
        """Add the mean change, weighted by support sizes."""
        mean = weighted_mean(uploads, cohort.sizes)
        return State(nest("target", add(part(state.server, "target"), mean)), state.clients)

    def weights_for(self, task: Task, table: Mapping[str, Tensor], support: Samples) -> Params:
        """Return the global weights, whoever is served."""
        return part(table, "target")

    def personalize(
        self,
        task: Task,
        state: State,
        support: Samples,
        *,
        predictor: str = "deterministic",
        generator: Generator,
    ) -> Predictor:
        """Return the global model."""
        self.refuse_predictor(predictor)
        return predict_with(task, part(state.server, "target"))
