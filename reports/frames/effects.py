"""Rows to frames about other data: the effect beside a matched control, and what was lacking."""

import pandas as pd

from latecomer.reports.frames.comparison import MODEL, half_width
from latecomer.reports.frames.errors import CONTROL, client_errors


def effect_frame(rows: pd.DataFrame) -> pd.DataFrame:
    """Effect of other data on novel clients: error under the shift minus that under its control.

    The same clients are paired; a client's difference is averaged over seeds before any spread
    over clients is taken.

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
    seeds = both.groupby([*by, "seed"])["effect"].mean().groupby(by)
    clients = both.groupby([*by, "client"])["effect"].mean().groupby(by)
    frame = pd.DataFrame(
        {
            "effect": seeds.mean(),
            "half": clients.agg(half_width),
            "sd_seeds": seeds.std(ddof=1),
            "n_clients": clients.size(),
            "n_seeds": seeds.size(),
        }
    ).reset_index()
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
