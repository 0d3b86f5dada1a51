"""The shape of the code: functions fit on a screen, and calls say what they hand over.

A dictionary of anything that is spread into a function of the package hides its arguments from
readers, editors and mypy.
"""

import ast
from collections import Counter
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LAYERS = ("bounds", "certify", "models", "eval", "reports", "commands", "cli")
MOST_LINES = 60
ANYTHING = ("dict[str, Any]", "Mapping[str, Any]")
# Calls that still spread such a dictionary, by file. The list may only become shorter.
SPREAD = {
    "bounds/unseen_clients/single_level.py": 2,
    "certify/further_statements.py": 1,
    "certify/planned.py": 1,
    "certify/populations.py": 1,
    "certify/predicted.py": 2,
    "certify/predictor.py": 2,
    "certify/sample.py": 1,
    "certify/statements.py": 3,
    "certify/watched.py": 1,
    "certify/watching.py": 1,
    "eval/datasets/dataset.py": 1,
    "eval/datasets/from_objects.py": 2,
    "eval/datasets/readers/arrays.py": 1,
    "eval/datasets/readers/libraries.py": 1,
    "eval/datasets/readers/table.py": 2,
    "eval/runs/tally.py": 1,
    "commands/plan.py": 1,
    "commands/run_display.py": 1,
    "commands/watch_display.py": 1,
}


parsed = cache(ast.parse)


def functions(text, where="here.py"):
    """Yield the name and the number of lines of every function, docstring included."""
    for node in ast.walk(parsed(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{where}:{node.name}", node.end_lineno - node.lineno + 1


def all_functions():
    for layer in LAYERS:
        for path in sorted((ROOT / layer).rglob("*.py")):
            yield from functions(path.read_text("utf-8"), str(path.relative_to(ROOT)))


def test_no_function_is_longer_than_a_screen():
    found = dict(all_functions())
    assert len(found) > 500
    too_long = {name: lines for name, lines in all_functions() if lines > MOST_LINES}
    assert too_long == {}


def test_lines_are_counted_from_def_to_end():
    text = "@name\ndef f(\n    x,\n):\n    '''Doc.'''\n    return x\n"
    assert dict(functions(text)) == {"here.py:f": 5}


def test_pages_that_are_read_as_text_have_no_long_lines():
    long = [
        f"{page}:{number}"
        for page in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md")
        for number, line in enumerate((ROOT / page).read_text("utf-8").splitlines(), start=1)
        if len(line) > 120
    ]
    assert long == []


def bundles(function):
    """Names of a function's dictionaries of anything: declared so, or its own further keywords."""
    declared = [
        (node.target.id, node.annotation)
        for node in ast.walk(function)
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    ]
    given = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    declared += [(one.arg, one.annotation) for one in given if one.annotation]
    more = function.args.kwarg
    names = {name for name, kind in declared if ast.unparse(kind) in ANYTHING}
    return names | ({more.arg} if more and ast.unparse(more.annotation) == "Any" else set())


def spread(text):
    """Yield the lines of calls of the package's own functions that spread such a dictionary."""
    tree = parsed(text)
    own = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("latecomer"):
            own |= {alias.asname or alias.name for alias in node.names}
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        names = bundles(function)
        for call in ast.walk(function):
            if isinstance(call, ast.Call) and ast.unparse(call.func) in own:
                hidden = [one.value for one in call.keywords if one.arg is None]
                if any(isinstance(one, ast.Name) and one.id in names for one in hidden):
                    yield call.lineno


def all_spread():
    counted = Counter()
    for layer in LAYERS:
        for path in sorted((ROOT / layer).rglob("*.py")):
            counted[str(path.relative_to(ROOT))] += len({*spread(path.read_text("utf-8"))})
    return +counted


def test_calls_say_what_they_hand_over():
    more = {name: n for name, n in all_spread().items() if n > SPREAD.get(name, 0)}
    assert more == {}, "name the arguments, or hand over one frozen object"


def test_the_list_of_those_that_do_not_is_of_files_that_are_there():
    assert [name for name in SPREAD if not (ROOT / name).is_file()] == []


def test_a_bundle_is_found():
    text = """
def bound(*, losses, delta): ...
def certify(losses, **asked: Any):
    told: dict[str, Any] = {"losses": losses}
    typed: dict[str, float] = {"delta": 0.1}
    print(**told)
    bound(losses=losses, **typed)
    bound(**told, delta=0.1)
    bound(losses=losses, **asked)
"""
    assert [*spread(text)] == [8, 9]
