"""How many clients to hold out, from Python: the function behind ``latecomer plan``."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from latecomer.eval.certificates.planning import HoldOutPlan, clients_to_hold_out
from latecomer.losses.plan import guess, plan_lines
from latecomer.losses.shown import Shown

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["HoldOut", "plan_hold_out"]


@dataclass(frozen=True)
class HoldOut(HoldOutPlan, Shown):
    """A `HoldOutPlan` that shows itself.

    Attributes
    ----------
    pilot : path or None
        Losses that mean and deviation were taken from.
    """

    pilot: str | Path | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers and text."""
        return {name: value for name, value in asdict(self).items() if name != "pilot"}

    def rows(self) -> list[dict[str, Any]]:
        """Return the clients that reach the target, by probability; none where not reachable."""
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
        Mean and standard deviation of what clients are expected to lose.
    pilot : path, optional
        Losses of some clients, to take both from.
    clients : int
        Most that can be held out.
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
