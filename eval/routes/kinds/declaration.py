"""Declaration of a route: all that studies, cells, the work and reports know of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field

from latecomer.certify.sentences import (
    ENVIRONMENT,
    Certificate,
    Parts,
    are_independent,
    number_told,
)
from latecomer.certify.words import percent
from latecomer.declared import imported
from latecomer.errors import InputError
from latecomer.eval.routes.r4_progressive import Plan, plan_of
from latecomer.eval.schema import Count, Probability, sequence
from latecomer.eval.settings.cell import RouteSettings, StudyLike
from latecomer.eval.shifts.transforms import SHIFTS
from latecomer.eval.splits.further_clients import OTHER_LAWS
from latecomer.eval.splits.split import Split


@dataclass(frozen=True, kw_only=True)
class Route:
    """A way to a certificate.

    Attributes
    ----------
    name : str
        Its name in a study, and in the names of its bounds.
    settings : type
        What a study may set; ``route`` in it is the literal ``name``.
    work : str
        ``module:function``, imported when a cell does the work, so that listing a route loads no
        torch.  On a trained model it maps a ``Request`` to ``Findings``; on a model of its own it
        is the work of a cell, ``(cell, on_round, checkpoints)`` to ``Outcome``.
    cell_kind : str
        Kind of the cells of models that it trains itself; empty if it certifies trained ones.
    numbers_version : int
        Raised when the code gives other numbers for the same configuration.
    pool_numbers_version : int
        The same where clients are a finite pool; 0: the same version there.
    heading : str
        Heading of a column of its certificates.
    model_words : str
        What it adds to the name of a model it trains.
    about : str
        What its guarantee is about, if not the one trained system.
    bound_names : mapping
        What its bounds are called, by rule.
    rule_words : str
        The same around the words that a rule brings, which stand for ``{}``.
    sentence : callable or None
        Map a certificate to what the sentence about it names; None: what `certify` says.
    asks : str
        The question that a report of a study with such certificates answers.
    colour, mark : str
        How figures show its certificates; distinct from all others'.
    """

    name: str
    settings: type[RouteSettings]
    work: str
    cell_kind: str = ""
    numbers_version: int = 1
    pool_numbers_version: int = 0
    heading: str
    model_words: str = ""
    about: str = ""
    bound_names: Mapping[str, str] = field(default_factory=dict)
    rule_words: str = ""
    sentence: Callable[[Certificate], Parts] | None = None
    asks: str = "certificate"
    colour: str
    mark: str

    @property
    def trains_itself(self) -> bool:
        """Whether its models are its own, each in a cell of its own."""
        return bool(self.cell_kind)

    def version(self, *, independent: bool) -> int:
        """Version of its numbers for clients drawn independently, or of a finite pool."""
        in_pools = self.pool_numbers_version or self.numbers_version
        return self.numbers_version if independent else in_pools

    def follow(self, *given: Any) -> Any:
        """Do the work."""
        return imported(self.work)(*given)


class TrainingRoute(RouteSettings):
    """An entry of ``certificates`` that is a cell of its own for each method and seed.

    Attributes
    ----------
    methods : tuple of str, optional
        Labels of the methods that are certified; all of the study's unless given.
    first : int
        Clients that train before anything is certified.
    clients : int
        Clients that come after them.
    delta : float
        Total failure probability.
    folds : int
        As for R0.
    """

    methods: Annotated[tuple[str, ...], BeforeValidator(sequence), Field(min_length=1)] | None = (
        None
    )
    first: Count
    clients: Count
    delta: Probability = 0.05
    folds: Count = 1

    def plan(self, split: Split, *, key: str = "certificates") -> Plan:
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

    def check_split(self, key: str, split: Split) -> None:
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


def first_trained(certificate: Certificate) -> str:
    """Say whose mean error a route bounds that trains on some clients first."""
    if are_independent(certificate):
        return ENVIRONMENT
    n = int(certificate["n_clients"])
    return f"all clients but those that the system was first trained on, these {n} included"


def overlap_said(certificate: Certificate) -> str:
    """Say how much of what is measured beside a certificate its system was trained on."""
    share = number_told(certificate, "overlap")
    if share is None:
        return ""
    return (
        f"{percent(share)} of the query samples of the new clients measured beside it are "
        "with clients that it was tuned or trained on, too."
    )


# Shifts that no certificate is issued under, and why: they do not move each client by itself.
_JOINT = {
    **{name: shift.joint for name, shift in SHIFTS.items() if shift.joint},
    "dataset": "deals another data set to all clients at once, so that they depend on each other",
    **dict.fromkeys(OTHER_LAWS, "draws other clients"),
}


def _all_or_names(value: Any) -> Any:
    if isinstance(value, bool):
        return value
    if not isinstance(value, (list, tuple)) or not value:
        raise ValueError("must be true, false or a list of names of shifts")
    return sequence(value)


AskedShifts = Annotated[bool | tuple[str, ...], BeforeValidator(_all_or_names)]
"""True: all shifts of the study; else their names."""


def names_of(shifts: bool | tuple[str, ...]) -> tuple[str, ...]:
    """Return the shifts of a completed entry by name."""
    return shifts if isinstance(shifts, tuple) else ()


def shifts_asked(
    key: str, shifts: bool | tuple[str, ...], study: StudyLike
) -> bool | tuple[str, ...]:
    """Check the shifts asked for; ``true`` becomes the list of the study's shifts.

    Raises
    ------
    InputError
        The study lacks a shift, or it does not move each client by itself.
    """
    present = _shift_names(study.shifts)
    if not shifts:
        return False
    asked = tuple(present) if isinstance(shifts, bool) else shifts
    if not asked:
        raise InputError(f"{key}: the study has no shifts")
    for name in asked:
        if name not in present:
            legal = ", ".join(present) or "none"
            raise InputError(f"{key} must name shifts of the study ({legal}), got {name}")
        if present[name] in _JOINT:
            raise InputError(f"{key}: {name} {_JOINT[present[name]]}: list the others")
    return asked


def _shift_names(shifts: Any) -> dict[str, str]:
    """Map the names that shifts go by to their sections of ``shifts``."""
    names = {}
    for section, entries in shifts:
        for entry in entries:
            names[str(getattr(entry, "label", section))] = section
    return names
