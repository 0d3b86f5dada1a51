"""R3: held-out clients fine-tune, each with a prior from part of its own support.

The half that measures must be a sample of the client's law given the other half.  If a support that
was dealt class by class is cut in two at random, it is not: the classes that the first half lacks
are those that the second has.  If cut class by class in numbers settled beforehand, it is: given
the first half, the second is, for each class, a uniform subset of its images outside the first.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field

from latecomer.certify.sentences import Certificate, Parts
from latecomer.errors import InputError
from latecomer.eval.routes.kinds.declaration import Route
from latecomer.eval.routes.kinds.r2 import own_points
from latecomer.eval.schema import Count, Positive, Probability, sequence
from latecomer.eval.settings.cell import RouteSettings
from latecomer.eval.splits.registry import check_outside
from latecomer.eval.splits.split import Split

Ints = NDArray[np.int64]


def measured_samples(
    key: str, measured: int | None, share: float, sizes: Sequence[int], n_classes: int | None
) -> int:
    """Return how many samples of every client measure it; no client's own size may decide this.

    As ``measured`` says, or, where all hold equally many, a ``share`` of the support. Each of
    ``n_classes`` is measured by equally many; None: cut regardless of class.

    Examples
    --------
    >>> measured_samples("certificates.0", None, 0.5, [19, 19], 2)
    8
    """
    least, most = min(sizes, default=0), max(sizes, default=0)
    classes = n_classes or 1
    if measured is None:
        if least < most:
            raise InputError(
                f"{key}.measured must be given where held-out clients hold {least} to {most} "
                "support samples: the smallest of them must not settle it"
            )
        size = classes * int(share * (least // classes))
        if size < 1:
            raise InputError(
                f"{key}.measured_share must leave a sample of the smallest support, {least}"
                f"{f' of {classes} classes' if n_classes else ''}, got {share}"
            )
        return size
    if not measured < least or measured % classes:
        of_classes = f" and a multiple of classes_per_client={classes}" if n_classes else ""
        raise InputError(
            f"{key}.measured must be below the smallest support, {least}{of_classes}, "
            f"got {measured}"
        )
    return measured


def check_classes(
    key: str, supports: Sequence[Ints], pools: Sequence[Ints], n_measured: int, n_classes: int
) -> None:
    """Refuse held-out clients who hold fewer samples of a class than measure it.

    ``supports`` are the rows of every client's support, ``pools`` those of every class.

    Examples
    --------
    >>> pools = [np.arange(5), np.arange(5, 9)]
    >>> check_classes("certificates.0", [np.array([0, 2, 7])], pools, n_measured=2, n_classes=2)
    """
    held = [np.array([np.isin(rows, pool).sum() for pool in pools]) for rows in supports]
    short = sum(not can_be_cut(counts, n_measured, n_classes) for counts in held)
    if short:
        raise InputError(
            f"{key}.measured must leave every held-out client {n_measured // n_classes} "
            f"support samples of each of its {n_classes} classes, and {short} of {len(supports)} "
            f"hold fewer, got {n_measured}: ask for fewer, or for more samples_per_client"
        )


def can_be_cut(counts: Ints, n_measured: int, n_classes: int | None) -> bool:
    """Whether a support is larger than what measures it, and holds enough of all its classes.

    Examples
    --------
    >>> can_be_cut(np.array([3, 1]), 2, 2), can_be_cut(np.array([4, 0]), 2, 2)
    (True, False)
    """
    held = counts[counts > 0]
    if held.sum() <= n_measured or n_classes is None:
        return bool(held.sum() > n_measured)
    return len(held) == n_classes and int(held.min()) >= n_measured // n_classes


def cut_support(
    labels: Ints, n_measured: int, n_classes: int | None, rng: np.random.Generator
) -> tuple[Ints, Ints]:
    """Cut a support's places into those that make the prior and those that measure, at random.

    Raises
    ------
    InputError
        When fewer than ``n_measured`` samples would measure it: of a class too few, or none.

    Examples
    --------
    >>> kept, held = cut_support(np.array([0, 1] * 3), 2, 2, np.random.default_rng(0))
    >>> sorted((held % 2).tolist()), len(kept)
    ([0, 1], 4)
    """
    order = rng.permutation(len(labels))
    counts = np.bincount(labels)
    if not can_be_cut(counts, n_measured, n_classes):
        raise InputError(
            f"a client whose {len(labels)} support samples have {counts.tolist()} of "
            f"the classes cannot be measured on {n_measured} of them: ask for fewer (measured)"
        )
    if n_classes is None:
        return order[n_measured:], order[:n_measured]
    each = n_measured // n_classes
    rank = np.empty(len(labels), dtype=np.int64)
    for label in np.unique(labels):
        own = order[labels[order] == label]
        rank[own] = np.arange(len(own))
    held = rank[order] < each
    return order[~held], order[held]


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

    def check_split(self, key: str, split: Split) -> None:
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
