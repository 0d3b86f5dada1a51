"""Artifacts of a run to frames: tables that the models' cells left, put together."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from latecomer.eval.results.rows import Artifact, RunRecord
from latecomer.reports.words import file_stem

# What one cell left: the model's label, its training seed, the records of a table.
CellTables = Iterable[tuple[str, int, Sequence[Mapping[str, Any]]]]


def cell_artifacts(run: RunRecord, kind: str) -> Iterator[tuple[str, int, Artifact]]:
    """Yield the artifacts of one kind that the models' cells left: label, seed, artifact."""
    cells = {cell.id: cell.config for cell in run.cells}
    for artifact in run.artifacts:
        if artifact.kind == kind:
            config = cells[artifact.cell]
            yield config["method"]["label"], config["seed"], artifact.load()


def cell_tables(run: RunRecord, kind: str) -> list[tuple[str, int, Any]]:
    """List the tables of one kind that the models' cells left: label, seed, records."""
    return [(label, seed, one.table or ()) for label, seed, one in cell_artifacts(run, kind)]


def split_tables(run: RunRecord, kind: str) -> list[Any]:
    """List the tables of one kind that belong to no model but to the split or a simulation."""
    return [one.load().table or () for one in run.artifacts if one.kind == kind]


def certified_order(run: RunRecord) -> tuple[str, ...]:
    """Return a run's held-out clients in the order in which its split drew them.

    Rules that bet along the clients, or average over permutations of their order, start from it.
    Empty where the run holds no split, or several.
    """
    splits = [one for one in run.artifacts if one.kind == "split"]
    if len(splits) != 1:
        return ()
    held = splits[0].load().arrays or {}
    n_seen, n_certified, *_ = held["groups"].tolist()
    return tuple(map(str, held["ids"][n_seen : n_seen + n_certified].tolist()))


def joined(
    tables: CellTables, columns: Sequence[str], numbers: Sequence[str] = (), fill: Any = None
) -> pd.DataFrame:
    """Join tables of cells, each record beside its model's label and seed.

    Parameters
    ----------
    tables : iterable of (label, seed, records)
        What `cell_tables` lists.
    columns : sequence of str
        Columns of the frame; what a record lacks is ``fill``.
    numbers : sequence of str
        Columns that become floats; non-numbers become NaN.
    """
    rows = [
        {**{name: record.get(name, fill) for name in columns}, "label": label, "seed": seed}
        for label, seed, table in tables
        for record in table
    ]
    frame = pd.DataFrame(rows, columns=list(columns))
    for name in numbers:
        frame[name] = pd.to_numeric(frame[name], errors="coerce").astype("float64")
    return frame


def stems(labels: Iterable[str]) -> dict[str, str]:
    """Give each label a file stem of its own, even where labels differ only in dropped characters.

    >>> stems(["a b", "a/b", "a b"])
    {'a b': 'a-b', 'a/b': 'a-b_'}
    """
    named: dict[str, str] = {}
    for label in dict.fromkeys(labels):
        stem = file_stem(label)
        while stem in named.values():
            stem += "_"
        named[label] = stem
    return named
