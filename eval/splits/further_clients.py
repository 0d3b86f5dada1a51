"""Clients dealt or drawn after a split is made, of its own law or of others near it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from latecomer.checks import fraction, whole
from latecomer.errors import InputError
from latecomer.eval.datasets.dataset import Dataset
from latecomer.eval.splits.dealing import MIN_SAMPLES, fill_dirichlet, generator, pool_of
from latecomer.eval.splits.kinds.declaration import QUERY, VALIDATION
from latecomer.eval.splits.kinds.independent import (
    check_concentrations,
    check_weights,
    dirichlet_distances,
    distances,
)
from latecomer.eval.splits.split import ClientRows, Law, Split, cut_into_roles, draw_held_out


@dataclass(frozen=True)
class OtherLaws:
    """A kind of law whose parameters a shift lists, one population for each entry.

    Attributes
    ----------
    split : str
        Kind of split whose held-out clients follow such a law.
    own : str
        Name of the split's own parameters in its settings and its law.
    check : callable
        ``check(parameters, n)`` raises ValueError unless they define a law over ``n`` items.
    distances : callable
        ``distances(first, other)``: the distances by measure, always including ``kl``.
    """

    split: str
    own: str
    check: Callable[[Sequence[float], int], None]
    distances: Callable[[Sequence[float], Sequence[float]], Mapping[str, float]]

    def moved(self, name: str, law: Law | None, other: Sequence[float]) -> Law:
        """Return the law of another population over the same pools."""
        first = getattr(law, self.own, ())
        if law is None or not first:
            raise InputError(f"shifts.{name} needs split.kind {self.split}")
        try:
            self.check(other, len(first))
        except ValueError as error:
            raise InputError(f"shifts.{name} {error}") from error
        parameters: dict[str, Any] = {self.own: tuple(float(one) for one in other)}
        return replace(law, **parameters)


OTHER_LAWS: Mapping[str, OtherLaws] = MappingProxyType(
    {
        "type_weights": OtherLaws("client_types", "weights", check_weights, distances),
        "concentrations": OtherLaws(
            "client_mixtures", "concentrations", check_concentrations, dirichlet_distances
        ),
    }
)
"""Kinds of law by the name of the shift."""


def deal_extrapolated(
    dataset: Dataset,
    split: Split,
    *,
    alpha: float,
    seed: int,
    n_clients: int,
    query: float = QUERY,
    validation: float = VALIDATION,
) -> tuple[ClientRows, ...]:
    """Deal the whole reserve to new clients with Dirichlet(alpha) class proportions.

    Small ``alpha``: few classes per client; large: all clients alike. No sample of another client
    is used. Ids continue from the split's largest.
    """
    query = fraction("split.query", query, above=True)
    validation = fraction("split.validation", validation)
    rows = np.concatenate(split.reserve) if split.reserve else np.zeros(0, dtype=np.int64)
    if not len(rows):
        raise InputError(
            "split.reserve must be above 0 for shifts.extrapolation (and split.kind not natural), "
            "got an empty reserve"
        )
    rng = generator(whole("split.seed", seed, 0), "extrapolation")
    filling = fill_dirichlet(
        pool_of(dataset, rows),
        n_clients,
        rng,
        alpha=alpha,
        form="shares",
        min_samples=MIN_SAMPLES,
        key="shifts.extrapolation",
    )
    first = 1 + max(client.id for client in split.clients)
    ids = first + np.arange(n_clients)
    return cut_into_roles(dataset, filling, np.arange(n_clients), ids, query, validation, rng)


def draw_from_other_law(
    dataset: Dataset,
    split: Split,
    *,
    name: str,
    other: Sequence[float],
    seed: int,
    n_clients: int,
    query: float = QUERY,
    validation: float = VALIDATION,
) -> tuple[ClientRows, ...]:
    """Draw clients of another population, from the split's own pools.

    ``name`` of `OTHER_LAWS` is the shift, ``other`` its law's parameters. Ids continue from the
    split's largest.
    """
    kind = OTHER_LAWS[name]
    law = kind.moved(name, split.law, other)
    told = f"{name.replace('_', ' ')} {getattr(law, kind.own)}"
    rng = generator(whole("split.seed", seed, 0), told)
    first = 1 + max(client.id for client in split.clients)
    return drawn_clients(dataset, law, n_clients, first, query, validation, rng)


def drawn_clients(
    dataset: Dataset,
    law: Law,
    n_clients: int,
    first: int,
    query: float,
    validation: float,
    rng: np.random.Generator,
) -> tuple[ClientRows, ...]:
    """Draw clients from a law, number them from ``first`` and divide their samples into roles."""
    filling = draw_held_out(law, n_clients, rng)
    order = np.arange(n_clients)
    return cut_into_roles(dataset, filling, order, first + order, query, validation, rng)
