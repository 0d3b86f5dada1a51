"""Whether each method's clients have models of their own: frame, table and warning."""

from collections.abc import Sequence

import pandas as pd

from latecomer.certify.words import percent, points
from latecomer.reports.display.naming import model_called
from latecomer.reports.display.section import Section, tabled
from latecomer.reports.display.table import Table, over_seeds, plus_minus
from latecomer.reports.frames.errors import in_order, records
from latecomer.reports.words import PROTOCOLS


def sameness_frame(rows: pd.DataFrame) -> pd.DataFrame:
    """Return mean and spread over seeds of how alike clients' models are, one row per method.

    Columns ``label protocol n_clients n_seeds model_spread spread_sd swap_cost swap_sd warning``;
    ``warning`` is the first one in a method's rows, mostly empty.
    """
    own = rows[rows["metric"].isin(["model_spread", "swap_cost"])]
    methods = []
    for label, model in own.groupby("label", sort=False):
        spread, swap = (model[model["metric"] == name] for name in ("model_spread", "swap_cost"))
        warned = [str(text) for text in spread["message"].dropna() if text]
        methods.append(
            {
                "label": label,
                "protocol": str(model["personalization"].iloc[0]),
                "n_clients": int(model["n_clients"].max()),
                "n_seeds": int(model["seed"].nunique()),
                "model_spread": spread["value"].mean(),
                "spread_sd": spread["value"].std(),
                "swap_cost": swap["value"].mean(),
                "swap_sd": swap["value"].std(),
                "warning": warned[0] if warned else "",
            }
        )
    columns = ["label", "protocol", "n_clients", "n_seeds", "model_spread", "spread_sd"]
    return pd.DataFrame(methods, columns=[*columns, "swap_cost", "swap_sd", "warning"])


def say_sameness(frame: pd.DataFrame) -> list[str]:
    """Warn of each method that is called personalised but serves one model.

    >>> row = {"label": "odpfl_hn", "model_spread": 0.0015, "warning": "serves one model"}
    >>> say_sameness(pd.DataFrame([row]))
    ['ODPFL-HN serves one model: they differ by 0.15% of their size.']
    """
    return [
        f"{model_called(row['label'])} {row['warning']}: they differ by "
        f"{percent(row['model_spread'], 2)} of their size."
        for row in records(frame)
        if row["warning"]
    ]


def sameness_table(frame: pd.DataFrame, labels: Sequence[str]) -> Table:
    """Set spread of the models and cost of another client's model side by side."""
    frame = in_order(frame, labels)
    shown = pd.DataFrame(
        [
            {
                "method": model_called(row["label"]),
                "served by": PROTOCOLS.get(row["protocol"], row["protocol"]),
                "models differ by": plus_minus(percent(row["model_spread"]), row["spread_sd"]),
                "another client's model costs (points)": plus_minus(
                    points(row["swap_cost"]), row["swap_sd"]
                ),
            }
            for row in records(frame)
        ]
    )
    caption = (
        f"Over {int(frame['n_clients'].max())} seen clients at most. Models differ by: distance of "
        "clients' weights from their mean relative to their size (root mean squares); 0% is one "
        "model for all. Cost: error under the next client's model minus error under the own; "
        f"{over_seeds(frame)}. Methods that train to serve a seen client are left out."
    )
    words, label = ("method", "served by"), "Do models differ between clients?"
    return Table("sameness", caption, frame, shown, words, label=label, noun="methods")


SAMENESS = Section(
    "sameness",
    tabled(lambda material: sameness_frame(material.rows), sameness_table),
    title="Do models differ between clients?",
)
