"""The gallery's reports, as the site has them: each opens without a network and says no error."""

import importlib.util
import io
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

ROOT = Path(__file__).resolve().parents[2]
BUILDING = ROOT / "docs" / "building"
BUILT = ROOT / "build" / "site"


def loaded():
    spec = importlib.util.spec_from_file_location("building_gallery", BUILDING / "gallery.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.nightly
def test_every_entry_is_headed_by_a_question_and_its_answer():
    gallery = loaded()
    assert len(gallery.GALLERY) >= 8
    shown = [gallery.shown_run(name) for name in gallery.GALLERY]
    assert all(one.question.endswith("?") for one in shown)
    assert all(one.answer.endswith(".") for one in shown)
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
def pages(tmp_path_factory):
    """Return the pages of the built site, or render them where none was built."""
    gallery = loaded()
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
def test_each_opens_offline_and_says_no_error(pages):
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.fail("this test needs Chromium: apt-get install chromium")
    said, asked = [], []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        context = browser.new_context(offline=True)
        page = context.new_page()
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        for file in pages:
            page.goto(file.as_uri())
            page.wait_for_load_state("networkidle")
            assert page.locator("h1").count() == 1
        browser.close()
    assert said == []
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
