"""`latecomer watch`, `verify` and `plan`: what they print, refuse, keep, and do as a file grows."""

import contextlib
import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from terminal import invoke, text

import latecomer
from latecomer.certify.ledger import verify_ledger

LINES = ("ann,0.05", "bob,0.12", "cid,0.00", "dee,0.21", "eve,0.08")
PLAN = "rule: product\ndelta: 0.05\nthreshold: 0.25\ntrained_on: sixty clients\n"


@pytest.fixture
def losses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "losses.csv").write_text("\n".join(["client,loss", *LINES]) + "\n")
    (tmp_path / "plan.yaml").write_text(PLAN)
    return "losses.csv"


def test_once_shows_a_line_a_client_and_what_is_proved(losses: str) -> None:
    marks, header, *rows = text("watch", losses, "--once").splitlines()
    assert marks == "o mean loss so far, | certified mean loss of clients still to come"
    assert header == "client         loss so far  mean <=  0" + " " * 41 + "1"
    assert rows[0] == "ann           0.050  0.050    0.962    o" + " " * 37 + "|"
    assert rows[4].startswith("eve           0.080  0.092    0.520      o")
    assert rows[5:8] == [
        "5 clients, mean loss 0.092",
        "  mean loss of clients still to come <= 0.520   in 95% of streams, at any time",
        "Settled before the first loss: rule product_mixture, delta 0.05.",
    ]
    assert rows[8] == "Valid if"
    assert "none is left out" in rows[9]
    assert rows[-1] == "In full sentences: --long (in_full)."


def test_long_says_it_in_full_sentences(losses: str) -> None:
    shown = text("watch", losses, "--once", "--long")
    rows = shown.splitlines()[7:]
    assert rows[0] == (
        "Plan, to be fixed before the first loss is seen: rule product_mixture, delta 0.05."
    )
    assert rows[1].startswith("With probability at least 95% over the choice of all clients who")
    assert "the mean loss over clients still to come, drawn like them" in rows[1]
    assert "is at most 0.520" in rows[1]
    assert "none is left out" in rows[2]
    assert len(rows) == 3
    assert shown.endswith(f"{latecomer.watch_losses(losses).in_full}\n")
    text("watch", losses, "--once", "--plan", "plan.yaml")
    told = text("verify", "losses.csv.ledger", "--long").splitlines()
    assert told[1].startswith(
        "Plan, to be fixed before the first loss is seen: rule product, delta"
    )
    asked = ("plan", "--target", ".25", "--pilot", losses)
    planned = latecomer.plan_hold_out(0.25, pilot=losses)
    assert text(*asked, "--long") == f"{planned.in_full}\n"
    assert text(*asked) == f"{planned}\n"


@pytest.mark.parametrize(
    "asked",
    [
        *("watch losses.csv --once", "watch losses.csv --once --threshold .02 --run-length 5"),
        "watch losses.csv --once --threshold .25 --alpha .001 --run-length 12345678",
        "watch losses.csv --once --rule product --loss-max 1000",
        "watch losses.csv --once --plan plan.yaml",
        *("plan --target .25 --expect .17 --sd .09", "plan --target .25 --pilot losses.csv"),
        "plan --target .3 --pilot losses.csv --hopeless .031 --clients 40 --rule product_mixture",
    ],
)
def test_what_is_printed_fits_80_columns(losses: str, asked: str) -> None:
    with Path(losses).open("a") as file:
        file.writelines(f"a client with a long name {i},{i % 2}\n" for i in range(30))
    shown = text(*asked.split())
    if "--plan" in asked:
        shown += text("verify", "losses.csv.ledger")
    assert [line for line in shown.splitlines() if len(line) > 80] == []


def test_a_rule_that_a_client_ends_names_it_and_what_the_default_gives(losses: str) -> None:
    with Path(losses).open("a") as file:
        file.write("fay,1\n" + "".join(f"g{i},0.05\n" for i in range(40)))
    said = "Client 'fay' has the largest loss, with which rule product can prove nothing more;"
    default = latecomer.watch_losses(losses)
    shown = text("watch", losses, "--once", "--rule", "product")
    instead = f"{said} product_mixture, the default, would give at most 0."
    assert instead in " ".join(shown.split())
    product = latecomer.watch_losses(losses, rule="product")
    assert str(product) in shown
    assert instead in product.in_full
    told = {"client": "fay", "rule": "product", "instead": "product_mixture"}
    told["value"] = default.moments[-1].certificate
    assert latecomer.watch_losses(losses, rule="product").to_dict()["voided"] == told
    lines = text("watch", losses, "--once", "--rule", "product", "--json").splitlines()
    assert ["voided" in json.loads(one) for one in lines] == [False] * 5 + [True] * 41
    assert json.loads(lines[-1])["voided"] == told
    assert default.to_dict()["voided"] is None
    assert "Client " not in str(default) + default.in_full
    assert default.moments[-1].certificate < default.moments[5].certificate


def test_json_is_a_line_a_client(losses: str) -> None:
    told = [
        json.loads(line)
        for line in text(
            *("watch", losses, "--once", "--json", "--threshold", ".02"),
            *("--alpha", ".1", "--run-length", "5"),
        ).splitlines()
    ]
    assert [(one["n"], one["client"]) for one in told] == list(
        enumerate(["ann", "bob", "cid", "dee", "eve"], start=1)
    )
    rings = [one["rings"] for one in told]
    assert rings == [[], ["restarted"], [], [], ["drift"]]


def test_an_alarm_says_what_it_promises(losses: str) -> None:
    shown = text(
        *("watch", losses, "--once", "--rule", "betting_mixture", "--threshold", ".02"),
        *("--alpha", ".1", "--run-length", "5", "--loss-max", "2"),
    ).splitlines()
    assert shown[0].endswith(": threshold")
    assert shown[4].startswith("DRIFT ALARM (restarted) at client 2, bob")
    begun = shown.index("Alarms, false while new clients score at most 0.02 in expectation:")
    assert shown[begun + 1] == "  evidence at 10       RANG AT CLIENT 5 (ever falsely: at most 10%)"
    assert shown[begun + 2] == (
        "  restarted at 5       RANG AT CLIENT 2 (falsely once in 5 clients or more)"
    )
    assert "another population" in shown[begun + 3]
    settled = {"threshold": 0.02, "alpha": 0.1, "run_length": 5, "loss_max": 2.0}
    full = latecomer.watch_losses(losses, rule="betting_mixture", **settled).in_full.splitlines()
    rings = "Alarm at evidence 10: ever rings with probability at most 0.1 while new clients"
    assert rings in full[-4]
    assert full[-3].endswith("in expectation; RANG AT CLIENT 2.")
    assert "another population" in full[-2]
    quiet = text("watch", losses, "--once", "--threshold", ".4")
    assert quiet.count("has not rung") == 2
    assert "another population" not in quiet


def test_a_plan_makes_a_ledger_that_verifies(losses: str) -> None:
    shown = text("watch", losses, "--once", "--plan", "plan.yaml")
    assert "trained on sixty clients" in " ".join(shown.split())
    kept = verify_ledger("losses.csv.ledger")
    assert f"Plan's hash {kept.plan_hash}" in shown
    assert f"Last hash   {kept.last_hash}" in shown
    first, why, *later = shown.splitlines()
    assert first == f"Plan's hash {kept.plan_hash}"
    assert why == "Give it away before the first client arrives."
    again = text("watch", losses, "--once", "--plan", "plan.yaml")
    assert again.splitlines() == later
    Path("losses.csv").unlink()
    Path("plan.yaml").unlink()
    one, two, *rest = text("verify", "losses.csv.ledger").splitlines()
    head = f"{one} {two}"
    assert head == (
        "losses.csv.ledger: 5 clients; chain, plan and every number hold, if this is the only"
        " ledger of this plan, whole and in the order of arrival."
    )
    assert rest == later[7:]
    told = json.loads(text("verify", "losses.csv.ledger", "--json"))
    assert told["n_clients"] == 5
    assert told["last_hash"] == kept.last_hash
    assert told["certificate"] == kept.moments[-1].certificate
    assert told["plan"]["trained_on"] == "sixty clients"
    assert told["holds"] in head
    assert (told["model"], told["readings"], told["begun"]) == (None, 1, kept.head.begun)
    assert told["arrived"] == [kept.times[0]] * 2


def test_clients_read_together_wait_for_the_disk_once(
    losses: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many they are; none is shown before."""
    asked: list[int] = []
    monkeypatch.setattr(os, "fsync", asked.append)
    with Path(losses).open("a") as file:
        file.writelines(f"c{i},0.1\n" for i in range(300))
    shown = text("watch", losses, "--once", "--plan", "plan.yaml")
    assert len(asked) <= 3, "the plan, its folder, and all clients"
    assert len(verify_ledger("losses.csv.ledger").moments) == 305
    assert "c299 " in shown


def test_a_ledger_names_the_model_and_is_held_to_a_hash_kept_elsewhere(losses: str) -> None:
    Path("model.pt").write_bytes(b"weights")
    asked = ("watch", losses, "--once", "--plan", "plan.yaml", "--model", "model.pt")
    shown = text(*asked)
    kept = verify_ledger("losses.csv.ledger")
    assert f"model's hash {kept.head.model}" in " ".join(shown.split())
    assert "in 1 reading of the file" in " ".join(shown.split())
    for digest, whose in ((kept.plan_hash, "the plan"), (kept.hashes[2], "line 3, client 2")):
        told = text("verify", "losses.csv.ledger", "--expect", digest)
        assert f"The hash expected is that of {whose}." in told
    told = json.loads(text("verify", "losses.csv.ledger", "--json", "--expect", kept.plan_hash))
    assert (told["expected"], told["model"]) == (kept.plan_hash, kept.head.model)
    wrong = invoke("verify", "losses.csv.ledger", "--expect", "ab" * 32)
    assert wrong[:2] == (2, "")
    assert wrong[2].startswith("latecomer: losses.csv.ledger: no line has the hash expected, abab")
    assert wrong[2].count("\n") == 1
    Path("model.pt").write_bytes(b"other weights")
    code, out, err = invoke(*asked)
    assert (code, out) == (2, "")
    assert "losses.csv.ledger: is of another model: " in err
    Path("losses.csv.ledger").unlink()
    text(*asked)
    assert verify_ledger("losses.csv.ledger").plan_hash != kept.plan_hash


def test_the_column_of_watch_is_a_mean_and_says_so(losses: str) -> None:
    shown = text("watch", losses, "--once")
    assert "next" not in "".join(shown.splitlines()[:2])
    assert "loss of the next client" not in shown
    watched = latecomer.watch_losses(losses)
    assert "mean loss over clients still to come" in watched.sentence
    assert "loss of the next client" not in str(watched) + watched.in_full


def test_mistakes_are_one_line(losses: str) -> None:
    text("watch", losses, "--once", "--plan", "plan.yaml")
    changed = Path("changed.ledger")
    changed.write_text(Path("losses.csv.ledger").read_text().replace('"loss":0.21', '"loss":0.12'))
    Path("short.csv").write_text("client,loss\nann,0.05\n")
    Path("other.csv").write_text("client,loss\nann,0.05\nbob,0.13\n" + "\n".join(LINES[2:]) + "\n")
    Path("bad.yaml").write_text("detla: 0.1\n")
    Path("one.csv").write_text("client,loss\nann,0.05\n")
    kept = ("--once", "--plan", "plan.yaml", "--ledger", "losses.csv.ledger")
    for arguments, line in (
        (["watch", "absent.csv"], "absent.csv: no such file"),
        (
            ["watch", losses, "--rule", "chernoff_kl"],
            "rule must be one of product_mixture, product, betting_mixture, got 'chernoff_kl'",
        ),
        (
            ["watch", losses, "--threshold", "1"],
            "threshold must lie strictly between 0 and 1, got 1",
        ),
        (
            ["watch", losses, "--alpha", "low"],
            "invalid value for --alpha: must be a number, got 'low'",
        ),
        (
            ["watch", losses, "--model", "plan.yaml"],
            "--model needs --plan: the ledger keeps the model's hash",
        ),
        (
            ["watch", losses, "--once", "--plan", "plan.yaml", "--model", "absent.pt"],
            "model absent.pt: cannot be read: No such file or directory",
        ),
        (
            ["verify", "losses.csv.ledger", "--expect", "90af"],
            "expect must be a hash of 64 hexadecimal digits, got '90af'",
        ),
        (["watch", losses, "--ledger", "x"], "--ledger needs --plan: a ledger has the plan on top"),
        (
            ["watch", losses, "--plan", "plan.yaml", "--delta", ".1", "--run-length", "9"],
            "plan.yaml is the plan: leave --delta, --run-length out",
        ),
        (
            ["watch", losses, "--plan", "bad.yaml"],
            "bad.yaml: detla is no setting of a plan; did you mean 'delta'?",
        ),
        (["watch", "short.csv", *kept], "short.csv: holds 1 client, the ledger has 5 already"),
        (
            ["watch", "other.csv", *kept],
            "other.csv: client 2 is 'bob' with loss 0.13, in the ledger it is 'bob' with loss 0.12",
        ),
        (
            ["verify", "changed.ledger"],
            "changed.ledger, line 5: changed: it is not what its hash was made of",
        ),
        (["verify", "plan.yaml"], "plan.yaml, line 1: changed, or no line of a ledger"),
        (["verify", "absent"], "absent: no such file"),
        (["plan"], "missing option '--target'"),
        (
            ["plan", "--target", ".25", "--expect", ".1"],
            "--expect and --sd are needed, or --pilot with losses of some clients",
        ),
        (
            ["plan", "--target", ".25", "--sd", ".1", "--pilot", losses],
            "--pilot gives mean and deviation: leave --expect and --sd out",
        ),
        (
            ["plan", "--target", ".25", "--pilot", "one.csv"],
            "one.csv: a pilot needs at least 2 clients, got 1",
        ),
        (
            ["plan", "--target", "2", "--expect", ".17", "--sd", ".09"],
            "target must lie strictly between 0 and 1, got 2.0",
        ),
        (
            ["plan", "--target", ".25", "--pilot", losses, "--hopeless", "1"],
            "hopeless must be at least 0 and less than 1, got 1.0",
        ),
        (
            ["plan", "--target", ".25", "--pilot", losses, "--hopeless", "2%"],
            "invalid value for --hopeless: must be a number, got '2%'",
        ),
        (
            ["plan", "--target", ".25", "--expect", ".1", "--sd", ".1", "--rule", "blnd"],
            "rule must be one of blend, product, product_mixture, chernoff_kl, betting_mixture, got"
            " 'blnd'; did you mean 'blend'?",
        ),
    ):
        assert invoke(*arguments) == (2, "", f"latecomer: {line}\n")


@pytest.mark.slow
def test_plan_says_how_many_and_what_is_out_of_reach(losses: str) -> None:
    asked = ("plan", "--target", ".25", "--expect", ".17", "--sd", ".09")
    shown = text(*asked).splitlines()
    found = json.loads(text(*asked, "--json"))
    assert shown[0] == "Clients to hold out for a mean loss certified to be at most 0.250"
    assert shown[1] == f"  enough in half of all draws        {found['even_odds']}"
    assert shown[2] == f"  enough in 9 of 10 draws            {found['likely']}"
    assert shown[3] == (
        f"  the least, if all score 0.170      {found['floor']}   by any deterministic rule"
    )
    assert text(*asked, "--clients", "20").count("none up to 20") == 3
    shown = text(*asked, "--long").splitlines()
    assert shown[1] == f"  {found['even_odds']:>5} clients  with probability 1/2"
    assert shown[2] == f"  {found['likely']:>5} clients  with probability 9/10"
    assert shown[3].startswith(f"  {found['floor']:>5} clients  at least by any")
    few = text(*asked, "--clients", "20", "--long")
    assert few.count("not reachable with 20 clients") == 3
    never = text("plan", "--target", ".1", "--expect", ".17", "--sd", ".09")
    assert "No certificate is below the mean of what clients score." in never
    pilot = text("plan", "--target", ".25", "--pilot", losses)
    assert "Supposed: they score 0.092 on average (sd 0.079)" in pilot
    assert "hold out others" in pilot
    pilot = text("plan", "--target", ".25", "--pilot", losses, "--long")
    for said in (shown[-1], few.splitlines()[-1]):
        assert said.startswith(
            "Simulated with Beta losses alone: none of these clients is hopeless"
        )
    assert pilot.splitlines()[-1].startswith(
        "Simulated by drawing from the losses of the pilot's 5 clients: what none of them showed"
    )


@pytest.mark.slow
def test_plan_counts_on_hopeless_clients(losses: str) -> None:
    asked = ("plan", "--target", ".25", "--expect", ".17", "--sd", ".09", "--hopeless", ".02")
    head, *shown = text(*asked, "--long").splitlines()
    assert head.endswith(
        "if 0.02 of them are hopeless (a loss of 1) and the others score 0.170 on average"
        " (sd 0.090), which is 0.187 for all:"
    )
    assert shown[2].endswith("at least by any deterministic rule, if all score 0.187")
    assert shown[-1].startswith("Simulated with Beta losses, beside the hopeless clients.")
    found = json.loads(text(*asked, "--json"))
    assert (found["rule"], found["hopeless"]) == ("blend", 0.02)
    assert found["mean"] == pytest.approx(0.1866)
    product = text(*asked, "--rule", "product")
    assert product.count("none up to 500") == 2
    beside = " ".join(
        text("plan", "--target", ".4", "--pilot", losses, "--hopeless", ".05").split()
    )
    assert "the losses of the pilot's 5 clients, beside the hopeless clients" in beside
    never = text("plan", "--target", ".25", "--pilot", losses, "--hopeless", ".3")
    assert "No certificate is below the mean of what clients score." in never


def started(folder: Path, *arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "latecomer", "watch", "losses.csv", *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )


def append(folder: Path, line: str) -> None:
    with (folder / "losses.csv").open("a") as file:
        file.write(f"{line}\n")


def test_it_goes_on_as_lines_are_appended_until_ctrl_c(tmp_path: Path, losses: str) -> None:
    process = started(tmp_path)
    with process:
        assert process.stdout is not None
        seen = [process.stdout.readline() for _ in range(7)]
        append(tmp_path, "fay,0.3")
        seen.append(process.stdout.readline())
        process.send_signal(signal.SIGINT)
        rest, err = process.communicate(timeout=30)
    assert seen[-1].startswith("fay           0.300")
    assert "mean loss of clients still to come <= " in rest
    assert (process.returncode, err) == (130, "latecomer: stopped after 6 clients\n")


@pytest.mark.slow
def test_kills_lose_nothing_that_was_shown(tmp_path: Path, losses: str) -> None:
    """SIGKILL while lines come: what was printed is in the ledger, and the next one goes on."""
    shown: list[dict[str, Any]] = []
    arrived = len(LINES)
    for kill in range(6):
        process = started(tmp_path, "--plan", "plan.yaml", "--json")
        with process:
            assert process.stdout is not None
            first = process.stdout.readline()
            for _ in range(20):
                arrived += 1
                append(tmp_path, f"client {arrived},0.{arrived % 50:02d}")
                time.sleep(0.01 * (kill % 3))
            process.kill()
            out = first + process.stdout.read()
        told = []
        for line in out.splitlines():
            with contextlib.suppress(ValueError):
                told.append(json.loads(line))
        assert [one["n"] for one in told[: len(shown)]] == [one["n"] for one in shown][: len(told)]
        shown = max(shown, told, key=len)
        with contextlib.suppress(Exception):
            verify_ledger(tmp_path / "losses.csv.ledger")
        text("watch", losses, "--once", "--plan", "plan.yaml")
        kept = verify_ledger(tmp_path / "losses.csv.ledger")
        assert len(kept.moments) == arrived
        for one in shown:
            moment = kept.moments[one["n"] - 1]
            assert (moment.client, moment.certificate) == (one["client"], one["certificate"])


@pytest.mark.parametrize("lines", [1, 2])
def test_a_full_disk_is_told_with_the_ledgers_name(
    losses: str, monkeypatch: pytest.MonkeyPatch, lines: int
) -> None:
    written = []

    def write(handle: int, line: bytes) -> None:
        written.append(line)
        if len(written) == lines:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("latecomer.certify.ledger._write", write)
    code, _, err = invoke("watch", losses, "--once", "--plan", "plan.yaml", "--ledger", "kept")
    assert (code, err) == (2, "latecomer: kept: No space left on device\n")
