"""All checks by code, collected from the modules of this folder."""

from importlib import import_module
from pkgutil import iter_modules

from latecomer.reports.checks.check import Check


def _found() -> dict[str, Check]:
    package = import_module("latecomer.reports.checks")
    by_code: dict[str, Check] = {}
    for name in sorted(module.name for module in iter_modules(package.__path__)):
        if name == "registry":
            continue
        for check in getattr(import_module(f"{package.__name__}.{name}"), "CHECKS", ()):
            if by_code.setdefault(check.code, check) is not check:
                raise ValueError(f"two checks have the code {check.code}")
    return dict(sorted(by_code.items()))


CHECKS: dict[str, Check] = _found()
"""Every check that a module of this folder declares."""
