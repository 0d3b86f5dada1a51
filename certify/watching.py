"""Clients that keep arriving: what is proved after each of them, under a plan set beforehand.

The plan is settled before the first loss; numbers follow from it and from the losses in the order
of their arrival, and from nothing else.  Needs no torch and loads none.
"""

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from latecomer.bounds.certificate import Array, scaled_up
from latecomer.bounds.checks import failure_probability
from latecomer.bounds.held_out.arriving import (
    BETS,
    betting_mixture_path,
    drift_evidence,
    drift_evidence_restarted,
    mixture_after,
    product_path,
)
from latecomer.bounds.held_out.betting import BET_WEIGHTS, betting_mixture
from latecomer.certify.rule import RULES, Voided
from latecomer.certify.table import file_bytes, read_arrivals
from latecomer.checks import checked, number_in, one_of, whole
from latecomer.errors import InputError, nearest, refused_at
from latecomer.reading.delimited import text_of
from latecomer.reading.yaml_text import read_mapping

_OFF = 0.1
"""How far a p-value times the number of ranks may lie from a whole number: it was rounded."""
_LESS = 1.0 - 1e-9
"""Takes off more than rounding can add."""


def unlikeness(p_values: Sequence[float], held_out: int) -> Array:
    r"""Return e-values: at least 0, and 1 in the mean given all before while new clients are like.

    A p-value of likeness is the rank of a new client's distance among those of ``k`` held-out
    clients: one of k + 1 gaps between them. New clients share the held-out clients, so their
    p-values depend on each other. While held-out and new clients are exchangeable and no two
    distances are equal, the next new client is as likely to come to each place in the order of all
    k + n before it: it falls into gap j with probability (1 + n_j) / (k + 1 + n), where n_j of the
    n new clients before it fell (Polya's urn). These probabilities cut [0, 1] into k + 1 parts
    [a_j, b_j], the farthest gap first: a uniform draw from the new client's part is the smoothed
    online p-value, and independent of those before (Vovk, Gammerman, Shafer, 2005, Theorem 8.1). It
    is not drawn: the e-value is the mean over the part of the mixture of all power bets
    ``e p^(e-1)``,

    ``(G(b_j) - G(a_j)) / (b_j - a_j)``, ``G(x) = int_0^1 x^e de = (x - 1) / log x``

    (Vovk, Wang, 2021, section 2, for the mixture). Its mean over the gaps is G(1) - G(0) = 1.

    Parameters
    ----------
    p_values : sequence of float, shape [n]
        In the order of arrival; each ``r / (held_out + 1)`` for a whole r, up to rounding.
    held_out : int
        Clients whose distances new clients are ranked among, at least 1.

    Returns
    -------
    ndarray of shape [n]
        Rounded down; larger is less alike, at most ``held_out + 1 + n``.

    Raises
    ------
    InputError
        A p-value is no rank among so many clients.

    Examples
    --------
    >>> unlikeness([0.25, 0.25, 1.0], held_out=3).round(3).tolist()
    [2.164, 1.637, 0.515]
    """
    newcomers = np.zeros(held_out + 1)
    values = np.empty(len(p_values))
    for place, p in enumerate(p_values):
        gap = round(p * (held_out + 1)) - 1
        if not 0 <= gap <= held_out or abs(p * (held_out + 1) - gap - 1) > _OFF:
            raise InputError(
                f"likeness must be a rank among {held_out} certified clients, a multiple of"
                f" 1/{held_out + 1} from 1/{held_out + 1} to 1, got {p:g}"
            )
        total = held_out + 1 + place
        below = gap + newcomers[:gap].sum()
        width = 1 + newcomers[gap]
        gained = _mixed(below + width, total) - _mixed(below, total)
        values[place] = _LESS * gained * total / width
        newcomers[gap] += 1
    return values


def _mixed(places: float, total: int) -> float:
    """Return G of a share of all places."""
    if places in (0, total):
        return float(places == total)
    return float((places / total - 1.0) / np.log(places / total))


Arrival = tuple[str, float]
"""A client and its loss."""
DEFAULT_PATH_RULE = "product_mixture"
"""Rule of a plan that names none; a client with the largest loss does not end its fall."""
_POLL_SECONDS = 0.2
_OF_LOSSES = ("rule", "delta", "loss_max", "threshold", "sets")
"""Settings that say nothing of p-values."""


@dataclass(frozen=True)
class WatchPlan:
    """What is settled before the first loss is seen.

    Attributes
    ----------
    rule : str
        One of ``PATH_RULES``.
    delta : float
        Failure probability of all certificates together.
    loss_max : float
        Largest possible loss.
    threshold : float or None
        Largest expected loss that is acceptable; None for no alarm.
    alpha : float
        Largest probability that the alarm ever rings falsely.
    run_length : int
        Least average number of clients until the first false alarm of the restarted alarm.
    bets : tuple of float
        What the alarms stake on each client.
    trained_on : str
        What the model that is scored was trained on, in the user's words.
    sets : float or None
        Threshold of 1 - p: points arrive in place of losses, and a client's loss is the share of
        its points whose set of labels misses the true one.  None: losses arrive.
    likeness : int or None
        Certified clients among whom new clients are ranked: p-values of likeness arrive in place of
        losses, nothing is certified, and the alarms are about new clients unlike those clients.
        None: losses arrive.
    """

    rule: str = DEFAULT_PATH_RULE
    delta: float = 0.05
    loss_max: float = 1.0
    threshold: float | None = None
    alpha: float = 0.05
    run_length: int = 1000
    bets: tuple[float, ...] = BETS
    trained_on: str = ""
    sets: float | None = None
    likeness: int | None = None

    @property
    def limit(self) -> float | None:
        """Expected loss, or e-value of likeness, above which alarms ring; None: there are none."""
        return self.threshold if self.likeness is None else 1.0

    @property
    def column(self) -> str:
        """Column of the clients' numbers."""
        return "loss" if self.likeness is None else "likeness"

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, strings and lists, ready for JSON."""
        told = asdict(self) | {"bets": list(self.bets)}
        # A plan of losses is written as it always was, one of likeness has nothing else.
        left_out = [name for name in ("sets", "likeness") if told[name] is None]
        for name in left_out if self.likeness is None else _OF_LOSSES:
            del told[name]
        return told


@dataclass(frozen=True)
class Moment:
    """Results after a client has arrived.

    Attributes
    ----------
    client : str
        Its id.
    loss : float
        Its loss, or its p-value of likeness.
    mean : float
        Mean of these so far.
    certificate : float or None
        Bound of the mean loss of clients still to come (not of the next client's own loss); the
        bounds after all clients hold together.  None of p-values.
    evidence, restarted : float or None
        Evidence of drift: from the first client on, and restarted at every client; None without
        a threshold.
    """

    client: str
    loss: float
    mean: float
    certificate: float | None
    evidence: float | None
    restarted: float | None


def _product(losses: Array, plan: WatchPlan, known: int, last: float) -> Array:
    return product_path(losses=losses, delta=plan.delta, loss_max=plan.loss_max).value[known:]


def _product_mixture(losses: Array, plan: WatchPlan, known: int, last: float) -> Array:
    level, top = np.array(plan.delta), plan.loss_max
    new = mixture_after(losses / top, level, np.array(BET_WEIGHTS), known)
    return np.minimum.accumulate([last, *(new if top == 1.0 else scaled_up(new, top))])[1:]


def _betting_mixture(losses: Array, plan: WatchPlan, known: int, last: float) -> Array:
    delta, top = plan.delta, plan.loss_max
    if not known:
        return betting_mixture_path(losses=losses, delta=delta, loss_max=top).value
    # Continue from the known part: recomputing the path for every client would take seconds.
    new = [
        float(betting_mixture(losses=losses[:seen], delta=delta, loss_max=top))
        for seen in range(known + 1, losses.size + 1)
    ]
    return np.minimum.accumulate([last, *new])[1:]


PATH_RULES: Mapping[str, Callable[[Array, WatchPlan, int, float], Array]] = MappingProxyType(
    {
        "product_mixture": _product_mixture,
        "product": _product,
        "betting_mixture": _betting_mixture,
    }
)
"""Rules whose certificates after all clients hold together."""


def watch_plan(**settings: Any) -> WatchPlan:
    """Check the settings of a plan, fields of `WatchPlan`, and fill in the others.

    Raises
    ------
    InputError
        One line naming the field, what is legal and what was given.

    Examples
    --------
    >>> watch_plan(rule="product", delta=0.1).run_length
    1000
    """
    known = [field.name for field in fields(WatchPlan)]
    for name in settings:
        if name not in known:
            raise InputError(f"{name} is no setting of a plan{nearest(str(name), known)}")
    asked = WatchPlan(**settings)
    if asked.likeness is not None:
        whole("likeness", asked.likeness, 1, 10**7)
        for name in _OF_LOSSES:
            if name in settings:
                raise InputError(f"{name} is about losses: leave it out with likeness")
    one_of("rule", asked.rule, tuple(PATH_RULES))
    loss_max = number_in("loss_max", asked.loss_max, 1e-300, 1e300)
    threshold = asked.threshold
    if threshold is not None:
        number_in("threshold", threshold, 0.0, loss_max)
        if threshold in (0, loss_max):
            raise InputError(
                f"threshold must lie strictly between 0 and {loss_max:g}, got {threshold:g}"
            )
    if not isinstance(asked.bets, list | tuple) or not asked.bets:
        raise InputError(f"bets must list one number or more in (0, 1], got {asked.bets!r}")
    if not isinstance(asked.trained_on, str):
        raise InputError(f"trained_on must be text, got {asked.trained_on!r}")
    if asked.sets is not None and loss_max != 1.0:
        raise InputError(
            f"loss_max must be 1 with sets, whose loss is a share of points, got {loss_max:g}"
        )
    return replace(
        asked,
        delta=float(checked(failure_probability, "delta", asked.delta)),
        loss_max=loss_max,
        threshold=None if threshold is None else float(threshold),
        alpha=float(checked(failure_probability, "alpha", asked.alpha)),
        run_length=whole("run_length", asked.run_length, 1),
        bets=tuple(number_in("bets", bet, 1e-6, 1.0) for bet in asked.bets),
        sets=None if asked.sets is None else number_in("sets", asked.sets, 0.0, 1.0),
    )


def read_plan(path: str | Path) -> WatchPlan:
    """Read a plan from a YAML file.

    Raises
    ------
    InputError
        One line naming the file and what is wrong with it.
    """
    data = file_bytes(path)
    with refused_at(path):
        legal = "a plan names its settings, as in 'delta: 0.05'"
        return watch_plan(**read_mapping(text_of(data), "plan", legal, broken="not YAML"))


def moments_after(
    plan: WatchPlan, known: Sequence[Moment], arrivals: Sequence[Arrival]
) -> tuple[Moment, ...]:
    """Return the results after each client that is not among the known ones.

    Arrivals are all clients in the order of their arrival, the known ones first.

    Examples
    --------
    >>> after = moments_after(watch_plan(), (), [("ann", 0.0), ("bob", 0.1)])
    >>> [round(moment.certificate, 3) for moment in after]
    [0.959, 0.807]
    """
    first = len(known)
    if len(arrivals) == first:
        return ()
    losses = np.array([loss for _, loss in arrivals])
    values = _certified(plan, known, losses)
    evidence: list[Any] = [None] * (losses.size - first)
    restarted = evidence
    if plan.limit is not None:
        given, top = losses, plan.loss_max
        if plan.likeness is not None:
            given = unlikeness(losses.tolist(), plan.likeness)
            top = plan.likeness + 1.0 + losses.size
        evidence, restarted = (
            alarm(losses=given, threshold=plan.limit, bets=plan.bets, loss_max=top)[first:].tolist()
            for alarm in (drift_evidence, drift_evidence_restarted)
        )
    means = (np.cumsum(losses) / np.arange(1, losses.size + 1))[first:].clip(max=plan.loss_max)
    return tuple(
        Moment(client, loss, *numbers)
        for (client, loss), *numbers in zip(
            arrivals[first:], means.tolist(), values, evidence, restarted, strict=True
        )
    )


def _certified(plan: WatchPlan, known: Sequence[Moment], losses: Array) -> list[Any]:
    """Return the certificate after each client that is not known yet; None where there are none."""
    if plan.likeness is not None:
        return [None] * (losses.size - len(known))
    last = known[-1].certificate if known else None
    last = plan.loss_max if last is None else last
    certified: list[Any] = PATH_RULES[plan.rule](losses, plan, len(known), last).tolist()
    return certified


def voided_after(
    plan: WatchPlan, arrivals: Sequence[Arrival], first: int = 0
) -> list[Voided | None]:
    """Return what has ended the fall of the plan's rule after every client beyond the first ones.

    Examples
    --------
    >>> named = watch_plan(rule="product")
    >>> [void and void.client for void in voided_after(named, [("ann", 0.0), ("bob", 1.0)])]
    [None, 'bob']
    """
    worst = [loss == plan.loss_max for _, loss in arrivals]
    if not RULES[plan.rule].ends_at_largest or not any(worst):
        return [None] * (len(arrivals) - first)
    at = worst.index(True)
    other = replace(plan, rule=DEFAULT_PATH_RULE, threshold=None)
    gives = _certified(other, (), np.array([loss for _, loss in arrivals]))
    client = arrivals[at][0]
    return [
        Voided(client, plan.rule, DEFAULT_PATH_RULE, value) if place >= at else None
        for place, value in enumerate(gives[first:], start=first)
    ]


def voided_in(plan: WatchPlan, moments: Sequence[Moment]) -> Voided | None:
    """Return what has ended the fall of the plan's rule by now."""
    ends = voided_after(plan, [(moment.client, moment.loss) for moment in moments])
    return ends[-1] if ends else None


def first_alarm(plan: WatchPlan, moments: Sequence[Moment]) -> tuple[int | None, int | None]:
    """Return the number of the client at which each alarm first rings: unrestarted, restarted."""
    rings = (
        [(moment.evidence or 0.0) >= 1.0 / plan.alpha for moment in moments],
        [(moment.restarted or 0.0) >= plan.run_length for moment in moments],
    )
    one, other = (row.index(True) + 1 if True in row else None for row in rings)
    return one, other


def arrivals_of(
    path: str | Path,
    *,
    loss_max: float,
    once: bool,
    wait: Callable[[float], None] = time.sleep,
    read: Callable[..., tuple[Arrival, ...]] = read_arrivals,
) -> Iterator[tuple[Arrival, ...]]:
    """Yield all clients so far, now and whenever the file has grown; with ``once``, only now.

    ``read`` maps the file, ``loss_max`` and whether it is ``whole`` to its clients.

    Raises
    ------
    InputError
        Where the file is no table of losses, or clients that were read before have changed.
    """
    before: tuple[Arrival, ...] = ()
    stamp: tuple[int, int] | None = None
    while True:
        arrivals = read(path, loss_max=loss_max, whole=once)
        if arrivals[: len(before)] != before:
            raise InputError(f"{path}: lines that were read before have changed; it may only grow")
        if arrivals != before or stamp is None:
            yield arrivals
        if once:
            return
        before = arrivals
        now = _stamp(path)
        while now == stamp:
            wait(_POLL_SECONDS)
            now = _stamp(path)
        stamp = now


def _stamp(path: str | Path) -> tuple[int, int]:
    try:
        status = os.stat(path)
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file any more") from error
    return status.st_size, status.st_mtime_ns
