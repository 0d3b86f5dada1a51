"""Parts of a page that a program makes: tables, and what stands between two named comments."""

import re
from collections.abc import Iterable, Mapping, Sequence


def table(
    heads: Sequence[str], rows: Iterable[Iterable[str]], *, numbers: bool = False
) -> list[str]:
    """Return the lines of a table; ``numbers`` are in all columns but the first.

    >>> table(["site", "error"], [["a", ".1"]], numbers=True)
    ['| site | error |', '|---|--:|', '| a | .1 |']
    """
    rule = "|---" + ("|--:" if numbers else "|---") * (len(heads) - 1) + "|"
    lines = [f"| {' | '.join(cells)} |" for cells in (heads, *rows)]
    return [lines[0], rule, *lines[1:]]


def with_blocks(page: str, parts: Mapping[str, str]) -> str:
    r"""Return the page with each part between ``<!-- name -->`` and ``<!-- end of name -->``.

    >>> with_blocks("<!-- sum -->\n<!-- end of sum -->", {"sum": "3"})
    '<!-- sum -->\n\n3\n\n<!-- end of sum -->'
    """
    for name, text in parts.items():
        block = rf"(<!-- {name} -->\n).*?(<!-- end of {name} -->)"
        page = re.sub(
            block, lambda found, t=text: f"{found[1]}\n{t}\n\n{found[2]}", page, flags=re.S
        )
    return page
