"""pFedMe: personal models tied to the global one by a Moreau envelope."""

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from torch import Generator, Tensor

from latecomer.models.averaged_weights import AveragedWeights
from latecomer.models.hyperparameters import count, number
from latecomer.models.local import LocalSGD, fine_tune
from latecomer.models.method import Context, Personalization, Predictor, Start, predict_with
from latecomer.models.objectives import half_squared_distance
from latecomer.models.schedule import Cohort
from latecomer.models.state import Params, State, detached, part
from latecomer.models.task import Samples, Task


@dataclass(frozen=True, kw_only=True)
class PFedMe(AveragedWeights):
    r"""pFedMe (Dinh, Tran, Nguyen, 2020).

    A local step moves the client's copy ``w`` of the global weights along the gradient
    ``lam * (w - theta)`` of its Moreau envelope ``min_theta L(theta; D) + lam / 2 |theta - w|^2``;
    ``theta`` is found by ``inner_steps`` gradient steps from ``w`` on the minibatch. The server
    goes ``beta`` of the way to the cohort's mean. Every client, seen or not, is served the
    ``theta`` that SGD on its whole support finds for the global weights.

    With ``inner_steps=1``, ``inner_lr=1/lam`` and ``beta=1`` training is FedAvg's, up to rounding.

    Attributes
    ----------
    lam : float
        Strength of the tie.
    inner_steps, inner_lr : int, float
        Gradient steps to ``theta``; ``inner_lr * lam`` should stay below 1.
    beta : float
        Step of the server.
    finetune_steps, finetune_batch_size : int
        Steps of serving (published: 20 epochs, 260 steps for 100 clients of CIFAR-10), of
        plain SGD with ``inner_lr``, and their batch size.
    local_lr, local_momentum, local_weight_decay, clip_norm : float
        The local step.
    """

    lam: float = number(15.0, above=0)
    inner_steps: int = count(3)
    inner_lr: float = number(0.01, above=0)
    beta: float = number(1.0, above=0)
    finetune_steps: int = count(260, least=0)
    finetune_batch_size: int = count(32)

    name: ClassVar[str] = "pfedme"
    paper: ClassVar[str] = "Dinh, Tran, Nguyen, NeurIPS 2020"
    personalization: ClassVar[Personalization] = "finetune"
    needs_labels: ClassVar[bool] = True

    def objective(
        self,
        task: Task,
        params: Params,
        context: Context,
        batches: tuple[Samples, ...],
        step: int,
    ) -> Tensor:
        """Return the envelope at ``params``, whose gradient is ``lam * (params - theta)``."""
        x, y = batches[0].x, batches[0].labels()
        centre = detached(params)

        def tied(theta: Params) -> Tensor:
            return task.loss(theta, x, y) + self.lam * half_squared_distance(theta, centre)

        theta = centre
        for _ in range(self.inner_steps):
            slopes = context.gradients(tied, theta)
            theta = {k: (v - self.inner_lr * slopes[k]).detach() for k, v in theta.items()}
        return task.loss(theta, x, y) + self.lam * half_squared_distance(params, theta)

    def aggregate(
        self, task: Task, state: State, cohort: Cohort, start: Start, uploads: Params
    ) -> State:
        """Go ``beta`` of the way to the cohort's mean."""
        scaled = {name: self.beta * value for name, value in uploads.items()}
        return super().aggregate(task, state, cohort, start, scaled)

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
        rule = LocalSGD(self.inner_lr, momentum=0.0, clip=self.clip_norm)
        steps, size = self.finetune_steps, self.finetune_batch_size
        tie = partial(_tie, self.lam, weights)
        tuned = fine_tune(task, weights, support, rule, steps, size, generator, penalty=tie)
        return predict_with(task, tuned)


def _tie(lam: float, centre: Params, theta: Params) -> Tensor:
    return lam * half_squared_distance(theta, centre)
