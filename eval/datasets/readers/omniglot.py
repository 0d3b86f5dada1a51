"""Omniglot, from the publisher's image folders or zip archives."""

import io
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from latecomer.errors import InputError
from latecomer.eval.datasets.dataset import Dataset, make_dataset
from latecomer.eval.datasets.locations import find_folder, read_bytes, reading
from latecomer.eval.datasets.reader import Archive, Reader, Source, mirrored

_SETS = ("images_background", "images_evaluation")
_SIDE = 105
_MOST_BYTES = 1 << 20
# <set>/<alphabet>/character<nn>/<nnnn>_<dd>.png, where dd is the drawer.
_PLACE = re.compile(r"(?:.*/)?([^/]+)/(character\d+)/\d+_(\d+)\.png")


def read_omniglot(
    *,
    root: str | Path | None = None,
    clients: str = "alphabet",
    labels: str = "global",
    size: int = 28,
) -> Dataset:
    """Read Omniglot: uint8 [N, 1, size, size], white is 255, with natural clients.

    Parameters
    ----------
    root : str or Path, optional
        Folder with ``omniglot-py``, or one that holds ``images_background`` or
        ``images_evaluation`` (either or both) as folders or as ``.zip``.
    clients : {"alphabet", "drawer"}
        What a client is: an alphabet or a drawer. The publisher numbers drawers 1 to 20.
    labels : {"global", "within"}
        ``global``: every character of every alphabet is a class of its own (1,623 in all);
        ``within``: characters are numbered from 0 within their alphabet.
    size : int in 8..105
        Side of an image in pixels; the publisher's 105 are averaged by area.

    Raises
    ------
    InputError
        No image is found, an image is damaged, of another size or in two places, or an option is
        out of range.
    """
    _check_options(clients, labels, size)
    marks = (*_SETS, *(f"{name}.zip" for name in _SETS))
    folder = find_folder("omniglot", root, ("omniglot-py", "omniglot", "."), marks)
    x: list[NDArray[np.uint8]] = []
    places: dict[tuple[str, str, str], Path] = {}
    for name in _SETS:
        for key, source, content in _images(folder, name):
            if key in places:
                with reading(source):
                    raise InputError(f"holds {'/'.join(key)} again, which {places[key]} holds")
            with reading(source):
                x.append(_decode(content, size, "/".join(key)))
            places[key] = source
    keys = list(places)
    characters = sorted({key[:2] for key in keys})
    rank = {character: number for number, character in enumerate(characters)}
    if labels == "within":
        first = {alphabet: rank[alphabet, c] for alphabet, c in reversed(characters)}
        rank = {(a, c): number - first[a] for (a, c), number in rank.items()}
    return make_dataset(
        "omniglot",
        np.stack(x)[:, np.newaxis],
        np.array([rank[key[:2]] for key in keys]),
        client=np.array([key[0] if clients == "alphabet" else f"drawer {key[2]}" for key in keys]),
        class_names=tuple("/".join(c) for c in characters) if labels == "global" else (),
        provenance=f"{folder}; {len(keys):,} images of {len(characters):,} characters in "
        f"{len({a for a, _ in characters})} alphabets, at {size}x{size}",
    )


def _check_options(clients: str, labels: str, size: int) -> None:
    if clients not in ("alphabet", "drawer"):
        raise InputError(f"data.clients must be alphabet or drawer, got {clients!r}")
    if labels not in ("global", "within"):
        raise InputError(f"data.labels must be global or within, got {labels!r}")
    if isinstance(size, bool) or not isinstance(size, int) or not 8 <= size <= _SIDE:
        raise InputError(f"data.size must be a whole number in 8..{_SIDE}, got {size!r}")


def _images(folder: Path, name: str) -> Iterator[tuple[tuple[str, str, str], Path, bytes]]:
    """Yield (alphabet, character, drawer), the file it is in, and the image's bytes, sorted."""
    opened, archive = folder / name, folder / f"{name}.zip"
    n_images = 0
    if opened.exists():
        for file in sorted(opened.glob("*/character*/*.png")):
            match = _PLACE.fullmatch(file.as_posix())
            if match:
                with reading(file):
                    content = read_bytes(file)
                n_images += 1
                yield _key(match), file, content
        if not n_images:
            with reading(opened):
                raise InputError("holds no <alphabet>/character<nn>/<nnnn>_<dd>.png")
        return
    if not archive.exists():
        return
    with reading(archive):
        if not zipfile.is_zipfile(archive):
            raise InputError("is no zip archive, or one that was cut short")
        with zipfile.ZipFile(archive) as held:
            for member in sorted(held.infolist(), key=lambda info: info.filename):
                match = _PLACE.fullmatch(member.filename)
                if match is None or member.filename.startswith("__MACOSX"):
                    continue
                if member.file_size > _MOST_BYTES:
                    raise InputError(f"{member.filename} is larger than {_MOST_BYTES:,} bytes")
                n_images += 1
                yield _key(match), archive, held.read(member)
        if not n_images:
            raise InputError("holds no <alphabet>/character<nn>/<nnnn>_<dd>.png")


def _key(match: re.Match[str]) -> tuple[str, str, str]:
    alphabet, character, drawer = match.groups()
    return alphabet, character, drawer


def _decode(content: bytes, size: int, what: str) -> NDArray[np.uint8]:
    from PIL import Image

    if not content:
        raise InputError("is empty")
    try:
        with Image.open(io.BytesIO(content), formats=["PNG"]) as image:
            if image.size != (_SIDE, _SIDE):
                raise InputError(f"{what} must be {_SIDE}x{_SIDE} pixels, got {image.size}")
            grey = image.convert("L")
    except InputError:
        raise
    except Exception as error:  # pillow raises many kinds on damaged images
        cause = " ".join(str(error).split())[:80]
        raise InputError(f"{what} is no intact PNG image ({cause})") from error
    return np.asarray(grey.resize((size, size), Image.Resampling.BOX), dtype=np.uint8)


_OMNIGLOT = (
    "https://github.com/brendenlake/omniglot/raw/master/python",
    "https://raw.githubusercontent.com/brendenlake/omniglot/master/python",
)
READERS = (
    Reader(
        name="omniglot",
        description="32,460 drawings of 1,623 characters; natural clients by alphabet or drawer",
        read=read_omniglot,
        optional=("root", "clients", "labels", "size"),
        source=Source(
            "https://github.com/brendenlake/omniglot",
            "omniglot-py/ with images_background and images_evaluation, as folders or as .zip",
            (
                Archive(
                    "omniglot-py/images_background.zip",
                    mirrored(_OMNIGLOT, "images_background.zip"),
                    "ad41ab679c8b5d90b271ef46be6987cc81211774a695c29dcc5367b2b26ee640",
                    "68d2efa1b9178cc56df9314c21c6e718",
                    9_464_212,
                ),
                Archive(
                    "omniglot-py/images_evaluation.zip",
                    mirrored(_OMNIGLOT, "images_evaluation.zip"),
                    "1f61a8f3366785b057fc117d9228e78a16e3d976c8953b2a10fcc74cf0609cee",
                    "6b91aef0f799c5bb55b94e3f2daec811",
                    6_462_886,
                ),
            ),
            (32_460,),
        ),
    ),
)
