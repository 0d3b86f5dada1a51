"""Ledgers: chained, repaired where a crash cut them, refused where anything was changed."""

import contextlib
import json
import os
from dataclasses import replace

import pytest

from latecomer.certify import ledger as ledgers
from latecomer.certify.ledger import appended, model_hash, read_ledger, verify_ledger, writing
from latecomer.certify.watching import moments_after, watch_plan
from latecomer.eval import InputError

PLAN = watch_plan(threshold=0.2, trained_on="sixty clients; né en mars")
ARRIVALS = [("ann", 0.1), ("böb, junior", 0.0), ("cid\n", 0.25), ("dee", 1.0)]
MOMENTS = moments_after(PLAN, (), ARRIVALS)


NOW = "2026-01-02T03:04:05.678+00:00"


def written(path, moments=MOMENTS, plan=PLAN, model=None):
    with writing(path, plan, model=model) as (handle, kept):
        for moment in moments[len(kept.moments) :]:
            kept = appended(handle, kept, moment)
    return kept


@pytest.fixture(autouse=True)
def one_beginning(monkeypatch):
    """Let ledgers that are begun anew in a test be the same, byte by byte."""
    monkeypatch.setattr(ledgers, "time_now", lambda: NOW)
    monkeypatch.setattr(ledgers.secrets, "token_hex", lambda size: "5c" * size)


@pytest.fixture(autouse=True)
def synced(monkeypatch):
    """Count what is asked to be on the disk, without the wait."""
    asked = []
    monkeypatch.setattr(os, "fsync", asked.append)
    return asked


@pytest.fixture
def path(tmp_path):
    return tmp_path / "losses.csv.ledger"


def test_a_ledger_verifies_and_says_what_it_holds(path):
    kept = written(path)
    assert verify_ledger(path) == read_ledger(path) == kept
    assert (kept.plan, kept.moments) == (PLAN, MOMENTS)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert kept.hashes == tuple(line["hash"] for line in lines)
    assert (kept.plan_hash, kept.last_hash) == (kept.hashes[0], kept.hashes[-1])
    assert (lines[0]["nonce"], lines[0]["model"], lines[0]["begun"]) == ("5c" * 16, None, NOW)
    assert [line["at"] for line in lines[1:]] == [NOW] * 4 == list(kept.times)
    assert lines[0]["plan"]["trained_on"] == PLAN.trained_on
    assert [line["previous"] for line in lines[1:]] == [line["hash"] for line in lines[:-1]]
    assert kept.length == path.stat().st_size


def test_a_line_is_on_the_disk_when_it_is_acknowledged(path, synced):
    with writing(path, PLAN) as (handle, kept):
        assert handle in synced
        for moment in MOMENTS:
            synced.clear()
            kept = appended(handle, kept, moment)
            assert synced == [handle]
            assert read_ledger(path).last_hash == kept.last_hash


def test_it_goes_on_where_it_stood_and_the_bytes_are_the_same(path, tmp_path):
    whole = written(path)
    other = tmp_path / "other"
    for count in range(5):
        assert written(other, MOMENTS[:count]).moments == MOMENTS[:count]
    assert other.read_bytes() == path.read_bytes()
    assert verify_ledger(other) == whole


@pytest.mark.slow
@pytest.mark.parametrize("held", [0, 4])
def test_cut_at_every_byte_of_the_last_line_nothing_acknowledged_is_lost(path, held):
    written(path, MOMENTS[:held])
    before = path.read_bytes()
    last = before[:-1].rfind(b"\n") + 1
    for length in range(last, len(before)):
        path.write_bytes(before[:length])
        if length > last or not held:
            with pytest.raises(InputError, match=r"cut off|line 1 is no plan"):
                verify_ledger(path)
        with writing(path, PLAN) as (_, kept):
            assert kept.moments == MOMENTS[: max(held - 1, 0)]
        verify_ledger(path)
        written(path, MOMENTS[:held])
        assert path.read_bytes() == before


@pytest.mark.slow
def test_a_kill_at_every_write_leaves_what_was_acknowledged(path, monkeypatch):
    """The disk takes so many bytes and no more: what was returned from is in the file."""
    written(path, MOMENTS[:3])
    whole = path.read_bytes()
    path.unlink()

    class Killed(Exception):
        pass

    real = os.write
    for budget in range(len(whole) + 1):
        left = [budget]

        def until_then(handle, data, left=left):
            if not left[0]:
                raise Killed
            done = real(handle, bytes(data[: left[0]]))
            left[0] -= done
            return done

        acknowledged = 0
        monkeypatch.setattr(ledgers.os, "write", until_then)
        with contextlib.suppress(Killed), writing(path, PLAN) as (handle, kept):
            for moment in MOMENTS[:3]:
                kept = appended(handle, kept, moment)
                acknowledged += 1
        monkeypatch.setattr(ledgers.os, "write", real)
        with writing(path, PLAN) as (_, kept):
            assert kept.moments == MOMENTS[:acknowledged]
        path.unlink()


def test_clients_read_together_are_written_together(path, tmp_path, synced):
    one_by_one = written(path)
    other = tmp_path / "other"
    with writing(other, PLAN) as (handle, begun):
        assert appended(handle, begun) == begun
        synced.clear()
        together = appended(handle, begun, *MOMENTS)
        assert synced == [handle]
    assert other.read_bytes() == path.read_bytes()
    assert together == one_by_one == verify_ledger(other)


@pytest.mark.slow
def test_a_kill_within_clients_read_together_leaves_whole_lines(path):
    """None of them was acknowledged: those whose lines are whole stay, and the chain goes on."""
    whole = written(path, MOMENTS[:1])
    data = path.read_bytes()
    written(path)
    lines = path.read_bytes()[len(data) :]
    for length in range(len(lines)):
        path.write_bytes(data + lines[:length])
        with writing(path, PLAN) as (_, kept):
            assert kept.moments[:1] == whole.moments
            assert len(kept.moments) == 1 + lines[:length].count(b"\n")
        written(path)
        assert path.read_bytes() == data + lines


@pytest.mark.slow
def test_a_change_of_any_byte_of_the_last_line_is_found(path):
    written(path)
    before = path.read_bytes()
    last = before[:-1].rfind(b"\n") + 1
    for place in range(last, len(before)):
        for other in {before[place] ^ 1, ord("7"), ord("\n"), ord(" ")} - {before[place]}:
            changed = bytearray(before)
            changed[place] = other
            path.write_bytes(bytes(changed))
            with pytest.raises(InputError, match=r"line [56]: ") as caught:
                verify_ledger(path)
            assert "\n" not in str(caught.value).replace(str(path), "")


def test_a_change_of_any_byte_of_the_plan_is_found(path):
    written(path)
    before = path.read_bytes()
    for place in range(before.find(b"\n") + 1):
        changed = bytearray(before)
        changed[place] ^= 1
        path.write_bytes(bytes(changed))
        with pytest.raises(InputError):
            verify_ledger(path)


def test_lines_taken_out_doubled_or_exchanged_are_found(path):
    written(path)
    head, *lines = path.read_bytes().splitlines(keepends=True)
    for order in ([1, 2, 3], [0, 2, 3], [0, 1, 1, 2, 3], [1, 0, 2, 3], [0, 1, 3]):
        path.write_bytes(b"".join([head, *(lines[i] for i in order)]))
        with pytest.raises(InputError, match="changed, or not the next line"):
            verify_ledger(path)
    path.write_bytes(b"".join([head, *lines[:2]]))
    short = verify_ledger(path)
    assert len(short.moments) == 2, "the last lines alone can be taken off; their hash tells"


@pytest.mark.parametrize("name", ["mean", "certificate", "evidence", "restarted"])
def test_a_number_that_is_wrong_under_a_chain_that_is_right_is_found(path, name):
    forged = [*MOMENTS]
    forged[2] = replace(forged[2], **{name: getattr(forged[2], name) * 0.999})
    written(path, forged)
    read_ledger(path)
    with pytest.raises(InputError, match=f"line 4: {name} is "):
        verify_ledger(path)


def test_lines_before_a_cut_are_said_to_hold_only_where_they_were_verified(path):
    written(path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-9])
    with pytest.raises(InputError, match=r"line 5: cut off.* hold \(3 clients\), and 'latecomer"):
        verify_ledger(path)
    path.write_bytes(whole + b"no line of watch")
    with pytest.raises(InputError, match=r"line 6: cut off.* hold \(4 clients\)$"):
        verify_ledger(path)
    path.unlink()
    written(path, [MOMENTS[0], replace(MOMENTS[1], certificate=0.01), *MOMENTS[2:]])
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(InputError, match=r"line 3: certificate is 0\.01"):
        verify_ledger(path)


def test_what_is_no_loss_or_a_client_twice_is_found(path):
    for wrong in ({"loss": 1.5}, {"loss": "low"}, {"client": "ann"}, {"certificate": None}):
        path.unlink(missing_ok=True)
        written(path, [MOMENTS[0], replace(MOMENTS[1], **wrong)])
        with pytest.raises(InputError, match="line 3: "):
            verify_ledger(path)


def test_a_ledger_may_begin_in_a_folder_that_is_made_for_it(tmp_path):
    with writing(tmp_path / "new" / "ledger", PLAN) as (_, kept):
        assert kept.moments == ()
    assert read_ledger(tmp_path / "new" / "ledger").plan == PLAN


def test_another_plan_another_writer_or_another_file_is_refused(path, tmp_path):
    written(path)
    with (
        pytest.raises(InputError, match=r"has another plan: delta 0\.1 \(there 0\.05\)"),
        writing(path, replace(PLAN, delta=0.1)),
    ):
        pass
    with (
        writing(path, PLAN),
        pytest.raises(InputError, match="another process is writing it"),
        writing(path, PLAN),
    ):
        pass
    other = tmp_path / "thesis.txt"
    for text in ("my only copy", "my only\ncopy\n", '{"latecomer":"run"}\n'):
        other.write_text(text)
        with pytest.raises(InputError, match="line 1"), writing(other, PLAN):
            pass
        assert other.read_text() == text
    path.write_bytes(path.read_bytes() + b"my only copy")
    with pytest.raises(InputError, match="no line of a ledger"), writing(path, PLAN):
        pass
    with pytest.raises(InputError, match="no such file"):
        verify_ledger(tmp_path / "absent")


def test_two_ledgers_of_one_plan_have_different_hashes(tmp_path, monkeypatch):
    """Whoever runs twenty streams cannot tell beforehand which of them is the one that counts."""
    monkeypatch.undo()
    kept = [written(tmp_path / name) for name in ("one", "other")]
    assert kept[0].plan == kept[1].plan
    assert kept[0].plan_hash != kept[1].plan_hash
    assert kept[0].head.nonce != kept[1].head.nonce
    again = written(tmp_path / "one")
    assert again == kept[0]


def test_a_ledger_keeps_the_model_and_is_refused_for_another(path, tmp_path):
    models = [tmp_path / name for name in ("a.bin", "b.bin")]
    for place, model in enumerate(models):
        model.write_bytes(bytes([place]) * 1000)
    first, second = map(model_hash, models)
    kept = written(path, MOMENTS[:2], model=first)
    assert kept.head.model == first == verify_ledger(path).head.model
    with (
        pytest.raises(InputError, match=rf"is of another model: {second} \(there {first}\)"),
        writing(path, PLAN, model=second),
    ):
        pass
    assert written(path, model=None).head.model == first
    with pytest.raises(InputError, match=r"model .*absent: cannot be read"):
        model_hash(tmp_path / "absent")


def test_an_expected_hash_is_that_of_the_plan_or_of_a_line(path):
    kept = written(path)
    for digest in (*kept.hashes, kept.plan_hash.upper()):
        assert verify_ledger(path, expect=digest) == kept
    for wrong, said in (
        ("0" * 64, "no line has the hash expected, 0000"),
        ("", "expect must be a hash of 64 hexadecimal digits, got ''"),
        (kept.plan_hash[:12], "expect must be a hash of 64 hexadecimal digits"),
    ):
        with pytest.raises(InputError, match=said):
            verify_ledger(path, expect=wrong)


def test_only_a_hash_kept_elsewhere_tells_a_ledger_written_anew_under_the_same_head(path):
    first = written(path)
    path.unlink()
    lower = moments_after(PLAN, (), [(client, loss / 2) for client, loss in ARRIVALS])
    written(path, lower)
    anew = verify_ledger(path, expect=first.plan_hash)
    assert (anew.plan_hash, anew.moments) == (first.plan_hash, lower)
    assert anew.last_hash != first.last_hash
    with pytest.raises(InputError, match="no line has the hash expected"):
        verify_ledger(path, expect=first.hashes[1])


def test_times_never_fall_even_if_the_clock_does(path):
    with writing(path, PLAN) as (handle, kept):
        for moment, at in zip(
            MOMENTS[:3], ("2026-01-02T03:05:00.000+00:00", NOW, None), strict=True
        ):
            kept = appended(handle, kept, moment, at=at)
    assert kept.times == ("2026-01-02T03:05:00.000+00:00",) * 3
    assert verify_ledger(path) == kept


@pytest.mark.parametrize(
    "at", ["yesterday", "2025-01-01T00:00:00.000+00:00", 7, "2027-01-01", None]
)
def test_a_time_that_is_none_or_falls_is_found_under_a_chain_that_is_right(path, monkeypatch, at):
    monkeypatch.setattr(ledgers, "max", lambda one, other: at, raising=False)
    written(path, MOMENTS[:1])
    read_ledger(path)
    with pytest.raises(InputError, match=r"line 2: time .* is none, or before that of the line"):
        verify_ledger(path)


@pytest.mark.parametrize(
    ("name", "value"), [("nonce", "5c"), ("nonce", None), ("model", "abc"), ("begun", "today")]
)
def test_a_first_line_of_the_wrong_form_is_found(path, monkeypatch, name, value):
    head = replace(ledgers._begun(PLAN, None), **{name: value})
    monkeypatch.setattr(ledgers, "_begun", lambda plan, model: head)
    written(path, [])
    with pytest.raises(InputError, match="line 1: "):
        verify_ledger(path)


def windows(data):
    return data.replace(b"\n", b"\r\n")


CHANGED_ENDS = {
    "crlf": windows,
    "bom": lambda data: b"\xef\xbb\xbf" + data,
    "both": lambda data: b"\xef\xbb\xbf" + windows(data),
    "some": lambda data: data.replace(b"\n", b"\r\n", 2),
}


@pytest.mark.parametrize("changed", CHANGED_ENDS.values(), ids=CHANGED_ENDS)
def test_line_ends_of_windows_are_read_and_gone_on_from(tmp_path, changed):
    other = tmp_path / "other"
    written(other, MOMENTS[:2])
    other.write_bytes(changed(other.read_bytes()))
    assert verify_ledger(other).moments == MOMENTS[:2]
    whole = written(other)
    assert (whole.moments, verify_ledger(other)) == (MOMENTS, whole)
    # What a crash left is cut off at the right byte.
    size = other.stat().st_size
    with other.open("ab") as file:
        file.write(b'{"n":5,"client"')
    written(other)
    assert other.stat().st_size == size


@pytest.mark.parametrize("changed", CHANGED_ENDS.values(), ids=CHANGED_ENDS)
def test_what_was_changed_beside_the_line_ends_is_still_refused(tmp_path, changed):
    place = tmp_path / "ledger"
    written(place)
    place.write_bytes(changed(place.read_bytes().replace(b'"loss":0.25', b'"loss":0.15')))
    with pytest.raises(InputError, match="line 4: changed"):
        verify_ledger(place)


@pytest.mark.parametrize("line", [b"[" * 200_000, b'{"latecomer":"watch","format":2,"nonce":NaN}'])
def test_what_only_looks_like_a_ledger_is_one_line(tmp_path, line):
    damaged = tmp_path / "x.ledger"
    if line.startswith(b"{"):
        line = line.replace(b"}", b',"plan":{}}')
    damaged.write_bytes(line + b"\n")
    with pytest.raises(InputError, match=r"x\.ledger, line 1: ") as caught:
        read_ledger(damaged)
    assert "\n" not in str(caught.value)
