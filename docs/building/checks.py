"""A page for every check of a run, and one that lists them, from what the checks say themselves."""

from latecomer.reports.checks import CHECKS

FOLDER = "checks"


def check_pages() -> dict[str, str]:
    """Return the pages as Markdown by path below the docs folder, the list first.

    Examples
    --------
    >>> list(check_pages())[:2]
    ['checks/index.md', 'checks/LC001.md']
    """
    pages = {f"{FOLDER}/index.md": _INDEX}
    for code, check in CHECKS.items():
        pages[f"{FOLDER}/index.md"] += f"| [{code}]({code}.md) | {check.title} |\n"
        pages[f"{FOLDER}/{code}.md"] = (
            f"# {code}: {check.title}\n\n## Why it matters\n\n{check.why}\n\n## How to clear it\n\n"
            f"{check.clear}\n\n## When to ignore it\n\n{check.ignore} "
            f"Then say so in the study: `evaluation: {{ignore: [{code}]}}`.\n"
        )
    return pages


_INDEX = """# Checks

A run that ended well can still say less than it seems to. Its report opens with what these checks
found, each with its code, and the terminal ends with it. A code that a study lists under
`evaluation.ignore` is not spoken of; the page says that it was not checked.

The run directory has them as a table, `checks.csv`: `code`, `method` (the label that the page
gives the model; blank: the whole run), `seed` (the seeds it is about, with spaces between), `what`
(the title below), `value` (the number that the sentence is about, of errors a fraction) and
`sentence`.

| code | what it finds |
|---|---|
"""
