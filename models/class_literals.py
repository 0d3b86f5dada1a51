"""What a method's file says, read and not run: who names methods need not load torch for it."""

import ast
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from latecomer.declared import Documented, documented

_HERE = Path(__file__).parent
_MODELS = "latecomer.models."
_OF_NEWCOMERS = ("finetune_steps", "novel_rounds", "novel_steps")


@cache
def serving(file: Path) -> dict[str, int]:
    """Read the defaults of new clients' steps in the classes of a method's file and in theirs."""
    found: dict[str, int] = {}
    for cls in _tree(file).body:
        for _, one in _lineage(file, cls) if isinstance(cls, ast.ClassDef) else ():
            for line in one.body:
                match line:
                    case ast.AnnAssign(
                        target=ast.Name(id=place),
                        value=ast.Call(args=[ast.Constant(value=int() as many)]),
                    ) if place in _OF_NEWCOMERS:
                        found.setdefault(place, many)
    return found


def literals(file: Path, name: str) -> dict[str, Any]:
    """Read the literals in the class body of the method ``name``, as its file has them."""
    return _literals_of(_class_of(file, name))


def _literals_of(cls: ast.ClassDef) -> dict[str, Any]:
    said: dict[str, Any] = {}
    for line in cls.body:
        match line:
            case (
                ast.Assign(targets=[ast.Name(id=place)], value=value)
                | ast.AnnAssign(target=ast.Name(id=place), value=ast.expr() as value)
            ):
                with suppress(ValueError):  # an expression, which a report has no use for
                    said[place] = ast.literal_eval(value)
    return said


@dataclass(frozen=True)
class Declared:
    """A hyper-parameter as a class body declares it, and what its docstring says of it."""

    name: str
    default: Any
    legal: str
    meaning: str


def said_of(file: Path, name: str) -> str:
    """Return the docstring of the method ``name``, as its file has it."""
    return ast.get_docstring(_class_of(file, name)) or ""


def hyperparameters(file: Path, name: str) -> tuple[Declared, ...]:
    """List the hyper-parameters of the method ``name``, its own first, then its families'.

    Names, defaults and ranges are the dataclass's; meanings are the ``Attributes`` of the nearest
    class that explains them.

    Examples
    --------
    >>> file = Path(__file__).parent / "methods" / "fedprox.py"
    >>> first = hyperparameters(file, "fedprox")[0]
    >>> first.name, first.legal
    ('mu', 'must be at least 0')
    """
    # Loads no torch; here, so that what only cites methods does not even look for it.
    from latecomer.models.engine import hyperparameters as kinds

    found: dict[str, Any] = {}
    meanings: dict[str, Documented] = {}
    for place, cls in _lineage(file, _class_of(file, name)):
        told = documented(ast.get_docstring(cls), "Attributes")
        own_words = {key: one for key, one in told.items() if not one.meaning.startswith(_POINTS)}
        meanings = own_words | meanings
        for line in cls.body:
            match line:
                case ast.AnnAssign(
                    target=ast.Name(id=own),
                    value=ast.Call(func=ast.Name(id=kind), args=given, keywords=ends),
                ) if kind in _KINDS and own not in found:
                    found[own] = getattr(kinds, kind)(
                        *(value for one in given for value in _values(place, one)),
                        **{str(one.arg): _value(one.value) for one in ends},
                    )
    nothing = Documented("", "")
    return tuple(
        Declared(own, one.default, kinds.legal(one), meanings.get(own, nothing).meaning)
        for own, one in found.items()
    )


# How a docstring says that a family explains a setting.
_POINTS = ("As for ", "See ")
_KINDS = ("number", "count", "size", "choice", "several")


def _value(node: ast.expr) -> Any:
    match node:
        case ast.BinOp(left=left, op=ast.Div(), right=right):
            return _value(left) / _value(right)
    return ast.literal_eval(node)


def _values(file: Path, node: ast.expr) -> list[Any]:
    """Return one value, or the keys of the table that is spread there."""
    match node:
        case ast.Starred(value=ast.Name(id=table)):
            for line in _tree(_imports(file)[table]).body:
                match line:
                    case ast.AnnAssign(target=ast.Name(id=own), value=ast.Dict(keys=keys)) if (
                        own == table
                    ):
                        return [ast.literal_eval(key) for key in keys if key is not None]
    return [_value(node)]


def _tree(file: Path) -> ast.Module:
    return _parsed(file.read_text("utf-8"))


@cache
def _parsed(text: str) -> ast.Module:  # by its text: one's own file may change meanwhile
    return ast.parse(text)


def _class_of(file: Path, name: str) -> ast.ClassDef:
    for cls in _tree(file).body:
        if isinstance(cls, ast.ClassDef) and _literals_of(cls).get("name") == name:
            return cls
    return ast.ClassDef(name="", bases=[], keywords=[], body=[], decorator_list=[])


def _lineage(file: Path, cls: ast.ClassDef) -> Iterator[tuple[Path, ast.ClassDef]]:
    """Yield a class and those it is derived from, in the package, each with its file."""
    yield file, cls
    homes = _imports(file)
    for base in cls.bases:
        name = base.id if isinstance(base, ast.Name) else ""
        home = homes.get(name, file)
        for one in _tree(home).body:
            if isinstance(one, ast.ClassDef) and one.name == name:
                yield from _lineage(home, one)


def _imports(file: Path) -> dict[str, Path]:
    """Return the file of each name that a file imports from the package's models."""
    homes: dict[str, Path] = {}
    for line in _tree(file).body:
        if isinstance(line, ast.ImportFrom) and (line.module or "").startswith(_MODELS):
            place = _HERE.joinpath(*(line.module or "").removeprefix(_MODELS).split("."))
            homes |= {one.asname or one.name: place.with_suffix(".py") for one in line.names}
    return homes
