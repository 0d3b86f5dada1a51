"""Which labels can be ruled out for a new client: what sets hold, and their size."""

from collections.abc import Iterator
from functools import partial
from itertools import combinations
from typing import Any

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from latecomer.certify.page.svg import INK, MUTED, WIDE
from latecomer.certify.predicted_sets import LABEL_SCORES
from latecomer.certify.words import DASH, chance, count, percent, rounded, shift_name
from latecomer.eval.names import statement
from latecomer.reports.display.drawing import MOST_CURVES, Looks, styled
from latecomer.reports.display.errors_figure import model_panels
from latecomer.reports.display.naming import Names, as_subject, model_called, model_names
from latecomer.reports.display.pictures import Plot, Table
from latecomer.reports.display.section import (
    Answer,
    Block,
    Group,
    Items,
    Material,
    Question,
    Section,
    Text,
)
from latecomer.reports.frames.bounds import ledger_of
from latecomer.reports.frames.errors import (
    CONDITION,
    MODEL,
    client_errors,
    first_record,
    group_sizes,
    model_of,
    primary_predictor,
    records,
)
from latecomer.reports.words import bound_name, range_of, sentence_case

CLIENTS, CONFIDENT, POOLED = "", "confident", "pooled"
"""How a threshold was made, behind the name of its bound."""
_MEASURED = ("coverage", "set_size", "set_single")
_KEY = [*MODEL, "seed", "bound"]


def _named(frame: pd.DataFrame) -> pd.DataFrame:
    names = [str(bound).partition("@") for bound in frame["bound"]]
    scores, forms = [name for name, _, _ in names], [form for _, _, form in names]
    return frame.astype({"seed": "int64"}).assign(score=scores, form=forms)


def threshold_frame(rows: pd.DataFrame) -> pd.DataFrame:
    """List every threshold of every trained model.

    Columns ``label predictor seed bound shift severity score form value delta n_clients population
    sampling rigorous reason alpha pool left_out``: ``score`` is the bound's name without its
    ``form``; ``alpha`` is the miss rate of its score's sets, ``left_out`` how many clients are in
    no pool, NaN if none.
    """
    told = rows[(rows["metric"] == "set_threshold") & (rows["status"] != "failed")]
    facts = ["value", "delta", "n_clients", "population", "sampling", "rigorous", "message"]
    frame = _named(told[[*_KEY, *CONDITION, *facts]].rename(columns={"message": "reason"}))
    frame["rigorous"] = frame["rigorous"].map(lambda flag: flag is True)
    alphas = frame[frame["form"] == CLIENTS].groupby("score")["delta"].max()
    sizes = group_sizes(rows)
    pool = sizes["certification"] + sizes["novel"]
    beside = rows[(rows["metric"] == "certificate_pool") & rows["bound"].str.startswith("sets:")]
    left_out = beside.loc[beside["term"] == "left_out", "value"].max()
    frame = frame.assign(alpha=frame["score"].map(alphas), pool=pool, left_out=left_out)
    return frame.reset_index(drop=True)


def sets_frame(rows: pd.DataFrame) -> pd.DataFrame:
    """Means over new clients and seeds of what sets by every threshold hold.

    Columns ``label predictor bound shift severity score form coverage set_size set_single n_clients
    n_seeds alpha threshold error promised``: ``threshold`` is the largest of the seeds', ``error``
    the mean error of the same clients, ``promised`` whether a certificate covers the condition.
    """
    chosen = rows["metric"].isin(_MEASURED) & (rows["client"] == "") & (rows["status"] != "failed")
    told = _named(rows.loc[chosen, [*_KEY, *CONDITION, "metric", "value", "n_clients"]])
    by = [*MODEL, "bound", *CONDITION, "score", "form"]
    if told.empty:
        return pd.DataFrame(columns=[*by, *_MEASURED])
    wide = told.pivot_table(index=by, columns="metric", values="value", dropna=False, sort=False)
    wide = wide.dropna(how="all")
    counted = told.groupby(by, dropna=False)[["n_clients", "seed"]]
    sizes = counted.agg(n_clients=("n_clients", "max"), n_seeds=("seed", "nunique"))
    thresholds = threshold_frame(rows)
    issued = thresholds.groupby([*MODEL, "bound", *CONDITION], dropna=False)
    of = issued.agg(threshold=("value", "max"), promised=("rigorous", "all")).reset_index()
    frame = wide.reset_index().merge(sizes.reset_index(), on=by)
    frame = frame.merge(of, on=[*MODEL, "bound", *CONDITION], how="left")
    frame["alpha"] = frame["score"].map(thresholds.groupby("score")["alpha"].max())
    frame["promised"] = frame["promised"].map(lambda flag: flag is True)
    errors = client_errors(rows)
    errors = errors[errors["group"] == "novel"]
    means = errors.groupby([*MODEL, *CONDITION], dropna=False)["error"].mean()
    frame.columns.name = None
    frame = frame.merge(means.reset_index(), on=[*MODEL, *CONDITION], how="left")
    rank = frame.assign(score=_rank(frame["score"]), shift=frame["shift"] != "none")
    return frame.loc[rank.sort_values(["score", "shift"], kind="stable").index]


def _rank(scores: pd.Series) -> pd.Series:
    """Return the places of scores in their catalogue."""
    places = {f"sets:{name}": place for place, name in enumerate(LABEL_SCORES)}
    return scores.map(places).fillna(len(places))


def client_sets_frame(rows: pd.DataFrame) -> pd.DataFrame:
    """Coverage and mean size of every new client's sets, over seeds, without shift.

    Returns
    -------
    pandas.DataFrame
        ``label predictor score client coverage set_size alpha``.
    """
    chosen = rows["metric"].isin(_MEASURED) & (rows["client"] != "") & (rows["status"] != "failed")
    told = _named(rows.loc[chosen, [*_KEY, *CONDITION, "metric", "value", "client", "delta"]])
    told = told[told["shift"] == "none"].rename(columns={"delta": "alpha"})
    by = [*MODEL, "score", "client", "alpha"]
    if told.empty:
        return pd.DataFrame(columns=[*by, "coverage", "set_size"])
    wide = told.pivot_table(index=by, columns="metric", values="value", sort=False)
    wide.columns.name = None
    return wide.reset_index()


@styled
def client_sets_figure(frame: pd.DataFrame, looks: Looks, *, width: float = WIDE) -> Figure:
    """Draw a panel per model and a dot per new client: what its sets hold, against their size.

    Parameters
    ----------
    frame : pandas.DataFrame
        ``client_sets_frame`` of one score; of more than eight models the eight of smallest sets
        have panels.
    """
    sizes = frame.groupby("label", sort=False)["set_size"].mean().nsmallest(MOST_CURVES)
    names = {pair: name for pair, name in model_names(frame).items() if pair[0] in sizes.index}
    figure, drawn = model_panels(names, width, above=0.8)
    for pair, axes in drawn.items():
        own = frame[(frame["label"] == pair[0]) & (frame["predictor"] == pair[1])]
        axes.axhline(100 * (1 - own["alpha"].iloc[0]), color=MUTED, linewidth=0.9)
        axes.plot(
            own["set_size"], 100 * own["coverage"], looks[pair[0]].mark,
            color=looks[pair[0]].colour, markersize=3.5, alpha=0.6, linestyle="none",
        )  # fmt: skip
        axes.plot(
            own["set_size"].mean(), 100 * own["coverage"].mean(), "+", color=INK, markersize=9
        )
    # A panel above a place without one has numbers of its own.
    for lowest in list(drawn.values())[-(2 if width < 5 else 4) :]:
        lowest.tick_params(labelbottom=True)
    figure.supxlabel("labels in a set", fontsize=8.5)
    figure.supylabel("points whose set holds their label (%)", fontsize=8.5)
    handles = [
        Line2D([], [], color=MUTED, linewidth=0.9, label="promised on average"),
        Line2D([], [], marker="+", color=INK, linestyle="none", label="mean over clients"),
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=2)
    return figure


def _plot(material: Material, frame: pd.DataFrame) -> Plot:
    clients = primary_predictor(material.ordered(client_sets_frame(material.rows)))
    score = str(frame["score"].iloc[0])
    own = clients[clients["score"] == score]
    means = own.groupby("label", sort=False)[["coverage", "set_size"]].mean()
    said = [
        f"{model_called(str(label))} {percent(row['coverage'])} with {row['set_size']:.2g} labels"
        for label, row in means.iterrows()
    ]
    seeds = f", {count(int(frame['n_seeds'].max()), 'seed')} averaged"
    return Plot(
        "sets",
        partial(client_sets_figure, own, material.looks),
        clients,
        title="Sets of labels, client by client",
        alt=f"Coverage and mean size of new clients' sets: {'; '.join(said)}.",
        caption=f"A dot a new client, {bound_name(score)}{seeds}. The promise is about the mean "
        "over clients: single clients lie below it, and how many is not promised.",
    )


def sets_table(frame: pd.DataFrame) -> Table:
    """Show what sets hold and how large they are, those of pooled points beside them."""
    names = model_names(frame)
    shifted = bool((frame["shift"] != "none").any())
    by = [*MODEL, "score", *CONDITION]
    shown = []
    for _, part in frame.groupby(by, dropna=False, sort=False):
        forms = {row["form"]: row for row in records(part)}
        first = forms[CLIENTS]
        cells = {
            "method": names[first["label"], first["predictor"]],
            "score": sentence_case(bound_name(str(first["score"])).removeprefix("sets by ")),
        }
        if shifted:
            cells["condition"] = shift_name(first["shift"], first["severity"])
            cells["promised"] = chance(first["alpha"]) if first["promised"] else "nothing"
        shown.append(
            {
                **cells,
                "error": percent(first["error"]),
                "label held": percent(first["coverage"]),
                "labels": _labels(first),
                "a single one": percent(first["set_single"], 0),
                "sure: held": percent(forms[CONFIDENT]["coverage"]),
                "sure: labels": _labels(forms[CONFIDENT]),
                "pooled: held": percent(forms[POOLED]["coverage"]),
                "pooled: labels": _labels(forms[POOLED]),
            }
        )
    alpha = float(frame["alpha"].max())
    caption = (
        f"Means over new clients and seeds. A set is to hold the label of {chance(alpha)} of a new "
        "client's points, over the certified clients and the new one together; sure: with "
        "confidence over the certified clients, who may be too few for anything but all labels. "
        "Pooled: a threshold from all points alike, as others take it, which guarantees a new "
        "client nothing. Models of like error may need sets of unlike size."
    )
    if shifted:
        caption += (
            " Under a shift the unshifted thresholds are kept and nothing is promised, unless the "
            "certified clients were shifted too."
        )
    words = ("method", "score", "condition", "promised")
    label = "Sets of labels for new clients"
    return Table("sets", caption, frame, pd.DataFrame(shown), words, label=label, noun="rows")


def _labels(row: dict[str, Any]) -> str:
    return DASH if pd.isna(row["set_size"]) else f"{row['set_size']:.2f}"


def _claims(material: Material) -> Iterator[Block]:
    """Say what each threshold promises, and what has to hold."""
    frame = threshold_frame(material.rows)
    plain = frame[(frame["shift"] == "none") & (frame["form"] != POOLED)]
    plain = plain.loc[_rank(plain["score"]).sort_values(kind="stable").index]
    facts = material.ledger[material.ledger["shift"] == "none"]
    for bound, own in plain.groupby("bound", sort=False):
        first = first_record(primary_predictor(own))
        ends = [rounded(own["value"].agg(end), decimals=3, up=True) for end in ("min", "max")]
        value = ends[0] if ends[0] == ends[1] else f"{ends[0]} to {ends[1]}, by model"
        yield Text(statement({**first, "severity": float("nan")}, value))
        held = [item["text"] for item in ledger_of(facts, str(bound))["assumption"]]
        if held:
            yield Group([Items(held)], f"Holds if ({bound_name(str(bound))})")


def _sets(material: Material) -> Iterator[Block]:
    frame = primary_predictor(material.ordered(sets_frame(material.rows)))
    if frame.empty:
        return
    yield sets_table(frame)
    yield _plot(material, frame)
    yield from _claims(material)


SETS = Section(
    "sets", _sets, title="Which labels can be ruled out for a new client?", chapter="guarantees"
)


# Errors that differ by no more than this are called alike.
_ALIKE = 0.01


def answer_sets(material: Material) -> Answer | None:
    """Say how much new clients' sets hold and how many labels they have, from method to method.

    All ``numbers`` are of the first score that the study lists.
    """
    every = primary_predictor(material.ordered(sets_frame(material.rows)))
    every = every[every["shift"] == "none"]
    if every.empty:
        return None
    every = every[every["score"] == every["score"].iloc[0]]
    frame = every[every["form"] == CLIENTS].sort_values("set_size", kind="stable")
    pooled = every[every["form"] == POOLED]
    names, told = model_names(frame), records(frame)
    more = (_alike(told, names), _pooled(pooled), _sure(every[every["form"] == CONFIDENT]))
    numbers = {
        "promised": 1 - float(frame["alpha"].max()),
        "coverage_lowest": float(frame["coverage"].min()),
        "coverage_highest": float(frame["coverage"].max()),
        "size_least": told[0]["set_size"],
        "size_most": told[-1]["set_size"],
        "pooled_lowest": float(pooled["coverage"].min()),
    }
    plot = _answer_plots(material, str(frame["score"].iloc[0]))
    sentence = _sentence(told, names)
    return Answer(sentence, tuple(one for one in more if one), _table(frame, names), plot, numbers)


def _sentence(told: list[dict[str, Any]], names: Names) -> str:
    first, last = told[0], told[-1]
    held = [row["coverage"] for row in told]
    promised = f"the true label of {chance(first['alpha'])} of new clients' points"
    if not first["promised"]:
        promised += " (not proven for this split)"
    if len(told) == 1:
        return (
            f"{as_subject(names[model_of(first)])} gives sets that are to hold {promised}: they "
            f"held {percent(held[0])}, with {first['set_size']:.2f} labels on average, "
            f"{percent(first['set_single'], 0)} of them a single one."
        )
    return (
        f"Sets that are to hold {promised} did so for {percent(min(held))} to "
        f"{percent(max(held))}, by method, with {first['set_size']:.2f} labels on average for "
        f"{names[model_of(first)]}, the fewest, to {last['set_size']:.2f} for "
        f"{names[model_of(last)]}."
    )


def _alike(told: list[dict[str, Any]], names: Names) -> str:
    """Name the two models of like error whose sets differ most in size."""
    alike = [
        (one, other)
        for one, other in combinations(told, 2)
        if abs(one["error"] - other["error"]) <= _ALIKE
    ]
    if not alike:
        return ""
    one, other = max(alike, key=lambda pair: pair[1]["set_size"] / pair[0]["set_size"])
    if round(one["set_size"], 2) == round(other["set_size"], 2):
        return ""
    return (
        f"Error does not tell: {names[model_of(one)]} and {names[model_of(other)]} err "
        f"{percent(one['error'])} and {percent(other['error'])}, with {one['set_size']:.2f} and "
        f"{other['set_size']:.2f} labels in a set."
    )


def _pooled(pooled: pd.DataFrame) -> str:
    held = range_of(pooled["coverage"], percent)
    return f"A threshold from pooled points, which guarantees a new client nothing, held {held}."


def _sure(confident: pd.DataFrame) -> str:
    if (confident["threshold"] >= 1).all():
        return "With confidence over the certified clients, too few for it, sets hold all labels."
    sizes = range_of(confident["set_size"], "{:.2f}".format)
    held = range_of(confident["coverage"], percent)
    return f"With confidence over the certified clients sets have {sizes} labels and held {held}."


def _answer_plots(material: Material, score: str) -> tuple[Plot, ...]:
    clients = primary_predictor(material.ordered(client_sets_frame(material.rows)))
    own = clients[clients["score"] == score]
    return (
        Plot(
            "answer-sets",
            partial(client_sets_figure, own, material.looks),
            own,
            title="Sets of labels, client by client",
            alt=f"{count(own['client'].nunique(), 'client')}: coverage from "
            f"{percent(float(own['coverage'].min()))} to {percent(float(own['coverage'].max()))}.",
            caption="A dot a new client; the promise is about the mean over clients.",
        ),
    )


def _table(frame: pd.DataFrame, names: Names) -> Table:
    shown = pd.DataFrame(
        {
            "model": names[model_of(row)],
            "error": percent(row["error"]),
            "label held": percent(row["coverage"]),
            "labels in a set": f"{row['set_size']:.2f}",
            "a single one": percent(row["set_single"], 0),
        }
        for row in records(frame)
    )
    caption = (
        "Means over new clients and seeds, smallest sets on top: what sets hold, their labels, and "
        "how many rule out all labels but one."
    )
    return Table("answer-sets", caption, frame, shown, ("model",))


SETS_ASKED = Question("sets", answer_sets)
