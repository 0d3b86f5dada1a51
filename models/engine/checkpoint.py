"""The state of training between two rounds: all that is needed to resume it exactly."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from torch import device

from latecomer.models.task.state import State, move


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """The state after a number of rounds.

    Every random draw has its own address in the schedule (seed, stream, round, client), so the
    number of rounds fixes the state of every generator; optimizer moments are part of the state.

    Attributes
    ----------
    rounds_done : int
        Rounds that are over, from 0 to the training's ``rounds``; also the next round's number.
    state : State
        State after them, optimizer moments included.
    selection : mapping
        Plain data for a rule that chooses among rounds; no rule uses it yet.
    """

    rounds_done: int
    state: State
    selection: Mapping[str, Any] = field(default_factory=dict)

    def copy(self) -> "Checkpoint":
        """Return a checkpoint that no later round overwrites."""
        return replace(self, state=self.state.copy())

    def state_on(self, where: device) -> State:
        """Return the state on a device."""
        return State(move(self.state.server, where), move(self.state.clients, where))
