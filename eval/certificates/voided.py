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
    """

    client: str
    rule: str
    instead: str
    value: float

    def sentence(self, shown: str) -> str:
        """Say it, with the value as text."""
        return (
            f"Client {self.client!r} has the largest loss, with which rule {self.rule} can prove"
            f" nothing more; {self.instead}, the default, would give at most {shown}."
        )


def told_of(voided: Voided | None) -> dict[str, Any] | None:
    """Return it as plain data, or None.

    Examples
    --------
    >>> told_of(Voided("dee", "product", "product_mixture", 0.4))["client"]
    'dee'
    """
    return None if voided is None else asdict(voided)
