"""Answers what can be guaranteed to a client that joins."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from latecomer.certify.words import BALLS, chance, count, inward, listing, magnitude, percent
from latecomer.eval.names import statement
from latecomer.reports.display.answer import Answer, Question
from latecomer.reports.display.errors_figure import draw_certified_clients
from latecomer.reports.display.naming import Names, model_names, model_of, route_of
from latecomer.reports.display.pictures import Plot
from latecomer.reports.display.section import Material
from latecomer.reports.display.table import Table
from latecomer.reports.frames.chosen import (
    SYSTEM,
    AfterLooking,
    Choice,
    choose,
    seeds_told,
)
from latecomer.reports.frames.comparison import MODEL
from latecomer.reports.frames.errors import records
from latecomer.reports.frames.populations import breaking_frame
from latecomer.reports.guarantees.headline import NAME_ONE, after_words, chosen_system, looked_at
from latecomer.reports.guarantees.next_population import population_plot
from latecomer.reports.words import VACUOUS, bound_name, in_one_unit, sentence_case


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
        leaves for the pool's other clients, who are like new clients.
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
    """State the declared certificate of the system that was chosen before looking.

    Returns
    -------
    Answer or None
        ``numbers`` has ``value``, ``certified`` (mean of the clients it was made from), ``worst``
        (their worst), ``n_clients``, ``delta``, ``n_systems`` (how many share delta) and, where
        those could be computed, ``after_looking``.  Where nothing chose a system, they are of the
        smallest of all certificates at its share of delta or, where that is unknown, of one that
        no score chose, and the sentence says so.
    """
    declared = declared_certificates(material.bounds, material.study)
    if declared.empty:
        return None
    names = model_names(declared)
    choice = choose(declared, material.rows, material.study)
    after = looked_at(material, declared)
    told = seeds_told(declared, material.rows, material.study)
    # Without a choice, one that no score chose shows what such a certificate says.
    first = choice.row if choice else after.row if after else records(told)[0]
    errors = _scored(material.errors, first)
    numbers = {
        "value": first["shown"],
        "certified": first["certified"],
        "n_clients": int(first["n_clients"]),
        "worst": float(errors.max()),
        "delta": float(first["delta"]),
        "n_systems": after.n_systems if after else 1,
    }
    if after:
        numbers["after_looking"] = after.row["shown"]
    said = statement({**first, "others": float("nan")} if first["mostly"] else first)
    by = sentence_case(bound_name(str(first["bound"])))
    about = "" if choice or after else f", {names[model_of(first)]}"
    more = [f"{by}{about}: {said}", _other_populations(material, first) or _spread(errors)]
    if choice:
        more.append(after_words(after, declared, names))
    curves = population_plot(material, "answer-populations")
    plots = (*([curves] if curves else []), _plot(errors, first))
    sentence = _sentence(declared, choice, after, names)
    return Answer(sentence, tuple(one for one in more if one), _table(told, names), plots, numbers)


def _sentence(
    declared: pd.DataFrame, choice: Choice | None, after: AfterLooking | None, names: Names
) -> str:
    several = declared["seed"].nunique() > 1
    if choice is None and after is None:
        ends = magnitude(declared["shown"].min()), magnitude(declared["shown"].max())
        return (
            f"No system was chosen before looking: the {len(declared)} certificates are from "
            f"{ends[0]} to {ends[1]}, each with {chance(float(declared['delta'].max()))} "
            f"confidence by itself. {NAME_ONE}"
        )
    if choice is None:
        told = after_words(after, declared, names, beside=False)
        return f"No system was chosen before looking. {told}"
    first = choice.row
    clients, sure = count(int(first["n_clients"]), "client"), chance(float(first["delta"]))
    subject = chosen_system(choice, names, several_seeds=several)
    if first["shown"] >= 1:
        return (
            f"Nothing is guaranteed by {clients}: the certificate of {subject.rstrip(',')} is "
            f"100% or more ({sure} confidence)."
        )
    return (
        f"{subject} is certified with {sure} confidence to serve {_whom(first)} with at most "
        f"{magnitude(first['shown'])} error on average; the {clients} it was certified on had "
        f"{percent(first['certified'])}."
    )


def _whom(first: Mapping[str, Any]) -> str:
    """Say whose mean error is bounded, and by which model where it is drawn at random."""
    n, pool = int(first["n_clients"]), first["pool"]
    if first["mostly"]:
        return f"the {int(pool) - n} clients it was neither trained nor certified on"
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
    """Say how different the next population may be, for the system that the headline is about."""
    frame = breaking_frame(material.rows)
    own = frame[np.all([frame[name] == first[name] for name in SYSTEM], axis=0)]
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
        caption="One bar a certified client. The line bounds the mean that the sentence names.",
    )


def _scored(errors: pd.DataFrame, first: Mapping[str, Any]) -> NDArray[np.float64]:
    """Return the errors of the clients that a certificate came from."""
    same = [errors[name] == first[name] for name in (*MODEL, "seed", "group", "shift")]
    values: NDArray[np.float64] = errors.loc[np.all(same, axis=0), "error"].to_numpy(dtype=float)
    return values


def _table(frame: pd.DataFrame, names: Names) -> Table:
    write, unit = in_one_unit(frame["shown"])
    shown = pd.DataFrame(
        {
            "model": names[model_of(row)],
            "seed": str(int(row["seed"])),
            f"certified at most{unit}": write(row["shown"])
            + (VACUOUS if row["shown"] >= 1 else ""),
            "by": bound_name(str(row["bound"])),
            "clients": str(int(row["n_clients"])),
            "their mean error": percent(row["certified"]),
        }
        for row in records(frame)
    )
    caption = (
        "The first certificate that the study declares, each by itself; of several seeds the one "
        "that errs least on seen clients, or the study's first where those cannot choose."
    )
    return Table("answer-certificate", caption, frame, shown, ("model", "by"))


CERTIFICATE = Question("certificate", answer_certificate)
