"""Executors: where the cells of a study are carried out.

An executor takes jobs and reports what becomes of them; it decides nothing about what a cell is.
``EXECUTORS`` names them and ``make_executor`` makes the one that a command line asks for.
"""

from typing import TYPE_CHECKING

from latecomer.extras import front_door

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

_HOME, __getattr__, __dir__ = front_door(__name__, __file__)

__all__ = [*sorted(_HOME)]
