"""Downloads from a server on the loopback address that does what servers do."""

import errno
import hashlib
import io
import json
import tarfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import doors
import numpy as np
import pytest

from latecomer.errors import InputError
from latecomer.eval.datasets import download as downloads
from latecomer.eval.datasets.download import RECORD, download, fetch, unpack, verify
from latecomer.eval.datasets.registry import SOURCES, Archive, Source
from latecomer.files import sum_of

CONTENT = np.random.default_rng(0).bytes(300_000)
SHA256 = hashlib.sha256(CONTENT).hexdigest()
BLOCK = downloads._BLOCK
HALF = 150_000 // BLOCK * BLOCK  # what is kept of the first half: whole blocks


class Handler(BaseHTTPRequestHandler):
    """One path a temper; ``server.seen`` holds (path, asked range)."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        temper = self.path.split("/")[1]
        asked = self.headers.get("Range")
        self.server.seen.append((temper, asked))
        turn = sum(1 for path, _ in self.server.seen if path == temper)
        if temper == "absent":
            self.send_error(404)
        elif temper == "busy":
            self.send_error(503)
        else:
            self.close_connection = True
            self.answer(temper, asked, turn)

    def answer(self, temper, asked, turn):
        content = self.server.files.get(self.path.rpartition("/")[2], CONTENT)
        if temper == "wrong" or (temper == "other-half" and asked):
            content = bytes(len(content))
        start = int(asked[6:-1]) if asked and temper != "no-ranges" else 0
        if start >= len(content):
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(content)}")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        if temper != "no-length":
            self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        body = content[start:]
        if temper in ("cut-once", "stall-once", "other-half", "no-ranges") and turn == 1:
            self.wfile.write(body[: len(body) // 2])
            if temper == "stall-once":
                self.wfile.flush()
                self.server.stop.wait(5)
        elif temper == "cut-always":
            self.wfile.write(body[: min(20_000, len(body) - 1)])
        elif temper == "slow":
            for place in range(0, len(body), 30_000):
                self.wfile.write(body[place : place + 30_000])
                self.wfile.flush()
                time.sleep(0.03)
        else:
            self.wfile.write(body)


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setattr(downloads, "_PAUSE", 0.01)
    monkeypatch.setattr(downloads, "_TIMEOUT", (5.0, 1.0))
    served = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    served.seen, served.files, served.stop = [], {}, threading.Event()
    served.address = f"http://127.0.0.1:{served.server_port}"
    thread = threading.Thread(target=served.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield served
    served.stop.set()
    served.shutdown()
    served.server_close()
    thread.join()


@pytest.fixture
def archive(server):
    def make(*tempers, file="own/set.bin", sha256=SHA256, **fields):
        urls = tuple(f"{server.address}/{temper}/set.bin" for temper in tempers)
        return Archive(file, urls, sha256, **fields)

    return make


def begun(root):
    """Return where the part of an earlier download lies."""
    (root / "own").mkdir()
    return root / "own" / "set.bin.part"


def refusal(archive, root):
    message = doors.refusal(download, archive, root)
    assert not (root / archive.file).exists()
    return message


@pytest.mark.parametrize(
    "temper", ["whole", "slow", "cut-once", "stall-once", "no-ranges", "no-length"]
)
def test_what_arrives_is_the_file(temper, archive, server, tmp_path):
    told = []
    wanted = archive(temper)
    done = download(wanted, tmp_path, on_bytes=lambda *news: told.append(news))
    assert done.path == tmp_path / "own" / "set.bin"
    assert done.path.read_bytes() == CONTENT
    assert (done.sha256, done.verified, done.fresh) == (SHA256, True, True)
    assert [path.name for path in done.path.parent.iterdir()] == ["set.bin"]
    total = 0 if temper == "no-length" else len(CONTENT)
    assert told[-1] == ("own/set.bin", len(CONTENT), total)
    again = download(wanted, tmp_path)
    assert not again.fresh
    expected = {"cut-once": 2, "stall-once": 2, "no-ranges": 2}.get(temper, 1)
    assert len(server.seen) == expected, "what is there is not fetched again"


def test_a_cut_download_goes_on_where_it_stopped(archive, server, tmp_path):
    download(archive("cut-once"), tmp_path)
    assert [asked for _, asked in server.seen] == [None, f"bytes={HALF}-"]


def test_the_next_call_goes_on_too(archive, server, tmp_path):
    message = refusal(archive("cut-always"), tmp_path)
    assert f"the connection was cut off, 4 times; {4 * BLOCK:,} bytes kept" in message
    assert (tmp_path / "own" / "set.bin.part").stat().st_size == 4 * BLOCK
    server.seen.clear()
    download(archive("whole"), tmp_path)
    assert server.seen == [("whole", f"bytes={4 * BLOCK}-")]


def test_a_complete_part_needs_no_further_byte(archive, server, tmp_path):
    begun(tmp_path).write_bytes(CONTENT)
    assert download(archive("whole"), tmp_path).sha256 == SHA256


@pytest.mark.parametrize("part", [bytes(1000), bytes(300_000), bytes(400_000)])
def test_a_part_of_another_file_is_thrown_away(part, archive, tmp_path):
    begun(tmp_path).write_bytes(part)
    assert download(archive("whole"), tmp_path).sha256 == SHA256
    assert len(list((tmp_path / "own").iterdir())) == 1


def test_halves_of_two_versions_are_never_joined(archive, server, tmp_path):
    done = download(archive("other-half"), tmp_path)
    assert done.path.read_bytes() == CONTENT
    assert [asked for _, asked in server.seen] == [None, f"bytes={HALF}-", None]


def test_wrong_bytes_are_not_kept(archive, tmp_path):
    message = refusal(archive("wrong"), tmp_path)
    assert "127.0.0.1" in message
    assert "not the published file (another sum)" in message
    assert list((tmp_path / "own").iterdir()) == []


def test_mirrors_are_tried_in_turn(archive, server, tmp_path):
    wanted = archive("absent", "busy", "wrong", "whole")
    assert download(wanted, tmp_path).sha256 == SHA256
    assert [path for path, _ in server.seen] == ["absent", "busy", "wrong", "whole"]


def test_all_addresses_failing_says_what_to_put_where(archive, tmp_path):
    message = refusal(archive("absent", "busy"), tmp_path)
    assert "404 Not Found" in message
    assert "503 Service Unavailable" in message
    assert f"put set.bin (sha256 {SHA256}) into {tmp_path / 'own'}" in message


def test_offline(tmp_path):
    nobody = Archive("set.bin", ("http://127.0.0.1:9/set.bin",), SHA256)
    message = refusal(nobody, tmp_path)
    assert "127.0.0.1:9: cannot connect" in message
    assert "without a network, put set.bin" in message


def test_no_space_is_seen_before_the_first_byte(archive, tmp_path, monkeypatch):
    class Usage:
        free = 100_000

    monkeypatch.setattr(downloads.shutil, "disk_usage", lambda _: Usage)
    assert f"no space left on the disk of {tmp_path / 'own'}" in refusal(archive("whole"), tmp_path)
    assert list((tmp_path / "own").iterdir()) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_no_space_in_the_midst(archive, tmp_path):
    begun(tmp_path).symlink_to("/dev/full")
    assert "no space left" in refusal(archive("no-length"), tmp_path)
    assert list((tmp_path / "own").iterdir()) == []


def test_a_folder_that_cannot_be_written(archive, tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(downloads.os, "replace", refuse)
    assert "cannot be written: Permission denied" in refusal(archive("whole"), tmp_path)


def test_a_process_that_is_killed_leaves_a_part_and_nothing_else(
    archive, server, tmp_path, monkeypatch
):
    """It ends while it compares the sum of what it has downloaded, which the next one takes up."""

    def killed(*_):
        raise SystemExit(names(tmp_path / "own"))

    monkeypatch.setattr(downloads, "sum_of", killed)
    with pytest.raises(SystemExit) as left:
        download(archive("whole"), tmp_path)
    monkeypatch.setattr(downloads, "sum_of", sum_of)
    assert (left.value.code, names(tmp_path / "own")) == (["set.bin.part"], ["set.bin.part"])
    download(archive("whole"), tmp_path)
    assert names(tmp_path / "own") == ["set.bin"]
    assert server.seen[1:] == [("whole", f"bytes={len(CONTENT)}-")]


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_two_that_fetch_at_once_take_turns(archive, server, tmp_path, monkeypatch):
    source = replace(SOURCES["mnist"], archives=(archive("slow"),))
    monkeypatch.setattr(downloads, "SOURCES", {"mnist": source})

    def fetched(_):
        return fetch("mnist", root=tmp_path)[0].fresh

    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(fetched, range(2))) == [False, True]
    assert server.seen == [("slow", None)]
    assert names(tmp_path / "own") == ["set.bin"]


def test_a_file_of_that_name_but_other_contents_stays(archive, server, tmp_path):
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "set.bin").write_bytes(b"mine")
    with pytest.raises(InputError, match="remove it and fetch again"):
        download(archive("whole"), tmp_path)
    assert (tmp_path / "own" / "set.bin").read_bytes() == b"mine"
    assert server.seen == []


def test_md5_where_the_publisher_gives_no_other(archive, tmp_path):
    md5 = hashlib.md5(CONTENT).hexdigest()
    assert download(archive("whole", sha256="", md5=md5), tmp_path).verified
    assert "another sum" in refusal(archive("wrong", sha256="", md5=md5, file="b"), tmp_path)


def test_without_a_published_sum_the_first_download_is_recorded(archive, server, tmp_path):
    wanted = archive("whole", sha256="")
    done = download(wanted, tmp_path)
    assert (done.sha256, done.verified) == (SHA256, False)
    held = json.loads((tmp_path / RECORD).read_text())
    assert held["own/set.bin"]["sha256"] == SHA256
    assert held["own/set.bin"]["verified"] is False
    done.path.write_bytes(b"changed")
    with pytest.raises(InputError, match=f"not {SHA256}"):
        download(wanted, tmp_path)
    done.path.unlink()
    assert "another sum" in refusal(replace(wanted, urls=archive("wrong").urls), tmp_path)


def test_without_a_sum_halves_are_not_joined(archive, server, tmp_path):
    begun(tmp_path).write_bytes(CONTENT[:1000])
    download(archive("whole", sha256=""), tmp_path)
    assert server.seen == [("whole", None)]


def test_nothing_is_written_to_the_terminal(archive, tmp_path, capfd):
    download(archive("cut-once"), tmp_path)
    assert capfd.readouterr() == ("", "")


def tar(members):
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w:gz") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            if isinstance(content, str):
                info.type, info.linkname = tarfile.SYMTYPE, content
                archive.addfile(info)
            else:
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
    return held.getvalue()


def test_unpacking_takes_what_it_wants_and_nothing_else(tmp_path):
    members = {"../evil": b"x", "/abs": b"x", "set/a": b"one", "set/more": b"x", "set/b": b"two"}
    (tmp_path / "set.tar.gz").write_bytes(tar(members))
    wanted = Archive("set.tar.gz", (), members=("set/a", "set/b"))
    unpack(wanted, tmp_path)
    assert (tmp_path / "set" / "b").read_bytes() == b"two"
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["a", "b", "set", "set.tar.gz"]
    assert not (tmp_path.parent / "evil").exists()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (tar({"set/a": b"one"}), "has no set/b"),
        (tar({"set/a": b"one", "set/b": "/etc/passwd"}), "has no set/b"),
        (tar({"set/a": CONTENT, "set/b": CONTENT})[:200_000], "cut short"),
        (b"no tar at all", "damaged or cut short"),
    ],
    ids=["lacking", "link", "cut", "none"],
)
def test_unpacking_writes_all_or_nothing(content, words, tmp_path):
    (tmp_path / "set.tar.gz").write_bytes(content)
    with pytest.raises(InputError, match=words) as caught:
        unpack(Archive("set.tar.gz", (), members=("set/a", "set/b")), tmp_path)
    assert str(tmp_path / "set.tar.gz") in str(caught.value)
    assert [p.name for p in tmp_path.iterdir()] == ["set.tar.gz"]


def test_a_whole_data_set_from_server_to_samples(small_files, server, tmp_path, monkeypatch):
    made = tmp_path / "made"
    small_files("cifar10", made)
    files = {
        f"cifar-10-batches-py/{p.name}": p.read_bytes() for p in made.rglob("*") if p.is_file()
    }
    content = tar(files)
    server.files["cifar.tar.gz"] = content
    one = Archive(
        "cifar.tar.gz",
        (f"{server.address}/cut-once/cifar.tar.gz",),
        hashlib.sha256(content).hexdigest(),
        members=tuple(files),
    )
    source = Source("", "", (one,), (100, 20))
    monkeypatch.setattr(downloads, "SOURCES", {"cifar10": source})
    root = tmp_path / "root"
    with pytest.raises(InputError, match="has no cifar-10-batches-py"):
        verify("cifar10", root=root)
    fetch("cifar10", root=root)
    lines = verify("cifar10", root=root)
    assert lines[0] == "cifar.tar.gz: sha256 as published"
    assert "data: 100 + 20 samples, as published" in lines
    (root / "cifar.tar.gz").write_bytes(b"x")
    with pytest.raises(InputError, match="has sha256"):
        verify("cifar10", root=root)
    (root / "cifar.tar.gz").unlink()
    assert "its sum was not checked" in verify("cifar10", root=root)[0]
    monkeypatch.setattr(downloads, "SOURCES", SOURCES)
    with pytest.raises(InputError, match=r"has 100 \+ 20 samples, the publisher's has 50,000"):
        verify("cifar10", root=root)


def test_every_sum_has_the_length_of_its_kind():
    archives = [a for source in SOURCES.values() for a in source.archives]
    assert len(archives) == 13
    for archive in archives:
        assert len(bytes.fromhex(archive.sha256)) == 32
        assert len(bytes.fromhex(archive.md5)) == 16
        assert archive.size > 0
        assert len(archive.urls) >= 2
    assert len({archive.sha256 for archive in archives}) == len(archives)


def test_a_link_that_leads_to_nothing_yet_is_followed(archive, tmp_path):
    link = tmp_path / "own" / "set.bin"
    link.parent.mkdir()
    link.symlink_to(tmp_path / "disk" / "kept")
    done = download(archive("whole"), tmp_path)
    assert (done.path, link.is_symlink()) == (link, True)
    assert (tmp_path / "disk" / "kept").read_bytes() == CONTENT
