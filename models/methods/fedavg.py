"""FedAvg: one global model, the average of what the cohort trained."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from latecomer.models.engine.method import Personalization
from latecomer.models.engine.newcomers import NewcomersGet
from latecomer.models.families.global_weights import AveragedWeights
from latecomer.models.task.clients import Samples
from latecomer.models.task.state import Params, part
from latecomer.models.task.task import Task


@dataclass(frozen=True, kw_only=True)
class FedAvg(AveragedWeights):
    """Federated averaging (McMahan et al., 2017), weighted by support sizes.

    Every client, seen or not, is served the global model; labels are not needed for that.

    Attributes
    ----------
    local_lr, local_momentum, local_weight_decay, clip_norm : float
        The local step; the values are those of pFedHN's own local step. Both pFedHN's and PeFLL's
        authors searched rates for FedAvg and give none.
    """

    name: ClassVar[str] = "fedavg"
    called: ClassVar[str] = "FedAvg"
    paper: ClassVar[str] = "McMahan et al., AISTATS 2017"
    cites: ClassVar[tuple[str, ...]] = ("mcmahan2017",)
    look: ClassVar[int | None] = 2
    personalization: ClassVar[Personalization] = "global"
    needs_labels: ClassVar[bool] = False
    newcomers_get: ClassVar[NewcomersGet] = "the one model"
    least_support: ClassVar[int] = 0
    deviations: ClassVar[tuple[tuple[str, str, str], ...]] = (
        (
            "paper",
            "Momentum, decay and clipping in the local step, and rates, are those of pFedHN's own "
            "local step; batches are drawn at random, and epochs are not counted.",
            "not known",
        ),
    )

    def weights_for(self, task: Task, table: Mapping[str, Tensor], support: Samples) -> Params:
        """Return the global weights, whoever is served."""
        return part(table, "target")
