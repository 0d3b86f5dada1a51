"""What is said of clients that keep arriving, after the last of them."""

from collections.abc import Sequence

from latecomer.certify.ledger import IF_ONLY, Ledger
from latecomer.certify.printed import rounded
from latecomer.certify.sentence_parts import WATCH
from latecomer.certify.sentences import statement
from latecomer.certify.watching import Moment, WatchPlan, first_alarm, voided_in


def end_lines(plan: WatchPlan, moments: Sequence[Moment], kept: Ledger | None) -> list[str]:
    """Say what was planned, what is proved by now, and what has to hold."""
    lines = [f"Plan, to be fixed before the first loss is seen: {_settled(plan)}."]
    if moments:
        lines.append(said_of_last(plan, moments[-1]))
    if plan.threshold is not None:
        lines += _alarm_lines(plan, plan.threshold, moments)
    ended = voided_in(plan, moments)
    if ended is not None:
        lines.append(ended.sentence(rounded(ended.value, decimals=3, up=True)))
    lines.append(
        "Holds if: the clients arrive independently from one population and none is left out (in a"
        " finite pool a newcomer makes up for those before); they played no part in training or in"
        f" choosing the model; losses lie in [0, {plan.loss_max:g}]."
    )
    if kept is not None:
        lines += [
            *_ledger_lines(kept),
            f"Plan's hash {kept.plan_hash}",
            f"Last hash   {kept.last_hash}",
            "Who can write a ledger can write it anew, or keep several and show the best: the"
            " plan's hash, given away before the first client, proves that the plan came first; the"
            " last hash, that nothing was taken off. What is certified holds"
            f" {IF_ONLY}.",
        ]
    return lines


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
    told = [f"rule {plan.rule}", f"delta {plan.delta:g}"]
    if plan.threshold is not None:
        bets = " ".join(f"{bet:g}" for bet in plan.bets)
        told.append(
            f"threshold {plan.threshold:g} (alpha {plan.alpha:g}, run length {plan.run_length},"
            f" bets {bets})"
        )
    if plan.sets is not None:
        told.append(
            f"sets of the labels with 1 - p <= {plan.sets:g} (a client's loss is the share of its"
            " points whose set misses the true label)"
        )
    if plan.trained_on:
        told.append(f"trained on {plan.trained_on}")
    return ", ".join(told)


def said_of_last(plan: WatchPlan, last: Moment) -> str:
    """Say in a sentence what is certified after the last client."""
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
    return statement(certificate, rounded(last.certificate, decimals=3, up=True))


def _alarm_lines(plan: WatchPlan, threshold: float, moments: Sequence[Moment]) -> list[str]:
    level = 1.0 / plan.alpha
    promises = (
        f"Alarm at evidence {level:.6g}: ever rings with probability at most {plan.alpha:g}",
        f"Restarted alarm at {plan.run_length}: rings after {plan.run_length} clients or more on"
        " average",
    )
    lines = []
    for promise, rung in zip(promises, first_alarm(plan, moments), strict=True):
        state = "has not rung" if rung is None else f"RANG AT CLIENT {rung}"
        lines.append(
            f"{promise} while newcomers score at most {threshold:g} in expectation; {state}."
        )
    if any(rung is not None for rung in first_alarm(plan, moments)):
        lines.append(
            "After an alarm clients may be of another population: the certificates are about one."
        )
    return lines
