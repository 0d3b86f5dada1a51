"""FedBABU: a body learnt under a random head, which is trained only when a client is served."""

from dataclasses import dataclass
from typing import ClassVar

from torch import Generator

from latecomer.models.engine.fine_tuning import Tuning
from latecomer.models.engine.hyperparameters import choice, count
from latecomer.models.engine.method import Personalization, Start
from latecomer.models.engine.newcomers import Messages, NewcomersGet, one_model
from latecomer.models.engine.schedule import Cohort, Phase, Stage
from latecomer.models.families.trained_newcomers import SharedBody
from latecomer.models.task.clients import Clients
from latecomer.models.task.heads import body_names, head_names, join
from latecomer.models.task.state import Params, State, nest, part, row
from latecomer.models.task.task import Task


@dataclass(frozen=True, kw_only=True)
class FedBABU(SharedBody):
    """FedBABU (Oh, Kim, Yun, 2022), Algorithm 1: the body alone is updated and averaged.

    In a local step ``body -= local_lr * gradient of L(body, head)``; the head stays as it
    was drawn, the same for everyone, so it is sent once and never again. Every client, seen or not,
    is served the global model after ``novel_steps`` steps on its support, of the whole network or
    of the head. With ``head_layers=0`` and without those steps the method is FedAvg. In the
    published code the frozen head has rate 0, and clients are weighted equally; here they are
    weighted by support sizes.

    Attributes
    ----------
    finetuned : str
        What fine-tuning trains: ``whole`` or ``head``.
    local_lr, local_momentum, local_weight_decay, clip_norm : float
        The local step.
    head_layers : int
        Number of last layers that are the head (published: 1).
    novel_lr : float or None
        Rate of fine-tuning, of seen clients too; None: ``local_lr``.
    novel_steps, novel_batch_size : int
        Steps of fine-tuning, 0 for none (published: 5 epochs, 65 steps for 100 clients of
        CIFAR-10), and their batch size.
    """

    finetuned: str = choice("whole", "head")
    novel_steps: int = count(65, least=0)

    name: ClassVar[str] = "fedbabu"
    called: ClassVar[str] = "FedBABU"
    paper: ClassVar[str] = "Oh, Kim, Yun, ICLR 2022"
    cites: ClassVar[tuple[str, ...]] = ("oh2022",)
    look: ClassVar[int | None] = 23
    personalization: ClassVar[Personalization] = "finetune"
    needs_labels: ClassVar[bool] = True
    newcomers_get: ClassVar[NewcomersGet] = "own weights"
    deviations: ClassVar[tuple[tuple[str, str, str], ...]] = (
        (
            "code",
            "Clients are weighted by support sizes (there equally); the head is left out of the "
            "step (there its rate is 0).",
            "no, for clients of one size",
        ),
    )

    def phases(self, task: Task) -> tuple[Phase, ...]:
        """Return a single phase, in which the head is frozen."""
        return (Phase(stages=(Stage(body_names(task, self.head_layers)),)),)

    def init(self, task: Task, clients: Clients, first: Cohort, generator: Generator) -> State:
        """Draw random weights; server and clients hold the same head."""
        state = super().init(task, clients, first, generator)
        return State(state.server | nest("head", row(state.clients, 0)), state.clients)

    def aggregate(
        self, task: Task, state: State, cohort: Cohort, start: Start, uploads: Params
    ) -> State:
        """Add the mean change of the body, weighted by support sizes."""
        after = super().aggregate(task, state, cohort, start, uploads)
        return State(state.server | after.server, after.clients)

    def own_model(self, task: Task, state: State, index: int) -> Params | None:
        """Return None: no client has anything of its own."""
        return None

    def begun(self, task: Task, state: State, generator: Generator) -> Params:
        """Return the body under the random head."""
        return join(task, part(state.server, "head"), part(state.server, "body"))

    def tuning(self, task: Task, state: State) -> Tuning:
        """Return fine-tuning of the whole, or of the head on the frozen body."""
        trained = head_names(task, self.head_layers) if self.finetuned == "head" else None
        rule = self.local.at(self.novel_lr)
        return Tuning(rule, self.novel_steps, self.novel_batch_size, trained)

    def serving_messages(self, task: Task, state: State, n_support: int) -> Messages:
        """Return body and head: the head that none trains is the federation's."""
        return one_model(task)
