"""What may be wrong with a run although it ended well: checks with codes."""

from importlib import import_module
from pkgutil import iter_modules

from latecomer.reports.checks.check import Check, Finding, Found, by_check, findings, findings_file

__all__ = ["CHECKS", "Check", "Finding", "Found", "by_check", "findings", "findings_file"]


def _found() -> dict[str, Check]:
    by_code: dict[str, Check] = {}
    for name in sorted(module.name for module in iter_modules(__path__)):
        for check in getattr(import_module(f"{__name__}.{name}"), "CHECKS", ()):
            if by_code.setdefault(check.code, check) is not check:
                raise ValueError(f"two checks have the code {check.code}")
    return dict(sorted(by_code.items()))


CHECKS: dict[str, Check] = _found()
"""Every check that a module of this folder declares."""
