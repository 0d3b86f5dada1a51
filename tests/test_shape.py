"""The shape of the code: functions fit on a screen (test_layers.py counts files of folders)."""

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LAYERS = ("bounds", "models", "eval", "reports", "cli")
MOST_LINES = 60
# What is long here is the signature and the docstring that says what each input is (theorems and
# doors with a dozen inputs or more), or a list of a command's options.
LONGER = {
    "bounds/held_out/secure_sum.py:product_from_sum",
    "bounds/shift/ball_mixture.py:ball_mixture",
    "cli/certify_command.py:certify_file",
    "eval/certificates/further_losses.py:certify_against",
    "eval/certificates/shifted_losses.py:certify_shifted",
    "bounds/convergence.py:pefll_31",
    "bounds/meta_learning/pefll.py:pefll_32",
    "bounds/shift/adaptation.py:odpfl",
}


def functions(text, where="here.py"):
    """Yield the name and the number of lines of every function, docstring included."""
    for node in ast.walk(ast.parse(text)):
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
    assert {name: lines for name, lines in too_long.items() if name not in LONGER} == {}


def test_exemptions_are_of_functions_that_are_long():
    too_long = {name for name, lines in all_functions() if lines > MOST_LINES}
    assert too_long >= LONGER


def test_lines_are_counted_from_def_to_end():
    text = "@name\ndef f(\n    x,\n):\n    '''Doc.'''\n    return x\n"
    assert dict(functions(text)) == {"here.py:f": 5}
