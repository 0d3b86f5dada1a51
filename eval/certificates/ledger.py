"""A file that only grows: a plan first, then a line per client, each chained to the one before.

Every line is one JSON object in one fixed form, with the SHA-256 of the line before and of itself.
A line is on the disk before it is acknowledged; a partial line that a crash left unacknowledged is
removed.  From the file alone anyone can tell that no line was changed and that every number
follows from the plan and the losses.  Only somebody who kept a hash elsewhere can tell that the
file was not rewritten as a whole: the plan's hash proves that the plan came first, the last line's
hash that nothing is missing.
"""

import fcntl
import json
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from latecomer.eval.certificates.arriving import Moment, WatchPlan, moments_after, watch_plan
from latecomer.eval.errors import InputError
from latecomer.eval.files import sync_folder

_FORMAT = 1
# Numbers are recomputed, maybe on another machine, whose logarithms may differ in the last digits.
_AGREE = 1e-9


@dataclass(frozen=True)
class Ledger:
    """What a ledger holds.

    Attributes
    ----------
    plan : WatchPlan
        What was settled beforehand.
    moments : tuple of Moment
        Results after every client.
    plan_hash, last_hash : str
        SHA-256 of the first line and of the last.
    length : int
        Bytes of all whole lines.
    cut : bytes
        Bytes after these lines: the beginning of a line that was never acknowledged.
    """

    plan: WatchPlan
    moments: tuple[Moment, ...]
    plan_hash: str
    last_hash: str
    length: int
    cut: bytes = b""


def _line(told: Mapping[str, Any]) -> tuple[bytes, str]:
    """Return a line with its own hash at its end, and that hash."""
    digest = sha256(_spelt(told)).hexdigest()
    return _spelt({**told, "hash": digest}) + b"\n", digest


def _spelt(told: Mapping[str, Any]) -> bytes:
    return json.dumps(told, separators=(",", ":"), allow_nan=False).encode("ascii")


def _head(plan: WatchPlan) -> tuple[bytes, str]:
    return _line({"latecomer": "watch", "format": _FORMAT, "plan": plan.to_dict()})


def _entry(number: int, moment: Moment, previous: str) -> tuple[bytes, str]:
    return _line({"n": number, **asdict(moment), "previous": previous})


def plan_hash(plan: WatchPlan) -> str:
    """Return the hash in the first line of a plan's ledger, to be published beforehand.

    Examples
    --------
    >>> plan_hash(watch_plan()) == plan_hash(watch_plan(delta=0.05)) != plan_hash(
    ...     watch_plan(delta=0.1)
    ... )
    True
    """
    return _head(plan)[1]


def read_ledger(path: str | Path) -> Ledger:
    """Read a ledger and check its chain, line by line.

    Raises
    ------
    InputError
        One line naming the first ledger line that is not what was written.
    """
    try:
        data = Path(path).read_bytes()
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file") from error
    return _parsed(path, data)


def _parsed(path: str | Path, data: bytes) -> Ledger:
    first, *lines = data.split(b"\n")
    if not lines:
        raise InputError(f"{path}: line 1 is no plan of a ledger of 'latecomer watch'")
    plan = _plan(path, first + b"\n")
    _, top = _head(plan)
    moments: list[Moment] = []
    last = top
    *lines, cut = lines
    for number, line in enumerate(lines, start=1):
        moment, last = _moment(f"{path}, line {number + 1}", line, number, last)
        moments.append(moment)
    return Ledger(plan, tuple(moments), top, last, len(data) - len(cut), cut)


def _told(where: str, line: bytes) -> dict[str, Any]:
    try:
        told = json.loads(line)
    except ValueError as error:
        raise InputError(f"{where}: changed, or no line of a ledger") from error
    if not isinstance(told, dict):
        raise InputError(f"{where}: changed, or no line of a ledger")
    return told


def _plan(path: str | Path, line: bytes) -> WatchPlan:
    where = f"{path}, line 1"
    told = _told(where, line)
    if told.get("latecomer") != "watch" or not isinstance(told.get("plan"), dict):
        raise InputError(f"{where}: no plan of a ledger of 'latecomer watch'")
    if told.get("format") != _FORMAT:
        raise InputError(f"{where}: format {told.get('format')!r}, this version reads {_FORMAT}")
    try:
        plan = watch_plan(**told["plan"])
    except InputError as error:
        raise InputError(f"{where}: {error}") from error
    if line != _head(plan)[0]:
        raise InputError(f"{where}: the plan is not the one that its hash was made of")
    return plan


def _moment(where: str, line: bytes, number: int, previous: str) -> tuple[Moment, str]:
    told = _told(where, line)
    inside = {key: told.get(key) for key in Moment.__dataclass_fields__}
    moment = Moment(**inside)  # type: ignore[arg-type]
    try:
        wanted, digest = _entry(number, moment, previous)
    except ValueError as error:
        raise InputError(f"{where}: changed: holds what is no number") from error
    if line + b"\n" != wanted:
        cause = "changed" if told.get("previous") == previous else "changed, or not the next line"
        raise InputError(f"{where}: {cause}: it is not what its hash was made of")
    return moment, digest


def verify_ledger(path: str | Path) -> Ledger:
    """Check a ledger's chain, its plan and every number, from nothing but the file.

    Raises
    ------
    InputError
        One line naming the first ledger line that is wrong, and what is wrong with it.
    """
    kept = read_ledger(path)
    if kept.cut:
        raise InputError(
            f"{path}, line {len(kept.moments) + 2}: cut off, or changed at its end; the lines"
            f" before it hold ({len(kept.moments)} clients), and 'latecomer watch' with the same"
            " plan goes on from there"
        )
    _check_types(path, kept)
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
    return kept


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


def _agree(one: Any, other: Any) -> bool:
    if one is None or other is None:
        return one is other
    return isinstance(one, float) and math.isclose(one, other, rel_tol=_AGREE, abs_tol=1e-300)


@contextmanager
def writing(path: str | Path, plan: WatchPlan) -> Iterator[tuple[int, Ledger]]:
    """Open a ledger to continue it, or begin one; a partial line left by a crash is removed.

    Raises
    ------
    InputError
        Where the file has another plan, was changed, is no ledger or is being written by
        another process.
    """
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise InputError(f"{path}: another process is writing it") from error
        yield handle, _mended(path, handle, plan)
    finally:
        os.close(handle)


def _mended(path: str | Path, handle: int, plan: WatchPlan) -> Ledger:
    data = Path(path).read_bytes()
    head, top = _head(plan)
    # A file that ends within this plan's first line was never acknowledged.
    if len(data) < len(head) and head.startswith(data):
        os.ftruncate(handle, 0)
        _write(handle, head)
        sync_folder(Path(path).resolve().parent)
        return Ledger(plan, (), top, top, len(head))
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
    if kept.cut:
        number = len(kept.moments) + 1
        begins = f'{{"n":{number},'.encode("ascii")
        if not (kept.cut.startswith(begins) or begins.startswith(kept.cut)):
            raise InputError(f"{path}, line {number + 1}: changed, or no line of a ledger")
        os.ftruncate(handle, kept.length)
        os.fsync(handle)
    return replace(kept, cut=b"")


def appended(handle: int, ledger: Ledger, moment: Moment) -> Ledger:
    """Write the line of one more client; when this returns it is on the disk."""
    line, digest = _entry(len(ledger.moments) + 1, moment, ledger.last_hash)
    _write(handle, line)
    return replace(
        ledger,
        moments=(*ledger.moments, moment),
        last_hash=digest,
        length=ledger.length + len(line),
    )


def _write(handle: int, line: bytes) -> None:
    left = memoryview(line)
    while left:
        left = left[os.write(handle, left) :]
    os.fsync(handle)
