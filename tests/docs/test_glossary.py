"""One word a thing: what people read keeps to the ten words of the glossary.

Walked are ``README.md`` and the pages as people write them. Not walked: code in blocks and spans,
targets of links, comments, and what programs write into pages.
"""

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = ROOT / "docs" / "pages"
GLOSSARY = PAGES / "glossary.md"
READ = [ROOT / "README.md", *sorted(PAGES.rglob("*.md"))]
CODE = re.compile(
    r"^```.*?^```$|^~~~.*?^~~~$|`[^`\n]+`|\]\([^()\s]*\)", flags=re.MULTILINE | re.DOTALL
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
    said = "|".join(r"[\s-]+".join(map(re.escape, other.split())) for other in others)
    return re.compile(rf"(?<![\w/.=-])(?:{said})s?(?![\w/=]|-\w|\.\w)", flags=re.IGNORECASE)


def prose(text):
    return CODE.sub(" ~ ", text)


def test_there_are_ten_words_each_said_in_one_sentence():
    assert len(words()) == 10
    for word, meaning, _ in rows():
        assert words()[word], word
        assert meaning.endswith("."), word
        assert ". " not in meaning, word


def test_what_is_refused_is_found_and_names_are_not():
    found = [match[0] for match in refused().finditer("A Newcomer, two novel\nclients: luck")]
    assert found == ["Newcomer", "novel\nclients", "luck"]
    named = "`newcomer` tune_newcomers [x](newcomers.md) newcomers-cifar10 /newcomers"
    assert not refused().search(prose(named))
    assert not refused().search("new clients, novelty, lucky")


@pytest.mark.parametrize("page", READ, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_what_people_read_keeps_to_the_words(page, pages):
    text = pages.BLOCK.sub("", page.read_text("utf-8"))
    if page == GLOSSARY:
        text = re.sub(r'"[^"]+"', "", text)
    assert [match[0] for match in refused().finditer(prose(text))] == []
