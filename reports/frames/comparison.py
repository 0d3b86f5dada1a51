"""Comparing methods on the same clients: paired differences, intervals, corrected p-values."""

from functools import cache
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import special, stats

CONFIDENCE = 0.95
MODEL = ["label", "predictor"]
PAIR = ("difference", "lower", "upper", "p", "p_holm", "n_clients", "n_seeds")


def half_width(values: pd.Series) -> float:
    """Half of the 95% t-interval of a mean; NaN for fewer than two values."""
    n = len(values)
    if n < 2:
        return float("nan")
    return float(_quantile(n - 1) * values.std(ddof=1) / np.sqrt(n))


def over_clients_and_seeds(frame: pd.DataFrame, by: list[str], value: str) -> pd.DataFrame:
    """Mean of a value over clients, then over seeds, with both spreads.

    Returns
    -------
    pandas.DataFrame
        ``by``, the mean under the value's own name, ``half`` (of the 95% t-interval over clients,
        each averaged over seeds), ``sd_seeds n_clients n_seeds``.
    """
    seeds = frame.groupby([*by, "seed"], dropna=False)[value].mean().groupby(by, dropna=False)
    clients = frame.groupby([*by, "client"], dropna=False)[value].mean().groupby(by, dropna=False)
    columns = {
        value: seeds.mean(),
        "half": clients.agg(half_width),
        "sd_seeds": seeds.std(ddof=1),
        "n_clients": clients.size(),
        "n_seeds": seeds.size(),
    }
    return pd.DataFrame(columns).reset_index()


@cache
def _quantile(freedom: int) -> float:
    return float(special.stdtrit(freedom, 0.5 + CONFIDENCE / 2))


def comparison_frame(errors: pd.DataFrame) -> pd.DataFrame:
    """Error of every model against the lowest, paired over clients and seeds.

    The difference of two models is taken client by client on the seeds both have, averaged over
    seeds, and put to a paired t-test over clients.  The same errors decide which model is lowest,
    so p-values are corrected after Holm over all pairs, not only those with the lowest.
    ``tied`` are the lowest model itself and those whose corrected p-value is above 0.05.

    Parameters
    ----------
    errors : pandas.DataFrame
        ``client_errors`` of the new clients without shift.

    Returns
    -------
    pandas.DataFrame
        ``label predictor group difference difference_lower difference_upper p_holm tied``.
    """
    names = ["difference", "difference_lower", "difference_upper", "p_holm", "tied"]
    if errors.empty:
        return pd.DataFrame(columns=[*MODEL, "group", *names])
    table = errors.pivot_table(index=["client", "seed"], columns=MODEL, values="error")
    lowest = table.groupby("seed").mean().mean().idxmin()
    compared: dict[Any, tuple[float, ...]] = {lowest: (0.0, 0.0, 0.0, np.nan)}
    for *models, middle, lower, upper, _, p, _, _ in pair_frame(errors).itertuples(index=False):
        one, other = tuple(models[:2]), tuple(models[2:])
        if other == lowest:
            compared[one] = (middle, lower, upper, p)
        elif one == lowest:
            compared[other] = (-middle, -upper, -lower, p)
    records = [(*model, "novel", *compared[model]) for model in table.columns]
    frame = pd.DataFrame(records, columns=[*MODEL, "group", *names[:4]])
    frame["tied"] = ~(frame["p_holm"] <= 1 - CONFIDENCE)
    return frame


def paired_p(differences: pd.Series) -> float:
    """Return the two-sided p of a paired t-test; NaN for fewer than two differences."""
    if len(differences) < 2:
        return float("nan")
    if np.ptp(differences) < 1e-12:
        # All alike up to rounding: the t statistic is infinite, or 0/0.
        return 1.0 if abs(differences.iloc[0]) < 1e-12 else 0.0
    n = len(differences)
    t = differences.mean() / (differences.std(ddof=1) / np.sqrt(n))
    return float(2 * special.stdtr(n - 1, -abs(t)))


def holm(p: NDArray[np.float64]) -> list[float]:
    """Correct p-values for multiple testing, after Holm (1979); NaN stays NaN.

    >>> [round(x, 3) for x in holm(np.array([0.01, 0.04, 0.03]))]
    [0.03, 0.06, 0.06]
    """
    known = np.flatnonzero(~np.isnan(p))
    order = known[np.argsort(p[known], kind="stable")]
    corrected = np.full(len(p), np.nan)
    steps = p[order] * np.arange(len(order), 0, -1)
    corrected[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return [float(x) for x in corrected]


def pair_frame(errors: pd.DataFrame) -> pd.DataFrame:
    """Compare every two models on the clients and seeds both have.

    Differences are taken client by client, averaged over seeds, and put to a paired t-test over
    clients, as in ``comparison_frame``; Holm's correction is over all pairs.  The 95% intervals
    are not corrected.  The unit is the client, so the results are about these trained models, not
    about training them again.

    Parameters
    ----------
    errors : pandas.DataFrame
        As for :func:`comparison_frame`.

    Returns
    -------
    pandas.DataFrame
        ``label predictor other other_predictor difference lower upper p p_holm n_clients n_seeds``,
        ``difference`` being the error of ``label`` minus that of ``other``; each pair once.
    """
    table = errors.pivot_table(index=["client", "seed"], columns=MODEL, values="error")
    seeds = table.index.get_level_values("seed")
    # Where every model has every client and seed, means over seeds are taken once per model.
    whole = table.groupby("client").mean() if table.notna().all(axis=None) else None
    n_seeds = seeds.nunique()
    records = []
    for one, other in combinations(table.columns, 2):
        if whole is not None:
            paired = whole[one] - whole[other]
        else:
            both = (table[one] - table[other]).dropna()
            paired = both.groupby("client").mean()
            n_seeds = both.index.get_level_values("seed").nunique()
        middle, half = float(paired.mean()), half_width(paired)
        numbers = (middle, middle - half, middle + half, paired_p(paired), np.nan)
        records.append((*one, *other, *numbers, len(paired), n_seeds))
    frame = pd.DataFrame(records, columns=[*MODEL, "other", "other_predictor", *PAIR])
    frame["p_holm"] = holm(frame["p"].to_numpy(dtype=float))
    return frame


def rank_test_frame(errors: pd.DataFrame, *, alpha: float = 1 - CONFIDENCE) -> pd.DataFrame:
    r"""Rank all models within each client: Friedman's test and Nemenyi's critical difference.

    A client's error is averaged over the seeds that all models have; ties share their mean rank.
    Two models differ at level ``alpha`` when their mean ranks are further apart than

    .. math:: q_\alpha \sqrt{k (k + 1) / (6 N)}

    with k models, N clients and the studentized range quantile :math:`q_\alpha` over
    :math:`\sqrt 2` (Demsar 2006, section 3.2.2).

    Parameters
    ----------
    errors : pandas.DataFrame
        ``client_errors`` of one group of clients under one condition.
    alpha : float
        In (0, 1).

    Returns
    -------
    pandas.DataFrame
        ``label predictor mean_rank critical_difference friedman p n_clients n_seeds``, lowest
        first; empty for fewer than three models or two clients.
    """
    columns = [*MODEL, "mean_rank", "critical_difference", "friedman", "p", "n_clients", "n_seeds"]
    by_seed = errors.pivot_table(index=["seed", "client"], columns=MODEL, values="error").dropna()
    table = by_seed.groupby("client").mean()
    n_clients, n_models = table.shape
    if n_models < 3 or n_clients < 2:
        return pd.DataFrame(columns=columns)
    ranks = table.rank(axis=1)
    if (ranks.nunique(axis=1) == 1).all():
        statistic, p = 0.0, 1.0  # every client ties all models: the test divides 0 by 0
    else:
        test = stats.friedmanchisquare(*table.to_numpy().T)
        statistic, p = float(test.statistic), float(test.pvalue)
    quantile = stats.studentized_range.ppf(1 - alpha, n_models, np.inf) / np.sqrt(2)
    frame = ranks.mean().rename("mean_rank").reset_index()
    frame["critical_difference"] = quantile * np.sqrt(n_models * (n_models + 1) / (6 * n_clients))
    frame["friedman"], frame["p"], frame["n_clients"] = statistic, p, n_clients
    frame["n_seeds"] = by_seed.index.get_level_values("seed").nunique()
    return frame[columns].sort_values("mean_rank", kind="stable", ignore_index=True)
