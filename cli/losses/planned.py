"""How many clients to hold out: the function behind ``latecomer plan``, and what it shows."""

import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from latecomer.eval.certificates.loss_table import read_losses
from latecomer.eval.certificates.planning import HoldOutPlan, clients_to_hold_out
from latecomer.eval.errors import InputError
from latecomer.losses.shown import Shown
from latecomer.render import number

if TYPE_CHECKING:
    import pandas as pd

_WIDEST = 0.999


@dataclass(frozen=True)
class HoldOut(HoldOutPlan, Shown):
    """A `HoldOutPlan` with the display methods of `Shown`.

    Attributes
    ----------
    pilot : path or None
        File of losses from which mean and deviation were taken.
    """

    pilot: str | Path | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers and text."""
        return {name: value for name, value in asdict(self).items() if name != "pilot"}

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
            f" most {self.target:g}, if they score {self.expected:.3g} on average"
            f" (sd {self.sd:.3g})."
        )

    def __str__(self) -> str:
        """Return what ``latecomer plan`` prints."""
        return "\n".join(plan_lines(self, None if self.pilot is None else Path(self.pilot)))


def plan_hold_out(
    target: float,
    *,
    expect: float | None = None,
    sd: float | None = None,
    pilot: str | Path | None = None,
    clients: int = 500,
    delta: float = 0.05,
    rule: str = "product",
    seed: int = 0,
) -> HoldOut:
    """Plan how many clients to hold out for a certificate.

    Parameters
    ----------
    target : float
        The certificate is to be at most this.
    expect, sd : float, optional
        Expected mean and standard deviation of the clients' losses.
    pilot : path, optional
        File of some clients' losses, from which both are taken.
    clients : int
        Most clients that can be held out.
    delta, rule, seed
        As for :func:`latecomer.eval.certificates.planning.clients_to_hold_out`.

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
    mean, deviation = guess(expect, sd, pilot)
    asked: dict[str, Any] = {"clients": clients, "delta": delta, "rule": rule, "seed": seed}
    plan = clients_to_hold_out(target=target, expected=mean, sd=deviation, **asked)
    return HoldOut(**asdict(plan), pilot=pilot)


def guess(expect: float | None, sd: float | None, pilot: str | Path | None) -> tuple[float, float]:
    """Return the expected mean and deviation of the losses: as given, or those of a pilot."""
    if pilot is None:
        if expect is None or sd is None:
            raise InputError("--expect and --sd are needed, or --pilot with losses of some clients")
        return expect, sd
    if expect is not None or sd is not None:
        raise InputError("--pilot gives mean and deviation: leave --expect and --sd out")
    losses = read_losses(pilot, loss_max=1.0).losses
    if len(losses) < 2:
        raise InputError(f"{pilot}: a pilot needs at least 2 clients, got {len(losses)}")
    if losses[0] == losses[-1]:
        raise InputError(
            f"{pilot}: a pilot's losses must differ, got {losses[0]:g} of every client"
        )
    mean = float(np.mean(losses))
    # Losses of 0 and 1 alone are spread wider than any other law in [0, 1] or any Beta law.
    return mean, min(float(np.std(losses, ddof=1)), _WIDEST * math.sqrt(mean * (1 - mean)))


def plan_lines(planned: HoldOutPlan, pilot: Path | None) -> list[str]:
    """Show a plan."""
    mean, sd = number(planned.expected, decimals=3), number(planned.sd, decimals=3)
    lines = [
        f"Clients to hold out for a certificate of at most {number(planned.target, decimals=3)}"
        f" (rule {planned.rule}, delta {planned.delta:g}), if they score {mean} on average"
        f" (sd {sd}):",
        f"  {_reached(planned.even_odds, planned)}  with probability 1/2",
        f"  {_reached(planned.likely, planned)}  with probability 9/10",
        f"  {_reached(planned.floor, planned)}  at least by any deterministic rule, if all score"
        f" {mean}",
    ]
    if planned.target <= planned.expected:
        lines.append("No certificate is below the mean of what clients score.")
    if pilot is not None:
        lines.append(
            "The pilot's clients have been looked at: hold out others, and take its mean for the"
            " guess it is."
        )
    return [
        *lines,
        "Simulated with Beta losses alone: none of these clients is hopeless (a loss of 1), and"
        " where some are it takes more clients. A wrong guess costs value, not truth: the"
        " certificate holds whatever clients score.",
    ]


def _reached(clients: int | None, planned: HoldOutPlan) -> str:
    if clients is None:
        return f"not reachable with {planned.clients} clients"
    return f"{clients:>5} clients"
