"""Measures and published bounds by name, as their files declare them."""

from collections.abc import Mapping

from latecomer.declared import declared
from latecomer.eval.measures.kinds.declaration import Measure, Published

MEASURES: Mapping[str, Measure] = declared("latecomer.eval.measures.kinds", "MEASURES")
PUBLISHED: Mapping[str, Published] = declared("latecomer.eval.measures.kinds", "PUBLISHED")
