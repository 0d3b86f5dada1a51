"""Shifts of evaluated clients: how their inputs change, by how much and in which unit.

Shifts never change a seen client. Inputs are changed as the network sees them before
standardisation, so uint8 is divided by 255 first. Random shifts are seeded per client and severity,
independently of the method. Extrapolation changes which classes a client holds instead of its
inputs: :func:`latecomer.eval.splits.build.deal_extrapolated` deals such clients.
"""

from collections.abc import Mapping

from latecomer.declared import declared
from latecomer.eval.shifts.kinds.declaration import Shift

SHIFTS: Mapping[str, Shift] = declared("latecomer.eval.shifts.kinds", "SHIFTS")
"""Every shift that a module of ``kinds`` declares."""
