"""What the command line prints: numbers, certificates in words, tables.  Text in, text out.

Upper bounds are rounded up, so that what is printed is still a bound.
"""

import json
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import typer

from latecomer.bounds.certificate import Certificate, Entry
from latecomer.certify.words import ledger, plain, rounded

if TYPE_CHECKING:
    from latecomer.eval.runs.reissue import Reissued

_POPULATION = {
    "unseen-client": "clients never seen in training",
    "next-client": "the next client",
    "seen-clients": "unseen data of the seen clients",
    "one-client": "unseen data of one client",
}
_SAMPLING = {
    "iid": "i.i.d. sampling",
    "finite-pool": "sampling without replacement from a finite pool",
    "martingale": "a martingale in time order",
    "iid or finite-pool": "i.i.d. sampling or without replacement from a finite pool",
}
_PREDICTOR = {
    "gibbs": "Gibbs predictor",
    "deterministic": "deterministic predictor",
    "mixture": "mixture predictor",
    "random-checkpoint": "random checkpoint",
    "any": "any predictor",
}


def bound_lines(entry: Entry, inputs: dict[str, Any], result: Any) -> list[str]:
    """Show what a calculator returned: a line per value, then what the value is about."""
    if not isinstance(result, Certificate):
        return [*_quantity_lines(result), entry.claim, f"source: {entry.source}"]
    lines = [
        f"{label}{_sum(result, index)}" for label, index in _labelled(inputs, result.value.shape)
    ]
    lines.append(
        f"{_POPULATION[result.population]}, {_PREDICTOR[result.predictor]},"
        f" {_SAMPLING[result.sampling]}; {result.source}"
    )
    lines.append(f"holds if: {'; '.join(result.assumptions)}")
    if result.delta:
        lines.append(f"failure probability: {ledger(result)}")
    if bool(np.all(result.vacuous)):
        lines.append(f"says nothing: at or above the largest loss, {result.loss_max:g}")
    elif bool(np.any(result.vacuous)):
        lines.append(f"says nothing where it is at or above the largest loss, {result.loss_max:g}")
    if not result.rigorous:
        lines.append(f"not a proven bound: {result.reason}")
    return lines


def bound_record(entry: Entry, inputs: dict[str, Any], result: Any) -> dict[str, Any]:
    """Return what a calculator returned as plain data for JSON."""
    record = {"name": entry.name, "kind": entry.kind, "inputs": inputs}
    if isinstance(result, Certificate):
        from latecomer.certify.statements import certificate_dict

        return plain(record | certificate_dict(result))  # type: ignore[no-any-return]
    return plain(record | {"value": result, "source": entry.source})  # type: ignore[no-any-return]


def about(entry: Entry) -> str:
    """Say whose risk a calculator bounds, of which predictor, under which sampling."""
    if not entry.population:
        return ""
    tags = (_POPULATION[entry.population], _PREDICTOR[entry.predictor], _SAMPLING[entry.sampling])
    return ", ".join(tags)


def _labelled(
    inputs: dict[str, Any], shape: tuple[int, ...]
) -> Iterable[tuple[str, tuple[int, ...]]]:
    """Label each entry of an array result by the one input that varies, else by its index."""
    if not shape:  # a scalar may have been made of lists of several lengths
        yield "", ()
        return
    lists = {name: np.asarray(value) for name, value in inputs.items() if np.ndim(value)}
    varies = [name for name, value in lists.items() if value.shape == shape]
    for index in np.ndindex(shape):
        if len(lists) == len(varies) == 1:
            yield f"{varies[0]}={lists[varies[0]][index]:g}  ", index
        else:
            yield f"[{', '.join(map(str, index))}]  ", index


def _sum(bound: Certificate, index: tuple[int, ...]) -> str:
    value = float(bound.value[index])
    terms = {
        name: float(np.broadcast_to(part, bound.value.shape)[index])
        for name, part in bound.terms.items()
    }
    listed = ""
    for name, part in terms.items():
        sign = "" if not listed else " + " if part >= 0 else " - "
        shown = rounded(part if not listed else abs(part))
        listed += f"{sign}{shown} {name.replace('_', ' ')}"
    adds_up = math.isclose(sum(terms.values()), value, rel_tol=1e-6, abs_tol=1e-9)
    # An inverted kl has no summands: its parts are named, not added.
    return f"{rounded(value, up=True)}   {'=' if adds_up else 'from'} {listed}"


def _quantity_lines(result: Any) -> list[str]:
    if hasattr(result, "_asdict"):
        return [f"{name} = {_shown(value)}" for name, value in result._asdict().items()]
    if isinstance(result, Sequence) and not isinstance(result, str):
        return [_shown(value) for value in result]
    return [_shown(result)]


def _shown(value: Any) -> str:
    """Show numbers in full: a quantity is copied into the next calculation, not only read."""
    return " ".join(f"{entry:.10g}" for entry in np.ravel(value))


def reissued_lines(reissued: "Reissued") -> list[str]:
    """Show certificates before and now, and what declaring them late means."""
    from latecomer.eval.runs.reissue import LATE

    heads = (
        *("label", "seed", "predictor", "bound", "mean_error"),
        *("before", "now", "others", "declared"),
    )
    table: list[tuple[str, ...]] = [heads]
    for row in reissued.table.to_dict("records"):
        cells = {"mean_error": rounded(row["mean_error"], decimals=4)}
        for name in ("before", "now", "others"):
            value = float(row[name])
            cells[name] = "-" if math.isnan(value) else rounded(value, decimals=4, up=True)
        table.append(tuple(str(cells.get(name, row[name])) for name in heads))
    lines = _aligned(table, "   ")
    if reissued.table.empty:
        lines = ["No entry bounds a mean error: what was issued is in the rows and in a report."]
    else:
        lines.append(
            "others: what a pool's certificate leaves for its clients that were not scored"
        )
    if reissued.n_late:
        lines.append(f"after the scores: no proof; {LATE}")
    return [*lines, str(reissued.path)]


def show_table(records: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> None:
    """Print one line per record; the last column may wrap on a terminal, never in a pipe."""
    rows = [[_cell(record.get(column, "")) for column in columns] for record in records]
    if sys.stdout.isatty():
        # Imported here: scripts that read a pipe need not wait for it.
        from rich.console import Console
        from rich.table import Table

        table = Table(box=None, pad_edge=False, header_style="bold")
        for column in columns:
            table.add_column(column.replace("_", " "), no_wrap=column == columns[0])
        for row in rows:
            table.add_row(*row)
        Console(markup=False, emoji=False, highlight=False).print(table)
        return
    for line in _aligned([[column.replace("_", " ") for column in columns], *rows], "  "):
        typer.echo(line)


def _aligned(rows: Sequence[Sequence[str]], gap: str) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    padded = ([cell.ljust(n) for cell, n in zip(row, widths, strict=True)] for row in rows)
    return [gap.join(cells).rstrip() for cells in padded]


def show_json(value: Any) -> None:
    """Print JSON that every parser accepts: no NaN or infinity."""
    typer.echo(json.dumps(value, indent=2, allow_nan=False))


def duration(seconds: float) -> str:
    """Format a duration.

    >>> duration(7.4), duration(112), duration(3 * 3600 + 125)
    ('7 s', '1 m 52 s', '3 h 2 m')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} m"
    return f"{minutes} m {rest} s" if minutes else f"{rest} s"


def count(n: int, noun: str) -> str:
    """Write a count as it is, without marks between thousands, with its noun."""
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return str(value)
