"""README is short, and everything typed there is run, or is what made a run that is kept."""

import contextlib
import io
import json
import math
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import typer.main
from typer.testing import CliRunner

import latecomer
from latecomer import load_study
from latecomer.commands.app import app
from latecomer.eval.datasets import load_dataset
from latecomer.eval.results.rows import load_run
from latecomer.reports.display.section import Material
from latecomer.reports.page.questions import ASKS

ROOT = Path(__file__).resolve().parents[2]
KEPT = ROOT / "reports" / "reference"
PAGE = (ROOT / "README.md").read_text("utf-8")
WORDS = " ".join(PAGE.replace("\n> ", " ").split())
MOST_BYTES = 9_216
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCKS = BLOCK.findall(PAGE)
FENCES = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
# What a run that is kept answers is quoted; the command is the one that made it.
RUNS = {
    "latecomer run people": ("people", "certificate"),
    "latecomer run bound-vs-accuracy": ("bound-vs-accuracy-digits", "bounds"),
    "latecomer run shift-robustness": ("shift-robustness-digits", "shift"),
    "latecomer run generalization-gap": ("generalization-gap-digits", "gap"),
}
INSTALLING = ("python3 -m venv .venv && . .venv/bin/activate", "pip install .", "make quickstart")


@pytest.fixture(scope="module")
def typed(commands):
    consoles = (text for kind, text in BLOCKS if kind == "console")
    return [command for command, _ in commands(*consoles)]


def trains(command):
    return command.startswith("latecomer run mine.yaml")


def test_it_is_two_screens_and_a_map():
    assert len(PAGE.encode()) <= MOST_BYTES


def test_every_block_is_one_that_is_run(typed):
    assert PAGE.count("```") == 2 * len(BLOCKS)
    assert {kind for kind, _ in BLOCKS} == {"console", "python", "yaml"}
    assert not re.search(r"^(?: {4}|\t)\S", FENCES.sub("", PAGE), re.MULTILINE), "a block unfenced"
    assert [one for one in INSTALLING if one not in typed] == []
    assert sum(map(trains, typed)) == 2
    assert sorted(RUNS.keys() - set(typed)) == ["latecomer run bound-vs-accuracy"]
    assert len(typed) > len(INSTALLING) + len(RUNS) + 2


def assert_shown(lines, printed):
    """Each line that is shown was printed, in order; ``...`` stands for any number of them."""
    left = iter(printed.splitlines())
    for line in lines:
        if line != "...":
            assert line in left, f"{line}\n{printed}"


@pytest.mark.slow
def test_the_certificate_is_what_terminal_and_python_print(commands, shell, typed, monkeypatch):
    ran = 0
    for kind, text in BLOCKS:
        if kind == "console":
            for command, lines in commands(text):
                if command not in (*INSTALLING, *RUNS) and not trains(command):
                    said = shell(command, columns=100)
                    assert_shown(lines, said)
                    ran += 1
                    if command.startswith("latecomer certify"):
                        certified = said
        elif text.startswith("import latecomer\n"):
            monkeypatch.chdir(shell.place)
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(compile(text, "README.md", "exec"), {})
            assert out.getvalue() == certified
            ran += 1
    assert ran == len(typed) - len(INSTALLING) - len(RUNS) + 1 - 2 + 1
    assert "Made by latecomer from" in (shell.place / "page.html").read_text("utf-8")


@pytest.mark.nightly
def test_the_study_of_ones_own_and_its_network_run_as_they_stand(commands, shell):
    for kind, text in BLOCKS:
        if kind == "console":
            for command, lines in commands(text):
                if trains(command) or "mine.csv" in command:
                    assert_shown(lines, shell(command, columns=100))
        elif named := re.match(r"# (\S+)\n", text):
            (shell.place / named[1]).write_text(text)
    for name in ("mine", "mine-net"):
        assert (shell.place / "runs" / name / "report.html").is_file()


def test_the_study_of_ones_own_is_understood(typed, tmp_path, monkeypatch):
    """And has as many clients as are said to be left to train."""
    monkeypatch.chdir(tmp_path)
    (made,) = (one for one in typed if "> mine.csv" in one)
    subprocess.run(["bash", "-c", made], check=True)
    (study,) = (text for kind, text in BLOCKS if kind == "yaml")
    Path("mine.yaml").write_text(study)
    read = load_study("mine.yaml")
    data = load_dataset(read.data.model_dump())
    clients = len(data.client_names)
    assert f"{clients} clinics of {len(data.y) // clients} patients" in WORDS
    left = clients - read.split.certify - read.split.novel
    assert f"# the other {left} train" in study
    network = {}
    (net,) = (text for kind, text in BLOCKS if text.startswith("# net.py"))
    exec(compile(net, "net.py", "exec"), network)
    assert network["net"]((2,), 3)[-1].out_features == 3
    assert len([line for line in study.splitlines() if not line.startswith("#")]) == 6


@pytest.mark.parametrize("command", RUNS)
def test_a_question_is_answered_by_a_kept_run_of_its_command(command):
    name, asks = RUNS[command]
    assert command in PAGE
    kept = load_study(KEPT / name / "study.yaml")
    asked = load_study(command.removeprefix("latecomer run "))
    # Whether clients train one after another or side by side is no part of the question.
    train = asked.train.model_copy(update={"path": kept.train.path})
    assert asked.model_copy(update={"train": train}) == kept
    environment = json.loads((KEPT / name / "env.json").read_text("utf-8"))
    assert environment["command"].partition(" --adopt ")[0] == command
    told = ASKS[asks](Material.of(load_run(KEPT / name)))
    assert told.sentence in WORDS


def test_the_quickstart_is_what_make_runs_and_the_picture_shows():
    makefile = (ROOT / "Makefile").read_text("utf-8")
    assert re.search(r"^quickstart:.*\n\t\$\(BIN\)/latecomer run quickstart\n", makefile, re.M)
    study = load_study("quickstart")
    assert study == load_study(KEPT / "quickstart" / "study.yaml")
    assert (len(study.methods), len(study.seeds)) == (6, 3)
    assert "trains six methods three times each" in WORDS


def test_what_clients_are_needed_and_what_is_said_of_data_are_figures_of_the_code():
    told = {}
    for k in (10, 20, 40, 200):
        found = latecomer.certify_losses([0.1] * k, seed=1)
        told[k] = f".{math.ceil(float(found.certificate) * 100 - 1e-9)}"
    few, more, many, most = told.values()
    assert (
        f"If all of them lose .10, 10 held-out clients certify {few} for new ones, 20 certify"
        f" {more}, 40 certify {many} and 200 certify {most}."
    ) in WORDS
    few = latecomer.certify_losses([0.1] * 2)
    assert f"With fewer than {few.clients_needed} nothing is said of the next client" in WORDS
    rows = load_run(KEPT / "people").rows
    errors = rows[(rows["metric"] == "error") & (rows["client"] != "")]
    men = errors.loc[errors["shift"] == "Gender M", "client"].nunique()
    women = errors.loc[errors["shift"] == "none", ["group", "client"]].drop_duplicates()
    (answers,) = (errors["n_support"] + errors["n_query"]).unique()
    assert f"{len(women) + men} people answered {answers} questions each" in WORDS
    assert f"the {men} men were held back" in WORDS


def test_no_other_number_stands_in_its_prose():
    """What is left without blocks, quotes of runs and links are settings and names."""
    bare = re.sub(r"\]\([^)]*\)|^\[.*\]: .*$|^> .*$|`[^`]*`", "", FENCES.sub("", PAGE), flags=re.M)
    held = {
        *("3.11", "0.3"),  # pyproject.toml; tests/test_installs.py
        *(".10", "10", ".34", "20", ".23", "40", ".17", "200", ".12", "9"),  # the test above
        *("0", "1", ".15", "316", "24", "73", ".2", "60", "40", "2.0"),
    }
    assert set(re.findall(r"(?<![\w-])\.?\d[\d.,]*\d|(?<![\w.-])\d", bare)) <= held


def test_commands_in_its_prose_are_understood():
    group = typer.main.get_command(app)
    found = re.findall(r"`(latecomer [^`]+)`", FENCES.sub("", PAGE))
    assert found
    for line in found:
        words = shlex.split(line)[1:]
        assert group.commands[words[0]].make_context("latecomer", words[1:]).params
    flags = re.findall(r"`(--[\w-]+)`", FENCES.sub("", PAGE))
    assert flags
    shown = CliRunner().invoke(app, ["certify", "--help"]).stdout
    assert [flag for flag in flags if flag not in shown] == []


@pytest.mark.nightly
def test_a_bare_python_comes_to_a_certificate_by_what_is_typed(typed, built, tmp_path):
    """Needs an index of packages."""
    bare = tmp_path / "bin" / "python3"
    bare.parent.mkdir()
    bare.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    bare.chmod(0o755)
    known = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    known["PATH"] = f"{bare.parent}{os.pathsep}{os.environ['PATH']}"
    first = typed[: typed.index("make quickstart")]
    source = built / "tree"
    done = subprocess.run(
        ["bash", "-e", "-c", "\n".join(first)],
        cwd=source,
        env=known,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "40 clients, mean loss 0.090" in done.stdout
    installed = {path.name for path in source.glob(".venv/lib/*/site-packages/*")}
    assert "latecomer" in installed
    assert "torch" not in installed
