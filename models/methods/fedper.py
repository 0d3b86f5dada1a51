"""FedPer: a shared body under personal heads, trained together."""

from dataclasses import dataclass
from typing import ClassVar

from latecomer.models.engine.method import Personalization
from latecomer.models.engine.newcomers import NewcomersGet
from latecomer.models.families.trained_newcomers import SharedBody


@dataclass(frozen=True, kw_only=True)
class FedPer(SharedBody):
    """FedPer (Arivazhagan et al., 2019): every local step trains the body and the client's head.

    With ``head_layers=0`` the method is FedAvg; with all layers in the head every seen client
    trains alone. A new client trains a fresh head on the frozen body. All settings are those of
    :class:`~latecomer.models.families.trained_newcomers.SharedBody`.
    """

    name: ClassVar[str] = "fedper"
    called: ClassVar[str] = "FedPer"
    paper: ClassVar[str] = "Arivazhagan et al., 2019, arXiv:1912.00818"
    cites: ClassVar[tuple[str, ...]] = ("arivazhagan2019",)
    look: ClassVar[int | None] = 15
    personalization: ClassVar[Personalization] = "finetune"
    needs_labels: ClassVar[bool] = True
    newcomers_get: ClassVar[NewcomersGet] = "own weights"
    deviations: ClassVar[tuple[tuple[str, str, str], ...]] = (
        (
            "paper",
            "A new client trains a fresh head on the frozen body, which the paper does not say; "
            "momentum, decay and clipping are those of the local step.",
            "not known",
        ),
    )
