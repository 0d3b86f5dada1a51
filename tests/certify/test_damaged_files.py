"""Tables that are damaged: each kind of damage, at each place, through each door that reads one.

A door answers in one line on stderr that names the file and what is wrong with which value, with
exit code 2; or, where nothing is wrong, with the numbers that follow from the losses meant.
"""

import gzip
import json
import math
import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from terminal import invoke

Row = tuple[str, str, str]
ROWS: list[Row] = [
    *(("ann", "0.10", "x"), ("bob", "0.05", "y"), ("cid", "0.20", "x"), ("dee", "0.15", "y")),
    *(("eve", "0.00", "x"), ("fay", "0.25", "y"), ("gus", "0.40", "y")),
]
PLACES = {"first": 0, "middle": 3, "last": len(ROWS) - 1}
# By the quickest rule: what is read does not hang on it.
DOORS: dict[str, list[str]] = {
    "certify": ["certify", "FILE", "--rule", "product", "--json"],
    "by": ["certify", "FILE", "--by", "site", "--rule", "product", "--json"],
    "against": ["certify", "GOOD", "--against", "FILE", "--rule", "product", "--json"],
    "watch": ["watch", "FILE", "--once", "--json"],
    "pilot": [
        *("plan", "--target", "0.5", "--clients", "20", "--pilot", "FILE", "--json"),
        *("--rule", "product"),
    ],
}


@dataclass(frozen=True)
class Case:
    """A file: what it holds, and what is said of it where it cannot be used, by door or by all."""

    content: bytes
    rows: list[Row]
    said: Mapping[str, str] | str = ""

    def answer(self, door: str) -> str:
        return self.said if isinstance(self.said, str) else self.said.get(door, "")


def table(rows: list[Row], head: str = "client,loss,site", between: str = ",") -> str:
    lines = [head, *(between.join(row) for row in rows)]
    return "".join(f"{line}\n" for line in lines)


def with_cell(column: int, text: str, said: str | None) -> Callable[[int], Case]:
    """Put a text into one cell; it is refused, or stands for the number that it is."""

    def damaged(place: int) -> Case:
        row = [*ROWS[place]]
        row[column] = text
        rows = [*ROWS[:place], tuple(row), *ROWS[place + 1 :]]
        if said is None:
            meant = text.strip().strip('"')
            row[column] = meant
            return Case(table(rows).encode(), [*ROWS[:place], tuple(row), *ROWS[place + 1 :]])
        return Case(table(rows).encode(), rows, f"line {place + 2}: {said}")

    return damaged


def with_line(
    line: bytes | Callable[[int], bytes],
    said: Mapping[str, str] | str = "",
    more: Callable[[int], list[Row]] = lambda place: [],
) -> Callable[[int], Case]:
    """Put a line behind one of the rows."""

    def damaged(place: int) -> Case:
        text = line if isinstance(line, bytes) else line(place)
        lines = [one.encode() for one in table(ROWS).splitlines(keepends=True)]
        content = b"".join([*lines[: place + 2], text, *lines[place + 2 :]])
        where = f"line {place + 3}: "
        told = (
            said and where + said
            if isinstance(said, str)
            else {door: where + words for door, words in said.items()}
        )
        rows = [*ROWS[: place + 1], *more(place), *ROWS[place + 1 :]]
        return Case(content, rows, told)

    return damaged


_FINITE = "loss must be a finite number, got "
CELLS: dict[str, Callable[[int], Case]] = {
    **{
        f"loss {text or 'absent'}": with_cell(1, text, f"{_FINITE}{text!r}")
        for text in ("nan", "NaN", "inf", "-inf", "1e999", "", "low", "5%", "0_1", "0x1", "1/3")
    },
    "loss 0,1": with_cell(1, '"0,1"', f"{_FINITE}'0,1'"),
    "loss in words": with_cell(1, "None", f"{_FINITE}'None'"),
    "loss of two points": with_cell(1, "0.1.2", f"{_FINITE}'0.1.2'"),
    "loss 1.2": with_cell(1, "1.2", "loss must lie in [0, 1], got 1.2"),
    "loss -0.1": with_cell(1, "-0.1", "loss must lie in [0, 1], got -0.1"),
    "loss 1e300": with_cell(1, "1e300", "loss must lie in [0, 1], got 1e+300"),
    "loss quoted": with_cell(1, '"0.3"', None),
    "loss among blanks": with_cell(1, "  0.3 ", None),
    "loss with exponent": with_cell(1, "3e-1", None),
    "loss 1": with_cell(1, "1", None),
    "loss -0": with_cell(1, "-0.0", None),
    "client absent": with_cell(0, "", "no client id"),
    "client of blanks": with_cell(0, "   ", "no client id"),
}
LINES: dict[str, Callable[[int], Case]] = {
    "blank line": with_line(b"\n"),
    "line of commas": with_line(b",,\n"),
    "line of blanks": with_line(b"   \n"),
    "short row": with_line(b"zoe,0.1\n", "2 values, but the header has 3 columns"),
    "long row": with_line(b"zoe,0.1,x,y\n", "4 values, but the header has 3 columns"),
    "one value": with_line(b"zoe\n", "1 values, but the header has 3 columns"),
    "header again": with_line(b"client,loss,site\n", f"{_FINITE}'loss'"),
    "comment": with_line(b"# half of them\n", "1 values, but the header has 3 columns"),
    "semicolons": with_line(b"zoe;0.1;x\n", "1 values, but the header has 3 columns"),
    "latin-1": with_line("Jos\xe9,0.1,x\n".encode("latin-1"), "not UTF-8 text"),
    "half a letter": with_line(b"Jos\xc3,0.1,x\n", "not UTF-8 text"),
    "binary junk": with_line(bytes(range(128, 256)) + b"\n", "not UTF-8 text"),
    "accents": with_line("José,0.1,x\n".encode(), "", lambda _: [("José", "0.1", "x")]),
    "no group": with_line(b"zoe,0.1,\n", {"by": "no site is given for client 'zoe'"},
                          lambda _: [("zoe", "0.1", "")]),
    "group of one": with_line(b"zoe,0.1,alone\n", "", lambda _: [("zoe", "0.1", "alone")]),
    "second group": with_line(
        lambda place: f"{ROWS[place][0]},0.3,other\n".encode(),
        {"by": "client ", "watch": "client "},
        lambda place: [(ROWS[place][0], "0.3", "other")],
    ),
    "client again": with_line(
        lambda place: f"{ROWS[place][0]},0.3,{ROWS[place][2]}\n".encode(),
        {"watch": "client "},
        lambda place: [(ROWS[place][0], "0.3", ROWS[place][2])],
    ),
    "quoted comma": with_line(b'"a, b",0.1,x\n', "", lambda _: [("a, b", "0.1", "x")]),
    "nul": with_line(b"zo\x00e,0.1,x\n", "", lambda _: [("zo\x00e", "0.1", "x")]),
    "long name": with_line(b"z" * 100_000 + b",0.1,x\n", "", lambda _: [("z" * 10**5, "0.1", "x")]),
    "huge line": with_line(b"z" * 10**6 + b",0.1,x\n", "field larger than field limit (131072)"),
}  # fmt: skip
CLEAN = table(ROWS)
_NO_CLIENT, _NO_LOSS = "no column 'client' among ", "no column 'loss' among "
_JSON = "it begins with '[', as JSON does: write a table with a header"
_WIDE = "not UTF-8 text: it seems to be UTF-16 or UTF-32, save it as UTF-8"
WHOLE: dict[str, Case] = {
    "as it should be": Case(CLEAN.encode(), ROWS),
    "byte order mark": Case(CLEAN.encode("utf-8-sig"), ROWS),
    "line ends of Windows": Case(CLEAN.replace("\n", "\r\n").encode(), ROWS),
    "line ends of old": Case(CLEAN.replace("\n", "\r").encode(), ROWS),
    "no last line end": Case(CLEAN.rstrip().encode(), ROWS),
    "blank lines on top": Case(b"\n\n" + CLEAN.encode(), ROWS),
    "blanks in the header": Case(table(ROWS, " client , loss, site ").encode(), ROWS),
    "columns in another order": Case(
        b"site,client,loss\n" + "".join(f"{c},{a},{b}\n" for a, b, c in ROWS).encode(), ROWS
    ),
    "all quoted": Case(
        b'"client","loss","site"\n'
        + "".join(f'"{a}","{b}","{c}"\n' for a, b, c in ROWS).encode(),
        ROWS,
    ),
    "quoted line break": Case(
        CLEAN.replace("bob", '"bo\nb"').encode(),
        [(a.replace("bob", "bo\nb"), b, c) for a, b, c in ROWS],
    ),
    "one row": Case(table(ROWS[:1]).encode(), ROWS[:1], {"pilot": "at least 2 clients, got 1"}),
    "equal losses": Case(
        table([(a, "0.1", c) for a, _, c in ROWS]).encode(),
        [(a, "0.1", c) for a, _, c in ROWS],
        {"pilot": "a pilot's losses must differ, got 0.1 of every client"},
    ),
    "zeros and ones": Case(
        table([(a, str(i % 2), c) for i, (a, _, c) in enumerate(ROWS)]).encode(),
        [(a, str(i % 2), c) for i, (a, _, c) in enumerate(ROWS)],
    ),
    "empty": Case(b"", [], "the file is empty"),
    "blank": Case(b"\n \n\n", [], "the file is empty"),
    "mark alone": Case(b"\xef\xbb\xbf", [], "the file is empty"),
    "header alone": Case(b"client,loss,site\n", [], "holds no clients"),
    "no header": Case("".join(CLEAN.splitlines(keepends=True)[1:]).encode(), [], _NO_CLIENT),
    "no client": Case(table(ROWS, "id,loss,site").encode(), [], _NO_CLIENT),
    "no loss": Case(table(ROWS, "client,error,site").encode(), [], _NO_LOSS),
    "no site": Case(table(ROWS, "client,loss,ward").encode(), ROWS, {"by": "no column 'site'"}),
    "capitals": Case(table(ROWS, "Client,Loss,Site").encode(), [], _NO_CLIENT),
    "losses twice": Case(table(ROWS, "client,loss,loss").encode(), [], {
        **dict.fromkeys(DOORS, "column 'loss' occurs twice"),
        "by": "no column 'site' among client, loss, loss"}),
    "semicolons": Case(table(ROWS, "client;loss;site", ";").encode(), [], _NO_CLIENT),
    "tabs": Case(table(ROWS, "client\tloss\tsite", "\t").encode(), [], _NO_CLIENT),
    "decimal commas": Case(
        table([(a, b.replace(".", ","), c) for a, b, c in ROWS]).encode(), [], "line 2: 4 values"
    ),
    "decimal commas between semicolons": Case(
        CLEAN.replace(",", ";").replace(".", ",").encode(), [], _NO_CLIENT
    ),
    "utf-16": Case(CLEAN.encode("utf-16"), [], _WIDE),
    "utf-16 without mark": Case(CLEAN.encode("utf-16-le"), [], _WIDE),
    "utf-32": Case(CLEAN.encode("utf-32"), [], _WIDE),
    "gzip": Case(gzip.compress(CLEAN.encode(), mtime=0), [], "compressed by gzip"),
    "picture": Case(b"\x89PNG\r\n\x1a\n" + bytes(64), [], "line 1: not UTF-8 text"),
    "zeros": Case(bytes(4096), [], _NO_CLIENT),
    "JSON": Case(
        json.dumps([{"client": a, "loss": b, "site": c} for a, b, c in ROWS]).encode(),
        ROWS,
        {"watch": _JSON},
    ),
    "half of JSON": Case(b'[{"client": "ann", "loss": 0.1}, {"client', [], {
        **dict.fromkeys(DOORS, "not JSON: "), "watch": _JSON}),
    "open quote": Case(CLEAN.replace("cid", '"cid').encode(), [], "mark is never closed"),
    "quote within": Case(CLEAN.replace("cid", '"c"id').encode(), [], "line 4: "),
}  # fmt: skip
CASES = {
    **{f"{name}, {at}": make(place) for name, make in (CELLS | LINES).items()
       for at, place in PLACES.items()},
    **WHOLE,
}  # fmt: skip


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("good") / "good.csv"
    path.write_text(CLEAN)
    return str(path)


def losses_of(rows: list[Row]) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for client, loss, _ in rows:
        found.setdefault(client, []).append(float(loss))
    return found


def mean_of(rows: list[Row]) -> dict[str, float]:
    return {client: math.fsum(own) / len(own) for client, own in losses_of(rows).items()}


def check_certify(out: str, rows: list[Row]) -> None:
    found, means = json.loads(out), list(mean_of(rows).values())
    kept = 0.05 * math.prod(1 - loss for loss in means)
    assert (found["n_clients"], found["n_rows"]) == (len(means), len(rows))
    assert found["mean"] == pytest.approx(math.fsum(means) / len(means))
    assert found["certificate"]["value"] == pytest.approx(1 - kept ** (1 / len(means)), abs=1e-9)


def check_by(out: str, rows: list[Row]) -> None:
    groups, means = {client: site for client, _, site in rows}, mean_of(rows)
    found = json.loads(out)["groups"]
    assert set(found) == set(groups.values())
    for site, one in found.items():
        own = [means[client] for client, where in groups.items() if where == site]
        assert one["n_clients"] == len(own)
        assert one["mean"] == pytest.approx(math.fsum(own) / len(own))
        assert one["certificate"]["delta_total"] == pytest.approx(0.05 / len(found))


def check_against(out: str, rows: list[Row]) -> None:
    ours, theirs = mean_of(ROWS), mean_of(rows)
    found = json.loads(out)["against"]
    gaps = [ours[client] - theirs[client] for client in ours]
    assert found["difference"] == pytest.approx(math.fsum(gaps) / len(gaps), abs=1e-12)
    assert found["worse"]["n_worse"] == sum(gap > 0 for gap in gaps)


def check_watch(out: str, rows: list[Row]) -> None:
    moments = [json.loads(line) for line in out.splitlines()]
    assert [(one["client"], one["loss"]) for one in moments] == [
        (client, float(loss)) for client, loss, _ in rows
    ]
    means = [float(loss) for _, loss, _ in rows]
    assert moments[-1]["mean"] == pytest.approx(math.fsum(means) / len(means))


def check_pilot(out: str, rows: list[Row]) -> None:
    found, means = json.loads(out), list(mean_of(rows).values())
    spread = statistics.stdev(means)
    assert found["expected"] == pytest.approx(math.fsum(means) / len(means))
    # Nothing in [0, 1] can be spread wider than this around its mean.
    largest = math.sqrt(found["expected"] * (1 - found["expected"]))
    assert found["sd"] == pytest.approx(min(spread, 0.999 * largest))


CHECKS = {"certify": check_certify, "by": check_by, "against": check_against}
CHECKS |= {"watch": check_watch, "pilot": check_pilot}


# Of the same damage in three places the one in the middle is looked at by the fast tests.
PLACED = [
    pytest.param(name, marks=pytest.mark.slow if name.endswith((", first", ", last")) else ())
    for name in CASES
]


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("name", PLACED)
def test_every_damage_through_every_door(name: str, door: str, good: str, tmp_path: Path) -> None:
    case, path = CASES[name], tmp_path / "losses.csv"
    path.write_bytes(case.content)
    places = {"FILE": str(path), "GOOD": good}
    code, out, err = invoke(*(places.get(word, word) for word in DOORS[door]))
    said = case.answer(door)
    if door == "against" and not said and {c for c, *_ in case.rows} != {c for c, *_ in ROWS}:
        assert code == 2
        assert "table of losses alone" in err
    elif said:
        assert (code, out) == (2, "")
        assert said in err
        assert str(path) in err
    else:
        assert (code, err) == (0, "")
        CHECKS[door](out, case.rows)
    if code:
        assert err.startswith("latecomer: ")
        assert err.endswith("\n")
        assert err.count("\n") == 1
        assert len(err) < 1000


def test_there_are_enough_of_them() -> None:
    assert len(CASES) * len(DOORS) > 500
    refused = sum(bool(case.answer(door)) for case in CASES.values() for door in DOORS)
    assert refused > 300


@pytest.mark.parametrize(
    "words", [["compare", "FILE", "FILE"], ["report", "FILE"], ["status", "FILE"]]
)
def test_a_table_is_no_run(words: list[str], good: str) -> None:
    code, out, err = invoke(*(good if word == "FILE" else word for word in words))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert good in err
