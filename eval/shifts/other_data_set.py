"""Clients refilled from another data set, and their matched control.

A refilled client keeps its id and its number of samples per class and role, but the samples come
from another data set. Its control is the same client with the same numbers of its own samples:
source images that no seen client holds and, where the publisher has a test set, test images as
query. The effect of the shift is the difference of the two errors, client by client, so that it
cannot be confused with an effect of class sets or sizes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from latecomer.errors import InputError
from latecomer.eval.datasets.dataset import Dataset
from latecomer.eval.shifts.kinds.declaration import unit_floats
from latecomer.eval.splits.dealing import share_counts
from latecomer.eval.splits.split import ClientRows, Role

Ints = NDArray[np.int64]
_ROLES: tuple[Role, ...] = ("support", "validation", "query")


@dataclass(frozen=True)
class Lack:
    """Samples of a client that another data set could not replace.

    ``n_samples`` have no counterpart and are missing from the control too. ``left_out``: the client
    is not measured, because no support or no query data remain. ``message`` names the classes.
    """

    shift: str
    client: int
    n_samples: int
    left_out: bool
    message: str


@dataclass(frozen=True, eq=False)
class Refilled:
    """Clients filled from another data set, their control, and missing samples.

    Attributes
    ----------
    x, y : ndarray of float32, shape [n, ...], and of int64, shape [n]
        Samples of the other data set, in the source's shape, and labels in the source's numbers.
    rows, control : tuple of ClientRows
        The refilled clients by row numbers of ``x``; the same clients by those of the source.
    lacks : tuple of Lack
        Clients that lack samples or are left out.
    """

    x: NDArray[np.float32] = field(repr=False)
    y: Ints = field(repr=False)
    rows: tuple[ClientRows, ...]
    control: tuple[ClientRows, ...]
    lacks: tuple[Lack, ...]


def refill(
    source: Dataset,
    target: Dataset,
    clients: tuple[ClientRows, ...],
    *,
    label: str,
    rng: np.random.Generator,
) -> Refilled:
    """Refill clients from ``target``, keeping their numbers of samples per class and role.

    Classes are matched by name (ignoring case) if both data sets name theirs, else by number. If a
    class has fewer samples than the clients hold together, all of them are dealt in proportion. No
    sample is dealt twice. A client left without support or query data is left out of shift and
    control; ``lacks`` lists what each client misses.
    """
    n_classes = source.n_classes
    y = _matched(source, target)
    own = [[_by_class(source.y, c.rows(role), n_classes) for role in _ROLES] for c in clients]
    wanted = np.array([[len(rows) for rows in part] for parts in own for part in parts])
    supply = np.bincount(y[y >= 0], minlength=n_classes)
    kept = share_counts(wanted.astype(np.float64), np.minimum(supply, wanted.sum(axis=0)))
    kept = np.minimum(kept, wanted).reshape(len(clients), len(_ROLES), n_classes)
    sizes = kept.sum(axis=2)
    measured = (sizes[:, 0] > 0) & (sizes[:, 2] > 0)
    wanted = wanted.reshape(kept.shape)
    lacks = tuple(
        _lack(source, target, label, client.id, wanted[i], kept[i], supply, not measured[i])
        for i, client in enumerate(clients)
        if (kept[i] < wanted[i]).any()
    )
    if not measured.any():
        raise InputError(f"shifts.dataset: {label} shares no class with any evaluated client")
    chosen = [i for i in range(len(clients)) if measured[i]]
    dealt = _dealt(y, kept[chosen], rng)
    rows = _moved([clients[i].id for i in chosen], sizes[chosen])
    control = tuple(
        ClientRows(clients[i].id, *(_first(own[i][role], n) for role, n in enumerate(kept[i])))
        for i in chosen
    )
    x = fit_inputs(target.x[dealt], source.input_shape, label)
    return Refilled(x, y[dealt], rows, control, lacks)


def _first(by_class: Sequence[Ints], counts: Ints) -> Ints:
    """Return the first ``counts`` rows of every class."""
    return np.concatenate([rows[:n] for rows, n in zip(by_class, counts, strict=True)])


def _moved(ids: Sequence[int], sizes: Ints) -> tuple[ClientRows, ...]:
    """Return clients that hold consecutive row numbers, ``sizes`` [clients, roles] of them."""
    parts = np.split(np.arange(sizes.sum()), np.cumsum(sizes)[:-1])
    n = len(_ROLES)
    return tuple(ClientRows(one, *parts[n * i : n * i + n]) for i, one in enumerate(ids))


def _dealt(y: Ints, counts: Ints, rng: np.random.Generator) -> Ints:
    """Deal random rows in the numbers ``counts`` [clients, roles, classes]."""
    n_classes = counts.shape[2]
    queues = _by_class(y, rng.permutation(np.flatnonzero(y >= 0)), n_classes)
    taken = np.zeros(n_classes, dtype=np.int64)
    used: list[Ints] = []
    for n in counts.reshape(-1, n_classes):
        used += [queues[c][taken[c] : taken[c] + n[c]] for c in range(n_classes)]
        taken += n
    return np.concatenate(used)


def fit_inputs(x: NDArray[np.generic], shape: tuple[int, ...], label: str) -> NDArray[np.float32]:
    """Return inputs as floats of another sample shape.

    uint8 is divided by 255. Images of another height or width are resized by Pillow's bilinear
    filter, which averages over the area when shrinking; a single channel is repeated as needed.
    Vectors of another length and other numbers of channels are refused.
    """
    images = unit_floats(x)
    held = images.shape[1:]
    if held == shape:
        return images
    if len(held) != 3 or len(shape) != 3 or held[0] not in (1, shape[0]):
        raise InputError(
            f"shifts.dataset: {label} has samples of shape {list(held)}, which cannot take the "
            f"source's shape {list(shape)}"
        )
    height, width = shape[1:]
    if held[1:] != shape[1:]:
        planes = images.reshape(-1, *held[1:])
        small = [
            np.asarray(Image.fromarray(plane).resize((width, height), Image.Resampling.BILINEAR))
            for plane in planes
        ]
        images = np.stack(small).reshape(len(images), held[0], height, width)
    return np.array(np.broadcast_to(images, (len(images), *shape)))


def _by_class(y: Ints, rows: Ints, n_classes: int) -> list[Ints]:
    """Group rows by label, each group in the order of the rows."""
    order = np.argsort(y[rows], kind="stable")
    ends = np.cumsum(np.bincount(y[rows], minlength=n_classes))
    return np.split(rows[order], ends[:-1])


def _matched(source: Dataset, target: Dataset) -> Ints:
    """Return the target's labels in the source's numbers, -1 for classes the source lacks."""
    if source.class_names and target.class_names:
        number = {name.casefold(): c for c, name in enumerate(source.class_names)}
        of_class = [number.get(name.casefold(), -1) for name in target.class_names]
        return np.array(of_class, dtype=np.int64)[target.y]
    return np.where(target.y < source.n_classes, target.y, -1)


def _lack(
    source: Dataset,
    target: Dataset,
    label: str,
    client: int,
    wanted: Ints,
    kept: Ints,
    supply: Ints,
    left_out: bool,
) -> Lack:
    def named(classes: Ints) -> str:
        names = source.class_names
        return ", ".join(f"{c} {names[c]}" if c < len(names) else str(c) for c in classes.tolist())

    short = (kept < wanted).any(axis=0)
    absent, scarce = np.flatnonzero(short & (supply == 0)), np.flatnonzero(short & (supply > 0))
    said = [f"{target.name} has no samples of class {named(absent)}"] if len(absent) else []
    said += [f"too few of class {named(scarce)}"] if len(scarce) else []
    said += ["the client is left out"] if left_out else []
    return Lack(label, client, int((wanted - kept).sum()), left_out, "; ".join(said))
