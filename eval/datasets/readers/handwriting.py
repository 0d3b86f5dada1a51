"""Handwriting by its writers and alphabets: FEMNIST from LEAF's JSON shards, and Omniglot."""

import io
import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from latecomer.errors import InputError
from latecomer.eval.datasets.dataset import Dataset, make_dataset
from latecomer.eval.datasets.reader import (
    Archive,
    Reader,
    Source,
    find_folder,
    mirrored,
    read_bytes,
    reading,
    require_file,
)

_FEMNIST_SIDE, _PADDED = 28, 32
_PAPER = 255  # LEAF's images are black strokes on white
_CLASSES = (
    *"0123456789",
    *"ABCDEFGHIJKLMNOPQRSTUVWXYZ",
    *"abcdefghijklmnopqrstuvwxyz",
)
_BLOCK = 1 << 15  # images
_FOLDERS = ("femnist", "femnist/data", "leaf/data/femnist/data", "data", ".")


@dataclass
class _Images:
    """Images collected writer by writer, in blocks so that they are never in memory twice."""

    x: list[NDArray[np.uint8]] = field(default_factory=list)
    y: list[NDArray[np.int64]] = field(default_factory=list)
    used: int = 0

    def add(self, x: NDArray[np.uint8], y: NDArray[np.int64]) -> None:
        self.y.append(y)
        while len(x):
            if not self.x or self.used == _BLOCK:
                self.x.append(np.empty((_BLOCK, *x.shape[1:]), np.uint8))
                self.used = 0
            count = min(len(x), _BLOCK - self.used)
            self.x[-1][self.used : self.used + count] = x[:count]
            self.used += count
            x = x[count:]

    def joined(self) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """Move all images into one array, freeing each block as soon as it is copied."""
        y = np.concatenate(self.y)
        x = np.empty((len(y), *self.x[0].shape[1:]), np.uint8)
        start = 0
        for place, block in enumerate(self.x):
            count = min(_BLOCK, len(y) - start)
            x[start : start + count] = block[:count]
            self.x[place] = block[:0].copy()
            start += count
        return x, y


def read_femnist(*, root: str | Path | None = None) -> Dataset:
    """Read FEMNIST: uint8 [N, 1, 32, 32], 62 classes, every writer a natural client.

    LEAF's 28x28 images in [0, 1] are rounded to multiples of 1/255 and padded by two white pixels
    on each side.

    Parameters
    ----------
    root : str or Path, optional
        Folder with LEAF's ``train`` and ``test``, or ``all_data``, each of JSON shards; or one
        that holds it as ``femnist`` or ``leaf/data/femnist/data``. If both sets share writers
        (LEAF's split by sample), the test rows are marked; if ``test`` has other writers (its
        split by user), they are clients like all others.

    Raises
    ------
    InputError
        A shard is absent, damaged or not LEAF's, or a writer occurs twice in one set.
    """
    folder = find_folder("femnist", root, _FOLDERS, ("train", "all_data"))
    has_test = (folder / "train").exists()
    parts = ("train", "test") if has_test else ("all_data",)
    images = _Images()
    writers: list[str] = []
    sizes: list[int] = []
    is_test: list[bool] = []
    for part in parts:
        met: dict[str, str] = {}
        for shard in _shards(folder / part):
            with reading(shard):
                for writer, x, y in _writers(shard):
                    if writer in met:
                        raise InputError(f"writer {writer} is in {met[writer]} already")
                    met[writer] = shard.name
                    images.add(x, y)
                    writers.append(writer)
                    sizes.append(len(y))
                    is_test.append(part == "test")
    tested = {writer for writer, test in zip(writers, is_test, strict=True) if test}
    trained = {writer for writer, test in zip(writers, is_test, strict=True) if not test}
    by_sample = bool(tested & trained)
    x, y = images.joined()
    counts = f"{len(tested | trained):,} writers, {len(y):,} images"
    return make_dataset(
        "femnist",
        x,
        y,
        client=np.repeat(np.array(writers), sizes),
        test=np.repeat(np.array(is_test), sizes) if by_sample else None,
        class_names=_CLASSES,
        provenance=f"LEAF shards in {folder} ({', '.join(parts)}); {counts}; padded with white",
    )


def _shards(folder: Path) -> list[Path]:
    shards = sorted(folder.glob("*.json"))
    if not shards:
        raise InputError(f"data.root: {folder}: there is no JSON shard (*.json) in it")
    return shards


def _writers(shard: Path) -> Iterator[tuple[str, NDArray[np.uint8], NDArray[np.int64]]]:
    """Yield each writer with its images and labels, streaming the shard."""
    import ijson

    require_file(shard)
    try:
        with shard.open("rb") as stream:
            expected = _announced(stream)
            stream.seek(0)
            writers = set()
            for writer, data in ijson.kvitems(stream, "user_data", use_float=True):
                x, y = _samples(writer, data)
                if expected is not None and expected.get(writer) != len(y):
                    said = expected.get(writer)
                    raise InputError(f"writer {writer} has {len(y)} images, but {said} announced")
                if len(y):
                    writers.add(writer)
                    yield writer, x, y
    except ijson.IncompleteJSONError as error:
        raise InputError(f"is no JSON, or cut short ({_one_line(error)})") from error
    except ijson.JSONError as error:
        raise InputError(f"is no JSON ({_one_line(error)})") from error
    if not writers:
        raise InputError("has no user_data with images: it is no LEAF shard")
    if expected is not None and set(expected) - writers - {w for w, n in expected.items() if not n}:
        missing = sorted(set(expected) - writers)[0]
        raise InputError(f"announces writer {missing}, whose images are not there")


def _announced(stream: BinaryIO) -> dict[str, int] | None:
    """Return the number of images of each writer, which LEAF lists before the images."""
    import ijson

    users: list[str] = []
    counts: list[int] = []
    for prefix, event, value in ijson.parse(stream, use_float=True):
        if prefix == "users.item":
            users.append(str(value))
        elif prefix == "num_samples.item":
            counts.append(int(value))
        elif prefix == "" and event not in ("start_map", "map_key", "end_map"):
            raise InputError("is no LEAF shard: its top is no object")
        elif prefix == "" and value == "user_data":
            break
    if not users or not counts:
        return None
    if len(users) != len(counts):
        raise InputError(f"lists {len(users)} users, but {len(counts)} num_samples")
    return dict(zip(users, counts, strict=True))


def _samples(writer: str, data: Any) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    pixels = _FEMNIST_SIDE**2
    wanted = f"writer {writer} must have x, lists of {pixels} numbers in [0, 1], and y, as many"
    if not isinstance(data, dict) or not all(isinstance(data.get(k), list) for k in "xy"):
        raise InputError(wanted)
    rows, labels = data["x"], data["y"]
    if len(rows) != len(labels):
        raise InputError(f"{wanted}, got {len(rows)} and {len(labels)}")
    if not all(type(label) is int and 0 <= label < len(_CLASSES) for label in labels):
        raise InputError(f"writer {writer} must have labels from 0 to {len(_CLASSES) - 1}")
    if not all(isinstance(row, list) and len(row) == _FEMNIST_SIDE**2 for row in rows):
        raise InputError(wanted)
    values = np.array(rows, dtype=np.float32).reshape(-1, 1, _FEMNIST_SIDE, _FEMNIST_SIDE)
    if values.size and not (values.min() >= 0 and values.max() <= 1):
        raise InputError(f"writer {writer} has pixels outside [0, 1]")
    x = np.full((len(values), 1, _PADDED, _PADDED), _PAPER, dtype=np.uint8)
    edge = (_PADDED - _FEMNIST_SIDE) // 2
    x[:, :, edge:-edge, edge:-edge] = np.rint(values * 255)
    return x, np.array(labels, dtype=np.int64)


def _one_line(error: Exception) -> str:
    # yajl states the cause on its first line and quotes the position after it.
    return str(error).strip().splitlines()[0][:100] if str(error).strip() else "no more bytes"


_LEAF = """\
LEAF makes it from NIST's archive: clone https://github.com/TalwalkarLab/leaf, go to data/femnist
and run ./preprocess.sh -s niid --sf 1.0 -k 0 -t sample (all writers, each with a test set).
Copy data/train and data/test to femnist/train and femnist/test below the data root, or set
data.root to the clone's data/femnist. No sum is published for the result, so none is checked."""


_SETS = ("images_background", "images_evaluation")
_OMNIGLOT_SIDE = 105
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
    if isinstance(size, bool) or not isinstance(size, int) or not 8 <= size <= _OMNIGLOT_SIDE:
        raise InputError(f"data.size must be a whole number in 8..{_OMNIGLOT_SIDE}, got {size!r}")


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
            if image.size != (_OMNIGLOT_SIDE, _OMNIGLOT_SIDE):
                raise InputError(
                    f"{what} must be {_OMNIGLOT_SIDE}x{_OMNIGLOT_SIDE} pixels, got {image.size}"
                )
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
        name="femnist",
        description="handwritten characters by 3,597 writers (natural clients), "
        "32x32 grey, 62 classes",
        read=read_femnist,
        optional=("root",),
        source=Source(
            "https://leaf.cmu.edu",
            "femnist/train/*.json and femnist/test/*.json, or femnist/all_data/*.json",
            recipe=_LEAF,
        ),
    ),
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
