"""Answers who loses least when newcomers' inputs or labels shift, and who breaks first."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import pandas as pd

from latecomer.reports.answers.said import Answer
from latecomer.reports.answers.shift_figure import draw_robustness
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
from latecomer.reports.display.table import Table
from latecomer.reports.frames.comparison import CONFIDENCE, MODEL, pair_frame
from latecomer.reports.frames.errors import records
from latecomer.reports.frames.shift_losses import (
    CLIENT,
    at_severest,
    curves_from_start,
    loss_frame,
    neutral_severity,
    shifted_errors,
)
from latecomer.reports.words import DASH, count, listing, percent, points, shift_name


def answer_shift(material: Material) -> Answer | None:
    """Say who loses least under the shifts, who breaks first, and which differences are chance.

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
    under = f"on average over {count(len(shifts), 'shift')}, each at its severest"
    if len(shifts) == 1:
        under = f"under {_at(frame, shifts[0])}"
    least = f"{points(means.iloc[0])} points of error {under}"
    several = len(order) > 1
    sentence = f"{as_subject(names[order[0]])} loses{' least' if several else ''}: {least}"
    if several:
        sentence += f"; {as_subject(names[order[-1]])} loses most, {points(means.iloc[-1])}"
    hardest = str(frame.groupby("shift", sort=False)["loss"].mean().idxmax())
    own = frame[frame["shift"] == hardest]
    chance = _chance(shifted, order[0], names)
    more = [_lowest(frame, order[0], names), _hardest(own, names), _breaks(frame, names), chance]
    return Answer(
        f"{sentence}.",
        tuple(one for one in more if one),
        _table(frame, material.accuracy, names, order),
        (_plot(material, names),),
        {
            "least_loss": float(means.iloc[0]),
            "most_loss": float(means.iloc[-1]),
            "hardest_loss": float(own["loss"].mean()),
            "n_shifts": len(shifts),
        },
    )


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


def _lowest(frame: pd.DataFrame, least: Model, names: Names) -> str:
    """Say which model errs least at the severest shifts, unless it also loses least."""
    ends = frame.groupby(MODEL, sort=False)["after"].mean()
    best = min(models_in(frame), key=lambda model: float(ends[model]))
    if best == least:
        return ""
    under = "the shift" if frame["shift"].nunique() == 1 else "the shifts, on average,"
    return (
        f"A small loss is not a small error: lowest under {under} is {names[best]} with "
        f"{percent(ends[best])}; {as_subject(names[least])} has {percent(ends[least])}."
    )


def _hardest(own: pd.DataFrame, names: Names) -> str:
    every = records(own.sort_values("after", kind="stable"))
    said = [
        f"{as_subject(names[model_of(row)])} goes from {percent(row['before'])} to "
        f"{percent(row['after'])} error"
        for row in (every[:1] + every[-1:] if len(every) > 1 else every)
    ]
    shift = str(own["shift"].iloc[0])
    return f"Hardest is {_at(own, shift)}: {listing(said)}."


def _breaks(frame: pd.DataFrame, names: Names) -> str:
    """Say whose error doubles first, at the smallest share of a shift's severest value."""
    broken = frame.dropna(subset=["share"]).sort_values("share", kind="stable")
    # Twice an error of 0 is 0: such a model neither holds nor breaks.
    known = frame[frame["shift"].map(neutral_severity).notna() & (frame["before"] > 0)]
    if known.empty:
        return ""
    if broken.empty:
        return "No model's error doubles under any of these severities."
    first = records(broken)[0]
    held = [names[model] for model in models_in(known) if model not in models_in(broken)]
    text = (
        f"First to break: the error of {as_subject(names[model_of(first)])} doubles at about "
        f"{first['shift']} {first['doubles']:.2g}, by a straight line between measured values"
    )
    return f"{text}; that of {listing(held)} never does." if held else f"{text}."


def _chance(shifted: pd.DataFrame, best: Model, names: Names) -> str:
    """Compare what models lose, client by client, over the shifts that keep the same clients."""
    lost = at_severest(shifted[shifted["paired"]])
    shifts = int(lost["shift"].nunique())
    lost = lost.assign(error=lost["error"] - lost["error_before"])
    means = lost.groupby(CLIENT, sort=False)["error"].mean().reset_index()
    pairs = pair_frame(means) if len(models_in(means)) > 1 else means.iloc[:0]
    if pairs.empty:
        return ""
    worse = []
    for row in records(pairs[pairs["p_holm"] <= 1 - CONFIDENCE]):
        one, other = model_of(row), (row["other"], row["other_predictor"])
        less, more = (one, other) if row["difference"] < 0 else (other, one)
        if less == best:
            worse.append(names[more])
    over = count(int(means["client"].nunique()), "client")
    if shifts < shifted["shift"].nunique():
        over += f" and the {count(shifts, 'shift')} that keep{'s' if shifts == 1 else ''} them"
    if not worse:
        return f"Over {over}, no model loses more than {names[best]} beyond chance (5%, Holm)."
    lose = "loses" if len(worse) == 1 else "lose"
    return (
        f"Beyond chance over {over}, {listing(worse)} {lose} more than {names[best]} (paired, 5%, "
        "Holm over all pairs)."
    )


def _table(
    frame: pd.DataFrame, accuracy: pd.DataFrame, names: Names, order: Sequence[Model]
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
    return Table("answer-shift", caption, frame, pd.DataFrame(lines), ("model",))
