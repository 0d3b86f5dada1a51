"""Where each data set comes from, as its reader says."""

from collections.abc import Mapping
from types import MappingProxyType

from latecomer.eval.datasets.reader import Archive, Source
from latecomer.eval.datasets.registry import DATASETS

__all__ = ["SOURCES", "Archive", "Source"]

SOURCES: Mapping[str, Source] = MappingProxyType(
    {name: one.source for name, one in DATASETS.items() if one.source is not None}
)
