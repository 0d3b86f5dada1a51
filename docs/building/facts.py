"""What pages take from the code: facts of the catalogue of bounds, public names, studies."""

import re
from collections.abc import Iterator
from importlib import import_module
from inspect import getmodule
from types import ModuleType

from departures import deviation_table
from gallery import entry_list
from newcomers import newcomer_table
from published import published_table
from trained_bounds import bound_table

from latecomer.bounds import CATALOGUE
from latecomer.certify.every_kind import examples
from latecomer.eval.names import statement
from latecomer.eval.studies.shipped import shipped_studies

__all__ = ["expanded", "fact_table", "homes", "statement_list", "study_list"]

DIRECTIVE = re.compile(
    r"^\{\{ (deviations|facts|gallery|members|newcomers|published|studies|statements|trained)"
    r" ([\w. -]+) \}\}$",
    flags=re.MULTILINE,
)


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


def study_list(prefix: str) -> str:
    """List the shipped studies whose names begin with ``prefix``: items, question, variants, note.

    Examples
    --------
    >>> "Table 1a" in study_list("pefll")
    True
    """
    lines = []
    for study in shipped_studies():
        if not study.name.startswith(f"{prefix}-"):
            continue
        items = [": ".join(item.split(":")[1:]) for item in study.paper]
        variants = ", ".join(f"`{name}`" for name in study.variants)
        lines += [
            f"- **`{study.name}`** ({'; '.join(items)}). {study.question}",
            *([f"  Variants: {variants}."] if variants else []),
            *([f"  {study.note}"] if study.note else []),
        ]
    return "\n".join(line.rstrip() for line in lines)


def statement_list(kind: str) -> str:
    """List one certificate's statement of each kind whose name contains all words of ``kind``.

    Examples
    --------
    >>> "nothing about the last checkpoint" in statement_list("r4")
    True
    """
    words = kind.split()
    told = [
        (name, statement(one))
        for name, one in examples()
        if all(word in name.replace(",", " ").replace(":", " ").split() for word in words)
    ]
    return "\n".join(f"- **{name}.** {said}" for name, said in told)


def homes(package: str) -> Iterator[tuple[str, str]]:
    """Yield the public names of a package, each with the full path of its definition.

    Examples
    --------
    >>> dict(homes("latecomer.reports"))["report"]
    'latecomer.reports.page.page.report'
    """
    module: ModuleType = import_module(package)
    for name in module.__all__:
        if name == "__version__":
            continue
        if name == "CATALOGUE":
            yield name, "latecomer.bounds.certificate.CATALOGUE"
            continue
        home = module._HOME[name]
        full = home if home.startswith("latecomer.") else f"{package}.{home}"
        yield name, f"{full}.{name}"


def expanded(markdown: str) -> str:
    """Replace ``{{ facts ... }}`` and what else ``DIRECTIVE`` names by what the code says."""

    def made(directive: re.Match[str]) -> str:
        kind, names = directive[1], directive[2].split()
        if kind == "deviations":
            return deviation_table(names[0])
        if kind == "facts":
            return fact_table(names)
        if kind == "gallery":
            return entry_list()
        if kind == "newcomers":
            return newcomer_table(names[0])
        if kind == "published":
            return published_table(names[0])
        if kind == "trained":
            return bound_table(names[0])
        if kind == "studies":
            return study_list(names[0])
        if kind == "statements":
            return statement_list(directive[2])
        return "\n\n".join(f"::: {full}" for _, full in homes(names[0]))

    return DIRECTIVE.sub(made, markdown)
