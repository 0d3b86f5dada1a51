"""Answers what is lost when new clients' inputs or labels shift, and whether a model stands out."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from latecomer.certify.words import DASH, count, counts, listing, percent, points, shift_name
from latecomer.reports.display.answer import Answer, Question
from latecomer.reports.display.naming import (
    Model,
    Names,
    as_subject,
    model_names,
    model_of,
    models_in,
)
from latecomer.reports.display.pictures import Plot
from latecomer.reports.display.section import Material
from latecomer.reports.display.standing import beyond_chance, standing, worse_than
from latecomer.reports.display.table import Table
from latecomer.reports.frames.comparison import MODEL, pair_frame
from latecomer.reports.frames.errors import records
from latecomer.reports.shift.answer_figure import draw_robustness
from latecomer.reports.shift.losses import (
    CLIENT,
    LEAST_WRONG,
    at_severest,
    curves_from_start,
    loss_frame,
    neutral_severity,
    shifted_errors,
)
from latecomer.reports.words import between


def answer_shift(material: Material) -> Answer | None:
    """Say from what to what models lose under the shifts, and what is beyond chance.

    Parameters
    ----------
    material : Material
        Of the run.

    Returns
    -------
    Answer or None
        ``numbers`` has ``least_loss`` and ``most_loss`` (means over shifts, each at its severest),
        ``hardest_loss`` (mean over models under the hardest shift) and ``n_shifts``.
    """
    shifted = shifted_errors(material.errors)
    frame = loss_frame(shifted)
    if frame.empty:
        return None
    names = model_names(frame)
    means = frame.groupby(MODEL, sort=False)["loss"].mean().sort_values(kind="stable")
    order = list(means.index)
    shifts = list(dict.fromkeys(frame["shift"]))
    hardest = str(frame.groupby("shift", sort=False)["loss"].mean().idxmax())
    own = material.ordered(frame[frame["shift"] == hardest])
    worse, how = _worse(shifted, order[0])
    apart = beyond_chance(order, worse, names, how) if len(order) > 1 else ""
    harm = f"{_hardest(own, names)} {_doubled(own, names)}".strip()
    more = [_not_errors(frame), harm, apart]
    return Answer(
        _sentence(frame, means, worse, names, material.dealt),
        tuple(one for one in more if one),
        _table(frame, material.accuracy, names, order, material.dealt),
        (_plot(material, names),),
        {
            "least_loss": float(means.iloc[0]),
            "most_loss": float(means.iloc[-1]),
            "hardest_loss": float(own["loss"].mean()),
            "n_shifts": len(shifts),
        },
    )


def _sentence(
    frame: pd.DataFrame,
    means: pd.Series,
    worse: Sequence[Model],
    names: Names,
    dealt: Sequence[str],
) -> str:
    shifts = list(dict.fromkeys(frame["shift"]))
    under = f"on average over {count(len(shifts), 'shift')}, each at its severest"
    if len(shifts) == 1:
        under = f"under {_at(frame, shifts[0])}"
    of, order = f"points of error lost {under}", list(means.index)
    over = counts(frame["n_clients"].tolist(), "client")
    if set(shifts) & set(dealt):
        over += f" (others under {listing(list(dealt))})"
    if len(order) > 1:
        ends = points(means.iloc[0]), points(means.iloc[-1])
        return standing(order, worse, names, ends=ends, of=of, over=over)
    return f"{as_subject(names[order[0]])}: {points(means.iloc[0])} {of}, over {over}."


def _at(frame: pd.DataFrame, shift: str) -> str:
    """Name a shift with its severest value."""
    return shift_name(shift, float(frame.loc[frame["shift"] == shift, "severity"].iloc[0]))


def _plot(material: Material, names: Names) -> Plot:
    frame = curves_from_start(material.shifts)
    ends = frame.groupby([*MODEL, "shift"], sort=False).tail(1)
    said = [
        f"{shift_name(row['shift'], row['severity'])} {names[model_of(row)]} {percent(row['mean'])}"
        for row in records(ends)
    ]
    return Plot(
        "answer-shift",
        partial(draw_robustness, frame, names, material.looks),
        frame,
        title="Error of new clients as each shift grows",
        alt=f"Errors: {'; '.join(said)}.",
        caption="Bands are 95% intervals over clients; all panels share one axis of errors.",
    )


def _not_errors(frame: pd.DataFrame) -> str:
    """Say from what to what models err at the severest shifts."""
    ends = frame.groupby(MODEL, sort=False)["after"].mean()
    if len(ends) < 2:
        return ""
    under = "the shift" if frame["shift"].nunique() == 1 else "the shifts, on average,"
    told = between(percent(ends.min()), percent(ends.max()))
    return f"A small loss is not a small error: under {under} errors are {told}."


def _hardest(own: pd.DataFrame, names: Names) -> str:
    every = records(own.sort_values("after", kind="stable"))
    said = [
        f"{as_subject(names[model_of(row)])} goes from {percent(row['before'])} to "
        f"{percent(row['after'])} error"
        for row in (every[:1] + every[-1:] if len(every) > 1 else every)
    ]
    shift = str(own["shift"].iloc[0])
    return f"Hardest is {_at(own, shift)}: {listing(said)}."


def _doubled(own: pd.DataFrame, names: Names) -> str:
    """Say by which measured severity of a shift errors have doubled, where that is known."""
    shift = str(own["shift"].iloc[0])
    doubled = own.dropna(subset=["doubles"])
    far = (doubled["doubles"] - neutral_severity(shift)).abs()
    doubled = doubled.assign(far=far).sort_values("far", kind="stable")
    by = [
        f"by {severity:g} for {listing([names[model_of(row)] for row in records(part)])}"
        for severity, part in doubled.groupby("doubles", sort=False)
    ]
    said = f"Beyond chance, errors have doubled {listing(by)}." if by else ""
    few = own[(own["wrong"] < LEAST_WRONG) & own["doubles"].isna()]
    if few.empty or np.isnan(neutral_severity(shift)):
        return said
    whom = "every model" if len(few) == len(own) else listing(list(model_names(few).values()))
    ends = {f"{wrong:.1f}".removesuffix(".0") for wrong in (few["wrong"].min(), few["wrong"].max())}
    return (
        f"{said} When it doubles is not said of {whom}: fewer than {LEAST_WRONG} samples were "
        f"wrong without shift ({' to '.join(sorted(ends, key=float))})."
    ).strip()


def _worse(shifted: pd.DataFrame, least: Model) -> tuple[list[Model], str]:
    """Find who loses more than the least, client by client, and say how that was tested.

    Only shifts that keep the same clients are compared.
    """
    lost = at_severest(shifted[shifted["paired"]])
    shifts = int(lost["shift"].nunique())
    lost = lost.assign(error=lost["error"] - lost["error_before"])
    means = lost.groupby(CLIENT, sort=False)["error"].mean().reset_index()
    pairs = pair_frame(means) if len(models_in(means)) > 1 else means.iloc[:0].assign(p_holm=0.0)
    over = count(int(means["client"].nunique()), "client")
    if not shifts:
        return [], "no shift keeps the clients, so that models are not compared"
    if shifts < shifted["shift"].nunique():
        over += f" and the {count(shifts, 'shift')} that keep{'s' if shifts == 1 else ''} them"
    return worse_than(pairs, least), f"paired over {over}, 5%, Holm over all pairs"


def _table(
    frame: pd.DataFrame,
    accuracy: pd.DataFrame,
    names: Names,
    order: Sequence[Model],
    dealt: Sequence[str],
) -> Table:
    """Lay out models by shifts: points lost at the severest value."""
    novel = accuracy[accuracy["group"] == "novel"]
    plain = {model_of(row): percent(row["mean"]) for row in records(novel)}
    lost = {(model_of(row), row["shift"]): points(row["loss"]) for row in records(frame)}
    means = frame.groupby(MODEL)["loss"].mean()
    shifts = list(dict.fromkeys(frame["shift"]))
    lines: list[dict[str, Any]] = [
        {"model": names[model], "unshifted": plain.get(model, DASH)}
        | {_at(frame, shift): lost.get((model, shift), DASH) for shift in shifts}
        | {"mean loss": points(float(means[model]))}
        for model in order
    ]
    caption = "Error without shift, and points of error more at each shift's severest value."
    if dealt:
        caption += f" Under {listing(list(dealt))}: of other clients than without shift."
    return Table("answer-shift", caption, frame, pd.DataFrame(lines), ("model",))


SHIFT = Question("shift", answer_shift)
