"""Rows to frames about bounds: certificates, what they cost and assume, for which population.

A certificate belongs to one trained model; nothing here averages certificates over seeds.
"""

from collections.abc import Container, Sequence
from typing import Any

import numpy as np
import pandas as pd

from latecomer.certify.sentences import AS_NAMED
from latecomer.certify.words import listing, number
from latecomer.eval.names import IID_SPLITS, statement
from latecomer.reports.frames.errors import (
    CONDITION,
    MODEL,
    SYSTEM,
    CellTables,
    client_errors,
    first_record,
    group_sizes,
    joined,
    primary_predictor,
    unshifted,
)
from latecomer.reports.words import bound_name, range_of, sentence_case

MEASURED_TERMS = ("empirical_risk", "source_risk", "sampled_share")
# What differs between the rows of a table and is said there, in columns of its own.
UNNAMED = {
    "shift": AS_NAMED,
    "severity": np.nan,
    "reason": "",
    **dict.fromkeys(("others", "overlap"), np.nan),
}
LEDGER_COLUMNS = (
    *("label", "seed", "bound", "shift", "severity", "predictor", "kind", "name", "value", "text"),
)


def bound_frame(rows: pd.DataFrame) -> pd.DataFrame:
    """Every certificate and published bound of every trained model, beside what was measured.

    Returns
    -------
    pandas.DataFrame
        ``label seed bound group shift severity predictor population sampling rigorous reason value
        delta n_clients vacuous certified measured n_novel covered pool others left_out overlap
        independent``: ``value`` is the raw bound, ``certified`` the mean error of the clients it
        was made from, ``measured`` that of the ``n_novel`` new clients, both under the same
        condition and predictor, ``covered`` how many new clients err at most ``value``, ``pool``
        the clients not trained on, where known, ``others`` what a bound over a pool leaves for its
        clients that were not scored, ``left_out`` the clients left out of the split, ``overlap``
        the share of new clients' query samples that clients used for tuning or training hold,
        ``independent`` whether clients are draws of an environment.
    """
    totals = rows[
        (rows["metric"] == "certificate") & (rows["term"] == "") & (rows["status"] != "failed")
    ]
    keys = ["label", "seed", "bound", "group", *CONDITION, "predictor"]
    facts = ["split", "population", "sampling", "rigorous", "message", "value", "delta"]
    frame = (
        totals[[*keys, *facts, "n_clients"]]
        .rename(columns={"message": "reason"})
        .reset_index(drop=True)
    )
    frame["rigorous"] = frame["rigorous"].map(lambda flag: flag is True)
    frame = frame.astype({"seed": "int64"})
    frame["vacuous"] = ~(frame["value"] < 1.0)
    errors = client_errors(rows)
    condition = [*MODEL, "seed", *CONDITION]
    scored = errors[errors["group"].isin(["certification", "arriving", "tuning"])]
    means = scored.groupby(condition, dropna=False)["error"].mean().rename("certified")
    frame = frame.merge(means.reset_index(), on=condition, how="left")
    novel = errors[errors["group"] == "novel"]
    means = novel.groupby(condition, dropna=False)["error"].agg(measured="mean", n_novel="size")
    frame = frame.merge(means.reset_index(), on=condition, how="left")
    each = frame.reset_index()[["index", *condition, "value"]].merge(novel, on=condition)
    below = (each["error"] <= each["value"]).groupby(each["index"]).sum()
    frame["covered"] = below.reindex(frame.index, fill_value=0).astype("int64")
    frame["n_novel"] = frame["n_novel"].fillna(0).astype("int64")
    sizes = group_sizes(errors)
    pool = sizes["certification"] + sizes["novel"]
    # Routes that take seen clients have pools of their own: their inputs say how large.
    known = [None if group in ("tuning", "arriving") else pool for group in frame["group"]]
    frame["pool"] = pd.array(known, dtype="Int64")
    frame = _with_pools(frame, rows)
    frame["independent"] = frame["split"].isin(IID_SPLITS) | frame["overlap"].notna()
    return frame.drop(columns="split").sort_values(
        ["bound", "label", "predictor", *CONDITION, "seed"], kind="stable", ignore_index=True
    )


def _with_pools(frame: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    """Add what the rows beside each certificate say about its pool and about shared samples."""
    keys = ["label", "seed", "bound", *CONDITION, "predictor", "delta"]
    beside = rows[rows["metric"].isin(["certificate_pool", "certificate_overlap"])]
    named = beside["term"].where(beside["metric"] == "certificate_pool", "overlap")
    told = beside.assign(term=named).drop_duplicates([*keys, "term"])
    for name in ("others", "left_out", "overlap", "size"):
        own = told.loc[told["term"] == name, [*keys, "value"]].rename(columns={"value": name})
        if len(own):
            frame = frame.merge(own.astype({"seed": "int64"}), on=keys, how="left")
        else:
            frame[name] = np.nan
    frame["pool"] = frame["size"].astype("Int64").fillna(frame["pool"])
    return frame.drop(columns="size")


def claims(own: pd.DataFrame) -> list[str]:
    """Say what the rows of one bound state: one sentence per kind of statement among them."""
    kinds = ["population", "sampling", "delta", "n_clients", "rigorous", "group", "predictor"]
    return list(
        dict.fromkeys(
            statement(first_record(part) | UNNAMED, "the value below")
            for _, part in own.groupby(kinds, sort=False, dropna=False)
        )
    )


def status(own: pd.DataFrame) -> dict[str, str]:
    """Say how far rows of one bound can be trusted: a ``word``, a style name too, and ``text``."""
    vacuous, reasons = int(own["vacuous"].sum()), list(dict.fromkeys(own["reason"]))
    told = ""
    if vacuous:
        told = f"Vacuous for {vacuous} of {len(own)}: an error never exceeds 100%, so a bound of "
        told += "100% or more says nothing. "
    if own["rigorous"].all():
        word = "vacuous" if vacuous == len(own) else "certificate"
        return {"word": word, "text": told.strip()}
    told += _unproven("Not proven for these models.", reasons)
    return {"word": "vacuous" if vacuous == len(own) else "not proven here", "text": told}


def _unproven(said: str, reasons: Sequence[str]) -> str:
    known = [sentence_case(reason.rstrip(".")) + "." for reason in reasons if reason]
    return " ".join([said, *known])


def doubt(rows: pd.DataFrame, *metrics: str, of: Container[str] | None = None) -> str:
    """Say why statements, whose rows are of these metrics, are no proofs; empty where they are.

    ``of`` are the names of the bounds that are meant; all unless given.  Where others among them
    are proven, those that are not are named.

    Examples
    --------
    >>> told = {"metric": "certified_fraction", "bound": "r0:fraction_above@0.5"}
    >>> rows = pd.DataFrame([{**told, "rigorous": False, "message": "nobody dealt it"}])
    >>> doubt(rows, "certified_fraction")
    'Not proven for these models. Nobody dealt it.'
    >>> beside = {**told, "bound": "r0:fraction_above@0.2", "rigorous": True, "message": ""}
    >>> doubt(pd.concat([rows, pd.DataFrame([beside])]), "certified_fraction")
    'Not proven: held-out clients, share above a threshold, 0.5. Nobody dealt it.'
    >>> doubt(rows, "certified_population")
    ''
    """
    own = rows[rows["metric"].isin(metrics)]
    if of is not None:
        own = own[[bound in of for bound in own["bound"]]]
    doubtful = own["rigorous"].map(lambda flag: flag is False).astype(bool)
    if not doubtful.any():
        return ""
    names = listing(sorted({bound_name(bound) for bound in own.loc[doubtful, "bound"]}))
    said = "Not proven for these models" if doubtful.all() else f"Not proven: {names}"
    return _unproven(f"{said}.", list(dict.fromkeys(own.loc[doubtful, "message"])))


def anatomy_frame(rows: pd.DataFrame, bounds: pd.DataFrame | None = None) -> pd.DataFrame:
    """Terms of every bound that has more than one; ``bounds`` is ``bound_frame`` where known.

    Returns
    -------
    pandas.DataFrame
        ``label seed bound shift severity predictor delta term value total rigorous``; the measured
        part (empirical or source risk) comes first.
    """
    keys = ["label", "seed", "bound", *CONDITION, "predictor", "delta"]
    parts = rows[
        (rows["metric"] == "certificate") & (rows["term"] != "") & (rows["status"] != "failed")
    ]
    frame = parts[[*keys, "term", "value"]].reset_index(drop=True).astype({"seed": "int64"})
    bounds = bound_frame(rows) if bounds is None else bounds
    totals = bounds[[*keys, "value", "rigorous"]].rename(columns={"value": "total"})
    frame = frame.merge(totals, on=keys, how="inner")
    many = frame.groupby(keys, dropna=False)["value"].transform("size") > 1
    first = (~frame["term"].isin(MEASURED_TERMS)).astype("int64")
    order = ["bound", "label", "predictor", *CONDITION, "seed", "delta", "first", "term"]
    sorted_ = frame.assign(first=first)[many].sort_values(order, kind="stable", ignore_index=True)
    return sorted_.drop(columns="first")


def ledger_frame(tables: CellTables) -> pd.DataFrame:
    """Join the ``certificates`` artifacts of all cells.

    Parameters
    ----------
    tables : iterable of (label, seed, records)
        The artifact's records: ``bound shift severity predictor kind name value text`` with
        ``kind`` one of term, delta, assumption, input, source, reason.

    Returns
    -------
    pandas.DataFrame
        ``label seed`` and those columns; ``value`` and ``severity`` are NaN where empty.
    """
    return joined(tables, LEDGER_COLUMNS, ("value", "severity"), "")


def ledger_of(ledger: pd.DataFrame, bound: str) -> dict[str, list[dict[str, Any]]]:
    """Collect what the fold-out under one bound lists: each statement once, inputs as their range.

    A ``delta`` and an ``input`` have ``name text range`` and ``n``, how many certificates have
    them.
    """
    own = ledger[ledger["bound"] == bound]
    notes: dict[str, list[dict[str, Any]]] = {}
    for kind in ("assumption", "source", "reason"):
        texts = own.loc[own["kind"] == kind, ["text", "name"]]
        said = texts["text"].where(texts["text"] != "", texts["name"])
        notes[kind] = [{"text": text} for text in dict.fromkeys(said)]
    for kind in ("delta", "input"):
        entries = own[own["kind"] == kind]
        notes[kind] = [
            {
                "name": name,
                "text": _one_of(list(dict.fromkeys(part["text"]))),
                "range": range_of(part["value"], number),
                "n": len(part),
            }
            for name, part in entries.groupby("name", sort=False)
        ]
    return notes


def _one_of(texts: Sequence[str]) -> str:
    return texts[0] if len(texts) == 1 else f"For example: {texts[0]}"


SHARES = (0.05, 0.1, 0.2, 0.3, 0.5, 1.0)
"""Shares of a held-back group among the clients of a next population, for which errors are told."""


def population_curves(tables: CellTables) -> pd.DataFrame:
    """Join the ``population_curve`` artifacts for unshifted inputs, one predictor per label."""
    columns = ("label", "predictor", "seed", "ball", "radius", "value", "delta", "bound", "shift")
    frame = joined(tables, columns, ("radius", "value", "delta"), "")
    plain = ~frame["bound"].str.contains("@") & (frame["shift"] == "none")
    return primary_predictor(frame[plain].drop(columns="shift")).reset_index(drop=True)


def population_points(rows: pd.DataFrame) -> pd.DataFrame:
    """Measure new clients of populations whose distance from the certified one is known.

    Columns ``label predictor seed population kl tv chi2 subgroup measured standard_error
    n_clients``: ``population`` numbers them outwards, 0 the certified one.  Infinite distances are
    NaN, and so is ``subgroup`` where a population is no subgroup.
    """
    told = rows[rows["metric"] == "population_distance"]
    keys = ["shift", "severity"]
    # A held-back group of clients has no severity, and a pivot would leave it out.
    away = told.fillna({"severity": np.inf}).pivot_table(index=keys, columns="term", values="value")
    away = away.reset_index().replace({"severity": np.inf}, np.nan)
    none: dict[str, Any] = {"shift": "none", "severity": np.nan, "kl": 0.0, "tv": 0.0, "chi2": 0.0}
    away = pd.concat([pd.DataFrame([none | {"subgroup": 1.0}]), away], ignore_index=True)
    away = away.sort_values("kl", ignore_index=True).assign(population=lambda f: f.index)
    errors = client_errors(rows)
    novel = primary_predictor(errors[errors["group"] == "novel"])
    beside = novel.merge(away, on=keys).groupby([*SYSTEM, "population"], sort=False)
    measured = beside["error"].agg(measured="mean", standard_error="sem", n_clients="size")
    columns = ["population", "kl", "tv", "chi2", "subgroup"]
    points = measured.reset_index().merge(away.reindex(columns=columns), on="population")
    return _mixed(points)


def held_back(points: pd.DataFrame) -> pd.Series:
    """Say which points are of groups of clients that no certified client belongs to."""
    return points["tv"].gt(0) & points["kl"].isna()


def _mixed(points: pd.DataFrame) -> pd.DataFrame:
    """Put in the place of each held-back group populations that it makes up a share of.

    Such a group shares no client with the certified population P, so that no certificate reaches
    it. Where a share s of the clients is of the group and the others are P's, the total variation
    from P is s exactly, KL and chi2 are infinite, and the mean error is the mixture of both.
    """
    apart = held_back(points)
    if not apart.any():
        return points
    start = points.loc[points["population"] == 0, [*SYSTEM, "measured", "standard_error"]]
    both = points[apart].merge(start.assign(n=0), on=SYSTEM, suffixes=("", "_before"))
    parts = [points[~apart]]
    for place, share in enumerate(SHARES, start=1):
        own, other = both["measured"], both["measured_before"]
        spread = np.hypot(
            share * both["standard_error"], (1 - share) * both["standard_error_before"]
        )
        mixed = {"measured": share * own + (1 - share) * other, "standard_error": spread}
        number = both["population"] + place / (len(SHARES) + 1)
        parts.append(both.assign(tv=share, population=number, **mixed)[list(points)])
    joined = pd.concat(parts, ignore_index=True)
    joined["population"] = joined["population"].rank(method="dense").astype(int) - 1
    return joined.sort_values("population", kind="stable", ignore_index=True)


def certified_at(curves: pd.DataFrame, ball: str, radius: float) -> pd.Series:
    """Read certified errors off curves, at the next wider radius where a curve lacks this one.

    A certificate at a wider radius covers the narrower one; beyond the curve's end it is 1.
    """
    own = curves[curves["ball"] == ball]
    beyond = own["radius"] <= radius if ball == "subgroup" else own["radius"] >= radius
    least = own[beyond].groupby(SYSTEM, sort=False)["value"].min()
    everybody = own.groupby(SYSTEM, sort=False).size().index
    return least.reindex(everybody, fill_value=1.0)


def breaking_frame(rows: pd.DataFrame) -> pd.DataFrame:
    """List the radius at which each model's certificate breaks a target.

    It is NaN where the target is not certified without any shift.
    """
    own = rows[(rows["metric"] == "breaking_radius") & (rows["shift"] == "none")]
    own = own[~own["bound"].str.contains("@")]
    target = pd.to_numeric(own["term"].str.removeprefix("target="))
    frame = own[[*SYSTEM, "bound", "value"]].assign(target=target)
    return primary_predictor(frame.rename(columns={"value": "radius"})).reset_index(drop=True)


def worst_group(rows: pd.DataFrame) -> pd.DataFrame:
    """Set the certified error of all groups of a given share beside the worst new clients' error.

    ``measured`` is the mean error of the worst ``share`` of the ``n_clients`` unshifted new
    clients, the last of which counts in part.
    """
    chosen = rows[(rows["metric"] == "certified_population") & (rows["term"] == "")]
    chosen = chosen[chosen["bound"].str.fullmatch(r"r0:subgroup@[^@]+")]
    chosen = primary_predictor(chosen[chosen["shift"] == "none"])
    frame = chosen[[*SYSTEM, "value", "delta"]].assign(
        share=pd.to_numeric(chosen["bound"].str.replace(r"^.*@", "", regex=True))
    )
    novel = unshifted(client_errors(rows))
    scores = {key: own["error"].to_numpy(float) for key, own in novel.groupby(SYSTEM)}
    sizes, means = [], []
    for label, predictor, seed, share in frame[[*SYSTEM, "share"]].itertuples(index=False):
        own = np.sort(scores.get((label, predictor, int(seed)), np.zeros(0)))[::-1]
        # Where the share is not a whole number of clients, the last one counts in part.
        weight = np.clip(share * len(own) - np.arange(len(own)), 0, 1)
        means.append(float(own @ weight / weight.sum()) if len(own) else np.nan)
        sizes.append(len(own))
    return frame.assign(measured=means, n_clients=sizes).reset_index(drop=True)
