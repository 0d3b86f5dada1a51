"""What ``latecomer recertify`` prints: certificates before and now."""

import math

from latecomer.eval.runs.reissue import LATE, Reissued
from latecomer.render import number

__all__ = ["reissued_lines"]


def reissued_lines(reissued: Reissued) -> list[str]:
    """Show certificates before and now, and what declaring them late means."""
    heads = (
        "label",
        "seed",
        "predictor",
        "bound",
        "mean_error",
        "before",
        "now",
        "others",
        "declared",
    )
    table: list[tuple[str, ...]] = [heads]
    for row in reissued.table.to_dict("records"):
        cells = {"mean_error": number(row["mean_error"], decimals=4)}
        for name in ("before", "now", "others"):
            value = float(row[name])
            cells[name] = "-" if math.isnan(value) else number(value, decimals=4, up=True)
        table.append(tuple(str(cells.get(name, row[name])) for name in heads))
    widths = [max(len(line[i]) for line in table) for i in range(len(heads))]
    lines = [
        "   ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in table
    ]
    lines.append("others: what a pool's certificate leaves for its clients that were not scored")
    if reissued.n_late:
        lines.append(f"after the scores: no proof; {LATE}")
    return [*lines, str(reissued.path)]
