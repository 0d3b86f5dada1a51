"""Executors: where the cells of a study are carried out.

An executor takes jobs and reports what becomes of them; it decides nothing about what a cell is.
``EXECUTORS`` names them and ``make_executor`` makes the one that a command line asks for.
"""

from typing import TYPE_CHECKING, Any

from latecomer.extras import first_use, homes

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

_HOME = homes(__name__, __file__)

__all__ = [*sorted(_HOME)]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return first_use(f"latecomer.eval.executors.{_HOME[name]}", name)
    raise AttributeError(f"module 'latecomer.eval.executors' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
