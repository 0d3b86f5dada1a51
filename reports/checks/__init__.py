"""What may be wrong with a run although it ended well: checks with codes."""

from latecomer.reports.checks.check import Check, Finding, Found, by_check, findings, findings_file
from latecomer.reports.checks.registry import CHECKS

__all__ = ["CHECKS", "Check", "Finding", "Found", "by_check", "findings", "findings_file"]
