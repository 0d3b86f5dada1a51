"""Shifts to other data: the effect against a matched control, and which samples were lacking."""

from collections.abc import Sequence

import pandas as pd

from latecomer.certify.words import points
from latecomer.reports.display.naming import model_names
from latecomer.reports.display.section import Section, tabled
from latecomer.reports.display.table import Table, over_seeds, plus_minus
from latecomer.reports.frames.comparison import MODEL, over_clients_and_seeds
from latecomer.reports.frames.errors import CONTROL, client_errors, in_order, records
from latecomer.reports.words import sentence_case


def effect_frame(rows: pd.DataFrame) -> pd.DataFrame:
    """Effect of other data on new clients: error under the shift minus that under its control.

    Each client is paired with itself; its difference is averaged over seeds before any spread over
    clients is taken.

    Returns
    -------
    pandas.DataFrame
        ``label predictor shift effect lower upper sd_seeds n_clients n_seeds``; ``lower`` and
        ``upper`` are the 95% t-interval over clients.
    """
    errors = client_errors(rows)
    errors = errors[errors["group"] == "novel"]
    keys = [*MODEL, "seed", "client", "shift"]
    controls = errors[errors["shift"].str.endswith(CONTROL)]
    controls = controls.assign(shift=controls["shift"].str.removesuffix(CONTROL))
    both = errors.merge(controls[[*keys, "error"]], on=keys, suffixes=("", "_control"))
    both["effect"] = both["error"] - both["error_control"]
    by = [*MODEL, "shift"]
    frame = over_clients_and_seeds(both, by, "effect")
    frame.insert(4, "lower", frame["effect"] - frame["half"])
    frame.insert(5, "upper", frame["effect"] + frame["half"])
    return frame.drop(columns="half")


def lacks_frame(rows: pd.DataFrame) -> pd.DataFrame:
    """List the samples that another data set could not give a client.

    Returns
    -------
    pandas.DataFrame
        ``shift client n_missing message``, one row per client that lacks any.
    """
    chosen = rows[rows["metric"] == "samples_missing"].drop_duplicates(["shift", "client"])
    frame = chosen[["shift", "client", "value", "message"]].rename(columns={"value": "n_missing"})
    return frame.reset_index(drop=True)


def effect_table(frame: pd.DataFrame, labels: Sequence[str]) -> Table:
    """Effect of other data, beside its matched control, per model."""
    frame = in_order(frame, labels)
    names = model_names(frame)
    shown = pd.DataFrame(
        [
            {
                "method": names[row["label"], row["predictor"]],
                "data": row["shift"],
                "effect (points)": plus_minus(points(row["effect"]), row["sd_seeds"]),
                "95% over clients": f"{points(row['lower'])} to {points(row['upper'])}",
                "clients": str(row["n_clients"]),
                "seeds": str(row["n_seeds"]),
            }
            for row in records(frame)
        ]
    )
    caption = (
        "Error on the other data minus error on the control: the same clients with samples of the "
        "same classes, from the other data or again from their own, equally many. What having "
        "other samples and fewer of them does is in both, so the effect is that of the data. "
        f"{sentence_case(over_seeds(frame))}. The interval is the 95% t-interval over clients, "
        "each averaged over seeds."
    )
    label = "Effect of other data"
    return Table("shift-effect", caption, frame, shown, ("method", "data"), label=label)


def lacks_table(frame: pd.DataFrame) -> Table:
    """Say which clients another data set could not fill."""
    shown = pd.DataFrame(
        [
            {
                "data": row["shift"],
                "client": str(row["client"]),
                "samples missing": f"{int(row['n_missing']):,}",
                "why": str(row["message"]),
            }
            for row in records(frame)
        ]
    )
    caption = (
        "Samples that the other data could not give a client; its control lacks them too. A client "
        "left without support or query data is not measured under that shift."
    )
    words, label = ("data", "why"), "Samples missing"
    return Table("samples-missing", caption, frame, shown, words, label=label, noun="clients")


EFFECTS = Section(
    "shift-effect",
    tabled(lambda material: effect_frame(material.errors), effect_table),
    title="Effect of other data",
)
LACKS = Section(
    "samples-missing",
    tabled(lambda material: lacks_frame(material.rows), lambda lacks, _: lacks_table(lacks)),
    title="Samples that other data lack",
)
