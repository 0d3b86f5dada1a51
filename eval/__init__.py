"""Evaluation: data sets, splits, shifts, the novel-client protocol, certificates, studies, runs.

Every public name is imported on first use; the package itself loads no torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if __name__ != "latecomer.eval":
    raise ImportError("import latecomer.eval, not the folder eval")

if TYPE_CHECKING:
    from latecomer.eval.any_model import certify as certify
    from latecomer.eval.checkpoints import CheckpointEvery as CheckpointEvery
    from latecomer.eval.client_losses import certify_losses as certify_losses
    from latecomer.eval.errors import CannotWriteError as CannotWriteError
    from latecomer.eval.errors import InputError as InputError
    from latecomer.eval.rows import Artifact as Artifact
    from latecomer.eval.rows import RunRecord as RunRecord
    from latecomer.eval.rows import load_run as load_run
    from latecomer.eval.rows import read_rows as read_rows
    from latecomer.eval.runner import Event as Event
    from latecomer.eval.runner import RunResult as RunResult
    from latecomer.eval.runner import run as run
    from latecomer.eval.splits import make_split as make_split
    from latecomer.eval.status import RunStatus as RunStatus
    from latecomer.eval.status import run_status as run_status
    from latecomer.eval.study import Study as Study
    from latecomer.eval.study import load_study as load_study
    from latecomer.eval.study import shipped_studies as shipped_studies

_HOME = {
    "Artifact": "rows",
    "CannotWriteError": "errors",
    "CheckpointEvery": "checkpoints",
    "Event": "runner",
    "InputError": "errors",
    "RunRecord": "rows",
    "RunResult": "runner",
    "RunStatus": "status",
    "Study": "study",
    "certify": "any_model",
    "certify_losses": "client_losses",
    "load_run": "rows",
    "load_study": "study",
    "make_split": "splits",
    "read_rows": "rows",
    "run": "runner",
    "run_status": "status",
    "shipped_studies": "study",
}

__all__ = [*sorted(_HOME)]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"latecomer.eval.{_HOME[name]}"), name)
    raise AttributeError(f"module 'latecomer.eval' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
