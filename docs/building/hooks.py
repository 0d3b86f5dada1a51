"""What MkDocs calls while it builds the site; a warning given here fails a strict build."""

import logging
from pathlib import Path
from typing import Any

from gallery import GALLERY, REFERENCE, gallery_pages
from mathematics import Mathematics
from mkdocs.structure.files import File
from pages import in_full
from pygments.formatters import HtmlFormatter
from resources import fetched_from_elsewhere

MOST = 60e6  # bytes
log = logging.getLogger("mkdocs.latecomer")


def on_config(config: Any) -> Any:
    """Add the formulas to every page and docstring."""
    config.markdown_extensions.append(Mathematics())
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the colours of code, light and dark, and the reports of the gallery."""
    light = HtmlFormatter(style="default").get_style_defs(".highlight")
    dark = HtmlFormatter(style="github-dark").get_style_defs("[data-bs-theme=dark] .highlight")
    files.append(File.generated(config, "code.css", content=f"{light}\n{dark}\n"))
    for path in REFERENCE.glob("*/figures/*.svg"):
        name = path.relative_to(REFERENCE).as_posix()
        files.append(File.generated(config, f"kept/{name}", content=path.read_text("utf-8")))
    for name, page in gallery_pages():
        files.append(File.generated(config, f"gallery/{name}.html", content=page))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Give Python names their whole docstrings; kept reports and figures are in the site."""
    for name in GALLERY:
        markdown = markdown.replace(f"(../../reports/reference/{name})", f"(gallery/{name}.html)")
    return in_full(markdown.replace("../../reports/reference/", "kept/"))


def on_post_build(config: Any) -> None:
    """Warn of a site that is too large, and of everything that it would load from elsewhere."""
    size = sum(file.stat().st_size for file in Path(config.site_dir).rglob("*") if file.is_file())
    if size >= MOST:
        log.warning("the site has %.1f MB, and should have less than %.0f", size / 1e6, MOST / 1e6)
    for file, address in fetched_from_elsewhere(Path(config.site_dir)):
        log.warning("%s loads %s", file.relative_to(config.site_dir), address)
