"""What a study asks, and the answer to each question."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from latecomer.eval.names import QUESTIONS, ROUTES
from latecomer.eval.results.rows import InputError
from latecomer.reports.accuracy.answer import answer_accuracy
from latecomer.reports.display.answer import Answer, Question
from latecomer.reports.display.section import Material
from latecomer.reports.page.layout import WINGS, held

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
    """Return a study that asks something else of the same run.

    Raises
    ------
    InputError
        A question is unknown.

    Examples
    --------
    >>> asking({"asks": ["gap"], "question": "How large is the gap?"}, ["shift"])["asks"]
    ['shift']
    """
    for kind in asks:
        if kind not in ASKS:
            raise InputError(f"asks must be among {', '.join(ASKS)}, got {kind!r}")
        if asks.count(kind) > 1:
            raise InputError(f"asks must not repeat an entry, got {kind!r} again")
    told = " ".join(QUESTIONS[kind] for kind in asks)
    return {**study, "asks": list(asks), "question": told}


def asked(study: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what a study asks; where it does not say, guess from its other settings.

    Parameters
    ----------
    study : mapping
        The resolved study.

    Examples
    --------
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

    Parameters
    ----------
    material : Material
        Of the run.

    Returns
    -------
    list of Answer
        Empty where nothing was measured.
    """
    given = [ASKS[kind](material) for kind in asked(material.study)]
    said = [one for one in given if one is not None]
    return said or [one for one in [answer_accuracy(material)] if one is not None]
