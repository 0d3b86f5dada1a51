"""Frames of certificates for other populations of clients, and of clients drawn from some."""

from typing import Any

import numpy as np
import pandas as pd

from latecomer.reports.frames.artifacts import CellTables, joined
from latecomer.reports.frames.comparison import MODEL
from latecomer.reports.frames.errors import client_errors, primary_predictor

_TRAINED = [*MODEL, "seed"]
SHARES = (0.05, 0.1, 0.2, 0.3, 0.5, 1.0)
"""Shares of a held-back group among the clients of a next population, for which errors are told."""


def population_curves(tables: CellTables) -> pd.DataFrame:
    """Join the ``population_curve`` artifacts for unshifted inputs, one predictor per label.

    Returns
    -------
    pandas.DataFrame
        ``label predictor seed ball radius value delta bound``, radii outwards for each curve.
    """
    columns = ("label", "predictor", "seed", "ball", "radius", "value", "delta", "bound", "shift")
    frame = joined(tables, columns, ("radius", "value", "delta"), "")
    plain = ~frame["bound"].str.contains("@") & frame["shift"].isin(["", "none"])
    return primary_predictor(frame[plain].drop(columns="shift")).reset_index(drop=True)


def population_points(rows: pd.DataFrame) -> pd.DataFrame:
    """Measure new clients of populations whose distance from the certified one is known.

    Returns
    -------
    pandas.DataFrame
        ``label predictor seed population kl tv chi2 subgroup measured standard_error n_clients``;
        ``population`` numbers them outwards, 0 the certified one. Infinite distances are NaN, and
        so is ``subgroup`` where a population is no subgroup.
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
    beside = novel.merge(away, on=keys).groupby([*_TRAINED, "population"], sort=False)
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
    start = points.loc[points["population"] == 0, [*_TRAINED, "measured", "standard_error"]]
    both = points[apart].merge(start.assign(n=0), on=_TRAINED, suffixes=("", "_before"))
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

    Returns
    -------
    pandas.Series
        By label, predictor and seed.
    """
    own = curves[curves["ball"] == ball]
    beyond = own["radius"] <= radius if ball == "subgroup" else own["radius"] >= radius
    least = own[beyond].groupby(_TRAINED, sort=False)["value"].min()
    everybody = own.groupby(_TRAINED, sort=False).size().index
    return least.reindex(everybody, fill_value=1.0)


def breaking_frame(rows: pd.DataFrame) -> pd.DataFrame:
    """List the radius at which each model's certificate breaks a target.

    Returns
    -------
    pandas.DataFrame
        ``label predictor seed bound target radius``; ``radius`` is NaN where the target is not
        certified without any shift.
    """
    own = rows[(rows["metric"] == "breaking_radius") & rows["shift"].isin(["", "none"])]
    own = own[~own["bound"].str.contains("@")]
    target = pd.to_numeric(own["term"].str.removeprefix("target="))
    frame = own[[*_TRAINED, "bound", "value"]].assign(target=target)
    return primary_predictor(frame.rename(columns={"value": "radius"})).reset_index(drop=True)


def worst_group(rows: pd.DataFrame) -> pd.DataFrame:
    """Set the certified error of all groups of a given share beside the worst new clients' error.

    Returns
    -------
    pandas.DataFrame
        ``label predictor seed share value delta measured n_clients``; ``measured`` is the mean
        error of the worst ``share`` of the ``n_clients`` unshifted new clients, the last of
        which counts in part.
    """
    chosen = rows[(rows["metric"] == "certified_population") & (rows["term"] == "")]
    chosen = chosen[chosen["bound"].str.fullmatch(r"r0:subgroup@[^@]+")]
    chosen = primary_predictor(chosen[chosen["shift"].isin(["", "none"])])
    frame = chosen[[*_TRAINED, "value", "delta"]].assign(
        share=pd.to_numeric(chosen["bound"].str.replace(r"^.*@", "", regex=True))
    )
    errors = client_errors(rows)
    novel = errors[(errors["group"] == "novel") & (errors["shift"] == "none")]
    scores = {key: own["error"].to_numpy(float) for key, own in novel.groupby(_TRAINED)}
    sizes, means = [], []
    for label, predictor, seed, share in frame[[*_TRAINED, "share"]].itertuples(index=False):
        own = np.sort(scores.get((label, predictor, int(seed)), np.zeros(0)))[::-1]
        # Where the share is not a whole number of clients, the last one counts in part.
        weight = np.clip(share * len(own) - np.arange(len(own)), 0, 1)
        means.append(float(own @ weight / weight.sum()) if len(own) else np.nan)
        sizes.append(len(own))
    return frame.assign(measured=means, n_clients=sizes).reset_index(drop=True)
