"""Answers who loses least when newcomers' inputs or labels shift, and who breaks first."""

from collections.abc import Mapping
from functools import partial

import numpy as np
import pandas as pd

from latecomer.eval.names import SHIFTS
from latecomer.eval.results.rows import RunRecord
from latecomer.reports.answers.naming import named
from latecomer.reports.answers.said import Answer, Shown
from latecomer.reports.answers.shift_figure import draw_robustness
from latecomer.reports.frames.comparison import CONFIDENCE, MODEL, pair_frame
from latecomer.reports.frames.errors import (
    CONTROL,
    client_errors,
    primary_predictor,
    records,
    shift_frame,
)
from latecomer.reports.words import DASH, count, listing, percent, points, shift_name

__all__ = ["answer_shift", "loss_frame"]


def loss_frame(rows: pd.DataFrame) -> pd.DataFrame:
    """Say what every model loses under every shift, on the novel clients of both conditions.

    Parameters
    ----------
    rows : pandas.DataFrame
        Rows of the run.

    Returns
    -------
    pandas.DataFrame
        ``label predictor shift severity before after loss area doubles n_clients n_seeds``: errors
        before the shift (of the control, where another data set has one) and at its severest
        value, ``loss`` their difference, ``area`` the mean loss over all severities from none to
        the severest (trapezia; the mean over conditions where a shift has no severity 0),
        ``doubles`` the severity at which the error first is twice that before, between measured
        ones by a straight line; NaN where it never is.
    """
    errors = primary_predictor(client_errors(rows))
    errors = errors[errors["group"] == "novel"]
    keys = [*MODEL, "seed", "client"]
    found = []
    for shift in dict.fromkeys(errors["shift"]):
        if shift == "none" or shift.endswith(CONTROL):
            continue
        control = shift + CONTROL
        start = control if (errors["shift"] == control).any() else "none"
        before = errors.loc[errors["shift"] == start, [*keys, "error"]]
        own = errors[errors["shift"] == shift]
        both = own.merge(before, on=keys, suffixes=("", "_before"))
        if both.empty:  # a shift that draws other clients: against the mean of the unshifted ones
            means = before.groupby([*MODEL, "seed"])["error"].mean().rename("error_before")
            both = own.merge(means.reset_index(), on=[*MODEL, "seed"])
        for model, part in both.groupby(MODEL, sort=False):
            named_by = dict(zip(MODEL, model, strict=True))
            told = SHIFTS.get(str(shift))
            grows = told is None or not told.joint
            found.append({**named_by, "shift": shift, **_losses(part, grows=grows)})
    columns = [*MODEL, "shift", "severity", "before", "after", "loss", "area", "doubles"]
    return pd.DataFrame(found, columns=[*columns, "n_clients", "n_seeds"])


def _losses(part: pd.DataFrame, *, grows: bool) -> dict[str, float]:
    """Compare one model before and under a shift; ``grows``: whether severity 0 does nothing."""
    sizes = {"n_clients": part["client"].nunique(), "n_seeds": part["seed"].nunique()}
    curve = part.groupby("severity", dropna=False)[["error", "error_before"]].mean()
    severity = float(curve.index[-1])
    before, after = float(curve["error_before"].iloc[-1]), float(curve["error"].iloc[-1])
    ends = {"severity": severity, "before": before, "after": after, "loss": after - before}
    if np.isnan(severity) or not grows:
        area = float((curve["error"] - curve["error_before"]).mean())
        return {**ends, "area": area, "doubles": np.nan, **sizes}
    at = np.r_[0.0, curve.index.to_numpy(dtype=float)]
    lost = np.r_[0.0, (curve["error"] - curve["error_before"]).to_numpy(dtype=float)]
    area = float(np.trapezoid(lost, at) / at[-1])
    return {**ends, "area": area, "doubles": _crossing(at, lost, before), **sizes}


def _crossing(at: np.ndarray, lost: np.ndarray, level: float) -> float:
    """Return where the line through the points first reaches the level; NaN where it never does.

    >>> round(_crossing(np.array([0.0, 1.0, 2.0]), np.array([0.0, 0.1, 0.3]), 0.2), 6)
    1.5
    """
    over = np.flatnonzero(lost >= level)
    if not over.size or not over[0]:
        return float("nan")
    last = int(over[0])
    low, high = lost[last - 1], lost[last]
    return float(at[last - 1] + (at[last] - at[last - 1]) * (level - low) / (high - low))


def answer_shift(run: RunRecord) -> Answer:
    """Say who loses least under the shifts, who breaks first, and which differences are chance.

    Parameters
    ----------
    run : RunRecord

    Returns
    -------
    Answer
        ``numbers`` has ``least_loss`` and ``most_loss`` (means over shifts, each at its severest),
        ``hardest_loss`` (mean over models under the hardest shift) and ``n_shifts``.
    """
    frame = loss_frame(run.rows)
    if frame.empty:
        return Answer("shift", "")
    names = named(frame)
    mean = frame.groupby(MODEL, sort=False)["loss"].mean().sort_values(kind="stable")
    shifts = list(dict.fromkeys(frame["shift"]))
    at = f"at its severest, over {count(len(shifts), 'shift')}" if len(shifts) > 1 else ""
    at = at or f"under {shift_name(shifts[0], _severest(frame, shifts[0]))}"
    least, most = mean.index[0], mean.index[-1]
    sentence = f"{names[least]} loses least: {points(mean[least])} points of error {at}"
    sentence += f"; {names[most]} loses most, {points(mean[most])}." if len(mean) > 1 else "."
    hardest = str(frame.groupby("shift", sort=False)["loss"].mean().idxmax())
    told = [_hardest(frame, hardest, names), _breaks(frame, names), _chance(run.rows, least, names)]
    return Answer(
        "shift",
        sentence,
        tuple(one for one in told if one),
        {
            "least_loss": float(mean.iloc[0]),
            "most_loss": float(mean.iloc[-1]),
            "hardest_loss": float(frame.loc[frame["shift"] == hardest, "loss"].mean()),
            "n_shifts": len(shifts),
        },
        _table(frame, names, list(mean.index)),
        (_figure(run.rows, names),),
    )


def curves(rows: pd.DataFrame) -> pd.DataFrame:
    """Return ``shift_frame`` with every shift's start: severity 0, from no shift or its control.

    A shift without severities ends at 1.
    """
    frame = shift_frame(rows)
    shifts = [s for s in dict.fromkeys(frame["shift"]) if s != "none" and not s.endswith(CONTROL)]
    parts = []
    for shift in shifts:
        control = shift + CONTROL if (frame["shift"] == shift + CONTROL).any() else "none"
        start = frame[frame["shift"] == control].assign(shift=shift, severity=0.0)
        parts += [start, frame[frame["shift"] == shift].fillna({"severity": 1.0})]
    return pd.concat(parts, ignore_index=True) if parts else frame.iloc[:0]


def _figure(rows: pd.DataFrame, names: Mapping[tuple[str, str], str]) -> Shown:
    frame = curves(rows)
    ends = frame.groupby([*MODEL, "shift"], sort=False).tail(1)
    said = [
        f"{row['shift']} {names[row['label'], row['predictor']]} {percent(row['mean'])}"
        for row in records(ends)
    ]
    return Shown(
        "answer-shift",
        "Error of new clients as each shift grows",
        partial(draw_robustness, frame, names),
        f"At the severest: {'; '.join(said)}.",
        "Bands are 95% intervals over clients; all panels share one axis of errors.",
        frame,
    )


def _severest(frame: pd.DataFrame, shift: str) -> float:
    return float(frame.loc[frame["shift"] == shift, "severity"].max())


def _hardest(frame: pd.DataFrame, shift: str, names: Mapping[tuple[str, str], str]) -> str:
    own = frame[frame["shift"] == shift].sort_values("after", kind="stable")
    ends = [own.iloc[0], own.iloc[-1]] if len(own) > 1 else [own.iloc[0]]
    said = [
        f"{names[row['label'], row['predictor']]} goes from {percent(row['before'])} to "
        f"{percent(row['after'])} error"
        for row in ends
    ]
    name = shift_name(shift, _severest(frame, shift))
    return f"Hardest is {name}: {listing(said)}."


def _breaks(frame: pd.DataFrame, names: Mapping[tuple[str, str], str]) -> str:
    """Say where errors double first: under which shift, at which part of its severest value."""
    broken = frame.dropna(subset=["doubles"])
    if broken.empty:
        return "No model's error doubles under any of these severities."
    share = (broken["doubles"] / broken["severity"]).sort_values(kind="stable")
    first = broken.loc[share.index[0]]
    holds = [
        names[model]
        for model in dict.fromkeys(frame[MODEL].itertuples(index=False, name=None))
        if not ((broken[MODEL[0]] == model[0]) & (broken[MODEL[1]] == model[1])).any()
    ]
    text = (
        f"First to break: the error of {names[first['label'], first['predictor']]} has doubled at "
        f"{first['shift']} {first['doubles']:.2g} (of up to {first['severity']:g})"
    )
    return f"{text}; that of {listing(holds)} never doubles." if holds else f"{text}."


def _chance(rows: pd.DataFrame, best: tuple[str, str], names: Mapping[tuple[str, str], str]) -> str:
    """Compare what models lose, client by client, over all shifts at their severest."""
    lost = client_losses(rows)
    pairs = pair_frame(lost) if lost.groupby(MODEL).ngroups > 1 else lost.iloc[:0]
    worse = []
    for row in records(pairs) if len(pairs) else ():
        one, other = (row["label"], row["predictor"]), (row["other"], row["other_predictor"])
        if best in (one, other) and row["p_holm"] <= 1 - CONFIDENCE:
            worse.append(names[other if one == best else one])
    if not len(pairs):
        return ""
    n = count(int(lost["client"].nunique()), "client")
    if not worse:
        return f"Over {n}, no model loses more than {names[best]} beyond chance (5%, Holm)."
    return (
        f"Beyond chance over {n}, {listing(worse)} {'loses' if len(worse) == 1 else 'lose'} more "
        f"than {names[best]} (paired, 5%, Holm over all pairs)."
    )


def client_losses(rows: pd.DataFrame) -> pd.DataFrame:
    """Return every novel client's mean loss at the severest, over the shifts that keep clients."""
    errors = primary_predictor(client_errors(rows))
    errors = errors[errors["group"] == "novel"]
    keys = [*MODEL, "seed", "client"]
    plain = errors.loc[errors["shift"] == "none", [*keys, "error"]]
    parts = []
    for shift in dict.fromkeys(errors["shift"]):
        if shift == "none" or shift.endswith(CONTROL):
            continue
        own = errors[errors["shift"] == shift]
        severest = own["severity"].max()
        own = own if np.isnan(severest) else own[own["severity"] == severest]
        control = errors.loc[errors["shift"] == shift + CONTROL, [*keys, "error"]]
        parts.append(own.merge(control if len(control) else plain, on=keys, suffixes=("", "_0")))
    lost = pd.concat(parts)
    lost = lost.assign(error=lost["error"] - lost["error_0"])
    means: pd.DataFrame = lost.groupby(keys, sort=False)["error"].mean().reset_index()
    return means


def _table(
    frame: pd.DataFrame,
    names: Mapping[tuple[str, str], str],
    order: list[tuple[str, str]],
) -> pd.DataFrame:
    """Lay out models by shifts: points lost at the severest, the mean over severities behind it."""
    shown = []
    for model in order:
        own = frame[(frame["label"] == model[0]) & (frame["predictor"] == model[1])]
        line = {"model": names[model], "unshifted": percent(float(own["before"].iloc[0]))}
        for shift in dict.fromkeys(frame["shift"]):
            row = own[own["shift"] == shift]
            name = shift_name(shift, _severest(frame, shift))
            line[name] = points(float(row["loss"].iloc[0])) if len(row) else DASH
        shown.append(line | {"mean loss": points(float(own["loss"].mean()))})
    return pd.DataFrame(shown)
