"""The gallery's reports, as the site has them: each opens without a network and says no error."""

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

ROOT = Path(__file__).resolve().parents[2]
BUILT = ROOT / "build" / "site"


@pytest.fixture(scope="module")
def gallery(building):
    return building("gallery")


@pytest.mark.nightly
def test_every_entry_is_headed_by_a_question_and_its_answer(gallery):
    assert len(gallery.GALLERY) >= 8
    shown = [gallery.shown_run(name) for name in gallery.GALLERY]
    assert all(question.endswith("?") for question, _ in shown)
    assert all(answer.endswith(".") for _, answer in shown)
    text = gallery.entry_list()
    assert all(f"(../../reports/reference/{name})" in text for name in gallery.GALLERY)


def test_every_entry_has_a_small_picture(building):
    thumbnails = building("thumbnails")
    kept = sorted(thumbnails.FOLDER.glob("*"))
    assert [file.name for file in kept] == sorted(f"{name}.png" for name in thumbnails.GALLERY)
    for file in kept:
        assert file.stat().st_size < 16_000
        with Image.open(file) as picture:
            assert picture.width == thumbnails.WIDTH
            assert picture.height <= thumbnails.HEIGHT
    page = (thumbnails.FOLDER.parent / "gallery.md").read_text("utf-8")
    assert page.count("](thumbnails/") == len(kept)


@pytest.mark.slow
def test_a_picture_is_drawn_from_the_kept_rows(building):
    thumbnails = building("thumbnails")
    drawn = Image.open(io.BytesIO(thumbnails.thumbnail("households"))).convert("L")
    with Image.open(thumbnails.FOLDER / "households.png") as picture:
        kept = picture.convert("L")
    assert drawn.size == kept.size
    # Letters are drawn a little differently by other versions of what draws them.
    assert np.abs(np.asarray(drawn, float) - np.asarray(kept, float)).mean() < 8


@pytest.fixture(scope="module")
def pages(gallery, tmp_path_factory):
    """Return the pages of the built site, or render them where none was built."""
    folder = BUILT / "gallery"
    if not folder.is_dir():
        folder = tmp_path_factory.mktemp("gallery")
        for name, page in gallery.gallery_pages():
            (folder / f"{name}.html").write_text(page, "utf-8")
    files = sorted(folder.glob("*.html"))
    assert [file.stem for file in files] == sorted(gallery.GALLERY)
    return files


@pytest.mark.nightly
@pytest.mark.browser
def test_each_opens_offline_and_says_no_error(pages, chromium):
    said, asked = [], []
    page = chromium.new_context(offline=True).new_page()
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    for file in pages:
        page.goto(file.as_uri())
        page.wait_for_load_state("networkidle")
        assert page.locator("h1").count() == 1
    assert said == []
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
