"""Output of ``latecomer watch`` and ``verify``: a line per client, then what is proved."""

import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

import typer

from latecomer.certify.ledger import (
    IF_ONLY,
    Ledger,
    appended,
    model_hash,
    read_ledger,
    time_now,
    verify_ledger,
    writing,
)
from latecomer.certify.rule import Voided, told_of
from latecomer.certify.watched import end_lines, reader_of, short_end_lines
from latecomer.certify.watching import (
    Arrival,
    Moment,
    WatchPlan,
    arrivals_of,
    first_alarm,
    moments_after,
    read_plan,
    voided_after,
    voided_in,
    watch_plan,
)
from latecomer.certify.words import WIDTH, rounded, wrapped
from latecomer.commands.render import count, show_json
from latecomer.errors import InputError
from latecomer.files import named

_CLIENT = 12


def plan_of(path: Path | None, options: Mapping[str, Any]) -> WatchPlan:
    """Return the plan from a file or from the options, not from both."""
    if path is None:
        return watch_plan(**options)
    if options:
        named = ", ".join(f"--{name.replace('_', '-')}" for name in options)
        raise InputError(f"{path} is the plan: leave {named} out")
    return read_plan(path)


def watch_file(
    file: Path,
    plan: WatchPlan,
    *,
    ledger: Path | None,
    model: Path | None,
    once: bool,
    long: bool,
    as_json: bool,
) -> None:
    """Show what is certified after every client, now and as the file grows; keep it in a ledger.

    A client is shown only after its ledger line is on the disk.
    """
    moments: list[Moment] = []
    rung: frozenset[str] = frozenset()
    with ExitStack() as held:
        handle, kept = _opened(held, ledger, plan, model)
        if kept is not None and not kept.moments and not as_json:
            typer.echo(f"Plan's hash {kept.plan_hash}")
            typer.echo("Give it away before the first client arrives.")
        try:
            read = reader_of(plan.sets, plan.column)
            for arrivals in arrivals_of(file, loss_max=plan.loss_max, once=once, read=read):
                at = time_now()
                if kept is not None and not moments:
                    _check_same(file, kept.moments, arrivals)
                    moments = list(kept.moments)
                    voids = voided_after(plan, arrivals[: len(moments)])
                    rung = _show_rows(
                        plan, 0, list(zip(moments, voids, strict=True)), rung, as_json
                    )
                new = moments_after(plan, moments, arrivals)
                voids = voided_after(plan, arrivals, len(moments))
                if kept is not None and ledger is not None:
                    with named(ledger):
                        kept = appended(handle, kept, *new, at=at)
                first = len(moments)
                moments += new
                rung = _show_rows(plan, first, list(zip(new, voids, strict=True)), rung, as_json)
        except KeyboardInterrupt:
            if ledger is not None:
                # Ctrl-C may have come just after a line was written: read the file.
                kept = read_ledger(ledger)
                moments = list(kept.moments)
            _show_end(plan, moments, kept, long=long, as_json=as_json)
            raise KeyboardInterrupt(f"stopped after {count(len(moments), 'client')}") from None
        _show_end(plan, moments, kept, long=long, as_json=as_json)


def _opened(
    held: ExitStack, ledger: Path | None, plan: WatchPlan, model: Path | None
) -> tuple[int, Ledger | None]:
    if ledger is None:
        return -1, None
    told = None if model is None else model_hash(model)
    return held.enter_context(writing(ledger, plan, model=told))


def show_verified(path: Path, *, expect: str | None, long: bool, as_json: bool) -> None:
    """Show that a ledger is valid, or refuse it in one line."""
    kept = verify_ledger(path, expect=expect)
    if as_json:
        show_json(
            {
                "n_clients": len(kept.moments),
                "plan": kept.plan.to_dict(),
                "plan_hash": kept.plan_hash,
                "last_hash": kept.last_hash,
                "expected": expect,
                "model": kept.head.model,
                "begun": kept.head.begun,
                "arrived": [*kept.times[:1], *kept.times[-1:]],
                "readings": len(set(kept.times)),
                "holds": IF_ONLY,
                "certificate": kept.moments[-1].certificate if kept.moments else None,
                "alarms": first_alarm(kept.plan, kept.moments),
                "voided": told_of(voided_in(kept.plan, kept.moments)),
            }
        )
        return
    seen = count(len(kept.moments), "client")
    told = [f"{path}: {seen}; chain, plan and every number hold, {IF_ONLY}."]
    if expect is not None:
        told.append(f"The hash expected is that of {_line_of(kept, expect.lower())}.")
    for said in told:
        typer.echo("\n".join([said] if long else wrapped(said)))
    _show_end(kept.plan, kept.moments, kept, long=long, as_json=False)


def _line_of(kept: Ledger, digest: str) -> str:
    place = kept.hashes.index(digest)
    return "the plan" if place == 0 else f"line {place + 1}, client {place}"


def _check_same(file: Path, kept: Sequence[Moment], arrivals: Sequence[Arrival]) -> None:
    if len(arrivals) < len(kept):
        raise InputError(
            f"{file}: holds {count(len(arrivals), 'client')}, the ledger has {len(kept)} already"
        )
    for place, (moment, (client, loss)) in enumerate(zip(kept, arrivals, strict=False), start=1):
        if (moment.client, moment.loss) != (client, loss):
            raise InputError(
                f"{file}: client {place} is {client!r} with loss {loss:g}, in the ledger it is"
                f" {moment.client!r} with loss {moment.loss:g}"
            )


def _show_rows(
    plan: WatchPlan,
    first: int,
    new: Sequence[tuple[Moment, Voided | None]],
    rung: frozenset[str],
    as_json: bool,
) -> frozenset[str]:
    """Print a line for each new client and the alarms it raises; return all alarms so far.

    ``new`` holds each with what then voids the plan's rule.
    """
    for place, (moment, ended) in enumerate(new, start=first + 1):
        whole, restarted = first_alarm(plan, (moment,))
        now = {"drift": whole, "restarted": restarted}
        rings = [name for name, at in now.items() if at is not None and name not in rung]
        rung = rung.union(rings)
        if as_json:
            told = {"n": place, **asdict(moment), "rings": rings}
            told |= {} if ended is None else {"voided": told_of(ended)}
            typer.echo(json.dumps(told, allow_nan=False))
            continue
        if place == 1:
            for line in _header(plan):
                typer.echo(line)
        typer.echo(_row(plan, moment))
        for name in rings:
            for line in wrapped(f"DRIFT ALARM ({name}) at client {place}, {moment.client}"):
                typer.echo(line)
    return rung


def _header(plan: WatchPlan) -> list[str]:
    """Say what the marks are, then name the columns; the last goes from 0 to the largest loss."""
    if plan.likeness is not None:
        columns = (
            f"{'client':<{_CLIENT}} {'p':>6} {'so far':>6}  {'evidence':>9} {'restarted':>9}  "
        )
        return ["o p-value", f"{columns}0{'1':>{_ruler(plan)}}"]
    marks = ["o mean loss so far", "| certified mean loss of clients still to come"]
    alarms = ""
    if plan.threshold is not None:
        marks.append(": threshold")
        alarms = f"{'evidence':>9} {'restarted':>9}  "
    columns = f"{'client':<{_CLIENT}} {'loss':>6} {'so far':>6} {'mean <=':>8}  {alarms}"
    end = f"{plan.loss_max:g}"
    return [*wrapped(", ".join(marks)), f"{columns}0{end:>{_ruler(plan)}}"]


def _ruler(plan: WatchPlan) -> int:
    """Return how many steps the last column has between its two ends."""
    taken = _CLIENT + len(" 0.000  0.000    0.000  ")
    if plan.limit is not None:
        taken += len("123456789 123456789  ")
    return WIDTH - taken - 2


def _row(plan: WatchPlan, moment: Moment) -> str:
    name = moment.client if len(moment.client) <= _CLIENT else f"{moment.client[: _CLIENT - 1]}~"
    plain = "".join(c if c.isprintable() else "?" for c in name)
    alarms = ""
    if moment.evidence is not None and moment.restarted is not None:
        alarms = f"{moment.evidence:>9.3g} {moment.restarted:>9.3g}  "
    marks, bound = {"o": moment.loss}, ""
    if moment.certificate is not None:
        marks = {"o": moment.mean, "|": moment.certificate}
        bound = f" {rounded(moment.certificate, decimals=3, up=True):>8}"
    if plan.threshold is not None:
        marks = {":": plan.threshold} | marks
    steps = _ruler(plan)
    ruler = [" "] * (steps + 1)
    for mark, value in marks.items():
        ruler[round(steps * value / plan.loss_max)] = mark
    return (
        f"{plain:<{_CLIENT}} {rounded(moment.loss, decimals=3):>6}"
        f" {rounded(moment.mean, decimals=3):>6}{bound}  {alarms}{''.join(ruler)}".rstrip()
    )


def _show_end(
    plan: WatchPlan, moments: Sequence[Moment], kept: Ledger | None, *, long: bool, as_json: bool
) -> None:
    if not as_json:
        for line in (end_lines if long else short_end_lines)(plan, moments, kept):
            typer.echo(line)
