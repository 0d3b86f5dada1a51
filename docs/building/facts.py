"""What pages take from the code: facts of the catalogue of bounds, studies, statements."""

from inspect import getmodule

from blocks import table
from every_kind import examples
from python_names import place_of

from latecomer.bounds import CATALOGUE
from latecomer.eval.names import statement
from latecomer.eval.studies.shipped import shipped_studies


def fact_table(names: list[str]) -> str:
    """Return one Markdown table of what is known about each calculator."""
    rows = []
    for name in names:
        entry = CATALOGUE[name]
        tags = "; ".join(tag for tag in (entry.population, entry.predictor, entry.sampling) if tag)
        about = tags or "a quantity, no bound on a risk"
        if not entry.rigorous:
            about += f" (no certificate: {entry.reason})"
        home = getmodule(entry.function)
        link = f"[`{name}`]({place_of(f'{home.__name__}.{name}')})" if home else f"`{name}`"
        cells = (link, entry.source, about, entry.vacuous_when or "does not apply")
        rows.append([cell.replace("|", "\\|") for cell in cells])
    lines = table(("function", "source", "population; predictor; sampling", "vacuous when"), rows)
    assumed = [
        f"- `{name}`: " + "; ".join(CATALOGUE[name].assumptions)
        for name in names
        if CATALOGUE[name].assumptions
    ]
    if assumed:
        lines += ["", "Assumptions, function by function:", "", *assumed]
    return "\n".join(lines)


def study_list(prefix: str) -> str:
    """List the shipped studies whose names begin so: items, question, variants, note."""
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
    """List one certificate's statement of each kind whose name contains all words of ``kind``."""
    words = kind.split()
    told = [
        (name, statement(one))
        for name, one in examples()
        if all(word in name.replace(",", " ").replace(":", " ").split() for word in words)
    ]
    return "\n".join(f"- **{name}.** {said}" for name, said in told)
