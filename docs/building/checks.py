"""What the checks of a run say of themselves: a list of them, and a page each."""

from blocks import table

from latecomer.reports.checks import CHECKS


def check_list() -> str:
    """Return all checks as a table, each with a link to its page."""
    rows = ((f"[{code}](/checks/{code}.md)", one.title) for code, one in CHECKS.items())
    return "\n".join(table(("code", "what it finds"), rows))


def check_page(code: str) -> str:
    """Return what a check finds, why it matters, how to clear it and when to ignore it."""
    check = CHECKS[code]
    return (
        f"# {code}: {check.title}\n\n## Why it matters\n\n{check.why}\n\n## How to clear it\n\n"
        f"{check.clear}\n\n## When to ignore it\n\n{check.ignore} "
        f"Then say so in the study: `evaluation: {{ignore: [{code}]}}`."
    )
