"""Answers what can be guaranteed to a client that joins."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from latecomer.eval.results.rows import RunRecord
from latecomer.reports.answers.errors_figure import draw_certified_clients
from latecomer.reports.answers.naming import named
from latecomer.reports.answers.said import Answer, Shown
from latecomer.reports.frames.bounds import bound_frame
from latecomer.reports.frames.comparison import MODEL
from latecomer.reports.frames.errors import client_errors, records
from latecomer.reports.statements import statement
from latecomer.reports.words import bound_name, count, magnitude, percent

__all__ = ["answer_certificate", "declared_certificates"]


def declared_certificates(run: RunRecord) -> pd.DataFrame:
    """Return the first certificate of the mean error that the study declares, for every model.

    Choosing the smallest of several after looking would void the guarantee; the order in the study
    was fixed before.  The seed whose value is largest stands for a model.

    Parameters
    ----------
    run : RunRecord

    Returns
    -------
    pandas.DataFrame
        Rows of ``bound_frame`` with ``shown``: the value, or what it leaves for the clients of a
        pool who were not scored where most of the pool was.  Smallest first.
    """
    frame = bound_frame(run.rows)
    frame = frame[
        (frame["shift"] == "none") & (frame["population"] == "unseen-client") & frame["rigorous"]
    ]
    place = {
        f"{entry['route']}:{entry.get('rule', '')}": number
        for number, entry in reversed(list(enumerate(run.study.get("certificates") or ())))
    }
    order = frame["bound"].map(lambda bound: place.get(bound, len(place))).astype(int)
    frame = frame.assign(order=order)
    first = frame.groupby(MODEL)["order"].transform("min")
    frame = frame[frame["order"] == first]
    pooled = (2 * frame["n_clients"] > frame["pool"]).fillna(False) & frame["others"].notna()
    pooled &= frame["sampling"] == "finite-pool"
    frame = frame.assign(shown=frame["others"].where(pooled, frame["value"]), mostly=pooled)
    worst = frame.sort_values("shown", kind="stable").groupby(MODEL).tail(1)
    return worst.sort_values("shown", kind="stable", ignore_index=True)


def answer_certificate(run: RunRecord) -> Answer:
    """State the declared certificate of the best-certified model, and the errors it came from.

    Parameters
    ----------
    run : RunRecord

    Returns
    -------
    Answer
        ``numbers`` has ``value``, ``certified`` (mean of the clients it was made from), ``worst``
        (their worst) and ``n_clients``.
    """
    frame = declared_certificates(run)
    if frame.empty:
        return Answer("certificate", "")
    names = named(frame)
    first = records(frame)[0]
    called = names[first["label"], first["predictor"]]
    n = int(first["n_clients"])
    n_seeds = bound_frame(run.rows)["seed"].nunique()
    worst = ", in the worst of the seeds" if n_seeds > 1 else ""
    whom = _whom(first)
    sentence = (
        f"{called} is certified to serve {whom} with at most {magnitude(first['shown'])} error on "
        f"average{worst}; the {count(n, 'client')} it was certified on had "
        f"{percent(first['certified'])}."
        if first["shown"] < 1
        else f"Nothing is guaranteed by {count(n, 'client')}: the certificate is 100% or more."
    )
    errors = _scored(run.rows, first)
    numbers = {
        "value": first["shown"],
        "certified": first["certified"],
        "n_clients": n,
        "worst": float(errors.max()) if len(errors) else float("nan"),
    }
    words = f"certified at most {magnitude(first['shown'])}"
    said = statement({**first, "others": float("nan")} if first["mostly"] else first)
    more = [f"{bound_name(str(first['bound']))}: {said}".replace("  ", " ")]
    if len(errors):
        tenth = float(np.quantile(errors, 0.9, method="higher"))
        more.append(
            f"Its clients differ: the median one had {percent(float(np.median(errors)))} error, "
            f"one in ten at least {percent(tenth)}, the worst {percent(numbers['worst'])}."
        )
    if len(frame) > 1:
        more.append(
            f"Each of the {len(frame)} models has a certificate that holds by itself; picked after "
            "looking, the smallest of them is none at that level."
        )
    figures = (_figure(errors, numbers, words),) if len(errors) else ()
    return Answer("certificate", sentence, tuple(more), numbers, _table(frame, names), figures)


def _whom(first: Mapping[str, Any]) -> str:
    """Say whose mean error is bounded, and by what they are served where that is drawn."""
    n = int(first["n_clients"])
    if first["mostly"]:
        return f"the {int(first['pool']) - n} held-out clients not scored"
    if first["sampling"] == "martingale":
        return "a client that joins, by a checkpoint drawn at random,"
    if first["sampling"] == "finite-pool":
        return f"the {int(first['pool'])} clients it was not trained on, these included,"
    return "a client that joins, drawn like the certified ones,"


def _figure(errors: NDArray[np.float64], numbers: Mapping[str, Any], words: str) -> Shown:
    return Shown(
        "answer-certificate",
        "The certificate, and the clients that it came from",
        partial(draw_certified_clients, errors, {**numbers, "words": words}),
        f"Errors of {count(len(errors), 'client')} from {percent(float(errors.min()))} to "
        f"{percent(float(errors.max()))}, mean {percent(numbers['certified'])}, "
        f"{words}.",
        "A bar a client, of the seed whose certificate is largest; whose mean the line bounds is "
        "said above.",
        pd.DataFrame({"error": errors}),
    )


def _scored(rows: pd.DataFrame, first: Mapping[str, Any]) -> NDArray[np.float64]:
    errors = client_errors(rows)
    own = errors[
        (errors["label"] == first["label"])
        & (errors["predictor"] == first["predictor"])
        & (errors["seed"] == first["seed"])
        & (errors["group"] == first["group"])
        & (errors["shift"] == "none")
    ]
    values: NDArray[np.float64] = own["error"].to_numpy(dtype=float)
    return values


def _table(frame: pd.DataFrame, names: Mapping[tuple[str, str], str]) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "model": names[row["label"], row["predictor"]],
            "certified at most": magnitude(row["shown"]),
            "by": bound_name(str(row["bound"])),
            "clients": str(int(row["n_clients"])),
            "their mean error": percent(row["certified"]),
        }
        for row in records(frame)
    )
