"""pFedMe: personal models tied to the global one by a Moreau envelope."""

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import torch
from torch import Generator, Tensor

from latecomer.models.hyperparameters import count, number
from latecomer.models.local import LocalSGD, fine_tune
from latecomer.models.method import (
    Context,
    Finish,
    Method,
    Personalization,
    Predictor,
    Start,
    predict_with,
)
from latecomer.models.objectives import half_squared_distance
from latecomer.models.schedule import Cohort
from latecomer.models.state import (
    Params,
    State,
    add,
    detached,
    nest,
    part,
    repeat,
    row,
    subtract,
    weighted_mean,
)
from latecomer.models.task import Clients, Samples, Task

_OWN = "theta_i"
"""Section of a client's personal weights, beside those of its ``w``."""

_UNCLIPPED = 1e30
"""A gradient norm that is never reached, and still a float32."""


@dataclass(frozen=True, kw_only=True)
class PFedMe(Method):
    r"""pFedMe (Dinh, Tran, Nguyen, 2020).

    A client holds a copy ``w`` of the global weights and a personal model ``theta``, which begins a
    round at ``w``. In a local step ``theta`` goes on from where it is by ``inner_steps`` steps
    ``theta -= inner_lr * (gradient + lam * (theta - w) + inner_weight_decay * theta)`` on the
    minibatch, towards ``min_theta L(theta; D) + lam / 2 |theta - w|^2``; then ``w`` moves along the
    gradient of that Moreau envelope, ``w -= local_lr * lam * (w - theta)``. The server goes
    ``beta`` of the way to the cohort's mean ``w``. As in the published code steps know neither
    momentum nor clipping.

    A client that trained is served the ``theta`` that its last round ended with. One that was never
    drawn has none and is served like a newcomer: by the ``theta`` that SGD on its whole support
    finds for the global weights, as PeFLL's authors serve newcomers.

    Departures from the published code: there all clients train in every round and some of them
    are averaged, here the cohort alone trains, so that a ``theta`` is as old as its client's last
    round.

    Attributes
    ----------
    lam : float
        Strength of the tie.
    inner_steps, inner_lr, inner_weight_decay : int, float, float
        Steps of ``theta``; ``inner_lr * lam`` should stay below 1.
    local_lr : float
        Step of ``w``; ``local_lr * lam`` should stay below 1.
    beta : float
        Step of the server.
    novel_lr : float or None
        Rate of serving a newcomer by plain SGD; None: ``inner_lr``.
    finetune_steps, finetune_batch_size : int
        Its steps (published: 20 epochs, 260 steps for 100 clients of CIFAR-10) and batch size.
    clip_norm : float
        Largest norm of a newcomer's gradient.
    """

    lam: float = number(15.0, above=0)
    inner_steps: int = count(3)
    inner_lr: float = number(0.01, above=0)
    inner_weight_decay: float = number(1e-3, least=0)
    local_lr: float = number(5e-3, above=0)
    beta: float = number(1.0, above=0)
    novel_lr: float | None = number(None, above=0)
    finetune_steps: int = count(260, least=0)
    finetune_batch_size: int = count(32)
    clip_norm: float = number(50.0, above=0)

    name: ClassVar[str] = "pfedme"
    paper: ClassVar[str] = "Dinh, Tran, Nguyen, NeurIPS 2020"
    personalization: ClassVar[Personalization] = "finetune"
    needs_labels: ClassVar[bool] = True
    numbers_version: ClassVar[int] = 2

    @property
    def local(self) -> LocalSGD:
        """The rule of a local step: ``w`` and ``theta`` move as the objective's slopes say."""
        return LocalSGD(self.local_lr, momentum=0.0, weight_decay=0.0, clip=_UNCLIPPED)

    def init(self, task: Task, clients: Clients, first: Cohort, generator: Generator) -> State:
        """Return random global weights, and clients that have no ``theta`` yet."""
        n_clients, shapes = len(clients), task.shapes.items()
        own = {key: torch.zeros(n_clients, *shape, dtype=task.dtype) for key, shape in shapes}
        trained = {"has_theta": torch.zeros(n_clients, dtype=torch.bool)}
        return State(nest("target", task.initial(generator)), nest(_OWN, own) | trained)

    def start(
        self, task: Task, state: State, clients: Clients, cohort: Cohort, generator: Generator
    ) -> Start:
        """Send the global weights, where every ``w`` and every ``theta`` begins."""
        sent = repeat(part(state.server, "target"), len(cohort))
        return Start(sent | nest(_OWN, sent))

    def objective(
        self,
        task: Task,
        params: Params,
        context: Context,
        batches: tuple[Samples, ...],
        step: int,
    ) -> Tensor:
        """Return the envelope at ``w``, with slopes that move ``theta`` where its steps lead.

        What is added for ``theta`` is 0 whatever ``theta`` is; its slope times ``local_lr`` is the
        way from ``theta`` to where it goes.
        """
        x, y = batches[0].x, batches[0].labels()
        w = {name: params[name] for name in task.shapes}
        moving, centre = part(params, _OWN), detached(w)
        theta = here = detached(moving)
        for _ in range(self.inner_steps):
            slopes = context.gradients(lambda p: task.loss(p, x, y), theta)
            theta = {k: self._towards(v, centre[k], slopes[k]).detach() for k, v in theta.items()}
        way = [((here[k] - theta[k]) * (v - here[k])).sum() for k, v in moving.items()]
        tie = self.lam * half_squared_distance(w, theta)
        return task.loss(theta, x, y) + tie + torch.stack(way).sum() / self.local_lr

    def _towards(self, theta: Tensor, centre: Tensor, slope: Tensor) -> Tensor:
        """Return one weight of ``theta`` after an inner step."""
        pull = self.lam * (theta - centre) + self.inner_weight_decay * theta
        return theta - self.inner_lr * (slope + pull)

    def finish(
        self, task: Task, state: State, cohort: Cohort, start: Start, final: Params
    ) -> Finish:
        """Upload the change of ``w``, keep ``theta``."""
        moved = subtract({name: final[name] for name in task.shapes}, start.params)
        trained = {"has_theta": torch.ones_like(cohort.members, dtype=torch.bool)}
        return Finish(uploads=moved, kept=nest(_OWN, part(final, _OWN)) | trained)

    def aggregate(
        self, task: Task, state: State, cohort: Cohort, start: Start, uploads: Params
    ) -> State:
        """Go ``beta`` of the way to the cohort's mean, weighted by support sizes."""
        mean = {k: self.beta * v for k, v in weighted_mean(uploads, cohort.sizes).items()}
        return State(nest("target", add(part(state.server, "target"), mean)), state.clients)

    def serve(
        self,
        task: Task,
        state: State,
        index: int,
        support: Samples,
        *,
        predictor: str = "deterministic",
        generator: Generator,
    ) -> Predictor:
        """Return the client's own ``theta``; a client that never trained is a newcomer."""
        self.refuse_predictor(predictor)
        if not state.clients["has_theta"][index]:
            return self.personalize(task, state, support, generator=generator)
        return predict_with(task, row(part(state.clients, _OWN), index))

    def personalize(
        self,
        task: Task,
        state: State,
        support: Samples,
        *,
        predictor: str = "deterministic",
        generator: Generator,
    ) -> Predictor:
        """Find the client's ``theta`` for the global weights."""
        self.refuse_predictor(predictor)
        weights = part(state.server, "target")
        rule = LocalSGD(self.inner_lr, momentum=0.0, clip=self.clip_norm).at(self.novel_lr)
        steps, size = self.finetune_steps, self.finetune_batch_size
        tie = partial(_tie, self.lam, weights)
        tuned = fine_tune(task, weights, support, rule, steps, size, generator, penalty=tie)
        return predict_with(task, tuned)


def _tie(lam: float, centre: Params, theta: Params) -> Tensor:
    return lam * half_squared_distance(theta, centre)
