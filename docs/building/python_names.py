"""Public Python names: how each is called, and the first paragraph of its docstring."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

PAGES = ("bounds", "certify", "models", "eval", "reports")
ROLE = re.compile(r":(?:func|class|data|meth|mod|attr):`~?([^`]+)`")


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


def place_of(full: str) -> str:
    """Return where the site and the repository have a name's entry, from the folder of pages.

    Examples
    --------
    >>> place_of("latecomer.reports.page.page.report")
    '/api/reports.md#latecomer.reports.page.page.report'
    """
    return f"/api/{full.split('.')[1]}.md#{full}"


@cache
def _definitions(module: str) -> dict[str, tuple[ast.stmt, str]]:
    """Map each top-level name of a module to its statement and its docstring."""
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        raise ValueError(f"there is no module {module}")
    body = ast.parse(Path(spec.origin).read_text("utf-8")).body
    found: dict[str, tuple[ast.stmt, str]] = {}
    for statement, following in zip(body, [*body[1:], ast.Pass()], strict=True):
        if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
            found[statement.name] = (statement, ast.get_docstring(statement) or "")
        elif isinstance(statement, (ast.Assign, ast.AnnAssign)):
            said = following.value if isinstance(following, ast.Expr) else None
            text = said.value if isinstance(said, ast.Constant) else ""
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            found |= {
                one.id: (statement, str(text)) for one in targets if isinstance(one, ast.Name)
            }
        elif isinstance(statement, ast.ImportFrom) and (statement.module or "").startswith("late"):
            imported = ((one.name, one.asname or one.name) for one in statement.names)
            found |= {said: (statement, f"{statement.module}.{name}") for name, said in imported}
    return found


def _defined(full: str) -> tuple[ast.stmt, str]:
    """Return a name's statement and docstring, through modules that only import it."""
    module, _, name = full.rpartition(".")
    statement, text = _definitions(module)[name]
    return _defined(text) if isinstance(statement, ast.ImportFrom) else (statement, text)


def plain(text: str) -> str:
    r"""Return a docstring's paragraph as one line of Markdown.

    Examples
    --------
    >>> plain("Solve :math:`x = 1`\nwith :func:`~numpy.roots` of ``x``.")
    'Solve $x = 1$ with `numpy.roots` of `x`.'
    """
    text = re.sub(r":math:`([^`]+)`", r"$\1$", " ".join(text.split()))
    return ROLE.sub(r"`\1`", text).replace("``", "`")


def docstring_of(full: str) -> str:
    """Return a name's docstring; of a constant, the text below it."""
    return _defined(full)[1]


def claim_of(full: str) -> str:
    """Return the first paragraph of what a name's docstring says."""
    return plain(docstring_of(full).partition("\n\n")[0])


def _signature(full: str) -> str:
    """Return how a name is called: as its source has it, on one line."""
    name, (statement, _) = full.rpartition(".")[2], _defined(full)
    if isinstance(statement, ast.FunctionDef):
        returned = f" -> {ast.unparse(statement.returns)}" if statement.returns else ""
        return f"{name}({ast.unparse(statement.args)}){returned}"
    return f"class {name}" if isinstance(statement, ast.ClassDef) else name


def name_list(names: str) -> str:
    """Return an entry for each of the names, or for all public ones of a package.

    Examples
    --------
    >>> print(name_list("latecomer.eval.schema.sequence"))
    <a id="latecomer.eval.schema.sequence"></a>
    <BLANKLINE>
    ### sequence
    <BLANKLINE>
    `sequence(value: Any) -> Any`
    <BLANKLINE>
    Accept a list without repeated entries.
    """
    entries = []
    for full in names.split():
        called = full.rpartition(".")[2]
        parts = (f'<a id="{full}"></a>', f"### {called}", f"`{_signature(full)}`", claim_of(full))
        entries.append("\n\n".join(parts))
    return "\n\n".join(entries)


def front_door_table() -> str:
    """Return the functions of the package itself: how each is called, and what it does."""
    entries = []
    for name, full in homes("latecomer"):
        link = f"### [latecomer.{name}]({place_of(full)})"
        entries.append(f"{link}\n\n`latecomer.{_signature(full)}`\n\n{claim_of(full)}")
    return "\n\n".join(entries)
