"""FedAvg, fine-tuned: the global model, trained further on the data of whoever is served."""

from dataclasses import dataclass
from typing import ClassVar

from latecomer.models.engine.fine_tuning import Tuning
from latecomer.models.engine.hyperparameters import count, number, size
from latecomer.models.engine.method import Personalization
from latecomer.models.engine.newcomers import NewcomersGet
from latecomer.models.families.global_weights import AveragedWeights
from latecomer.models.families.trained_newcomers import FineTuned
from latecomer.models.task.state import State
from latecomer.models.task.task import Task


@dataclass(frozen=True, kw_only=True)
class FedAvgFT(FineTuned, AveragedWeights):
    """FedAvg (McMahan et al., 2017, Algorithm 1) and local fine-tuning (Wang et al., 2019).

    Training is FedAvg. Every client, seen or not, is served the global model after
    ``finetune_steps`` local steps on its support; with 0 of them the method is FedAvg. Wang et al.
    choose rate and length on each client's held-out data; here they are settings, and ``novel_lr``
    may be chosen on seen clients.

    Attributes
    ----------
    local_lr, local_momentum, local_weight_decay, clip_norm : float
        The local step, in training and in fine-tuning.
    novel_lr : float or None
        Rate of fine-tuning, of seen clients too; None: ``local_lr``.
    finetune_steps, finetune_batch_size : int
        Steps of fine-tuning and their batch size.
    """

    novel_lr: float | None = number(None, above=0)
    finetune_steps: int = count(50, least=0)
    finetune_batch_size: int = size(32)

    name: ClassVar[str] = "fedavg_ft"
    called: ClassVar[str] = "FedAvg, fine-tuned"
    paper: ClassVar[str] = "Wang et al., 2019, arXiv:1910.10252"
    cites: ClassVar[tuple[str, ...]] = ("mcmahan2017", "wang2019")
    look: ClassVar[int | None] = 18
    personalization: ClassVar[Personalization] = "finetune"
    needs_labels: ClassVar[bool] = True
    newcomers_get: ClassVar[NewcomersGet] = "own weights"
    deviations: ClassVar[tuple[tuple[str, str, str], ...]] = (
        (
            "paper",
            "Rate and length of fine-tuning are settings, not chosen on each client's held-out "
            "data.",
            "not known",
        ),
    )

    def tuning(self, task: Task, state: State) -> Tuning:
        """Return fine-tuning of the global model."""
        rule = self.local.at(self.novel_lr)
        return Tuning(rule, self.finetune_steps, self.finetune_batch_size)
