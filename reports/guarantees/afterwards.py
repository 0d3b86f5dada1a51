"""What the default rule gives on scores that were certified by rules declared before it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from latecomer.certify.rule import DEFAULT_RULE, RULES
from latecomer.certify.sample import n_orders
from latecomer.certify.words import count, percent
from latecomer.reports.display.naming import model_called
from latecomer.reports.display.section import Block, Heading, Material, Section
from latecomer.reports.display.table import Table
from latecomer.reports.frames.artifacts import certified_order
from latecomer.reports.frames.chosen import (
    SAME,
    SYSTEM,
    certified_again,
    certified_scores,
    held_out,
)
from latecomer.reports.frames.errors import records
from latecomer.reports.words import bound_ids, in_one_unit

_DEFAULT = f"r0:{DEFAULT_RULE}"


def afterwards_frame(
    bounds: pd.DataFrame, errors: pd.DataFrame, study: Mapping[str, Any], order: Sequence[str] = ()
) -> pd.DataFrame:
    """Put the default rule beside the declared ones, on the same scores at the same delta.

    Parameters
    ----------
    bounds : pandas.DataFrame
        ``bound_frame`` of a run.
    errors : pandas.DataFrame
        ``client_errors`` of its rows.
    study : mapping
    order : sequence of str
        As for `after_looking`.

    Returns
    -------
    pandas.DataFrame
        ``label predictor seed delta n_clients pool mean_error bound value issued``, a line for each
        certificate of the mean without shift, ``issued`` being ``before`` or ``afterwards``.  Empty
        where the study declares the default.  Left out are systems whose certificates their scores
        do not give again, and randomised predictors of a pool: in pools the default is about scores
        as measured.
    """
    columns = [*SYSTEM, "delta", "n_clients", "pool", "mean_error", "bound", "value", "issued"]
    means = held_out(bounds)
    means = means[(means["shift"] == "none") & (means["population"] == "unseen-client")]
    # A name with more than a rule in it is that of a share or of another population.
    means = means[~means["bound"].str.contains("@")]
    if means.empty or (means["bound"] == _DEFAULT).any():
        return pd.DataFrame(columns=columns)
    scores = certified_scores(errors, order)
    lines = []
    for _, own in means.groupby([*SYSTEM, "group", "delta"], sort=False):
        lines += _beside(records(own), scores, study)
    return pd.DataFrame(lines, columns=columns)


def _beside(
    declared: Sequence[Mapping[str, Any]],
    scores: Mapping[tuple[Any, ...], Sequence[float]],
    study: Mapping[str, Any],
) -> list[dict[str, Any]]:
    """Return the lines of one system, or none where its scores do not give what was proved."""
    row = declared[0]
    losses = scores.get(tuple(row[name] for name in (*SYSTEM, "group", "shift")))
    pools = row["sampling"] == "finite-pool"
    if losses is None or (pools and row["predictor"] == "gibbs"):
        return []
    again = [certified_again(one, losses, study, one["delta"]) for one in declared]
    if not np.allclose(again, [one["value"] for one in declared], rtol=0.0, atol=SAME):
        return []
    about = {name: row[name] for name in (*SYSTEM, "delta", "n_clients")}
    about |= {"pool": row["pool"] if pools else np.nan, "mean_error": float(np.mean(losses))}
    late = {**row, "bound": _DEFAULT}
    late["value"] = certified_again(late, losses, study, row["delta"])
    return [
        {**about, "bound": one["bound"], "value": one["value"], "issued": when}
        for one, when in (*((one, "before") for one in declared), (late, "afterwards"))
    ]


def afterwards_table(frame: pd.DataFrame) -> Table:
    """Lay the frame out: a line for each system, a column for each rule."""
    several = frame["delta"].nunique() > 1
    ids = bound_ids(frame["bound"])
    values: dict[str, list[float]] = {}
    for one in records(frame):
        values.setdefault(_rule(one, ids), []).append(one["value"])
    columns = {head: in_one_unit(own) for head, own in values.items()}
    shown = []
    for _, own in frame.groupby([*SYSTEM, "delta"], sort=False):
        row = records(own)[0]
        cells = {"method": model_called(str(row["label"])), "seed": f"{row['seed']}"}
        if several:
            cells["delta"] = f"{row['delta']:g}"
        pool = "" if pd.isna(row["pool"]) else f" of {int(row['pool'])}"
        cells |= {
            "clients": f"{int(row['n_clients'])}{pool}",
            "mean error": percent(row["mean_error"]),
        }
        for one in records(own):
            write, unit = columns[_rule(one, ids)]
            cells[_rule(one, ids) + unit] = write(one["value"])
        shown.append({**cells, "predictor": str(row["predictor"])})
    return Table(
        "issued-afterwards",
        _caption(frame),
        frame,
        pd.DataFrame(shown).fillna(""),
        ("method", "predictor", "clients"),
        label="The same scores by today's default rule, issued afterwards",
        noun="systems",
    )


def _rule(one: Mapping[str, Any], ids: Mapping[str, str]) -> str:
    late = ", issued afterwards" if one["issued"] == "afterwards" else ""
    return f"{ids[one['bound']].partition(':')[2]}{late}"


def _caption(frame: pd.DataFrame) -> str:
    numbers = sorted({n_orders(RULES[DEFAULT_RULE], int(n)) for n in frame["n_clients"]})
    orders = " or ".join(count(n, "permutation") for n in numbers)
    delta = "" if frame["delta"].nunique() > 1 else f" ({frame['delta'].iloc[0]:g})"
    pools = frame["pool"].notna().any()
    return (
        f"Rule {DEFAULT_RULE} ({RULES[DEFAULT_RULE].words}) on the scores that the declared rules "
        f"certified, at the same delta{delta}. The study did not declare it before its clients "
        "were scored: that column compares rules and is no certificate. Its orders are "
        f"{orders} of the split's order, drawn by seed 0."
    ) + (
        " Of a pool the bounds are of its mean, the certified clients included, and this rule's is "
        "about scores as they were measured."
        if pools
        else ""
    )


def _afterwards(material: Material) -> Iterator[Block]:
    bounds = material.ordered(material.bounds)
    if bounds.empty:
        return
    order = certified_order(material.run)
    frame = afterwards_frame(bounds, material.errors, material.study, order)
    if len(frame):
        yield Heading("The same scores by today's default rule, issued afterwards", "afterwards")
        yield afterwards_table(frame)


AFTERWARDS = Section("issued-afterwards", _afterwards)
