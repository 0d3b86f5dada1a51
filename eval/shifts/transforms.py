"""Shifts of evaluated clients: how their inputs change, by how much and in which unit.

Shifts never change a seen client. Inputs are changed as the network sees them before
standardisation, so uint8 is divided by 255 first. Random shifts are seeded per client and severity,
independently of the method. Extrapolation changes which classes a client holds instead of its
inputs: :func:`latecomer.eval.splits.build.deal_extrapolated` deals such clients.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from latecomer.declared import declared
from latecomer.errors import InputError, nearest
from latecomer.eval.shifts.kinds.declaration import Shift, not_images, unit_floats
from latecomer.eval.shifts.kinds.shipped import blur, brightness, contrast, noise, rotate

__all__ = [
    "SHIFTS",
    "Shift",
    "blur",
    "brightness",
    "check_severity",
    "check_shifts",
    "contrast",
    "noise",
    "rotate",
    "unit_floats",
]

SHIFTS: Mapping[str, Shift] = declared("latecomer.eval.shifts.kinds", "SHIFTS")
"""Every shift that a module of ``kinds`` declares."""


def check_severity(name: str, severity: Any) -> float:
    """Return ``severity`` as a float, refusing an unknown shift or a severity out of range."""
    if name not in SHIFTS:
        known = ", ".join(SHIFTS)
        raise InputError(f"shifts.{name} must be one of {known}{nearest(name, SHIFTS)}")
    return SHIFTS[name].checked(severity)


def check_shifts(
    shifts: Mapping[str, Sequence[float]], input_shape: Sequence[int], *, tokens: bool = False
) -> None:
    """Refuse a study's shifts that are unknown, out of range or do not fit its data.

    Parameters
    ----------
    shifts : mapping of str to sequence of float
        Severities by shift.
    input_shape : sequence of int
        Shape of one sample.
    tokens : bool
        Whether samples are tokens, which no shift of this package changes.

    Raises
    ------
    InputError
    """
    for name, severities in shifts.items():
        for severity in severities:
            check_severity(name, severity)
        if severities and SHIFTS[name].images and len(input_shape) != 3:
            raise not_images(name, input_shape)
        if severities and tokens and SHIFTS[name].function is not None:
            raise InputError(f"shifts.{name} needs inputs that are numbers, got tokens")
