"""What each model loses on clients that join late: one gap, one sign, one interval.

A gap is the error of new clients minus that of seen ones: points of error lost, positive where
clients that join late are served worse.
"""

from collections.abc import Sequence
from itertools import combinations
from math import comb

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import special

from latecomer.eval.names import method_facts
from latecomer.reports.frames.errors import (
    ALIKE,
    CONFIDENCE,
    MODEL,
    Model,
    client_errors,
    holm,
    models_in,
    unshifted,
)

COLUMNS = (
    *MODEL,
    *("seen", "novel", "gap", "lower", "upper", "p", "p_holm", "n_seen", "n_novel", "n_seeds"),
    *("training", "out_of_sample"),
)
PAIR = ("other", "other_predictor", "difference", "p", "p_holm")
LESS_ALONE = ("alone", "alone_gap", "gap", "lower", "upper")


def gap_frame(rows: pd.DataFrame) -> pd.DataFrame:
    """Gap of every trained model, beside its mean over the seeds.

    Parameters
    ----------
    rows : pandas.DataFrame
        Rows of the run, or their ``client_errors``.

    Returns
    -------
    pandas.DataFrame
        ``label predictor seed seen novel gap mean lower upper n_seeds``: errors of the two groups
        and ``novel - seen`` of each seed; ``mean`` and its 95% interval are those of
        :func:`gap_intervals`.
    """
    errors = client_errors(rows)
    return gaps_beside(errors, gap_intervals(errors))


def gaps_beside(rows: pd.DataFrame, means: pd.DataFrame) -> pd.DataFrame:
    """Return the `gap_frame` of rows whose `gap_intervals` are known already."""
    errors = unshifted(client_errors(rows), "seen", "novel")
    by_group = errors.groupby([*MODEL, "seed", "group"])["error"].mean().unstack("group")
    frame = by_group.reindex(columns=["seen", "novel"]).dropna().reset_index()
    frame.columns.name = None
    frame["gap"] = frame["novel"] - frame["seen"]
    if frame.empty:
        return frame.reindex(columns=[*frame.columns, "mean", "lower", "upper", "n_seeds"])
    means = means.rename(columns={"gap": "mean"})
    return frame.merge(means[[*MODEL, "mean", "lower", "upper", "n_seeds"]], on=MODEL)


def gap_intervals(rows: pd.DataFrame) -> pd.DataFrame:
    """Take seen from new clients' error for every model, with an interval over clients and seeds.

    A client's error is averaged over seeds.  The squared standard error is the sum over three
    samples: the new clients, the seen clients, and the seeds (the variance of the single seeds'
    gaps over the number of seeds); degrees of freedom after Welch and Satterthwaite.  Seeds also
    move the clients' means, so their share is counted more than once and the interval errs on the
    wide side.  With one seed it is over clients alone.

    ``p`` is two-sided, of no gap, and ``p_holm`` corrected over the models.  ``training``, known of
    rows and not of ``client_errors``, is the seen clients' error on the data they trained on, and
    ``out_of_sample`` how far ``seen`` is above it; ``gap`` is the participation gap beside that
    out-of-sample gap (Yuan, Morningstar, Ning, Singh, 2022).  Smallest gap first.
    """
    errors = unshifted(client_errors(rows), "seen", "novel")
    gaps = []
    models = models_in(errors)
    both = errors["group"].nunique() == 2
    cubes = [_cube(errors, group, models) for group in ("seen", "novel")] if both else []
    for place, model in enumerate(models if both else ()):
        # Side by side in memory, as if a model were alone: sums depend on that in their last bit.
        seen, novel = (np.ascontiguousarray(cube[..., place]) for cube in cubes)
        if np.isfinite(seen).any() and np.isfinite(novel).any():
            means = {"seen": _by_client(seen).mean(), "novel": _by_client(novel).mean()}
            named = dict(zip(MODEL, model, strict=True))
            gaps.append({**named, **means, **_interval(seen, novel)})
    frame = pd.DataFrame(gaps).reindex(columns=list(COLUMNS))
    frame["p_holm"] = holm(frame["p"].to_numpy(dtype=float))
    if "metric" in rows:
        trained = client_errors(rows, "training_error").groupby(MODEL)["error"].mean()
        frame["training"] = trained.reindex(pd.MultiIndex.from_frame(frame[MODEL])).to_numpy()
        frame["out_of_sample"] = frame["seen"] - frame["training"]
    return frame.sort_values("gap", kind="stable", ignore_index=True)


def gap_pairs(rows: pd.DataFrame) -> pd.DataFrame:
    """Compare the gaps of every two models, on the same clients and seeds.

    The difference of two gaps is the gap of the differences that the two models' errors make client
    by client; its interval is that of :func:`gap_intervals`, and p-values are corrected after Holm
    over all pairs, for the data that test also say which gap is smallest. ``difference`` is the gap
    of ``label`` minus that of ``other``; each pair stands there once.
    """
    errors = unshifted(client_errors(rows), "seen", "novel")
    models = models_in(errors)
    if errors["group"].nunique() < 2 or len(models) < 2:
        return pd.DataFrame(columns=[*MODEL, *PAIR])
    seen, novel = (_cube(errors, group, models) for group in ("seen", "novel"))
    told = []
    for one, other in combinations(range(len(models)), 2):
        parts = [cube[..., one] - cube[..., other] for cube in (seen, novel)]
        if all(np.isfinite(part).any() for part in parts):
            found = _interval(*parts)
            told.append((*models[one], *models[other], found["gap"], found["p"], np.nan))
    frame = pd.DataFrame(told, columns=[*MODEL, *PAIR])
    frame["p_holm"] = holm(frame["p"].to_numpy(dtype=float))
    return frame


def gaps_less_alone(rows: pd.DataFrame) -> pd.DataFrame:
    """Gap of every model less that of the run's model that learns nothing from others.

    A method that declares ``learns_alone`` (Local) cannot lose by joining late: its gap says how
    much harder the new clients' own data are than the seen ones', and what else differs in how the
    two groups train alone.  What is left of another model's gap is
    ``mean_novel(e - e_alone) - mean_seen(e - e_alone)``, paired client by client within each group
    on the seeds that both models have, with the 95% interval of :func:`gap_intervals` for these
    differences.  Of several such models the first by label counts.

    Columns ``label predictor alone alone_gap gap lower upper``, a row for every model that does
    learn from others: label and gap of the one that learns alone, on the clients and seeds that
    both have; the gap less that.  Empty where no model of the run learns alone.
    """
    errors = unshifted(client_errors(rows), "seen", "novel")
    models = models_in(errors)
    by_itself = [bool(method_facts().get(m, {}).get("learns_alone")) for m in errors["method"]]
    alone = sorted(models_in(errors[by_itself]))
    if errors["group"].nunique() < 2 or not alone:
        return pd.DataFrame(columns=[*MODEL, *LESS_ALONE])
    seen, novel = (_cube(errors, group, models) for group in ("seen", "novel"))
    at, told = models.index(alone[0]), []
    for place, model in enumerate(models):
        own = [cube[..., [place, at]] for cube in (seen, novel)]
        both = [np.where(np.isfinite(c).all(axis=-1, keepdims=True), c, np.nan) for c in own]
        if model not in alone and all(np.isfinite(cube).any() for cube in both):
            left = _interval(*(cube[..., 0] - cube[..., 1] for cube in both))
            gap = _interval(*(cube[..., 1] for cube in both))["gap"]
            ends = (left[name] for name in LESS_ALONE[2:])
            told.append((*model, alone[0][0], gap, *ends))
    return pd.DataFrame(told, columns=[*MODEL, *LESS_ALONE])


def _cube(errors: pd.DataFrame, group: str, models: Sequence[Model]) -> NDArray[np.float64]:
    """Lay out a group's errors as [seed, client, model]; NaN where one was not measured."""
    own = errors[errors["group"] == group]
    seeds = sorted(errors["seed"].unique())
    table = own.pivot_table(index=["seed", "client"], columns=MODEL, values="error")
    table = table.reindex(columns=pd.MultiIndex.from_tuples(models))
    whole = pd.MultiIndex.from_product([seeds, sorted(own["client"].unique())])
    values: NDArray[np.float64] = table.reindex(whole).to_numpy(dtype=float)
    return values.reshape(len(seeds), -1, values.shape[1])


def _by_client(errors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Average [seed, client] over the seeds that a client has."""
    means: NDArray[np.float64] = np.ma.masked_invalid(errors).mean(axis=0).compressed()
    return means


def _interval(seen: NDArray[np.float64], novel: NDArray[np.float64]) -> dict[str, float]:
    """Return the gap of errors [seed, client] of two groups, its interval and its p-value."""
    each = np.ma.masked_invalid(novel).mean(axis=1) - np.ma.masked_invalid(seen).mean(axis=1)
    parts = _by_client(seen), _by_client(novel), np.ma.compressed(each)
    gap = float(parts[1].mean() - parts[0].mean())
    pieces = [(float(one.var(ddof=1)) / len(one), len(one) - 1) for one in parts if len(one) > 1]
    total = sum(square for square, _ in pieces)
    half, p = np.nan, np.nan
    if min(len(parts[0]), len(parts[1])) > 1:
        # Of clients that are all alike within their group a permutation test says what it can.
        p = 1.0 if abs(gap) < ALIKE else 2.0 / comb(len(parts[0]) + len(parts[1]), len(parts[0]))
        if total > ALIKE**2:
            freedom = total**2 / sum(square**2 / df for square, df in pieces)
            half = float(special.stdtrit(freedom, (1 + CONFIDENCE) / 2)) * total**0.5
            p = float(2 * special.stdtr(freedom, -abs(gap) / total**0.5))
    sizes = dict(zip(("n_seen", "n_novel", "n_seeds"), map(len, parts), strict=True))
    return {"gap": gap, "lower": gap - half, "upper": gap + half, "p": p, **sizes}
