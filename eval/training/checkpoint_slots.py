"""Interface of checkpoints for a cell: each training run has a slot to resume from and save to.

A cell may train several models one after another; each has its own named slot.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from latecomer.errors import InputError

if TYPE_CHECKING:
    from latecomer.models.engine.training import Checkpoint


@dataclass(frozen=True)
class CheckpointEvery:
    """How often checkpoints are written; this affects no result and no cell's id.

    The end of training is always written, so that only serving is left to do.

    Attributes
    ----------
    seconds : float or None
        Time between two checkpoints.
    rounds : int or None
        Rounds between two checkpoints; whichever of the two comes first applies.
    """

    seconds: float | None = 60.0
    rounds: int | None = None

    def __post_init__(self) -> None:
        for name, least in (("seconds", 0), ("rounds", 1)):
            value = getattr(self, name)
            if value is not None and not value >= least:
                raise InputError(f"checkpoint {name} must be at least {least}, got {value}")


class Slot(Protocol):
    """Where one training run of a cell keeps its checkpoints."""

    def load(self) -> "Checkpoint | None":
        """Return the newest intact checkpoint, None if there is none."""

    def offer(self, checkpoint: "Checkpoint", *, long_ahead: bool = False) -> None:
        """Accept a checkpoint, and write it if one is due; what is kept of it is copied.

        With ``long_ahead`` more than a round comes before the next, so no stop may wait for it.
        """


class Checkpoints(Protocol):
    """The checkpoint slots of a cell."""

    def slot(self, name: str, *, seed: int, rounds: int, device: str = "cpu") -> Slot:
        """Return the slot of a training run; ``name`` is unique in the cell, ``[a-z0-9_]+``."""


class _Nothing:
    def slot(self, name: str, *, seed: int, rounds: int, device: str = "cpu") -> Slot:
        return self

    def load(self) -> None:
        return None

    def offer(self, checkpoint: "Checkpoint", *, long_ahead: bool = False) -> None:
        pass


NO_CHECKPOINTS: Checkpoints = _Nothing()
"""Keeps nothing: training starts from the beginning."""
