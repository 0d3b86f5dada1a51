"""How well a federation serves clients that join after training.

The package trains personalised federated-learning methods, measures them on clients they never
saw, computes the theory's bounds on the very same models and renders one report.  Everything
heavy is imported on first use, so ``import latecomer`` costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from latecomer.eval.client_losses import certify_losses as certify
    from latecomer.eval.runner import run
    from latecomer.eval.study import load_study
    from latecomer.reports.html import report

if __name__ != "latecomer":
    raise ImportError("import latecomer, not the folder cli")

__version__ = "0.1.0"

__all__ = ["__version__", "certify", "load_study", "report", "run"]

_HOME = {
    "certify": ("latecomer.eval.client_losses", "certify_losses"),
    "load_study": ("latecomer.eval.study", "load_study"),
    "report": ("latecomer.reports.html", "report"),
    "run": ("latecomer.eval.runner", "run"),
}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        module, attribute = _HOME[name]
        return getattr(import_module(module), attribute)
    raise AttributeError(f"module 'latecomer' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
