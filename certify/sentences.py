"""The sentence about a certificate, for report, cards, command line and documentation.

Four things: what the probability is over, whose error (population), how they are served (predictor)
and whether errors are as measured on the clients' own points or expected over fresh ones.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from latecomer.certify.rule import BEST_OF, RULES
from latecomer.certify.rules.declaration import is_own
from latecomer.certify.words import (
    NOTHING_NEW,
    chance,
    count,
    listing,
    magnitude,
    shift_name,
    whole_percent,
)

REALISED = frozenset({BEST_OF, *(name for name, rule in RULES.items() if rule.realised)})
"""Rules that, in a pool, are about scores as measured; ``best_of`` may contain such a rule."""
ORDERED = frozenset(name for name, rule in RULES.items() if rule.ordered)
"""Rules that bet along the random order of the clients."""
AVERAGED = frozenset(name for name, rule in RULES.items() if rule.orders)
"""Rules that average over orders: permutations of the clients' random order, or drawn afresh."""
FILE = "file"
"""Route of certificates from a table of losses (``latecomer certify``)."""
WATCH = "watch"
"""Route of certificates after every arriving client (``latecomer watch``)."""
Certificate = Mapping[str, Any]


@dataclass(frozen=True)
class Parts:
    """What a sentence about a certificate names."""

    over: str  # what the probability is over
    population: str  # what is bounded, and over which clients
    predictor: str  # how these clients are served
    scores: str  # whether errors are realised or expected ones
    more: str = ""  # what must be added, in a sentence of its own
    verb: str = "is at most"  # words between what is bounded and the value


_SERVED: Mapping[str, str] = MappingProxyType(
    {
        "gibbs": "each served by a model drawn anew from the posterior",
        "deterministic": "each served by the one model that the trained system makes for it",
    }
)
_BY_THE_SCORED = "served by the model that was scored"
ENVIRONMENT = (
    "new clients of the same environment (classes and samples drawn from the finite set laid aside)"
)
BALLS: Mapping[str, str] = MappingProxyType(
    {
        "kl": "every population Q of clients with KL(Q || P) at most {}, P being {}",
        "tv": "every population Q of clients with TV(Q, P) at most {}, P being {}",
        "chi2": "every population Q of clients with chi2(Q || P) at most {}, P being {}",
        "subgroup": "every group of clients that makes up at least a share {} of {}",
    }
)
"""What a certificate is about when a ball of populations is asked for."""
_ALL_RADII = "It holds for all radii beyond no shift at once."
_HOW_FAR: Mapping[str, str] = MappingProxyType(
    {"kl": f"{NOTHING_NEW} {_ALL_RADII}", "chi2": f"{NOTHING_NEW} {_ALL_RADII}"}
)
_ALL_THRESHOLDS = "exceeds that of the clients scored, for all thresholds at once, by at most"
FRESH = "expected errors, over new clients, their points and any draws made for each of them"
_MEASURED = "errors as measured on these clients' own points"
# Whatever serves them: fine-tuning draws minibatches, some methods first weights or noise.
_AS_MADE = f"{_MEASURED}, with the draws made"
BOTH = (
    f"{_MEASURED}; it holds for their expected errors, over points and draws of each client's own, "
    "too"
)


def are_independent(certificate: Certificate) -> bool:
    """Say whether the clients are no finite pool."""
    return bool(certificate["sampling"] != "finite-pool")


def _drawn(certificate: Certificate) -> bool:
    return bool(certificate["predictor"] == "gibbs")


def choice_of_clients(certificate: Certificate) -> str:
    """Word the draw of the clients."""
    return f"the choice of these {count(int(certificate['n_clients']), 'client')}"


def _over(certificate: Certificate, rule: str, order: str = "their order") -> str:
    told = [choice_of_clients(certificate)]
    if rule in ORDERED or rule in AVERAGED:
        told.append(order)
    if rule == BEST_OF:
        told.append("any orders that its rules use")
    if _drawn(certificate):
        told.append("the draws of models")
    return listing(told)


def _scores(certificate: Certificate, rule: str) -> str:
    if are_independent(certificate):
        return FRESH
    return _AS_MADE if rule in REALISED else BOTH


def _of_losses(text: str) -> str:
    return text.replace("errors", "losses")


def _pool(certificate: Certificate) -> str:
    n = int(certificate["n_clients"])
    return f"the {count(int(certificate['pool']), 'client')} not trained on, these {n} included"


def clients_meant(certificate: Certificate, independent: str = ENVIRONMENT) -> str:
    """Say over whom a mean error is meant."""
    return independent if are_independent(certificate) else _pool(certificate)


def _served(certificate: Certificate) -> str:
    return _SERVED.get(str(certificate["predictor"]), "each served as the rows say")


def number_told(certificate: Certificate, name: str) -> float | None:
    """Return a number of a certificate, or None where it has none."""
    value = certificate.get(name)
    return None if value is None or np.isnan(value) else float(value)


def of_no_pool(n: int) -> str:
    """Say who is not in the pool.

    >>> of_no_pool(1)
    '1 client left out of the split is not among them, though nobody trained on it'
    """
    verb, whom = ("is", "it") if n == 1 else ("are", "them")
    left = f"{count(n, 'client')} left out of the split {verb} not among them"
    return f"{left}, though nobody trained on {whom}"


def left_out_said(certificate: Certificate) -> str:
    """Say who is not in the pool of a certificate, if the split left anybody out."""
    left_out = number_told(certificate, "left_out")
    return f"{of_no_pool(int(left_out))}." if left_out else ""


def not_scored(left: int, pool: str) -> str:
    """Name the clients of a pool that were not scored.

    >>> not_scored(1, "them")
    'the 1 client of them that was not scored'
    """
    return f"the {count(left, 'client')} of {pool} that {'was' if left == 1 else 'were'} not scored"


def left_for_others(certificate: Certificate) -> str:
    """Say what a pool's certificate leaves for those not scored, and who is not in the pool."""
    told = []
    others = number_told(certificate, "others")
    if others is not None:
        left = int(certificate["pool"]) - int(certificate["n_clients"])
        told.append(
            f"For {not_scored(left, 'them')}, by themselves, it leaves a mean of at most "
            f"{magnitude(others)} as measured on theirs."
        )
    return " ".join([*told, left_out_said(certificate)]).strip()


def _held_out_mean(certificate: Certificate, rule: str, which: str) -> Parts:
    return Parts(
        _over(certificate, rule),
        f"the mean error over {clients_meant(certificate)}",
        _served(certificate),
        _scores(certificate, rule),
        left_for_others(certificate),
    )


def _next_client(certificate: Certificate, rule: str, which: str) -> Parts:
    drawn = "a fresh one of the same environment"
    if not are_independent(certificate):
        drawn = "drawn from the clients neither trained on nor scored"
    return Parts(
        "these clients and the next one together",
        f"the error of the next client ({drawn})",
        _served(certificate).removeprefix("each "),
        "its error as measured on its own points",
    )


def _fraction(certificate: Certificate, rule: str, which: str) -> Parts:
    threshold = which.partition("@")[0]
    above = whole_percent(float(threshold)) if threshold else "a threshold"
    return Parts(
        _over(certificate, rule),
        f"the share of {clients_meant(certificate)}, whose error is above {above}",
        _served(certificate),
        _AS_MADE,
    )


def _curve(certificate: Certificate, rule: str, which: str) -> Parts:
    return replace(_fraction(certificate, rule, ""), verb=_ALL_THRESHOLDS)


def _populations(certificate: Certificate, rule: str, which: str) -> Parts:
    radius, ball = which.partition("@")[0], rule.removesuffix("_ball")
    # Without a shift it is the mean's own certificate, and says nothing of radii.
    beyond = radius != ("1" if ball == "subgroup" else "0")
    whose = clients_meant(certificate, "the environment that these clients were drawn from")
    return Parts(
        _over(certificate, rule),
        f"the mean error over {BALLS[ball].format(radius or 'a radius', whose)}",
        _served(certificate),
        _scores(certificate, rule),
        _HOW_FAR.get(ball, _ALL_RADII) if beyond else "",
    )


def _file_whose(certificate: Certificate) -> str:
    return clients_meant(certificate, "the population that these clients were drawn from")


def _file_order(certificate: Certificate, rule: str) -> str:
    """Say which order a rule bets along: a table need not tell in which its clients were drawn."""
    if rule in ORDERED or certificate.get("in_order"):
        return "the order in which they were drawn"
    seed = certificate.get("orders_seed")
    return "orders drawn afresh" + ("" if seed is None else f" by seed {seed}")


def _file_mean(certificate: Certificate, rule: str, which: str) -> Parts:
    whose, more = _file_whose(certificate), left_for_others(certificate)
    ball, _, radius = which.partition("=")
    if ball:
        whose = BALLS[ball].format(radius, whose)
        more = f"{more} {_HOW_FAR.get(ball, _ALL_RADII)}".strip()
    return Parts(
        _over(certificate, rule, _file_order(certificate, rule)),
        f"the mean loss over {whose}",
        f"each {_BY_THE_SCORED}",
        _of_losses(_scores(certificate, rule)),
        more,
    )


def _file_fraction(certificate: Certificate, rule: str, which: str) -> Parts:
    return Parts(
        choice_of_clients(certificate),
        f"the share of clients with a loss above {which} among {_file_whose(certificate)}",
        f"each {_BY_THE_SCORED}",
        _of_losses(_MEASURED),
    )


def _file_curve(certificate: Certificate, rule: str, which: str) -> Parts:
    return replace(_file_fraction(certificate, rule, "a threshold"), verb=_ALL_THRESHOLDS)


def _file_next(certificate: Certificate, rule: str, which: str) -> Parts:
    return Parts(
        "these clients and the next one together",
        "the loss of the next client, drawn like these",
        _BY_THE_SCORED,
        "its loss as measured on its own points",
    )


def _arriving(certificate: Certificate) -> Parts:
    return Parts(
        "the choice of all clients who ever arrive, after every one of them at once",
        "the mean loss over clients still to come, drawn like them",
        "served by the model that is scored",
        _of_losses(FRESH),
    )


_FILE_RULES = {
    "mean": _file_mean,
    "next": _file_next,
    "share": _file_fraction,
    "curve": _file_curve,
}
_HELD_OUT = {
    "mean": _held_out_mean,
    "next": _next_client,
    "share": _fraction,
    "curve": _curve,
    "populations": _populations,
}


def states(rule: str) -> str:
    """Return what a rule bounds; for an older run's rule that is not installed here, a mean."""
    return RULES[rule].states if rule in RULES else "mean"


def parts_of(certificate: Certificate) -> Parts | None:
    """Return what the sentence about a certificate names; None for a published bound.

    Parameters
    ----------
    certificate : mapping
        ``bound sampling predictor n_clients`` and, for finite pools, ``pool``; ``others``,
        ``left_out``, ``overlap`` and ``independent`` (of route R4's clients) where known; for a
        table ``in_order`` (whether it names the order of the draw) and ``orders_seed``.
    """
    name, _, which = str(certificate.get("bound", "r0:product")).partition("@")
    route, _, rule = name.partition(":")
    if route == "r0":
        return _HELD_OUT[states(rule)](certificate, rule, which)
    if route == FILE:
        # A table tells nothing about draws of models.
        return _FILE_RULES[states(rule)]({**certificate, "predictor": "any"}, rule, which)
    return _arriving(certificate) if route == WATCH else None


AS_NAMED = "as named in the table"
"""Stands for the shift in a sentence about several conditions."""


def statement(
    certificate: Certificate,
    value: str | None = None,
    *,
    named: Callable[[Certificate], Parts | None] = parts_of,
) -> str:
    """Say in one sentence what a certificate states, with what else has to be said.

    Parameters
    ----------
    certificate : mapping
        As for `parts_of`, with ``value delta population rigorous reason`` too.
    value : str, optional
        Stands for the number, in a sentence about several models.
    named : callable
        Map a certificate to what its sentence names; a study's routes say that of their own.

    Examples
    --------
    >>> print(statement({"bound": "r0:product_wor", "population": "unseen-client",
    ...     "sampling": "finite-pool", "predictor": "deterministic", "rigorous": True,
    ...     "reason": "", "value": 0.25, "delta": 0.05, "n_clients": 12, "pool": 24}))
    With probability at least 95% over the choice of these 12 clients and their order, the mean \
error over the 24 clients not trained on, these 12 included, each served by the one model that the \
trained system makes for it, is at most 25.0%: errors as measured on these clients' own points, \
with the draws made.
    """
    value = value or magnitude(certificate["value"])
    parts = named(certificate)
    if parts is None:
        return _published(certificate, value)
    shift = str(certificate.get("shift") or "none")
    whose = parts.population
    if shift not in ("none", AS_NAMED):
        whose += f", under {shift_name(shift, certificate.get('severity', np.nan))}"
    text = (
        f"With probability at least {chance(certificate['delta'])} over {parts.over}, "
        f"{whose}, {parts.predictor}, {parts.verb} {value}: {parts.scores}."
    )
    if not certificate["rigorous"]:
        text = f"Not a proof here: {text[0].lower()}{text[1:]}"
        if certificate.get("reason"):
            text += f" The reason: {str(certificate['reason']).rstrip('.')}."
    return f"{text} {parts.more}".strip()


def _published(certificate: Certificate, value: str) -> str:
    kind = certificate["population"]
    where = shift_name(certificate.get("shift", "none"), certificate.get("severity", np.nan))
    whose = {
        "unseen-client": "the expected error of a client never seen in training",
        "seen-clients": "the mean true error over the seen clients",
        "one-client": f"the error on the one target population ({where})",
    }.get(kind, f"the error ({kind or 'population not stated'})")
    text = f"With probability at least {chance(certificate['delta'])}, {whose} is at most {value}."
    if not certificate["rigorous"]:
        by_whom = "As its author says" if is_own(certificate.get("bound")) else "As published"
        text = f"{by_whom}: {text[0].lower()}{text[1:]}"
    if certificate["predictor"] == "gibbs":
        text += " It is about a predictor whose randomness is drawn anew for every client."
    return text
