"""Which certificate a run leads with: chosen before looking, and what choosing afterwards costs.

Given everything on the training side, certified clients are independent draws, or a uniform sample
of the clients not trained on.  A choice of model and seed made from the seen clients alone is fixed
under that condition, so its certificate holds at the full delta, provided that all models and seeds
share one split.  The smallest of M certificates is chosen by the certified clients themselves: it
holds only where each of the M has delta / M.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd

from latecomer.eval.names import BEST_OF, RULES, Asked
from latecomer.reports.frames.errors import MODEL, SYSTEM, client_errors, records, unshifted

_HELD_OUT = "r0:"
SAME = 1e-9  # how near a certificate computed again is to the one issued


@dataclass(frozen=True)
class Choice:
    """A certified system that was fixed without its certified clients.

    It was chosen ``by`` the seen clients' error on their ``validation`` data, on their other data
    kept out of training (``seen``) or on their ``training`` data; by the order of the study's seeds
    (``seed``); by the study's ``certify_model`` (``study``; where ``named``, that named the model
    among whose systems this one is); or by nothing, as there is no other (``alone``).
    """

    row: Mapping[str, Any]
    by: str
    named: bool = False


@dataclass(frozen=True)
class AfterLooking:
    """The smallest of all certificates, each at its share of delta, which is ``shown`` in its row.

    ``n_systems`` were certified on these clients, ``n_dropped`` of them on the run's record and not
    among its results.
    """

    row: Mapping[str, Any]
    n_systems: int
    n_dropped: int


def declared_certificates(bounds: pd.DataFrame, study: Mapping[str, Any]) -> pd.DataFrame:
    """Return the first certificate of the mean error that the study declares, for every model.

    Choosing the smallest of several after looking would void the guarantee; the order in the study
    was fixed before.  Rows of ``bound_frame`` of one rule and delta per model, one for each seed:
    ``mostly`` is whether it is over a pool most of which was scored; ``shown`` is the value or,
    where ``mostly``, what it leaves for the pool's other clients, who are like new clients.
    """
    frame = bounds[
        (bounds["shift"] == "none") & (bounds["population"] == "unseen-client") & bounds["rigorous"]
    ]
    declared = [f"{one['route']}:{one.get('rule', '')}" for one in study.get("certificates") or ()]
    place = {bound: number for number, bound in reversed(list(enumerate(declared)))}
    order = [place.get(bound, len(place)) for bound in frame["bound"]]
    frame = frame.assign(order=order).sort_values("order", kind="stable").drop(columns="order")
    first = frame.groupby(MODEL)[["bound", "delta"]].transform("first")
    frame = frame[(frame[["bound", "delta"]] == first).all(axis=1)]
    pooled = (2 * frame["n_clients"] > frame["pool"]).fillna(False) & frame["others"].notna()
    mostly = pooled & (frame["sampling"] == "finite-pool")
    return frame.assign(mostly=mostly, shown=frame["others"].where(mostly, frame["value"]))


def held_out(declared: pd.DataFrame) -> pd.DataFrame:
    """Keep the certificates of clients that were held out of training."""
    return declared[declared["bound"].str.startswith(_HELD_OUT)]


def seen_errors(rows: pd.DataFrame) -> tuple[pd.Series, str]:
    """Return every system's error on seen clients' data that may choose, and which data these are.

    Validation data where every system was measured on them, else what seen clients kept out of
    training, else their training data: ``validation``, ``seen`` or ``training``.
    """
    own = rows[(rows["metric"] == "validation_error") & (rows["status"] != "failed")]
    validation = own.astype({"seed": "int64"}).groupby(SYSTEM)["value"].mean()
    seen = unshifted(client_errors(rows), "seen").groupby(SYSTEM)["error"].mean()
    if len(validation) and set(seen.index) <= set(validation.index):
        return validation, "validation"
    if len(seen):
        return seen, "seen"
    return client_errors(rows, "training_error").groupby(SYSTEM)["error"].mean(), "training"


def choose(declared: pd.DataFrame, rows: pd.DataFrame, study: Mapping[str, Any]) -> Choice | None:
    """Choose the system whose certificate a run leads with, without its certified clients.

    None where only the certificates could choose: models have splits of their own, or routes whose
    certified clients take part in training; name one by ``certify_model`` then.
    """
    held = held_out(declared)
    offered, named = held if len(held) else declared, study.get("certify_model")
    if named:
        plain = offered["label"].str.rpartition(" ")[0]
        offered = offered[(offered["label"] == named) | (plain == named)]
    if offered.empty:
        return None
    if len(offered) == 1:
        return Choice(records(offered)[0], "study" if named else "alone", bool(named))
    errors, by = seen_errors(rows)
    place = pd.MultiIndex.from_frame(offered[SYSTEM])
    measured = errors.reindex(place).to_numpy(dtype=float)
    if len(held) and one_split(rows) and np.isfinite(measured).any():
        first = int(np.nanargmin(measured))
        return Choice(records(offered.iloc[[first]])[0], by, bool(named))
    if len(offered[MODEL].drop_duplicates()) == 1:
        return Choice(records(_in_order(offered, study))[0], "seed", bool(named))
    return None


def one_split(rows: pd.DataFrame) -> bool:
    """Say whether all models and seeds were trained and certified on one split."""
    return len(rows.loc[rows["method"] != "", ["split", "split_seed"]].drop_duplicates()) <= 1


def seeds_told(
    declared: pd.DataFrame, rows: pd.DataFrame, study: Mapping[str, Any]
) -> pd.DataFrame:
    """Keep one seed of each model and bound: the one of least error on seen clients.

    For routes whose certified clients take part in training it is the study's first.
    """
    errors, _ = seen_errors(rows)
    measured = errors.reindex(pd.MultiIndex.from_frame(declared[SYSTEM])).to_numpy(dtype=float)
    free = declared["bound"].str.startswith(_HELD_OUT) & one_split(rows)
    ordered = _in_order(declared.assign(by=np.where(free, measured, 0.0)), study)
    told = ordered.sort_values("by", kind="stable").groupby([*MODEL, "bound"], sort=False).head(1)
    return told.drop(columns="by")


def _in_order(declared: pd.DataFrame, study: Mapping[str, Any]) -> pd.DataFrame:
    """Sort by the study's order of seeds, otherwise stably."""
    place = {int(seed): number for number, seed in enumerate(study.get("seeds") or ())}
    order = declared["seed"].map(place).fillna(len(place)).to_numpy()
    return declared.iloc[np.argsort(order, kind="stable")]


def after_looking(
    declared: pd.DataFrame,
    errors: pd.DataFrame,
    study: Mapping[str, Any],
    dropped: int = 0,
    order: Sequence[str] = (),
) -> AfterLooking | None:
    """Return the smallest certificate of all systems, each at its share of delta.

    ``dropped`` systems were certified on these clients and are no longer among the ``declared``
    ones; ``order`` has the certified clients as the split drew them, where that is not the order of
    their numbers.  None where there is nothing to choose from, or where rule and scores do not give
    the issued certificates again, so that they cannot be had at another delta.
    """
    held = held_out(declared)
    n_systems = len(held) + dropped
    if n_systems < 2 or held.empty or held["bound"].nunique() > 1:
        return None
    scores = certified_scores(errors, order)
    best: Mapping[str, Any] | None = None
    for row in records(held.sort_values("shown", kind="stable")):
        losses = scores.get(tuple(row[name] for name in (*SYSTEM, "group", "shift")))
        if losses is None:
            return None
        if not abs(certified_again(row, losses, study, row["delta"]) - row["value"]) <= SAME:
            return None
        # At its share of delta a certificate is no smaller than it was issued.
        if best is None or row["shown"] < best["shown"]:
            value = certified_again(row, losses, study, row["delta"] / n_systems)
            shown = _left(row, value, float(np.mean(losses))) if row["mostly"] else value
            if best is None or shown < best["shown"]:
                best = {**row, "value": value, "shown": shown}
    return None if best is None else AfterLooking(best, n_systems, dropped)


def certified_scores(
    errors: pd.DataFrame, order: Sequence[str] = ()
) -> dict[tuple[Any, ...], list[float]]:
    """Return clients' scores by label, predictor, seed, group and shift, in the split's order."""
    scores = {}
    for key, own in errors.groupby([*SYSTEM, "group", "shift"], sort=False):
        by_client = own.set_index(own["client"].astype(str))["error"]
        ordered = by_client.loc[list(order)] if set(order) == set(by_client.index) else by_client
        scores[tuple(key)] = ordered.tolist()
    return scores


def certified_again(
    row: Mapping[str, Any], losses: Sequence[float], study: Mapping[str, Any], level: float
) -> float:
    """Certify the scores by the rule of a row at another level; NaN where it bounds no mean."""
    rule = str(row["bound"]).removeprefix(_HELD_OUT)
    asked = [entry for entry in study.get("certificates") or () if entry.get("rule") == rule]
    entry: Mapping[str, Any] = asked[0] if asked else {}
    rules = list(entry.get("best_of") or ()) if rule == BEST_OF else [rule]
    pool = int(row["pool"]) if row["sampling"] == "finite-pool" else None
    seed = entry.get("orders_seed") or 0
    values = [_at_level(name, tuple(losses), level / len(rules), pool, seed) for name in rules]
    return float(np.min(values)) if values else float("nan")


@lru_cache(maxsize=1024)  # The page and the lines at the end of a run ask the same.
def _at_level(
    rule: str, losses: tuple[float, ...], level: float, pool: int | None, seed: int
) -> float:
    bound = RULES[rule].bound if rule in RULES else None
    return float("nan") if bound is None else float(bound(Asked(losses, level, pool, seed)))


def _left(row: Mapping[str, Any], value: float, mean: float) -> float:
    """Return what a bound over a pool leaves for its clients that were not scored."""
    n, pool = int(row["n_clients"]), int(row["pool"])
    return float(np.clip((pool * value - n * mean) / (pool - n), 0.0, 1.0))


def dropped_systems(rows: pd.DataFrame, scorings: Sequence[Mapping[str, Any]]) -> int:
    """Count systems on the record of a run's certified clients that its rows do not hold.

    ``scorings`` are those of its ``RunRecord``: cells that scored held-out clients, by split.
    """
    here = set(rows["cell"])
    splits = {one.get("split") for one in scorings if one.get("cell") in here}
    gone = [one for one in scorings if one.get("cell") not in here and one.get("split") in splits]
    # A route that trains models of its own certifies on other clients: its rule is in the label.
    own = [one for one in gone if ":" not in str(one.get("label", "")).rpartition(" ")[2]]
    # Where a record does not say how many it certified, a model predicts in at most two ways.
    return sum(int(one.get("systems", 2)) for one in own)
