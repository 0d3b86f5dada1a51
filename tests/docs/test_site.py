"""The site's files fit together; building it is `make docs`."""

import re
from pathlib import Path

import yaml

import latecomer.bounds

ROOT = Path(__file__).resolve().parents[2]
PAGES = ROOT / "docs" / "pages"
CONFIG = yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))
THEORY = {path.name: path.read_text("utf-8") for path in (PAGES / "theory").glob("*.md")}


def named(nav):
    for entry in nav:
        for target in entry.values():
            if isinstance(target, str):
                yield target
            else:
                yield from named(target)


def test_nav_names_every_page_once_but_those_that_a_list_leads_to():
    pages = {path.relative_to(PAGES).as_posix() for path in PAGES.rglob("*.md")}
    led_to = {page for page in pages if f"/{page}".startswith(CONFIG["not_in_nav"].strip())}
    assert led_to
    assert sorted(named(CONFIG["nav"])) == sorted(pages - led_to)
    assert all(f"({page})" in (PAGES / "checks.md").read_text("utf-8") for page in led_to)


def test_the_files_it_is_built_with_exist():
    for file in CONFIG["hooks"]:
        assert (ROOT / file).is_file()
    assert (PAGES / "style.css").is_file()


def test_every_bound_is_on_one_theory_page():
    facts = [
        name
        for text in THEORY.values()
        for line in re.findall(r"^<!-- facts (.*) -->$", text, flags=re.MULTILINE)
        for name in line.split()
    ]
    assert sorted(facts) == sorted(latecomer.bounds.CATALOGUE)


def test_every_erratum_is_on_one_theory_page():
    rows = [row for text in THEORY.values() for row in re.findall(r"^\| ([EPO]\d+) \|", text, re.M)]
    page = (ROOT / "bounds" / "README.md").read_text("utf-8")
    assert sorted(rows) == sorted(re.findall(r"^\| ([EPO]\d+) \|", page, re.M))


def test_theory_pages_say_what_they_must():
    for name, text in THEORY.items():
        assert "<!-- facts " in text, name
        if name not in ("index.md", "routes.md"):
            assert "**Question.**" in text, name
            assert "$$" in text, name
            assert re.search("vacuous|says nothing|misleads|fails", text), name
