"""What is said of clients that keep arriving, after the last of them."""

from collections.abc import Iterator, Sequence

from latecomer.certify.ledger import IF_ONLY, Ledger
from latecomer.certify.printed import rounded
from latecomer.certify.sentence_parts import WATCH
from latecomer.certify.sentences import statement
from latecomer.certify.watching import Moment, WatchPlan, first_alarm, voided_in
from latecomer.certify.words import chance
from latecomer.wrapping import wrapped

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
    lines += wrapped(f"Settled before the first {_of(plan)}: {_settled(plan)}.")
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
        return (*_VALID, f"losses lie in [0, {plan.loss_max:g}]")
    return (
        f"the p-values are ranks among the same {plan.likeness} certified clients, by a distance"
        " that was fixed without them and without new clients, and no two distances are equal",
        "no new client is left out",
    )


def _as_before(plan: WatchPlan) -> str:
    if plan.likeness is None:
        return f"new clients score at most {plan.limit:g} in expectation"
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
    lines = [f"Plan, to be fixed before the first {_of(plan)} is seen: {_settled(plan)}."]
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


def _settled(plan: WatchPlan) -> str:
    told = [f"rule {plan.rule}", f"delta {plan.delta:g}"] if plan.likeness is None else []
    if plan.limit is not None:
        bets = " ".join(f"{bet:g}" for bet in plan.bets)
        watched = f"threshold {plan.limit:g}"
        if plan.likeness is not None:
            watched = f"likeness among {plan.likeness} certified clients"
        told.append(f"{watched} (alpha {plan.alpha:g}, run length {plan.run_length}, bets {bets})")
    if plan.sets is not None:
        told.append(
            f"sets of the labels with 1 - p <= {plan.sets:g} (a client's loss is the share of its"
            " points whose set misses the true label)"
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
