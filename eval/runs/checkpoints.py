"""Checkpoints of a cell on the disk: tensors as safetensors, and JSON that says what they are.

::

    checkpoints/<slot>-<rounds done>.safetensors    the state, optimizer moments included
    checkpoints/<slot>-<rounds done>.json           written last: without it there is no checkpoint

The JSON holds the SHA-256 of the tensors, so that an incomplete or foreign pair is detected, and
the newest intact pair is used.
"""

import contextlib
import errno
import json
import os
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from latecomer.eval.runs.cell_directory import Place, Progress
from latecomer.eval.runs.stopping import allow_stop, put_off_stop, stop_waits
from latecomer.eval.training.checkpoint_slots import CheckpointEvery, Slot
from latecomer.files import sum_of, sync_folder, write_atomic

if TYPE_CHECKING:
    from torch import Tensor

    from latecomer.models.engine.training import Checkpoint

_FORMAT = 1
_KEPT = 2  # the newest, and the one before it in case the disk loses the newest
_TABLES = ("server", "clients")
_COPIED_EVERY = 1.0
"""Seconds; a process that is asked to stop within a shorter round ends that round first."""


class CellCheckpoints:
    """The checkpoints of a cell in its directory; one of any other cell's id is not used.

    The position in the cell's log is part of a checkpoint.  ``guard`` is called before anything is
    written and raises when the cell is no longer this process's; ``note`` is called with a line for
    the user when a checkpoint cannot be used.
    """

    def __init__(
        self,
        folder: Path,
        cell: str,
        progress: Progress,
        *,
        every: CheckpointEvery | None = None,
        guard: Callable[[], None] = lambda: None,
        note: Callable[[str], None] = lambda text: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.folder = folder / "checkpoints"
        self.cell = cell
        self.progress = progress
        self.every = every or CheckpointEvery()
        self.guard = guard
        self.note = note
        self.clock = clock
        self._slots: list[_FileSlot] = []

    def slot(self, name: str, *, seed: int, rounds: int, device: str = "cpu") -> Slot:
        """Return the slot of a training, whose last round is always written."""
        if not re.fullmatch("[a-z0-9_]+", name):
            raise ValueError(f"slot names consist of a-z, 0-9 and _, got {name!r}")
        made = _FileSlot(self, name, rounds, {"seed": seed, "device": device})
        self._slots.append(made)
        return made

    def write_last(self) -> None:
        """Write the last finished round, before a process that must end exits."""
        for slot in self._slots[-1:]:
            slot.write_last()


class _FileSlot:
    """The files of one training."""

    def __init__(
        self, cell: CellCheckpoints, name: str, rounds: int, facts: Mapping[str, Any]
    ) -> None:
        self._cell = cell
        self._name = name
        self._rounds = rounds
        self._facts = dict(facts)
        self._written = 0
        self._since = cell.clock()
        self._copied = -float("inf")
        self._copy: tuple[Checkpoint, Place] | None = None
        self._at_hand: tuple[Checkpoint, Place] | None = None
        self._unusable: list[int] = []

    def load(self) -> "Checkpoint | None":
        """Return the newest intact checkpoint; add a note if a newer one cannot be used."""
        unusable = ""
        for done in reversed(self._there()):
            try:
                checkpoint, place = self._read(done)
            except (OSError, ValueError, KeyError, TypeError) as error:
                cause = " ".join(str(error).split()) or type(error).__name__
                self._unusable.append(done)
                unusable = unusable or f"the checkpoint of round {done} cannot be used: {cause}"
                continue
            if unusable:
                self._cell.note(f"{unusable}; training goes on from round {done}")
            self._cell.progress.keep(place)
            self._written = done
            return checkpoint
        if unusable:
            self._cell.note(f"{unusable}; training starts anew")
        return None

    def offer(self, checkpoint: "Checkpoint", *, long_ahead: bool = False) -> None:
        """Write a checkpoint if one is due; else copy it, or have a stop wait for the next."""
        every, now = self._cell.every, self._cell.clock()
        done = checkpoint.rounds_done
        # The next round may overwrite the tensors. If it is only written at exit, the log may
        # already have a line about that round.
        self._at_hand = fresh = checkpoint, self._cell.progress.place()
        late = every.seconds is not None and now - self._since >= every.seconds
        many = every.rounds is not None and done - self._written >= every.rounds
        if late or many or done >= self._rounds or stop_waits():
            self._write(*fresh)
        elif long_ahead or now - self._copied >= _COPIED_EVERY:
            self._copy = self._at_hand = checkpoint.copy(), fresh[1]
            self._copied = now
        else:
            put_off_stop()
            self._at_hand = self._copy  # for Ctrl-C, which does not wait
            return
        allow_stop()

    def write_last(self) -> None:
        if self._at_hand is not None and self._at_hand[0].rounds_done > self._written:
            self._write(*self._at_hand)

    def _there(self) -> list[int]:
        """Return the rounds of the checkpoints that are there, oldest first."""
        pattern = re.compile(rf"{self._name}-(\d+)\.json")
        names = (path.name for path in self._cell.folder.glob(f"{self._name}-*.json"))
        return sorted(int(match[1]) for match in map(pattern.fullmatch, names) if match)

    def _path(self, done: int, suffix: str) -> Path:
        return self._cell.folder / f"{self._name}-{done:08d}.{suffix}"

    def _named(self, done: int) -> dict[str, Any]:
        """Return what a checkpoint must have in common with the training that goes on from it."""
        import torch

        return {
            "format": _FORMAT,
            "cell": self._cell.cell,
            "slot": self._name,
            "round": done,
            "rounds": self._rounds,
            "torch": torch.__version__,
            "device": self._facts["device"],
        }

    def _write(self, checkpoint: "Checkpoint", place: Place) -> None:
        from safetensors import SafetensorError
        from safetensors.torch import save_file

        self._cell.guard()
        done = checkpoint.rounds_done
        tables = {name: getattr(checkpoint.state, name) for name in _TABLES}
        target = self._path(done, "safetensors")
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = target.with_name(f".{target.name}.{os.getpid()}.tmp")
        try:
            save_file(_storable(tables), draft)
            with draft.open("rb+") as file:
                os.fsync(file.fileno())
            sha256 = sum_of(draft)
            os.replace(draft, target)
        except SafetensorError as error:
            raise _as_system_error(error, target) from None
        finally:
            draft.unlink(missing_ok=True)
        self._cell.progress.sync()
        about = {
            **self._named(done),
            "random": {
                "generator": "philox",
                "address": ["seed", "stream", "round", "client"],
                "seed": self._facts["seed"],
                "next_round": done,
            },
            "selection": dict(checkpoint.selection),
            "tables": {name: list(table) for name, table in tables.items()},
            "progress": {"size": place.size, "seconds": place.seconds},
            "sha256": sha256,
        }
        write_atomic(self._path(done, "json"), json.dumps(about, indent=1) + "\n")
        self._written, self._since = done, self._cell.clock()
        whole = [
            number for number in self._there() if number not in self._unusable or number == done
        ]
        for old in {*self._unusable, *whole[:-_KEPT]} - {done}:
            # The JSON is removed first: without it there is no checkpoint.
            for suffix in ("json", "safetensors"):
                self._path(old, suffix).unlink(missing_ok=True)
        self._unusable = []
        sync_folder(target.parent)

    def _read(self, done: int) -> tuple["Checkpoint", Place]:
        """Read a checkpoint; errors say that it is damaged, or of another training or version."""
        from safetensors.torch import load_file

        from latecomer.models.engine.training import Checkpoint
        from latecomer.models.task.state import State

        about = json.loads(self._path(done, "json").read_text("utf-8"))
        for key, value in self._named(done).items():
            if about[key] != value:
                raise ValueError(f"{key} is {about[key]} there, {value} here")
        if about["random"]["seed"] != self._facts["seed"]:
            raise ValueError("it was trained with another seed")
        path = self._path(done, "safetensors")
        if not path.is_file():
            raise ValueError("its tensors are gone")
        if sum_of(path) != about["sha256"]:
            raise ValueError("its tensors are damaged")
        stored = load_file(path)
        # In the order of training (files sort by name), and copied to new memory, aligned as for
        # any new tensor: sums must come out the same to the last bit.
        state = State(
            *(
                {name: stored[f"{table}.{name}"].clone() for name in about["tables"][table]}
                for table in _TABLES
            )
        )
        place = Place(int(about["progress"]["size"]), float(about["progress"]["seconds"]))
        return Checkpoint(done, state, about["selection"]), place


def _storable(tables: Mapping[str, Mapping[str, "Tensor"]]) -> dict[str, "Tensor"]:
    """Return the tensors as the format wants them: on the host, contiguous, none sharing memory."""
    made: dict[str, Tensor] = {}
    used: set[int] = set()
    for table, entries in tables.items():
        for name, value in entries.items():
            plain = value.detach().cpu().contiguous()
            memory = plain.untyped_storage().data_ptr()
            made[f"{table}.{name}"] = plain.clone() if memory in used else plain
            used.add(memory)
    return made


def _as_system_error(error: Exception, path: Path) -> OSError:
    """Return the system's error behind an error of the safetensors writer."""
    told = re.search(r"\(os error (\d+)\)", str(error))
    number = int(told[1]) if told else errno.EIO
    return OSError(number, os.strerror(number) if told else str(error), str(path))


def remove_checkpoints(folder: Path) -> None:
    """Remove the checkpoints of a cell that is done."""
    place = folder / "checkpoints"
    for path in place.glob("*"):
        path.unlink(missing_ok=True)
    with contextlib.suppress(FileNotFoundError):
        place.rmdir()
