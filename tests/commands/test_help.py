"""Help that ends with lines to start from, and completion of what is typed."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import typer.main
from typer.testing import CliRunner

from latecomer.commands.app import app
from latecomer.commands.arguments import EXAMPLES

GROUP = typer.main.get_command(app)
TABLE = "client,loss\n" + "".join(f"c{i},0.{i % 7}\n" for i in range(60))
LINES = [line for lines in EXAMPLES.values() for line in lines]
# What trains, reads a run or a download; all others run as they stand.
DEAR = ("run ", "status ", "report ", "figures ", "compare ", "recertify ", "data ")


def commands():
    """Yield every command's words and the command."""
    for name, command in GROUP.commands.items():
        for own, inner in getattr(command, "commands", {}).items():
            yield [name, own], inner
        if not hasattr(command, "commands"):
            yield [name], command


def test_every_command_has_examples_of_itself():
    seen = 0
    for words, _ in commands():
        shown = CliRunner().invoke(app, [*words, "--help"]).stdout
        lines = shown.partition("Examples:\n")[2].splitlines()
        assert lines, words
        for line in lines:
            assert shlex.split(line)[: len(words) + 1] == ["latecomer", *words]
            seen += 1
    assert seen == len(LINES)


def test_help_fits_and_no_summary_is_cut():
    for words in ([], *(words for words, _ in commands())):
        lines = CliRunner().invoke(app, [*words, "--help"]).stdout.splitlines()
        assert max(map(len, lines)) <= 80, words
        told = lines[lines.index("Commands:") :] if "Commands:" in lines else []
        assert not [line for line in told if line.endswith("...")], words


@pytest.mark.parametrize("line", LINES)
def test_examples_are_understood(line):
    words = shlex.split(line)[1:]
    command = GROUP
    while words and hasattr(command, "commands"):
        command = command.commands[words.pop(0)]
    context = command.make_context("latecomer", list(words))
    assert context.params


@pytest.mark.slow
def test_cheap_examples_run_as_they_stand(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("losses.csv").write_text(TABLE)
    Path("plan.yaml").write_text("delta: 0.1\n")
    ran = 0
    for line in LINES:
        words = shlex.split(line)[1:]
        if line.removeprefix("latecomer ").startswith(DEAR):
            continue
        if "watch" in words and "--once" not in words:
            words.append("--once")
        done = CliRunner().invoke(app, words)
        assert (done.exit_code, done.stderr) == (0, ""), line
        ran += 1
    assert ran > 15


def test_the_shell_completes_commands(tmp_path):
    asked = {
        "_LATECOMER_COMPLETE": "complete_bash",
        "_TYPER_COMPLETE_ARGS": "latecomer met",
        "COMP_WORDS": "latecomer met",
        "COMP_CWORD": "1",
    }
    code = "from latecomer.commands.app import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **asked},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == ["methods"]
