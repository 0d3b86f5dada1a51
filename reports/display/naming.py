"""What models and routes are called in sentences: labels are short for files."""

from collections.abc import Mapping
from functools import cache
from typing import Any

import pandas as pd

from latecomer.eval.names import ROUTES, method_facts
from latecomer.reports.frames.comparison import MODEL

Model = tuple[str, str]
Names = Mapping[Model, str]
"""What every (label, predictor) is called."""


PUBLISHED = "published"
PREDICTED = {
    "gibbs": "random weights",
    "deterministic": "fixed weights",
    "prior": "before its tuning",
    "last-checkpoint": "last checkpoint",
    "random-checkpoint": "a checkpoint drawn at random",
}


def route_of(bound: str) -> str:
    """Return the route of a bound's name, or ``published``.

    >>> route_of("r4:product"), route_of("pefll_32")
    ('r4', 'published')
    """
    route = bound.partition(":")[0]
    return route if route in ROUTES else PUBLISHED


@cache
def _methods_called() -> dict[str, str]:
    """Map methods to what sentences call them, longest first: some names begin with another."""
    told = {
        name: facts.get("called") or facts.get("shown_as") or name
        for name, facts in method_facts().items()
    }
    return dict(sorted(told.items(), key=lambda one: -len(one[0])))


def model_called(label: str, predictor: str = "") -> str:
    """Name a model as sentences do; a label that begins with no method's name stays as it is.

    >>> model_called("fedavg r4:product"), model_called("pefll without ridges")
    ('FedAvg, certified while training (R4)', 'PeFLL without ridges')
    >>> model_called("pefll-stochastic", "gibbs"), model_called("mine")
    ('PeFLL-stochastic, random weights', 'mine')
    """
    plain, _, rule = label.rpartition(" ")
    route = ROUTES.get(rule.partition(":")[0]) if ":" in rule else None
    words = plain if route else label
    for name, called in _methods_called().items():
        if words == name or words.startswith((f"{name} ", f"{name}-")):
            words = called + words.removeprefix(name)
            break
    parts = [words, route.model_words if route else "", PREDICTED.get(predictor, predictor)]
    return ", ".join(part for part in parts if part)


def as_subject(called: str) -> str:
    """End a name that contains a comma with another comma, before its verb.

    >>> as_subject("PeFLL"), as_subject("PeFLL, random weights")
    ('PeFLL', 'PeFLL, random weights,')
    """
    return f"{called}," if ", " in called else called


def model_of(row: Mapping[str, Any]) -> Model:
    """Return the model that a row is about."""
    return row["label"], row["predictor"]


def models_in(frame: pd.DataFrame) -> list[Model]:
    """List the models of a frame in order of appearance."""
    return list(dict.fromkeys(frame[MODEL].itertuples(index=False, name=None)))


def model_names(frame: pd.DataFrame) -> dict[Model, str]:
    """Name every model of a frame; with its predictor where a label has two.

    >>> drawn = {"label": ["pefll", "pefll"], "predictor": ["gibbs", "deterministic"]}
    >>> model_names(pd.DataFrame(drawn))
    ... # doctest: +NORMALIZE_WHITESPACE
    {('pefll', 'gibbs'): 'PeFLL, random weights',
     ('pefll', 'deterministic'): 'PeFLL, fixed weights'}
    """
    models = models_in(frame)
    labels = [label for label, _ in models]
    return {
        (label, predictor): model_called(label, predictor if labels.count(label) > 1 else "")
        for label, predictor in models
    }
