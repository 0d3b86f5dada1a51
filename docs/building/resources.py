"""Find what a built site would fetch from elsewhere when somebody looks at it."""

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

ELSEWHERE = re.compile(r"^\s*(?:[a-z]+:)?//", flags=re.IGNORECASE)
IN_CSS = re.compile(r"""(?:url\(|@import)\s*["']?((?:[a-z]+:)?//[^"')\s]+)""", flags=re.IGNORECASE)
# Links that a reader may follow load nothing by themselves.
LOADING = {"src", "srcset", "data", "poster", "href"}
FOLLOWED = {"a", "area", "base"}
TOLD_ONLY = {"canonical", "prev", "next", "author", "license"}


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.addresses += [match[1] for match in IN_CSS.finditer(values.get("style", ""))]
        if tag in FOLLOWED or (tag == "link" and values.get("rel") in TOLD_ONLY):
            return
        for name in LOADING & values.keys():
            if any(ELSEWHERE.match(part) for part in values[name].split(",")):
                self.addresses.append(values[name])


def foreign_in_css(text: str) -> list[str]:
    """Return the external addresses that a style sheet loads.

    Examples
    --------
    >>> foreign_in_css('a { background: url("https://x.org/a.png") } b { src: url(b.woff) }')
    ['https://x.org/a.png']
    """
    return [match[1] for match in IN_CSS.finditer(text)]


def foreign_in_html(text: str) -> list[str]:
    """Return the external addresses that a page loads: scripts, styles, fonts, pictures, frames.

    Examples
    --------
    >>> foreign_in_html('<a href="https://x.org">x</a><script src="//x.org/a.js"></script>')
    ['//x.org/a.js']
    """
    tags = _Tags()
    tags.feed(text)
    styles = re.findall(r"<style\b[^>]*>(.*?)</style>", text, flags=re.DOTALL | re.IGNORECASE)
    return tags.addresses + [address for style in styles for address in foreign_in_css(style)]


def fetched_from_elsewhere(site: Path) -> Iterator[tuple[Path, str]]:
    """Yield file and address for everything the built pages and styles load from elsewhere."""
    for kind, search in (("*.html", foreign_in_html), ("*.css", foreign_in_css)):
        for file in sorted(site.rglob(kind)):
            for address in search(file.read_text("utf-8")):
                yield file, address
