"""FedMA: averaging after hidden units have been matched, layer by layer."""

from dataclasses import dataclass
from typing import ClassVar

from torch import Generator

from latecomer.models.engine.hyperparameters import choice, number
from latecomer.models.engine.method import Personalization, Start
from latecomer.models.engine.newcomers import NewcomersGet
from latecomer.models.engine.schedule import Cohort, Phase, Stage
from latecomer.models.families.global_weights import AveragedWeights
from latecomer.models.families.matching import check_chain, match
from latecomer.models.task.clients import Clients
from latecomer.models.task.heads import head_names, layers
from latecomer.models.task.state import (
    Params,
    State,
    add,
    move,
    nest,
    part,
    row,
    stack,
    weighted_mean,
)
from latecomer.models.task.task import Task


@dataclass(frozen=True, kw_only=True)
class FedMA(AveragedWeights):
    """FedMA (Wang et al., 2020), simplified.

    The first cohort starts from independent random weights, one draw per client. In every round the
    hidden units of each client's net are reordered to fit a reference best (Hungarian algorithm on
    incoming weights, from the input upwards) before the nets are averaged: the largest client's net
    in the first round, afterwards the weights that were sent. Then, layer by layer, lower layers
    are frozen while those above go on training. Every client is served the global model.

    Simplified against the paper: the global net never grows (no unit stays unmatched, the cost is
    a squared distance and not the posterior of a Beta-Bernoulli process); cohorts are matched round
    by round, not all clients once; the last layer is averaged by sizes, not by class counts; the
    target must be a chain of layers. A net's layers are matched in one go, without training in
    between, so reports show the method as "FedMA (one-shot matching)".

    Attributes
    ----------
    layerwise_share : float
        Share of the rounds, at the end, in which first one, then two, ... layers are frozen.
    first_weights : str
        ``independent``, or ``shared``: the first cohort starts alike, too. With ``shared``, no
        layer-wise rounds and steps too small to swap units, the method is FedAvg.
    local_lr, local_momentum, local_weight_decay, clip_norm : float
        The local step.
    """

    layerwise_share: float = number(0.5, least=0, below=1)
    first_weights: str = choice("independent", "shared")

    name: ClassVar[str] = "fedma"
    paper: ClassVar[str] = "Wang et al., ICLR 2020"
    cites: ClassVar[tuple[str, ...]] = ("wang2020",)
    # It matches the layers of a net in one go, not one a round with training in between, and its
    # net never grows: its plain name would promise the whole method.
    shown_as: ClassVar[str] = "FedMA (one-shot matching)"
    look: ClassVar[int | None] = 12
    personalization: ClassVar[Personalization] = "global"
    needs_labels: ClassVar[bool] = False
    newcomers_get: ClassVar[NewcomersGet] = "the one model"
    least_support: ClassVar[int] = 0
    deviations: ClassVar[tuple[tuple[str, str, str], ...]] = (
        (
            "paper and code",
            "The global net never grows, a squared distance takes the place of the posterior of a "
            "Beta-Bernoulli process, cohorts are matched round by round and not all clients once, "
            "the last layer is averaged by sizes and not by class counts.",
            "yes, by how much is not known: {published odpfl-table1-500-rounds}",
        ),
        (
            "code",
            "Defaults are rate .005, batches and steps of the study; the code, whose settings "
            "OD-PFL's supplement names, has rate .01, batches of 64, 20 epochs, momentum .9 and "
            "decay 1e-4 (variant supplement of odpfl-table1).",
            "not known",
        ),
    )

    def phases(self, task: Task) -> tuple[Phase, ...]:
        """Return rounds that train everything, then rounds above one layer, two layers, ..."""
        depth = len(layers(task))
        above = [
            Phase(
                f"above-{resting}",
                self.layerwise_share / max(depth - 1, 1),
                (Stage(head_names(task, depth - resting)),),
            )
            for resting in range(1, depth)
        ]
        return (Phase("all", 1 - self.layerwise_share), *above)

    def init(self, task: Task, clients: Clients, first: Cohort, generator: Generator) -> State:
        """Draw random weights of a net whose units can be matched."""
        state = super().init(task, clients, first, generator)
        if task.make is not None:
            check_chain(task, layers(task), part(state.server, "target"))
        return state

    def start(
        self, task: Task, state: State, clients: Clients, cohort: Cohort, generator: Generator
    ) -> Start:
        """Send the global weights; in the first round every client draws its own."""
        if cohort.round > 0 or self.first_weights == "shared":
            return super().start(task, state, clients, cohort, generator)
        drawn = stack([task.initial(generator) for _ in range(len(cohort))])
        return Start(move(drawn, clients.device))

    def aggregate(
        self, task: Task, state: State, cohort: Cohort, start: Start, uploads: Params
    ) -> State:
        """Match every client's net, then average, weighted by support sizes."""
        final = add(start.params, uploads)
        reference = part(state.server, "target")
        if cohort.round == 0 and self.first_weights == "independent":
            reference = row(final, int(cohort.sizes.argmax()))
        matched = [match(row(final, i), reference, layers(task)) for i in range(len(cohort))]
        return State(nest("target", weighted_mean(stack(matched), cohort.sizes)), state.clients)
