"""The shape of the code: functions fit on a screen (test_layers.py counts files of folders).

Nothing is written twice either, in six lines or more. Signatures do not count: a theorem's inputs
and the hooks of a method are what callers hold on to, whoever else has the same.
"""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LAYERS = ("bounds", "certify", "models", "eval", "reports", "commands", "cli")
MOST_LINES = 60
SHARED_LINES = 6
# Pairs of files with a run of equal lines, and why each keeps its own.
ALIKE = {
    # reports know of eval no more than rows and names, and print a value otherwise than a study
    ("eval/runs/directory.py", "reports/two_runs.py"),
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


def text_lines(path):
    """Number and text of the lines of a file, without imports, comments and signatures."""
    text = path.read_text("utf-8")
    apart = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            apart |= {*range(node.lineno, node.end_lineno + 1)}
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
            apart |= {*range(first, node.body[0].lineno)}
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.strip()
        if number not in apart and not words.startswith("#") and re.search(r"\w", words):
            yield number, words


def repeated(paths):
    """Yield the places, two at a time, that share a run of SHARED_LINES lines."""
    places = {}
    for path in paths:
        lines = [*text_lines(path)]
        for start in range(len(lines) - SHARED_LINES + 1):
            run = tuple(words for _, words in lines[start : start + SHARED_LINES])
            here = (str(path.relative_to(ROOT)), lines[start][0])
            other = places.setdefault(run, here)
            if other != here:
                yield other, here


def test_nothing_is_written_twice():
    places = [path for layer in LAYERS for path in sorted((ROOT / layer).rglob("*.py"))]
    pairs = [*repeated(places)]
    assert [pair for pair in pairs if (pair[0][0], pair[1][0]) not in ALIKE] == []
    assert {(first, second) for (first, _), (second, _) in pairs} >= ALIKE


def test_a_repetition_is_found(tmp_path, monkeypatch):
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    body = "".join(f"    a{i} = {i}\n" for i in range(SHARED_LINES))
    (tmp_path / "one.py").write_text(f"import os\n\n\ndef f(\n    x,\n):\n{body}")
    (tmp_path / "two.py").write_text(f"def g():\n    # otherwise\n\n{body}")
    assert [*repeated(sorted(tmp_path.iterdir()))] == [(("one.py", 7), ("two.py", 4))]
    (tmp_path / "two.py").write_text(f"def g():\n{body}".replace("a3", "b"))
    assert [*repeated(sorted(tmp_path.iterdir()))] == []
