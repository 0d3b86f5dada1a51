"""What the commands print, for people and for machines, and what they do not load."""

import json
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import latecomer
from latecomer.bounds import CATALOGUE
from latecomer.certify.words import rounded
from latecomer.commands.app import app
from latecomer.models import outside
from latecomer.models.methods import METHODS

RUNNER = CliRunner()
MAURER = ["bound", "maurer", "empirical_risk=0.05", "kl=100", "n_samples=5000", "delta=0.05"]
FIVE = "client,loss\nann,0.05\nbob,0.12\ncid,0.00\ndee,0.21\neve,0.08\n"


def text(*arguments: str) -> str:
    result = RUNNER.invoke(app, list(arguments), prog_name="latecomer")
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout


def record(*arguments: str) -> Any:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    return json.loads(text(*arguments, "--json"), parse_constant=refuse)


@pytest.fixture
def five(tmp_path: Path) -> str:
    path = tmp_path / "losses.csv"
    path.write_text(FIVE)
    return str(path)


def test_version_and_help() -> None:
    assert text("--version") == f"latecomer {latecomer.__version__}\n"
    assert text() == text("--help")
    for command in ("run", "report", "studies", "methods", "bounds", "datasets", "bound"):
        assert f"  {command} " in text("--help")


def test_bound_shows_the_sum_and_what_it_is_about() -> None:
    first, about, *rest = text(*MAURER).splitlines()
    assert first == "0.1539   = 0.0500 empirical risk + 0.1039 complexity"
    assert about.startswith("unseen data of one client, Gibbs predictor, i.i.d. sampling; Maurer")
    assert rest[0].startswith("holds if: ")
    assert rest[1] == "failure probability: 0.05 on the samples"


def test_bound_as_json() -> None:
    found = record(*MAURER)
    assert found["value"] == pytest.approx(0.1538978, abs=1e-7)
    assert sum(found["terms"].values()) == pytest.approx(found["value"])
    inputs = {"empirical_risk": 0.05, "kl": 100, "n_samples": 5000, "delta": 0.05}
    assert found["inputs"] == inputs
    assert found["population"] == "one-client"
    assert (found["name"], found["kind"]) == ("maurer", "certificate")
    assert (found["rigorous"], found["vacuous"]) == (True, False)


def test_bound_takes_lists_and_exponents() -> None:
    lines = text(
        "bound", "maurer", "empirical_risk=0", "kl=[1e1, 1e9]", "n_samples=100", "delta=5e-2"
    )
    first, second = lines.splitlines()[:2]
    assert first.startswith("kl=10  0.2828   = 0.0000 empirical risk + 0.2828 complexity")
    assert second.startswith("kl=1e+09  2236.0680 ")
    assert "says nothing where it is at or above the largest loss, 1" in lines
    two = text("bound", "maurer", "empirical_risk=[.1,.2]", "kl=[1,2]", "n_samples=100", "delta=.1")
    assert [line[:5] for line in two.splitlines()[:2]] == ["[0]  ", "[1]  "]


def test_vacuous_and_unproven_bounds_say_so() -> None:
    shown = text("bound", "maurer", "empirical_risk=.5", "kl=1e4", "n_samples=10", "delta=.1")
    assert "says nothing: at or above the largest loss, 1" in shown
    numbers = "empirical_risk=.1 kl_hyper=0 sum_kl=0 n_clients=2 n_samples=100 delta=.05"
    printed = ["bound", "pefll_b1", *numbers.split(), "variant=printed"]
    assert "not a proven bound: " in text(*printed)
    assert record(*printed)["rigorous"] is False


def test_quantities_are_printed_in_full() -> None:
    assert text("bound", "kl", "q=.1", "p=.2").splitlines()[0] == "0.03669001403"
    assert record("bound", "kl", "q=.1", "p=0")["value"] == "inf"
    nearest = record("bound", "nearest", "novel_counts=[5,40]", "train_counts=[[1,0],[0,1]]")
    assert nearest["value"]["divergence"] == pytest.approx(0.05298, abs=1e-5)


def test_bound_without_arguments_explains_itself() -> None:
    shown = text("bound", "pefll_32")
    assert shown == text("bounds", "pefll_32")
    assert "source: PeFLL (ICLR 2024), Theorem 3.2" in shown
    assert "usage: latecomer bound pefll_32 empirical_risk=... " in shown
    assert "[n_samples=...]" in shown


def test_lists_have_a_name_each() -> None:
    assert {entry["name"] for entry in record("bounds")} == set(CATALOGUE)
    assert {"digits", "npz"} <= {entry["name"] for entry in record("datasets")}
    assert "quickstart" in {entry["name"] for entry in record("studies")}
    methods = {entry["name"]: entry for entry in record("methods")}
    assert {"local", "fedavg", "per_fedavg", "pfedhn", "pefll"} <= set(methods)
    assert methods["pefll"]["personalization"] == "forward"
    assert methods["pefll"]["bytes_down"] > methods["fedavg"]["bytes_down"] == 4 * 4538
    assert (methods["local"]["bytes_up"], methods["local"]["kept_per_client"]) == (0, 4538)


def test_methods_say_what_they_send_and_keep() -> None:
    head, *lines = text("methods", "--long").splitlines()
    for word in ("needs labels", "bytes up", "bytes down", "kept per client", "paper"):
        assert f"  {word}" in head
    fedavg = next(line for line in lines if line.startswith("fedavg "))
    assert fedavg.split()[1:6] == ["global", "no", "18152", "18152", "0"]


def test_methods_say_what_newcomers_need_and_get() -> None:
    head, *lines = text("methods", "--newcomers").splitlines()
    for word in ("labels", "points", "gets", "steps", "rounds", "down", "up"):
        assert f"  {word}" in head
    assert len(lines) == len(METHODS)
    assert next(line for line in lines if line.startswith("fedavg ")).split() == [
        *("fedavg", "no", "0", "the", "one", "model", "0", "1", "4538", "0"),
    ]
    listed = json.loads(text("methods", "--newcomers", "--json"))
    assert {one["name"] for one in listed} == set(METHODS)


def test_methods_of_other_packages_are_listed_and_a_broken_one_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "outside_alike.py").write_text(
        "from dataclasses import dataclass\n"
        "from latecomer.models.methods.fedavg import FedAvg\n"
        "@dataclass(frozen=True, kw_only=True)\n"
        "class Alike(FedAvg):\n"
        "    name = 'alike'\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    offered = [
        EntryPoint("alike", "outside_alike:Alike", outside.GROUP),
        EntryPoint("broken", "no_such_module:Mine", outside.GROUP),
    ]
    monkeypatch.setattr(outside, "entry_points", lambda group: offered)
    outside.offered.cache_clear()
    try:
        found = {entry["name"]: entry for entry in record("methods")}
        assert "broken " in text("methods")
    finally:
        outside.offered.cache_clear()
    assert found["alike"] == found["fedavg"] | {"name": "alike"}
    said = "cannot be used: there is no module no_such_module"
    assert found["broken"] == {"name": "broken", "paper": said}


def test_long_lists_in_a_pipe_are_a_line_an_entry() -> None:
    head, *lines = text("bounds", "--long").splitlines()
    assert head.split() == ["name", "family", "population", "claim"]
    assert len(lines) == len(CATALOGUE)
    claims = head.index("claim")
    assert all(CATALOGUE[line.split()[0]].claim == line[claims:] for line in lines)


def test_certify_on_five_clients(five: str) -> None:
    assert text("certify", five, "--seed", "1", "--long").splitlines() == [
        "5 clients, mean loss 0.092 (sd 0.079)",
        "Plan, to be fixed before the first loss is seen: rule blend, delta 0.05, alpha 0.1, 256"
        " orders of the losses drawn at random.",
        "  mean loss of clients like these    <= 0.503   blend of the product rule and bets over"
        " drawn orders; margin 0.411, least margin for equal scores 0.409",
        "  by 256 orders drawn with --seed 1, sd 0 over such draws",
        "  loss of the next client            <= 1.000   says nothing: takes 9 clients",
        "With probability at least 95% over the choice of these 5 clients and orders drawn afresh"
        " by seed 1, the mean loss over the population that these clients were drawn from,"
        " each served by the model that was scored, is at most 0.503: expected losses, over"
        " new clients, their points and any draws made for each of them.",
        "With probability at least 90% over these clients and the next one together, the loss of"
        " the next client, drawn like these, served by the model that was scored, is at most"
        " 1.000: its loss as measured on its own points.",
        "Holds if: the clients were drawn independently, from those the bound is about; these"
        " clients played no part in training or in choosing the model; the rule and how many"
        " clients to score were settled before looking at their losses; seed 1, which draws the 256"
        " orders, was drawn afresh for these clients and is that of no other sample; losses"
        " lie in [0, 1];"
        " whatever is drawn to serve a client (noise, minibatches) is drawn for it alone; the next"
        " client is drawn like these.",
        "Failure probability: 0.05 on the clients and orders for the mean loss; 0.1 on the next"
        " client (alpha), a statement of its own.",
        "Does not say: anything about a different kind of client, or about the model after further"
        " training.",
        "Were these clients drawn from a finite set (cut from one data set, say)? Then certify with"
        " --pool-size N (pool_size=N), all of its untrained clients; if not, say --independent"
        " (independent=True).",
        "Both together: with probability at least 85% (1 less 0.05 for mean loss; 0.1 for next"
        " client).",
    ]


@pytest.mark.parametrize(
    "asked",
    [
        ["--rule", "product_wor_averaged", "--pool-size", "90"],
        ["--rule", "conformal"],
        ["--rule", "best_of", "--best-of", "product,chernoff_kl"],
        ["--shift", "kl=0.05,0.1", "--target", "0.9", "--above", "0.1,.2", "--curve"],
        ["--by", "site", "--against", "FIVE", "--independent", "--joint"],
    ],
)
def test_whatever_is_asked_fits_80_columns(asked: list[str], tmp_path: Path) -> None:
    path = tmp_path / "losses.csv"
    rows = [f"client number {i},0.{i % 7},{'ab'[i % 2]}" for i in range(60)]
    path.write_text("\n".join(["client,loss,site", *rows]))
    words = [str(path) if word == "FIVE" else word for word in asked]
    shown = text("certify", str(path), *words).splitlines()
    assert max(len(line) for line in shown if str(tmp_path) not in line) < 80
    full = text("certify", str(path), *words, "--long")
    assumed = full.partition("Holds if: ")[2].split(".\n")[0].split("; ")
    told = " ".join(" ".join(shown).split())
    assert [one for one in assumed if "seed" not in one and one not in told] == []


def test_certify_options(five: str) -> None:
    pooled = ("certify", five, "--rule", "product_wor_averaged", "--pool-size", "50")
    found = record(*pooled, "--alpha", "0.2", "--seed", "3")
    assert found["certificate"]["name"] == "product_wor_averaged"
    assert (found["orders"], found["seed"]) == (256, 3)
    told = text(*pooled, "--seed", "3", "--long")
    assert "256 orders of the losses drawn at random, a pool of 50 clients" in told
    assert "by 256 orders drawn with --seed 3, sd " in told
    left = rounded(found["others"], decimals=3, up=True)
    assert f"mean loss of the 45 not scored     <= {left}" in told
    assert "For the 45 clients of the pool that were not scored" in found["statements"][0]
    assert found["certificate"]["sampling"] == "finite-pool"
    assert found["next_client"]["value"] == 0.21
    assert found["next_client"]["rank"] == 5
    assert "the pool of 50 clients" in text("certify", five, "--pool-size", "50")
    assert "quantile (rank 5 of 5)" in text(
        *("certify", five, "--rule", "conformal", "--alpha", ".2", "--long")
    )
    assert "mean loss of" not in text("certify", five, "--rule", "conformal")
    scaled = record("certify", five, "--loss-max", "2")
    assert scaled["certificate"]["loss_max"] == 2
    assert scaled["certificate"]["value"] > record("certify", five)["certificate"]["value"]


def test_certify_json_agrees_with_python(five: str) -> None:
    found = record("certify", five, "--delta", ".1", "--seed", "1")
    assert len(found["statements"]) == 2
    assert found == latecomer.certify_losses(five, delta=0.1, seed=1).to_dict()


def test_one_client_and_a_loss_of_one(tmp_path: Path) -> None:
    path = tmp_path / "one.csv"
    path.write_text("client,loss\na,1\n")
    shown = text("certify", str(path))
    assert shown.startswith("1 client, mean loss 1.000\n")
    assert "says nothing: the largest loss" in shown
    assert "says nothing: it is the largest loss" in text("certify", str(path), "--long")
    assert record("certify", str(path))["sd"] is None


@pytest.mark.parametrize(
    ("value", "up", "shown"),
    [
        (0.15380001, True, "0.1539"),
        (0.1538, True, "0.1538"),
        (0.15384, False, "0.1538"),
        (0.0, True, "0.0000"),
        (-0.00012345, False, "-1.234e-4"),
        (1.23401e-7, True, "1.235e-7"),
        (9.9999e-4, True, "1.000e-3"),
        (1234567.0, True, "1.235e+6"),
        (float("inf"), True, "infinite"),
    ],
)
def test_numbers_are_rounded_outward(value: float, up: bool, shown: str) -> None:
    assert rounded(value, up=up) == shown


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["bounds"],
        ["bounds", "maurer"],
        ["studies"],
        ["studies", "quickstart"],
        ["methods"],
        ["methods", "fedavg"],
        ["methods", "--newcomers"],
        ["rules"],
        ["rules", "product"],
        ["shifts"],
        ["shifts", "blur"],
        ["datasets"],
        ["datasets", "cifar10"],
        ["bound", "kl", "q=.1", "p=.2"],
        ["bound", "client_threshold", "scores=[[.1, .2, .9], [.3, .4], [.5], [.2]]", "alpha=.3"],
        ["certify", "FIVE"],
        ["watch", "FIVE", "--once"],
        ["verify", "LEDGER"],
        ["plan", "--target", ".5", "--pilot", "FIVE"],
    ],
)
def test_light_commands_load_no_torch(arguments: list[str], five: str) -> None:
    code = (
        "import sys\nfrom latecomer.commands.app import main\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code, end.code\n"
        "heavy = {'torch', 'pandas', 'sklearn', 'matplotlib'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    plan, ledger = Path(five).with_name("plan.yaml"), f"{five}.ledger"
    plan.write_text("delta: 0.1\n")
    if "LEDGER" in arguments:
        text("watch", five, "--once", "--plan", str(plan))
    files = {"FIVE": five, "LEDGER": ledger}
    command = [sys.executable, "-c", code, *(files.get(a, a) for a in arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
