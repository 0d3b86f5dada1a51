"""All populations of shifted clients that a study asks for, by a user's own shift too.

NumPy only; made once per data set, split and set of shifts, independently of method and training
seed, so that all methods meet the same shifted samples.
"""

import hashlib
import inspect
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latecomer.declared import module_at
from latecomer.errors import InputError
from latecomer.eval.datasets import load_dataset
from latecomer.eval.datasets.dataset import Dataset, as_tokens
from latecomer.eval.shifts.kinds.declaration import unit_floats
from latecomer.eval.shifts.other_data_set import Lack, refill
from latecomer.eval.shifts.transforms import SHIFTS
from latecomer.eval.splits.further_clients import OTHER_LAWS, deal_extrapolated, draw_from_other_law
from latecomer.eval.splits.split import ClientRows, Split

OwnShift = Callable[[NDArray[np.float32], float, np.random.Generator], Any]


def import_shift(path: str) -> OwnShift:
    """Import a shift from ``module:function`` or ``folder/file.py:function``.

    The function is called as ``function(x, severity, rng)`` with float32 inputs [n, ...] as the
    network sees them before standardisation (bytes divided by 255) and a generator seeded per
    client and severity. It returns an array of the same shape. Importing runs the module.
    """
    key = "shifts.function"
    shift: OwnShift = function_at(
        path, key, f"{key}: path must read module:function or file.py:function"
    )
    return shift


def function_at(path: str, key: str, legal: str) -> Callable[..., Any]:
    """Import a user's function; error messages begin with ``key`` or ``legal``."""
    place, _, name = path.rpartition(":")
    if not place or not name.isidentifier():
        raise InputError(f"{legal}, got {path!r}")
    try:
        module = module_at(place)
    except ValueError as error:
        raise InputError(f"{key}: {error}") from error
    function: Callable[..., Any] | None = getattr(module, name, None)
    if not callable(function):
        raise InputError(f"{key}: {place} has no function {name}")
    return function


def source_hash(path: str) -> str:
    """Return the SHA-256 of the file that defines a function, empty if there is no such file.

    Of what is wrapped, bound to arguments or an object, it is of the file that the path names too.
    """
    function = import_shift(path)
    inner = inspect.unwrap(getattr(function, "func", function))
    found = _file_of(inner)
    if inner is not function or not found:
        named = getattr(module_at(path.rpartition(":")[0]), "__file__", None)
        return _sum_of_files([named, found])
    return _sum_of_files([found])


def _file_of(function: Any) -> str | None:
    try:
        return inspect.getsourcefile(function)
    except TypeError:
        return None


def _sum_of_files(files: Sequence[str | None]) -> str:
    there = dict.fromkeys(file for file in files if file and Path(file).is_file())
    held = b"".join(Path(file).read_bytes() for file in there)
    return hashlib.sha256(held).hexdigest() if there else ""


def apply_own(
    function: OwnShift, label: str, x: Any, severity: float, rng: np.random.Generator
) -> NDArray[np.float32]:
    """Call a user's shift on one client's inputs.

    It must not fail, return another shape or non-finite numbers, or others when it is called again
    with the same generator.
    """
    inputs, drawn = unit_floats(x), deepcopy(rng)
    try:
        # Copies, in case the function writes into its argument or returns what it will change.
        given = np.array(function(inputs.copy(), severity, rng))
        again = np.asarray(function(inputs.copy(), severity, drawn))
    except (Exception, SystemExit) as error:
        said = " ".join(str(error).split())[:120]
        raise InputError(
            f"shifts.function: {label} failed: {type(error).__name__}: {said}"
        ) from error
    if given.shape != inputs.shape or given.dtype.kind not in "fiu":
        raise InputError(
            f"shifts.function: {label} must return numbers of shape {list(inputs.shape)}, got "
            f"{given.dtype} of shape {list(given.shape)}"
        )
    if not np.array_equal(given, again, equal_nan=given.dtype.kind == "f"):
        raise InputError(
            f"shifts.function: {label} must draw from the generator that it is given alone, for a "
            "run to be repeatable, got other inputs the second time"
        )
    with np.errstate(over="ignore"):
        shifted = given.astype(np.float32)
    finite = np.isfinite(shifted)
    if not finite.all():
        raise InputError(
            f"shifts.function: {label} must return finite numbers, got {given[~finite][0]}"
        )
    return shifted


CONTROL = "-control"
Ints = NDArray[np.int64]
Shifted = Callable[[Any, float, np.random.Generator], NDArray[np.float32]]


@dataclass(frozen=True, eq=False)
class Population:
    """Clients under one shift.

    Attributes
    ----------
    shift : str
        Name of the shift; for another data set's matched control it ends in ``-control``.
    x, y : ndarray
        Samples that the rows point into.
    lacks : tuple of Lack
        Clients that another data set could not fill completely.
    source_hash : str
        SHA-256 of another data set or of a user's function; empty for everything else.
    distances : mapping of str to float
        Distances of the clients' population from that of the split's clients, where known.
    """

    shift: str
    severity: float | None
    x: NDArray[Any] = field(repr=False)
    y: Ints = field(repr=False)
    rows: tuple[ClientRows, ...]
    lacks: tuple[Lack, ...] = ()
    source_hash: str = ""
    distances: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class _Setting:
    """Input of the shifts: data, split, the study's ``split`` settings and the clients to shift."""

    dataset: Dataset
    split: Split
    seed: int
    query: float
    validation: float
    clients: tuple[ClientRows, ...]

    def generator(self, *purpose: str | int | float) -> np.random.Generator:
        """Return a separate random stream for each purpose, the same for every method."""
        words = [zlib.crc32(repr(part).encode()) for part in purpose]
        return np.random.default_rng([self.seed, *words])


def shifted_populations(
    dataset: Dataset,
    split: Split,
    shifts: Mapping[str, Sequence[Any]],
    *,
    seed: int,
    query: float,
    validation: float,
) -> tuple[Population, ...]:
    """Shift the new clients in every way asked for; add the groups that were held back.

    ``shifts`` are the study's: severities by shift; for ``dataset``, data declarations with a
    ``label``; for ``function``, mappings of ``path``, ``label`` and ``severities``; for the names
    in `OTHER_LAWS`, laws that other clients are drawn from. Random shifts are seeded per client and
    severity, by the split's ``seed``; ``query`` and ``validation`` are the shares of roles of newly
    dealt or drawn clients.
    """
    asked = {name: entries for name, entries in shifts.items() if entries}
    if asked and not split.novel:
        raise InputError(f"shifts.{next(iter(asked))} needs new clients, got a split without any")
    setting = _Setting(dataset, split, seed, query, validation, split.novel)
    populations: list[Population] = []
    for name, entries in asked.items():
        populations += _MAKERS.get(name, _on_inputs)(setting, name, entries)
    return (*populations, *_held_back(dataset, split))


def _held_back(dataset: Dataset, split: Split) -> Iterator[Population]:
    """Return the groups of natural clients that were held back.

    No client of such a group is in the certified population P. Of a population in which a share s
    of the clients is of the group and the others are P's, the total variation from P is s.
    """
    for name, clients in split.apart:
        label = f"{dataset.group_column} {name}".strip()
        yield Population(label, None, dataset.x, dataset.y, clients, distances={"tv": 1.0})


def shifted_certification(
    dataset: Dataset,
    split: Split,
    shifts: Mapping[str, Sequence[Any]],
    names: Sequence[str],
    *,
    seed: int,
) -> tuple[Population, ...]:
    """Shift each held-out client separately, its support and query data alike.

    A client's shifted data depend only on the client and its own random stream, so the clients
    remain independent, or a uniform sample from the pool of shifted untrained clients. ``names``
    are those of shifts of inputs, or labels of the user's own functions: a shift that draws other
    clients, or deals another data set to all clients at once, is refused.
    """
    setting = _Setting(dataset, split, seed, 0.0, 0.0, split.certification)
    populations: list[Population] = []
    for name, entries in shifts.items():
        if name == "function":
            populations += _by_functions(setting, name, [e for e in entries if e["label"] in names])
        elif name in names and name in _MAKERS:
            raise InputError(f"held-out clients cannot be certified under shifts.{name}")
        elif name in names:
            populations += _on_inputs(setting, name, entries)
    return tuple(populations)


def _on_inputs(setting: _Setting, name: str, severities: Sequence[float]) -> Iterator[Population]:
    if setting.dataset.vocabulary and not SHIFTS[name].images:
        raise InputError(f"shifts.{name} needs inputs that are numbers, got tokens")
    for severity in severities:
        yield _moved(setting, name, float(severity), SHIFTS[name].apply)


def _by_functions(
    setting: _Setting, name: str, entries: Sequence[Mapping[str, Any]]
) -> Iterator[Population]:
    for entry in entries:
        function, label = import_shift(entry["path"]), entry["label"]
        for severity in entry["severities"]:
            moved = _moved(setting, label, float(severity), partial(apply_own, function, label))
            yield replace(moved, source_hash=source_hash(entry["path"]))


def _moved(setting: _Setting, name: str, severity: float, shifted: Shifted) -> Population:
    """Shift all samples of each client, with a generator per client."""
    x: list[NDArray[Any]] = []
    y: list[Ints] = []
    rows: list[ClientRows] = []
    place = 0
    for client in setting.clients:
        own = client.rows("all")
        rng = setting.generator(name, client.id, severity)
        x.append(_of_kind(setting.dataset, name, shifted(setting.dataset.x[own], severity, rng)))
        y.append(setting.dataset.y[own])
        ends = np.cumsum([len(client.support), len(client.validation)])
        parts = np.split(np.arange(place, place + len(own)), ends)
        rows.append(ClientRows(client.id, *parts))
        place += len(own)
    return Population(name, severity, np.concatenate(x), np.concatenate(y), tuple(rows))


def _of_kind(dataset: Dataset, name: str, x: NDArray[Any]) -> NDArray[Any]:
    """Return shifted inputs, tokens if the data are, which must be such as the data hold."""
    if not dataset.vocabulary:
        return x
    try:
        tokens = as_tokens(x)
    except InputError as error:
        raise InputError(f"shifts: {name}: {error}") from error
    if int(tokens.max()) >= dataset.vocabulary:
        raise InputError(
            f"shifts: {name} must give tokens from 0 to {dataset.vocabulary - 1}, as the data "
            f"hold, got {int(tokens.max())}"
        )
    return tokens


def _extrapolated(setting: _Setting, name: str, alphas: Sequence[float]) -> Iterator[Population]:
    for index, alpha in enumerate(alphas):
        rows = deal_extrapolated(
            setting.dataset,
            setting.split,
            alpha=alpha,
            seed=setting.seed + index,
            n_clients=len(setting.split.novel),
            query=setting.query,
            validation=setting.validation,
        )
        yield Population(name, float(alpha), setting.dataset.x, setting.dataset.y, rows)


def _of_other_laws(
    setting: _Setting, name: str, laws: Sequence[Sequence[float]]
) -> Iterator[Population]:
    kind = OTHER_LAWS[name]
    for other in laws:
        rows = draw_from_other_law(
            setting.dataset,
            setting.split,
            name=name,
            other=other,
            seed=setting.seed,
            n_clients=len(setting.split.novel),
            query=setting.query,
            validation=setting.validation,
        )
        away = kind.distances(getattr(setting.split.law, kind.own), other)
        x, y = setting.dataset.x, setting.dataset.y
        # The severity is the KL divergence, against which they are certified.
        yield Population(name, away["kl"], x, y, rows, distances=away)


def _from_data_sets(
    setting: _Setting, name: str, entries: Sequence[Mapping[str, Any]]
) -> Iterator[Population]:
    for entry in entries:
        label = entry["label"]
        source = setting.dataset
        target = load_dataset({key: v for key, v in entry.items() if key != "label"})
        if source.vocabulary or target.vocabulary:
            raise InputError(f"shifts.dataset: {label} needs inputs that are numbers, got tokens")
        rng = setting.generator(name, label)
        refilled = refill(source, target, setting.split.novel, label=label, rng=rng)
        origin = target.content_hash
        yield Population(label, None, refilled.x, refilled.y, refilled.rows, refilled.lacks, origin)
        yield Population(label + CONTROL, None, source.x, source.y, refilled.control)


_MAKERS: Mapping[str, Callable[[_Setting, str, Sequence[Any]], Iterator[Population]]]
_MAKERS = MappingProxyType(
    {
        "extrapolation": _extrapolated,
        **dict.fromkeys(OTHER_LAWS, _of_other_laws),
        "dataset": _from_data_sets,
        "function": _by_functions,
    }
)


def combined_hash(data_hash: str, populations: Sequence[Population]) -> str:
    """Return a hash of all data that results depend on: the data set's, if shifts use no other."""
    others = [one.source_hash for one in populations if one.source_hash]
    if not others:
        return data_hash
    return hashlib.sha256("\0".join([data_hash, *others]).encode()).hexdigest()
