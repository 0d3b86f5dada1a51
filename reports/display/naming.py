"""What models and routes are called in sentences, and whether a model stands out."""

from collections.abc import Collection, Mapping, Sequence
from functools import cache

import pandas as pd

from latecomer.certify.words import count, listing
from latecomer.eval.names import ROUTES, method_facts
from latecomer.reports.frames.errors import CONFIDENCE, Model, model_of, models_in, records
from latecomer.reports.words import between

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


MOST_NAMED = 4


def standing(
    order: Sequence[Model],
    worse: Collection[Model],
    names: Names,
    *,
    ends: tuple[str, str],
    of: str,
    over: str,
) -> str:
    """Say which of several models stands out, or from what to what they lie.

    ``order`` goes from the smallest mean to the largest, ``ends``; ``worse`` are those that the
    test finds worse than the first, ``of`` is what is counted, ``over`` how many clients and seeds.

    >>> models = [("a", ""), ("b", "")]
    >>> names = {("a", ""): "A", ("b", ""): "B"}
    >>> told = {"ends": ("2.2%", "9.4%"), "of": "error on new clients", "over": "12 clients"}
    >>> standing(models, [], names, **told)
    'No method stands out: from 2.2% to 9.4% error on new clients, over 12 clients.'
    >>> standing(models, [("b", "")], names, **told)
    'A stands out, with 2.2% error on new clients, over 12 clients; B has more beyond chance: 9.4%.'
    """
    first, *others = order
    if not set(others) <= set(worse):
        return f"No method stands out: {between(*ends)} {of}, over {over}."
    them = "all others have" if len(others) > 1 else f"{as_subject(names[others[0]])} has"
    upto = f"up to {ends[1]}" if len(others) > 1 else ends[1]
    return (
        f"{as_subject(names[first])} stands out, with {ends[0]} {of}, over {over}; {them} more "
        f"beyond chance: {upto}."
    )


def beyond_chance(order: Sequence[Model], worse: Collection[Model], names: Names, how: str) -> str:
    """Say which models the test tells apart from the one of the smallest mean, and how it tests.

    Empty where all are told apart: then the one stands out, and that has been said.

    >>> models = [("a", ""), ("b", ""), ("c", "")]
    >>> names = {model: model[0].upper() for model in models}
    >>> beyond_chance(models, [("c", "")], names, "5%, Holm")
    'More than the smallest, that of A, beyond chance: C, not B (5%, Holm).'
    >>> beyond_chance(models, [], names, "5%, Holm")
    'None of the 2 others is told apart from the smallest, that of A (5%, Holm).'
    """
    first, *others = order
    more = [names[model] for model in others if model in worse]
    alike = [names[model] for model in others if model not in worse]
    if not alike:
        return f"What is beyond chance: {how}."
    if not more:
        one = len(others) == 1
        whom = f"{as_subject(alike[0])}" if one else f"None of the {len(others)} others"
        not_ = "is not" if one else "is"
        return f"{whom} {not_} told apart from the smallest, that of {names[first]} ({how})."
    if len(alike) > MOST_NAMED:
        rest = f"not the {len(alike)} others"
    else:
        rest = f"not {listing(alike, 'or')}"
    told = listing(more) if len(more) <= MOST_NAMED else count(len(more), "model")
    return f"More than the smallest, that of {names[first]}, beyond chance: {told}, {rest} ({how})."


def worse_than(pairs: pd.DataFrame, least: Model) -> list[Model]:
    """Return the models that the test of pairs finds above the one of the smallest mean."""
    worse = []
    for row in records(pairs[pairs["p_holm"] <= 1 - CONFIDENCE]):
        one, other = model_of(row), (row["other"], row["other_predictor"])
        less, more = (one, other) if row["difference"] < 0 else (other, one)
        if less == least:
            worse.append(more)
    return worse
