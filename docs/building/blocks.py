"""Parts of a page that a program makes, between two comments that name them."""

import re
from collections.abc import Mapping

__all__ = ["with_blocks"]


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
