"""Errors of the command line: one exact line, the right exit code, at any terminal width."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from typer.testing import CliRunner

from latecomer.__main__ import main
from latecomer.commands.app import app
from latecomer.eval.runs.stopping import STOPPING
from latecomer.files import replacing
from latecomer.reports.page.questions import asking

RUNNER = CliRunner()
TOP = (
    "run, status, report, figures, compare, studies, methods, bounds, rules, shifts, datasets,"
    " bound, certify, watch, verify, plan, recertify, data"
)


def invoke(*arguments: str) -> tuple[int, str, str]:
    result = RUNNER.invoke(app, list(arguments), prog_name="latecomer")
    return result.exit_code, result.stdout, result.stderr


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["rnu"], f"no command 'rnu'; did you mean 'run'?; commands: {TOP}"),
        (["--versoin"], "no option '--versoin' of 'latecomer'; did you mean '--version'?"),
        (
            ["certify", "x.csv", "--poolsize", "3"],
            "no option '--poolsize' of 'latecomer certify'; did you mean '--pool-size'?",
        ),
        (["certify"], "missing argument 'FILE'"),
        (["certify", "x.csv", "--delta"], "option '--delta' requires an argument"),
        (
            ["certify", "x.csv", "--delta", "low"],
            "invalid value for --delta: must be a number, got 'low'",
        ),
        (
            ["certify", "x.csv", "--pool-size", "4.5"],
            "invalid value for --pool-size: must be a whole number, got '4.5'",
        ),
        (
            ["certify", "x.csv", "--delta", ".1", "--delta=.2"],
            "--delta must be given once, got it twice",
        ),
        (["certify", "x.csv", "--shift", "kl=1", "--shift", "tv=.1"], "x.csv: no such file"),
        (["status", ""], "DIR must not be empty, got ''"),
        (["run", "quickstart", "--out="], "--out must not be empty, got ''"),
        (["run", "quickstart", "--adopt", "a", "--adopt", ""], "--adopt must not be empty, got ''"),
        (["certify", "x.csv", "--best-of", ""], "--best-of must not be empty, got ''"),
        (
            ["certify", "x.csv", "--above", "1_0"],
            "--above must be numbers with commas between, got '1_0'",
        ),
        (
            ["certify", "x.csv", "--loss-max", "\u0663"],
            "invalid value for --loss-max: must be a number, got '\u0663'",
        ),
        (["certify", "absent.csv"], "absent.csv: no such file"),
        (["certify", "a\nb\x1b.csv"], "a; b\\x1b.csv: no such file"),
        (
            ["certify", "x.csv", "--rule", "prodct"],
            "rule must be one of product, chernoff_kl, emp_bernstein, wsr_averaged, wsr, wsr_wor,"
            " product_wor, product_wor_averaged, betting_wor, betting_wor_averaged,"
            " betting_mixture, product_mixture, blend, conformal, zero_one, best_of or"
            " file.py:name, got 'prodct'; did you mean 'product'?",
        ),
        (
            ["certify", "x.csv", "--rule", "wsr"],
            "rule wsr hangs on the order of the clients, which must be that of a random draw and"
            " which no fixed seed makes random: name its column (--order COLUMN, order= in Python),"
            " or use wsr_averaged",
        ),
        (
            ["certify", "x.csv", "--rule", "product_wor"],
            "rule product_wor is for finite pools: say how many untrained clients these were drawn"
            " from (pool_size), or leave the rule out",
        ),
        (
            ["certify", "x.csv", "--rule", "wsr_averaged", "--pool-size", "9"],
            "rule wsr_averaged needs clients drawn independently, pool_size=9 makes these a finite"
            " pool: leave the rule out",
        ),
        (
            ["bound", "maurer", "empirical_risk=.1", "kl=1", "n_samples=100", "delta=2"],
            "delta must lie strictly between 0 and 1, got delta=2",
        ),
        (
            ["bound", "mauer"],
            "no bound 'mauer'; did you mean 'maurer'?; 'latecomer bounds' lists them",
        ),
        (
            ["bound", "maurer", "empirical_risk=.1", "k=1"],
            "maurer has no argument 'k'; did you mean 'kl'?;"
            " it takes empirical_risk, kl, n_samples, delta, loss_max",
        ),
        (
            ["bound", "maurer", "empirical_risk=.1", "kl=1"],
            "maurer needs n_samples and delta: latecomer bound maurer empirical_risk=... kl=..."
            " n_samples=... delta=... [loss_max=1.0]",
        ),
        (["bound", "maurer", "0.1"], "arguments are written key=value, got '0.1'"),
        (["bound", "maurer", "kl=1", "kl=2"], "kl is given twice"),
        (
            ["bound", "maurer", "kl=[1"],
            "kl must be a number or a list in brackets, got 'kl=[1'",
        ),
        (["bound", "maurer", "kl="], "kl must be a number or a list in brackets, got 'kl='"),
        (["report", "absent"], "absent is no run directory: it has no study.yaml"),
        (["run", "quickstrat"], "no study is called 'quickstrat'; did you mean 'quickstart'?"),
        (
            ["run", "quickstart", "train.ruonds=5"],
            "train.ruonds is no setting; did you mean train.rounds?",
        ),
    ],
)
def test_mistakes_are_answered_in_one_line(arguments: list[str], line: str) -> None:
    code, out, err = invoke(*arguments)
    assert (code, out, err) == (2, "", f"latecomer: {line}\n")


@pytest.mark.slow
def test_width_of_the_terminal_wraps_no_error() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "latecomer", "bound", "maurer", "empirical_risk=.1", "k=1"],
        capture_output=True,
        text=True,
        env={**os.environ, "COLUMNS": "40", "TERMINAL_WIDTH": "40"},
        check=False,
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("latecomer: maurer has no argument 'k'; did you mean 'kl'?")


def test_a_file_in_the_way_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device", "rows.csv")

    monkeypatch.setattr("latecomer.certify.losses.certify_losses", full)
    told = "latecomer: rows.csv: No space left on device\n"
    assert invoke("certify", "x.csv") == (2, "", told)


@pytest.mark.parametrize("asks", [",", " ", "gap,"])
def test_every_question_must_have_a_name(asks: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("latecomer.reports.page.page.report", lambda _, asks: asking({}, asks))
    code, _, told = invoke("report", "run", "--asks", asks)
    assert (code, told.partition(" must be among")[0]) == (2, "latecomer: asks")
    assert told.endswith(", got ''\n")


def test_a_bug_is_no_input_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("latecomer.certify.losses.certify_losses", broken)
    result = RUNNER.invoke(app, ["certify", "x.csv"])
    assert isinstance(result.exception, ZeroDivisionError)


@pytest.mark.parametrize("said", ["", "stopped with 3 of 19 cells done"])
def test_interruption_exits_130(monkeypatch: pytest.MonkeyPatch, said: str) -> None:
    def stopped(*_: object, **__: object) -> None:
        raise KeyboardInterrupt(*([said] if said else []))

    monkeypatch.setattr("latecomer.certify.losses.certify_losses", stopped)
    assert invoke("certify", "x.csv") == (130, "", f"latecomer: {said or 'interrupted'}\n")


@pytest.mark.parametrize("number", STOPPING)
def test_a_command_that_is_told_to_stop_leaves_no_draft(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    """The system's own way of ending a process would leave what is written just then."""
    kept = tmp_path / "page.html"
    kept.write_text("old")

    def stopped(*_: object, **__: object) -> None:
        with replacing(kept) as file:
            file.write(b"half")
            os.kill(os.getpid(), number)

    monkeypatch.setattr("latecomer.certify.losses.certify_losses", stopped)
    before = signal.signal(number, signal.SIG_DFL)  # nohup, say, has it ignored
    try:
        assert invoke("certify", "x.csv") == (130, "", "latecomer: interrupted\n")
        assert signal.getsignal(number) == signal.SIG_DFL
    finally:
        signal.signal(number, before)
    assert [path.read_text() for path in tmp_path.iterdir()] == ["old"]


def test_a_folder_that_is_gone_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    told = "latecomer: the working directory no longer exists: change to another one\n"
    for words in (("run", "quickstart"), ("certify", "x.csv", "--report", "y.html")):
        assert invoke(*words) == (2, "", told)


def test_ctrl_c_before_any_command_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever types a command and changes their mind does so while it is still being loaded."""

    class Loading(ModuleType):
        def __getattr__(self, name: str) -> Any:
            raise KeyboardInterrupt

    monkeypatch.setitem(sys.modules, "latecomer.commands.app", Loading("app"))
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 130
    assert capsys.readouterr() == ("", "latecomer: interrupted\n")


@pytest.mark.slow
def test_ctrl_c_exits_130(tmp_path: Path) -> None:
    pipe = tmp_path / "losses.csv"
    os.mkfifo(pipe)
    command = [sys.executable, "-m", "latecomer", "certify", str(pipe)]
    # Opening for writing waits until the command has opened the pipe for reading.
    with (
        subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process,
        open(pipe, "w"),
    ):
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (130, "latecomer: interrupted\n")


@pytest.mark.slow
def test_a_closed_pipe_leaves_no_traceback() -> None:
    done = subprocess.run(
        f"{sys.executable} -m latecomer bounds --json | head -c 1",
        shell=True,
        capture_output=True,
        text=True,
        check=True,
    )
    assert (done.stdout, done.stderr) == ("[", "")
