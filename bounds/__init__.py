"""Bounds as pure calculators: numpy and scipy only, float64, one theorem a function.

``CATALOGUE`` maps the name of each calculator to its facts (claim, source, population,
assumptions); every public name of the package is imported on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if __name__ != "latecomer.bounds":
    raise ImportError("import latecomer.bounds, not the folder bounds")

if TYPE_CHECKING:
    from latecomer.bounds.certificate import Certificate as Certificate
    from latecomer.bounds.certificate import Entry as Entry

_HOME: dict[str, str] = {
    "Certificate": "certificate",
    "Entry": "certificate",
}
_CALCULATORS = (
    "binary_kl",
    "holdout",
)

__all__ = ["CATALOGUE", *sorted(_HOME)]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name == "CATALOGUE":
        for module in _CALCULATORS:
            import_module(f"latecomer.bounds.{module}")
        return import_module("latecomer.bounds.certificate").CATALOGUE
    if name in _HOME:
        return getattr(import_module(f"latecomer.bounds.{_HOME[name]}"), name)
    raise AttributeError(f"module 'latecomer.bounds' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
