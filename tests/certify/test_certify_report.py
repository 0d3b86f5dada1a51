"""`latecomer certify --report`: one page that says what the terminal says, and needs no network."""

import base64
import io
import re
from html import unescape
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from terminal import certified, invoke

import latecomer
from latecomer.certify.page.losses import above

ALL = [
    *("--shift", "kl=0.05,0.1", "--subgroup", "0.3", "--target", "0.4"),
    *("--above", "0.2", "--curve"),
]


@pytest.fixture
def losses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    rows = [f"c{i},{0.05 * (i % 7):.2f},{('<b>x</b>', 'y', 'y')[i % 3]}" for i in range(42)]
    (tmp_path / "losses.csv").write_text("\n".join(["client,loss,site", *rows, ""]))
    others = "".join(f"c{i},0.6\n" for i in range(42))
    (tmp_path / "others.csv").write_text(f"client,loss\n{others}")
    return "losses.csv"


def page_of(*arguments: str) -> tuple[str, str]:
    shown = certified(*arguments, "--report", "out/page.html")
    first, _, rest = shown.partition("\n")
    assert first == "Page: out/page.html"
    return Path("out/page.html").read_text("utf-8"), rest


def words(page: str) -> str:
    """Return what a reader sees, its figures aside."""
    seen = re.sub(r"<(style|script|svg).*?</\1>", " ", page, flags=re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", seen)).split())


def test_the_page_says_what_the_terminal_says(losses: str) -> None:
    page, shown = page_of(losses, *ALL, "--by", "site", "--against", "others.csv", "--long")
    seen = words(page)
    for line in shown.splitlines():
        for part in re.split(r" {2,}(?:= )?|<=|: ", line.strip()):
            assert " ".join(part.split()) in seen, line
    for name in ("losses", "shifts", "groups"):
        assert page.count(f'id="figure-{name}"') == 1
    titles = ["Answer", "Clients", "Other populations", "Clients with large losses", "Groups"]
    assert [title in seen for title in [*titles, "Another model"]] == [True] * 6
    assert "Made by latecomer from losses.csv alone" in seen
    assert "&lt;b&gt;x&lt;/b&gt;" in page
    assert "<b>x</b>" not in page


@pytest.mark.parametrize(("n_groups", "said"), [(30, False), (31, True)])
def test_a_figure_of_the_worst_groups_says_that_it_has_no_others(
    n_groups: int, said: bool, losses: str
) -> None:
    frame = pd.DataFrame({"client": range(62), "loss": 0.1, "site": np.arange(62) % n_groups})
    latecomer.certify_losses(frame, by="site", seed=1).report("page.html", source="mine")
    shown = words(Path("page.html").read_text("utf-8"))
    assert ("Drawn are the 30 with the largest bounds of 31." in shown) == said


@pytest.mark.slow
def test_the_page_is_one_file_that_asks_nobody(losses: str) -> None:
    asked = (losses, *ALL, "--by", "site", "--seed", "5")
    page, _ = page_of(*asked)
    assert [one.name for one in Path("out").iterdir()] == ["page.html"]
    links = re.findall(r'(?:src|href)="([^"]*)"', page)
    assert all(link.startswith(("#", "data:")) for link in links)
    assert "@import" not in page
    assert not re.findall(r"https?:(?!//www\.w3\.org/)", page)
    assert page == page_of(*asked)[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    "asked", [[], ["--rule", "conformal", "--by", "site"], ["--loss-max", "4", "--curve"],
              ["--target", "0.1"], ["--pool-size", "60", "--rule", "product_wor_averaged", *ALL]],
)  # fmt: skip
def test_what_was_not_asked_has_no_chapter(asked: list[str], losses: str) -> None:
    page, _ = page_of(losses, *asked, "--seed", "5")
    assert ('id="figure-groups"' in page) == ("--by" in asked)
    assert ('id="figure-shifts"' in page) == ("--target" in asked)
    assert ("Another model" in words(page)) is False
    if not asked:
        bound = re.search(r"certified mean (0\.\d+)", words(page))
        found = latecomer.certify_losses(losses, seed=5)
        assert bound is not None
        assert float(bound[1]) >= float(found.certificate)


def test_curves_of_the_page_are_the_certificate_along_the_radii(losses: str) -> None:
    asked = {"kl": [0.2], "tv": [0.3], "subgroup": [0.25]}
    # The bets of the default rule are laid by the radii asked for, so asking for another differs.
    found = latecomer.certify_losses(losses, rule="product", shifts=asked, above=[0.2])
    assert found.report("page.html", source="mine") == Path("page.html")
    page = Path("page.html").read_text()
    assert "Certificate of mine" in words(page)
    data = re.search(r'download="shifts.csv" href="data:text/csv;base64,([^"]+)"', page)
    assert data is not None
    curve = pd.read_csv(io.BytesIO(base64.b64decode(data[1])), dtype=str)
    for name in ("radius", "bound"):  # old pandas rounds the numbers that it reads itself
        curve[name] = curve[name].map(float)
    for ball, (radius,) in asked.items():
        own = curve[curve["ball"] == ball]
        at = np.argmin(np.abs(own["radius"].to_numpy() - radius))
        again = {ball: [own["radius"].iloc[at]]}
        same = latecomer.certify_losses(losses, rule="product", shifts=again)
        assert own["bound"].iloc[at] == float(same.shifts[ball].certificate.value[0])


def test_a_page_that_cannot_be_written_is_one_line(losses: str) -> None:
    code, out, err = invoke("certify", losses, "--report", "losses.csv/page.html")
    assert (code, out, err.count("\n")) == (2, "", 1)
    summed = ("--log-sum", "3", "--clients", "9")
    code, _, err = invoke("certify", *summed, "--report", "x.html")
    assert code == 2
    assert "--report cannot go with --log-sum" in err


def test_many_clients_make_no_large_page() -> None:
    levels, shares = above(np.random.default_rng(0).random(10**5), 1.0)
    assert len(levels) == len(shares) == 600
    assert [levels[0], levels[-1]] == [0.0, 1.0]
    assert shares == sorted(shares, reverse=True)
