"""How well a federation serves clients that join after training.

The package trains personalised federated-learning methods, measures them on clients they never
saw, computes the theory's bounds on the very same models and renders one report.  Everything
heavy is imported on first use, so ``import latecomer`` costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from latecomer import moved

if TYPE_CHECKING:
    from latecomer.eval.certificates.from_losses import certify_losses as certify
    from latecomer.eval.runs.runner import run
    from latecomer.eval.studies.loading import load_study
    from latecomer.reports.page.html import report

if __name__ != "latecomer":
    raise ImportError("import latecomer, not the folder cli")

moved.install()

__version__ = "0.1.0"

__all__ = ["__version__", "certify", "load_study", "report", "run"]

_HOME = {
    "certify": ("latecomer.eval.certificates.from_losses", "certify_losses"),
    "load_study": ("latecomer.eval.studies.loading", "load_study"),
    "report": ("latecomer.reports.page.html", "report"),
    "run": ("latecomer.eval.runs.runner", "run"),
}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        module, attribute = _HOME[name]
        return getattr(import_module(module), attribute)
    raise AttributeError(f"module 'latecomer' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
