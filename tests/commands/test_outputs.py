"""Nothing is lost: outputs that are inputs, folders or devices, streams that are closed, pipes."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import latecomer
from latecomer.commands.app import app
from latecomer.errors import InputError

TABLE = "client,loss\n" + "".join(f"c{i},0.{i % 7}\n" for i in range(30))
PAGE = "<!DOCTYPE html>"


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("losses.csv", "other.csv"):
        Path(name).write_text(TABLE)
    Path("plan.yaml").write_text("delta: 0.1\n")
    Path("empty.csv").write_text("")
    Path("folder").mkdir()
    return tmp_path


def held(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


CERTIFY = ("certify", "losses.csv", "--report")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((*CERTIFY, "losses.csv"), "--report must be another file than losses.csv, which is read"),
        (
            (*CERTIFY, "other.csv", "--against", "other.csv"),
            "--report must be another file than other.csv, which is read",
        ),
        ((*CERTIFY, "folder"), "--report must be a file, folder is a folder"),
        ((*CERTIFY, "-"), "--report must be a file, got '-'; a file of that name is ./-"),
        (
            ("watch", "losses.csv", "--once", "--plan", "plan.yaml", "--ledger", "losses.csv"),
            "--ledger must be another file than losses.csv, which is read",
        ),
        (
            ("watch", "empty.csv", "--once", "--plan", "plan.yaml", "--ledger", "empty.csv"),
            "--ledger must be another file than empty.csv, which is read",
        ),
        (
            ("watch", "losses.csv", "--once", "--plan", "plan.yaml", "--ledger", "plan.yaml"),
            "--ledger must be another file than plan.yaml, which is read",
        ),
        (
            ("watch", "losses.csv", "--once", "--plan", "plan.yaml", "--ledger", "-"),
            "--ledger must be a file, got '-'",
        ),
    ],
)
def test_an_output_that_would_lose_something_is_refused_before_anything(files, arguments, says):
    before = held(files)
    done = CliRunner().invoke(app, list(arguments))
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith(f"latecomer: {says}")
    assert done.stderr.count("\n") == 1
    assert held(files) == before


@pytest.mark.parametrize("path", ["losses.csv", "other.csv"])
def test_a_page_from_python_replaces_nothing_that_was_read(files, path):
    before = held(files)
    certified = latecomer.certify_losses(files / "losses.csv", against="other.csv")
    with pytest.raises(InputError, match=r"^path must be another file than .*csv, which is read"):
        certified.report(path)
    assert held(files) == before
    assert certified.report("page.html").is_file()


def test_a_home_folder_that_the_shell_left_as_it_is(files, monkeypatch):
    monkeypatch.setenv("HOME", str(files / "folder"))
    done = CliRunner().invoke(app, ["certify", "losses.csv", "--report=~/page.html"])
    assert done.exit_code == 0
    assert Path("folder/page.html").read_text("utf-8").startswith(PAGE)
    (files / "folder" / "losses.csv").write_text(TABLE)
    refused = CliRunner().invoke(
        app, ["certify", "folder/losses.csv", "--report=~/losses.csv"], catch_exceptions=False
    )
    assert refused.exit_code == 2
    assert "must be another file than folder/losses.csv" in refused.output
    assert Path("folder/losses.csv").read_text() == TABLE


def test_a_link_is_followed_and_a_device_is_written_to(files):
    Path("link.html").symlink_to("target.html")
    runner = CliRunner()
    assert runner.invoke(app, [*CERTIFY, "link.html"]).exit_code == 0
    assert Path("link.html").is_symlink()
    assert Path("target.html").read_text("utf-8").startswith(PAGE)
    if os.geteuid() == 0:
        os.mknod("null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
        assert runner.invoke(app, [*CERTIFY, "null"]).exit_code == 0
        assert stat.S_ISCHR(Path("null").stat().st_mode)


def shell(line):
    line = line.replace("latecomer ", f'"{sys.executable}" -m latecomer ', 1)
    return subprocess.run(
        ["bash", "-c", line], capture_output=True, text=True, check=False, timeout=120
    )


@pytest.mark.slow
@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_closed_streams_stop_no_report(files, closed):
    done = shell(f"latecomer certify losses.csv --report page.html {closed}")
    assert (done.returncode, done.stderr) == (0, "")
    assert bool(done.stdout) == (closed in ("2>&-", "<&-"))
    page = Path("page.html").read_text("utf-8")
    assert page.startswith(PAGE)
    assert page.rstrip().endswith("</html>")


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        ("certify losses.csv >&-", 0, ""),
        ("bounds >&-", 0, ""),
        ("certify absent.csv >&-", 2, "latecomer: absent.csv: no such file\n"),
        ("certify absent.csv 2>&-", 2, ""),
        ("bounds > /dev/full", 2, "latecomer: standard output: No space left on device\n"),
        ("certify - <&-", 2, "latecomer: standard input: the file is empty\n"),
    ],
)
def test_a_closed_stream_leaves_no_traceback(files, line, code, said):
    done = shell(f"latecomer {line}")
    assert (done.returncode, done.stderr) == (code, said)


@pytest.mark.parametrize(
    "line",
    [
        "certify losses.csv | true",
        "bounds --json | head -c 5",
        "--help | true",
        "watch losses.csv --once | head -1",
        "certify losses.csv --report page.html | true",
    ],
)
def test_who_leaves_a_pipe_hears_no_complaint(files, line):
    assert shell(f"latecomer {line}").stderr == ""
    assert Path("page.html").exists() == ("page.html" in line)
