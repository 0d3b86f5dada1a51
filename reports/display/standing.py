"""Whether a model stands out: only a test says so, never the order of the means."""

from collections.abc import Collection, Sequence

import pandas as pd

from latecomer.certify.words import count, listing
from latecomer.reports.display.naming import Model, Names, as_subject, model_of
from latecomer.reports.frames.comparison import CONFIDENCE
from latecomer.reports.frames.errors import records
from latecomer.reports.words import between

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

    Parameters
    ----------
    order : sequence of model
        From the smallest mean to the largest, at least two.
    worse : collection of model
        Those that the test finds worse than the first.
    names : mapping
        What models are called.
    ends : tuple of str
        The smallest and the largest mean.
    of : str
        What is counted, on whom.
    over : str
        How many clients, and seeds.

    Examples
    --------
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
    """Return the models that the test finds above the one of the smallest mean.

    Parameters
    ----------
    pairs : pandas.DataFrame
        ``label predictor other other_predictor difference p_holm``: each pair of models once.
    least : model
    """
    worse = []
    for row in records(pairs[pairs["p_holm"] <= 1 - CONFIDENCE]):
        one, other = model_of(row), (row["other"], row["other_predictor"])
        less, more = (one, other) if row["difference"] < 0 else (other, one)
        if less == least:
            worse.append(more)
    return worse
