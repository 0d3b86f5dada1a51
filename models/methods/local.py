"""Local: every client trains a model of its own; nothing is shared."""

from dataclasses import dataclass
from typing import ClassVar

from torch import Generator

from latecomer.models.engine.fine_tuning import Tuning
from latecomer.models.engine.hyperparameters import count, number, size
from latecomer.models.engine.local_steps import LocalSGD
from latecomer.models.engine.method import Finish, Personalization, Start
from latecomer.models.engine.newcomers import NewcomersGet
from latecomer.models.engine.schedule import Cohort
from latecomer.models.families.trained_newcomers import FineTuned
from latecomer.models.task.clients import Clients
from latecomer.models.task.state import Params, State, gather, repeat, row
from latecomer.models.task.task import Task


@dataclass(frozen=True, kw_only=True)
class Local(FineTuned):
    """Training without a federation, the baseline for every other method.

    A seen client's model is trained further whenever the client is drawn; a new client trains one
    from random weights. Where a round is chosen by validation, seen clients have that round's
    models, new clients those of their last step.

    Attributes
    ----------
    local_lr, local_momentum, local_weight_decay, clip_norm : float
        The local step.
    novel_lr : float or None
        Rate of training a new client; None: ``local_lr``.
    novel_steps, novel_batch_size : int
        Local steps of a new client (pFedHN's baseline: 2000) and their batch size.
    """

    local_lr: float = number(5e-3, above=0)
    local_momentum: float = number(0.9, least=0, below=1)
    local_weight_decay: float = number(5e-5, least=0)
    clip_norm: float = number(50.0, above=0)
    novel_lr: float | None = number(None, above=0)
    novel_steps: int = count(2000)
    novel_batch_size: int = size(32)

    name: ClassVar[str] = "local"
    called: ClassVar[str] = "Local training"
    paper: ClassVar[str] = "baseline"
    look: ClassVar[int | None] = 4
    learns_alone: ClassVar[bool] = True
    personalization: ClassVar[Personalization] = "local"
    needs_labels: ClassVar[bool] = True
    newcomers_get: ClassVar[NewcomersGet] = "own weights"
    deviations: ClassVar[tuple[tuple[str, str, str], ...]] = (
        (
            "paper and code",
            "Momentum begins anew every epoch. Seen clients have the epoch that validation picks, "
            "new clients the last one, which works against new clients.",
            "not known",
        ),
    )

    @property
    def local(self) -> LocalSGD:
        """The rule of a local step."""
        return LocalSGD(self.local_lr, self.local_momentum, self.local_weight_decay, self.clip_norm)

    def init(self, task: Task, clients: Clients, first: Cohort, generator: Generator) -> State:
        """Give every client the same random weights."""
        weights = repeat(task.initial(generator), len(clients))
        return State({}, {key: value.contiguous() for key, value in weights.items()})

    def start(
        self, task: Task, state: State, clients: Clients, cohort: Cohort, generator: Generator
    ) -> Start:
        """Go on from each client's own weights."""
        return Start(gather(state.clients, cohort.members))

    def finish(
        self, task: Task, state: State, cohort: Cohort, start: Start, final: Params
    ) -> Finish:
        """Keep the weights, send nothing."""
        return Finish(uploads={}, kept=final)

    def aggregate(
        self, task: Task, state: State, cohort: Cohort, start: Start, uploads: Params
    ) -> State:
        """Leave everything as it is."""
        return state

    def own_model(self, task: Task, state: State, index: int) -> Params:
        """Return the client's own model."""
        return row(state.clients, index)

    def begun(self, task: Task, state: State, generator: Generator) -> Params:
        """Return fresh weights."""
        return task.initial(generator)

    def tuning(self, task: Task, state: State) -> Tuning:
        """Return how a new client trains a model of its own."""
        rule = self.local.at(self.novel_lr)
        return Tuning(rule, self.novel_steps, self.novel_batch_size)
