"""How well a federation serves clients that join after training.

The package trains personalised federated-learning methods, measures them on clients they never
saw, computes the theory's bounds on the very same models and renders one report.  Everything
heavy is imported on first use, so ``import latecomer`` costs nothing.
"""

from typing import TYPE_CHECKING

from latecomer.extras import front_door

if TYPE_CHECKING:
    from latecomer.certify.losses import certify_losses as certify_losses
    from latecomer.certify.losses import losses as losses
    from latecomer.certify.planned import plan_hold_out
    from latecomer.certify.predicted import certify_predictor
    from latecomer.certify.watched import watch_losses
    from latecomer.eval.datasets.from_objects import clients_from
    from latecomer.eval.runs.runner import run
    from latecomer.eval.studies.loading import load_study
    from latecomer.reports.page.page import report

if __name__ != "latecomer":
    raise ImportError("import latecomer, not the folder cli")

__version__ = "0.1.0"

__all__ = [
    "__version__",
    "certify_losses",
    "certify_predictor",
    "clients_from",
    "load_study",
    "losses",
    "plan_hold_out",
    "report",
    "run",
    "watch_losses",
]

_HOME, __getattr__, _ = front_door(__name__, __file__)


def __dir__() -> list[str]:
    return sorted(__all__)
