"""The schema of certificates that hold no client out: routes that train models of their own."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field

from latecomer.certify.rule import rules_for
from latecomer.errors import InputError
from latecomer.eval.routes.r4_progressive import Plan, plan_of
from latecomer.eval.schema import Count, Positive, Probability, one_of, sequence
from latecomer.eval.settings.certificate import RouteSettings, SplitLike, StudyLike


class TrainingRoute(RouteSettings):
    """An entry of ``certificates`` that is a cell of its own for each method and seed.

    Attributes
    ----------
    methods : tuple of str, optional
        Labels of the methods that are certified; all of the study's unless given.
    first, clients : int
        Clients that train before anything is certified, and those that come after them.
    delta : float
        Total failure probability.
    folds : int
        As for R0.
    """

    kind: ClassVar[str]

    methods: Annotated[tuple[str, ...], BeforeValidator(sequence), Field(min_length=1)] | None = (
        None
    )
    first: Count
    clients: Count
    delta: Probability = 0.05
    folds: Count = 1

    def plan(self, split: SplitLike, *, key: str = "certificates") -> Plan:
        """Fix who trains first and who is certified when; see :func:`plan_of`.

        Raises
        ------
        InputError
            When the split has too few clients.
        """
        return plan_of(split, first=self.first, clients=self.clients, key=key)

    def completed(self, key: str, study: StudyLike) -> Self:
        """Refuse a cohort that the first clients cannot fill."""
        cohort = study.train.cohort
        if cohort > self.first:
            raise InputError(f"train.cohort must be at most {key}.first={self.first}, got {cohort}")
        return self

    def check_split(self, key: str, split: SplitLike) -> None:
        """Refuse a split with too few clients, or too small ones."""
        plan = self.plan(split, key=key)
        everyone = [*split.seen, *split.certification]
        arriving = everyone[plan.first : plan.first + plan.clients]
        points = min(len(client.support) + len(client.query) for client in arriving)
        if self.folds > points:
            raise InputError(
                f"{key}.folds must be at most the {points} points of the smallest client, "
                f"got {self.folds}"
            )


class Progressive(TrainingRoute):
    """R4: ``clients`` are certified ``block`` by ``block``, each block then trained on.

    ``first`` clients train for ``train.rounds`` rounds before the first score, and after every
    block training goes on for ``rounds_per_block``.
    """

    kind: ClassVar[str] = "progressive"

    route: Literal["r4"]
    rule: Annotated[str, BeforeValidator(one_of(rules_for("r4")))] = "product_mixture"
    block: Count = 1
    rounds_per_block: Count = 10

    def rounds(self, trained: int) -> int:
        """Return all rounds: those before the first score plus those after every block."""
        return trained + self.clients // self.block * self.rounds_per_block

    def plan(self, split: SplitLike, *, key: str = "certificates") -> Plan:
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


class Tuned(TrainingRoute):
    """R1: a posterior over systems, its prior from ``first`` clients, tuned on ``clients`` more.

    Attributes
    ----------
    rule : str
        Bound that is minimised and then issued.
    draws_share : float
        Share of the failure probability that is spent on Monte-Carlo draws.
    alphas : tuple of float
        Variances, relative to the weights, of which the best is taken; their union is paid for.
    weights : tuple of str
        Name prefixes of the server's weights that are random; the others are fixed.
    steps, clients_per_step, rate
        Gradient steps on the bound for each variance, see ``TuneConfig``.
    gamma : float
        Shrinkage of scores under rule ``product``, which keeps their logarithm bounded.
    draws : int
        Systems drawn afresh for each client when the certificate is made: 20 to 200, depending on
        the cost of serving.
    draws_rule : str
        How their mean is bounded: ``mixture`` (equally many draws for every client, and a mixture
        of bets), ``random_client`` (a client drawn for every system, equally many draws in all) or
        ``chernoff`` (from the mean alone; the widest).
    """

    kind: ClassVar[str] = "tuned"

    route: Literal["r1"]
    rule: Literal["product", "kl"] = "product"
    draws_share: Probability = 0.2
    alphas: Annotated[tuple[Positive, ...], BeforeValidator(sequence), Field(min_length=1)] = (
        *(1e-4, 1e-3, 1e-2),
    )
    weights: Annotated[tuple[str, ...], BeforeValidator(sequence), Field(min_length=1)]
    steps: Count = 100
    clients_per_step: Count = 5
    rate: Positive = 0.1
    gamma: Probability = 0.02
    draws: Count = 20
    draws_rule: Literal["mixture", "random_client", "chernoff"] = "mixture"


class Compressed(TrainingRoute):
    """R5: the system trained on ``first`` clients, moved by a short code that ``clients`` choose.

    Attributes
    ----------
    rule : str
        ``occam_product``: by the product of one minus the scores; ``occam``: by their mean alone.
    weights : tuple of str
        Name prefixes of the server's weights that move.
    dimension : int
        Number of random directions.
    step : float
        Step along a direction, relative to the root mean square of each tensor.
    tries : int
        Codes that are scored besides the empty one.
    """

    kind: ClassVar[str] = "compressed"

    route: Literal["r5"]
    rule: Literal["occam_product", "occam"] = "occam_product"
    weights: Annotated[tuple[str, ...], BeforeValidator(sequence), Field(min_length=1)]
    dimension: Count = 16
    step: Positive = 0.05
    tries: Count = 30


TRAINING_ROUTES: Mapping[str, type[TrainingRoute]] = MappingProxyType(
    {"r1": Tuned, "r4": Progressive, "r5": Compressed}
)
