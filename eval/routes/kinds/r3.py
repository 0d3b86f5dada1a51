"""R3: held-out clients fine-tune, each with a prior from part of its own support."""

from dataclasses import replace
from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field

from latecomer.certify.sentence_parts import Certificate, Parts
from latecomer.errors import InputError
from latecomer.eval.routes.kinds.declaration import Route
from latecomer.eval.routes.kinds.r2 import own_points
from latecomer.eval.routes.r3_personal_cut import check_classes, measured_samples
from latecomer.eval.schema import Count, Positive, Probability, sequence
from latecomer.eval.settings.certificate import RouteSettings, SplitLike
from latecomer.eval.splits.registry import check_outside


class PersonalPrior(RouteSettings):
    """Route R3: held-out clients fine-tune, each with a prior from part of its own support.

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
    alphas : tuple of float
        Variances, relative to the weights, of which the best is taken; their union is paid for.
    measured : int, optional
        Support samples that every client is measured on; must be given where held-out
        clients hold unequally many.  On an ``environment`` split a multiple of the classes.
    measured_share : float
        The same as a share of the support, where all hold equally many.
    draws : int
        Models drawn for each client.
    """

    needs_certification: ClassVar[bool] = True

    route: Literal["r3"]
    rule: Literal["pooled"] = "pooled"
    delta: Probability = 0.05
    draws_share: Probability = 0.2
    client_share: Probability = 0.5
    alphas: Annotated[tuple[Positive, ...], BeforeValidator(sequence), Field(min_length=1)] = (
        *(1e-3, 1e-2, 1e-1),
    )
    measured: Count | None = None
    measured_share: Probability = 0.5
    draws: Count = 20

    def check_split(self, key: str, split: SplitLike) -> None:
        """Refuse too few clients, and numbers of samples that clients cannot be measured on."""
        check_outside(split.kind, len(split.certification), split.n_outside)
        sizes = [len(client.support) for client in split.certification]
        law = split.law
        if law and not law.classes_per_client:
            raise InputError(
                f"{key}.route r3 measures each class of a client alike, and clients of "
                f"split.kind={split.kind} hold unequally many classes"
            )
        n_classes = law.classes_per_client if law else None
        size = measured_samples(key, self.measured, self.measured_share, sizes, n_classes)
        if law and n_classes:
            supports = [client.support for client in split.certification]
            check_classes(key, supports, law.pools, size, n_classes)


def _sentence(certificate: Certificate) -> Parts:
    return replace(
        own_points(certificate),
        predictor="each served by a model drawn anew around what fine-tuning on all of its support "
        "gives",
        scores="expected errors over that draw and over the points that made no prior, the "
        "measured ones among them",
    )


ROUTES = (
    Route(
        name="r3",
        settings=PersonalPrior,
        work="latecomer.eval.routes.r3_personal_priors:certify_personal",
        numbers_version=2,
        pool_numbers_version=3,
        heading="personal priors (R3)",
        bound_names={"pooled": "priors from part of a client's data, pooled (R3)"},
        sentence=_sentence,
        colour="#936c46",
        mark="P",
    ),
)
