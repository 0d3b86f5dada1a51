"""Where random effects expect a new client's error, beside the certificate of the mean."""

from collections.abc import Iterator

import pandas as pd

from latecomer.certify.words import chance, percent
from latecomer.reports.display.naming import model_names
from latecomer.reports.display.section import Block, Material, Section
from latecomer.reports.display.table import Table
from latecomer.reports.frames.comparison import MODEL
from latecomer.reports.frames.errors import client_errors, primary_predictor, records

_TRAINED = [*MODEL, "seed"]


def next_client_frame(rows: pd.DataFrame) -> pd.DataFrame:
    """Set each model's interval beside the share of new clients whose error lies in it.

    Returns
    -------
    pandas.DataFrame
        ``label predictor seed value lower upper delta n_clients inside n_novel``.
    """
    told = rows[rows["metric"] == "next_client_interval"]
    frame = primary_predictor(told[[*_TRAINED, "value", "lower", "upper", "delta", "n_clients"]])
    errors = client_errors(rows)
    novel = errors[(errors["group"] == "novel") & (errors["shift"] == "none")]
    both = frame.merge(novel[[*_TRAINED, "error"]], on=_TRAINED)
    both["inside"] = both["error"].between(both["lower"], both["upper"])
    kept = both.groupby(_TRAINED, sort=False)["inside"].agg(inside="mean", n_novel="size")
    return frame.merge(kept.reset_index(), on=_TRAINED, how="left")


def next_client_table(frame: pd.DataFrame) -> Table:
    """Show the intervals, which are estimates and no certificates."""
    names = model_names(frame)
    shown = [
        {
            "method": names[str(row["label"]), str(row["predictor"])],
            "seed": str(row["seed"]),
            "mean over clients": percent(row["value"]),
            "a new client's error": f"{percent(row['lower'])} to {percent(row['upper'])}",
            "of new clients inside": percent(row["inside"], 0),
        }
        for row in records(frame)
    ]
    caption = (
        "No certificate: a random-effects model (Hartung and Knapp) of the certified clients' "
        "errors expects the true error of one more client in this interval with probability "
        f"{chance(float(frame['delta'].max()))}. It is asymptotic, and a client's measured error "
        "also varies with its few points, so that fewer clients may be measured inside. Last "
        "column: the new clients that were."
    )
    cells = pd.DataFrame(shown)
    label = "A new client's error by random effects (estimate)"
    return Table("next-client", caption, frame, cells, ("method",), label=label, noun="rows")


def _next_client(material: Material) -> Iterator[Block]:
    frame = material.ordered(next_client_frame(material.rows))
    if len(frame):
        yield next_client_table(frame)


NEXT_CLIENT = Section(
    "next-client",
    _next_client,
    title="What do random effects expect of a new client?",
    chapter="guarantees",
)
