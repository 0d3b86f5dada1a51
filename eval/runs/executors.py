"""The executors by name, and the one that a command line asks for."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from importlib.util import find_spec
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

from latecomer.declared import imported
from latecomer.errors import InputError, nearest
from latecomer.eval.runs.executor import Executor
from latecomer.eval.runs.local import LocalExecutor

if TYPE_CHECKING:
    from latecomer.eval.runs.ray import RayExecutor
    from latecomer.eval.runs.slurm import SlurmExecutor


EXECUTORS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "local": ("latecomer.eval.runs.local:LocalExecutor", ""),
        "slurm": ("latecomer.eval.runs.slurm:SlurmExecutor", "submitit"),
        "ray": ("latecomer.eval.runs.ray:RayExecutor", "ray"),
    }
)
"""By name the dataclass of an executor's settings, and the package that it requires, if any.

The extra that installs it has the executor's name.
"""


def make_executor(
    name: str, settings: Mapping[str, Any]
) -> "LocalExecutor | SlurmExecutor | RayExecutor":
    """Make an executor; its settings are its class's attributes, numbers may be given as text.

    Examples
    --------
    >>> make_executor("local", {"workers": "2"})
    LocalExecutor(workers=2, memory_per_cell=None)
    >>> make_executor("local", {"address": "auto"})
    Traceback (most recent call last):
    latecomer.errors.InputError: the executor 'local' takes no address; it takes workers, \
memory-per-cell
    """
    if name not in EXECUTORS:
        legal = ", ".join(EXECUTORS)
        raise InputError(f"executor must be one of {legal}, got {name!r}{nearest(name, EXECUTORS)}")
    home, needs = EXECUTORS[name]
    kind = imported(home)
    hints = get_type_hints(kind)
    # The runner sets the fields that are left out of repr.
    own = [field.name for field in fields(kind) if field.repr]
    takes = {name.replace("_", "-"): hints[name] for name in own}
    values = {}
    for key, value in settings.items():
        word = key.replace("_", "-")
        if word not in takes:
            raise InputError(
                f"the executor {name!r} takes no {word}{nearest(word, takes)};"
                f" it takes {', '.join(takes)}"
            )
        values[word.replace("-", "_")] = _read(word, value, takes[word])
    made: LocalExecutor | SlurmExecutor | RayExecutor = kind(**values)
    if needs and find_spec(needs) is None:
        raise InputError(
            f"the executor {name!r} needs {needs}, which is not installed:"
            f' pip install "latecomer[{name}]"'
        )
    return made


def _read(word: str, value: Any, hint: Any) -> Any:
    """Read a number, which may be given as text."""
    legal = {hint, *get_args(hint)}
    if str in legal:
        return value
    noun, kind = ("a whole number", int) if int in legal else ("a number", float)
    try:
        number = kind(value)
    except (ValueError, OverflowError):
        raise InputError(f"{word} must be {noun}, got {value!r}") from None
    if not isinstance(value, str) and number != value:
        raise InputError(f"{word} must be {noun}, got {value!r}")
    return number


@dataclass(frozen=True)
class Choice:
    """Where cells are carried out."""

    executor: Executor | None = None  # None: processes on this machine
    workers: int | None = None  # cores to use; all unless given
    where: str = ""  # the place in words; empty for this machine


def choose_executor(name: str, flags: Mapping[str, Any], options: Iterable[str]) -> Choice:
    """Make the executor that a command line asks for, and see that it can be reached.

    ``flags`` are the dedicated options, None where not given; ``options`` all other settings, as
    ``key=value``.

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
