"""Frames of what models lose as inputs or labels of new clients shift."""

import numpy as np
import pandas as pd

from latecomer.eval.names import SHIFTS
from latecomer.reports.frames.comparison import CONFIDENCE, MODEL, holm, paired_p
from latecomer.reports.frames.errors import CONTROL, primary_predictor

CLIENT = [*MODEL, "seed", "client"]

# With fewer wrong samples before a shift, one more or less moves where the error doubles.
LEAST_WRONG = 10


def neutral_severity(shift: str) -> float:
    """Return the severity at which a shift does nothing; NaN where none is known."""
    known = SHIFTS.get(shift)
    return np.nan if known is None or known.neutral is None else known.neutral


def shifted_errors(errors: pd.DataFrame) -> pd.DataFrame:
    """Set every new client's error under every shift beside its error before.

    Parameters
    ----------
    errors : pandas.DataFrame
        ``client_errors`` of the rows.

    Returns
    -------
    pandas.DataFrame
        The ``errors`` of new clients under a shift, with ``error_before`` (under the
        matched control, where another data set has one), ``paired`` (False where the shift draws
        other clients: then ``error_before`` is the mean of the unshifted ones) and ``distance``
        (of the severity from the one that changes nothing; from 0 where that is unknown).
    """
    errors = primary_predictor(errors)
    errors = errors[errors["group"] == "novel"]
    shifts = [name for name in dict.fromkeys(errors["shift"]) if not name.endswith(CONTROL)]
    parts = []
    for shift in shifts:
        if shift == "none":
            continue
        control = shift + CONTROL
        start = control if (errors["shift"] == control).any() else "none"
        before = errors.loc[errors["shift"] == start, [*CLIENT, "error"]]
        own = errors[errors["shift"] == shift]
        both = own.merge(before, on=CLIENT, suffixes=("", "_before"))
        paired = not both.empty
        if not paired:
            means = before.groupby([*MODEL, "seed"])["error"].mean().rename("error_before")
            both = own.merge(means.reset_index(), on=[*MODEL, "seed"])
        neutral = np.nan_to_num(neutral_severity(shift))
        parts.append(both.assign(paired=paired, distance=(both["severity"] - neutral).abs()))
    none = errors.iloc[:0].assign(error_before=0.0, paired=True, distance=0.0)
    shifted: pd.DataFrame = pd.concat(parts, ignore_index=True) if parts else none
    return shifted


def at_severest(shifted: pd.DataFrame) -> pd.DataFrame:
    """Keep every shift's severest value: of two equally far from no shift, the one of more error.

    It is the same for all models, so that their losses are comparable.
    """
    means = shifted.groupby(["shift", "severity"], sort=False, dropna=False)
    ranked = means[["distance", "error"]].mean().reset_index()
    last = ranked.sort_values(["distance", "error"], na_position="first").groupby("shift").tail(1)
    return shifted.merge(last[["shift", "severity"]], on=["shift", "severity"])


def loss_frame(shifted: pd.DataFrame) -> pd.DataFrame:
    """Say what every model loses under every shift, on the new clients of both conditions.

    Parameters
    ----------
    shifted : pandas.DataFrame
        ``shifted_errors``.

    Returns
    -------
    pandas.DataFrame
        ``label predictor shift severity before after loss doubles wrong n_clients n_seeds``: errors
        before the shift and at its severest value, ``loss`` their difference, ``wrong`` how many
        samples were wrong before (seeds averaged; NaN where samples were not counted), and
        ``doubles`` the measured severity nearest to no shift at which the error has doubled: it is
        at least twice that before, is above it beyond chance, and at least ``LEAST_WRONG`` samples
        were wrong before.  Otherwise NaN, and so where the start is unknown or clients are others.
    """
    shifted = shifted.assign(lost=shifted["error"] - shifted["error_before"])
    doubled = _doubled(shifted)
    told = []
    for key, part in at_severest(shifted).groupby([*MODEL, "shift"], sort=False):
        before, after = float(part["error_before"].mean()), float(part["error"].mean())
        told.append(
            {
                **dict(zip([*MODEL, "shift"], key, strict=True)),
                "severity": float(part["severity"].iloc[0]),
                "before": before,
                "after": after,
                "loss": after - before,
                "doubles": doubled.get(tuple(map(str, key)), np.nan),
                "wrong": _wrong(part),
                "n_clients": part["client"].nunique(),
                "n_seeds": part["seed"].nunique(),
            }
        )
    columns = ["shift", "severity", "before", "after", "loss", "doubles", "wrong"]
    return pd.DataFrame(told, columns=[*MODEL, *columns, "n_clients", "n_seeds"])


def _doubled(shifted: pd.DataFrame) -> dict[tuple[str, ...], float]:
    """Map (label, predictor, shift) to the severity by which the error has doubled, if any.

    The increase is put to a paired t-test over clients, each averaged over seeds; p-values are
    corrected after Holm over all models, shifts and severities.
    """
    keys = [*MODEL, "shift", "severity", "distance"]
    paired = shifted[shifted["paired"]]
    lost = paired.groupby([*keys, "client"], sort=False)["lost"].mean()
    p = lost.groupby(keys, sort=False).agg(paired_p)
    corrected = holm(p.to_numpy(dtype=float))
    doubled: dict[tuple[str, ...], float] = {}
    for place, (_, part) in enumerate(paired.groupby(keys, sort=False)):
        key = tuple(str(part[name].iloc[0]) for name in (*MODEL, "shift"))
        neutral, severity = neutral_severity(key[-1]), float(part["severity"].iloc[0])
        curve = part[["error", "error_before"]].mean()
        twice = curve["error"] >= 2 * curve["error_before"]
        known = np.isfinite(neutral) and _wrong(part) >= LEAST_WRONG
        if known and twice and corrected[place] <= 1 - CONFIDENCE:
            nearest = doubled.get(key, np.inf)
            doubled[key] = min(nearest, severity, key=lambda one: abs(one - neutral))
    return doubled


def _wrong(part: pd.DataFrame) -> float:
    """Count the samples that were wrong before a shift, averaged over the seeds."""
    samples = pd.to_numeric(part["n_query"], errors="coerce").astype(float)
    wrong = (part["error_before"] * samples).groupby(part["client"]).mean()
    return float(wrong.sum(skipna=False))


def curves_from_start(shifts: pd.DataFrame) -> pd.DataFrame:
    """Return what the figure draws: ``shift_frame`` with rows for the start of every curve.

    In these rows ``start`` is ``none`` or the matched ``control`` (it is empty in the others), and
    the severity is the one that changes nothing, where known.  ``place`` is where a row stands on
    the axis.
    """
    frame = shifts.assign(start="")
    every = [name for name in dict.fromkeys(frame["shift"]) if not name.endswith(CONTROL)]
    parts = []
    for shift in every:
        if shift == "none":
            continue
        control = frame[frame["shift"] == shift + CONTROL].assign(start="control")
        before = control if len(control) else frame[frame["shift"] == "none"].assign(start="none")
        own, neutral = frame[frame["shift"] == shift], neutral_severity(shift)
        before = before.merge(own[MODEL].drop_duplicates())  # a route's model is not shifted
        places, start = _places(own["severity"], neutral)
        parts.append(before.assign(shift=shift, severity=neutral, place=start))
        parts.append(own.assign(place=places).sort_values("place", kind="stable"))
    return pd.concat(parts, ignore_index=True) if parts else frame.iloc[:0]


def _places(severity: pd.Series, neutral: float) -> tuple[pd.Series, int]:
    """Place severities side by side; the unshifted start stands first, or between them.

    >>> _places(pd.Series([0.25, 0.5]), 1.0)[0].tolist(), _places(pd.Series([0.1, 0.2]), 0.0)[1]
    ([2, 1], 0)
    >>> places, start = _places(pd.Series([-0.3, 0.2, 0.4]), 0.0)
    >>> places.tolist(), start
    ([0, 2, 3], 1)
    """
    rank = severity.rank(method="dense").fillna(1).astype(int)
    below, all_ = int(severity[severity < neutral].nunique()), int(rank.max())
    if 0 < below < all_:
        return rank - (rank <= below), below
    return (all_ + 1 - rank if below else rank), 0
