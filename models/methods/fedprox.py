"""FedProx: FedAvg whose clients are held near the global model."""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from latecomer.models.engine.hyperparameters import number
from latecomer.models.engine.method import Context, Personalization
from latecomer.models.engine.newcomers import NewcomersGet
from latecomer.models.families.global_weights import AveragedWeights
from latecomer.models.task.client_axis import Entropy
from latecomer.models.task.clients import Samples
from latecomer.models.task.objectives import half_squared_distance, half_squared_distances
from latecomer.models.task.state import Params, add
from latecomer.models.task.task import Task


@dataclass(frozen=True, kw_only=True)
class FedProx(AveragedWeights):
    """FedProx (Li et al., 2020): a client minimises ``L(w; S) + mu / 2 * |w - w_global|^2``.

    Every client, seen or not, is served the global model; labels are not needed for that.

    Attributes
    ----------
    mu : float
        Strength of the pull (in the code that OD-PFL names .001); at 0 the method is FedAvg.
    local_lr, local_momentum, local_weight_decay, clip_norm : float
        The local step, as in FedAvg.
    """

    mu: float = number(0.01, least=0)

    name: ClassVar[str] = "fedprox"
    called: ClassVar[str] = "FedProx"
    paper: ClassVar[str] = "Li et al., MLSys 2020"
    cites: ClassVar[tuple[str, ...]] = ("li2020",)
    look: ClassVar[int | None] = 11
    personalization: ClassVar[Personalization] = "global"
    needs_labels: ClassVar[bool] = False
    newcomers_get: ClassVar[NewcomersGet] = "the one model"
    least_support: ClassVar[int] = 0
    deviations: ClassVar[tuple[tuple[str, str, str], ...]] = (
        (
            "code",
            "The pull is part of the gradient that is clipped, and steps have momentum .9 (in the "
            "authors' code plain steps with the pull as a proximal term).",
            "not known",
        ),
        (
            "code",
            "mu is .01; the settings that OD-PFL's supplement names are mu .001, rate .01, batches "
            "of 64, 20 epochs, momentum .9 and decay 1e-4 (variant supplement of odpfl-table1).",
            "yes, by how much is not known: {published odpfl-table1-500-rounds}",
        ),
    )

    def objective(
        self, task: Task, params: Params, context: Context, batches: tuple[Samples, ...], step: int
    ) -> Tensor:
        """Return the loss on the minibatch, and the pull towards the weights that were sent."""
        loss = task.loss(params, batches[0].x, batches[0].labels())
        return loss + self.mu * half_squared_distance(params, context.shared)

    def cohort_slopes(
        self, params: Params, context: Context, batches: tuple[Samples, ...], entropy: Entropy
    ) -> tuple[Tensor, Params]:
        """Return the objective of every client, and its gradient."""
        losses, slopes = entropy(params, batches[0])
        pull = {key: self.mu * (value - context.shared[key]) for key, value in params.items()}
        distances = half_squared_distances(params, context.shared)
        return losses + self.mu * distances, add(slopes, pull)
