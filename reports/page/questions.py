"""What a study asks, and the answer to each question."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from latecomer.eval.results.rows import InputError
from latecomer.reports.accuracy.answer import answer_accuracy
from latecomer.reports.accuracy.gap import answer_gap
from latecomer.reports.accuracy.published_answer import answer_paper
from latecomer.reports.display.answer import Answer
from latecomer.reports.display.section import Material
from latecomer.reports.guarantees.answer import answer_bounds
from latecomer.reports.guarantees.certificate import answer_certificate
from latecomer.reports.shift.answer import answer_shift

__all__ = ["ASKS", "QUESTIONS", "Answer", "answers", "asked", "asking", "only_runs"]

ASKS: Mapping[str, Callable[[Material], Answer | None]] = MappingProxyType(
    {
        "bounds": answer_bounds,
        "shift": answer_shift,
        "gap": answer_gap,
        "accuracy": answer_accuracy,
        "paper": answer_paper,
        "certificate": answer_certificate,
    }
)
"""Each question's name, and the function that answers it; it returns None if a run cannot."""

QUESTIONS: Mapping[str, str] = MappingProxyType(
    {
        "bounds": "How far are guarantees for a newcomer from the error that newcomers really "
        "have?",
        "shift": "How robust are models of newcomers to shifted inputs and to other labels?",
        "gap": "How much accuracy does each method lose on clients that join after training?",
        "accuracy": "How well does each method serve clients that join after training?",
        "paper": "Do the published numbers come out?",
        "certificate": "What can be guaranteed to a client that joins after training?",
    }
)
"""Each question in words, for pages that ask another question than their study's."""


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
    certified = bool(study.get("certificates"))
    holds = {
        "paper": bool(study.get("paper")),
        "bounds": certified and bool(study.get("bounds")),
        "certificate": certified and not study.get("bounds"),
        "shift": any((study.get("shifts") or {}).values()),
    }
    held = tuple(kind for kind, is_held in holds.items() if is_held)
    compares = len(study.get("methods") or ()) > 1 and set(held) <= {"shift", "certificate"}
    return (*held, "accuracy") if compares or not held else held


def answers(material: Material) -> list[Answer]:
    """Answer a study's questions in their order; leave out those that the run cannot answer.

    A run that answers none of them is still asked how well it serves newcomers.

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
