"""``latecomer certify`` beyond the mean, and the files it is given."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from latecomer.bounds import product_from_sum
from latecomer.cli import app
from latecomer.eval import certify_above, certify_against, certify_groups, certify_shifted

RUNNER = CliRunner()
ROWS = [f"c{i},{0.05 * (i % 7):.2f},{'xyy'[i % 3]}" for i in range(42)]


@pytest.fixture
def losses(tmp_path: Path) -> str:
    path = tmp_path / "losses.csv"
    path.write_text("\n".join(["client,loss,site", *ROWS, ""]))
    return str(path)


@pytest.fixture
def others(tmp_path: Path) -> str:
    path = tmp_path / "others.csv"
    path.write_text("client,loss\n" + "".join(f"c{i},0.6\n" for i in range(42)))
    return str(path)


def invoke(*arguments: str) -> tuple[int, str, str]:
    result = RUNNER.invoke(app, ["certify", *arguments], prog_name="latecomer")
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result.exit_code, result.stdout, result.stderr


def text(*arguments: str) -> str:
    code, out, err = invoke(*arguments)
    assert (code, err) == (0, "")
    return out


def record(*arguments: str) -> Any:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    return json.loads(text(*arguments, "--json"), parse_constant=refuse)


def refused(*arguments: str) -> str:
    code, out, err = invoke(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith("latecomer: ")
    assert err.count("\n") == 1
    return err


def test_shifts_are_those_of_python(losses: str) -> None:
    asked = ("--shift", "kl=0,0.1", "--shift", "tv=0.1", "--subgroup", "0.3", "--target", "0.4")
    kl, tv, group = record(losses, *asked)["shifts"]
    assert (kl["ball"], kl["radii"], tv["radii"], group["radii"]) == ("kl", [0, 0.1], [0.1], [0.3])
    found = certify_shifted(losses, ball="kl", radii=[0, 0.1], target=0.4)
    assert kl["certificate"]["value"] == found.certificate.value.tolist()
    assert kl["breaking"] == found.breaking
    assert group["breaking"] == certify_shifted(losses, ball="subgroup", target=0.4).breaking
    shown = text(losses, *asked)
    assert "  mean loss within KL 0.1            <= 0." in shown
    assert "  breaking radius, tv                 = 0." in shown
    assert "  smallest share of any group         = 0." in shown
    assert "every group of clients that makes up at least a share 0.3 of the population" in shown
    assert shown.count("It holds for all radii at once.") == 7
    assert len(kl["statements"]) == 3


def test_a_target_alone_asks_for_every_way_to_differ(losses: str) -> None:
    found = record(losses, "--target", "0.4")["shifts"]
    assert [one["ball"] for one in found] == ["kl", "tv", "chi2", "subgroup"]
    assert all("certificate" not in one for one in found)
    hopeless = record(losses, "--target", "0.15")["shifts"]
    assert [one["breaking"] for one in hopeless] == [None] * 4
    assert "none    above 0.15 without any shift" in text(losses, "--target", "0.15")


def test_printed_radii_and_shares_are_rounded_to_the_safe_side(losses: str) -> None:
    for ball, sign in (("kl", 1), ("tv", 1), ("chi2", 1), ("subgroup", -1)):
        exact = certify_shifted(losses, ball=ball, target=0.4).breaking
        line = next(
            line
            for line in text(losses, "--target", "0.4").splitlines()
            if f"breaking radius, {ball}" in line or (ball == "subgroup" and "smallest" in line)
        )
        shown = float(line.split(" = ")[1].split()[0])
        assert 0 <= sign * (exact - shown) <= 0.01 * exact


def test_tails_groups_and_another_model(losses: str, others: str) -> None:
    asked = (losses, "--above", "0.1,0.2", "--curve", "--by", "site", "--against", others)
    found = record(*asked)
    above = certify_above(losses, [0.1, 0.2])
    assert found["tails"]["above"]["0.1"]["value"] == float(above[0.1])
    steps = found["tails"]["curve"]["steps"]
    assert [step["upper"] for step in steps] == sorted((s["upper"] for s in steps), reverse=True)
    groups = certify_groups(losses, "site")
    assert found["groups"]["y"]["certificate"]["value"] == float(groups["y"].certificate)
    against = certify_against(losses, others)
    assert found["against"]["certificate"]["value"] == float(against.certificate)
    shown = text(*asked)
    for words in (
        "share of clients above 0.1         <= 0.",
        "Groups by site: the 2 share delta and alpha",
        "  mean difference of losses          <= -0.",
        "exceeds that of the clients scored, for all thresholds at once, by at most",
    ):
        assert words in shown


def test_a_pool_reaches_everything_but_groups(losses: str, others: str) -> None:
    asked = ("--pool-size", "60", "--rule", "product_wor_averaged", "--target", "0.4")
    found = record(losses, *asked, "--above", "0.2", "--curve", "--against", others)
    assert {one["ball"] for one in found["shifts"]} == {"kl", "tv", "chi2", "subgroup"}
    assert found["tails"]["above"]["0.2"]["sampling"] == "finite-pool"
    assert found["against"]["worse"]["name"] == "pool_fraction"
    assert "--by needs independent clients" in refused(losses, "--pool-size", "60", "--by", "site")


def test_a_secret_sum() -> None:
    found = record("--log-sum", "6.1286", "--clients", "30")
    exact = product_from_sum(log_sum=6.1286, n_clients=30, delta=0.05, gamma=1 / 30)
    assert found["value"] == float(exact)
    assert "<= 0.272   product rule from a sum" in text("--log-sum", "6.1286", "--clients", "30")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["LOSSES", "--shift", "kl"], "--shift must be kl=, tv= or chi2= with radii, got 'kl'"),
        (["LOSSES", "--shift", "chi=0.1"], "got 'chi=0.1'; did you mean 'chi2'?"),
        (["LOSSES", "--shift", "kl=a"], "--shift kl must be numbers with commas between, got 'a'"),
        (["LOSSES", "--shift", "tv=1.5"], "tv must lie in [0, 1], got tv[0]=1.5"),
        (["LOSSES", "--subgroup", "0"], "subgroup must be a share of clients above 0"),
        (["LOSSES", "--target", "2"], "target must lie strictly between 0 and 1, got 2"),
        (["LOSSES", "--above", "1"], "above must be different losses of at least 0 and below 1"),
        (["LOSSES", "--by", "sit"], "no column 'sit' among client, loss, site; did you mean"),
        (["LOSSES", "--against", "none.csv"], "none.csv: no such file"),
        (["LOSSES", "--curve", "--delta", ".7"], "delta must be at most 1/2 for a curve"),
        (["LOSSES", "--rule", "conformal", "--target", ".4"], "rule conformal bounds no mean"),
        (["LOSSES", "--loss-max", "0", "--curve"], "loss_max must be greater than 0"),
        (["--log-sum", "3"], "--log-sum and --clients go together"),
        (["LOSSES", "--log-sum", "3", "--clients", "9"], "FILE cannot go with --log-sum"),
        (["--log-sum", "-3", "--clients", "9"], "log_sum must be at least 0, got log_sum=-3"),
        (["--log-sum", "99", "--clients", "9"], "log_sum must be at most n_clients ln(1 / gamma)"),
        (["--log-sum", "3", "--clients", "9", "--gamma", "1"], "gamma must lie strictly between"),
    ],
)
def test_what_cannot_be_asked_is_one_line(arguments: list[str], said: str, losses: str) -> None:
    assert said in refused(*[losses if one == "LOSSES" else one for one in arguments])


HEAD = b"client,loss,site\n"
# A file, options, and what is said of it; a right answer where the first word is "ok".
FILES: dict[str, tuple[bytes, list[str], str]] = {
    "empty": (b"", [], "the file is empty"),
    "header alone": (HEAD, [], "holds no clients"),
    "no client": (b"id,loss\na,.1\n", [], "no column 'client'"),
    "no loss": (b"client,error\na,.1\n", [], "no column 'loss'"),
    "no weight is no fault": (b"client,loss\na,.1\n", [], "ok 1 client, mean loss 0.100"),
    "semicolons": (b"client;loss\na;.1\n", [], "no column 'client'"),
    "no group": (HEAD + b"a,.1,\n", ["--by", "site"], "line 2: no site is given for client 'a'"),
    "two groups": (HEAD + b"a,.1,x\na,.2,y\n", ["--by", "site"], "line 3: client 'a' has site 'y'"),
    "group of one": (HEAD + b"a,.1,x\nb,.1,y\n", ["--by", "site"], "ok 2 clients"),
    "nan": (HEAD + b"a,nan,x\n", [], "line 2: loss must be a finite number, got 'nan'"),
    "1.2": (HEAD + b"a,.1,x\nb,1.2,x\n", [], "line 3: loss 1.2 lies outside [0, 1]"),
    "1.2 of 2": (HEAD + b"a,.1,x\nb,1.2,x\n", ["--loss-max", "2"], "ok 2 clients, mean loss 0.650"),
    "negative": (HEAD + b"a,-.1,x\n", [], "line 2: loss -0.1 is negative"),
    "words": (HEAD + b"a,low,x\n", [], "line 2: loss must be a finite number, got 'low'"),
    "percent": (HEAD + b"a,5%,x\n", [], "line 2: loss must be a finite number, got '5%'"),
    "comma": (HEAD + b'a,"0,1",x\n', [], "line 2: loss must be a finite number, got '0,1'"),
    "utf-16": ("client,loss\na,.1\n".encode("utf-16"), [], "not UTF-8 text"),
    "latin-1": (HEAD + b"Jos\xe9,.1,x\n", [], "line 2: not UTF-8 text"),
    "mark": (b"\xef\xbb\xbf" + HEAD + b"a,.1,x\n", [], "ok 1 client, mean loss 0.100"),
    "accents": (HEAD + "José,.1,é\n".encode(), ["--by", "site"], "ok 1 client"),
    "nul": (HEAD + b"a\x00,.1,x\n", [], "ok 1 client"),
    "one row": (HEAD + b"a,1,x\n", ["--target", ".5"], "ok 1 client, mean loss 1.000"),
    "zero": (HEAD + b"a,0,x\n", ["--shift", "kl=.1"], "ok 1 client, mean loss 0.000"),
    "twice": (HEAD + b"a,0,x\na,1,x\n", [], "ok 1 client, mean loss 0.500"),
    "line ends": (HEAD.replace(b"\n", b"\r\n") + b"a,.1,x\r\n\r\n", [], "ok 1 client"),
    "short row": (HEAD + b"a,.1\n", [], "line 2: 2 values, but the header has 3 columns"),
    "open quote": (HEAD + b'"a,.1,x\n', [], "a quotation mark is never closed"),
    "loss twice": (b"client,loss,loss\na,.1,.2\n", [], "column 'loss' occurs twice"),
    "weightless": (b"client,loss,weight\na,.1,0\n", [], "line 2: the weights of client 'a' are"),
    "bad weight": (b"client,loss,weight\na,.1,inf\n", [], "line 2: weight must be a finite number"),
    "few for emp_bernstein": (
        *(HEAD + b"a,.1,x\n", ["--rule", "emp_bernstein"]),
        "rule emp_bernstein needs at least 2 clients, got 1",
    ),
    "smaller pool": (HEAD + b"a,.1,x\nb,.1,x\n", ["--pool-size", "1"], "at least the 2 clients"),
}


@pytest.mark.parametrize("name", FILES)
def test_files(name: str, tmp_path: Path) -> None:
    content, options, said = FILES[name]
    path = tmp_path / "losses.csv"
    path.write_bytes(content)
    if said.startswith("ok "):
        assert text(str(path), *options).startswith(said.removeprefix("ok "))
    else:
        assert said in refused(str(path), *options)


def test_other_clients_in_the_second_file(losses: str, tmp_path: Path) -> None:
    path = tmp_path / "fewer.csv"
    path.write_text("client,loss\nc0,0.1\n")
    assert "client 'c1' is in the first table of losses alone" in refused(
        losses, "--against", str(path)
    )


def test_nothing_heavy_is_loaded(losses: str, others: str) -> None:
    code = (
        "import sys; from latecomer.cli import main\n"
        "try: main()\n"
        "except SystemExit as done: assert not done.code\n"
        "assert not {'torch', 'pandas', 'sklearn'} & set(sys.modules)"
    )
    asked = ["--target", ".4", "--above", ".2", "--curve", "--by", "site", "--against", others]
    command = [sys.executable, "-c", code, "certify", losses, *asked]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
