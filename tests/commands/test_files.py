"""Files that are written: whole or not at all, through links, and never over what is no file."""

import errno
import fcntl
import io
import os
import re
import signal
import stat
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import pytest

from latecomer.certify.ledger import model_hash, read_ledger
from latecomer.certify.table import read_losses
from latecomer.certify.watching import read_plan
from latecomer.checks import named_files, output_file, output_files, output_folder
from latecomer.errors import InputError
from latecomer.eval.runs.reissue import declared_entries
from latecomer.eval.studies.loading import load_study
from latecomer.files import (
    content_of,
    ending,
    make_new,
    replacing,
    this_boot,
    write_atomic,
)

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="makes a device")


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def null(path):
    """Make another node of the null device; the system's own stays out of this."""
    os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 3))
    return path


def test_a_link_is_followed(tmp_path):
    (tmp_path / "there").mkdir()
    kept = tmp_path / "there" / "page"
    kept.write_text("old")
    first, second = tmp_path / "first", tmp_path / "second"
    first.symlink_to("there/page")
    second.symlink_to(first)
    write_atomic(second, "new")
    assert kept.read_text() == "new"
    assert (first.is_symlink(), second.is_symlink()) == (True, True)
    assert names(tmp_path / "there") == ["page"]


def test_a_link_to_a_file_that_is_not_there_yet_stays(tmp_path):
    link = tmp_path / "link"
    link.symlink_to("folder/page")
    write_atomic(link, "new")
    assert (link.is_symlink(), (tmp_path / "folder" / "page").read_text()) == (True, "new")


@as_root
def test_a_device_is_written_to_and_stays(tmp_path):
    node = null(tmp_path / "null")
    link = tmp_path / "link"
    link.symlink_to(node)
    write_atomic(node, "gone")
    write_atomic(link, "gone")
    assert stat.S_ISCHR(node.lstat().st_mode)
    assert names(tmp_path) == ["link", "null"]


@as_root
def test_a_full_device_is_named(tmp_path):
    full = tmp_path / "full"
    os.mknod(full, stat.S_IFCHR | 0o666, os.makedev(1, 7))
    with pytest.raises(OSError, match="No space left") as caught:
        write_atomic(full, "text")
    assert caught.value.filename == str(full)
    assert stat.S_ISCHR(full.lstat().st_mode)


def test_a_pipe_is_written_to_and_stays(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    heard = []
    reader = threading.Thread(target=lambda: heard.append(pipe.read_text()))
    reader.start()
    write_atomic(pipe, "text")
    reader.join(timeout=10)
    assert (heard, pipe.is_fifo()) == (["text"], True)


def test_a_folder_is_not_replaced(tmp_path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="is a folder"):
        write_atomic(tmp_path / "folder", "text")
    assert names(tmp_path) == ["folder"]


def test_what_fails_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    page = tmp_path / "page"
    page.write_text("old")
    monkeypatch.setattr(os, "fsync", lambda number: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        write_atomic(page, "new")
    assert (page.read_text(), names(tmp_path)) == ("old", ["page"])


def test_a_full_disk_is_named_as_a_full_device_is(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    (tmp_path / "link").symlink_to("page")
    (tmp_path / "page").write_text("old")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left") as caught:
        write_atomic(tmp_path / "link", "new")
    assert (caught.value.errno, caught.value.filename) == (errno.ENOSPC, str(tmp_path / "link"))
    assert ((tmp_path / "page").read_text(), names(tmp_path)) == ("old", ["link", "page"])


def test_an_error_about_the_draft_names_the_file(tmp_path, monkeypatch):
    def denied(draft, *_):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(draft))

    monkeypatch.setattr(os, "replace", denied)
    with pytest.raises(PermissionError) as caught:
        write_atomic(tmp_path / "page", "new")
    assert (caught.value.filename, names(tmp_path)) == (str(tmp_path / "page"), [])


def killed_while_it_writes(path):
    child = os.fork()
    if not child:
        with replacing(path) as file:
            file.write(b"half")
            file.flush()
            os.kill(os.getpid(), signal.SIGKILL)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL


@pytest.mark.parametrize("write", [write_atomic, make_new])
@pytest.mark.parametrize("name", ["page", "a page [1].html", "x" * 255])
def test_what_a_killed_process_left_is_removed_by_the_next_that_writes_there(tmp_path, write, name):
    killed_while_it_writes(tmp_path / name)
    killed_while_it_writes(tmp_path / "another")
    assert len(names(tmp_path)) == 2
    write(tmp_path / name, b"whole")
    draft, page = names(tmp_path)
    assert (draft.startswith(".another."), page) == (True, name)


def test_drafts_of_living_processes_stay(tmp_path):
    with replacing(tmp_path / "page") as slow:
        slow.write(b"slow")
        write_atomic(tmp_path / "page", "quick")
        assert not make_new(tmp_path / "page", b"late")
        assert (tmp_path / "page").read_text() == "quick"
    assert ((tmp_path / "page").read_text(), names(tmp_path)) == ("slow", ["page"])


def test_drafts_of_another_machine_are_removed_once_they_are_a_minute_old(tmp_path):
    """A lock of another machine may show on that machine alone."""
    other = f"{int(this_boot()[-8:], 16) ^ 1:08x}"
    left = tmp_path / f".page.{other}0123abcd.tmp"
    left.touch()
    for age, stays in ((50, True), (70, False)):
        lies = left.stat().st_mtime - age
        os.utime(left, (lies, lies))
        write_atomic(tmp_path / "page", "text")
        assert left.exists() is stays


def test_files_that_are_no_drafts_stay(tmp_path):
    mark = this_boot()[-8:]
    write_atomic(tmp_path / "kept", "text")
    others = [".page.tmp", ".page.notes.tmp", f".page.{mark}0123abcd", f".pages.{mark}0123abcd.tmp"]
    for name in others:
        (tmp_path / name).touch()
    link = tmp_path / f".page.{mark}01234567.tmp"
    link.symlink_to("kept")
    write_atomic(tmp_path / "page", "text")
    assert names(tmp_path) == sorted([*others, "kept", link.name, "page"])


def test_a_draft_that_was_taken_for_one_left_behind_is_begun_anew(tmp_path, monkeypatch):
    lock, asked = fcntl.flock, []

    def slow(handle, operation):
        if not asked:
            next(tmp_path.glob(".page.*")).unlink()
        asked.append(operation)
        lock(handle, operation)

    monkeypatch.setattr(fcntl, "flock", slow)
    write_atomic(tmp_path / "page", "text")
    assert (names(tmp_path), (tmp_path / "page").read_text()) == (["page"], "text")


@pytest.mark.parametrize("system_locks", [True, False])
def test_where_nothing_can_be_locked_nothing_is_removed(tmp_path, monkeypatch, system_locks):
    def refused(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    left = tmp_path / f".page.{this_boot()[-8:]}0123abcd.tmp"
    left.touch()
    if system_locks:
        monkeypatch.setattr(fcntl, "flock", refused)
    else:
        monkeypatch.setitem(sys.modules, "fcntl", None)
    write_atomic(tmp_path / "page", "text")
    assert names(tmp_path) == [left.name, "page"]


@pytest.mark.parametrize("name", ["x" * 255, "\N{GRINNING FACE}" * 63])
def test_a_name_may_be_as_long_as_a_name_can_be(tmp_path, name):
    write_atomic(tmp_path / name, "text")
    assert names(tmp_path) == [name]


@pytest.mark.parametrize("read", [read_ledger, read_plan, load_study, declared_entries])
def test_what_cannot_be_read_is_named_once_and_without_a_number(tmp_path, read):
    place = tmp_path / "folder.yaml"
    place.mkdir()
    with pytest.raises(InputError, match=f"{place}:? cannot be read: Is a directory$"):
        read(place)


@pytest.fixture
def losses(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    place = Path("losses.csv")
    place.write_text("client,loss\n")
    (tmp_path / "folder").mkdir()
    Path("soft").symlink_to(place)
    Path("through").symlink_to("soft")
    os.link(place, "hard")
    Path("round").symlink_to("round")
    Path("to_folder").symlink_to("folder")
    return place


@pytest.mark.parametrize(
    "path",
    ["losses.csv", "./losses.csv", "folder/../losses.csv", "soft", "through", "hard"],
)
def test_an_output_is_no_input_under_whatever_name(losses, path):
    for read in (losses, str(losses), losses.resolve()):
        with pytest.raises(InputError, match=f"^report must be another file than .*{read}"):
            output_file("report", path, [None, read])
    # And the other way about.
    with pytest.raises(InputError, match=r"^report must be another file than "):
        output_file("report", losses, [path])


def test_an_input_that_is_not_there_is_still_no_output(losses):
    with pytest.raises(InputError, match="which is read"):
        output_file("report", "./absent.csv", ["absent.csv"])
    output_file("report", "page.html", ["absent.csv", losses, b"bytes", {"a": 0.1}, 3])


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("", "report must be a file, got ''"),
        ("-", r"report must be a file, got '-'; a file of that name is \./-"),
        (".", r"report must be a file, \. is a folder"),
        ("folder", "report must be a file, folder is a folder"),
        ("to_folder", "report must be a file, to_folder is a folder"),
        ("new/", "report must be a file, new/ is a folder"),
        ("round", "report: 'round' cannot be written: Too many levels of symbolic links"),
        ("losses.csv/page", "report: 'losses.csv/page' cannot be written: Not a directory"),
        ("a\0b", r"report: 'a\\x00b' cannot be written: .*embedded null"),
        ("x" * 300, "report: 'xxx.*' cannot be written: File name too long|.*x\\.\\.\\. cannot"),
    ],
)
def test_what_is_no_file_is_refused_in_one_line(losses, path, says):
    with pytest.raises(InputError, match=f"^({says})") as caught:
        output_file("report", path)
    assert "\n" not in str(caught.value)


def test_pipes_will_do_for_a_page_and_not_for_what_grows(losses):
    os.mkfifo("pipe")
    output_file("report", "pipe")
    with pytest.raises(InputError, match=r"^--ledger must be a file, pipe is a pipe$"):
        output_file("--ledger", "pipe", grows=True)


@as_root
def test_disks_are_refused(losses):
    os.mknod("disk", stat.S_IFBLK | 0o600, os.makedev(7, 200))
    with pytest.raises(InputError, match=r"^report must be a file, disk is a block device$"):
        output_file("report", "disk")


@pytest.mark.parametrize("path", ["page.html", "new/folder/page.html", "./-", "to_folder/page"])
def test_other_files_will_do_and_are_not_made_yet(losses, path):
    before = names(Path())
    output_file("report", path, [losses])
    assert names(Path()) == before


@pytest.mark.parametrize(("redirected", "named"), [("<", "input"), (">>", "output")])
def test_the_files_of_the_standard_streams_are_refused(losses, redirected, named):
    code = "from latecomer.checks import output_file; output_file('report', 'hard')"
    shell = f'"{sys.executable}" -c "{code}" {redirected} losses.csv'
    done = subprocess.run(shell, shell=True, capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1].endswith(
        f"report must be another file than that of standard {named}, got hard"
    )


def test_permissions_are_kept_and_new_files_have_those_of_the_umask(tmp_path):
    private, link = tmp_path / "private", tmp_path / "link"
    private.write_text("old")
    private.chmod(0o640)
    link.symlink_to(private)
    before = os.umask(0o027)
    try:
        write_atomic(link, "new")
        write_atomic(tmp_path / "made", "new")
    finally:
        os.umask(before)
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("private", "made")]
    assert modes == [0o640, 0o640]
    private.chmod(0o604)
    write_atomic(private, "newer")
    assert stat.S_IMODE(private.stat().st_mode) == 0o604


def test_files_of_a_run_are_no_links_to_what_is_read(tmp_path):
    run, data = tmp_path / "run", tmp_path / "data.csv"
    (run / "cells" / "a").mkdir(parents=True)
    for read in (run / "rows.csv", run / "cells" / "a" / "rows.csv", data):
        read.write_text("read")
    (tmp_path / "pages").mkdir()
    (run / "figures").symlink_to("cells/a")
    (run / "tables").symlink_to("../pages")
    (run / "cards").symlink_to("..")
    output_files(run, ["report.html", "tables/rows.csv", "cards/new.md"], [str(data)])
    for name in ("figures/rows.csv", "cards/data.csv"):
        with pytest.raises(InputError, match=f"{name} must be another file than .*, which is read"):
            output_files(run, [name], [str(data)])
    (run / "report.html").symlink_to("rows.csv")
    with pytest.raises(InputError, match=r"report.html must be another file than .*rows\.csv"):
        output_files(run, ["report.html"])


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("-", "--out must be a folder, got '-'; a folder of that name is ./-"),
        ("file", "--out must be a folder, file is a file"),
        ("file/inside", "--out: 'file/inside' cannot be written: Not a directory"),
        ("dangling", "--out must lie in a folder, dangling is a link to nothing"),
        ("dangling/a/b", "--out must lie in a folder, dangling is a link to nothing"),
        ("source/inside", "--out must lie outside of source, which is only read"),
        ("link/deep/inside", "--out must lie outside of source, which is only read"),
        ("source", "--out must lie outside of source, which is only read"),
    ],
)
def test_a_folder_to_write_is_none_that_is_read(tmp_path, monkeypatch, path, says):
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("")
    Path("source").mkdir()
    Path("link").symlink_to("source")
    Path("dangling").symlink_to("nowhere")
    output_folder("--out", "source-reissued", Path("source"))
    with pytest.raises(InputError, match=f"^{re.escape(says)}"):
        output_folder("--out", path, Path("source"))


def test_the_files_that_a_study_names_are_its_inputs(tmp_path):
    data = tmp_path / "data.csv"
    data.write_text("")
    settings = {"data": {"path": str(data), "target": "y"}, "shifts": {"other": [{"p": [1]}]}}
    assert named_files(settings) == [str(data)]


@pytest.mark.parametrize(
    "read",
    [
        partial(read_losses, loss_max=1.0),
        read_plan,
        read_ledger,
        load_study,
        declared_entries,
        model_hash,
    ],
)
def test_a_device_whose_bytes_never_end_is_refused(tmp_path, read):
    link = tmp_path / "endless.yaml"
    link.symlink_to("/dev/zero")
    with pytest.raises(InputError, match=r"cannot be read: is a device whose bytes never end$"):
        read(str(link))


def test_the_null_device_and_a_stream_in_memory_end():
    assert content_of(os.devnull) == b""
    assert ending(io.BytesIO(b"all")).read() == b"all"


def test_a_folder_that_may_not_be_made_is_named_as_it_was_given(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(InputError, match=r"^--out: new/run cannot be written: no permission in"):
        output_folder("--out", "new/run")
