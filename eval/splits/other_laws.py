"""Populations of clients other than a split's own, from laws at known distances."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from latecomer.errors import InputError
from latecomer.eval.splits.kinds.client_mixtures import check_concentrations, dirichlet_distances
from latecomer.eval.splits.kinds.client_types import check_weights, distances
from latecomer.eval.splits.law import Law


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
        """Return the law of another population over the same pools.

        Raises
        ------
        InputError
            The law is not of this kind, or the parameters do not fit it.
        """
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
