"""The options of ``latecomer run`` that say where cells are carried out."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from latecomer.eval.errors import InputError
from latecomer.eval.executors import Executor, LocalExecutor, make_executor


@dataclass(frozen=True)
class Choice:
    """Where cells are carried out.

    Attributes
    ----------
    executor : Executor, optional
        None: processes on this machine.
    workers : int, optional
        How many of those; one a core unless given.
    where : str
        In words; empty for this machine.
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
        Options with a name of their own; None where not given.
    options : iterable of str
        The others, as ``key=value``.

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
        # Their number is the runner's to settle, unless memory has a say in it.
        return Choice(workers=made.processes() if made.memory_per_cell else made.workers)
    made.check()
    return Choice(executor=made, where=made.where)
