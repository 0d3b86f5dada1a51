"""LG-FedAvg: local bodies under one global head."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Generator, Tensor

from latecomer.models.engine.fine_tuning import Tuning
from latecomer.models.engine.hyperparameters import count, number, size
from latecomer.models.engine.method import Finish, Personalization, Start
from latecomer.models.engine.newcomers import NewcomersGet
from latecomer.models.engine.schedule import Cohort, Phase
from latecomer.models.families.global_weights import AveragedWeights
from latecomer.models.families.trained_newcomers import FineTuned
from latecomer.models.task.clients import Clients
from latecomer.models.task.heads import body_names, head_names, join
from latecomer.models.task.state import Params, State, gather, part, repeat, row, subtract
from latecomer.models.task.task import Task


@dataclass(frozen=True, kw_only=True)
class LGFedAvg(FineTuned, AveragedWeights):
    """LG-FedAvg (Liang et al., 2020): FedAvg first; then own bodies train under a global head.

    In the second phase a client's body starts from FedAvg's, trains whenever the client is drawn
    and stays with it, and the head alone is averaged. A new client trains the mean of the seen
    clients' bodies under the frozen head: ours, the published code has an ensemble of local models.

    Attributes
    ----------
    local_share : float
        Share of the rounds that the second phase takes (published: 1000 after 5000); at 0
        seen clients are served as by FedAvg.
    head_layers : int
        Number of last layers that are the head.
    novel_lr : float or None
        Rate of training a new client; None: ``local_lr``.
    novel_steps, novel_batch_size : int
        Steps of a new client's body, 0 for none, and their batch size.
    local_lr, local_momentum, local_weight_decay, clip_norm : float
        The local step.
    """

    local_share: float = number(1 / 6, least=0, below=1)
    head_layers: int = count(1)
    novel_lr: float | None = number(None, above=0)
    novel_steps: int = count(50, least=0)
    novel_batch_size: int = size(32)

    name: ClassVar[str] = "lg_fedavg"
    called: ClassVar[str] = "LG-FedAvg"
    paper: ClassVar[str] = "Liang et al., 2020, arXiv:2001.01523"
    cites: ClassVar[tuple[str, ...]] = ("liang2020",)
    look: ClassVar[int | None] = 10
    personalization: ClassVar[Personalization] = "finetune"
    needs_labels: ClassVar[bool] = True
    newcomers_get: ClassVar[NewcomersGet] = "own weights"
    deviations: ClassVar[tuple[tuple[str, str, str], ...]] = (
        (
            "code",
            "A new client trains the mean of the seen clients' bodies under the frozen head (there "
            "unknown clients are served by an ensemble of local models).",
            "yes, by how much is not known: it alone makes a new client's model",
        ),
        (
            "code",
            "The head is one layer (the script keeps two), its mean is weighted by support sizes "
            "(there equally), momentum is .9 (there .5).",
            "not known",
        ),
        (
            "code",
            "One model a client is served; the authors keep each client's best net by test "
            "accuracy.",
            "yes, by how much is not known: theirs is optimistic",
        ),
    )

    def phases(self, task: Task) -> tuple[Phase, ...]:
        """Return FedAvg's rounds and the local ones."""
        return (Phase("global", 1 - self.local_share), Phase("local", self.local_share))

    def init(self, task: Task, clients: Clients, first: Cohort, generator: Generator) -> State:
        """Return random global weights, and clients that have no body of their own yet."""
        state = super().init(task, clients, first, generator)
        shape = {name: task.shapes[name] for name in body_names(task, self.head_layers)}
        if "has_body" in shape:
            raise ValueError(
                "target must name no parameter of its own has_body for lg_fedavg, which keeps that "
                "beside a client's body; inside a module it may"
            )
        bodies = {k: torch.zeros(len(clients), *v, dtype=task.dtype) for k, v in shape.items()}
        bodies["has_body"] = torch.zeros(len(clients), dtype=torch.bool)
        return State(state.server, bodies)

    def start(
        self, task: Task, state: State, clients: Clients, cohort: Cohort, generator: Generator
    ) -> Start:
        """Send the global weights; in the second phase clients put their own body under them."""
        sent = repeat(part(state.server, "target"), len(cohort))
        if cohort.phase == "global":
            return Start(sent)
        return Start(join(task, sent, self._bodies(task, state, cohort.members)))

    def finish(
        self, task: Task, state: State, cohort: Cohort, start: Start, final: Params
    ) -> Finish:
        """Upload all changes in the first phase; in the second the head's, and keep the body."""
        if cohort.phase == "global":
            return Finish(uploads=subtract(final, start.params))
        head = {name: final[name] for name in head_names(task, self.head_layers)}
        body = {name: final[name] for name in body_names(task, self.head_layers)}
        owned = torch.ones_like(cohort.members, dtype=torch.bool)
        return Finish(uploads=subtract(head, start.params), kept={**body, "has_body": owned})

    def own_model(self, task: Task, state: State, index: int) -> Params:
        """Return the client's body, or FedAvg's before it has one, under the global head."""
        only = torch.tensor([index], device=state.clients["has_body"].device)
        return join(task, part(state.server, "target"), row(self._bodies(task, state, only), 0))

    def begun(self, task: Task, state: State, generator: Generator) -> Params:
        """Return the mean body under the global head."""
        shared, has_body = part(state.server, "target"), state.clients["has_body"]
        bodies = self._bodies(task, state, torch.arange(len(has_body), device=has_body.device))
        # Averaged as changes: the mean of bodies that never moved is then exactly the shared one.
        mean = {
            name: shared[name] + (own - shared[name]).mean(dim=0) for name, own in bodies.items()
        }
        return join(task, shared, mean)

    def tuning(self, task: Task, state: State) -> Tuning:
        """Return the training of the body under the frozen head."""
        body, rule = body_names(task, self.head_layers), self.local.at(self.novel_lr)
        return Tuning(rule, self.novel_steps, self.novel_batch_size, body)

    def _bodies(self, task: Task, state: State, members: Tensor) -> Params:
        kept, shared = gather(state.clients, members), part(state.server, "target")

        def chosen(name: str) -> Tensor:
            owned = kept["has_body"].view(-1, *(1,) * len(task.shapes[name]))
            return torch.where(owned, kept[name], shared[name])

        return {name: chosen(name) for name in body_names(task, self.head_layers)}
