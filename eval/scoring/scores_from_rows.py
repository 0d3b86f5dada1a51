"""The scores of held-out clients, read from a finished run's rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from latecomer.errors import InputError
from latecomer.eval.scoring.scores import ClientScore

Row = Mapping[str, str]


@dataclass(frozen=True)
class Condition:
    """The held-out clients under one condition, named as in the rows."""

    shift: str
    severity: float | None

    def condition(self) -> dict[str, Any]:
        """Return the columns that identify a row's group and shift."""
        severity = "" if self.severity is None else self.severity
        return {"group": "certification", "shift": self.shift, "severity": severity}


Scores = dict[str, dict[Condition, Sequence[ClientScore]]]
"""Scores by predictor and condition, clients in the order of their ids."""


def scores_of(rows: Sequence[Row]) -> Scores:
    """Return one trained model's scores of held-out clients.

    Parameters
    ----------
    rows : sequence of mapping
        The rows of one cell, as text.

    Returns
    -------
    dict
        By predictor, then by condition; empty if the cell scored no held-out client.

    Raises
    ------
    InputError
        A client was scored twice under one condition, an error is not a fraction of its points, or
        conditions have different clients.

    Examples
    --------
    >>> row = {"group": "certification", "metric": "error", "client": "7", "shift": "none",
    ...        "severity": "", "predictor": "gibbs", "n_support": "20", "n_query": "10",
    ...        "value": "0.3"}
    >>> scores_of([row])["gibbs"][Condition("none", None)][0].n_wrong
    3
    """
    scores: dict[str, dict[Condition, dict[int, ClientScore]]] = {}
    for row in rows:
        if row["group"] != "certification" or row["metric"] != "error" or not row["client"]:
            continue
        severity = float(row["severity"]) if row["severity"] else None
        where = Condition(row["shift"] or "none", severity)
        own = scores.setdefault(row["predictor"], {}).setdefault(where, {})
        score = _score(row)
        if score.client in own:
            raise InputError(
                f"held-out client {score.client} was scored twice ({row['predictor']}, "
                f"{where.shift}): which score a certificate is made from is not known"
            )
        own[score.client] = score
    everyone = {tuple(sorted(own)) for groups in scores.values() for own in groups.values()}
    if len(everyone) > 1:
        raise InputError("held-out clients differ between predictors or shifts")
    return {
        predictor: {where: [own[name] for name in sorted(own)] for where, own in groups.items()}
        for predictor, groups in scores.items()
    }


def _score(row: Row) -> ClientScore:
    try:
        client, n_support, n_query = (int(row[key]) for key in ("client", "n_support", "n_query"))
        error = float(row["value"])
        n_wrong = round(error * n_query)
        if not 0 <= n_wrong <= n_query or n_wrong / n_query != error:
            raise ValueError(f"its error {error!r} is no share of {n_query} points")
    except (ValueError, ZeroDivisionError, OverflowError) as error_:
        raise InputError(f"held-out client {row['client']}: {error_}") from None
    # Only errors are certified, so the loss is not needed.
    return ClientScore(client, n_support, n_query, n_wrong, float("nan"))
