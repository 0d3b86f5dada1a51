"""Comparing methods on the same clients: paired differences, intervals, corrected p-values."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

CONFIDENCE = 0.95
MODEL = ["label", "predictor"]


def half_width(values: pd.Series) -> float:
    """Half of the 95% t-interval of a mean; NaN for fewer than two values."""
    n = len(values)
    if n < 2:
        return float("nan")
    quantile = stats.t.ppf(0.5 + CONFIDENCE / 2, n - 1)
    return float(quantile * values.std(ddof=1) / np.sqrt(n))


def comparison_frame(errors: pd.DataFrame) -> pd.DataFrame:
    """Error of every model against the best one's, paired over clients and seeds.

    The difference of two models is taken client by client on the seeds both have, averaged over
    seeds, and put to a paired t-test over clients; p-values are corrected after Holm.  ``tied``:
    the best model itself, and those whose corrected p-value is above 0.05.

    Parameters
    ----------
    errors : pandas.DataFrame
        ``client_errors`` of the novel clients without shift.

    Returns
    -------
    pandas.DataFrame
        ``label predictor group difference difference_lower difference_upper p_holm tied``.
    """
    names = ["difference", "difference_lower", "difference_upper", "p_holm", "tied"]
    if errors.empty:
        return pd.DataFrame(columns=[*MODEL, "group", *names])
    table = errors.pivot_table(index=["client", "seed"], columns=MODEL, values="error")
    means = table.groupby("seed").mean().mean()
    best = means.idxmin()
    records = []
    for model in table.columns:
        paired = (table[model] - table[best]).dropna().groupby("client").mean()
        middle, half = float(paired.mean()), half_width(paired)
        records.append((*model, "novel", middle, middle - half, middle + half, _paired_p(paired)))
    frame = pd.DataFrame(records, columns=[*MODEL, "group", *names[:3], "p"])
    others = np.array([model != best for model in table.columns])
    frame["p_holm"] = np.nan
    frame.loc[others, "p_holm"] = holm(frame.loc[others, "p"].to_numpy())
    frame["tied"] = ~others | ~(frame["p_holm"] <= 1 - CONFIDENCE)
    return frame[[*MODEL, "group", *names]]


def _paired_p(differences: pd.Series) -> float:
    if len(differences) < 2:
        return float("nan")
    if np.ptp(differences) < 1e-12:
        # All alike up to rounding: the t statistic is infinite, or 0/0.
        return 1.0 if abs(differences.iloc[0]) < 1e-12 else 0.0
    return float(stats.ttest_1samp(differences, 0.0).pvalue)


def holm(p: NDArray[np.float64]) -> list[float]:
    """Correct p-values for being several, after Holm (1979); NaN stays NaN.

    >>> [round(x, 3) for x in holm(np.array([0.01, 0.04, 0.03]))]
    [0.03, 0.06, 0.06]
    """
    known = np.flatnonzero(~np.isnan(p))
    order = known[np.argsort(p[known], kind="stable")]
    corrected = np.full(len(p), np.nan)
    steps = p[order] * np.arange(len(order), 0, -1)
    corrected[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return [float(x) for x in corrected]
