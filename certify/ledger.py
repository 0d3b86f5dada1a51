"""A file that only grows: a plan first, then a line per client, each chained to the one before.

Every line is one JSON object in one fixed form, with the SHA-256 of the line before and of itself.
A line is on the disk before it is acknowledged, those read together at once; a partial line that a
crash left unacknowledged is removed.  The first line holds a number drawn for this ledger alone,
the time and the model's hash, so that two ledgers of the same settings differ; every other line
holds when its loss was read.

From the file alone anyone can tell that no line was changed and that every number follows from the
plan and the losses.  Nobody can tell from it that it is the only ledger of its plan, that the
losses were not sorted before they were read, or that the clock was right: the certificates hold if
it is the only one, whole and in the order of arrival.  Hashes kept elsewhere help: that of the
first line, given away before the first client, proves that the plan came first; that of any line,
that what is before it was not changed since.
"""

import json
import math
import os
import secrets
from codecs import BOM_UTF8
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from hashlib import file_digest, sha256
from pathlib import Path
from re import fullmatch
from typing import Any

from latecomer.certify.table import file_bytes
from latecomer.certify.watching import Moment, WatchPlan, moments_after, watch_plan
from latecomer.errors import InputError, refused_at
from latecomer.files import content_of, ending, lock_file, named, sync_folder

_FORMAT = 2
_BEGINS = f'{{"latecomer":"watch","format":{_FORMAT},'.encode("ascii")
IF_ONLY = "if this is the only ledger of this plan, whole and in the order of arrival"
"""What certificates of a ledger need that no file can show."""
_GOES_ON = "'latecomer watch' with the same plan goes on from there"
# Numbers are recomputed, maybe on another machine, whose logarithms may differ in the last digits.
_AGREE = 1e-9


@dataclass(frozen=True)
class Head:
    """The first line of a ledger.

    Attributes
    ----------
    plan : WatchPlan
        What was settled beforehand.
    nonce : str
        Drawn for this ledger alone: 32 hexadecimal digits.
    model : str or None
        SHA-256 of the model's file, where it was given.
    begun : str
        When the line was written, UTC, ISO 8601.
    """

    plan: WatchPlan
    nonce: str
    model: str | None
    begun: str


@dataclass(frozen=True)
class Ledger:
    """What a ledger holds.

    Attributes
    ----------
    head : Head
        Plan, nonce, model and time of its beginning.
    moments : tuple of Moment
        Results after every client.
    times : tuple of str
        When each client's loss was read, never falling; those read together have one time.
    hashes : tuple of str
        SHA-256 of every line, the plan's first.
    length : int
        Bytes of all whole lines.
    cut : bytes
        Bytes after these lines: the beginning of a line that was never acknowledged.
    """

    head: Head
    moments: tuple[Moment, ...]
    times: tuple[str, ...]
    hashes: tuple[str, ...]
    length: int
    cut: bytes = b""

    @property
    def plan(self) -> WatchPlan:
        """What was settled beforehand."""
        return self.head.plan

    @property
    def plan_hash(self) -> str:
        """SHA-256 of the first line: plan, nonce, model and time."""
        return self.hashes[0]

    @property
    def last_hash(self) -> str:
        """SHA-256 of the last line."""
        return self.hashes[-1]


def time_now() -> str:
    """Return the time in the form of a ledger: UTC, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def model_hash(path: str | Path) -> str:
    """Return the SHA-256 of a model's file.

    Raises
    ------
    InputError
        Where the file cannot be read.
    """
    try:
        with Path(path).open("rb") as file:
            return file_digest(ending(file), "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"model {path}: cannot be read: {error.strerror}") from error


def _line(told: Mapping[str, Any]) -> tuple[bytes, str]:
    """Return a line with its own hash at its end, and that hash."""
    digest = sha256(_spelt(told)).hexdigest()
    return _spelt({**told, "hash": digest}) + b"\n", digest


def _spelt(told: Mapping[str, Any]) -> bytes:
    return json.dumps(told, separators=(",", ":"), allow_nan=False).encode("ascii")


def _begun(plan: WatchPlan, model: str | None) -> Head:
    return Head(plan, nonce=secrets.token_hex(16), model=model, begun=time_now())


def _head_line(head: Head) -> tuple[bytes, str]:
    told = {"plan": head.plan.to_dict(), "nonce": head.nonce, "model": head.model}
    return _line({"latecomer": "watch", "format": _FORMAT, **told, "begun": head.begun})


def _entry(number: int, moment: Moment, at: str, previous: str) -> tuple[bytes, str]:
    return _line({"n": number, **asdict(moment), "at": at, "previous": previous})


def read_ledger(path: str | Path) -> Ledger:
    """Read a ledger and check its chain, line by line.

    Line ends may have become those of Windows: no hash is about them.

    Raises
    ------
    InputError
        One line naming the first ledger line that is not what was written.
    """
    return _parsed(path, file_bytes(path))


def _parsed(path: str | Path, data: bytes) -> Ledger:
    # Git on Windows and some editors write other line ends, and a mark in front.
    first, *lines = data.removeprefix(BOM_UTF8).replace(b"\r\n", b"\n").split(b"\n")
    if not lines:
        raise InputError(f"{path}: line 1 is no plan of a ledger of 'latecomer watch'")
    head = _head(path, first + b"\n")
    moments: list[Moment] = []
    times: list[str] = []
    hashes = [_head_line(head)[1]]
    *lines, cut = lines
    for number, line in enumerate(lines, start=1):
        where = f"{path}, line {number + 1}"
        moment, at, digest = _moment(where, line, number, hashes[-1])
        moments.append(moment)
        times.append(at)
        hashes.append(digest)
    length = data.rfind(b"\n") + 1
    return Ledger(head, tuple(moments), tuple(times), tuple(hashes), length, cut)


def _told(where: str, line: bytes) -> dict[str, Any]:
    try:
        told = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: changed, or no line of a ledger") from error
    if not isinstance(told, dict):
        raise InputError(f"{where}: changed, or no line of a ledger")
    return told


def _head(path: str | Path, line: bytes) -> Head:
    where = f"{path}, line 1"
    told = _told(where, line)
    if told.get("latecomer") != "watch" or not isinstance(told.get("plan"), dict):
        raise InputError(f"{where}: no plan of a ledger of 'latecomer watch'")
    if told.get("format") != _FORMAT:
        raise InputError(f"{where}: format {told.get('format')!r}, this version reads {_FORMAT}")
    with refused_at(where):
        plan = watch_plan(**told["plan"])
    head = Head(plan, told.get("nonce"), told.get("model"), told.get("begun"))  # type: ignore[arg-type]
    try:
        wanted = _head_line(head)[0]
    except ValueError as error:
        raise InputError(f"{where}: changed: holds what is no number") from error
    if line != wanted:
        raise InputError(f"{where}: the plan is not the one that its hash was made of")
    return head


def _moment(where: str, line: bytes, number: int, previous: str) -> tuple[Moment, str, str]:
    told = _told(where, line)
    inside = {key: told.get(key) for key in Moment.__dataclass_fields__}
    moment = Moment(**inside)  # type: ignore[arg-type]
    try:
        at: str = told.get("at")  # type: ignore[assignment]
        wanted, digest = _entry(number, moment, at, previous)
    except ValueError as error:
        raise InputError(f"{where}: changed: holds what is no number") from error
    if line + b"\n" != wanted:
        cause = "changed" if told.get("previous") == previous else "changed, or not the next line"
        raise InputError(f"{where}: {cause}: it is not what its hash was made of")
    return moment, at, digest


def verify_ledger(path: str | Path, *, expect: str | None = None) -> Ledger:
    """Check a ledger's chain, its plan, its times and every number, from nothing but the file.

    Parameters
    ----------
    path : path
    expect : str, optional
        A hash kept elsewhere: that of the plan's line, or of any later line.

    Raises
    ------
    InputError
        One line naming the first ledger line that is wrong, and what is wrong with it; or that no
        line has the hash expected.
    """
    if expect is not None and not fullmatch("[0-9a-fA-F]{64}", expect):
        raise InputError(f"expect must be a hash of 64 hexadecimal digits, got {expect!r}")
    kept = read_ledger(path)
    if expect is not None and expect.lower() not in kept.hashes:
        raise InputError(
            f"{path}: no line has the hash expected, {expect.lower()}; the plan's is"
            f" {kept.plan_hash}, the last one's {kept.last_hash}"
        )
    _check_types(path, kept)
    _check_times(path, kept)
    given = [(moment.client, moment.loss) for moment in kept.moments]
    for number, (told, anew) in enumerate(
        zip(kept.moments, moments_after(kept.plan, (), given), strict=True), start=2
    ):
        for name in ("mean", "certificate", "evidence", "restarted"):
            one, other = getattr(told, name), getattr(anew, name)
            if not _agree(one, other):
                raise InputError(
                    f"{path}, line {number}: {name} is {one!r}, the plan and the losses give"
                    f" {other!r}"
                )
    # Last, for it says that the lines before hold.
    if kept.cut:
        ours = f", and {_GOES_ON}" if _is_cut_line(kept) else ""
        raise InputError(
            f"{path}, line {len(kept.moments) + 2}: cut off, or changed at its end; the lines"
            f" before it hold ({len(kept.moments)} clients){ours}"
        )
    return kept


def _is_cut_line(kept: Ledger) -> bool:
    """Whether what follows the whole lines may be the next one, cut off by a crash."""
    begins = f'{{"n":{len(kept.moments) + 1},'.encode("ascii")
    return kept.cut.startswith(begins) or begins.startswith(kept.cut)


def _check_types(path: str | Path, kept: Ledger) -> None:
    seen: set[str] = set()
    for number, moment in enumerate(kept.moments, start=2):
        where = f"{path}, line {number}"
        if not isinstance(moment.client, str) or moment.client in seen:
            raise InputError(f"{where}: client {moment.client!r} is no client that is new")
        if not isinstance(moment.loss, float) or not 0 <= moment.loss <= kept.plan.loss_max:
            raise InputError(
                f"{where}: loss {moment.loss!r} is no number in [0, {kept.plan.loss_max:g}]"
            )
        seen.add(moment.client)


def _check_times(path: str | Path, kept: Ledger) -> None:
    head = kept.head
    for name, value, digits in (("nonce", head.nonce, 32), ("model", head.model, 64)):
        hexadecimal = isinstance(value, str) and fullmatch(f"[0-9a-f]{{{digits}}}", value)
        if not hexadecimal and (name, value) != ("model", None):
            raise InputError(f"{path}, line 1: {name} {value!r} is no {digits} hexadecimal digits")
    before = ""
    for number, at in enumerate((head.begun, *kept.times), start=1):
        if not _is_time(at) or at < before:
            raise InputError(
                f"{path}, line {number}: time {at!r} is none, or before that of the line above"
            )
        before = at


def _is_time(text: object) -> bool:
    try:
        read = datetime.fromisoformat(str(text)).astimezone(UTC)
    except ValueError:
        return False
    return read.isoformat(timespec="milliseconds") == text


def _agree(one: Any, other: Any) -> bool:
    if one is None or other is None:
        return one is other
    return isinstance(one, float) and math.isclose(one, other, rel_tol=_AGREE, abs_tol=1e-300)


@contextmanager
def writing(
    path: str | Path, plan: WatchPlan, *, model: str | None = None
) -> Iterator[tuple[int, Ledger]]:
    """Open a ledger to continue it, or begin one; a partial line left by a crash is removed.

    Missing folders are made; ``model`` is the SHA-256 of the model's file.

    Raises
    ------
    InputError
        Where the file has another plan or model, was changed, is no ledger or is being written by
        another process.
    """
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        try:
            lock_file(handle, wait=False)
        except BlockingIOError as error:
            raise InputError(f"{path}: another process is writing it") from error
        yield handle, _mended(path, handle, plan, model)
    finally:
        os.close(handle)


def _mended(path: str | Path, handle: int, plan: WatchPlan, model: str | None) -> Ledger:
    data = content_of(path)
    # A file that ends within its first line was never acknowledged.
    if b"\n" not in data and (data.startswith(_BEGINS) or _BEGINS.startswith(data)):
        head = _begun(plan, model)
        line, top = _head_line(head)
        os.ftruncate(handle, 0)
        with named(path):
            _write(handle, line)
        sync_folder(Path(path).resolve().parent)
        return Ledger(head, (), (), (top,), len(line))
    kept = _parsed(path, data)
    if kept.plan != plan:
        names = [
            f"{key} {ours!r} (there {theirs!r})"
            for (key, ours), theirs in zip(
                plan.to_dict().items(), kept.plan.to_dict().values(), strict=True
            )
            if ours != theirs
        ]
        raise InputError(f"{path}: has another plan: {', '.join(names)}")
    if model is not None and model != kept.head.model:
        raise InputError(f"{path}: is of another model: {model} (there {kept.head.model})")
    if kept.cut:
        if not _is_cut_line(kept):
            number = len(kept.moments) + 2
            raise InputError(f"{path}, line {number}: changed, or no line of a ledger")
        os.ftruncate(handle, kept.length)
        os.fsync(handle)
    return replace(kept, cut=b"")


def appended(handle: int, ledger: Ledger, *moments: Moment, at: str | None = None) -> Ledger:
    """Write the lines of more clients; when this returns they are on the disk.

    Clients that were read together are best written together: the file is asked once whether it is
    on the disk, and the lines before are not copied for each of them.  Their losses were read at
    the time ``at`` (`time_now`), now unless given.
    """
    if not moments:
        return ledger
    # A clock that was set back must not let a client arrive before the one above.
    read = max(at or time_now(), ledger.times[-1] if ledger.times else ledger.head.begun)
    lines, hashes = [], [ledger.last_hash]
    for number, moment in enumerate(moments, start=len(ledger.moments) + 1):
        line, digest = _entry(number, moment, read, hashes[-1])
        lines.append(line)
        hashes.append(digest)
    written = b"".join(lines)
    _write(handle, written)
    return replace(
        ledger,
        moments=(*ledger.moments, *moments),
        times=(*ledger.times, *(read for _ in moments)),
        hashes=(*ledger.hashes, *hashes[1:]),
        length=ledger.length + len(written),
    )


def _write(handle: int, line: bytes) -> None:
    left = memoryview(line)
    while left:
        left = left[os.write(handle, left) :]
    os.fsync(handle)
