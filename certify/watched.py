"""Clients that arrive one after another, from Python: what ``latecomer watch --once`` shows."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from os import PathLike
from typing import Any

import numpy as np

from latecomer.certify.arguments import WATCHED, Shown, told_in_full
from latecomer.certify.ledger import IF_ONLY, Ledger
from latecomer.certify.points import PointRows, read_points
from latecomer.certify.predicted_sets import (
    LABEL_SCORES,
    chances_of,
    labels_kept,
    refuse_weights,
)
from latecomer.certify.rule import Voided, told_of
from latecomer.certify.sentences import WATCH, statement
from latecomer.certify.table import Source, file_bytes, named, read_arrivals, read_in_order
from latecomer.certify.watching import (
    Moment,
    WatchPlan,
    first_alarm,
    moments_after,
    voided_in,
    watch_plan,
)
from latecomer.certify.words import chance, exact, rounded, wrapped
from latecomer.errors import InputError

Arrivals = tuple[tuple[str, float], ...]


def missed_in_order(source: str | bytes | PathLike[str], threshold: float) -> Arrivals:
    r"""Return clients in the order of arrival, each with the share of its points that sets miss.

    A set holds the labels whose 1 - p is at most the threshold, and the likeliest if none is.

    Parameters
    ----------
    source : path or bytes
        As for :func:`~latecomer.certify.points.score_points`, with the probabilities of all labels;
        a client's points stand together.
    threshold : float
        Of 1 - p, fixed before these clients.

    Raises
    ------
    InputError
        Without probabilities, with weights, or where a client comes back after another one.

    Examples
    --------
    >>> points = b"client,label,p_0,p_1\nann,0,.9,.1\nann,1,.8,.2\nbob,1,.4,.6\n"
    >>> missed_in_order(points, 0.5)
    (('ann', 0.5), ('bob', 0.0))
    """
    rows = read_points(source)
    chances, points = chances_of(rows), rows.points()
    refuse_weights(rows.called, points)
    _refuse_returns(rows)
    held = labels_kept(LABEL_SCORES["probability"].of(chances), threshold)
    missed = ~held[np.arange(len(held)), points.truth]
    counts = np.bincount(points.client)
    shares = np.bincount(points.client, missed) / counts
    return tuple(zip(rows.numbers, shares.tolist(), strict=True))


def _refuse_returns(rows: PointRows) -> None:
    """Refuse clients whose points do not stand together."""
    names, latest = list(rows.numbers), -1
    for number in rows.client:
        if number < latest:
            raise InputError(
                f"{rows.called}: client {names[number]!r} has points after those of"
                f" {names[latest]!r}; a client arrives once, with all of its points"
            )
        latest = max(latest, number)


def _arrivals(
    path: str | PathLike[str], *, loss_max: float, whole: bool, threshold: float
) -> Arrivals:
    """Read a file of points that may grow: its last client may have further points to come."""
    if whole:
        return missed_in_order(path, threshold)
    data = file_bytes(named(path))
    data = data[: data.rfind(b"\n") + 1]
    if data.count(b"\n") < 2:
        return ()
    return missed_in_order(data, threshold)[:-1]


def reader_of(threshold: float | None, column: str = "loss") -> Callable[..., Arrivals]:
    """Return what reads arrivals: a column's numbers or, with a threshold of sets, points."""
    if threshold is None:
        return partial(read_arrivals, column=column)
    return partial(_arrivals, threshold=threshold)


_AFTER = "After an alarm clients may be of another population: the certificates are about one."


_VALID = (
    "the clients arrive independently from one population and none is left out (in a finite pool a"
    " new client makes up for those before)",
    "they played no part in training or in choosing the model",
)
_OF_LEDGER = (
    "A ledger's owner can write it anew, or keep several and show the best. Send somebody the"
    " plan's hash before the first client, and the last hash when you stop: then what was written"
    f" anew shows. What is certified holds {IF_ONLY}."
)


def short_end_lines(plan: WatchPlan, moments: Sequence[Moment], kept: Ledger | None) -> list[str]:
    """Say what is proved by now and what has to hold: figures first, in 80 columns."""
    lines = []
    if moments:
        last = moments[-1]
        clients = "1 client" if len(moments) == 1 else f"{len(moments)} clients"
        what = "loss" if plan.likeness is None else "p"
        lines.append(f"{clients}, mean {what} {rounded(last.mean, decimals=3)}")
        if last.certificate is not None:
            bound = rounded(last.certificate, decimals=3, up=True)
            empty = "says nothing: the largest loss" if last.certificate >= plan.loss_max else ""
            said = empty or f"in {chance(plan.delta)} of streams, at any time"
            lines.append(f"  {'mean loss of clients still to come':<34} <= {bound}   {said}")
    if plan.limit is not None:
        lines += _short_alarms(plan, moments)
    lines += wrapped(f"Settled before the first {_of(plan)}: {_settled_words(plan)}.")
    for said in _ended(plan, moments):
        lines += wrapped(said)
    lines.append("Valid if")
    for assumed in _valid(plan):
        lines += wrapped(assumed, "  - ", "    ")
    if kept is not None:
        for said in _ledger_lines(kept):
            lines += wrapped(said)
        lines += [*_hashes(kept), *wrapped(_OF_LEDGER)]
    return [*lines, "In full sentences: --long (in_full)."]


def _of(plan: WatchPlan) -> str:
    return "loss" if plan.likeness is None else "p-value"


def _valid(plan: WatchPlan) -> tuple[str, ...]:
    if plan.likeness is None:
        return (*_VALID, f"losses lie in [0, {exact(plan.loss_max)}]")
    return (
        f"the p-values are ranks among the same {plan.likeness} certified clients, by a distance"
        " that was fixed without them and without new clients, and no two distances are equal",
        "no new client is left out",
    )


def _as_before(plan: WatchPlan) -> str:
    if plan.likeness is None:
        return f"new clients score at most {exact(plan.limit or 0.0)} in expectation"
    return f"new clients are like the {plan.likeness} certified clients"


def _short_alarms(plan: WatchPlan, moments: Sequence[Moment]) -> Iterator[str]:
    alarms = {
        f"evidence at {1 / plan.alpha:.6g}": f"ever falsely: at most {100 * plan.alpha:.6g}%",
        f"restarted at {plan.run_length}": f"falsely once in {plan.run_length} clients or more",
    }
    rung = first_alarm(plan, moments)
    yield f"Alarms, false while {_as_before(plan)}:"
    for (alarm, promise), at in zip(alarms.items(), rung, strict=True):
        state = "has not rung" if at is None else f"RANG AT CLIENT {at}"
        yield from wrapped(f"  {alarm:<20} {state} ({promise})", further="      ")
    if any(at is not None for at in rung):
        yield from wrapped(_AFTER)


def end_lines(plan: WatchPlan, moments: Sequence[Moment], kept: Ledger | None) -> list[str]:
    """Say what was planned, what is proved by now, and what has to hold, in full sentences."""
    lines = [f"Plan, to be fixed before the first {_of(plan)} is seen: {_settled_words(plan)}."]
    if moments and plan.likeness is None:
        lines.append(said_of_last(plan, moments))
    if plan.limit is not None:
        lines += _alarm_lines(plan, moments)
    lines += _ended(plan, moments)
    lines.append(f"Holds if: {'; '.join(_valid(plan))}.")
    if kept is not None:
        lines += [*_ledger_lines(kept), *_hashes(kept), _OF_LEDGER]
    return lines


def _ended(plan: WatchPlan, moments: Sequence[Moment]) -> list[str]:
    ended = voided_in(plan, moments)
    return [] if ended is None else [ended.sentence(rounded(ended.value, decimals=3, up=True))]


def _hashes(kept: Ledger) -> list[str]:
    return [f"Plan's hash {kept.plan_hash}", f"Last hash   {kept.last_hash}"]


def _ledger_lines(kept: Ledger) -> list[str]:
    model = "of a model that was not named (--model)"
    if kept.head.model is not None:
        model = f"model's hash {kept.head.model}"
    lines = [f"Begun {kept.head.begun}, {model}"]
    if kept.times:
        readings = len(set(kept.times))
        together = "1 reading" if readings == 1 else f"{readings} readings"
        lines.append(
            f"Arrived {kept.times[0]} to {kept.times[-1]}, in {together} of the file: the order"
            " within a reading is the file's own"
        )
    return lines


def _settled_words(plan: WatchPlan) -> str:
    told = [f"rule {plan.rule}", f"delta {plan.delta:g}"] if plan.likeness is None else []
    if plan.limit is not None:
        bets = " ".join(f"{bet:g}" for bet in plan.bets)
        watched = f"threshold {exact(plan.limit)}"
        if plan.likeness is not None:
            watched = f"likeness among {plan.likeness} certified clients"
        told.append(f"{watched} (alpha {plan.alpha:g}, run length {plan.run_length}, bets {bets})")
    if plan.sets is not None:
        told.append(
            f"sets of the labels with 1 - p <= {exact(plan.sets)} (a client's loss is the share of"
            " its points whose set misses the true label)"
        )
    if plan.trained_on:
        told.append(f"trained on {plan.trained_on}")
    return ", ".join(told)


def said_of_last(plan: WatchPlan, moments: Sequence[Moment]) -> str:
    """Say in a sentence what is certified after the last client, or whether the alarm has rung."""
    bound = moments[-1].certificate
    if bound is None:
        return _alarm_lines(plan, moments)[0]
    certificate = {
        "bound": f"{WATCH}:{plan.rule}",
        "population": "unseen-client",
        "sampling": "iid",
        "predictor": "any",
        "rigorous": True,
        "reason": "",
        "delta": plan.delta,
        "n_clients": 1,
    }
    return statement(certificate, rounded(bound, decimals=3, up=True))


def _alarm_lines(plan: WatchPlan, moments: Sequence[Moment]) -> list[str]:
    level = 1.0 / plan.alpha
    promises = (
        f"Alarm at evidence {level:.6g}: ever rings with probability at most {plan.alpha:g}",
        f"Restarted alarm at {plan.run_length}: rings after {plan.run_length} clients or more on"
        " average",
    )
    lines = []
    for promise, rung in zip(promises, first_alarm(plan, moments), strict=True):
        state = "has not rung" if rung is None else f"RANG AT CLIENT {rung}"
        lines.append(f"{promise} while {_as_before(plan)}; {state}.")
    if any(rung is not None for rung in first_alarm(plan, moments)):
        lines.append(_AFTER)
    return lines


@dataclass(frozen=True)
class Watched(Shown):
    """What is certified after every client.

    Attributes
    ----------
    plan : WatchPlan
        What was settled before the first loss.
    moments : tuple of Moment
        One per client, in the order of arrival.
    """

    plan: WatchPlan
    moments: tuple[Moment, ...]

    def __iter__(self) -> Iterator[Moment]:
        return iter(self.moments)

    def to_dict(self) -> dict[str, Any]:
        """Return plan, clients and alarms as plain data."""
        return {
            "plan": self.plan.to_dict(),
            "clients": [asdict(moment) for moment in self.moments],
            "alarms": first_alarm(self.plan, self.moments),
            "voided": told_of(self.voided),
        }

    def rows(self) -> list[dict[str, Any]]:
        """Return one record per client."""
        return [asdict(moment) for moment in self.moments]

    @property
    def voided(self) -> Voided | None:
        """The client that ended the fall of the plan's rule, and what the default gives."""
        return voided_in(self.plan, self.moments)

    @property
    def sentence(self) -> str:
        """What is certified after the last client, or whether the alarm of likeness has rung."""
        return said_of_last(self.plan, self.moments)

    def __str__(self) -> str:
        """Return the last lines that ``latecomer watch`` prints."""
        return "\n".join(short_end_lines(self.plan, self.moments, None))

    @property
    def in_full(self) -> str:
        """Return them as ``latecomer watch --long`` prints them."""
        return "\n".join(end_lines(self.plan, self.moments, None))


def _settled_plan(plan: WatchPlan | None, settings: dict[str, Any]) -> WatchPlan:
    """Return the plan that is given, or the one that the settings make."""
    if plan is None:
        return watch_plan(**settings)
    if not isinstance(plan, WatchPlan):
        raise InputError(
            "plan must be a WatchPlan (of latecomer.certify.watching.watch_plan), got"
            f" {type(plan).__name__}; or leave it out and name its settings: delta=0.05"
        )
    if settings:
        raise InputError(f"plan settles everything: leave {', '.join(settings)} out")
    return plan


@told_in_full(WATCHED)
def watch_losses(losses: Source, plan: WatchPlan | None = None, **settings: Any) -> Watched:
    """Certify clients in the order of their arrival, after each one.

    Parameters
    ----------
    losses : path, DataFrame, mapping or sequence
        One loss per client, in the order of arrival; with ``sets`` a path or bytes of points with
        the probabilities of all labels, each client's together; with ``likeness`` a p-value per
        client, in a column ``likeness``.
    plan : WatchPlan, optional
        What was settled before the first loss.
    **settings
        Fields of a plan, if none is given.

    Raises
    ------
    InputError
        One line naming the setting, or file and line, what is legal and what was given.

    Examples
    --------
    >>> watched = watch_losses({"ann": 0.0, "bob": 0.1}, delta=0.1)
    >>> watched.table()["certificate"].round(3).tolist()
    [0.916, 0.724]
    """
    settled = _settled_plan(plan, settings)
    if settled.sets is None:
        arrivals = read_in_order(losses, loss_max=settled.loss_max, column=settled.column)
    elif isinstance(losses, str | bytes | PathLike):
        arrivals = missed_in_order(losses, settled.sets)
    else:
        raise InputError(f"sets need a file of points, or its bytes, got {type(losses).__name__}")
    return Watched(settled, moments_after(settled, (), arrivals))
