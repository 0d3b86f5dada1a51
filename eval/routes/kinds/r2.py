"""R2: one sample of a held-out client both makes its stochastic model and measures it."""

from typing import ClassVar, Literal

from latecomer.certify.sentences import (
    Certificate,
    Parts,
    choice_of_clients,
    clients_meant,
    left_out_said,
)
from latecomer.errors import InputError
from latecomer.eval.routes.kinds.declaration import Route
from latecomer.eval.schema import Count, Probability
from latecomer.eval.settings.cell import RouteSettings
from latecomer.eval.splits.registry import check_outside
from latecomer.eval.splits.split import Split


class TwoLevel(RouteSettings):
    """Route R2: held-out clients' support makes stochastic models and measures them too.

    Attributes
    ----------
    rule : str
        The only one.
    delta : float
        Total failure probability.
    draws_share : float
        Share of it that is spent on Monte-Carlo draws.
    client_share : float
        The clients' share of the rest.
    draws : int
        Systems drawn for each client, with one model of each.
    """

    needs_certification: ClassVar[bool] = True

    route: Literal["r2"]
    rule: Literal["two_step_kl"] = "two_step_kl"
    delta: Probability = 0.05
    draws_share: Probability = 0.2
    client_share: Probability = 0.5
    draws: Count = 20

    def check_split(self, key: str, split: Split) -> None:
        """Refuse too few clients, and clients who hold a random number of samples per class."""
        check_outside(split.kind, len(split.certification), split.n_outside)
        if split.law and split.law.concentrations:
            raise InputError(
                f"{key}.route r2 is proved for clients that hold as many of each class as their "
                f"law says, and those of split.kind={split.kind} hold a random number"
            )


def own_points(certificate: Certificate) -> Parts:
    """Name what a certificate of models made from clients' own points is about."""
    return Parts(
        f"{choice_of_clients(certificate)}, their points and the draws of models",
        f"the mean error over {clients_meant(certificate)}",
        "each served by a model drawn anew from the posterior that its own support makes",
        "expected errors over that draw and over fresh points of the client",
        left_out_said(certificate),
    )


ROUTES = (
    Route(
        name="r2",
        settings=TwoLevel,
        work="latecomer.eval.routes.r2_two_level:certify_two_level",
        numbers_version=2,
        heading="own sample, two steps (R2)",
        bound_names={"two_step_kl": "stochastic model on its own sample, two-step kl (R2)"},
        sentence=own_points,
        colour="#939393",
        mark="v",
    ),
)
