"""R1: a posterior over systems, tuned on clients beside those that made its prior."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from latecomer.certify.sentences import (
    Certificate,
    Parts,
    are_independent,
    choice_of_clients,
    left_out_said,
)
from latecomer.eval.routes.kinds.declaration import (
    Route,
    TrainingRoute,
    first_trained,
    overlap_said,
)
from latecomer.eval.schema import Count, Positive, Probability, sequence


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
    steps : int
        Gradient steps on the bound for each variance.
    clients_per_step : int
        Clients drawn for each step.
    rate : float
        Learning rate of these steps.
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


def _sentence(certificate: Certificate) -> Parts:
    fresh = are_independent(certificate)
    more = "" if fresh else "It is no bound for those not scored by themselves."
    return Parts(
        f"{choice_of_clients(certificate)} and the draws of systems",
        f"the mean error over {first_trained(certificate)}",
        "each served by a system drawn anew from the tuned posterior",
        "expected errors over that draw, and over new clients and points"
        if fresh
        else "expected errors over that draw, as measured on these clients' own points",
        " ".join(filter(None, (more, left_out_said(certificate), overlap_said(certificate)))),
    )


ROUTES = (
    Route(
        name="r1",
        settings=Tuned,
        work="latecomer.eval.routes.r1_cell:evaluate_tuned",
        cell_kind="tuned",
        numbers_version=2,
        heading="posterior tuned (R1)",
        model_words="its posterior tuned (R1)",
        about="of a system drawn at random",
        bound_names={
            "product": "tuned posterior, product rule (R1)",
            "kl": "tuned posterior, kl (R1)",
        },
        sentence=_sentence,
        colour="#930df2",
        mark="^",
    ),
)
