"""Measures and published bounds by name, as their files declare them."""

from collections.abc import Mapping

from latecomer.certify.rules.declaration import is_own
from latecomer.declared import declared, without_folder
from latecomer.eval.measures.kinds.declaration import Measure, OwnPlace, Published

MEASURES: Mapping[str, Measure] = declared("latecomer.eval.measures.kinds", "MEASURES")
PUBLISHED: Mapping[str, Published] = declared("latecomer.eval.measures.kinds", "PUBLISHED")


def bound_called(name: str, *, trusted: bool = False) -> Published:
    """Return a published bound by its name (KeyError if there is none), or one's own by its place.

    Examples
    --------
    >>> bound_called("pefll_32").words, bound_called("folder/mine.py:b").words
    ('PeFLL, Theorem 3.2', 'bound mine.py:b')
    """
    if not is_own(name):
        return PUBLISHED[name]
    return OwnPlace(
        name=name,
        words=f"bound {without_folder(name)}",
        work="latecomer.eval.measures.published_bounds:own_values",
        trusted=trusted,
    )
