"""What the checks of a run say of themselves: a list of them, and a section each."""

from latecomer.reports.checks import CHECKS

__all__ = ["check_list"]


def check_list() -> str:
    """Return the checks as Markdown: a table of all, then why each matters and how to clear it.

    Examples
    --------
    >>> check_list().splitlines()[2]
    '| [LC001](#LC001) | Too few held-out clients |'
    """
    lines, sections = ["| code | what it finds |", "|---|---|"], []
    for code, check in CHECKS.items():
        lines.append(f"| [{code}](#{code}) | {check.title} |")
        sections.append(
            f'<a id="{code}"></a>\n\n## {code}: {check.title}\n\n'
            f"**Why it matters.** {check.why}\n\n**How to clear it.** {check.clear}\n\n"
            f"**When to ignore it.** {check.ignore} "
            f"Then say so in the study: `evaluation: {{ignore: [{code}]}}`."
        )
    return "\n\n".join(["\n".join(lines), *sections])
