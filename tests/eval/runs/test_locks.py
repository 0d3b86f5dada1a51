"""Locks of cells: one owner at a time, and who may follow a dead one."""

import json
import os
import subprocess
import sys
import threading
import time
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from latecomer.eval.runs import lock as locks
from latecomer.eval.runs.lock import (
    HeldError,
    Owner,
    Watch,
    held,
    owner_of,
    parse_owner,
    this_process,
)

ELSEWHERE = Owner("ada", "another boot", 7, 1234, "t0")


def put(folder, owner, number=1):
    folder.mkdir(exist_ok=True)
    (folder / f"lock.{number}").write_bytes(owner.line())


def dead_here():
    """Return an owner on this machine whose process is gone."""
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    return replace(this_process(), pid=gone.pid, started=1)


def refused(folder, said=None, overrules=""):
    with pytest.raises(HeldError, match=said), held(folder, overrules=overrules):
        pass


def test_a_lock_names_its_owner_and_goes_with_it(tmp_path):
    assert owner_of(tmp_path / "cell") is None
    with held(tmp_path / "cell") as lock:
        lock.check()
        owner = owner_of(tmp_path / "cell")
        assert (owner.pid, owner.is_here, owner.is_dead) == (os.getpid(), True, False)
        assert str(owner) == f"process {os.getpid()} on {owner.host}"
        refused(tmp_path / "cell", f"process {os.getpid()} on .* is working on it")
        lock.check()
    assert os.listdir(tmp_path / "cell") == []


def test_a_lock_goes_with_an_error_too(tmp_path):
    with pytest.raises(KeyboardInterrupt), held(tmp_path):
        raise KeyboardInterrupt
    assert os.listdir(tmp_path) == []


def test_a_dead_process_of_this_machine_is_followed_at_once(tmp_path):
    put(tmp_path, dead_here(), number=3)
    with held(tmp_path):
        assert os.listdir(tmp_path) == ["lock.4"]
    assert os.listdir(tmp_path) == []


def test_a_number_that_another_process_bears_now_does_not_keep_a_lock(tmp_path):
    put(tmp_path, replace(this_process(), started=1))
    with held(tmp_path):
        assert os.listdir(tmp_path) == ["lock.2"]


def test_an_owner_elsewhere_is_believed_until_somebody_has_watched_it_be_silent(tmp_path):
    put(tmp_path, ELSEWHERE)
    refused(tmp_path, "process 7 on ada")
    refused(tmp_path, overrules="another token")
    with held(tmp_path, overrules="t0"):
        assert os.listdir(tmp_path) == ["lock.2"]


def test_a_torn_lock_is_an_unknown_owners(tmp_path):
    (tmp_path / "lock.1").write_text('{"host": "a')
    refused(tmp_path, "an unknown process is working on it")
    with held(tmp_path, overrules=owner_of(tmp_path).token):
        pass


def test_silence_is_measured_on_the_observers_own_clock(tmp_path, monkeypatch):
    now = [1000.0]
    watch = Watch(clock=lambda: now[0], stale_after=60)
    assert watch.look(tmp_path) == (None, True)
    put(tmp_path, ELSEWHERE)
    path = tmp_path / "lock.1"
    # The date jumps by a year, forth and back, and so do the times of the file: nobody cares.
    for beat, jump in enumerate((0, 365 * 86400, -365 * 86400, 0)):
        monkeypatch.setattr(time, "time", lambda jump=jump: 1.8e9 + jump)
        path.write_bytes(replace(ELSEWHERE, beat=beat).line())
        os.utime(path, (1.8e9 + jump, 1.8e9 + jump))
        now[0] += 50
        assert watch.look(tmp_path)[1] is False
    now[0] += 59
    assert watch.look(tmp_path)[1] is False
    now[0] += 1
    owner, free = watch.look(tmp_path)
    assert (owner.token, free) == ("t0", True)
    put(tmp_path, replace(ELSEWHERE, token="t1"))  # another owner: the watch begins anew
    assert watch.look(tmp_path)[1] is False
    put(tmp_path, dead_here(), number=2)
    assert watch.look(tmp_path)[1] is True


def test_the_owner_shows_that_it_is_alive(tmp_path, monkeypatch):
    monkeypatch.setattr(locks, "BEAT_EVERY", 0.01)
    with held(tmp_path) as lock:
        size = lock.path.stat().st_size
        deadline = time.monotonic() + 10
        while owner_of(tmp_path).beat < 3 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert owner_of(tmp_path).beat >= 3
        assert lock.path.stat().st_size == size


def test_an_owner_that_was_overruled_notices(tmp_path, monkeypatch):
    monkeypatch.setattr(locks, "BEAT_EVERY", 0.01)
    with held(tmp_path) as first:
        lock = owner_of(tmp_path)
        with held(tmp_path, overrules=lock.token) as second:
            deadline = time.monotonic() + 10
            while not first.lost and time.monotonic() < deadline:
                time.sleep(0.01)
            assert first.lost
            with pytest.raises(HeldError, match="another process has taken over"):
                first.check()
            second.check()
    assert os.listdir(tmp_path) == []


def test_of_many_that_want_a_dead_owners_cell_one_gets_it_at_a_time(tmp_path):
    put(tmp_path, dead_here())
    inside, most, entered = [0], [0], [0]
    guard = threading.Lock()

    def want():
        for _ in range(200):
            try:
                with held(tmp_path):
                    with guard:
                        inside[0] += 1
                        entered[0] += 1
                        most[0] = max(most[0], inside[0])
                    time.sleep(0.001)
                    with guard:
                        inside[0] -= 1
                return
            except HeldError:
                time.sleep(0.002)

    threads = [threading.Thread(target=want) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (most[0], entered[0]) == (1, 8)
    assert os.listdir(tmp_path) == []


def test_a_file_system_without_links(tmp_path, monkeypatch):
    def refuse(*args):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    with held(tmp_path):
        assert owner_of(tmp_path).pid == os.getpid()
        refused(tmp_path)
    assert os.listdir(tmp_path) == []


def test_the_line_is_as_long_for_every_beat():
    assert len(replace(ELSEWHERE, beat=10**9).line()) == len(ELSEWHERE.line())
    assert parse_owner(ELSEWHERE.line().decode()) == ELSEWHERE
    assert json.loads(ELSEWHERE.line()) == asdict(ELSEWHERE) | {"beat": "000000000000"}


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not tell")
@pytest.mark.parametrize(("field", "told"), [(0, "Z"), (6, "4194308")])
def test_a_process_that_has_ended_is_dead_before_it_is_gone(field, told, monkeypatch):
    owner, text = this_process(), Path("/proc/self/stat").read_text()
    assert not owner.is_dead
    name, _, rest = text.rpartition(") ")
    fields = rest.split()
    fields[field] = told
    plain = Path.read_text

    def read(path, **how):
        return f"{name}) {' '.join(fields)}" if path.name == "stat" else plain(path, **how)

    monkeypatch.setattr(Path, "read_text", read)
    assert owner.is_dead
