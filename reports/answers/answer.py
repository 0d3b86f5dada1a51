"""What a study asks, and the answer to each question."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from latecomer.eval.results.rows import RunRecord
from latecomer.reports.answers.accuracy import answer_accuracy
from latecomer.reports.answers.bounds import answer_bounds
from latecomer.reports.answers.certificate import answer_certificate
from latecomer.reports.answers.gap import answer_gap
from latecomer.reports.answers.paper import answer_paper
from latecomer.reports.answers.said import Answer
from latecomer.reports.answers.shift import answer_shift

__all__ = ["ASKS", "Answer", "answers", "asked"]

ASKS: Mapping[str, Callable[[RunRecord], Answer]] = MappingProxyType(
    {
        "bounds": answer_bounds,
        "shift": answer_shift,
        "gap": answer_gap,
        "accuracy": answer_accuracy,
        "paper": answer_paper,
        "certificate": answer_certificate,
    }
)
"""Every question by name, and the function that answers it from a run."""

# What is about certificates has to know the models that were trained with nobody held out.
_WITH_WHOLE = frozenset({"bounds", "certificate"})


def asked(study: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what a study asks; guessed from what it holds where it does not say.

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
    certified, shifted = bool(study.get("certificates")), any((study.get("shifts") or {}).values())
    holds = {
        "paper": bool(study.get("paper")),
        "bounds": certified and bool(study.get("bounds")),
        "certificate": certified and not study.get("bounds"),
        "shift": shifted,
    }
    held = tuple(kind for kind, is_held in holds.items() if is_held)
    several = len(study.get("methods") or ()) > 1
    return (
        held
        if held and not (several and set(held) <= {"shift", "certificate"})
        else (
            *held,
            "accuracy",
        )
    )


def answers(run: RunRecord) -> list[Answer]:
    """Answer what a run's study asks, in its order; what the run cannot answer is left out.

    Parameters
    ----------
    run : RunRecord

    Returns
    -------
    list of Answer
        With a sentence each; empty where nothing was measured.
    """
    configs = [cell.config for cell in run.cells]
    whole = [one["method"]["label"] for one in configs if one.get("kind") == "whole"]
    plain = replace(run, rows=run.rows[~run.rows["label"].isin(whole)]) if whole else run
    given = [ASKS[kind](run if kind in _WITH_WHOLE else plain) for kind in asked(run.study)]
    said = [one for one in given if one.sentence]
    if said or "accuracy" in asked(run.study):
        return said
    fallback = answer_accuracy(plain)
    return [fallback] if fallback.sentence else []
