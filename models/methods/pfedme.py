"""pFedMe: personal models tied to the global one by a Moreau envelope."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import torch
from torch import Generator, Tensor

from latecomer.models.engine.fine_tuning import Tuning
from latecomer.models.engine.hyperparameters import choice, count, number, size
from latecomer.models.engine.local_steps import UNCLIPPED, LocalSGD
from latecomer.models.engine.method import Context, Finish, Start
from latecomer.models.engine.newcomers import NewcomersGet
from latecomer.models.engine.schedule import Cohort
from latecomer.models.families.global_weights import GlobalWeights
from latecomer.models.families.trained_newcomers import FineTuned
from latecomer.models.task.client_axis import Entropy
from latecomer.models.task.clients import Clients, Samples
from latecomer.models.task.objectives import half_squared_distance, half_squared_distances
from latecomer.models.task.state import Params, State, detached, nest, part, row, subtract
from latecomer.models.task.task import Task

_KEPT, _OWN = "theta_i", "theta_i."  # Sections kept, and beside w: no module's name has a dot.


@dataclass(frozen=True, kw_only=True)
class PFedMe(FineTuned, GlobalWeights):
    r"""pFedMe (Dinh, Tran, Nguyen, 2020).

    A client's copy ``w`` and its personal ``theta`` both begin a round at the global weights. In a
    local step ``theta`` takes ``inner_steps`` further steps of
    ``theta -= inner_lr * (gradient + lam * (theta - w) + inner_weight_decay * theta)`` on the
    minibatch, towards ``min_theta L(theta; D) + lam / 2 |theta - w|^2``; then ``w`` descends that
    Moreau envelope, ``w -= local_lr * lam * (w - theta)``. The server moves a share ``beta`` of
    the way to the cohort's mean ``w``; no step has momentum or clipping.

    The cohort alone trains (in the published code all clients do); ``thetas`` says what a seen
    client is served; SGD on its support finds a new client the ``theta`` of the global weights.

    Attributes
    ----------
    lam, beta : float
        Strength of the tie; step of the server.
    inner_steps, inner_lr, inner_weight_decay, local_lr : int, float, float, float
        Steps of ``theta``, and of ``w``; either rate times ``lam`` should stay below 1.
    thetas : str
        ``kept`` serves a seen client the ``theta`` its last round ended with, tied to the weights
        of that round; ``refit`` fits it to the present global weights, as a new client's is: nearer
        to the published code, at ``finetune_steps`` steps a client and check.
    novel_lr, finetune_steps, finetune_batch_size, clip_norm : float or None, int, int, float
        Of fitting a ``theta`` by plain SGD when a client is served: rate (None: ``inner_lr``),
        steps (published: 20 epochs, 260 for 100 clients of CIFAR-10), batch size and clipping.
    """

    lam: float = number(15.0, above=0)
    inner_steps: int = count(3)
    inner_lr: float = number(0.01, above=0)
    inner_weight_decay: float = number(1e-3, least=0)
    local_lr: float = number(5e-3, above=0)
    beta: float = number(1.0, above=0)
    thetas: str = choice("kept", "refit")
    novel_lr: float | None = number(None, above=0)
    finetune_steps: int = count(260, least=0)
    finetune_batch_size: int = size(32)
    clip_norm: float = number(50.0, above=0)
    name: ClassVar[str] = "pfedme"
    called: ClassVar[str] = "pFedMe"
    paper: ClassVar[str] = "Dinh, Tran, Nguyen, NeurIPS 2020"
    cites: ClassVar[tuple[str, ...]] = ("dinh2020",)
    look: ClassVar[int | None] = 13
    personalization = "finetune"
    needs_labels: ClassVar[bool] = True
    newcomers_get: ClassVar[NewcomersGet] = "own weights"
    numbers_version: ClassVar[int] = 2
    deviations: ClassVar[tuple[tuple[str, str, str], ...]] = (
        (
            "code",
            "Only the cohort trains; in the code all clients do, and the mean is over the selected "
            "ones. A client that a round does not draw keeps its theta, on average as many rounds "
            "old as there are cohorts, tied to global weights that have moved on (thetas refit "
            "fits it to the present ones, which takes more steps than training does).",
            "yes: {moved digits-pfedme-refit digits-all-methods}",
        ),
        (
            "paper and code",
            "A new client's theta takes finetune_steps plain steps on its whole support.",
            "yes, by how much is not known: it alone makes a new client's model",
        ),
    )

    @property
    def local(self) -> LocalSGD:
        """The rule of a local step: ``w`` and ``theta`` move by the objective's gradients."""
        return LocalSGD(self.local_lr, momentum=0.0, weight_decay=0.0, clip=UNCLIPPED)

    def init(self, task: Task, clients: Clients, first: Cohort, generator: Generator) -> State:
        """Return random global weights, and clients that have no ``theta`` yet."""
        n, state = len(clients), super().init(task, clients, first, generator)
        thetas = {k: torch.zeros(n, *shape, dtype=task.dtype) for k, shape in task.shapes.items()}
        return State(state.server, nest(_KEPT, thetas) | {"has_theta": torch.zeros(n) > 0})

    def start(
        self, task: Task, state: State, clients: Clients, cohort: Cohort, generator: Generator
    ) -> Start:
        """Send the global weights, where every ``w`` and every ``theta`` begins."""
        sent = super().start(task, state, clients, cohort, generator).params
        return Start(sent | nest(_OWN, sent))

    def objective(
        self, task: Task, params: Params, context: Context, batches: tuple[Samples, ...], step: int
    ) -> Tensor:
        """Return the envelope at ``w``, plus a 0 whose gradient moves ``theta`` by its steps."""
        x, y, moving = batches[0].x, batches[0].labels(), part(params, _OWN)
        w, here = {name: params[name] for name in moving}, detached(moving)
        loss = partial(task.loss, x=x, y=y)
        theta = self._inner_steps(here, detached(w), partial(context.gradients, loss))
        way = [((here[k] - theta[k]) * (v - here[k])).sum() for k, v in moving.items()]
        tie = self.lam * half_squared_distance(w, theta)
        return loss(theta) + tie + torch.stack(way).sum() / self.local_lr

    def cohort_slopes(
        self, params: Params, context: Context, batches: tuple[Samples, ...], entropy: Entropy
    ) -> tuple[Tensor, Params]:
        """Return the envelope of every client at ``w``, and the way of ``theta`` as a gradient."""
        here = part(params, _OWN)
        w = {name: params[name] for name in here}
        theta = self._inner_steps(here, w, lambda at: entropy(at, batches[0])[1])
        losses = entropy(theta, batches[0])[0] + self.lam * half_squared_distances(w, theta)
        way = {k: (here[k] - value) / self.local_lr for k, value in theta.items()}
        return losses, {k: self.lam * (w[k] - theta[k]) for k in w} | nest(_OWN, way)

    def _inner_steps(self, theta: Params, w: Params, of: Callable[[Params], Params]) -> Params:
        """Return ``theta`` after steps on a loss, whose gradient is ``of``, with tie and decay."""
        for _ in range(self.inner_steps):
            slopes, decay = of(theta), self.inner_weight_decay
            slopes = {k: slopes[k] + self.lam * (v - w[k]) + decay * v for k, v in theta.items()}
            theta = {k: v - self.inner_lr * slopes[k].detach() for k, v in theta.items()}
        return theta

    def finish(
        self, task: Task, state: State, cohort: Cohort, start: Start, final: Params
    ) -> Finish:
        """Upload the change of ``w``, keep ``theta``."""
        personal = nest(_KEPT, part(final, _OWN)) | {"has_theta": cohort.members >= 0}
        return Finish(subtract({name: final[name] for name in task.shapes}, start.params), personal)

    def aggregate(
        self, task: Task, state: State, cohort: Cohort, start: Start, uploads: Params
    ) -> State:
        """Move a share ``beta`` of the way to the cohort's mean."""
        scaled = {name: self.beta * value for name, value in uploads.items()}
        return super().aggregate(task, state, cohort, start, scaled)

    def own_model(self, task: Task, state: State, index: int) -> Params | None:
        """Return the client's own ``theta``, if it ever trained and is not to be fitted anew."""
        kept = self.thetas == "kept" and state.clients["has_theta"][index]
        return row(part(state.clients, _KEPT), index) if kept else None

    def tuning(self, task: Task, state: State) -> Tuning:
        """Return the training of a ``theta`` tied to the global weights."""
        rule = LocalSGD(self.inner_lr, momentum=0.0, clip=self.clip_norm).at(self.novel_lr)
        tie = partial(half_squared_distance, centre=part(state.server, "target"), times=self.lam)
        return Tuning(rule, self.finetune_steps, self.finetune_batch_size, penalty=tie)
