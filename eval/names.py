"""What reports may know of the routes, rules, shifts and methods that a run names.

Besides this module, reports import only `results.rows`.  The declaration of a thing says what a
report calls it, how it is drawn and whom it cites, so that no report keeps a list.  Loads no torch.
"""

from typing import Any

from latecomer.certify import sentences
from latecomer.certify.rule import BEST_OF, RULES, Asked, rules_for
from latecomer.certify.sentences import Certificate, Parts
from latecomer.eval.measures.registry import PUBLISHED, bound_called
from latecomer.eval.routes.registry import ROUTES
from latecomer.eval.settings.study_sections import QUESTIONS
from latecomer.eval.shifts.transforms import SHIFTS
from latecomer.eval.splits.further_clients import OTHER_LAWS
from latecomer.eval.splits.registry import IID_SPLITS
from latecomer.models.class_literals import hyperparameters
from latecomer.models.methods.registry import file_of, method_facts

__all__ = [
    "BEST_OF",
    "IID_SPLITS",
    "PUBLISHED",
    "QUESTIONS",
    "ROUTES",
    "RULES",
    "SHIFTS",
    "SHIFT_AXES",
    "Asked",
    "bound_called",
    "bound_cites",
    "method_defaults",
    "method_facts",
    "parts_of",
    "rules_for",
    "statement",
]

SHIFT_AXES = {name: shift.axis for name, shift in SHIFTS.items() if shift.axis} | {
    name: "KL(Q || P), P: the certified clients (nats)" for name in OTHER_LAWS
}
"""Label of the severity axis in figures, by shift."""


def bound_cites() -> dict[str, tuple[str, ...]]:
    """Map the source of each bound that comes with BibTeX entries to these entries.

    Examples
    --------
    >>> bound_cites()
    {}
    """
    from latecomer.bounds import CATALOGUE

    return {entry.source: entry.cites for entry in CATALOGUE.values() if entry.cites}


def method_defaults(name: str) -> dict[str, Any]:
    """Map the settings of a built-in method to their defaults; empty for one from outside.

    Examples
    --------
    >>> method_defaults("fedprox")["mu"], method_defaults("mine.py:Mine")
    (0.01, {})
    """
    if name not in method_facts():
        return {}
    return {one.name: one.default for one in hyperparameters(file_of(name), name)}


def parts_of(certificate: Certificate) -> Parts | None:
    """Return what the sentence about a certificate names, of any route; None for published bounds.

    Examples
    --------
    >>> parts_of({"bound": "pefll_32"}) is None
    True
    """
    route = ROUTES.get(str(certificate.get("bound", "")).partition(":")[0])
    if route is None or route.sentence is None:
        return sentences.parts_of(certificate)
    return route.sentence(certificate)


def statement(certificate: Certificate, value: str | None = None) -> str:
    """Say in one sentence what a certificate of any route states; see `certify.sentences`."""
    return sentences.statement(certificate, value, named=parts_of)
