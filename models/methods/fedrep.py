"""FedRep: a shared body under personal heads, trained in turns."""

from dataclasses import dataclass
from typing import ClassVar

from latecomer.models.engine.hyperparameters import count
from latecomer.models.engine.method import Personalization
from latecomer.models.engine.newcomers import NewcomersGet
from latecomer.models.engine.schedule import Phase, Stage
from latecomer.models.families.trained_newcomers import SharedBody
from latecomer.models.task.heads import body_names, head_names
from latecomer.models.task.task import Task


@dataclass(frozen=True, kw_only=True)
class FedRep(SharedBody):
    """FedRep (Collins et al., 2021): in a round a client trains first its own head, then the body.

    The local steps that a study gives every method are divided between the two in the ratio of
    ``head_epochs`` to ``body_epochs``. With ``head_layers=0`` the body takes all of them and the
    method is FedAvg. A new client trains a fresh head on the frozen body. The other settings are
    those of :class:`~latecomer.models.families.trained_newcomers.SharedBody`.

    Attributes
    ----------
    head_epochs, body_epochs : int
        Shares of the local steps (published for CIFAR-10: 5 epochs and 1).
    """

    head_epochs: int = count(5)
    body_epochs: int = count(1)

    name: ClassVar[str] = "fedrep"
    called: ClassVar[str] = "FedRep"
    paper: ClassVar[str] = "Collins et al., ICML 2021"
    cites: ClassVar[tuple[str, ...]] = ("collins2021",)
    look: ClassVar[int | None] = 7
    personalization: ClassVar[Personalization] = "finetune"
    needs_labels: ClassVar[bool] = True
    newcomers_get: ClassVar[NewcomersGet] = "own weights"
    deviations: ClassVar[tuple[tuple[str, str, str], ...]] = (
        (
            "code",
            "Local steps are split 5 to 1 between head and body (42 and 8 of 50; there 62 and 13); "
            "biases decay; momentum is .9 (there .5).",
            "not known",
        ),
        (
            "paper",
            "A seen client that the last rounds did not draw is served the head of its last round "
            "under the newest body, as in the code's own test.",
            "not known",
        ),
    )

    def phases(self, task: Task) -> tuple[Phase, ...]:
        """Return a single phase whose rounds train the head first."""
        head = Stage(head_names(task, self.head_layers), self.head_epochs)
        body = Stage(body_names(task, self.head_layers), self.body_epochs)
        return (Phase(stages=(head, body)),)
