"""R4: clients are certified one block after another, and each block is then trained on."""

from typing import Annotated, Literal, Self

from pydantic import BeforeValidator

from latecomer.certify.rule import rules_for
from latecomer.certify.sentences import (
    BOTH,
    ENVIRONMENT,
    FRESH,
    Certificate,
    Parts,
    left_out_said,
)
from latecomer.certify.words import count
from latecomer.errors import InputError
from latecomer.eval.routes.kinds.declaration import Route, TrainingRoute, overlap_said
from latecomer.eval.routes.r4_progressive import Plan, plan_of
from latecomer.eval.schema import Count, one_of
from latecomer.eval.settings.cell import StudyLike
from latecomer.eval.splits.split import Split


class Progressive(TrainingRoute):
    """R4: ``clients`` are certified ``block`` by ``block``, each block then trained on.

    ``first`` clients train for ``train.rounds`` rounds before the first score.

    Attributes
    ----------
    rule : str
        Inequality over the scores, in their order.
    block : int
        Clients that are scored by one checkpoint.
    rounds_per_block : int
        Rounds of training after every block.
    """

    route: Literal["r4"]
    rule: Annotated[str, BeforeValidator(one_of(rules_for("r4")))] = "product_mixture"
    block: Count = 1
    rounds_per_block: Count = 10

    def rounds(self, trained: int) -> int:
        """Return all rounds: those before the first score plus those after every block."""
        return trained + self.clients // self.block * self.rounds_per_block

    def plan(self, split: Split, *, key: str = "certificates") -> Plan:
        """Fix who trains first and who is certified when, block by block."""
        return plan_of(split, first=self.first, clients=self.clients, block=self.block, key=key)

    def completed(self, key: str, study: StudyLike) -> Self:
        """Refuse a budget of training under which some certified client would never train."""
        super().completed(key, study)
        cohort = study.train.cohort
        if self.block > cohort * self.rounds_per_block:
            raise InputError(
                f"{key}.block must be at most train.cohort x rounds_per_block = "
                f"{cohort * self.rounds_per_block}, so that every client trains, got {self.block}"
            )
        return self


def _sentence(certificate: Certificate) -> Parts:
    # A system that changes with the scores makes them a martingale, however clients are drawn.
    fresh = certificate.get("independent") is True
    whose = ENVIRONMENT if fresh else "the clients not trained on by then"
    over = "choice" if fresh else "random order"
    last = "It says nothing about the last checkpoint."
    return Parts(
        f"the {over} of these {count(int(certificate['n_clients']), 'client')}",
        f"the mean over the checkpoints that scored of each one's mean error over {whose}",
        "which is the expected error of a checkpoint drawn uniformly from them, over that draw as "
        "well",
        FRESH if fresh else BOTH,
        " ".join(filter(None, (last, left_out_said(certificate), overlap_said(certificate)))),
    )


ROUTES = (
    Route(
        name="r4",
        settings=Progressive,
        work="latecomer.eval.routes.r4_cell:evaluate_progressive",
        cell_kind="progressive",
        heading="while training (R4)",
        model_words="certified while training (R4)",
        about="of a checkpoint drawn at random",
        rule_words="clients certified before they train, {} (R4)",
        sentence=_sentence,
        colour="#f2590d",
        mark="D",
    ),
)
