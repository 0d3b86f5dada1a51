"""The notebook of the examples runs, gives what it shows, and shows it in a browser."""

import json
from pathlib import Path

import nbclient
import nbformat
import pytest

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOK = ROOT / "docs" / "examples" / "certificates.ipynb"


def outputs(notebook):
    """Return what each cell shows: HTML where there is any, else text."""
    shown = []
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            data = output.get("data") or {"text/plain": output.get("text", "")}
            kind = "text/html" if "text/html" in data else "text/plain"
            shown.append((cell.id, kind, data[kind]))
    return shown


@pytest.fixture(scope="module")
def stored():
    return nbformat.read(NOTEBOOK, as_version=4)


@pytest.mark.slow
def test_it_gives_what_it_shows(stored, tmp_path):
    again = nbformat.from_dict(json.loads(json.dumps(stored)))
    for cell in again.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    where = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(again, timeout=300, resources=where).execute()
    assert outputs(again) == outputs(stored)
    assert (tmp_path / "clinics.html").stat().st_size > 10_000


def test_it_is_stored_with_outputs_and_without_places(stored):
    kinds = [kind for _, kind, _ in outputs(stored)]
    assert kinds.count("text/html") == 4
    assert len(kinds) == sum(cell.cell_type == "code" for cell in stored.cells)
    text = NOTEBOOK.read_text("utf-8")
    assert str(ROOT) not in text
    assert "/home/" not in text


@pytest.mark.browser
def test_its_outputs_in_a_browser(stored, tmp_path, chromium):
    shown = [html for _, kind, html in outputs(stored) if kind == "text/html"]
    page_file = tmp_path / "outputs.html"
    body = "".join(f"<div class='out'>{html}</div>" for html in shown)
    page_file.write_text(f"<!doctype html><meta charset='utf-8'><body>{body}", "utf-8")
    page = chromium.new_page(viewport={"width": 900, "height": 1200})
    said = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda asked: said.append(asked.url) if "://" in asked.url
            and not asked.url.startswith("file:") else None)  # fmt: skip
    page.goto(page_file.as_uri())
    assert page.locator("table").count() == 4
    certificate = page.locator(".out").nth(1)
    assert certificate.locator("p").first.inner_text().startswith("With probability at least 95%")
    topics = certificate.locator("tbody tr td:first-child").all_inner_texts()
    assert list(dict.fromkeys(topics)) == ["mean", "next client", "shifts", "tails", "groups"]
    assert not page.evaluate("document.documentElement.scrollWidth > innerWidth")
    page.screenshot(path=str(tmp_path / "outputs.png"), full_page=True)
    assert said == []
