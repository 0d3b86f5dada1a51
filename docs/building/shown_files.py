"""Programs and what they print, as pages show them."""

import re
from pathlib import Path
from textwrap import dedent

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
KINDS = {".py": "python", ".txt": "text", ".yaml": "yaml"}


def shown_file(name: str) -> str:
    """Return a file of ``docs/examples`` as a block of code, or the part behind a colon of it.

    A part lies between the lines ``# shown as PART:`` and ``# end of PART``.
    """
    file, _, part = name.partition(":")
    path = EXAMPLES / file
    text, kind = path.read_text("utf-8"), KINDS[path.suffix]
    if part:
        marked = rf"^ *# shown as {part}:\n(.*?)^ *# end of {part}$"
        (text,) = re.findall(marked, text, flags=re.MULTILINE | re.DOTALL)
    elif kind == "python":
        kind += f' title="docs/examples/{file}"'
    return f"```{kind}\n{dedent(text).strip()}\n```"
