"""What each certificate is made of: errors, divergences, variances, terms, shares of delta."""

from collections.abc import Callable, Mapping, Sequence

import pandas as pd

from latecomer.certify.words import DASH, number, percent, shift_name
from latecomer.reports.display.naming import model_called
from latecomer.reports.display.section import Section, tabled
from latecomer.reports.display.table import Table
from latecomer.reports.frames.artifacts import CellTables, joined
from latecomer.reports.frames.errors import CONDITION, in_order, records
from latecomer.reports.words import bound_name, in_one_unit, sentence_case

Words = Callable[[float], str]

QUANTITIES: tuple[tuple[str, str, Words], ...] = (
    ("gibbs_error", "error of drawn models", percent),
    ("mean_parameter_error", "error of the fixed weights", percent),
    ("prior_error", "error of the prior's fixed weights", percent),
    ("reference_error", "error before the update", percent),
    ("kl_hyper", "KL of the system (nats)", number),
    ("sum_kl", "KL of the clients' models, summed (nats)", number),
    ("mask_nats", "KL of the choice of classes, a client (nats)", number),
    ("bits", "bits of the update", number),
    ("alpha", "variance taken", number),
    ("n_priors", "variances tried", number),
    ("n_draws", "draws", number),
    ("orders", "orders averaged over", number),
    ("orders_sd", "sd over other orders", number),
)
"""Inputs of certificates that say how a value came about, with their headings."""
MEANT = {
    "empirical_risk": "measured",
    "source_risk": "measured",
    "price": "choice of clients",
    "clients": "choice of clients",
    "samples": "choice of samples",
    "draws": "Monte Carlo",
}
"""What the calculators' terms pay for; other terms keep their names."""


FEW = 6
"""Up to this many certificates of a bound are shown as columns; more as rows."""


def parts_frame(ledger: pd.DataFrame) -> pd.DataFrame:
    """Spread the recorded numbers of every certificate over columns.

    Parameters
    ----------
    ledger : pandas.DataFrame
        ``ledger_frame`` of a run.

    Returns
    -------
    pandas.DataFrame
        A row per certificate: ``label seed bound shift severity predictor number``, and columns
        ``total value``, ``term <name>``, ``delta <event>``, ``input <name>``; NaN where it has no
        such part.  For Theorem 3.2 the divergences are put together from its norms and variances.
    """
    keys = ["label", "seed", "bound", *CONDITION, "predictor"]
    told = ledger[ledger["kind"].isin(["total", "term", "delta", "input"])].copy()
    # Two entries of a study may ask for one bound at two levels: each begins with its total.
    begins = (told["kind"] == "total").astype("int64")
    told["number"] = begins.groupby([told[key] for key in keys], dropna=False).cumsum()
    told["part"] = told["kind"] + " " + told["name"]
    order = list(dict.fromkeys(told["part"]))
    wide = (
        told.drop_duplicates([*keys, "number", "part"])
        .set_index([*keys, "number", "part"])["value"]
        .unstack("part")
        .reindex(columns=order)
        .reset_index()
    )
    wide.columns.name = None
    return _with_divergences(wide)


def _with_divergences(wide: pd.DataFrame) -> pd.DataFrame:
    """Add the divergences of Theorem 3.2, whose inputs are norms and variances."""
    norms = {"eta_h_squared": "alpha_h", "eta_v_squared": "alpha_v"}
    names = [f"input {name}" for pair in norms.items() for name in pair]
    if not set(names) <= set(wide):
        return wide
    hyper = sum(wide[f"input {norm}"] / (2 * wide[f"input {v}"]) for norm, v in norms.items())
    own = wide["input sum_theta_squared"] / (2 * wide["input alpha_theta"])
    divergences = {
        "input kl_hyper": hyper,
        "input sum_kl": own,
        "input alpha": wide["input alpha_theta"],
    }
    for name, values in divergences.items():
        wide[name] = wide[name].fillna(values) if name in wide else values
    return wide


def parts_table(parts: pd.DataFrame, name: str, bound: str, labels: Sequence[str]) -> Table | None:
    """Show how each value of one bound is made up; None where a value has only one part.

    It has the errors, divergences and variances used, the value with its terms, in points of error
    or, where one of them is above 1, all as plain numbers, and the failure probability by event: a
    column per certificate where they are few, else a row.
    """
    own = in_order(parts[parts["bound"] == bound], labels).dropna(axis="columns", how="all")
    terms = [name for name in map(str, own) if name.startswith("term ")]
    events = [name for name in map(str, own) if name.startswith("delta ")]
    if own.empty or (len(terms) < 2 and len(events) < 2):
        return None
    shifted = bool((own["shift"] != "none").any())
    several = own.groupby("label")["predictor"].nunique().max() > 1
    summed = [column for column in (*terms, "total value") if column in own]
    write_value, unit = in_one_unit(own[summed].abs().to_numpy().ravel())
    write_term = number if unit else _in_points
    shown = []
    for row in records(own):
        cells = {"method": model_called(str(row["label"])), "seed": str(row["seed"])}
        if shifted:
            cells["condition"] = shift_name(row["shift"], row.get("severity", float("nan")))
        if several:
            cells["predictor"] = str(row["predictor"])
        for key, heading, words in QUANTITIES:
            if f"input {key}" in own:
                cells[heading] = words(row[f"input {key}"])
        for column in terms:
            cells[_term(column) + (unit or " (points)")] = write_term(row[column])
        if "total value" in own:
            cells[f"value{unit}"] = write_value(row["total value"])
        for column in events:
            cells[column.replace("delta", "delta:", 1)] = number(row[column])
        shown.append(cells)
    caption = (
        "How each value is made up: what went in, the terms that add up to it, and the failure "
        "probability of each event."
    )
    label = f"Parts of {sentence_case(bound_name(bound))}"
    if len(shown) > FEW:
        told = ("method", "condition", "predictor")
        return Table(name, caption, own, pd.DataFrame(shown), told, label=label)
    return Table(name, caption, own, _upright(shown), ("part",), label=label)


def _upright(shown: Sequence[Mapping[str, str]]) -> pd.DataFrame:
    """Turn a few certificates into columns, so that a phone shows them whole."""
    names = [key for key in ("method", "condition", "predictor") if key in shown[0]]
    alike = [key for key in names if len({cells[key] for cells in shown}) == 1]
    heads = [
        ", ".join([*(cells[key] for key in names if key not in alike), f"seed {cells['seed']}"])
        for cells in shown
    ]
    parts = [key for key in shown[0] if key not in (*names, "seed")]
    columns = {
        head: [cells[part] for part in parts] for head, cells in zip(heads, shown, strict=True)
    }
    # Two levels of one bound share their heading; both must stay.
    if len(columns) < len(shown):
        columns = {
            f"{head} ({place})": [cells[part] for part in parts]
            for place, (head, cells) in enumerate(zip(heads, shown, strict=True), start=1)
        }
    return pd.DataFrame({"part": parts, **columns})


def _term(column: str) -> str:
    name = column.removeprefix("term ")
    return f"+ {MEANT.get(name, name.replace('_', ' '))}".replace("+ measured", "measured error")


def _in_points(value: float) -> str:
    return DASH if pd.isna(value) else f"{100 * value:.1f}"


def variance_frame(tables: CellTables) -> pd.DataFrame:
    """Join the ``tuning`` artifacts of all cells: the variances that posteriors were tuned for.

    Returns
    -------
    pandas.DataFrame
        ``label seed bound alpha kl_hyper error estimate chosen``: ``error`` and ``estimate`` are
        the mean error and the bound with one draw per client, used to choose one variance.
    """
    columns = ["label", "seed", "bound", "alpha", "kl_hyper", "error", "estimate", "chosen"]
    return joined(tables, columns, columns[3:])


def variance_table(frame: pd.DataFrame, labels: Sequence[str]) -> Table:
    """Show the variances tried, the one taken marked."""
    frame = in_order(frame, labels)
    bound, unit = in_one_unit(frame["estimate"])
    shown = [
        {
            "method": model_called(str(row["label"])),
            "seed": str(row["seed"]),
            "variance": number(row["alpha"]),
            "KL after tuning (nats)": number(row["kl_hyper"]),
            "error, one draw a client": percent(row["error"]),
            f"bound so estimated{unit}": bound(row["estimate"]),
            "taken": "yes" if row["chosen"] else "no",
        }
        for row in records(frame)
    ]
    bold = tuple((place, "variance") for place, row in enumerate(shown) if row["taken"] == "yes")
    caption = (
        "Variances that the posterior was tuned for, relative to each tensor's mean square. The "
        "one with the least estimate is taken, and the certificate pays for all of them."
    )
    words, label = ("method", "taken"), "Variances tried"
    return Table("variances", caption, frame, pd.DataFrame(shown), words, bold, label, "rows")


VARIANCES = Section(
    "variances",
    tabled(lambda material: variance_frame(material.tables("tuning")), variance_table),
    title="Variances that were tried",
)
