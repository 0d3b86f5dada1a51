"""``latecomer certify`` beyond the mean, and the files it is given."""

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from terminal import certified, invoke, text

import latecomer
from latecomer.bounds import product_from_sum
from latecomer.certify.rule import BEST_OF, DEFAULT_RULE, MEAN_RULES, RULES, rules_for
from latecomer.errors import InputError
from latecomer.eval import (
    certify_above,
    certify_against,
    certify_groups,
    certify_shifted,
)

DRAWN = random.Random(5).sample(range(1, 43), 42)
ROWS = [f"c{i},{0.05 * (i % 7):.2f},{'xyy'[i % 3]},{DRAWN[i]}" for i in range(42)]


@pytest.fixture
def losses(tmp_path: Path) -> str:
    path = tmp_path / "losses.csv"
    path.write_text("\n".join(["client,loss,site,drawn", *ROWS, ""]))
    return str(path)


@pytest.fixture
def others(tmp_path: Path) -> str:
    path = tmp_path / "others.csv"
    path.write_text("client,loss\n" + "".join(f"c{i},0.6\n" for i in range(42)))
    return str(path)


def record(*arguments: str) -> Any:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    return json.loads(certified(*arguments, "--json"), parse_constant=refuse)


def refused(*arguments: str) -> str:
    code, out, err = invoke("certify", *arguments)
    assert (code, out) == (2, "")
    assert err.startswith("latecomer: ")
    assert err.count("\n") == 1
    return err


@pytest.mark.slow
def test_standard_input_is_a_file_like_any_other(losses: str) -> None:
    rows = [
        dict(zip(("client", "loss", "site", "drawn"), row.split(","), strict=True)) for row in ROWS
    ]
    told = [{**row, "loss": float(row["loss"])} for row in rows]
    asked = ["--by", "site", "--above", "0.1", "--target", "0.4", "--seed", "5", "--json"]
    for held in (Path(losses).read_bytes(), json.dumps(told).encode()):
        assert invoke("certify", "-", *asked, held=held)[:2] == (0, certified(losses, *asked))
    code, _, err = invoke("certify", "-", held=b'[{"client": "a", "loss": 7}]')
    assert code == 2
    assert "standard input, record 0: loss must lie in [0, 1], got 7.0" in err


@pytest.mark.slow
def test_shifts_are_those_of_python(losses: str) -> None:
    asked = ("--shift", "kl=0,0.1", "--shift", "tv=0.1", "--subgroup", "0.3", "--target", "0.4")
    how = ("--rule", "blend", "--seed", "1")
    kl, tv, group = record(losses, *asked, *how)["shifts"]
    assert (kl["ball"], kl["radii"], tv["radii"], group["radii"]) == ("kl", [0, 0.1], [0.1], [0.3])
    found = certify_shifted(losses, ball="kl", radii=[0, 0.1], target=0.4, seed=1)
    assert kl["certificate"]["value"] == found.certificate.value.tolist()
    assert kl["breaking"] == found.breaking
    near = {"radii": [0.3], "target": 0.4}
    assert group["breaking"] == certify_shifted(losses, ball="subgroup", **near).breaking
    shown = certified(losses, *asked, "--long")
    assert "  mean loss, KL(Q || P) <= 0.1       <= 0." in shown
    assert "  mean loss, KL(Q || P) <= 0.1       <= 0." in certified(losses, *asked)
    assert "  breaking radius, TV(Q, P)           = 0." in shown
    assert "  smallest share of any group         = 0." in shown
    assert "every group of clients that makes up at least a share 0.3 of the population" in shown
    # Three radii and three targets; without a shift it is the mean's own certificate.
    assert shown.count("It holds for all radii beyond no shift at once.") == 6
    assert len(kl["statements"]) == 3


@pytest.mark.slow
def test_a_target_alone_asks_for_every_way_to_differ(losses: str) -> None:
    found = record(losses, "--target", "0.4")["shifts"]
    assert [one["ball"] for one in found] == ["kl", "tv", "chi2", "subgroup"]
    assert all("certificate" not in one for one in found)
    hopeless = record(losses, "--target", "0.15")["shifts"]
    assert [one["breaking"] for one in hopeless] == [None] * 4
    shown = " ".join(certified(losses, "--target", "0.15").split())
    assert "none not certified below 0.15 under any shift" in shown


def test_printed_radii_and_shares_are_rounded_to_the_safe_side(losses: str) -> None:
    for ball, sign in (("kl", 1), ("tv", 1), ("chi2", 1), ("subgroup", -1)):
        exact = certify_shifted(losses, ball=ball, target=0.4, rule="product").breaking
        line = next(
            line
            for line in certified(losses, "--target", "0.4", "--rule", "product").splitlines()
            if f"breaking radius, {ball}(q" in line.lower()
            or (ball == "subgroup" and "smallest" in line)
        )
        shown = float(line.split(" = ")[1].split()[0])
        assert 0 <= sign * (exact - shown) <= 0.01 * exact


def test_tails_groups_and_another_model(losses: str, others: str) -> None:
    asked = (losses, "--above", "0.1,0.2", "--curve", "--by", "site", "--against", others)
    asked += ("--seed", "5")
    found = record(*asked)
    above = certify_above(losses, [0.1, 0.2])
    assert found["tails"]["above"]["0.1"]["value"] == float(above[0.1])
    steps = found["tails"]["curve"]["steps"]
    assert [step["upper"] for step in steps] == sorted((s["upper"] for s in steps), reverse=True)
    groups = certify_groups(losses, "site", seed=5)
    assert found["groups"]["y"]["certificate"]["value"] == float(groups["y"].certificate)
    against = certify_against(losses, others)
    assert found["against"]["certificate"]["value"] == float(against.certificate)
    shown = certified(*asked, "--long")
    for words in (
        "share of clients above 0.1         <= 0.",
        "Groups by site: the 2 share delta and alpha",
        "  mean difference of losses          <= -0.",
        "exceeds that of the clients scored, for all thresholds at once, by at most",
    ):
        assert words in shown


def test_a_comparison_says_which_is_taken_from_which(losses: str, others: str) -> None:
    for further in ((), ("--long",)):
        shown = certified(losses, "--against", others, *further)
        words = " ".join(shown.split())
        assert "differences are losses here less losses there, worse is a larger loss here" in words
        assert " of 42 sampled" in words


def test_a_bound_of_the_next_client_at_the_largest_loss_says_nothing(tmp_path: Path) -> None:
    rows = [f"{i},{int(i % 5 == 0)},{'xy'[i % 2]}" for i in range(60)]
    table = tmp_path / "zero_one.csv"
    table.write_text("\n".join(["client,loss,site", *rows]))
    line = "loss of the next client            <= 1.000   says nothing: the largest loss"
    assert line in certified(str(table))
    assert "(rank 55 of 60); says nothing: the largest loss" in certified(str(table), "--long")
    grouped = " ".join(certified(str(table), "--by", "site").split())
    assert grouped.count("next client <= 1.000, says nothing: the largest loss") == 2


def test_a_share_and_a_difference_at_their_largest_say_nothing(tmp_path: Path) -> None:
    here, there = tmp_path / "here.csv", tmp_path / "there.csv"
    for table, loss in ((here, 1), (there, 0)):
        table.write_text("client,loss\n" + "".join(f"{i},{loss}\n" for i in range(12)))
    lines = certified(str(here), "--above", "0.5", "--against", str(there)).splitlines()
    empty = [line.split("   ")[-1] for line in lines if "<= 1.000   says nothing; " in line]
    all_of_them, difference = "says nothing; 12 of 12 sampled", "says nothing; sampled +1.000"
    assert empty == [all_of_them, difference, all_of_them]
    here.write_text(there.read_text())
    assert "says nothing" not in "".join(
        line for line in certified(str(here), "--above", "0.5").splitlines() if "share" in line
    )


def test_a_pool_that_was_scored_whole_leaves_no_margin(losses: str) -> None:
    assert "Margin 0.000; least margin" in certified(losses, "--pool-size", "42")


def test_a_share_of_alpha_takes_no_client_more_than_it_must() -> None:
    three = pd.DataFrame({"client": range(87), "loss": 0.1, "site": ["x", "y", "z"] * 29})
    each = certify_groups(three, "site").values()
    assert [(one.n_clients, float(one.next_client)) for one in each] == [(29, 0.1)] * 3


def test_a_page_is_not_written_under_the_name_of_another_kind(losses: str, tmp_path: Path) -> None:
    said = refused(losses, "--report", str(tmp_path / "page.pdf"))
    assert "--report writes HTML and must end in .html or in nothing, got" in said
    with pytest.raises(InputError, match="path writes HTML"):
        latecomer.certify_losses(losses).report(tmp_path / "page.pdf")
    assert not (tmp_path / "page.pdf").exists()


def test_two_shifts_in_one_option_are_told_how_to_be_given(losses: str) -> None:
    said = refused(losses, "--shift", "kl=.1,tv=.1")
    assert "got '.1,tv=.1'; several kinds are given one --shift each" in said


@pytest.mark.slow
def test_a_pool_reaches_everything_but_groups(losses: str, others: str) -> None:
    asked = ("--pool-size", "60", "--rule", "product_wor_averaged", "--target", "0.4")
    beside = ("--above", "0.2", "--curve", "--against", others)
    found = record(losses, *asked, *beside)
    assert {one["ball"] for one in found["shifts"]} == {"kl", "tv", "chi2", "subgroup"}
    assert found["tails"]["above"]["0.2"]["sampling"] == "finite-pool"
    assert found["against"]["worse"]["name"] == "pool_fraction"
    assert found["against"]["certificate"]["name"] == "mean_difference"
    assert "--by needs independent clients" in refused(losses, "--pool-size", "60", "--by", "site")


def through_the_terminal(rule: str, path: str) -> list[str]:
    """What asks for a rule of studies at the terminal, whatever it states."""
    pool = [] if rule == BEST_OF or RULES[rule].iid else ["--pool-size", "60"]
    if rule == BEST_OF:
        return [path, "--rule", BEST_OF, "--best-of", "product,wsr_averaged"]
    if RULES[rule].ordered:
        pool += ["--order", "drawn"]
    ball = rule.removesuffix("_ball")
    doors = {
        "mean": ["--rule", rule],
        "next": ["--rule", rule],
        "share": ["--above", "0.2"],
        "curve": ["--curve"],
        "populations": ["--subgroup", "0.5"] if rule == "subgroup" else ["--shift", f"{ball}=0.1"],
    }
    return [path, *doors[RULES[rule].states], *pool]


def populations(found: dict[str, Any]) -> dict[str, Any] | None:
    """Return what is certified of the one ball, and the one radius, asked for."""
    asked = found.get("shifts", [])
    if not asked:
        return None
    (ball,) = asked
    (value,) = ball["certificate"]["value"]
    return {**ball["certificate"], "value": value}


@pytest.mark.parametrize("rule", [*rules_for("r0"), BEST_OF])
def test_every_rule_of_studies_reaches_a_table(rule: str, losses: str) -> None:
    found = record(*through_the_terminal(rule, losses))
    issued = {
        "mean": found["certificate"],
        "next": found["next_client"],
        "share": found.get("tails", {}).get("above", {}).get("0.2"),
        "curve": found.get("tails", {}).get("curve", {}).get("certificate"),
        "populations": populations(found),
    }[RULES[rule].states if rule in RULES else "mean"]
    assert 0 < issued["value"] < 1
    assert issued["rigorous"] is True
    if rule in (*MEAN_RULES, BEST_OF):
        assert found["rule"] == rule
        shown = certified(
            *through_the_terminal(rule, losses), "--target", "0.5", "--shift", "kl=.01"
        )
        assert "mean loss, KL(Q || P) <= 0.01" in shown


def test_the_tightest_of_several_rules_pays_for_the_choice(losses: str) -> None:
    rules = ("product", "chernoff_kl", "wsr_averaged")
    seed = ("--seed", "8")
    asked = ("--rule", "best_of", "--best-of", ",".join(rules), *seed)
    found = record(losses, *asked)
    each = [
        record(losses, "--rule", rule, "--delta", str(0.05 / 3), *seed)["certificate"]["value"]
        for rule in rules
    ]
    assert found["certificate"]["value"] == min(each)
    free = [record(losses, "--rule", rule)["certificate"]["value"] for rule in rules]
    assert found["certificate"]["value"] > min(free), "a choice after the fact is not free"
    assert set(found["certificate"]["delta"]) == {f"clients, {rule}" for rule in rules}
    assert found["certificate"]["delta_total"] == pytest.approx(0.05)
    # One of them is for independent clients alone, and which one is tightest the losses tell.
    assert found["certificate"]["sampling"] == "iid"
    assert found["best_of"] == list(rules)
    shown = certified(losses, *asked, "--by", "site", "--long")
    assert "rule best_of of product, chernoff_kl, wsr_averaged, delta 0.05" in shown
    assert "best of product, chernoff_kl, wsr_averaged, which share delta" in shown
    assert "and any orders that its rules use, the mean loss over the population" in shown
    assert "seed 8, which draws the 256 orders, was drawn afresh for these clients" in shown
    pooled = ("--rule", "best_of", "--best-of", "product,product_wor", "--pool-size", "60")
    assert "rule product_wor hangs on the order" in refused(losses, *pooled)
    said = certified(losses, *pooled, "--order", "drawn", "--long")
    assert "as measured on these clients' own points" in said


def test_rules_are_listed_in_the_help_and_nowhere_else() -> None:
    shown = " ".join(certified("--help").split())
    assert "How means are bounded. Choose beforehand. product, chernoff_kl," in shown
    listed = shown[shown.index("--rule ") : shown.index("--best-of ")]
    assert all(listed.count(f"{rule}") >= 1 for rule in [*rules_for("table"), BEST_OF])
    source = (Path(__file__).parents[2] / "commands/certify.py").read_text("utf-8")
    assert f'rule: RuleName = "{DEFAULT_RULE}"' in source
    assert not [rule for rule in MEAN_RULES if rule in source.replace(f'"{DEFAULT_RULE}"', "")]


def test_a_secret_sum() -> None:
    asked = ("--log-sum", "6.1286", "--clients", "30", "--gamma", str(1 / 30))
    found = record(*asked)
    exact = product_from_sum(log_sum=6.1286, n_clients=30, delta=0.05, gamma=1 / 30)
    assert found["value"] == float(exact)
    assert "<= 0.272   product rule from a sum" in certified(*asked)


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
        (["LOSSES", "--by", "sit"], "no column 'sit' among client, loss, site, drawn; did you"),
        (["LOSSES", "--against", "none.csv"], "none.csv: no such file"),
        (["LOSSES", "--curve", "--delta", ".7"], "delta must be at most 1/2 for a curve"),
        (["LOSSES", "--rule", "conformal", "--target", ".4"], "rule conformal bounds no mean"),
        (["LOSSES", "--rule", "best_of"], "best_of must be two or more different ones of product,"),
        (["LOSSES", "--rule", "best_of", "--best-of", "product"], "wsr_wor, product_wor,"),
        (["LOSSES", "--rule", "best_of", "--best-of", "product,product"], "got product, product"),
        (["LOSSES", "--rule", "best_of", "--best-of", "product,x"], "got product, x"),
        (
            ["LOSSES", "--best-of", "product,wsr_averaged"],
            "best_of names the rules of rule best_of",
        ),
        (
            ["LOSSES", "--rule", "best_of", "--best-of", "product,wsr_wor"],
            "rule wsr_wor is for finite pools",
        ),
        (["LOSSES", "--loss-max", "0", "--curve"], "loss_max must be one number greater than 0"),
        (["--log-sum", "3"], "--log-sum and --clients go together"),
        (["LOSSES", "--log-sum", "3", "--clients", "9"], "FILE cannot go with --log-sum"),
        (["--log-sum", "3", "--clients", "9"], "--log-sum needs --gamma, the number in (0, 1)"),
        (
            ["--log-sum", "-3", "--clients", "9", "--gamma", ".1"],
            "log_sum must be at least 0, got log_sum=-3",
        ),
        (
            ["--log-sum", "99", "--clients", "9", "--gamma", ".1"],
            "log_sum must be at most n_clients ln(1 / gamma)",
        ),
        *(
            (
                ["--log-sum", "3", "--clients", "9", "--gamma", ".1", *beside],
                f"{beside[0]} cannot go with --log-sum",
            )
            for beside in (
                ["--loss-max", "5"],
                ["--rule", "wsr"],
                ["--alpha", ".2"],
                ["--seed", "2"],
                ["--target", "0"],
                ["--trust"],
                ["--long"],
            )
        ),
        *(
            (["LOSSES", option, column], f"{option[2:]} must name a column that was settled before")
            for option in ("--by", "--order")
            for column in ("client", "loss", "weight")
        ),
        (["--log-sum", "3", "--clients", "9", "--gamma", "1"], "gamma must lie strictly between"),
    ],
)
def test_what_cannot_be_asked_is_one_line(arguments: list[str], said: str, losses: str) -> None:
    assert said in refused(*[losses if one == "LOSSES" else one for one in arguments])


HEAD = b"client,loss,site\n"
# A file, options, and what is said of it; a right answer where the first word is "ok".
# Further damage is in test_damaged_files.py.
FILES: dict[str, tuple[bytes, list[str], str]] = {
    "1.2 of 2": (HEAD + b"a,.1,x\nb,1.2,x\n", ["--loss-max", "2"], "ok 2 clients, mean loss 0.650"),
    "one row": (HEAD + b"a,1,x\n", ["--target", ".5"], "ok 1 client, mean loss 1.000"),
    "zero": (HEAD + b"a,0,x\n", ["--shift", "kl=.1"], "ok 1 client, mean loss 0.000"),
    "bad weight": (b"client,loss,weight\na,.1,inf\n", [], "line 2: weight must be a finite number"),
    "negative weight": (b"client,loss,weight\na,.1,-2\n", [], "weight must be at least 0, got -2"),
}


@pytest.mark.parametrize("name", FILES)
def test_files(name: str, tmp_path: Path) -> None:
    content, options, said = FILES[name]
    path = tmp_path / "losses.csv"
    path.write_bytes(content)
    if said.startswith("ok "):
        assert certified(str(path), *options).startswith(said.removeprefix("ok "))
    else:
        assert said in refused(str(path), *options)


def test_other_clients_in_the_second_file(losses: str, tmp_path: Path) -> None:
    path = tmp_path / "fewer.csv"
    path.write_text("client,loss\nc0,0.1\n")
    assert "client 'c1' is in the first table of losses alone" in refused(
        losses, "--against", str(path)
    )


@pytest.mark.slow
def test_nothing_heavy_is_loaded(losses: str, others: str) -> None:
    code = (
        "import sys; from latecomer.commands.app import main\n"
        "try: main()\n"
        "except SystemExit as done: assert not done.code\n"
        "assert not {'torch', 'pandas', 'sklearn', 'matplotlib'} & set(sys.modules)"
    )
    asked = ["--target", ".4", "--above", ".2", "--curve", "--by", "site", "--against", others]
    asked += ["--report", str(Path(losses).with_name("page.html"))]
    command = [sys.executable, "-c", code, "certify", losses, *asked]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def test_one_client_and_one_group_are_singular(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("one.csv").write_text("client,loss,site\nann,0.2,x\n")
    Path("other.csv").write_text("client,loss\nann,0.1\n")
    asked = ["--by", "site", "--against", "other.csv", "--report", "page.html", "--seed", "1"]
    told = certified("one.csv", *asked)
    assert "Groups by site: the 1 has delta and alpha" in told
    assert "on the same 1 client: differences" in " ".join(told.split())
    assert "1 client, mean 0.200" in told
    assert "The share of the 1 client with" in Path("page.html").read_text("utf-8")
    summed = certified("--log-sum", ".1", "--clients", "1", "--gamma", ".1")
    assert summed.startswith("1 client, sum of")
    few = ["--target", ".97", "--expect", ".01", "--sd", ".01", "--delta", ".5", "--long"]
    assert "1 client  with" in text("plan", *few)
    Path("points.csv").write_text("client,label,prediction\nann,1,1\nann,0,1\n")
    assert "averaged" not in certified("points.csv", "--score", "error")
