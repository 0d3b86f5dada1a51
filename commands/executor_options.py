"""The options of ``latecomer run`` that say where cells are carried out."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from latecomer.errors import InputError
from latecomer.eval.runs.executor import Executor
from latecomer.eval.runs.executors import make_executor
from latecomer.eval.runs.local import LocalExecutor


@dataclass(frozen=True)
class Choice:
    """Where cells are carried out.

    Attributes
    ----------
    executor : Executor, optional
        None: processes on this machine.
    workers : int, optional
        Cores to use; all unless given.
    where : str
        The place in words; empty for this machine.
    """

    executor: Executor | None = None
    workers: int | None = None
    where: str = ""


def choose_executor(name: str, flags: Mapping[str, Any], options: Iterable[str]) -> Choice:
    """Make the executor that a command line asks for, and see that it can be reached.

    Parameters
    ----------
    name : str
        ``local``, ``slurm`` or ``ray``.
    flags : mapping
        Values of the dedicated options; None where not given.
    options : iterable of str
        All other settings, as ``key=value``.

    Raises
    ------
    InputError

    Examples
    --------
    >>> choose_executor("local", {"workers": 3, "address": None}, [])
    Choice(executor=None, workers=3, where='')
    """
    settings = {key: value for key, value in flags.items() if value is not None}
    for option in options:
        key, equals, value = option.partition("=")
        if not (key and equals and value):
            raise InputError(f"executor-option must be key=value, got {option!r}")
        if key in settings:
            raise InputError(f"{key} is given twice")
        settings[key] = value
    made = make_executor(name, settings)
    if isinstance(made, LocalExecutor):
        made.processes()  # refuses what has no room
        # The runner settles the number of processes, unless memory limits it.
        return Choice(executor=made) if made.memory_per_cell else Choice(workers=made.workers)
    made.check()
    return Choice(executor=made, where=made.where)
