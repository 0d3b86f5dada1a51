"""Clients that arrive one after another, from Python: what ``latecomer watch --once`` shows."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from os import PathLike
from typing import Any

from latecomer.certify.arguments import WATCHED, told_in_full
from latecomer.certify.arriving_points import missed_in_order
from latecomer.certify.result import Shown
from latecomer.certify.table import Source, read_in_order
from latecomer.certify.voided import Voided, told_of
from latecomer.certify.watch_lines import end_lines, said_of_last, short_end_lines
from latecomer.certify.watching import (
    Moment,
    WatchPlan,
    first_alarm,
    moments_after,
    voided_in,
    watch_plan,
)
from latecomer.errors import InputError


@dataclass(frozen=True)
class Watched(Shown):
    """What is certified after every client.

    Attributes
    ----------
    plan : WatchPlan
        What was settled before the first loss.
    moments : tuple of Moment
        One per client, in the order of arrival.
    """

    plan: WatchPlan
    moments: tuple[Moment, ...]

    def __iter__(self) -> Iterator[Moment]:
        return iter(self.moments)

    def to_dict(self) -> dict[str, Any]:
        """Return plan, clients and alarms as plain data."""
        return {
            "plan": self.plan.to_dict(),
            "clients": [asdict(moment) for moment in self.moments],
            "alarms": first_alarm(self.plan, self.moments),
            "voided": told_of(self.voided),
        }

    def rows(self) -> list[dict[str, Any]]:
        """Return one record per client."""
        return [asdict(moment) for moment in self.moments]

    @property
    def voided(self) -> Voided | None:
        """The client that ended the fall of the plan's rule, and what the default gives."""
        return voided_in(self.plan, self.moments)

    @property
    def sentence(self) -> str:
        """What is certified after the last client, or whether the alarm of likeness has rung."""
        return said_of_last(self.plan, self.moments)

    def __str__(self) -> str:
        """Return the last lines that ``latecomer watch`` prints."""
        return "\n".join(short_end_lines(self.plan, self.moments, None))

    @property
    def in_full(self) -> str:
        """Return them as ``latecomer watch --long`` prints them."""
        return "\n".join(end_lines(self.plan, self.moments, None))


def _settled(plan: WatchPlan | None, settings: dict[str, Any]) -> WatchPlan:
    """Return the plan that is given, or the one that the settings make."""
    if plan is None:
        return watch_plan(**settings)
    if not isinstance(plan, WatchPlan):
        raise InputError(
            "plan must be a WatchPlan (of latecomer.certify.watching.watch_plan), got"
            f" {type(plan).__name__}; or leave it out and name its settings: delta=0.05"
        )
    if settings:
        raise InputError(f"plan settles everything: leave {', '.join(settings)} out")
    return plan


@told_in_full(WATCHED)
def watch_losses(losses: Source, plan: WatchPlan | None = None, **settings: Any) -> Watched:
    """Certify clients in the order of their arrival, after each one.

    Parameters
    ----------
    losses : path, DataFrame, mapping or sequence
        One loss per client, in the order of arrival; with ``sets`` a path or bytes of points with
        the probabilities of all labels, each client's together; with ``likeness`` a p-value per
        client, in a column ``likeness``.
    plan : WatchPlan, optional
        What was settled before the first loss.
    **settings
        Fields of a plan, if none is given.

    Raises
    ------
    InputError
        One line naming the setting, or file and line, what is legal and what was given.

    Examples
    --------
    >>> watched = watch_losses({"ann": 0.0, "bob": 0.1}, delta=0.1)
    >>> watched.table()["certificate"].round(3).tolist()
    [0.916, 0.724]
    """
    settled = _settled(plan, settings)
    if settled.sets is None:
        arrivals = read_in_order(losses, loss_max=settled.loss_max, column=settled.column)
    elif isinstance(losses, str | bytes | PathLike):
        arrivals = missed_in_order(losses, settled.sets)
    else:
        raise InputError(f"sets need a file of points, or its bytes, got {type(losses).__name__}")
    return Watched(settled, moments_after(settled, (), arrivals))
