"""What pages take from the code: facts of the catalogue of bounds, and lists of public names."""

import re
from collections.abc import Iterator
from importlib import import_module
from inspect import getmodule
from types import ModuleType

from latecomer.bounds import CATALOGUE

__all__ = ["expanded", "fact_table", "homes"]

DIRECTIVE = re.compile(r"^\{\{ (facts|members) ([\w. ]+) \}\}$", flags=re.MULTILINE)


def fact_table(names: list[str]) -> str:
    """Return one Markdown table of what is known about each calculator.

    Examples
    --------
    >>> "unseen-client" in fact_table(["product"])
    True
    """
    lines = [
        "| function | source | population; predictor; sampling | vacuous when |",
        "|---|---|---|---|",
    ]
    for name in names:
        entry = CATALOGUE[name]
        tags = "; ".join(tag for tag in (entry.population, entry.predictor, entry.sampling) if tag)
        about = tags or "a quantity, no bound on a risk"
        if not entry.rigorous:
            about += f" (no certificate: {entry.reason})"
        home = getmodule(entry.function)
        link = f"[`{name}`][{home.__name__}.{name}]" if home else f"`{name}`"
        cells = (link, entry.source, about, entry.vacuous_when or "does not apply")
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    assumed = [
        f"- `{name}`: " + "; ".join(CATALOGUE[name].assumptions)
        for name in names
        if CATALOGUE[name].assumptions
    ]
    if assumed:
        lines += ["", "Assumptions, function by function:", "", *assumed]
    return "\n".join(lines)


def homes(package: str) -> Iterator[tuple[str, str]]:
    """Yield the public names of a package, each with the full path of where it is written.

    Examples
    --------
    >>> dict(homes("latecomer.reports"))["report"]
    'latecomer.reports.html.report'
    """
    module: ModuleType = import_module(package)
    for name in module.__all__:
        if name == "__version__":
            continue
        if name == "CATALOGUE":
            yield name, "latecomer.bounds.certificate.CATALOGUE"
            continue
        full = module._HOME[name]
        if isinstance(full, tuple):
            yield name, ".".join(full)
        else:
            yield name, f"{package}.{full}.{name}"


def expanded(markdown: str) -> str:
    """Replace ``{{ facts NAME ... }}`` and ``{{ members PACKAGE }}`` by what the code says."""

    def made(found: re.Match[str]) -> str:
        kind, names = found[1], found[2].split()
        if kind == "facts":
            return fact_table(names)
        return "\n\n".join(f"::: {full}" for _, full in homes(names[0]))

    return DIRECTIVE.sub(made, markdown)
