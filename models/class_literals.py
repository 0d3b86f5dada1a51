"""What a method's file says, read and not run: who names methods need not load torch for it."""

import ast
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

_FAMILIES = Path(__file__).parent / "families"
_OF_NEWCOMERS = ("finetune_steps", "novel_rounds", "novel_steps")


@cache
def serving(file: Path) -> dict[str, int]:
    """Read the defaults of newcomers' steps in a method's file and the families it imports from."""
    found: dict[str, int] = {}
    for part in ast.walk(ast.parse(file.read_text("utf-8"))):
        match part:
            case ast.ImportFrom(module=str() as home) if home.startswith(
                "latecomer.models.families."
            ):
                found |= serving(_FAMILIES / f"{home.rpartition('.')[2]}.py")
            case ast.AnnAssign(
                target=ast.Name(id=place), value=ast.Call(args=[ast.Constant(value=int() as many)])
            ) if place in _OF_NEWCOMERS:
                found[place] = many
    return found


def literals(file: Path, name: str) -> dict[str, Any]:
    """Read the literals in the class body of the method ``name``, as its file has them."""
    for cls in ast.parse(file.read_text("utf-8")).body:
        said: dict[str, Any] = {}
        for line in cls.body if isinstance(cls, ast.ClassDef) else ():
            match line:
                case (
                    ast.Assign(targets=[ast.Name(id=place)], value=value)
                    | ast.AnnAssign(target=ast.Name(id=place), value=ast.expr() as value)
                ):
                    with suppress(ValueError):  # an expression, which a report has no use for
                        said[place] = ast.literal_eval(value)
        if said.get("name") == name:
            return said
    return {}
