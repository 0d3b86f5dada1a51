"""Answers what is lost when new clients' inputs, labels or data set shift, and who stands out."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from latecomer.certify.page.svg import WIDE
from latecomer.certify.words import DASH, count, counts, listing, percent, points, shift_name
from latecomer.eval.names import SHIFT_AXES, SHIFTS
from latecomer.reports.display.drawing import Looks, apart, sheet, styled
from latecomer.reports.display.naming import (
    Names,
    as_subject,
    beyond_chance,
    model_names,
    standing,
    worse_than,
)
from latecomer.reports.display.pictures import Plot, Table, over_seeds, plus_minus
from latecomer.reports.display.section import Answer, Material, Question, Section, tabled
from latecomer.reports.frames.errors import (
    CONFIDENCE,
    CONTROL,
    MODEL,
    SYSTEM,
    Model,
    client_errors,
    holm,
    in_order,
    model_of,
    models_in,
    over_clients_and_seeds,
    pair_frame,
    paired_p,
    primary_predictor,
    records,
)
from latecomer.reports.words import between, interval, sentence_case

CLIENT = [*SYSTEM, "client"]

# With fewer wrong samples before a shift, one more or less moves where the error doubles.
LEAST_WRONG = 10


def neutral_severity(shift: str) -> float:
    """Return the severity at which a shift does nothing; NaN where none is known."""
    known = SHIFTS.get(shift)
    return np.nan if known is None or known.neutral is None else known.neutral


def distance_from_none(shift: str, severities: "pd.Series[float]") -> "pd.Series[float]":
    """Return how far severities are from the one that changes nothing, from 0 if it is unknown.

    Contrasts of 0.6 and 1.4 are equally far from 1, though not in the last bit of the differences.
    """
    away: pd.Series[float] = (severities - np.nan_to_num(neutral_severity(shift))).abs()
    return away.round(12)


def shifted_errors(errors: pd.DataFrame) -> pd.DataFrame:
    """Set every new client's error under every shift beside its error before.

    ``error_before`` is under the matched control, where another data set has one; where the shift
    draws other clients, who are not ``paired``, it is the mean of the unshifted ones.  ``distance``
    is that of the severity from the one that changes nothing, from 0 where that is unknown.
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
            means = before.groupby(SYSTEM)["error"].mean().rename("error_before")
            both = own.merge(means.reset_index(), on=SYSTEM)
        parts.append(
            both.assign(paired=paired, distance=distance_from_none(shift, both["severity"]))
        )
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

    ``shifted`` are ``shifted_errors``: errors ``before`` and, at the severest value, ``after`` a
    shift. ``wrong`` is how many samples were wrong before (seeds averaged; NaN where samples were
    not counted), and ``doubles`` the measured severity nearest to no shift at which the error has
    doubled: it is at least twice that before, is above it beyond chance, and at least
    ``LEAST_WRONG`` samples were wrong before.  Otherwise NaN, and so where the start is unknown or
    clients are others.
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


@styled
def draw_robustness(
    frame: pd.DataFrame, names: Names, looks: Looks, *, width: float = WIDE
) -> Figure:
    """Draw one panel per shift: error against severity, with 95% intervals over clients.

    All panels share one axis of errors.  Curves are named at their right ends in the last panel of
    a row, where there is room for it.  ``frame`` is by ``curves_from_start``.
    """
    shifts = list(dict.fromkeys(frame["shift"]))
    # Names right of a fourth panel, alone in its row, would push the others apart.
    columns = 1 if width < 5 else 2 if len(shifts) == 4 else min(len(shifts), 3)
    lines = -(-len(shifts) // columns)
    figure, panels = sheet(width, 0.5 + 1.75 * lines, lines, columns, sharey=True)
    # A single client has no interval.
    top = 100 * float(frame[["mean", "upper"]].max().max())
    for place, panel in enumerate(panels):
        if place >= len(shifts):
            panel.set_visible(False)
            continue
        own = frame[frame["shift"] == shifts[place]]
        _panel(panel, own, looks)
        panel.set_title(shifts[place])
        panel.set_ylim(0, min(max(1.05 * top, 1.0), 100))
        if place % columns == 0:
            panel.set_ylabel("error (%)")
        if place % columns == columns - 1 or place == len(shifts) - 1:
            # Panels in a single column are lower, with letters of the same size.
            step = 0.085 if columns > 1 else 0.13
            _names(panel, own, names, looks, top=min(1.05 * top, 100), step=step)
    return figure


def _panel(axes: Axes, own: pd.DataFrame, looks: Looks) -> None:
    """Draw one shift; its severities, the start included, stand at equal distances."""
    for label, part in own.groupby("label", sort=False):
        look, part = looks[str(label)], part.sort_values("place")
        x = part["place"].to_numpy(dtype=float)
        axes.plot(
            x, 100 * part["mean"], look.mark, linestyle=look.line, color=look.colour, markersize=3.5
        )
        low, high = 100 * part["lower"], 100 * part["upper"]
        axes.fill_between(x, low, high, color=look.colour, alpha=0.12, linewidth=0)
    words = {
        row["place"]: row["start"]
        or ("all" if np.isnan(row["severity"]) else f"{row['severity']:g}")
        for row in records(own)
    }
    axes.set_xticks(list(words), list(words.values()))
    axes.set_xlabel(SHIFT_AXES.get(str(own["shift"].iloc[0]), "severity"), fontsize=7.5)
    axes.grid(axis="y")


def _names(
    axes: Axes, own: pd.DataFrame, names: Names, looks: Looks, *, top: float, step: float
) -> None:
    last = own.sort_values("place").groupby(["label", "predictor"], sort=False).tail(1)
    ends = sorted(records(last), key=lambda row: float(row["mean"]))
    heights = apart([100 * row["mean"] for row in ends], step=step * top, top=top)
    for row, height in zip(ends, np.asarray(heights), strict=True):
        axes.annotate(
            names[model_of(row)], (1.03, float(height)),
            xycoords=("axes fraction", "data"), va="center", fontsize=7.5,
            color=looks[row["label"]].colour, annotation_clip=False,
        )  # fmt: skip


def answer_shift(material: Material) -> Answer | None:
    """Say from what to what models lose under the shifts, and what is beyond chance.

    In ``numbers`` ``least_loss`` and ``most_loss`` are means over shifts, each at its severest, and
    ``hardest_loss`` is the mean over models under the hardest shift.
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
    harm = ""
    if own["loss"].max() > 0:
        harm = f"{_hardest(own, names)} {_doubled_words(own, names)}".strip()
    more = [_not_errors(frame), harm, apart]
    return Answer(
        _sentence(frame, means, worse, names, material.dealt),
        tuple(one for one in more if one),
        _table(frame, material.accuracy, names, order, material.dealt),
        (_plot(material),),
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


def _plot(material: Material) -> Plot:
    frame = curves_from_start(material.shifts)
    names = model_names(frame)  # some may lack what a loss is counted from
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
    if len(ends) < 2 or ends.max() == 0:
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


def _doubled_words(own: pd.DataFrame, names: Names) -> str:
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
    keys = [*CLIENT, "shift"]
    controls = errors[errors["shift"].str.endswith(CONTROL)]
    controls = controls.assign(shift=controls["shift"].str.removesuffix(CONTROL))
    both = errors.merge(controls[[*keys, "error"]], on=keys, suffixes=("", "_control"))
    both["effect"] = both["error"] - both["error_control"]
    by = [*MODEL, "shift"]
    frame = over_clients_and_seeds(both, by, "effect", least=-np.inf, most=np.inf)
    return frame[[*by, "effect", "lower", "upper", "sd_seeds", "n_clients", "n_seeds"]]


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
        {
            "method": names[row["label"], row["predictor"]],
            "data": row["shift"],
            "effect (points)": plus_minus(points(row["effect"]), row["sd_seeds"]),
            "95% over clients": interval(row["lower"], row["upper"], points),
            "clients": str(row["n_clients"]),
            "seeds": str(row["n_seeds"]),
        }
        for row in records(frame)
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
        {
            "data": row["shift"],
            "client": str(row["client"]),
            "samples missing": f"{int(row['n_missing']):,}",
            "why": str(row["message"]),
        }
        for row in records(frame)
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
