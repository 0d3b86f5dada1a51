"""What the modules of a folder declare, so that a new file needs no line in a list elsewhere.

What loads a lot is declared by its place, ``module:name``, and imported when it is used.
"""

from collections.abc import Mapping
from importlib import import_module
from pkgutil import iter_modules
from types import MappingProxyType
from typing import Any


def declared(package: str, table: str) -> Mapping[str, Any]:
    """Collect by name the entries of the tuple ``table`` in each module of a package.

    Parameters
    ----------
    package : str
        Full name; its modules are imported in the order of their names.
    table : str
        Attribute of the modules; those without it declare nothing.

    Raises
    ------
    ValueError
        If two declare the same name.

    Examples
    --------
    >>> rules = declared("latecomer.certify.rules", "RULES")
    >>> rules["conformal"].words
    'conformal quantile'
    """
    collected: dict[str, Any] = {}
    for info in iter_modules(import_module(package).__path__):
        module = import_module(f"{package}.{info.name}")
        for one in getattr(module, table, ()):
            if one.name in collected:
                raise ValueError(f"{table}: {one.name!r} is declared twice, again by {info.name}")
            collected[one.name] = one
    return MappingProxyType(collected)


def imported(place: str) -> Any:
    """Import what a place names.

    Parameters
    ----------
    place : str
        ``module:name``.

    Examples
    --------
    >>> imported("math:tau") > 6
    True
    """
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)
