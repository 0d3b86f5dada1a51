"""Methods written outside the package: found by import path, by file, or by entry point.

A callable that is no method is treated as a system trained elsewhere (`engine.given_system`).

Finding one imports its module, that is, runs its code.
"""

import hashlib
import importlib
import importlib.util
import inspect
import sys
from dataclasses import is_dataclass
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, get_args

if TYPE_CHECKING:
    from latecomer.models.engine.method import Method

GROUP = "latecomer.methods"
"""Entry point group of a package that offers methods; an entry's name is the method's name."""


@lru_cache(maxsize=1)
def offered() -> dict[str, tuple[EntryPoint, ...]]:
    """Return the entry points of installed packages by name; imports none of them."""
    by_name: dict[str, tuple[EntryPoint, ...]] = {}
    for entry in entry_points(group=GROUP):
        by_name[entry.name] = (*by_name.get(entry.name, ()), entry)
    return by_name


def is_path(name: str) -> bool:
    """Tell an import path from a registered name.

    >>> is_path("own.py:Mine"), is_path("package.module:Mine"), is_path("fedavg")
    (True, True, False)
    """
    return ":" in name


def beside(name: str, folder: Path) -> str:
    """Resolve a file's path against ``folder`` if the file is there; return other names unchanged.

    >>> beside("package.module:Mine", Path("/nowhere"))
    'package.module:Mine'
    """
    place, _, cls = name.rpartition(":")
    file = folder / Path(place).expanduser()
    return f"{file.resolve()}:{cls}" if place.endswith(".py") and file.is_file() else name


def import_method(name: str, taken: tuple[str, ...] = ()) -> "type[Method]":
    """Import a method by ``package.module:Class``, ``folder/file.py:Class`` or entry point name.

    Parameters
    ----------
    name : str
        A file is looked for from the working directory.
    taken : tuple of str
        Names that the found method may not have.

    Raises
    ------
    ValueError
        With one line: there is no such module, file, class or entry point; importing it failed;
        it is no complete method; its name is taken.
    """
    place = name
    if not is_path(name):
        entries = offered().get(name, ())
        if len(entries) != 1 or name in taken:
            where = ", ".join(entry.value for entry in entries) or "nowhere"
            raise ValueError(f"method {name!r} must be offered once under {GROUP}, found: {where}")
        place = entries[0].value
    module_name, _, cls = place.rpartition(":")
    if not module_name or not cls.isidentifier():
        raise ValueError(f"method must read module:Class or file.py:Class, got {name!r}")
    try:
        module = module_at(module_name)
    except ValueError:
        raise
    except Exception as error:
        said = " ".join(f"{type(error).__name__}: {error}".split())[:160]
        raise ValueError(f"importing {module_name} for method {cls} failed: {said}") from error
    method = _found(module, cls, f"{cls} of {module_name}")
    if method.name in taken:
        raise ValueError(
            f"{cls} of {module_name} needs a name of its own: {method.name!r} is built in"
        )
    if not is_path(name) and method.name != name:
        raise ValueError(f"entry point {name!r} must offer a method of that name, {method.name!r}")
    return method


def source_hash(method: "type[Method]") -> str:
    """Return the SHA-256 of the file that defines a method."""
    return hashlib.sha256(Path(inspect.getfile(method)).read_bytes()).hexdigest()


def check_said(name: str, cls: "type[Method]", said: Any) -> None:
    """Refuse a callable not declared as trained elsewhere, and a method declared as such.

    Raises
    ------
    ValueError
        With one line.
    """
    if said is not None and said is not False:
        raise ValueError(f"needs_training must be false or left out, got needs_training={said!r}")
    given = cls.personalization == "given"
    if given and said is None:
        raise ValueError(
            f"{name} is not a subclass of latecomer.models.Method; if it is a system trained "
            "elsewhere, say needs_training: false"
        )
    if said is False and not given:
        raise ValueError(
            f"needs_training: false is for systems trained elsewhere, and {name} is a method that "
            "trains"
        )


def module_at(place: str) -> ModuleType:
    """Import ``package.module`` or ``folder/file.py``; a file is imported once per content.

    Raises
    ------
    ValueError
        There is no such module or file.
    """
    if place.endswith(".py"):
        file = Path(place).expanduser()
        if not file.is_file():
            raise ValueError(f"there is no file {file}, looked for from {Path.cwd()}")
        return _from_file(file.resolve())
    try:
        return importlib.import_module(place)
    except ModuleNotFoundError as error:
        absent = error.name or place
        if place == absent or place.startswith(absent + "."):
            raise ValueError(f"there is no module {place}") from None
        raise


def _from_file(file: Path) -> ModuleType:
    """Import a file once, under a name made from its path and content."""
    mark = hashlib.sha256(str(file).encode() + b"\0" + file.read_bytes()).hexdigest()[:16]
    name = f"latecomer_outside_{file.stem}_{mark}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ValueError(f"{file} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up while they are made
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _found(module: ModuleType, name: str, called: str) -> "type[Method]":
    """Return a module's method, or the method made from a callable."""
    from latecomer.models.engine.given_system import given_system
    from latecomer.models.engine.method import Method

    held = getattr(module, name, None)
    if held is None:
        raise ValueError(f"there is no {called}")
    if isinstance(held, type) and issubclass(held, Method):
        return _checked(held, called)
    if not callable(held):
        raise ValueError(f"{called} is not a subclass of latecomer.models.Method")
    return given_system(name, held, module.__name__)


def _checked(method: "type[Method]", called: str) -> "type[Method]":
    from latecomer.models.engine.method import Personalization

    missing = sorted(method.__abstractmethods__)
    missing += [
        name
        for name in ("name", "paper", "personalization", "needs_labels")
        if not hasattr(method, name)
    ]
    if missing:
        raise ValueError(f"{called} must define {', '.join(missing)}")
    decorated = "__dataclass_params__" in vars(method) and is_dataclass(method)
    if not decorated or not vars(method)["__dataclass_params__"].frozen:
        raise ValueError(f"{called} must be decorated with @dataclass(frozen=True, kw_only=True)")
    if method.personalization not in get_args(Personalization):
        legal = ", ".join(get_args(Personalization))
        raise ValueError(
            f"{called}: personalization must be one of {legal}, got {method.personalization!r}"
        )
    return method
