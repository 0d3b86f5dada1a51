"""Where modules and names went: every old import path works, and warns with the new one.

Its finder comes before all others, so that no file left over from an older version is imported.
Where a folder now has the name of an old module, the folder's ``__init__`` uses ``old_names``; so
does a module that stayed while some of its names moved.  For a name that was renamed in place, a
module calls ``old_name``.  The table is ``moved.txt`` beside this file.
"""

import os
import sys
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any

# Renamed names; the next version drops the old ones.
RENAMED: dict[str, str] = {
    "latecomer.certify": "latecomer.certify_losses",
    "latecomer.eval.certificates.from_predictor.certify": "latecomer.certify_predictor",
    "latecomer.eval.certify": "latecomer.certify_predictor",
}

# This path may be a link, which is followed: the table lies beside the file itself.
with open(os.path.join(os.path.dirname(os.path.realpath(__file__)), "moved.txt"), "rb") as _table:
    # Old module: the new ones that hold its names, separated by spaces, all below `latecomer`.
    MOVED: dict[str, str] = dict(
        line.split(": ") for line in _table.read().decode().splitlines() if line[0] != "#"
    )
# Old names that a folder or a module still has: these are imported as usual.
_STANDING = {
    name
    for places in MOVED.values()
    for place in places.split()
    for name in (place, place.rpartition(".")[0])
}


def _told(name: str, stacklevel: int) -> None:
    places = " and ".join(f"latecomer.{place}" for place in _places(name))
    warnings.warn(f"{name} has moved to {places}", DeprecationWarning, stacklevel=stacklevel + 1)


def _places(name: str) -> list[str]:
    old = name.removeprefix("latecomer.")
    return [place for place in MOVED[old].split() if place != old]


def _forwarding(module: str) -> Callable[[str], Any]:
    """Return a module's ``__getattr__`` that looks a name up in its new module."""

    def look_up(name: str) -> Any:
        if not name.startswith("__"):
            for place in _places(module):
                new = import_module(f"latecomer.{place}")
                if hasattr(new, name):
                    return getattr(new, name)
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    return look_up


def old_names(package: str) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a folder that has the name of an old module.

    It forwards the old module's names to their new modules, and warns.

    Examples
    --------
    >>> import warnings
    >>> with warnings.catch_warnings(record=True, action="always") as told:
    ...     from latecomer.eval.splits import make_split
    >>> str(told[0].message)
    'latecomer.eval.splits has moved to latecomer.eval.splits.build'
    >>> make_split.__module__
    'latecomer.eval.splits.build'
    """
    look_up = _forwarding(package)

    def forwarded(name: str) -> Any:
        # `from package import module` asks here first: submodules are left to the import system.
        is_folder = "__path__" in vars(sys.modules[package])
        if is_folder and not name.startswith("__") and find_spec(f"{package}.{name}"):
            raise AttributeError(f"module {package!r} has not loaded {name!r}")
        value = look_up(name)
        _told(package, stacklevel=2)
        return value

    return forwarded


def old_name(module: str, name: str) -> Any:
    """Return the object that an old name of a module stands for, and warn with the new name.

    Raises
    ------
    AttributeError
        When the module never had the name.

    Examples
    --------
    >>> import warnings
    >>> with warnings.catch_warnings(record=True, action="always") as told:
    ...     from latecomer import certify
    >>> str(told[0].message)
    'latecomer.certify is now latecomer.certify_losses'
    """
    old = f"{module}.{name}"
    if old not in RENAMED:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    new = RENAMED[old]
    warnings.warn(f"{old} is now {new}", DeprecationWarning, stacklevel=3)
    home, _, attribute = new.rpartition(".")
    return getattr(import_module(home), attribute)


class _Forwarder:  # not an importlib.abc.Loader: importing that takes as long as all the rest
    def create_module(self, spec: ModuleSpec) -> None:
        """Let the import system create the module."""

    def exec_module(self, module: ModuleType) -> None:
        if module.__dict__.get("__path__") is not None:
            # Modules inside the folder warn themselves; importing them passes through here.
            module.__dict__["__getattr__"] = old_names(module.__name__)
            return
        _told(module.__name__, stacklevel=2)
        module.__doc__ = f"Moved to {' and '.join(_places(module.__name__))}."
        module.__dict__["__getattr__"] = _forwarding(module.__name__)


class _Finder:
    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        old = name.removeprefix("latecomer.")
        if old != name and old in MOVED and old not in _STANDING:
            loader: Any = _Forwarder()
            folder = any(other.startswith(f"{old}.") for other in MOVED)
            return ModuleSpec(name, loader, origin="moved", is_package=folder)
        return None


def install() -> None:
    """Make the old import paths known, once."""
    if not any(type(finder).__name__ == _Finder.__name__ for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
