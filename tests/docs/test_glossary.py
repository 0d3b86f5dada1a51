"""One word a thing: what people read keeps to the ten words of the glossary.

Walked are ``README.md``, all pages with what programs write into them, what ``--help`` prints, the
templates, strings and docstrings of all packages, and the words of studies, shipped and kept. Not
walked: code in blocks and spans, targets of links, comments; the table of published numbers, and
figures and rows of kept runs, which are data. With a hyphen ``unseen-client`` is the value of a
column; ``mean weights`` are, in ``eval``, the means of distributions over weights, as in theory.
"""

import ast
import re
from functools import cache
from pathlib import Path

import pytest
import typer.main
import yaml
from typer.testing import CliRunner

from latecomer.commands.app import app

ROOT = Path(__file__).resolve().parents[2]
PAGES = ROOT / "docs" / "pages"
GLOSSARY = PAGES / "glossary.md"
KEPT = {"gallery", "published"}
"""Blocks whose words are those of kept runs."""
AXES = {"novel client", "training client"}
"""Names of axes in a file of distances."""
READ = [ROOT / "README.md", *sorted(PAGES.rglob("*.md"))]
CODE = re.compile(
    r"^```.*?^```$|^~~~.*?^~~~$|`[^`\n]+`|\]\([^()\s]*\)|^ *(?:>>>|\.\.\.) [^\n]*$",
    flags=re.MULTILINE | re.DOTALL,
)


@pytest.fixture(scope="module")
def pages(building):
    return building("pages")


@cache
def rows():
    """Return word, meaning and what it is not called, of every row of the glossary."""
    cells = r"^\| ([^|]+?) \| ([^|]+?) \| ([^|]+?) \|"
    return re.findall(cells, GLOSSARY.read_text("utf-8"), re.MULTILINE)[1:]


@cache
def words():
    """Return the words, each with what it is not called."""
    return {word: re.findall(r'"([^"]+)"', other) for word, _, other in rows()}


@cache
def refused():
    """Return what finds a refused word, over ends of lines too, but no part of a name."""
    others = (other for several in words().values() for other in several)
    said = "|".join(r"\s+".join(map(re.escape, other.split())) for other in others)
    return re.compile(rf"(?<![\w/.=-])(?:{said})s?(?![\w/=]|-\w|\.\w)", flags=re.IGNORECASE)


def found(text):
    return [match[0] for match in refused().finditer(CODE.sub(" ~ ", text))]


def test_there_are_ten_words_each_said_in_one_sentence():
    assert len(words()) == 10
    for word, meaning, _ in rows():
        assert words()[word], word
        assert meaning.endswith("."), word
        assert ". " not in meaning, word


def test_what_is_refused_is_found_and_names_are_not():
    told = "A Newcomer, two novel\nclients: luck, [newcomers](page.md)"
    assert found(told) == ["Newcomer", "novel\nclients", "luck", "newcomers"]
    named = "`newcomer` tune_newcomers [x](newcomers.md) newcomers-cifar10 /newcomers --newcomers"
    assert found(named) == []
    assert found("new clients, novelty, lucky, unseen-client") == []


@pytest.mark.parametrize("page", READ, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_pages_keep_to_the_words(page, pages):
    text = page.read_text("utf-8")
    text = pages.BLOCK.sub(lambda block: "" if block["kind"] in KEPT else block["made"], text)
    if page == GLOSSARY:
        text = re.sub(r'"[^"]+"', "", text)
    assert found(text) == []


def strings(file):
    """Yield the strings of a module, docstrings too; what is one name alone is a key."""
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        told = getattr(node, "value", None) if isinstance(node, ast.Constant) else None
        if isinstance(told, str) and not re.fullmatch(r"\w+", told):
            yield told


@pytest.mark.parametrize(
    ("package", "terms"),
    [
        *((name, set()) for name in ("bounds", "certify", "cli", "commands", "models", "reports")),
        ("eval", {"mean weights"}),
    ],
)
def test_strings_and_docstrings_keep_to_the_words(package, terms):
    files = sorted((ROOT / package).rglob("*.py"))
    assert files
    wrong = {
        f"{file.relative_to(ROOT)}: {text[:60]}"
        for file in files
        for text in strings(file)
        if set(found(text)) - terms and text not in AXES
    }
    assert wrong == set()


STUDIES = sorted((ROOT / "eval" / "studies" / "yaml").rglob("*.yaml"))
STUDIES += sorted((ROOT / "reports" / "reference").glob("*/study.yaml"))


@pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.relative_to(ROOT).as_posix())
def test_words_of_studies_keep_to_the_words(study):
    said = yaml.safe_load(study.read_text("utf-8"))
    assert found(f"{said['question']}\n{said.get('note', '')}") == []


def test_templates_keep_to_the_words():
    templates = sorted((ROOT / "certify" / "page" / "templates").iterdir())
    assert templates
    for template in templates:
        assert found(template.read_text("utf-8")) == [], template.name


def test_help_keeps_to_the_words():
    commands = typer.main.get_command(app).commands
    typed = [[], *([name] for name in commands)]
    typed += [[name, own] for name in commands for own in getattr(commands[name], "commands", ())]
    assert len(typed) > 20
    for words in typed:
        shown = CliRunner().invoke(app, [*words, "--help"])
        assert shown.exit_code == 0, words
        # An option's name is no word: it begins with hyphens.
        assert found(shown.output) == [], words
