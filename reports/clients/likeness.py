"""Whether new clients are like the clients that certificates were made on, told without labels."""

from collections.abc import Sequence

import pandas as pd

from latecomer.certify.words import percent
from latecomer.reports.display.section import Material, Section, tabled
from latecomer.reports.display.table import Table
from latecomer.reports.frames.errors import CONDITION, records

ALARM = 0.05
"""A new client whose p-value is at most this is called unlike the certified clients."""


def likeness_frame(rows: pd.DataFrame) -> pd.DataFrame:
    """Sum up the p-values of new clients, by condition.

    They depend on no method and no training seed, so a client counts once for each split.

    Parameters
    ----------
    rows : pandas.DataFrame
        Rows of the run, those of metric ``likeness_p`` among them.

    Returns
    -------
    pandas.DataFrame
        ``shift severity n_novel n_certified alarms median_p least_p``; ``alarms`` is the share of
        new clients with a p-value of at most ``ALARM``, ``least_p`` the smallest that there can
        be.
    """
    once = ["split", "split_seed", *CONDITION, "client"]
    chosen = rows[rows["metric"] == "likeness_p"].drop_duplicates(once)
    chosen = chosen.sort_values("shift", key=lambda shift: shift != "none", kind="stable")
    by = chosen.assign(alarm=chosen["value"] <= ALARM).groupby(CONDITION, sort=False, dropna=False)
    frame = by.agg(
        n_novel=("value", "size"),
        n_certified=("n_clients", "min"),
        alarms=("alarm", "mean"),
        median_p=("value", "median"),
    ).reset_index()
    return frame.assign(least_p=1 / (1 + frame["n_certified"].astype(float)))


def likeness_table(frame: pd.DataFrame, labels: Sequence[str]) -> Table:
    """Say how many new clients are unlike the certified clients, by condition."""
    shown = pd.DataFrame(
        [
            {
                "shift": row["shift"],
                "severity": "" if pd.isna(row["severity"]) else f"{row['severity']:g}",
                f"p at most {ALARM:g}": percent(row["alarms"]),
                "median p": f"{row['median_p']:.2f}",
                "new clients": str(row["n_novel"]),
                "certified": str(int(row["n_certified"])),
            }
            for row in records(frame)
        ]
    )
    caption = (
        "How many new clients lie further from the seen ones than certified clients do, by their "
        "inputs alone: p is the rank of a new client's distance among the certified clients' "
        "distances. Of clients like those certified, on average at most one in twenty has a p of "
        ".05 or less. A small p says that certificates were not made on such clients, not that "
        "they are served badly; labels that differ where inputs do not leave no trace here."
    )
    if (frame["least_p"] > ALARM).any():
        caption += " Where fewer than 19 clients were certified, no p can be .05 or less."
    label = "Likeness to the certified clients"
    return Table("likeness", caption, frame, shown, ("shift",), label=label)


def _frame(material: Material) -> pd.DataFrame:
    return likeness_frame(material.rows)


LIKENESS = Section(
    "likeness",
    tabled(_frame, likeness_table),
    title="Are new clients like those certified?",
    cites=("vovk2005",),
    chapter="clients",
)
