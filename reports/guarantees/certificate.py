"""Answers what can be guaranteed to a client that joins, and by which certificate."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from latecomer.certify.rule import DEFAULT_RULE, RULES
from latecomer.certify.sample import n_orders
from latecomer.certify.words import BALLS, chance, count, inward, listing, magnitude, percent
from latecomer.eval.names import statement
from latecomer.reports.display.errors_figure import draw_certified_clients
from latecomer.reports.display.naming import Names, as_subject, model_called, model_names, route_of
from latecomer.reports.display.pictures import Plot, Table, doubted
from latecomer.reports.display.section import Answer, Block, Heading, Material, Question, Section
from latecomer.reports.frames.bounds import breaking_frame, doubt
from latecomer.reports.frames.chosen import (
    SAME,
    AfterLooking,
    Choice,
    after_looking,
    certified_again,
    certified_scores,
    dropped_systems,
    held_out,
    seeds_told,
)
from latecomer.reports.frames.errors import MODEL, SYSTEM, certified_order, model_of, records
from latecomer.reports.guarantees.next_population import population_plot
from latecomer.reports.words import (
    VACUOUS,
    between,
    bound_ids,
    bound_name,
    in_one_unit,
    sentence_case,
)

BY = {
    "validation": "chosen by the seen clients' error on their validation data",
    "seen": "chosen by the seen clients' error on data that they kept out of training",
    "training": "chosen by the seen clients' error on their training data",
    "seed": "the first of the study's seeds",
    "study": "named by the study",
    "alone": "",
}
"""What chose a system, as it stands behind its name."""
SEEDS = (
    "of several seeds the one that errs least on seen clients, or the study's first where those "
    "cannot choose"
)


def without_choice(delta: pd.Series, values: str, looked: str = "") -> str:
    """Say what certificates are, none of which was chosen before looking."""
    return (
        f"No system was chosen before looking: the {len(delta)} certificates are {values}, each "
        f"with {chance(float(delta.max()))} confidence by itself. "
        f"{looked or 'Name a model by certify_model, before the scores, for one to lead.'}"
    )


def system_called(row: Any, names: Names, *, several_seeds: bool) -> str:
    """Name a model, with its seed where there are several."""
    return names[model_of(row)] + (f" of seed {int(row['seed'])}" if several_seeds else "")


def chosen_system(choice: Choice, names: Names, *, several_seeds: bool) -> str:
    """Name the chosen system as a subject, and say what chose it."""
    called = system_called(choice.row, names, several_seeds=several_seeds)
    how = [BY["study"] if choice.named else "", "" if choice.by == "study" else BY[choice.by]]
    told = " and ".join(words for words in how if words)
    return f"{called}, {told}," if told else as_subject(called)


def looked_at(material: Material) -> AfterLooking | None:
    """Return the smallest certificate of all systems, each at its share of delta."""
    dropped = dropped_systems(material.everything, material.run.scorings)
    order = certified_order(material.run)
    return after_looking(material.declared, material.errors, material.study, dropped, order)


def after_words(
    after: AfterLooking | None, declared: pd.DataFrame, names: Names, *, beside: bool = True
) -> str:
    """Say what the smallest of all certificates is worth; ``beside`` a chosen one, or alone."""
    held = held_out(declared)
    several_seeds = declared["seed"].nunique() > 1
    if after is None:
        n = len(held) if len(held) else len(declared)
        if n < 2:
            return ""
        return (
            f"Each of the {n} certificates holds by itself; the smallest of them, picked after "
            "looking, is none at that level."
        )
    row, delta = after.row, float(after.row["delta"])
    whose = system_called(row, names, several_seeds=several_seeds)
    gone = f", {count(after.n_dropped, 'dropped one')} included," if after.n_dropped else ""
    value = f"at most {magnitude(row['shown'])}" if row["shown"] < 1 else "100% or more"
    text = (
        f"Looked at afterwards, the smallest of all {after.n_systems} systems certified on these "
        f"clients{gone} is {value}, that of {whose}: all {after.n_systems} hold at once with "
        f"{chance(delta)} confidence, for they share delta"
    )
    both = f"; all and the one above, with {chance(min(2 * delta, 1.0))}"
    return f"{text}{both if beside else ''}."


def answer_certificate(material: Material) -> Answer | None:
    """State the declared certificate of the system that was chosen before looking.

    In ``numbers`` ``certified`` is the mean of the clients it was made from, ``worst`` their worst,
    ``n_systems`` how many share delta.  Where nothing chose a system, they are of the smallest of
    all certificates at its share of delta or, where that is unknown, of one that no score chose,
    and the sentence says so.
    """
    declared, choice = material.declared, material.choice
    if declared.empty:
        return None
    names, after = model_names(declared), looked_at(material)
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
    more = [f"{by}{about}: {said}", _other_populations(material, first) or spread_words(errors)]
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
        each = between(*(magnitude(declared["shown"].agg(end)) for end in ("min", "max")))
        return without_choice(declared["delta"], each)
    if choice is None:
        told = after_words(after, declared, names, beside=False)
        return f"No system was chosen before looking. {told}"
    first = choice.row
    clients, sure = count(int(first["n_clients"]), "client"), chance(float(first["delta"]))
    subject = chosen_system(choice, names, several_seeds=several)
    if first["shown"] >= 1:
        return (
            f"Nothing is guaranteed by {clients}: the certificate of {subject} is "
            f"100% or more ({sure} confidence)."
        )
    return (
        f"{subject} is certified with {sure} confidence to serve {_whom(first)} with at most "
        f"{magnitude(first['shown'])} error on average; the {clients} it was certified on had "
        f"{percent(first['certified'])}."
    )


def averaged_over(first: Mapping[str, Any]) -> str:
    """Say whose mean error is bounded.

    Routes that take seen clients have pools of their own, whose sizes rows need not hold.

    Examples
    --------
    >>> averaged_over({"sampling": "finite-pool", "group": "tuning", "n_clients": 30})
    'all clients but those that trained it first, the 30 that it was tuned on among them'
    """
    n = int(first["n_clients"])
    if first["sampling"] == "martingale":
        return "new clients" if first["independent"] else "the clients not trained on by then"
    if first["sampling"] != "finite-pool":
        return "new clients"
    if first["group"] == "tuning":
        tuned = f"the {n} that it was tuned on among them"
        return f"all clients but those that trained it first, {tuned}"
    return f"the {int(first['pool'])} clients it was not trained on, the {n} scored among them"


def _whom(first: Mapping[str, Any]) -> str:
    """Say whose mean error is bounded, and by which model where it is drawn at random."""
    if first["mostly"]:
        left = int(first["pool"]) - int(first["n_clients"])
        return f"the {left} clients it was neither trained nor certified on"
    over = averaged_over(first)
    if first["sampling"] == "martingale":
        joining = "a client that joins" if first["independent"] else over
        return f"{joining}, by a checkpoint drawn at random,"
    tuned = first["group"] == "tuning" and first["predictor"] == "gibbs"
    drawn = " by a system drawn at random," if tuned else ""
    if first["sampling"] == "finite-pool":
        return f"{over},{drawn}"
    return f"a client that joins, drawn like the certified ones,{drawn}"


def spread_words(errors: NDArray[np.float64]) -> str:
    """Say how the certified clients' errors differ, and no number twice."""
    least, median, worst = (float(one(errors)) for one in (np.min, np.median, np.max))
    tenth = float(np.quantile(errors, 0.9, method="higher"))
    if least == worst:
        return f"All of its clients had {percent(worst)} error."
    if median == worst:
        alike = f"the median one had as much error as the worst, {percent(worst)}"
        return f"Its clients differ: {alike}."
    between = f", one in ten at least {percent(tenth)}" if median < tenth < worst else ""
    return (
        f"Its clients differ: the median one had {percent(median)} error{between}, the worst "
        f"{percent(worst)}."
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
    caption = f"The first certificate that the study declares, each by itself; {SEEDS}."
    return Table("answer-certificate", caption, frame, shown, ("model", "by"))


CERTIFICATE = Question("certificate", answer_certificate)


_DEFAULT = f"r0:{DEFAULT_RULE}"


def afterwards_frame(
    bounds: pd.DataFrame, errors: pd.DataFrame, study: Mapping[str, Any], order: Sequence[str] = ()
) -> pd.DataFrame:
    """Put the default rule beside the declared ones, on the same scores at the same delta.

    A line for each certificate of the mean without shift, ``issued`` being ``before`` or
    ``afterwards``.  Empty where the study declares the default.  Left out are systems whose
    certificates their scores do not give again, and randomised predictors of a pool: in pools the
    default is about scores as measured.
    """
    columns = [*SYSTEM, "delta", "n_clients", "pool", "mean_error", "bound", "value", "issued"]
    means = held_out(bounds)
    means = means[(means["shift"] == "none") & (means["population"] == "unseen-client")]
    # A name with more than a rule in it is that of a share or of another population.
    means = means[~means["bound"].str.contains("@")]
    if means.empty or (means["bound"] == _DEFAULT).any():
        return pd.DataFrame(columns=columns)
    scores = certified_scores(errors, order)
    lines = []
    for _, own in means.groupby([*SYSTEM, "group", "delta"], sort=False):
        lines += _beside(records(own), scores, study)
    return pd.DataFrame(lines, columns=columns)


def _beside(
    declared: Sequence[Mapping[str, Any]],
    scores: Mapping[tuple[Any, ...], Sequence[float]],
    study: Mapping[str, Any],
) -> list[dict[str, Any]]:
    """Return the lines of one system, or none where its scores do not give what was proved."""
    row = declared[0]
    losses = scores.get(tuple(row[name] for name in (*SYSTEM, "group", "shift")))
    pools = row["sampling"] == "finite-pool"
    if losses is None or (pools and row["predictor"] == "gibbs"):
        return []
    again = [certified_again(one, losses, study, one["delta"]) for one in declared]
    if not np.allclose(again, [one["value"] for one in declared], rtol=0.0, atol=SAME):
        return []
    about = {name: row[name] for name in (*SYSTEM, "delta", "n_clients")}
    about |= {"pool": row["pool"] if pools else np.nan, "mean_error": float(np.mean(losses))}
    late = {**row, "bound": _DEFAULT}
    late["value"] = certified_again(late, losses, study, row["delta"])
    return [
        {**about, "bound": one["bound"], "value": one["value"], "issued": when}
        for one, when in (*((one, "before") for one in declared), (late, "afterwards"))
    ]


def afterwards_table(frame: pd.DataFrame) -> Table:
    """Lay the frame out: a line for each system, a column for each rule."""
    several = frame["delta"].nunique() > 1
    ids = bound_ids(frame["bound"])
    values: dict[str, list[float]] = {}
    for one in records(frame):
        values.setdefault(_rule(one, ids), []).append(one["value"])
    columns = {head: in_one_unit(own) for head, own in values.items()}
    shown = []
    for _, own in frame.groupby([*SYSTEM, "delta"], sort=False):
        row = records(own)[0]
        cells = {"method": model_called(str(row["label"])), "seed": f"{row['seed']}"}
        if several:
            cells["delta"] = f"{row['delta']:g}"
        pool = "" if pd.isna(row["pool"]) else f" of {int(row['pool'])}"
        cells |= {
            "clients": f"{int(row['n_clients'])}{pool}",
            "mean error": percent(row["mean_error"]),
        }
        for one in records(own):
            write, unit = columns[_rule(one, ids)]
            cells[_rule(one, ids) + unit] = write(one["value"])
        shown.append({**cells, "predictor": str(row["predictor"])})
    return Table(
        "issued-afterwards",
        _caption(frame),
        frame,
        pd.DataFrame(shown).fillna(""),
        ("method", "predictor", "clients"),
        label="The same scores by today's default rule, issued afterwards",
        noun="systems",
    )


def _rule(one: Mapping[str, Any], ids: Mapping[str, str]) -> str:
    late = ", issued afterwards" if one["issued"] == "afterwards" else ""
    return f"{ids[one['bound']].partition(':')[2]}{late}"


def _caption(frame: pd.DataFrame) -> str:
    numbers = sorted({n_orders(RULES[DEFAULT_RULE], int(n)) for n in frame["n_clients"]})
    orders = " or ".join(count(n, "permutation") for n in numbers)
    delta = "" if frame["delta"].nunique() > 1 else f" ({frame['delta'].iloc[0]:g})"
    pools = frame["pool"].notna().any()
    return (
        f"Rule {DEFAULT_RULE} ({RULES[DEFAULT_RULE].words}) on the scores that the declared rules "
        f"certified, at the same delta{delta}. The study did not declare it before its clients "
        "were scored: that column compares rules and is no certificate. Its orders are "
        f"{orders} of the split's order, drawn by seed 0."
    ) + (
        " Of a pool the bounds are of its mean, the certified clients included, and this rule's is "
        "about scores as they were measured."
        if pools
        else ""
    )


def _afterwards(material: Material) -> Iterator[Block]:
    bounds = material.ordered(material.bounds)
    if bounds.empty:
        return
    order = certified_order(material.run)
    frame = afterwards_frame(bounds, material.errors, material.study, order)
    if len(frame):
        yield Heading("The same scores by today's default rule, issued afterwards", "afterwards")
        unproven = doubt(material.rows, "certificate", of=set(frame["bound"]))
        yield doubted(afterwards_table(frame), unproven)


AFTERWARDS = Section("issued-afterwards", _afterwards)
