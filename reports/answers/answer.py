"""What a study asks, and the answer to each question."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from latecomer.eval.results.rows import RunRecord
from latecomer.reports.answers.accuracy import answer_accuracy
from latecomer.reports.answers.bounds import answer_bounds, route_of
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
    (('shift', 'accuracy'), ('accuracy',))
    """
    if study.get("asks"):
        return tuple(study["asks"])
    certificates: Sequence[Mapping[str, Any]] = study.get("certificates") or ()
    routes = {route_of(f"{entry['route']}:") for entry in certificates}
    shifted = any((study.get("shifts") or {}).values())
    kinds = [
        ("paper", bool(study.get("paper"))),
        ("bounds", bool(study.get("bounds")) and bool(certificates)),
        ("certificate", bool(certificates) and not study.get("bounds") and bool(routes)),
        ("shift", shifted),
    ]
    held = [kind for kind, holds in kinds if holds]
    return tuple(held) if held and "shift" not in held else (*held, "accuracy")


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
