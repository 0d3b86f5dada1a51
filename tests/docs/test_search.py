"""The site's search works where a page is opened from a disk, without a server."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Return a site of the same pages, theme and search, without the reports and docstrings."""
    pytest.importorskip("mkdocs")
    folder = tmp_path_factory.mktemp("site")
    config = yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))
    smaller = {name: config[name] for name in ("site_name", "use_directory_urls", "theme")}
    smaller |= {
        "docs_dir": str(ROOT / config["docs_dir"]),
        "site_dir": str(folder / "built"),
        "plugins": [one for one in config["plugins"] if one == "search"],
        "hooks": [str(ROOT / one) for one in config["hooks"] if "theme" in one],
        "extra_javascript": config["extra_javascript"],
        "nav": config["nav"],
    }
    (folder / "mkdocs.yml").write_text(yaml.safe_dump(smaller), "utf-8")
    command = [sys.executable, "-m", "mkdocs", "build", "-q", "-f", str(folder / "mkdocs.yml")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return folder / "built"


@pytest.mark.browser
def test_words_are_found_from_a_disk(site, chromium):
    said = []
    page = chromium.new_context(offline=True).new_page()
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    for start in ("index.html", "theory/held_out.html"):
        page.goto((site / start).as_uri())
        page.wait_for_function("typeof searchWorker !== 'undefined' && searchWorker.index")
        page.keyboard.press("s")
        field = page.locator("#mkdocs-search-query")
        field.wait_for()
        for word in ("nn.Module", "LaTeX", "citation", "delta"):
            field.fill("")
            field.press_sequentially(word)
            results = page.locator("#mkdocs-search-results article")
            results.first.wait_for()
            target = results.first.locator("a").get_attribute("href")
            text = (site / start).parent.joinpath(target.partition("#")[0]).read_text("utf-8")
            assert word.lower() in text.lower(), (word, target)
        toggle = page.locator("[data-bs-theme-value=dark]")
        toggle.evaluate("one => one.click()")
        assert page.locator("html").get_attribute("data-bs-theme") == "dark"
    field.fill("nosuchwordanywhere")
    field.press("Shift")
    page.get_by_text("No results found").wait_for()
    assert said == []
