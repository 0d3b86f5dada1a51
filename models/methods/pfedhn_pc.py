"""pFedHN-PC: the hypernetwork makes the body, every client keeps a classifier of its own."""

from dataclasses import dataclass
from typing import ClassVar

from latecomer.models.engine.hyperparameters import count, number
from latecomer.models.engine.method import Personalization
from latecomer.models.engine.newcomers import NewcomersGet
from latecomer.models.families.embedded_clients import FittedEmbeddings


@dataclass(frozen=True, kw_only=True)
class PFedHNPC(FittedEmbeddings):
    """pFedHN with a personal classifier (Shamsian, Navon, Fetaya, Chechik, ICML 2021).

    As pFedHN, but the last layers are trained on the client along with those the hypernetwork made,
    and never leave the client; heads are drawn independently. A new client fits a new embedding
    through the frozen hypernetwork together with a fresh head.

    ``server_lr`` is that of the published code for this variant, five times pFedHN's. This departs
    from that code in two ways: a head's momentum begins anew in every round, as that of all local
    weights does (there each head has an optimizer that lasts), and a local step clips the gradients
    of body and head together (there the body's alone).

    Attributes
    ----------
    head_layers : int
        Number of last layers that are personal; at 0 the method is pFedHN.

    The other settings are those of :class:`~latecomer.models.methods.pfedhn.PFedHN`.
    """

    head_layers: int = count(1, least=0)
    server_lr: float = number(5e-2, above=0)

    name: ClassVar[str] = "pfedhn_pc"
    called: ClassVar[str] = "pFedHN-PC"
    paper: ClassVar[str] = "Shamsian et al., ICML 2021"
    cites: ClassVar[tuple[str, ...]] = ("shamsian2021",)
    look: ClassVar[int | None] = 17
    personalization: ClassVar[Personalization] = "embedding"
    needs_labels: ClassVar[bool] = True
    newcomers_get: ClassVar[NewcomersGet] = "own weights"
    numbers_version: ClassVar[int] = 3
    deviations: ClassVar[tuple[tuple[str, str, str], ...]] = (
        (
            "code",
            "A head's momentum begins anew in every round, and a local step clips body and head "
            "together (there the body alone, and heads have optimizers that last).",
            "not known",
        ),
        ("code", "The split is the text's, as for pfedhn.", "yes, by how much is not known"),
    )

    @property
    def personal_layers(self) -> int:
        """Number of last layers that the hypernetwork does not make."""
        return self.head_layers
