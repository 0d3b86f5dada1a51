"""What ``latecomer plan`` takes and shows: how many clients to hold out."""

import math
from pathlib import Path

import numpy as np

from latecomer.eval.certificates.loss_table import read_losses
from latecomer.eval.certificates.planning import HoldOutPlan
from latecomer.eval.errors import InputError
from latecomer.render import number

__all__ = ["guess", "plan_lines"]

_WIDEST = 0.999


def guess(expect: float | None, sd: float | None, pilot: str | Path | None) -> tuple[float, float]:
    """Return what clients are expected to score, mean and deviation: as told, or of a pilot."""
    if pilot is None:
        if expect is None or sd is None:
            raise InputError("--expect and --sd are needed, or --pilot with losses of some clients")
        return expect, sd
    if expect is not None or sd is not None:
        raise InputError("--pilot gives mean and deviation: leave --expect and --sd out")
    losses = read_losses(pilot, loss_max=1.0).losses
    if len(losses) < 2:
        raise InputError(f"{pilot}: a pilot needs at least 2 clients, got {len(losses)}")
    if losses[0] == losses[-1]:
        raise InputError(
            f"{pilot}: a pilot's losses must differ, got {losses[0]:g} of every client"
        )
    mean = float(np.mean(losses))
    # Losses of 0 and 1 alone: no law in [0, 1] is spread wider, and a Beta law not as wide.
    return mean, min(float(np.std(losses, ddof=1)), _WIDEST * math.sqrt(mean * (1 - mean)))


def plan_lines(planned: HoldOutPlan, pilot: Path | None) -> list[str]:
    """Show a plan."""
    mean, sd = number(planned.expected, decimals=3), number(planned.sd, decimals=3)
    lines = [
        f"Clients to hold out for a certificate of at most {number(planned.target, decimals=3)}"
        f" (rule {planned.rule}, delta {planned.delta:g}), if they score {mean} on average"
        f" (sd {sd}):",
        f"  {_reached(planned.even_odds, planned)}  with probability 1/2",
        f"  {_reached(planned.likely, planned)}  with probability 9/10",
        f"  {_reached(planned.floor, planned)}  at least by any deterministic rule, if all score"
        f" {mean}",
    ]
    if planned.target <= planned.expected:
        lines.append("No certificate is below the mean of what clients score.")
    if pilot is not None:
        lines.append(
            "The pilot's clients have been looked at: hold out others, and take its mean for the"
            " guess it is."
        )
    return [
        *lines,
        "Simulated with Beta losses. A wrong guess costs value, not truth: the certificate holds"
        " whatever clients score.",
    ]


def _reached(clients: int | None, planned: HoldOutPlan) -> str:
    if clients is None:
        return f"not reachable with {planned.clients} clients"
    return f"{clients:>5} clients"
