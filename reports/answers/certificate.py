"""Answers what can be guaranteed to a client that joins."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from latecomer.reports.answers.errors_figure import draw_certified_clients
from latecomer.reports.answers.said import Answer
from latecomer.reports.display.naming import Names, as_subject, model_names, model_of, route_of
from latecomer.reports.display.pictures import Plot
from latecomer.reports.display.section import Material
from latecomer.reports.display.table import Table
from latecomer.reports.frames.comparison import MODEL
from latecomer.reports.frames.errors import records
from latecomer.reports.frames.populations import breaking_frame
from latecomer.reports.guarantees.next_population import population_plot
from latecomer.reports.statements.sentence import statement
from latecomer.reports.words import (
    BALLS,
    bound_name,
    count,
    inward,
    listing,
    magnitude,
    percent,
    sentence_case,
)


def declared_certificates(bounds: pd.DataFrame, study: Mapping[str, Any]) -> pd.DataFrame:
    """Return the first certificate of the mean error that the study declares, for every model.

    Choosing the smallest of several after looking would void the guarantee; the order in the study
    was fixed before.

    Parameters
    ----------
    bounds : pandas.DataFrame
        ``bound_frame`` of the rows.
    study : mapping
        The resolved study.

    Returns
    -------
    pandas.DataFrame
        Its rows of one rule and delta per model, one for each seed.  ``mostly`` is whether it is
        over a pool most of which was scored; ``shown`` is the value or, where ``mostly``, what it
        leaves for the pool's other clients, who are like newcomers.
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


def answer_certificate(material: Material) -> Answer | None:
    """State the declared certificate of the best-certified model, and the errors it came from.

    Returns
    -------
    Answer or None
        ``numbers`` has ``value``, ``certified`` (mean of the clients it was made from), ``worst``
        (their worst) and ``n_clients``.  The worst seed stands for a model.
    """
    every = declared_certificates(material.bounds, material.study).sort_values("shown")
    if every.empty:
        return None
    frame = every.groupby(MODEL).tail(1)
    names, first = model_names(frame), records(frame)[0]
    errors = _scored(material.errors, first)
    numbers = {
        "value": first["shown"],
        "certified": first["certified"],
        "n_clients": int(first["n_clients"]),
        "worst": float(errors.max()),
    }
    said = statement({**first, "others": float("nan")} if first["mostly"] else first)
    others = _other_populations(material, first)
    by = sentence_case(bound_name(str(first["bound"])))
    more = [f"{by}: {said}", others or _spread(errors)]
    if len(frame) > 1:
        more.append(
            f"Each of the {len(frame)} models has a certificate that holds by itself; picked after "
            "looking, the smallest of them is none at that level."
        )
    sentence = _sentence(first, names[model_of(first)], several_seeds=every["seed"].nunique() > 1)
    curves = population_plot(material, "answer-populations")
    plots = (*([curves] if curves else []), _plot(errors, first))
    return Answer(sentence, tuple(more), _table(frame, names), plots, numbers)


def _sentence(first: Mapping[str, Any], called: str, *, several_seeds: bool) -> str:
    clients = count(int(first["n_clients"]), "client")
    if first["shown"] >= 1:
        return f"Nothing is guaranteed by {clients}: the certificate is 100% or more."
    worst = ", in the worst of the seeds" if several_seeds else ""
    return (
        f"{as_subject(called)} is certified to serve {_whom(first)} with at most "
        f"{magnitude(first['shown'])} error on average{worst}; the {clients} it was certified on "
        f"had {percent(first['certified'])}."
    )


def _whom(first: Mapping[str, Any]) -> str:
    """Say whose mean error is bounded, and by which model where it is drawn at random."""
    n, pool = int(first["n_clients"]), first["pool"]
    if first["mostly"]:
        return f"the {int(pool) - n} held-out clients not scored"
    if first["sampling"] == "martingale":
        return "a client that joins, by a checkpoint drawn at random,"
    if first["sampling"] == "finite-pool":
        return f"the {int(pool)} clients it was not trained on, the {n} scored among them,"
    return "a client that joins, drawn like the certified ones,"


def _spread(errors: NDArray[np.float64]) -> str:
    tenth = float(np.quantile(errors, 0.9, method="higher"))
    return (
        f"Its clients differ: the median one had {percent(float(np.median(errors)))} error, one in "
        f"ten at least {percent(tenth)}, the worst {percent(float(errors.max()))}."
    )


def _other_populations(material: Material, first: Mapping[str, Any]) -> str:
    """Say how different the next population may be, for the seed that breaks first."""
    frame = breaking_frame(material.rows)
    own = frame[np.all([frame[name] == first[name] for name in MODEL], axis=0)]
    return " ".join(
        f"How different the next clients, Q, may be from the certified ones, P, with at most "
        f"{percent(float(str(target)))} still certified, each by itself: {listing(told)}."
        for target, part in own.groupby("target")
        if (told := list(_radii(part)))
    )


def _radii(own: pd.DataFrame) -> Iterator[str]:
    """Say how far each ball reaches; skip one unless the target is certified for every seed."""
    for bound, part in own.groupby("bound", sort=False):
        ball = str(bound).removeprefix("r0:").removesuffix("_ball")
        least = ball == "subgroup"
        if part["radius"].notna().all():
            radius = part["radius"].max() if least else part["radius"].min()
            yield f"{BALLS[ball].radius} {inward(float(radius), up=least)}"


def _plot(errors: NDArray[np.float64], first: Mapping[str, Any]) -> Plot:
    value, route = float(first["shown"]), route_of(str(first["bound"]))
    return Plot(
        "answer-certificate",
        partial(draw_certified_clients, errors, value, route),
        pd.DataFrame({"error": errors}),
        title="The certificate, and the clients that it came from",
        alt=f"Errors of {count(len(errors), 'client')} from {percent(float(errors.min()))} to "
        f"{percent(float(errors.max()))}, mean {percent(float(errors.mean()))}, certified at most "
        f"{magnitude(value)}.",
        caption="A bar a client, of the seed whose certificate is largest; whose mean the line "
        "bounds is said above.",
    )


def _scored(errors: pd.DataFrame, first: Mapping[str, Any]) -> NDArray[np.float64]:
    """Return the errors of the clients that a certificate came from."""
    same = [errors[name] == first[name] for name in (*MODEL, "seed", "group", "shift")]
    values: NDArray[np.float64] = errors.loc[np.all(same, axis=0), "error"].to_numpy(dtype=float)
    return values


def _table(frame: pd.DataFrame, names: Names) -> Table:
    shown = pd.DataFrame(
        {
            "model": names[model_of(row)],
            "certified at most": magnitude(row["shown"]),
            "by": bound_name(str(row["bound"])),
            "clients": str(int(row["n_clients"])),
            "their mean error": percent(row["certified"]),
        }
        for row in records(frame)
    )
    caption = "The first certificate that the study declares, of its worst seed."
    return Table("answer-certificate", caption, frame, shown, ("model", "by"))
