"""Shifts of evaluated clients: what is done to their inputs, by how much, in which unit.

Shifts never touch a client that trains. Inputs are changed as the network sees them before
standardisation, so uint8 is divided by 255 first. Random ones are seeded per client and severity
and never see the method. Extrapolation changes which classes a client
holds rather than its inputs: :func:`latecomer.eval.splits.build.deal_extrapolated` deals such
clients.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from latecomer.eval.errors import InputError, nearest

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

Images = NDArray[np.float32]


@dataclass(frozen=True)
class Shift:
    """A kind of shift.

    Attributes
    ----------
    description : str
        One line.
    unit : str
        What the severity measures.
    low, high : float
        Legal severities, both included.
    function : callable or None
        ``function(x, severity, rng)`` for inputs [n, ...]; None where the shift is one of labels.
    images : bool
        Whether it needs images [n, C, H, W].
    """

    description: str
    unit: str
    low: float
    high: float
    function: Callable[[Any, float, np.random.Generator], Images] | None = None
    images: bool = True

    def apply(self, x: Any, severity: float, rng: np.random.Generator | None = None) -> Images:
        """Return shifted inputs, float32 and of the shape of ``x``.

        ``rng`` matters to shifts that are random (noise); without one, seed 0 is used.

        Raises
        ------
        InputError
            The shift acts on labels, does not fit the data, or the severity is out of range.
        """
        if self.function is None:
            raise InputError(f"{self.description} is no shift of inputs")
        return self.function(x, severity, np.random.default_rng(0) if rng is None else rng)


def blur(x: Any, sigma: float) -> Images:
    """Blur each channel of each image with a Gaussian filter.

    The filter reaches four standard deviations and sees the border pixel repeated beyond the
    edge (SciPy's ``mode="nearest", truncate=4``).

    Parameters
    ----------
    x : array_like, uint8 or float, shape [n, C, H, W]
        uint8 is divided by 255.
    sigma : float, 0 to 50
        Standard deviation in pixels; 0 changes nothing.

    Raises
    ------
    InputError
        ``x`` holds no images, or ``sigma`` is out of range.

    Examples
    --------
    >>> dot = np.zeros((1, 1, 3, 3), dtype=np.float32)
    >>> dot[0, 0, 1, 1] = 1
    >>> round(float(blur(dot, 0.5)[0, 0, 1, 1]), 3)
    0.619
    """
    sigma = check_severity("blur", sigma)
    images = _as_images("blur", x)
    blurred: Images = ndimage.gaussian_filter(
        images, (0, 0, sigma, sigma), mode="nearest", truncate=4.0
    )
    return blurred


def rotate(x: Any, degrees: float) -> Images:
    """Rotate each image about its centre, counter-clockwise as seen on a screen.

    Bilinear interpolation within the frame of the original; corners that the rotation uncovers are
    filled with 0, which is black before standardisation. Multiples of 90 degrees (of 180 where
    height and width differ) move pixels exactly.

    Parameters
    ----------
    x : array_like, uint8 or float, shape [n, C, H, W]
        uint8 is divided by 255.
    degrees : float, -360 to 360

    Raises
    ------
    InputError
        ``x`` holds no images, or ``degrees`` is out of range.

    Examples
    --------
    >>> rotate(np.array([[[[1.0, 2.0], [3.0, 4.0]]]]), 90)[0, 0].tolist()
    [[2.0, 4.0], [1.0, 3.0]]
    """
    degrees = check_severity("rotation", degrees)
    images = _as_images("rotation", x)
    quarters, rest = divmod(degrees, 90.0)
    if not rest and (quarters % 2 == 0 or images.shape[2] == images.shape[3]):
        return np.ascontiguousarray(np.rot90(images, int(quarters), axes=(2, 3)))
    rotated: Images = ndimage.rotate(
        images, degrees, axes=(3, 2), reshape=False, order=1, mode="grid-constant", cval=0.0
    )
    return rotated


def noise(x: Any, sd: float, rng: np.random.Generator) -> Images:
    """Add independent Gaussian noise to every value.

    Parameters
    ----------
    x : array_like, uint8 or float, shape [n, ...]
        uint8 is divided by 255, and the result is cut to [0, 1] as a camera would; floats are
        taken as they are and not cut, because their scale is the user's.
    sd : float, 0 to 10
        Standard deviation, after the division.
    rng : Generator
        Seeded per client and severity, whatever the method.
    """
    sd = check_severity("noise", sd)
    values = unit_floats(x)
    added = rng.standard_normal(values.shape, dtype=np.float32)
    return _cut(x, values + np.float32(sd) * added)


def contrast(x: Any, factor: float) -> Images:
    """Stretch each image about its own mean over pixels and channels: ``m + factor * (x - m)``.

    Parameters
    ----------
    x : array_like, uint8 or float, shape [n, C, H, W]
        uint8 is divided by 255, and the result is cut to [0, 1]; floats are not cut.
    factor : float, 0 to 10
        Below 1 flatter, above 1 harder; 1 changes nothing.

    Raises
    ------
    InputError
        ``x`` holds no images, or ``factor`` is out of range.

    Examples
    --------
    >>> contrast(np.array([[[[0.2, 0.6]]]]), 0.5).round(2).tolist()
    [[[[0.30000001192092896, 0.5]]]]
    """
    factor = check_severity("contrast", factor)
    images = _as_images("contrast", x)
    mean = images.mean(axis=(1, 2, 3), keepdims=True, dtype=np.float64).astype(np.float32)
    return _cut(x, mean + np.float32(factor) * (images - mean))


def brightness(x: Any, added: float) -> Images:
    """Add the same amount to every pixel.

    Parameters
    ----------
    x : array_like, uint8 or float, shape [n, C, H, W]
        uint8 is divided by 255, and the result is cut to [0, 1]; floats are not cut.
    added : float, -1 to 1
        1 is the distance from black to white; 0 changes nothing.
    """
    added = check_severity("brightness", added)
    return _cut(x, _as_images("brightness", x) + np.float32(added))


SHIFTS: Mapping[str, Shift] = MappingProxyType(
    {
        "blur": Shift(
            "Gaussian blur of the images", "sigma in pixels", 0.0, 50.0, lambda x, s, _: blur(x, s)
        ),
        "rotation": Shift(
            "rotation of the images", "degrees", -360.0, 360.0, lambda x, s, _: rotate(x, s)
        ),
        "noise": Shift(
            "Gaussian noise on every value", "standard deviation", 0.0, 10.0, noise, images=False
        ),
        "contrast": Shift(
            "contrast of each image about its mean",
            "factor",
            0.0,
            10.0,
            lambda x, s, _: contrast(x, s),
        ),
        "brightness": Shift(
            "brightness of the images",
            "added, white is 1",
            -1.0,
            1.0,
            lambda x, s, _: brightness(x, s),
        ),
        "extrapolation": Shift(
            "new clients with other class proportions, dealt from the reserve",
            "Dirichlet alpha",
            1e-4,
            1e6,
            images=False,
        ),
    }
)


def check_severity(name: str, severity: Any) -> float:
    """Return ``severity`` as a float, refusing an unknown shift and what its range excludes."""
    if name not in SHIFTS:
        known = ", ".join(SHIFTS)
        raise InputError(f"shifts.{name} must be one of {known}{nearest(name, SHIFTS)}")
    shift = SHIFTS[name]
    number = isinstance(severity, int | float) and not isinstance(severity, bool)
    if not number or not shift.low <= severity <= shift.high:
        raise InputError(
            f"shifts.{name} ({shift.unit}) must lie in [{shift.low:g}, {shift.high:g}], "
            f"got {severity!r}"
        )
    return float(severity)


def check_shifts(shifts: Mapping[str, Sequence[float]], input_shape: Sequence[int]) -> None:
    """Refuse a study's shifts that are unknown, out of range or do not fit its data.

    Parameters
    ----------
    shifts : mapping of str to sequence of float
        Severities by shift.
    input_shape : sequence of int
        Shape of one sample.

    Raises
    ------
    InputError
    """
    for name, severities in shifts.items():
        for severity in severities:
            check_severity(name, severity)
        if severities and SHIFTS[name].images and len(input_shape) != 3:
            raise _not_images(name, input_shape)


def _not_images(name: str, shape: Sequence[int]) -> InputError:
    return InputError(
        f"shifts.{name} needs images [C, H, W], but the data's samples have shape {list(shape)}"
    )


def _as_images(name: str, x: Any) -> Images:
    images = np.asarray(x)
    if images.ndim != 4:
        raise _not_images(name, images.shape[1:])
    return unit_floats(images)


def unit_floats(x: Any) -> Images:
    """Return inputs as the network sees them before standardisation."""
    values = np.asarray(x)
    if values.dtype == np.uint8:
        return values.astype(np.float32) / np.float32(255)
    return values.astype(np.float32, copy=False)


def _cut(x: Any, values: Images) -> Images:
    """Cut to [0, 1] what was stored as bytes: a brighter white is still white."""
    return np.clip(values, 0, 1) if np.asarray(x).dtype == np.uint8 else values
