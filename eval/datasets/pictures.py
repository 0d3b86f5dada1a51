"""Read the pictures in a column, whatever form its cells have, into one array."""

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latecomer.errors import InputError
from latecomer.eval.datasets.reader import reading, require_file
from latecomer.files import at_home

LAYOUTS: dict[str, str] = {
    "vector": "[N, D]",
    "hw": "[N, H, W]",
    "chw": "[N, C, H, W]",
    "hwc": "[N, H, W, C]",
}
_CHANNELS = (1, 3)
_GREY, _COLOUR = ("1", "L", "LA"), ("RGB", "RGBA", "RGBX", "P", "PA", "CMYK", "YCbCr")
_MOST = 4096  # largest side in pixels that pictures may be resized to


def pictures(
    cells: Sequence[Any],
    *,
    column: str,
    folder: Path,
    size: int | None = None,
    layout: str | None = None,
) -> NDArray[Any]:
    """Return pictures as [N, C, H, W]; 8-bit pictures stay uint8.

    Each of ``cells`` is the path or the bytes of a file, a mapping with either, a Pillow image, or
    an array [H, W], [C, H, W] or [H, W, C] with C = 1 or 3, of a ``layout`` that needs saying only
    where two fit. Paths start from ``folder``; ``size`` makes every side that many pixels, each the
    mean of the area it covers; ``column`` is what messages call them, with the row.
    """
    if size is not None and (type(size) is not int or not 1 <= size <= _MOST):
        raise InputError(f"size must be a whole number from 1 to {_MOST}, got {size!r}")
    files = [_file(cell, folder) for cell in cells]
    for row, file in enumerate(files):  # missing files are reported before any is opened
        if file is not None:
            with reading(file, f"{column}, row {row}"):
                require_file(file)
    opened: list[NDArray[Any]] = []
    for row, (cell, file) in enumerate(zip(cells, files, strict=True)):
        with reading(file or Path("picture"), f"{column}, row {row}"):
            opened.append(_opened(cell if file is None else file, size, layout))
    return _alike(opened, column)


def check_layout(layout: object) -> None:
    """Refuse a ``data.layout`` that is none of :data:`LAYOUTS`; None means that none is given."""
    if layout is not None and layout not in LAYOUTS:
        raise InputError(f"data.layout must be one of {', '.join(LAYOUTS)}, got {layout!r}")


def channels_first(x: NDArray[Any], layout: str | None) -> NDArray[Any]:
    """Return vectors unchanged and images as [N, C, H, W], by the one layout that fits their shape.

    >>> channels_first(np.zeros((5, 28, 28)), None).shape
    (5, 1, 28, 28)
    >>> channels_first(np.zeros((5, 32, 32, 3)), None).shape
    (5, 3, 32, 32)
    """
    fits = _fitting(x.shape)
    if layout is not None and layout not in fits:
        wanted = LAYOUTS.get(layout, f"one of {', '.join(LAYOUTS)}")
        raise InputError(
            f"layout={layout} wants x as {wanted} with C = 1 or 3, got shape {list(x.shape)}"
        )
    if not fits:
        raise InputError(
            f"x must have shape {', '.join(LAYOUTS.values())} with C = 1 or 3, got {list(x.shape)}"
        )
    if layout is None and len(fits) > 1:
        raise InputError(
            f"x of shape {list(x.shape)} fits {' and '.join(fits)}: say which with layout"
        )
    chosen = layout or fits[0]
    if chosen == "hw":
        return x[:, np.newaxis]
    return np.moveaxis(x, 3, 1) if chosen == "hwc" else x


def _fitting(shape: tuple[int, ...]) -> list[str]:
    if len(shape) in (2, 3):
        return ["vector" if len(shape) == 2 else "hw"]
    if len(shape) != 4:
        return []
    return [
        layout
        for layout, channels in (("chw", shape[1]), ("hwc", shape[3]))
        if channels in _CHANNELS
    ]


def _file(cell: Any, folder: Path) -> Path | None:
    """Return the file that a cell names, None if it holds something else."""
    if isinstance(cell, Mapping):
        cell = None if cell.get("bytes") is not None else cell.get("path")
    named = isinstance(cell, Path) or (isinstance(cell, str) and cell.strip())
    return folder / at_home(cell) if named else None


def _opened(cell: Any, size: int | None, layout: str | None) -> NDArray[Any]:
    """Return one picture as [C, H, W]."""
    from PIL import Image, UnidentifiedImageError

    if isinstance(cell, Mapping):
        cell = cell.get("bytes")
    if isinstance(cell, bytes):
        cell = io.BytesIO(cell)
    if isinstance(cell, Path | io.BytesIO):
        try:
            with Image.open(cell) as image:
                held = getattr(image, "n_frames", 1)
                if held > 1 and image.format != "MPO":  # cameras add smaller copies of a picture
                    raise InputError(f"must hold one picture, got {held}")
                return _pixels(image, size)
        except UnidentifiedImageError as error:
            raise InputError("is no picture that Pillow can read") from error
        except Image.DecompressionBombError as error:
            raise InputError("has too many pixels") from error
    if isinstance(cell, Image.Image):
        return _pixels(cell, size)
    array = np.asarray(cell)
    if array.ndim not in (2, 3) or array.dtype.kind not in "fu":
        raise InputError(
            "a picture must be the path or the bytes of a file, one that Pillow opened, or an "
            f"array of uint8 or floats [H, W], [C, H, W] or [H, W, C], got {_kind(cell, array)}"
        )
    if size is not None:
        raise InputError("size is for pictures in files, got an array: bring it to size yourself")
    one: NDArray[Any] = channels_first(array[np.newaxis], layout)[0]
    return one


def _kind(cell: Any, array: NDArray[Any]) -> str:
    if not array.ndim:
        return "nothing" if cell is None or cell != cell else f"{cell!r:.60}"
    return f"{array.dtype} of shape {list(array.shape)}"


def _pixels(image: Any, size: int | None) -> NDArray[np.uint8]:
    """Return 8-bit grey or colour pixels, turned upright by the EXIF orientation."""
    from PIL import Image, ImageOps

    if image.mode not in (*_GREY, *_COLOUR):
        raise InputError(f"must have 8 bits a channel, got mode {image.mode}")
    wanted = "L" if image.mode in _GREY else "RGB"
    upright = ImageOps.exif_transpose(image).convert(wanted)
    if size is not None:
        upright = upright.resize((size, size), Image.Resampling.BOX)
    pixels = np.asarray(upright, dtype=np.uint8)
    return pixels[np.newaxis] if pixels.ndim == 2 else np.moveaxis(pixels, 2, 0)


def _alike(opened: list[NDArray[Any]], column: str) -> NDArray[Any]:
    """Stack pictures of one size; among colour pictures a grey one gets three equal channels."""
    for row, one in enumerate(opened):
        if one.shape[1:] != opened[0].shape[1:] or one.dtype != opened[0].dtype:
            first, other = (
                f"{part.dtype} {part.shape[1]}x{part.shape[2]}" for part in (opened[0], one)
            )
            raise InputError(
                f"{column}: pictures must be of one size, got {first} in row 0 and {other} in row "
                f"{row}: size: 32 brings those in files to 32x32"
            )
    colours = max(len(one) for one in opened)
    return np.stack([np.broadcast_to(one, (colours, *one.shape[1:])) for one in opened])
