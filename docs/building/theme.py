"""What MkDocs' theme lacks: a search that works from a disk, and colours without highlight.js."""

from pathlib import Path
from typing import Any

_STYLES = '<style id="hljs-light"></style><style id="hljs-dark"></style>'


def on_post_page(output: str, **_: Any) -> str:
    """Add the two style sheets that the switch of light and dark sets, or else fails at."""
    return output.replace("</head>", f"{_STYLES}</head>", 1)


def on_post_build(config: Any) -> None:
    """Write the search's index as a script too, which is what a page from a disk can load."""
    folder = Path(config.site_dir) / "search"
    index = (folder / "search_index.json").read_text("utf-8")
    (folder / "search_index.js").write_text(f"var searchIndex = {index};\n", "utf-8")
