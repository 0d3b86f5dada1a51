"""How new clients without labels are served, method by method, from the rows of a kept run."""

from collections.abc import Iterator

import pandas as pd
from blocks import table
from published import REFERENCE

from latecomer.certify.words import percent, points, shift_name
from latecomer.eval.results.rows import load_run
from latecomer.reports.display.naming import model_names
from latecomer.reports.display.section import Material
from latecomer.reports.frames.errors import (
    CONTROL,
    accuracy_frame,
    client_errors,
    model_of,
    pair_frame,
    records,
    shift_frame,
)
from latecomer.reports.page.questions import answers

BESIDE = "pfl_nearest"
LEVEL = 0.05


def unlabelled_table(run: str) -> str:
    """Return what a kept run answers, and a table of new clients' errors, a row a method.

    Differences are paired over clients; intervals hold 95%, Holm's correction is over all pairs.
    """
    material = Material.of(load_run(REFERENCE / run))
    errors = client_errors(material.rows)
    novel = errors[(errors["group"] == "novel") & (errors["shift"] == "none")]
    told = [sentence for one in answers(material) for sentence in (one.sentence, *one.more)]
    shifted = shift_frame(material.rows)
    shifted = shifted[~shifted["shift"].str.endswith(CONTROL)]
    sizes = f"{novel['client'].nunique()} new clients of each of {novel['seed'].nunique()} seeds"
    frame = accuracy_frame(material.rows)
    return "\n".join(
        [
            " ".join(told),
            "",
            f"{sizes} (`{run}`).",
            "",
            *_table(frame[frame["group"] == "novel"], novel, shifted),
            "",
            _alarm(material.rows),
        ]
    )


def _table(frame: pd.DataFrame, novel: pd.DataFrame, shifted: pd.DataFrame) -> list[str]:
    severest = list(_severest(shifted))
    heads = ["method", "error of new clients", "beside PFL-nearest", "told apart"]
    heads += [f"under {shift_name(*one)}" for one in severest]
    names, pairs, rows = model_names(frame), pair_frame(novel), []
    for row in sorted(records(frame), key=lambda one: one["mean"]):
        label = row["label"]
        span = f"{percent(row['lower'])} to {percent(row['upper'])}"
        cells = [names[model_of(row)], f"{percent(row['mean'])} ({span})", *_beside(label, pairs)]
        for shift, severity in severest:
            own = shifted[(shifted["label"] == label) & (shifted["shift"] == shift)]
            own = own[own["severity"].eq(severity) | own["severity"].isna()]
            cells.append(percent(own["mean"].iloc[0]))
        rows.append(cells)
    return table(heads, rows, numbers=True)


def _alarm(rows: pd.DataFrame) -> str:
    """Say for how many new clients inputs alone tell that they are unlike those certified."""
    told = rows[(rows["metric"] == "likeness_p") & ~rows["shift"].str.endswith(CONTROL)]
    told = told[told["label"] == told["label"].iloc[0]]
    rung = [
        f"{percent((own['value'] <= LEVEL).mean(), 0)} {'' if one[0] == 'none' else 'under '}"
        + shift_name(*one)
        for one, own in told.groupby(["shift", "severity"], dropna=False)
    ]
    return f"New clients whose p-value of likeness is at most {LEVEL:g}: {', '.join(rung)}."


def _severest(shifted: pd.DataFrame) -> Iterator[tuple[str, float]]:
    for shift, own in shifted[shifted["shift"] != "none"].groupby("shift", sort=False):
        yield str(shift), own["severity"].max()


def _beside(label: str, pairs: pd.DataFrame) -> tuple[str, str]:
    """Say by how much a method errs more than PFL-nearest, and whether that is beyond chance."""
    one, other = pairs["label"].eq(label), pairs["other"].eq(label)
    own = pairs[(one & pairs["other"].eq(BESIDE)) | (other & pairs["label"].eq(BESIDE))]
    if own.empty:
        return "", ""
    pair = own.iloc[0]
    sign = 1 if pair["label"] == label else -1
    low, high = sorted((sign * pair["lower"], sign * pair["upper"]))
    gap = f"{points(sign * pair['difference'])} ({points(low)} to {points(high)})"
    return gap, "yes" if pair["p_holm"] < LEVEL else "no"
