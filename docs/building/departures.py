"""Where methods depart from what is published, with figures from the kept runs."""

import re
from functools import cache

import pandas as pd
from blocks import table
from published import REFERENCE

from latecomer.eval.names import method_facts
from latecomer.eval.results.kept_cells import cells_of, rows_file

FIGURE = re.compile(r"\{(checks|moved|published|rates) ([\w. -]+)\}")
"""What a method's file writes where the page shows a figure: its kind, and the kept runs."""
_GROUPS = {"seen": "seen clients", "novel": "new clients"}
_NOWHERE = {
    "paper": "No departure from the text is known.",
    "code": "It was not held against code of its authors.",
}


def deviation_table(which: str) -> str:
    """Return the departures of methods, ``all`` or one, from paper and code, as a table."""
    rows = []
    for name, told in method_facts().items():
        if which not in ("all", name):
            continue
        called = f"{told.get('called') or told.get('shown_as') or name} (`{name}`)"
        for where, what, moves in told["deviations"]:
            rows.append((called, where, what, filled(moves, name)))
        named = " ".join(where for where, *_ in told["deviations"])
        rows += [
            (called, where, said, "no" if where == "paper" else "not known")
            for where, said in _NOWHERE.items()
            if where not in named
        ]
    return "\n".join(table(("method", "differs from", "what differs", "moves a number"), rows))


def filled(text: str, method: str) -> str:
    """Put figures of kept runs where a text of the method's names them.

    Examples
    --------
    >>> "% published" in filled("{published pefll-table1-per-fedavg}", "per_fedavg")
    True
    """
    makers = {"published": _beside_published, "moved": _moved, "checks": _picked_and_last}
    makers["rates"] = _by_rate
    return FIGURE.sub(lambda found: makers[found[1]](method, *found[2].split()), text)


def _beside_published(method: str, run: str) -> str:
    """Say what is right in a kept run, and in the table that it follows."""
    numbers = pd.read_csv(REFERENCE / "published.csv")
    named = numbers["method"].str.lower().str.replace("-", "_")
    own = numbers[(numbers["run"] == run) & (named == method)]
    if own.empty:
        raise ValueError(f"published.csv has no figure of {method} with the run {run}")
    said = [
        f"{100 * row['ours']:.1f}% of {_GROUPS[row['group']]}' samples are right, "
        f"{row['mean']:.1f}% published"
        for row in own.to_dict("records")
    ]
    return f"{'; '.join(said)} (`{run}`)"


def _moved(method: str, without: str, ours: str) -> str:
    """Say how many points a departure moves: the run with it less the run without."""
    parts, seeds = [], 0
    for group, called in _GROUPS.items():
        own, other = (_right(run, method, group) for run in (ours, without))
        both = (own - other).dropna()
        seeds = len(both)
        parts.append(f"{100 * both.mean():+.1f} points on {called}".replace("-", "\N{MINUS SIGN}"))
    of = "one seed" if seeds == 1 else f"mean of {seeds} seeds"
    return f"{' and '.join(parts)}, {of} (`{ours}` less `{without}`)"


@cache
def _rows(run: str) -> pd.DataFrame:
    return pd.read_csv(rows_file(REFERENCE / run), keep_default_na=False, low_memory=False)


def _artifact(run: str, method: str, name: str) -> pd.DataFrame:
    """Return a table that the one cell of a method left behind."""
    rows = _rows(run)
    (cell,) = {*rows.loc[rows["label"] == method, "cell"]}
    return pd.read_csv(cells_of(REFERENCE / run) / cell / "artifacts" / f"{name}.csv")


def _right(run: str, method: str, group: str) -> pd.Series:
    """Return the mean share of samples that are right, by seed."""
    rows = _rows(run)
    mean = (rows["metric"] == "error") & (rows["aggregation"] == "per-client")
    own = rows[mean & (rows["client"] == "") & (rows["label"] == method) & (rows["group"] == group)]
    own = own[(own["shift"] == "none") & (own["predictor"] == "deterministic")]
    return 1 - own.set_index("seed")["value"].astype(float)


def _picked_and_last(method: str, run: str) -> str:
    """Say what is right of seen clients' samples at the check that was picked, and at the last."""
    curve = _artifact(run, method, "training_curve")
    errors = curve.pivot(index="round", columns="group", values="error")
    right, picked, last = 1 - errors["seen"], errors["validation"].idxmin(), errors.index.max()
    return (
        f"{100 * right[picked]:.1f}% of seen clients' samples are right at the check that "
        f"validation picks (round {picked:,}), {100 * right[last]:.1f}% at the last ({last:,}; "
        f"`{run}`)"
    )


def _by_rate(method: str, run: str) -> str:
    """Say what is right of seen clients that were refitted as new clients, by rate."""
    tried = _artifact(run, method, "newcomer_rates").to_dict("records")
    said = [f"{100 - 100 * one['error']:.1f}% at {one['rate']:g}" for one in tried]
    return f"of seen clients refitted as new clients {', '.join(said)} (`{run}`)"
