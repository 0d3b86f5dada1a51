"""What programs write into pages, so that they can be read as they lie in the repository.

    python docs/building/pages.py                    # all pages; names of pages: only these

A block stands between ``<!-- facts seeger maurer -->`` and ``<!-- end of facts -->``: what makes it
and of what. A test holds that every block is what is made now.
"""

import re
import sys
from collections.abc import Callable, Mapping
from os.path import relpath
from pathlib import Path

from as_clients_grow import growth_table
from checks import check_list, check_page
from choices import (
    bound_tables,
    column_table,
    command_list,
    data_set_list,
    method_list,
    network_lists,
    rule_tables,
    shift_table,
)
from departures import deviation_table
from facts import fact_table, statement_list, study_list
from gallery import entry_list
from label_sets import set_tables
from newcomers import newcomer_table
from published import count_list, published_table
from python_names import front_door_table, homes, name_list
from settings import study_file
from shown_files import shown_file
from trained_bounds import bound_table
from tried_options import tried_table
from unlabelled import unlabelled_table

PAGES = Path(__file__).resolve().parents[1] / "pages"
CHOICES: Mapping[str, Callable[[], str]] = {
    "bounds": bound_tables,
    "checks": check_list,
    "columns": column_table,
    "commands": command_list,
    "data sets": data_set_list,
    "methods": method_list,
    "networks": network_lists,
    "published numbers": count_list,
    "rules": rule_tables,
    "shifts": shift_table,
    "study file": study_file,
}
MAKERS: Mapping[str, Callable[[str], str]] = {
    "all": lambda what: CHOICES[what](),
    "check": check_page,
    "deviations": deviation_table,
    "facts": lambda names: fact_table(names.split()),
    "file": shown_file,
    "front_door": lambda _: front_door_table(),
    "gallery": lambda _: entry_list(),
    "growth": growth_table,
    "members": lambda package: name_list(" ".join(full for _, full in homes(package))),
    "names": name_list,
    "newcomers": newcomer_table,
    "published": published_table,
    "sets": set_tables,
    "statements": statement_list,
    "studies": study_list,
    "trained": bound_table,
    "tried": tried_table,
    "unlabelled": unlabelled_table,
}
"""Makers of blocks; links in what they return begin with ``/``, the folder of the pages."""
BLOCK = re.compile(
    rf"^<!-- (?P<kind>{'|'.join(MAKERS)})(?P<what>(?: [^\n]*?)?) -->\n(?P<made>.*?)"
    r"^<!-- end of (?P=kind) -->$",
    flags=re.MULTILINE | re.DOTALL,
)


def rewritten(page: Path) -> str:
    """Return a page's text with every block made anew."""
    up = relpath(PAGES, page.parent)
    start = "" if up == "." else f"{up}/"

    def made(block: re.Match[str]) -> str:
        kind, what = block["kind"], block["what"].strip()
        text = re.sub(r"\]\(/(?=\w)", f"]({start}", MAKERS[kind](what))
        return f"<!-- {kind}{block['what']} -->\n\n{text}\n\n<!-- end of {kind} -->"

    return BLOCK.sub(made, page.read_text("utf-8"))


def in_full(markdown: str) -> str:
    """Return a page for the site, where each Python name has its whole docstring."""

    def directives(block: re.Match[str]) -> str:
        kind, what = block["kind"], block["what"].strip()
        if kind not in ("members", "names"):
            return block[0]
        names = what.split() if kind == "names" else [full for _, full in homes(what)]
        return "\n\n".join(f"::: {full}" for full in names)

    return BLOCK.sub(directives, markdown)


if __name__ == "__main__":
    for named in [Path(one) for one in sys.argv[1:]] or sorted(PAGES.rglob("*.md")):
        named.write_text(rewritten(named.resolve()), "utf-8")
