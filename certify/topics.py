"""What a certificate of a table of losses states: a line, a number and a sentence each."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from latecomer.bounds.certificate import Certificate
from latecomer.certify.further_statements import GROUPS_OWN, Compared, Step
from latecomer.certify.populations import Shifted, no_shift
from latecomer.certify.rule import Voided
from latecomer.certify.sentences import FILE, not_scored, statement
from latecomer.certify.statements import LossCertificate
from latecomer.certify.together import unproven
from latecomer.certify.words import chance, count, exact, inward, rounded

if TYPE_CHECKING:
    from latecomer.certify.statements import MeanLoss
    from latecomer.certify.together import LossAnswers

_ABOUT = {
    "kl": "mean loss, KL(Q || P) <= {}",
    "tv": "mean loss, TV(Q, P) <= {}",
    "chi2": "mean loss, chi2(Q || P) <= {}",
    "subgroup": "mean loss of any group of share {}",
}
_DISTANCES = {"kl": "KL(Q || P)", "tv": "TV(Q, P)", "chi2": "chi2(Q || P)"}
_MOST_STEPS = 12
NO_PROOF = "not a proof here"
"""Stands beside a figure whose rule's proof is its author's."""


class About(Protocol):
    """What a sentence says of the sample."""

    @property
    def rule(self) -> str:
        """Name of the rule of the mean."""

    @property
    def n_clients(self) -> int:
        """Clients certified."""

    @property
    def pool_size(self) -> int | None:
        """Clients of the pool they were drawn from."""

    @property
    def in_order(self) -> bool:
        """Whether the order in which they were drawn is known."""

    @property
    def seed(self) -> int | None:
        """Seed of the orders that the rule averages over."""

    @property
    def losses(self) -> Sequence[float]:
        """One loss a client."""


@dataclass(frozen=True)
class Said:
    """One statement."""

    about: str  # what is bounded
    value: float  # the bound, or the radius at which a target breaks
    shown: str  # the value as text, rounded to the side on which it holds
    note: str = ""  # remark printed after the value
    sentence: str = ""  # the full statement; empty where its topic states it
    sign: str = "<="  # relation between ``about`` and ``shown``: two characters

    @property
    def line(self) -> str:
        """The line printed on the terminal."""
        return f"  {self.about:<34} {self.sign} {self.shown}   {self.note}".rstrip()


@dataclass(frozen=True)
class Topic:
    """Statements of one kind, with a heading and a closing sentence; maybe what they assume."""

    name: str
    heading: str
    said: tuple[Said, ...]
    closing: str = ""
    assumes: bool = False

    @property
    def lines(self) -> list[str]:
        """All that the terminal prints of it."""
        return [self.heading, *(one.line for one in self.said), *self.sentences]

    @property
    def sentences(self) -> list[str]:
        """All its statements in full."""
        told = [*(one.sentence for one in self.said), self.closing]
        return [sentence for sentence in told if sentence]


def shown_up(bound: Certificate | float) -> str:
    """Show a bound, rounded up."""
    return rounded(float(bound), decimals=3, up=True)


def _empty(issued: Certificate) -> str:
    return "says nothing; " if bool(issued.vacuous) else ""


def voided_sentence(voided: Voided) -> str:
    """Name the client that voids the rule asked for, and what the default gives."""
    return voided.sentence(shown_up(voided.value))


def _sentence(
    issued: Certificate,
    bound: str,
    value: str,
    n_clients: int,
    pool_size: int | None,
    **orders: Any,
) -> str:
    """Say in one sentence what a certificate from a table states."""
    return statement(
        {
            "bound": f"{FILE}:{bound}",
            "population": issued.population,
            "sampling": issued.sampling,
            "predictor": issued.predictor,
            "rigorous": issued.rigorous,
            "reason": issued.reason,
            "delta": float(issued.delta_total),
            "n_clients": n_clients,
            "pool": pool_size,
            **orders,
        },
        value,
    )


def loss_statements(proved: LossCertificate) -> list[str]:
    """Return one sentence on what is proved of the mean loss, one on the next client's loss."""
    said = []
    if proved.certificate is not None:
        said.append(mean_sentence(proved, proved.certificate))
    if proved.next_client is not None:
        said.append(next_sentence(proved.next_client, proved.n_clients, proved.pool_size))
    return said


def mean_sentence(proved: "LossCertificate | MeanLoss", issued: Certificate) -> str:
    """Say what is proved of the mean loss, and what it leaves for the others of a pool."""
    sizes = (proved.n_clients, proved.pool_size)
    left = "" if proved.others is None else f" {_left(proved, proved.others)}."
    return _sentence(issued, proved.rule, shown_up(issued), *sizes, **_orders(proved)) + left


def next_sentence(issued: Certificate, n_clients: int, pool_size: int | None) -> str:
    """Say what is proved of the next client's loss."""
    return _sentence(issued, "conformal", shown_up(issued), n_clients, pool_size)


def _orders(proved: "About | LossCertificate | MeanLoss") -> dict[str, Any]:
    return {"in_order": proved.in_order, "orders_seed": proved.seed}


def _left(proved: "LossCertificate | MeanLoss", others: float) -> str:
    left = (proved.pool_size or 0) - proved.n_clients
    whom = not_scored(left, "the pool")
    return f"For {whom} it leaves a mean of at most {shown_up(others)} as measured on theirs"


def statement_rows(certified: "LossAnswers") -> list[dict[str, Any]]:
    """Return every statement as a record, those on the mean and the next client first."""
    said = loss_statements(certified)
    first = []
    if certified.certificate is not None:
        mean = Said("mean loss", float(certified.certificate), "", "", said[0])
        first.append(Topic("mean", "", (mean,)))
    if certified.next_client is not None:
        following = Said("loss of the next client", float(certified.next_client), "", "", said[-1])
        first.append(Topic("next client", "", (following,)))
    return [
        {
            "topic": topic.name,
            "about": one.about,
            "bound": one.value,
            "note": one.note,
            "sentence": one.sentence or topic.closing,
        }
        for topic in [*first, *topics(certified)]
        for one in topic.said
    ]


def topics(certified: "LossAnswers") -> list[Topic]:
    """List what was asked beyond the mean and the next client, by topic."""
    balls = [(one, certified.radii[ball]) for ball, one in certified.shifts.items()]
    listed = [
        shifts(certified, *balls),
        tails(certified, certified.above, certified.curve),
        groups(certified.by, certified.groups, certified.delta, certified.alpha),
    ]
    if certified.against is not None:
        listed.append(against(certified.against, certified.other, certified.delta))
    return [topic for topic in listed if topic.said]


def shifts(about: About, *shifted: tuple[Shifted, Sequence[float]]) -> Topic:
    """Return the statements on other populations, each ball's with the radii asked for."""
    return Topic(
        "shifts",
        "Other populations Q than the certified one, P; each way to compare them is a statement of"
        " its own:",
        tuple(said for one, radii in shifted for said in of_ball(about, one, radii)),
    )


def of_ball(about: About, shifted: Shifted, radii: Sequence[float]) -> Iterator[Said]:
    """Yield the statements on populations within the radii of a ball, and where a target breaks."""
    ball = shifted.ball

    def sentence(radius: str, value: str, *, shift: bool = True) -> str:
        # Without a shift it is the mean's own certificate.
        bound = f"{shifted.rule}@{ball}={radius}" if shift else about.rule
        sizes = (about.n_clients, about.pool_size)
        return _sentence(shifted.certificate, bound, value, *sizes, **_orders(about))

    if radii:
        for radius, value in zip(
            shifted.radii, shifted.certificate.value.ravel().tolist(), strict=True
        ):
            shown = shown_up(value)
            empty = "" if shifted.certificate.rigorous else NO_PROOF
            empty = "says nothing" if value >= shifted.certificate.loss_max else empty
            whose = _ABOUT[ball].format(exact(radius))
            full = sentence(exact(radius), shown, shift=radius != no_shift(ball))
            yield Said(whose, value, shown, empty, full)
    if shifted.breaking is not None and shifted.target is not None:
        yield from _breaking(shifted, shifted.breaking, exact(shifted.target), sentence)


def _breaking(
    shifted: Shifted, radius: float, target: str, sentence: Callable[[str, str], str]
) -> Iterator[Said]:
    group, proved = shifted.ball == "subgroup", shifted.certificate.rigorous
    about = (
        "smallest share of any group" if group else f"breaking radius, {_DISTANCES[shifted.ball]}"
    )
    if math.isnan(radius):
        yield Said(
            about, radius, "none ", f"not certified below {target} under any shift", sign="  "
        )
        return
    shown = inward(radius, up=group)
    note = f"so far the mean loss is certified to stay below {target}"
    if not proved:
        note = f"{NO_PROOF}: {note}"
    yield Said(about, radius, shown, note, sentence(shown, target), sign=" =")


def tails(
    about: About,
    above: Mapping[float, Certificate],
    curve: tuple[Certificate, Sequence[Step]] | None,
) -> Topic:
    """Return the statements on clients with large losses."""
    n, pool, said = about.n_clients, about.pool_size, []
    for threshold, issued in above.items():
        shown = shown_up(issued)
        bad = sum(loss > threshold for loss in about.losses)
        said.append(
            Said(
                f"share of clients above {exact(threshold)}",
                float(issued),
                shown,
                f"{_empty(issued)}{bad} of {n} sampled",
                _sentence(issued, f"fraction_above@{exact(threshold)}", shown, n, pool),
            )
        )
    closing = ""
    if curve is not None:
        width, steps = curve
        # A dozen steps at most; JSON has all of them.
        for threshold, sampled, upper in steps[:: max(1, -(-len(steps) // _MOST_STEPS))]:
            share, note = f"share above {exact(threshold)}", f"sampled {sampled:.3f}"
            said.append(Said(share, upper, shown_up(upper), note))
        closing = _sentence(width, "error_curve", shown_up(width), n, pool)
    settled = ", at thresholds settled before any was looked at" if above else ""
    return Topic("tails", f"Clients with large losses{settled}:", tuple(said), closing)


def groups(by: str, named: Mapping[str, LossCertificate], delta: float, alpha: float) -> Topic:
    """Return the statements on groups of clients, which share delta and alpha."""
    those = "the 1 has" if len(named) == 1 else f"the {len(named)} share"
    heading = (
        f"Groups by {by}: {those} delta and alpha, all bounds"
        f" hold at once with probability {chance(delta)} (next clients {chance(alpha)}):"
    )
    said = tuple(_group(name, one) for name, one in named.items())
    ended = {name: one.voided for name, one in named.items() if one.voided is not None}
    told = [f"{name}: {voided_sentence(one)}" for name, one in ended.items()]
    reason = unproven(*(one.certificate for one in named.values()))
    no_proof = [f"Of the means this is not a proof here. The reason: {reason}."] if reason else []
    closing = " ".join([f"Holds if: {GROUPS_OWN}.", *no_proof, *told]) if said else ""
    return Topic("groups", heading, said, closing, assumes=True)


def _group(name: str, one: LossCertificate) -> Said:
    noted = [f"{count(one.n_clients, 'client')}, mean {rounded(one.mean, decimals=3)}"]
    if one.certificate is not None and bool(one.certificate.vacuous):
        noted.insert(0, "says nothing: the largest loss")
    if one.next_client is not None:
        empty = next_note(one.rank, one.n_clients, one.clients_needed, one.next_client)
        noted.append(f"next client <= {shown_up(one.next_client)}{empty and f', {empty}'}")
    return Said(
        f"mean loss of {name}",
        math.nan if one.certificate is None else float(one.certificate),
        "-" if one.certificate is None else shown_up(one.certificate),
        "; ".join(noted),
    )


def next_note(rank: int, n_clients: int, needed: int, issued: Certificate) -> str:
    """Say why a bound of the next client's loss says nothing; no text if it says something."""
    if rank > n_clients:
        return f"says nothing: takes {needed} clients"
    return "says nothing: the largest loss" if bool(issued.vacuous) else ""


def against(one: Compared, other: str, delta: float) -> Topic:
    """Return the statements on two models."""
    noted = f" ({'; '.join(one.notes)})" if one.notes else ""
    heading = (
        f"Against {other}{noted}, on the same {count(one.n_clients, 'client')}: differences are"
        f" losses here less losses there, worse is a larger loss here; each statement at delta"
        f" {delta:g}:"
    )
    difference, worse = shown_up(one.certificate), shown_up(one.worse)
    said = (
        Said(
            "mean difference of losses",
            float(one.certificate),
            difference,
            f"{_empty(one.certificate)}sampled {one.difference:+.3f}",
        ),
        Said(
            "share of clients served worse",
            float(one.worse),
            worse,
            f"{_empty(one.worse)}{one.n_worse} of {one.n_clients} sampled",
        ),
    )
    closing = f"Holds if: {'; '.join(one.certificate.assumptions)}."
    return Topic("against", heading, said, closing, assumes=True)
