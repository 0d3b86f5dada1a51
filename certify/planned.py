"""How many clients to hold out: the function behind ``latecomer plan``, and what it shows."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any

from latecomer.certify.arguments import PLAN, told_in_full
from latecomer.certify.planning import DEFAULT_PLAN_RULE, HoldOutPlan, clients_to_hold_out
from latecomer.certify.printed import as_given, exact, rounded
from latecomer.certify.result import Shown
from latecomer.certify.table import Source, read_losses
from latecomer.errors import InputError
from latecomer.wrapping import wrapped

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class HoldOut(HoldOutPlan, Shown):
    """A `HoldOutPlan` with the display methods of `Shown`."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers and text."""
        return asdict(self) | {"mean": self.mean}

    def rows(self) -> list[dict[str, Any]]:
        """Return how many clients reach the target, by probability; None if no number does."""
        reached = {"floor": self.floor, "even odds": self.even_odds, "likely": self.likely}
        return [{"reached": name, "clients": clients} for name, clients in reached.items()]

    def table(self) -> "pd.DataFrame":
        """Return `rows` as a frame; needs pandas."""
        return super().table().astype({"clients": "Int64"})

    @property
    def sentence(self) -> str:
        """How many clients reach the target nine times in ten."""
        enough = f"{self.likely} clients" if self.likely is not None else "no number of clients"
        return (
            f"With probability 9/10 {enough} (of at most {self.clients}) give a certificate of at"
            f" most {exact(self.target)}, {_guessed(self)}."
        )

    def __str__(self) -> str:
        """Return what ``latecomer plan`` prints."""
        return "\n".join(_short_lines(self))

    @property
    def in_full(self) -> str:
        """Return what ``latecomer plan --long`` prints."""
        return "\n".join(plan_lines(self))


@told_in_full(PLAN)
def plan_hold_out(
    target: float,
    *,
    expect: float | None = None,
    sd: float | None = None,
    pilot: Source | None = None,
    hopeless: float = 0.0,
    clients: int = 500,
    delta: float = 0.05,
    rule: str = DEFAULT_PLAN_RULE,
    seed: int = 0,
) -> HoldOut:
    """Plan how many clients to hold out for a certificate.

    Parameters
    ----------
    target : float
        The certificate is to be at most this.
    expect, sd : float, optional
        Expected mean and standard deviation of the clients' losses, those of the hopeless ones left
        out.
    pilot : path, DataFrame, mapping or sequence, optional
        Losses of some clients, which are resampled in place of both.
    hopeless : float
        Share of clients with a loss of 1 beside these.
    clients : int
        Most clients that can be held out.
    delta, rule, seed
        As for :func:`latecomer.certify.planning.clients_to_hold_out`.

    Raises
    ------
    InputError
        One line naming the argument, what is legal and what was given.

    Examples
    --------
    >>> plan_hold_out(0.25, expect=0.17, sd=0.09).table()
         reached  clients
    0      floor       30
    1  even odds       32
    2     likely       44
    """
    asked: dict[str, Any] = {"target": target, "hopeless": hopeless, "clients": clients}
    asked |= {"delta": delta, "rule": rule, "seed": seed}
    if pilot is None:
        if expect is None or sd is None:
            raise InputError("--expect and --sd are needed, or --pilot with losses of some clients")
        return HoldOut(**asdict(clients_to_hold_out(expected=expect, sd=sd, **asked)))
    if expect is not None or sd is not None:
        raise InputError("--pilot gives mean and deviation: leave --expect and --sd out")
    losses = read_losses(pilot, loss_max=1.0).losses
    try:
        return HoldOut(**asdict(clients_to_hold_out(pilot=losses, **asked)))
    except InputError as error:
        if isinstance(pilot, str | PathLike) and "pilot" in str(error):
            raise InputError(f"{fspath(pilot)}: {error}") from error
        raise


def _short_lines(planned: HoldOutPlan) -> list[str]:
    """Show a plan: figures first, in 80 columns."""
    equal = f"the least, if all score {rounded(planned.mean, decimals=3)}"
    figures = {
        "enough in half of all draws": planned.even_odds,
        "enough in 9 of 10 draws": planned.likely,
        equal: planned.floor,
    }
    lines = [
        f"Clients to hold out for a mean loss certified to be at most {as_given(planned.target)}"
    ]
    for about, clients in figures.items():
        reached = f"none up to {planned.clients}" if clients is None else str(clients)
        whose = "   by any deterministic rule" if about == equal else ""
        lines.append(f"  {about:<34} {reached}{whose}")
    lines += wrapped(f"Settled beforehand: rule {planned.rule}, delta {exact(planned.delta)}.")
    lines += wrapped(f"Supposed: {_guessed(planned).removeprefix('if ')}.")
    for said in _remarks(planned):
        lines += wrapped(said)
    return [*lines, "In full sentences: --long (in_full)."]


def plan_lines(planned: HoldOutPlan) -> list[str]:
    """Show a plan."""
    lines = [
        f"Clients to hold out for a certificate of at most {as_given(planned.target)}"
        f" (rule {planned.rule}, delta {exact(planned.delta)}), {_guessed(planned)}:",
        f"  {_reached(planned.even_odds, planned)}  with probability 1/2",
        f"  {_reached(planned.likely, planned)}  with probability 9/10",
        f"  {_reached(planned.floor, planned)}  at least by any deterministic rule, if all score"
        f" {rounded(planned.mean, decimals=3)}",
    ]
    return [*lines, *_remarks(planned)]


def _remarks(planned: HoldOutPlan) -> Iterator[str]:
    """Say what the figures stand on."""
    if planned.target <= planned.mean:
        yield "No certificate is below the mean of what clients score."
    if planned.pilot_clients is not None:
        yield (
            "The pilot's clients have been looked at: hold out others, and take its losses for the"
            " guess they are."
        )
    yield (
        f"{_simulated(planned)} A wrong guess costs value, not truth: the certificate holds"
        " whatever clients score."
    )


def _guessed(planned: HoldOutPlan) -> str:
    show = as_given if planned.pilot_clients is None else partial(rounded, decimals=3)
    mean, sd = show(planned.expected), show(planned.sd)
    if not planned.hopeless:
        return f"if they score {mean} on average (sd {sd})"
    return (
        f"if {exact(planned.hopeless)} of them are hopeless (a loss of 1) and the others score"
        f" {mean} on average (sd {sd}), which is {rounded(planned.mean, decimals=3)} for all"
    )


def _simulated(planned: HoldOutPlan) -> str:
    beside = ", beside the hopeless clients" if planned.hopeless else ""
    if planned.pilot_clients is not None:
        return (
            f"Simulated by drawing from the losses of the pilot's {planned.pilot_clients}"
            f" clients{beside}: what none of them showed is not in it."
        )
    if planned.hopeless:
        return "Simulated with Beta losses, beside the hopeless clients."
    return (
        "Simulated with Beta losses alone: none of these clients is hopeless (a loss of 1), and"
        " where some are it takes more clients (--hopeless .02: two of a hundred)."
    )


def _reached(clients: int | None, planned: HoldOutPlan) -> str:
    if clients is None:
        return f"not reachable with {planned.clients} clients"
    return f"{clients:>5} clients"
