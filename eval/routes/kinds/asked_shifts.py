"""Shifts that certified clients are put under as well, as an entry of ``certificates`` asks."""

from typing import Annotated, Any

from pydantic import BeforeValidator

from latecomer.errors import InputError
from latecomer.eval.schema import sequence
from latecomer.eval.settings.certificate import StudyLike
from latecomer.eval.shifts.transforms import SHIFTS
from latecomer.eval.splits.other_laws import OTHER_LAWS

# Shifts that no certificate is issued under, and why: they do not move each client by itself.
_JOINT = {
    **{name: shift.joint for name, shift in SHIFTS.items() if shift.joint},
    "dataset": "deals another data set to all clients at once, so that they depend on each other",
    **dict.fromkeys(OTHER_LAWS, "draws other clients"),
}


def _all_or_names(value: Any) -> Any:
    if isinstance(value, bool):
        return value
    if not isinstance(value, (list, tuple)) or not value:
        raise ValueError("must be true, false or a list of names of shifts")
    return sequence(value)


AskedShifts = Annotated[bool | tuple[str, ...], BeforeValidator(_all_or_names)]
"""True: all shifts of the study; else their names."""


def names_of(shifts: bool | tuple[str, ...]) -> tuple[str, ...]:
    """Return the shifts of a completed entry by name."""
    return shifts if isinstance(shifts, tuple) else ()


def shifts_asked(
    key: str, shifts: bool | tuple[str, ...], study: StudyLike
) -> bool | tuple[str, ...]:
    """Check the shifts asked for; ``true`` becomes the list of the study's shifts.

    Raises
    ------
    InputError
        The study lacks a shift, or it does not move each client by itself.
    """
    present = _shift_names(study.shifts)
    if not shifts:
        return False
    asked = tuple(present) if isinstance(shifts, bool) else shifts
    if not asked:
        raise InputError(f"{key}: the study has no shifts")
    for name in asked:
        if name not in present:
            legal = ", ".join(present) or "none"
            raise InputError(f"{key} must name shifts of the study ({legal}), got {name}")
        if present[name] in _JOINT:
            raise InputError(f"{key}: {name} {_JOINT[present[name]]}: list the others")
    return asked


def _shift_names(shifts: Any) -> dict[str, str]:
    """Map the names that shifts go by to their sections of ``shifts``."""
    names = {}
    for section, entries in shifts:
        for entry in entries:
            names[str(getattr(entry, "label", section))] = section
    return names
