"""The frame of every page: what it shows goes into the template, styles and scripts included."""

from collections.abc import Mapping
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined


def rendered(content: Mapping[str, Any]) -> str:
    """Put what a page shows into the template: title, question, chapters with their blocks."""
    environment = Environment(
        loader=PackageLoader("latecomer.certify.page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("report.html").render(content)
