"""Where a statistician expects a new client's error: a random-effects prediction interval.

Client i of the k certified ones erred n_wrong of n times; its estimate is (n_wrong + 1/2) /
(n + 1), with the binomial variance of that share over n (the halves keep the variance of clients
with no errors, or with nothing else, above 0). Hartung and Knapp's interval is about the true error
of one more client drawn like them. It is asymptotic and proves nothing: errors of clients with few
points are not normal. The certificate beside it is about a mean and is proved.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from latecomer.bounds import hartung_knapp
from latecomer.eval.scoring.scores import ClientScore

ALPHA = 0.1
"""Probability with which the model expects the next client's error outside of the interval."""
_FEWEST = 3
_WHY = "asymptotic: it holds for many clients with many points whose errors are normal"


def next_client_rows(held_out: Mapping[str, Sequence[ClientScore]]) -> list[dict[str, Any]]:
    """Return a row ``next_client_interval`` for each predictor of a model; none below 3 clients.

    ``value`` is the estimated mean over clients, ``lower`` and ``upper`` the interval for the next
    client's error, cut to [0, 1].

    Parameters
    ----------
    held_out : mapping of str to sequence of ClientScore
        Scores of the held-out clients by predictor.

    Examples
    --------
    >>> scores = [ClientScore(i, 12, 12, 2 + i % 3, 0.5) for i in range(30)]
    >>> (row,) = next_client_rows({"deterministic": scores})
    >>> [round(row[name], 2) for name in ("lower", "value", "upper")], row["rigorous"]
    ([0.24, 0.26, 0.28], False)
    """
    rows = []
    for predictor, scores in held_out.items():
        if len(scores) < _FEWEST:
            continue
        n = np.array([score.n_query for score in scores], dtype=np.float64)
        share = (np.array([score.n_wrong for score in scores]) + 0.5) / (n + 1)
        made = hartung_knapp(estimates=share, variances=share * (1 - share) / n, alpha=ALPHA)
        rows.append(
            {
                "group": "certification",
                "shift": "none",
                "predictor": predictor,
                "n_clients": len(scores),
                "metric": "next_client_interval",
                "value": float(made.mean),
                "lower": float(np.clip(made.lower, 0, 1)),
                "upper": float(np.clip(made.upper, 0, 1)),
                "population": "next-client",
                "rigorous": False,
                "delta": ALPHA,
                "message": _WHY,
            }
        )
    return rows
