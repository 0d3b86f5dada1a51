"""What may be wrong with a run although it ended well: checks with codes."""

from latecomer.reports.checks.check import Check, Finding, findings
from latecomer.reports.checks.registry import CHECKS

__all__ = ["CHECKS", "Check", "Finding", "findings"]
