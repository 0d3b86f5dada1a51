"""The shifts that come with the package: of each sample's inputs, and of labels by new clients."""

from typing import Any

import numpy as np

from latecomer.eval.shifts.kinds.declaration import Images, Shift, cut, unit_floats


def blur(x: Any, sigma: float) -> Images:
    """Blur each channel of each image with a Gaussian filter of ``sigma`` pixels; 0 does nothing.

    The filter extends to four standard deviations, and border pixels are repeated beyond the
    edge (SciPy's ``mode="nearest", truncate=4``).
    """
    from scipy import ndimage

    blurred: Images = ndimage.gaussian_filter(
        unit_floats(x), (0, 0, sigma, sigma), mode="nearest", truncate=4.0
    )
    return blurred


def rotate(x: Any, degrees: float) -> Images:
    """Rotate each image about its centre, counter-clockwise as seen on a screen.

    Bilinear interpolation within the frame of the original; corners that the rotation uncovers are
    filled with 0, which is black before standardisation. Multiples of 90 degrees (of 180 where
    height and width differ) move pixels exactly.
    """
    from scipy import ndimage

    images = unit_floats(x)
    quarters, rest = divmod(degrees, 90.0)
    if not rest and (quarters % 2 == 0 or images.shape[2] == images.shape[3]):
        return np.ascontiguousarray(np.rot90(images, int(quarters), axes=(2, 3)))
    rotated: Images = ndimage.rotate(
        images, degrees, axes=(3, 2), reshape=False, order=1, mode="grid-constant", cval=0.0
    )
    return rotated


def noise(x: Any, sd: float, rng: np.random.Generator) -> Images:
    """Add independent Gaussian noise of standard deviation ``sd`` to every value.

    What came as uint8 is clipped to [0, 1] as by a camera; floats are not, because their scale is
    the user's.
    """
    values = unit_floats(x)
    added = rng.standard_normal(values.shape, dtype=np.float32)
    return cut(x, values + np.float32(sd) * added)


def contrast(x: Any, factor: float) -> Images:
    """Stretch each image about its own mean over pixels and channels: ``m + factor * (x - m)``.

    Below 1 lowers the contrast, above 1 raises it. What came as uint8 is clipped to [0, 1].
    """
    images = unit_floats(x)
    mean = images.mean(axis=(1, 2, 3), keepdims=True, dtype=np.float64).astype(np.float32)
    return cut(x, mean + np.float32(factor) * (images - mean))


def brightness(x: Any, added: float) -> Images:
    """Add the same amount to every pixel, 1 being the distance from black to white.

    What came as uint8 is clipped to [0, 1].
    """
    return cut(x, unit_floats(x) + np.float32(added))


SHIFTS = (
    Shift(
        name="blur",
        description="Gaussian blur of the images",
        unit="sigma in pixels",
        low=0.0,
        high=50.0,
        above_zero=True,
        function=lambda x, s, _: blur(x, s),
        axis="Gaussian blur, sigma (pixels)",
        true_scale=True,
    ),
    Shift(
        name="rotation",
        description="rotation of the images",
        unit="degrees",
        low=-360.0,
        high=360.0,
        function=lambda x, s, _: rotate(x, s),
        axis="rotation (degrees)",
        true_scale=True,
    ),
    Shift(
        name="noise",
        description="Gaussian noise on every value",
        unit="standard deviation",
        low=0.0,
        high=10.0,
        above_zero=True,
        function=noise,
        images=False,
        axis="Gaussian noise, standard deviation",
    ),
    Shift(
        name="contrast",
        description="contrast of each image about its mean",
        unit="factor",
        low=0.0,
        high=10.0,
        neutral=1.0,
        axis="contrast, factor",
        function=lambda x, s, _: contrast(x, s),
    ),
    Shift(
        name="brightness",
        description="brightness of the images",
        unit="added, white is 1",
        low=-1.0,
        high=1.0,
        function=lambda x, s, _: brightness(x, s),
        axis="brightness added (white is 1)",
    ),
    Shift(
        name="extrapolation",
        description="new clients with other class proportions, dealt from the reserve",
        unit="Dirichlet alpha",
        low=1e-4,
        high=1e6,
        above_zero=True,
        neutral=None,
        images=False,
        joint="draws other clients, so that the certified ones are no sample of a pool",
        axis="Dirichlet alpha of the new clients",
    ),
)
