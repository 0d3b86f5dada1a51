"""Declaration of a kind of shift, used by studies, populations and figures alike."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latecomer.errors import InputError

Images = NDArray[np.float32]


@dataclass(frozen=True, kw_only=True)
class Shift:
    """A kind of shift.

    Attributes
    ----------
    name : str
        Its name in a study.
    description : str
        One line.
    unit : str
        What the severity measures.
    low, high : float
        Lowest and highest legal severity, both included.
    above_zero : bool
        Whether a study may ask only for severities above 0.
    function : callable or None
        ``function(x, severity, rng)`` for inputs [n, ...]; None for a shift of labels.
    images : bool
        Whether it needs images [n, C, H, W].
    joint : str
        Why there is no certificate under this shift; empty if each client is shifted separately.
    axis : str
        Axis label of its severities in figures; made from the name unless given.
    neutral : float or None
        Severity that changes nothing and from which a shift grows; None where there is none.
    true_scale : bool
        Whether a figure starts at ``neutral`` and spaces severities to scale; else they are
        equally spaced, beside the unshifted control.
    """

    name: str
    description: str
    unit: str
    low: float
    high: float
    above_zero: bool = False
    function: Callable[[Any, float, np.random.Generator], Images] | None = None
    images: bool = True
    joint: str = ""
    axis: str = ""
    neutral: float | None = 0.0
    true_scale: bool = False

    def checked(self, severity: Any) -> float:
        """Return ``severity`` as a float, refusing one outside the range."""
        number = isinstance(severity, int | float) and not isinstance(severity, bool)
        if not number or not self.low <= severity <= self.high:
            raise InputError(
                f"shifts.{self.name} ({self.unit}) must lie in [{self.low:g}, {self.high:g}], "
                f"got {severity!r}"
            )
        return float(severity)

    def apply(self, x: Any, severity: float, rng: np.random.Generator) -> Images:
        """Return shifted inputs, float32 and of the shape of ``x``."""
        if self.function is None:
            raise InputError(f"{self.description} is no shift of inputs")
        severity = self.checked(severity)
        if self.images and np.ndim(x) != 4:
            raise InputError(
                f"shifts.{self.name} needs images [C, H, W], but the data's samples have shape "
                f"{list(np.shape(x)[1:])}"
            )
        return self.function(x, severity, rng)


def unit_floats(x: Any) -> Images:
    """Return inputs as the network sees them before standardisation."""
    values = np.asarray(x)
    if values.dtype == np.uint8:
        return values.astype(np.float32) / np.float32(255)
    return values.astype(np.float32, copy=False)


def cut(x: Any, values: Images) -> Images:
    """Clip inputs that were stored as bytes to [0, 1]: a brighter white is still white."""
    return np.clip(values, 0, 1) if np.asarray(x).dtype == np.uint8 else values
