"""A rule that a client with the largest loss leaves nothing to say, and what the default would."""

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Voided:
    """Why a rule asked for by name says nothing, or nothing new.

    Attributes
    ----------
    client : str
        The first one with the largest loss.
    rule : str
        The rule that this ends.
    instead : str
        The rule of whoever names none.
    value : float
        What it gives for the same losses.
    seed : int or None
        Seed of the orders that it averages over, if any.
    """

    client: str
    rule: str
    instead: str
    value: float
    seed: int | None = None

    def sentence(self, shown: str) -> str:
        """Say it, with the value as text."""
        seed = "" if self.seed is None else f" (orders drawn with --seed {self.seed})"
        return (
            f"Client {self.client!r} has the largest loss, with which rule {self.rule} can prove"
            f" nothing more; {self.instead}, the default, would give at most {shown}{seed}."
        )


def told_of(voided: Voided | None) -> dict[str, Any] | None:
    """Return it as plain data, or None.

    Examples
    --------
    >>> told_of(Voided("dee", "product", "product_mixture", 0.4))["client"]
    'dee'
    """
    if voided is None:
        return None
    return {name: value for name, value in asdict(voided).items() if value is not None}
