"""The page in a real browser: nothing fetched, nothing broken, nothing wider than the window."""

import shutil
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from latecomer import reports
from latecomer.certify import page as loss_page
from latecomer.reports import report

pytestmark = [pytest.mark.browser, pytest.mark.thinned]

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
# A chart is read on a phone when its letters are about as tall as the small print around it.
SMALLEST_LETTERS = 9.0
SORT = Path(loss_page.__file__).parent / "templates" / "sort.js"


@pytest.fixture(scope="module")
def page_file(made_up_run: Path) -> Path:
    return report(made_up_run)


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.fail("this test needs Chromium: apt-get install chromium")
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=chromium, args=list(FLAGS))
        yield opened
        opened.close()


JOBS = ("bound-vs-accuracy-digits", "shift-robustness-digits", "generalization-gap-digits")
# Of the screen a page is made for, and the most that it may scroll without a click, in pixels.
SCREEN, LONGEST = 900, 6000
OVERLAPPING = """() => {
    const shown = [...document.querySelectorAll('.card figure svg text')]
        .filter(text => text.getClientRects().length && text.textContent.trim())
        .map(text => [text.textContent.trim(), text.closest('svg'), text.getBoundingClientRect()]);
    const over = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1
        && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 2;
    return shown.flatMap(([one, svg, box], i) => shown.slice(i + 1)
        .filter(([, other, second]) => svg === other && over(box, second))
        .map(([other]) => `${one} / ${other}`));
}"""


class Visit:
    """A page that was opened, and all it said or asked for meanwhile."""

    def __init__(self, browser, path, width, scheme):
        self.context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme
        )
        self.page = self.context.new_page()
        self.said, self.asked = [], []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(path.as_uri())
        self.page.wait_for_load_state("networkidle")
        # What does not answer the question is folded away: its figures are looked at, too.
        self.folded = self.page.locator("details.chapter:not([open])").count()
        self.page.evaluate(
            "document.querySelectorAll('details.chapter').forEach(fold => { fold.open = true; })"
        )


@pytest.fixture(
    params=[(1280, "light"), (1280, "dark"), (390, "light"), (390, "dark")],
    ids=["desktop", "desktop-dark", "phone", "phone-dark"],
    scope="module",
)
def visit(request, browser, page_file):
    width, scheme = request.param
    opened = Visit(browser, page_file, width, scheme)
    yield opened
    opened.context.close()


def test_no_console_message_and_no_request(visit, page_file):
    assert visit.said == []
    assert [url for url in visit.asked if not url.startswith("data:")] == [page_file.as_uri()]


def test_every_figure_is_seen_and_described(visit):
    figures = visit.page.evaluate(
        """() => [...document.querySelectorAll('figure')].map(figure => {
            const images = [...figure.querySelectorAll('[role=img]')].filter(
                image => image.getBoundingClientRect().width > 0);
            return images.map(image => {
                const box = image.querySelector('svg').getBoundingClientRect();
                return [box.width, box.height, image.getAttribute('aria-label') || ''];
            });
        })"""
    )
    assert len(figures) >= 10
    for shown in figures:
        assert len(shown) == 1  # the layout for this width, and only it
        width, height, words = shown[0]
        assert width > 250
        assert height > 60
        assert len(words) > 40


def test_nothing_is_wider_than_the_window(visit):
    page = visit.page
    window = page.viewport_size["width"]
    assert page.evaluate("document.documentElement.scrollWidth") <= window
    wide = page.evaluate(
        """() => [...document.querySelectorAll('body *')].filter(element => {
            if (element.closest('.scroll, pre, nav ul') || !element.getClientRects().length)
                return false;
            const box = element.getBoundingClientRect();
            return box.right > document.documentElement.clientWidth + 0.5 || box.left < -0.5;
        }).map(element => element.tagName + ' ' + (element.textContent || '').slice(0, 40))"""
    )
    assert wide == []


def test_letters_in_figures_are_large_enough(visit):
    heights = visit.page.evaluate(
        """() => [...document.querySelectorAll('figure svg text')]
            .filter(text => text.getClientRects().length && text.textContent.trim())
            .map(text => {
                const scale = text.getScreenCTM();
                return parseFloat(getComputedStyle(text).fontSize) *
                    Math.hypot(scale.a, scale.b);
            })"""
    )
    assert len(heights) > 100
    assert min(heights) >= SMALLEST_LETTERS


def test_tables_scroll_in_their_own_box(visit):
    boxes = visit.page.evaluate(
        """() => [...document.querySelectorAll('table')].map(table => {
            const box = table.closest('.scroll');
            return box ? getComputedStyle(box).overflowX : 'none';
        })"""
    )
    assert boxes
    assert set(boxes) == {"auto"}


def test_ink_has_contrast_with_its_ground(visit):
    inks = visit.page.evaluate(
        """() => {
            const ground = getComputedStyle(document.body).backgroundColor;
            const text = document.querySelector('figure svg text');
            const note = document.querySelector('.note');
            return [ground, getComputedStyle(text).fill, getComputedStyle(note).color];
        }"""
    )
    ground, *letters = (
        [int(part) for part in ink.removeprefix("rgb(").removesuffix(")").split(",")]
        for ink in inks
    )
    for ink in letters:
        assert contrast(ink, ground) >= 4.5


def contrast(one, other):
    def luminance(colour):
        parts = [c / 255 for c in colour]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_fold_outs_and_navigation_work(visit):
    page = visit.page
    fold = page.locator("details:not(.chapter)", has_text="Assumptions").first
    fold.locator("summary").click()
    assert fold.get_by_text("losses lie in [0, 1]").is_visible()
    page.get_by_role("link", name="How it was done").click()
    assert page.url.endswith("#method")


def test_a_link_unfolds_the_chapter_that_it_leads_to(visit, page_file):
    assert visit.folded == 4
    page = visit.page
    opened = "document.querySelector('#guarantees > details').open"
    for act in (
        lambda: page.get_by_role("link", name="Guarantees").first.click(),
        # What a link within a chapter leads to is unfolded with all that it lies in.
        lambda: page.evaluate("location.hash = 'figure-bounds'"),
    ):
        # From elsewhere: a link to the page that is open would not load it anew.
        page.goto("about:blank")
        page.goto(page_file.as_uri())
        assert not page.evaluate(opened)
        act()
        page.wait_for_function(opened)


def column(page, number):
    """Texts of one column of the accuracy table, the method first."""
    rows = page.locator("#accuracy table").first.locator("tbody tr")
    return rows.evaluate_all(
        "(rows, n) => rows.map(row => [row.cells[0].textContent.trim(), row.cells[n].textContent])",
        number,
    )


def test_tables_sort_by_mouse_and_keyboard_and_say_so(visit, page_file):
    page = visit.page
    page.goto("about:blank")
    page.goto(f"{page_file.as_uri()}#accuracy")
    head = page.locator("#accuracy table").first.locator("thead th")
    given = column(page, 2)
    novel = head.nth(2)
    assert novel.get_attribute("aria-sort") == "none"
    novel.get_by_role("button").click()
    assert novel.get_attribute("aria-sort") == "ascending"
    shares = [float(text.split("%")[0]) for _, text in column(page, 2)]
    assert shares == sorted(shares)
    assert shares != [float(text.split("%")[0]) for _, text in given]
    novel.get_by_role("button").focus()
    page.keyboard.press("Enter")
    assert novel.get_attribute("aria-sort") == "descending"
    shares = [float(text.split("%")[0]) for _, text in column(page, 2)]
    assert shares == sorted(shares, reverse=True)
    page.keyboard.press("Space")
    assert novel.get_attribute("aria-sort") == "none"
    assert column(page, 2) == given
    head.nth(0).get_by_role("button").click()
    names = [name for name, _ in column(page, 2)]
    assert names == sorted(names)
    assert head.evaluate_all("all => all.filter(h => h.ariaSort !== 'none').length") == 1
    head.nth(0).get_by_role("button").click()
    head.nth(0).get_by_role("button").click()


def test_cells_without_a_value_sort_last_both_ways(visit):
    page = visit.page
    page.set_content(
        "<table class='sortable'><thead><tr><th>a</th></tr></thead><tbody>"
        "<tr><td data-key=''></td></tr><tr><td data-key='10'></td></tr>"
        "<tr><td data-key='Infinity'></td></tr><tr><td data-key='-2'></td></tr></tbody></table>"
        f"<script>{(SORT).read_text('utf-8')}</script>"
    )
    keys = "cells => cells.map(cell => cell.dataset.key)"
    page.get_by_role("button").click()
    assert page.locator("td").evaluate_all(keys) == ["-2", "10", "Infinity", ""]
    page.get_by_role("button").click()
    assert page.locator("td").evaluate_all(keys) == ["Infinity", "10", "-2", ""]


def test_downloads_carry_the_data(visit, page_file):
    page = visit.page
    page.goto("about:blank")
    page.goto(f"{page_file.as_uri()}#figure-gap")
    with page.expect_download() as waiting:
        page.locator("#figure-gap a[download$='.csv']").click()
    text = waiting.value.path().read_text("utf-8")
    assert waiting.value.suggested_filename == "gap.csv"
    assert text.splitlines()[0] == "label,predictor,seed,seen,novel,gap,mean,lower,upper,n_seeds"


def test_the_figure_itself_is_saved_as_it_is_shown(visit, page_file):
    page = visit.page
    page.goto("about:blank")
    page.goto(f"{page_file.as_uri()}#figure-gap")
    with page.expect_download() as waiting:
        page.locator("#figure-gap a.svg").click()
    assert waiting.value.suggested_filename == "gap.svg"
    root = ET.fromstring(waiting.value.path().read_text("utf-8"))
    kept = ET.parse(page_file.parent / "figures" / "gap.svg").getroot()
    assert (root.tag, root.get("color"), root[0].get("fill")) == (kept.tag, "#1b1f24", "white")
    assert [root.get(name) for name in ("width", "height")] == [
        kept.get(name) for name in ("width", "height")
    ]
    texts = [
        [one.text for one in svg.iter() if one.text and one.text.strip()] for svg in (root, kept)
    ]
    assert texts[0] == [text for text in texts[1] if not text.startswith("*{")]
    page.goto(page_file.as_uri())


@pytest.mark.parametrize("width", [1280, 1920])
def test_a_wide_table_takes_the_room_of_a_wide_window(browser, page_file, width):
    wide = Visit(browser, page_file, width, "light")
    wide.page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    measured = wide.page.evaluate(
        """() => [...document.querySelectorAll('.scroll:has(> .many)')].map(
            box => [box.getBoundingClientRect().width, box.clientWidth >= box.scrollWidth - 1])"""
    )
    text = wide.page.locator("main").bounding_box()["width"]
    assert measured
    if width == 1920:
        assert all(whole for _, whole in measured)
        assert max(width for width, _ in measured) > text
    assert wide.page.evaluate("document.documentElement.scrollWidth") <= width
    wide.context.close()


def test_fold_outs_are_open_on_paper_and_closed_again_after(visit, page_file):
    page = visit.page
    page.goto(page_file.as_uri())
    closed = page.locator("details:not([open])").count()
    assert closed > 3
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert page.locator("details:not([open])").count() == 0
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert page.locator("details:not([open])").count() == closed


def test_print_leaves_out_what_only_a_screen_can_use(visit):
    page = visit.page
    page.emulate_media(media="print")
    assert not page.locator("nav").is_visible()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    page.emulate_media(media="screen")


@pytest.mark.parametrize("what", ["answer", "all"])
def test_the_answer_alone_can_be_printed(browser, page_file, what):
    context = browser.new_context(viewport={"width": 672, "height": 900})
    page = context.new_page()
    page.goto(f"{page_file.as_uri()}?print={what}")
    page.emulate_media(media="print")
    shown = page.evaluate(
        """() => [...document.querySelectorAll('main > section, .card ~ *, footer')].filter(
            part => part.getClientRects().length).map(part => part.id || part.tagName)"""
    )
    assert shown == ["answer"] if what == "answer" else {"method", "FOOTER"} <= set(shown)
    assert page.locator(".card figure").first.is_visible()
    # On the screen nothing is missing, and the buttons ask for the same.
    page.emulate_media(media="screen")
    page.evaluate("window.print = () => {}")
    other = {"answer": "all", "all": "answer"}[what]
    page.get_by_role("button", name=other, exact=True).click()
    page.emulate_media(media="print")
    assert page.locator("footer").is_visible() == (other == "all")
    context.close()


@pytest.fixture(scope="module")
def job_pages(tmp_path_factory) -> dict[str, Path]:
    pages = {}
    for name in JOBS:
        run = tmp_path_factory.mktemp(name) / name
        shutil.copytree(Path(reports.__file__).parent / "reference" / name, run)
        pages[name] = report(run)
    return pages


@pytest.mark.nightly
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("name", JOBS)
def test_a_job_is_answered_on_the_first_screen(browser, job_pages, name, width):
    job = Visit(browser, job_pages[name], width, "light")
    page = job.page
    page.goto(f"{job_pages[name].as_uri()}?anew")
    if width == 1280:
        figure = page.locator(".card figure").first.locator(".wide").bounding_box()
        assert figure["y"] + figure["height"] <= SCREEN
        assert page.evaluate("document.documentElement.scrollHeight") <= LONGEST
    assert page.evaluate(OVERLAPPING) == []
    beyond = page.evaluate(
        """() => [...document.querySelectorAll('.card .scroll')]
            .filter(box => box.scrollWidth > box.clientWidth + 1)
            .map(box => box.getAttribute('aria-label'))"""
    )
    assert beyond == []
    legends = page.evaluate(
        """() => [...document.querySelectorAll('.card figure svg [id^=legend]')]
            .map(legend => legend.querySelectorAll('text').length)"""
    )
    assert max(legends, default=0) <= 8
    job.context.close()


@pytest.mark.nightly
def test_a_job_on_paper_keeps_within_its_margins(browser, job_pages):
    """A4 less 16 mm a side is 672 pixels of 1/96 inch; what is folded is printed open."""
    for path in job_pages.values():
        job = Visit(browser, path, 672, "dark")
        page = job.page
        page.emulate_media(media="print", color_scheme="dark")
        page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
        assert page.evaluate("document.documentElement.scrollWidth") <= 672
        assert page.locator("details:not([open])").count() == 0
        assert page.pdf(format="A4").startswith(b"%PDF")
        job.context.close()
