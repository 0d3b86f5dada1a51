"""What a cell's work sees of checkpoints: a slot for each training, to go on from and to keep.

A cell may train several models one after another; each has a slot of its own, by name.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from latecomer.eval.errors import InputError

if TYPE_CHECKING:
    from latecomer.models.engine.checkpoint import Checkpoint


@dataclass(frozen=True)
class CheckpointEvery:
    """How often a training is written down; it changes no number and no cell's id.

    The end of a training is always written down, so that serving is all that is left to do.

    Attributes
    ----------
    seconds : float or None
        Time between two checkpoints.
    rounds : int or None
        Rounds between two checkpoints; whichever comes first counts.
    """

    seconds: float | None = 60.0
    rounds: int | None = None

    def __post_init__(self) -> None:
        for name, least in (("seconds", 0), ("rounds", 1)):
            value = getattr(self, name)
            if value is not None and not value >= least:
                raise InputError(f"checkpoint {name} must be at least {least}, got {value}")


class Slot(Protocol):
    """Where one training of a cell keeps its checkpoints."""

    def load(self) -> "Checkpoint | None":
        """Return the newest checkpoint that is whole, None where there is none."""

    def offer(self, checkpoint: "Checkpoint") -> None:
        """Take note of a checkpoint, and write it when it is time to."""


class Checkpoints(Protocol):
    """What a cell's work is given to keep checkpoints in."""

    def slot(self, name: str, *, seed: int, rounds: int, device: str = "cpu") -> Slot:
        """Return the slot of a training; ``name`` is unique in the cell, ``[a-z0-9_]+``."""


class _NoSlot:
    def load(self) -> None:
        return None

    def offer(self, checkpoint: "Checkpoint") -> None:
        pass


class _NoCheckpoints:
    def slot(self, name: str, *, seed: int, rounds: int, device: str = "cpu") -> Slot:
        return _NoSlot()


NO_CHECKPOINTS: Checkpoints = _NoCheckpoints()
"""Keeps nothing: training starts at the beginning."""
