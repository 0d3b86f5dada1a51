"""The table of the bound that PeFLL reaches when it trains on it, from the rows of its program."""

import pandas as pd
from published import REFERENCE

ROWS = REFERENCE / "bound-training" / "bounds.csv"
_STATES = {
    ("pefll", "before"): "before training",
    ("pefll", "after"): "trained on equation 1",
    ("bound", "after"): "trained on the bound",
    ("none", "before"): "all weights 0",
}


def bound_table(data: str) -> str:
    """Return the bound of every state of a data set's clients with its parts, as a table."""
    rows = pd.read_csv(ROWS)
    own = rows[rows["data"] == data]
    pilot, own = own[own["seed"] >= 100], own[own["seed"] < 100]
    one, seeds = own.iloc[0], own["seed"].nunique()
    tried = [f"{row['alpha']:g} ({row['bound']:.2f})" for row in pilot.to_dict("records")]
    lines = [
        f"{data}: {one['n_clients']} clients of at least {one['n_samples']} samples, {seeds} "
        f"seed{'' if seeds == 1 else 's'}; variance {one['alpha']:g} of {', '.join(tried)}, by the "
        "pilot's bound.",
        "",
        "| | bound | its risk | K | S | error on seen clients' new data | on new clients |",
        "|---|---|---|---|---|---|---|",
    ]
    for state, called in _STATES.items():
        told = own[(own["objective"] == state[0]) & (own["when"] == state[1])]
        cells = (
            _span(told["bound"], ".2f"),
            _span(told["risk"], ".3f"),
            *(_span(told[kl], ",.0f") for kl in ("divergence", "divergences")),
            *(_span(100 * told[error], ".0f", "%") for error in ("error", "novel_error")),
        )
        lines.append(f"| {called} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _span(values: pd.Series, form: str, unit: str = "") -> str:
    """Write the mean of several seeds, with the least and the most where they differ."""
    mean, low, high = (f"{one:{form}}{unit}" for one in (values.mean(), values.min(), values.max()))
    return mean if low == high else f"{mean} ({low} to {high})"
