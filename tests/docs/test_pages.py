"""Pages can be read as they lie: what programs write stands in them, and links lead somewhere."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = ROOT / "docs" / "pages"
EVERY_PAGE = sorted(PAGES.rglob("*.md"))
BESIDE = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")]
KEPT = ROOT / "reports" / "reference"
CODE = re.compile(r"^```.*?^```$|^~~~.*?^~~~$|`[^`\n]+`|<!--.*?-->", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^()\s]+)\)|^\[[^\]]+\]: (\S+)$|(?:src|href)=\"([^\"]+)\"", re.MULTILINE)


@pytest.fixture(scope="module")
def pages(building):
    return building("pages")


def text_of(page):
    return page.read_text("utf-8")


def test_no_raw_mark_is_left_under_docs():
    marks = re.compile(r"--8<--|\{\{|^::: ", re.MULTILINE)
    looked = [*EVERY_PAGE, *(ROOT / "docs" / "examples").rglob("*.py")]
    assert len(looked) > 60
    assert [str(path) for path in looked if marks.search(text_of(path))] == []


def test_every_comment_of_a_page_begins_or_ends_a_block(pages):
    told = 0
    for page in EVERY_PAGE:
        text = text_of(page)
        kinds = "|".join(pages.MAKERS)
        begun = re.findall(rf"^<!-- (?:{kinds})\b.*-->$", text, flags=re.MULTILINE)
        ended = re.findall(rf"^<!-- end of (?:{kinds}) -->$", text, flags=re.MULTILINE)
        assert len(pages.BLOCK.findall(text)) == len(begun) == len(ended), page.name
        told += len(begun)
    assert told > 60


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(
            page,
            id=page.relative_to(PAGES).as_posix(),
            # Its sentences are those of fourteen reports.
            marks=[pytest.mark.nightly] if page.stem == "gallery" else [],
        )
        for page in EVERY_PAGE
        if "<!-- end of " in text_of(page)
    ],
)
def test_blocks_are_what_their_programs_make(pages, page):
    # Made by ``python docs/building/pages.py``.
    assert text_of(page) == pages.rewritten(page)


def test_a_block_that_is_out_of_date_is_made_anew(pages, tmp_path):
    page = tmp_path / "page.md"
    page.write_text("a\n\n<!-- facts kl -->\nold\n<!-- end of facts -->\n\nb\n", "utf-8")
    text = pages.rewritten(page)
    assert "old" not in text
    assert "api/bounds.md#latecomer.bounds.binary_kl.kl" in text
    page.write_text(text, "utf-8")
    assert pages.rewritten(page) == text


def test_the_site_has_whole_docstrings(pages):
    made = pages.in_full(text_of(PAGES / "api" / "reports.md"))
    assert "\n::: latecomer.reports.page.page.report" in made
    assert "<a id=" not in made


def anchors(page):
    """Return what a link may name in a page, on a forge and in the site alike."""
    bare = re.sub(r"^```.*?^```$", "", text_of(page), flags=re.MULTILINE | re.DOTALL)
    found = set(re.findall(r'id="([^"]+)"', bare))
    for heading in re.findall(r"^#+ (.+)$", bare, flags=re.MULTILINE):
        said = re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", heading).replace("`", "").strip().lower()
        forge = re.sub(r"[^\w\- ]", "", said).replace(" ", "-")
        if forge == re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", said)):
            found.add(forge)
    return found


def links(page):
    bare = CODE.sub("", text_of(page))
    for found in LINK.findall(bare):
        target = next(filter(None, found))
        if not re.match(r"[a-z]+:|//", target):
            yield target


@pytest.mark.parametrize(
    "page", [*BESIDE, *EVERY_PAGE], ids=lambda page: page.relative_to(ROOT).as_posix()
)
def test_links_lead_to_files_and_anchors(page, building):
    shown = {KEPT / name for name in building("gallery").GALLERY}
    for target in links(page):
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), target
        if anchor:
            assert anchor in anchors(file), target
        if page in EVERY_PAGE:
            # What lies outside is part of the site where the hooks put it there.
            in_site = PAGES in file.parents or file in shown or file.match("figures/*.svg")
            assert in_site, target


def test_there_are_links_and_wrong_ones_are_found(tmp_path):
    assert sum(len(list(links(page))) for page in EVERY_PAGE) > 100
    page = tmp_path / "page.md"
    page.write_text('# A `b`: c\n[x](y.md) `[n](o)` [z]\n\n[z]: w.md#v\n<img src="p.svg">\n')
    assert list(links(page)) == ["y.md", "w.md#v", "p.svg"]
    assert anchors(page) == {"a-b-c"}
