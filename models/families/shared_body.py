"""What methods with a shared body and personal heads have in common."""

from abc import ABC
from dataclasses import dataclass

from torch import Generator

from latecomer.models.engine.fine_tuning import Tuning
from latecomer.models.engine.hyperparameters import count, number, size
from latecomer.models.engine.local_steps import LocalSGD
from latecomer.models.engine.method import Finish, Start
from latecomer.models.engine.newcomers import Messages, one_model
from latecomer.models.engine.schedule import Cohort
from latecomer.models.families.trained_newcomers import FineTuned
from latecomer.models.task.clients import Clients
from latecomer.models.task.heads import body_names, head_names, join
from latecomer.models.task.state import (
    Params,
    State,
    add,
    gather,
    nest,
    part,
    repeat,
    row,
    subtract,
    weighted_mean,
)
from latecomer.models.task.task import Task


@dataclass(frozen=True, kw_only=True)
class SharedBody(FineTuned, ABC):
    """One body for all, averaged as in FedAvg; every client keeps a head of its own.

    A seen client is served the head that its last round left it, on a body that has moved since; a
    new client trains a fresh head on the frozen body.

    Attributes
    ----------
    local_lr, local_momentum, local_weight_decay, clip_norm : float
        The local step.
    head_layers : int
        Number of last layers that are the head; at 0 the method is FedAvg.
    novel_lr : float or None
        Rate of training a new client; None: ``local_lr``.
    novel_steps, novel_batch_size : int
        Steps of a new client's head (PeFLL's A.2: 20 epochs, 260 steps for 100 clients of CIFAR-10)
        and their batch size.
    """

    local_lr: float = number(5e-3, above=0)
    local_momentum: float = number(0.9, least=0, below=1)
    local_weight_decay: float = number(5e-5, least=0)
    clip_norm: float = number(50.0, above=0)
    head_layers: int = count(1, least=0)
    novel_lr: float | None = number(None, above=0)
    novel_steps: int = count(260)
    novel_batch_size: int = size(32)

    @property
    def local(self) -> LocalSGD:
        """The rule of a local step."""
        return LocalSGD(self.local_lr, self.local_momentum, self.local_weight_decay, self.clip_norm)

    def init(self, task: Task, clients: Clients, first: Cohort, generator: Generator) -> State:
        """Draw random weights; all heads begin alike."""
        weights = task.initial(generator)
        head = {name: weights[name] for name in head_names(task, self.head_layers)}
        body = {name: weights[name] for name in body_names(task, self.head_layers)}
        heads = {k: v.contiguous() for k, v in repeat(head, len(clients)).items()}
        return State(nest("body", body), heads)

    def start(
        self, task: Task, state: State, clients: Clients, cohort: Cohort, generator: Generator
    ) -> Start:
        """Send the body; every client puts its own head on it."""
        body = repeat(part(state.server, "body"), len(cohort))
        return Start(join(task, body, gather(state.clients, cohort.members)))

    def finish(
        self, task: Task, state: State, cohort: Cohort, start: Start, final: Params
    ) -> Finish:
        """Upload the change of the body, keep the head."""
        body = {name: final[name] for name in body_names(task, self.head_layers)}
        head = {name: final[name] for name in head_names(task, self.head_layers)}
        return Finish(uploads=subtract(body, start.params), kept=head)

    def aggregate(
        self, task: Task, state: State, cohort: Cohort, start: Start, uploads: Params
    ) -> State:
        """Add the mean change of the body, weighted by support sizes."""
        mean = weighted_mean(uploads, cohort.sizes)
        return State(nest("body", add(part(state.server, "body"), mean)), state.clients)

    def own_model(self, task: Task, state: State, index: int) -> Params | None:
        """Return the body with the client's own head."""
        return join(task, part(state.server, "body"), row(state.clients, index))

    def begun(self, task: Task, state: State, generator: Generator) -> Params:
        """Return the body under a fresh head."""
        return join(task, task.initial(generator), part(state.server, "body"))

    def tuning(self, task: Task, state: State) -> Tuning:
        """Return the training of the head on the frozen body."""
        head, rule = head_names(task, self.head_layers), self.local.at(self.novel_lr)
        return Tuning(rule, self.novel_steps, self.novel_batch_size, head)

    def serving_messages(self, task: Task, state: State, n_support: int) -> Messages:
        """Return the body, sent once."""
        return one_model(task, body_names(task, self.head_layers))
