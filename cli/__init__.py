"""How well a federation serves clients that join after training.

The package trains personalised federated-learning methods, measures them on clients they never
saw, computes the theory's bounds on the very same models and renders one report.  Everything
heavy is imported on first use, so ``import latecomer`` costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from latecomer import moved

if TYPE_CHECKING:
    from latecomer.eval.certificates.from_losses import certify_losses
    from latecomer.eval.certificates.from_predictor import certify_predictor
    from latecomer.eval.runs.runner import run
    from latecomer.eval.studies.loading import load_study
    from latecomer.reports.page.html import report

if __name__ != "latecomer":
    raise ImportError("import latecomer, not the folder cli")

moved.install()

__version__ = "0.1.0"

__all__ = ["__version__", "certify_losses", "certify_predictor", "load_study", "report", "run"]

_HOME = {
    "certify_losses": "eval.certificates.from_losses",
    "certify_predictor": "eval.certificates.from_predictor",
    "load_study": "eval.studies.loading",
    "report": "reports.page.html",
    "run": "eval.runs.runner",
}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"latecomer.{_HOME[name]}"), name)
    return moved.old_name("latecomer", name)


def __dir__() -> list[str]:
    return sorted(__all__)
