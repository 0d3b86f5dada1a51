"""Ditto: a global model, and personal ones held near it."""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from latecomer.models.engine.fine_tuning import Tuning
from latecomer.models.engine.hyperparameters import number
from latecomer.models.engine.method import Context, Personalization
from latecomer.models.engine.newcomers import NewcomersGet
from latecomer.models.families.global_weights import OWN, PersonalWeights, own_weights
from latecomer.models.task.client_axis import Entropy
from latecomer.models.task.clients import Samples
from latecomer.models.task.objectives import half_squared_distance, half_squared_distances
from latecomer.models.task.state import Params, State, nest, part
from latecomer.models.task.task import Task


@dataclass(frozen=True, kw_only=True)
class Ditto(PersonalWeights):
    r"""Ditto (Li, Hu, Beirami, Smith, 2021), Algorithm 1, with FedAvg for the global problem.

    A drawn client trains its copy of the global weights ``w`` as in FedAvg and goes on training its
    own ``v`` towards ``min_v L(v; S) + lam / 2 |v - w|^2``, in steps
    ``v -= local_lr * (gradient of L(v) + lam * (v - w))`` with the ``w`` that was sent. Only the
    change of ``w`` is uploaded. With ``lam=0`` seen clients are served what training alone yields.

    A new client, which the paper does not cover, takes ``finetune_steps`` steps on the same
    objective from ``v = w``. As in the published code ``v`` takes as many steps as ``w``, at the
    same rate and on the same minibatches. Unlike there, both have the momentum, weight decay and
    clipping of the local step (published: none), and the server weights changes by support sizes
    (published: clients are drawn by size, and weighted equally).

    Attributes
    ----------
    lam : float
        Strength of the tie (published code: 1; its candidates for every client: 0.1, 1, 2).
    local_lr, local_momentum, local_weight_decay, clip_norm, novel_lr, finetune_steps,
    finetune_batch_size
        As for :class:`~latecomer.models.families.global_weights.PersonalWeights`.
    """

    lam: float = number(1.0, least=0)

    name: ClassVar[str] = "ditto"
    called: ClassVar[str] = "Ditto"
    paper: ClassVar[str] = "Li, Hu, Beirami, Smith, ICML 2021"
    cites: ClassVar[tuple[str, ...]] = ("li2021",)
    look: ClassVar[int | None] = 19
    personalization: ClassVar[Personalization] = "finetune"
    needs_labels: ClassVar[bool] = True
    newcomers_get: ClassVar[NewcomersGet] = "own weights"
    deviations: ClassVar[tuple[tuple[str, str, str], ...]] = (
        (
            "code",
            "v and w have the momentum, decay and clipping of the local step (there none); changes "
            "are weighted by support sizes (there clients are drawn by size and count alike).",
            "not known",
        ),
        (
            "paper and code",
            "A new client, whom neither covers, takes finetune_steps steps from v = w.",
            "yes, by how much is not known: it alone makes a new client's model",
        ),
    )

    def objective(
        self, task: Task, params: Params, context: Context, batches: tuple[Samples, ...], step: int
    ) -> Tensor:
        """Return the loss at ``w``, and that at ``v`` with its tie to the weights sent."""
        x, y, v = batches[0].x, batches[0].labels(), part(params, OWN)
        w = {name: params[name] for name in task.shapes}
        tie = self.lam * half_squared_distance(v, context.shared)
        return task.loss(w, x, y) + task.loss(v, x, y) + tie

    def cohort_slopes(
        self, params: Params, context: Context, batches: tuple[Samples, ...], entropy: Entropy
    ) -> tuple[Tensor, Params]:
        """Return the objective of every client, and its gradient."""
        v = part(params, OWN)
        w = {name: params[name] for name in v}
        (at_w, of_w), (at_v, of_v) = entropy(w, batches[0]), entropy(v, batches[0])
        of_v = {k: slope + self.lam * (v[k] - context.shared[k]) for k, slope in of_v.items()}
        tie = self.lam * half_squared_distances(v, context.shared)
        return at_w + at_v + tie, of_w | nest(OWN, of_v)

    def served(self, task: Task, state: State, index: int) -> Params:
        """Return the client's ``v``."""
        return own_weights(state, index)

    def tuning(self, task: Task, state: State) -> Tuning:
        """Return the training of a ``v`` from the global weights, tied to them."""
        weights, rule = part(state.server, "target"), self.local.at(self.novel_lr)

        def tie(v: Params) -> Tensor:
            return self.lam * half_squared_distance(v, weights)

        return Tuning(rule, self.finetune_steps, self.finetune_batch_size, penalty=tie)
