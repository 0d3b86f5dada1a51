"""What a study asks, the answer to each question, and the box that holds them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import pandas as pd
from markupsafe import Markup

from latecomer.certify.words import count, listing, percent, points, shift_name
from latecomer.errors import InputError
from latecomer.eval.names import QUESTIONS, ROUTES, statement
from latecomer.reports.accuracy.errors import answer_accuracy, said_of_errors
from latecomer.reports.checks import CHECKS, by_check, findings, findings_file
from latecomer.reports.display.naming import as_subject, model_names
from latecomer.reports.display.section import (
    Answer,
    Block,
    Files,
    Group,
    Items,
    Material,
    Question,
    Section,
    Text,
)
from latecomer.reports.frames.errors import (
    CONTROL,
    MODEL,
    failures_frame,
    lowest_first,
    model_of,
    primary_predictor,
    records,
)
from latecomer.reports.page.layout import WINGS, held
from latecomer.reports.shift.answer import at_severest, distance_from_none
from latecomer.reports.words import between, bound_name, interval, sentence_case, span

__all__ = ["ASKS", "QUESTIONS", "Answer", "answers", "asked", "asking", "only_runs"]


_ANSWERS = {one.name: one.answer for one in held(Question, WINGS[:-1])}
ASKS: Mapping[str, Callable[[Material], Answer | None]] = MappingProxyType(
    {name: _ANSWERS[name] for name in QUESTIONS}
)
"""Each question's name, and the function that answers it; it returns None if a run cannot."""


def only_runs(study: Mapping[str, Any]) -> str:
    """Say that a study's numbers mean nothing, where its scale only shows that things run.

    >>> only_runs({"scale": "paper"}), only_runs({"scale": "smoke"})[:15]
    ('', 'Scale smoke: on')
    """
    if study.get("scale") != "smoke":
        return ""
    return (
        "Scale smoke: only shows that it runs, with few rounds on few clients. No number here says "
        "anything about a method."
    )


def asking(study: Mapping[str, Any], asks: Sequence[str]) -> dict[str, Any]:
    """Return a study that asks something else of the same run."""
    for kind in asks:
        if kind not in ASKS:
            raise InputError(f"asks must be among {', '.join(ASKS)}, got {kind!r}")
        if asks.count(kind) > 1:
            raise InputError(f"asks must not repeat an entry, got {kind!r} again")
    told = " ".join(QUESTIONS[kind] for kind in asks)
    return {**study, "asks": list(asks), "question": told}


def asked(study: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what a study asks; where it does not say, guess from its other settings.

    >>> asked({"asks": ["gap"]}), asked({"paper": ["odpfl:Table 1"]})
    (('gap',), ('paper',))
    >>> asked({"shifts": {"blur": [1.0]}}), asked({"methods": ["pefll"]})
    (('shift',), ('accuracy',))
    """
    if study.get("asks"):
        return tuple(study["asks"])
    routes = [ROUTES.get(str(entry.get("route"))) for entry in study.get("certificates") or ()]
    wanted = {route.asks if route else "certificate" for route in routes}
    certified = "certificate" in wanted
    holds = {
        "paper": bool(study.get("paper")),
        "bounds": certified and bool(study.get("bounds")),
        "certificate": certified and not study.get("bounds"),
        **{kind: True for kind in QUESTIONS if kind in wanted - {"certificate"}},
        "shift": any((study.get("shifts") or {}).values()),
    }
    held = tuple(kind for kind, is_held in holds.items() if is_held)
    compares = len(study.get("methods") or ()) > 1 and set(held) <= {"shift", *wanted}
    return (*held, "accuracy") if compares or not held else held


def answers(material: Material) -> list[Answer]:
    """Answer a study's questions in their order; leave out those that the run cannot answer.

    A run that answers none of them is still asked how well it serves new clients.
    """
    given = [ASKS[kind](material) for kind in asked(material.study)]
    said = [one for one in given if one is not None]
    return said or [one for one in [answer_accuracy(material)] if one is not None]


# More answers than this are folded away: the first screen is for the lowest.
MOST_ANSWERS = 6


def shift_answers(frame: pd.DataFrame, dealt: Sequence[str] = ()) -> list[str]:
    """Say in one sentence per shift how models err at its strongest, and what they lose.

    Another data set is judged against its matched control, all else against no shift; ``frame`` is
    the rows' ``shift_frame``, ``dealt`` the shifts that deal other clients.
    """
    shifts = [name for name in dict.fromkeys(frame["shift"]) if name != "none"]
    said, names = [], model_names(frame)
    for shift in sorted(name for name in shifts if not name.endswith(CONTROL)):
        own = frame[frame["shift"] == shift]
        matched = shift + CONTROL in shifts
        own = own.assign(distance=distance_from_none(shift, own["severity"]), error=own["mean"])
        own = at_severest(own)
        severity = own["severity"].iloc[0]
        before = shift + CONTROL if matched else "none"
        known = frame[frame["shift"] == before].set_index(MODEL)["mean"]
        errors = own.set_index(MODEL)["mean"]
        lost = (errors - known).dropna().sort_values(kind="stable")
        if lost.empty:
            continue
        # Errors of the models whose start is known: those that the losses are of.
        errors = errors[lost.index]
        told = f"errors {between(percent(errors.min()), percent(errors.max()))}"
        if len(lost) == 1:
            called = as_subject(names[lost.index[0]])
            told = f"{called} has {percent(errors.iloc[0])} error"
        ends = [points(lost.iloc[place]) for place in (0, -1)]
        change = f"{ends[0]} to {ends[1]}" if len(lost) > 1 else ends[0]
        against = "the control" if matched else "no shift"
        if shift in dealt:
            against = "other clients without shift"
        name = sentence_case(shift_name(shift, severity))
        said.append(f"{name}: {told}; against {against}, {change} points.")
    return said


def answers_by_method(frame: pd.DataFrame, declared: pd.DataFrame) -> list[dict[str, str]]:
    """Answer the study's question once per method, lowest new-client error first.

    ``subject`` is its name before a verb, ``measured`` about the measured error, ``certified``
    about its certificate, empty when there is none, and ``terms`` what that is about and what it
    cost.
    """
    frame = primary_predictor(frame[frame["group"] == "novel"]).sort_values("mean", kind="stable")
    names, of = model_names(frame), {model: own for model, own in declared.groupby(MODEL)}
    return [
        {
            "label": str(row["label"]),
            "subject": as_subject(names[model_of(row)]),
            "measured": _measured(row),
            **_certified(of.get((row["label"], row["predictor"]), declared.iloc[:0])),
        }
        for row in records(frame)
    ]


def shared_terms(given: Sequence[Mapping[str, str]]) -> str:
    """Give the terms that most certified answers share; empty when no more than half do."""
    terms = [answer["terms"] for answer in given if answer["terms"]]
    most = max(terms, key=terms.count, default="")
    return most if 2 * terms.count(most) > len(terms) else ""


def _measured(row: Mapping[str, Any]) -> str:
    n_clients, n_seeds = int(row["n_clients"]), int(row["n_seeds"])
    counts = f"{count(n_clients, 'client')} \N{MULTIPLICATION SIGN} {count(n_seeds, 'seed')}"
    if not pd.isna(row["lower"]):
        counts = f"95% interval {interval(row['lower'], row['upper'])}, {counts}"
    accuracy = f"{percent(1 - row['mean'])} accuracy"
    return f"serves clients it never saw with {percent(row['mean'])} error, {accuracy} ({counts})"


def _certified(own: pd.DataFrame) -> dict[str, str]:
    """State one model's declared certificate, from one row per seed."""
    if own.empty:
        return {"certified": "", "terms": ""}
    # A bound over a pool most of which was scored says little about the other clients: what it
    # leaves for them tells how a new client is served.
    mostly, values = bool(own["mostly"].iloc[0]), own["shown"]
    left = int(own["pool"].iloc[0] - own["n_clients"].iloc[0]) if mostly else 0
    whom = f" for the {count(left, 'client')} neither trained on nor scored" if mostly else ""
    text = f"certified at most {span(list(values))}{whom}"
    if (values >= 1).all():
        text = f"its certificate is vacuous (100% or more){whom}"
    elif (values >= 1).any():
        text += " (vacuous where it reaches 100%)"
    first = {**records(own)[0], "others": float("nan")}
    said = statement(first, "a bound given below" if mostly else "the value")
    terms = f"{bound_name(str(own['bound'].iloc[0]))}: {said}"
    if mostly:
        terms += f" The value is what that bound leaves{whom}, by themselves."
    if len(own) > 1:
        terms += f" One certificate for each of {len(own)} seeds; two values are their range."
    return {"certified": text, "terms": terms}


def _scale(material: Material) -> Iterator[Block]:
    if said := only_runs(material.study):
        yield Text(said, "failed")


def _asked(material: Material) -> Iterator[Block]:
    """Answer what the study asks: sentences, the figure, then the table and further figures."""
    given = answers(material)
    if not given:
        yield Text("Nothing was measured that answers what the study asks.", "lead")
    for answer in given:
        yield Text(answer.sentence, "lead")
        if answer.aside:
            yield Text(answer.aside)
        yield Items(answer.more)
        yield from answer.figures[:1]
        yield answer.table
        yield from answer.figures[1:]


def _best(material: Material) -> Iterator[Block]:
    every = material.one_a_label
    frame = lowest_first(every[every["group"] == "novel"])
    said = said_of_errors(frame) if len(frame) else ["No new client was measured."]
    yield Text(" ".join(said), "lead")


def _checks(material: Material) -> Iterator[Block]:
    """Say what the checks found, once a check; fold the rest, why it matters and what to do.

    The same goes beside the page as a table, ``checks.csv``.
    """
    found = findings(material, CHECKS.values())
    yield Files({"checks.csv": findings_file(found)})
    told = Markup("<strong>{0.check.code}</strong> {0.check.title}: {0.sentence}{1}")
    if found:
        grouped, first, others = by_check(found), [], []
        for one, *rest in grouped:
            first.append(told.format(one, f" ({len(rest)} more below)" if rest else ""))
            others += [told.format(other, "") for other in rest]
        yield Items(first, "checks")
        if others:
            yield Group([Items(others, "checks")], "What else they found")
        lines = [
            Markup(
                "<strong>{0.code}</strong> {0.why} To clear it: {0.clear} Ignore it when: "
                "{0.ignore} (<code>evaluation.ignore: [{0.code}]</code>)"
            ).format(one.check)
            for one, *_ in grouped
        ]
        yield Group([Items(lines, "checks")], "What the checks mean, and when to ignore them")
    ignored = (material.study.get("evaluation") or {}).get("ignore") or ()
    if ignored:
        yield Text(f"Not checked, as the study says: {listing(list(ignored))}.", "note")


def _missing(material: Material) -> Iterator[Block]:
    cells, failed = material.run.cells, len(failures_frame(material.everything))
    unfinished = sum(cell.status == "unfinished" for cell in cells)
    said = [f"{failed}{f' of {len(cells)}' if cells else ''} cells failed."] if failed else []
    are = "is" if unfinished == 1 else "are"
    said += [f"{unfinished} of {len(cells)} cells {are} not finished."] if unfinished else []
    if said:
        told = Markup('{} <a href="#failures">See which</a>').format(" ".join(said))
        yield Text(told, "failed")


def _every(material: Material) -> Iterator[Block]:
    given = answers_by_method(material.accuracy, material.declared)
    if not given:
        return
    shared = shared_terms(given)
    lines = [_line(answer, shared) for answer in given]
    colours = [material.looks[answer["label"]].colour for answer in given]
    told: list[Block] = [Items(lines[:MOST_ANSWERS], "answers", colours[:MOST_ANSWERS])]
    more = len(lines) - MOST_ANSWERS
    if more > 0:
        rest = Items(lines[MOST_ANSWERS:], "answers", colours[MOST_ANSWERS:])
        told.append(Group([rest], f"{more} more {'methods' if more > 1 else 'method'}"))
    if shared:
        told.append(Text(f"Certified, {shared}", "note"))
    yield Group(told, "Every model in a sentence")


def _line(answer: Mapping[str, str], shared: str) -> Markup:
    line = Markup("<strong>{subject}</strong> {measured}").format(**answer)
    if answer["certified"]:
        line += Markup('; <span class="certified">{certified}</span>').format(**answer)
    line += "."
    if answer["terms"] not in ("", shared):
        line += Markup(' <span class="certified">{terms}</span>').format(**answer)
    return line


def _under_shift(material: Material) -> Iterator[Block]:
    said = shift_answers(material.shifts, material.dealt)
    if said:
        yield Items(said, "shifted")


SCALE = Section("scale", _scale)
ASKED = Section("asked", _asked)
BEST = Section("best", _best)
CHECKED = Section("checks", _checks)
MISSING = Section("missing-cells", _missing)
EVERY_MODEL = Section("every-model", _every)
UNDER_SHIFT = Section("answers-under-shift", _under_shift)
