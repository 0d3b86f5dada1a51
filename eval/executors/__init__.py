"""Executors: where the cells of a study are carried out.

An executor takes jobs and reports what becomes of them; it decides nothing about what a cell is.
``EXECUTORS`` names them and ``make_executor`` makes the one that a command line asks for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if __name__ != "latecomer.eval.executors":
    raise ImportError("import latecomer.eval.executors, not the folder executors")

if TYPE_CHECKING:
    from latecomer.eval.executors.contract import Executor as Executor
    from latecomer.eval.executors.contract import Report as Report
    from latecomer.eval.executors.local import LocalExecutor as LocalExecutor
    from latecomer.eval.executors.ray import RayExecutor as RayExecutor
    from latecomer.eval.executors.registry import EXECUTORS as EXECUTORS
    from latecomer.eval.executors.registry import make_executor as make_executor
    from latecomer.eval.executors.slurm import SlurmExecutor as SlurmExecutor

_HOME: dict[str, str] = {
    "EXECUTORS": "registry",
    "Executor": "contract",
    "LocalExecutor": "local",
    "RayExecutor": "ray",
    "Report": "contract",
    "SlurmExecutor": "slurm",
    "make_executor": "registry",
}

__all__ = [*sorted(_HOME)]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"latecomer.eval.executors.{_HOME[name]}"), name)
    raise AttributeError(f"module 'latecomer.eval.executors' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
