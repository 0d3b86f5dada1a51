"""What each kind of certificate says, in one sentence: the only place where that is worded.

A sentence names four things: probability over what, whose error (the population), served how (the
predictor), and whether errors are meant as measured on the clients' own points or in expectation
over fresh ones.  Report, cards, command line and documentation all take it from here.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from latecomer.eval.names import BEST_OF, RULES, rules_for
from latecomer.reports.words import chance, count, listing, magnitude, percent, shift_name

__all__ = ["AVERAGED", "ORDERED", "REALISED", "WATCH", "Parts", "examples", "parts_of", "statement"]

REALISED = frozenset({BEST_OF, *(name for name, rule in RULES.items() if rule.realised)})
"""Rules that, in a pool, are about scores as measured; of ``best_of`` one may be such a rule."""
ORDERED = frozenset(name for name, rule in RULES.items() if rule.ordered)
"""Rules that bet along the random order of the clients."""
AVERAGED = frozenset(name for name, rule in RULES.items() if rule.orders)
"""Rules that average over orders drawn by a seed fixed beforehand."""

AS_NAMED = "as named in the table"
"""Stands for the shift in a sentence about several conditions."""
FILE = "file"
"""Route of certificates from a table of losses (``latecomer certify``)."""
WATCH = "watch"
"""Route of certificates after every arriving client (``latecomer watch``)."""
Certificate = Mapping[str, Any]


@dataclass(frozen=True)
class Parts:
    """What a sentence about a certificate names.

    Attributes
    ----------
    over : str
        What the probability is over.
    population : str
        What is bounded, and over which clients.
    predictor : str
        How these are served.
    scores : str
        Whether errors are realised or expected ones.
    more : str
        What has to be said beside that; a sentence of its own.
    verb : str
        How the value is said of it.
    """

    over: str
    population: str
    predictor: str
    scores: str
    more: str = ""
    verb: str = "is at most"


_SERVED: Mapping[str, str] = MappingProxyType(
    {
        "gibbs": "each served by a model drawn anew from the posterior",
        "deterministic": "each served by the one model that the trained system makes for it",
    }
)
_ENVIRONMENT = (
    "fresh clients of the same environment (classes and samples drawn from the finite set laid "
    "aside)"
)
_SHIFTED: Mapping[str, str] = MappingProxyType(
    {
        "kl": "every population of clients within KL {} of {}",
        "tv": "every population of clients within a total variation of {} of {}",
        "chi2": "every population of clients within chi-squared {} of {}",
        "subgroup": "every group of clients that makes up at least a share {} of {}",
    }
)
"""What a certificate is about when a ball of populations is asked for."""
_FRESH = "expected errors, over fresh clients, their points and any draws"
_MEASURED = "errors as measured on these clients' own points"
_BOTH = (
    f"{_MEASURED}; it holds for their expected errors, over points and draws of each client's own, "
    "too"
)


def _route(certificate: Certificate) -> tuple[str, str, str]:
    """Return route, rule and what stands behind the rule in the name of a bound."""
    name, _, which = str(certificate.get("bound", "r0:product")).partition("@")
    route, _, rule = name.partition(":")
    return route, rule, which


def _independent(certificate: Certificate) -> bool:
    return bool(certificate["sampling"] != "finite-pool")


def _over(certificate: Certificate, rule: str) -> str:
    told = [f"the choice of these {count(int(certificate['n_clients']), 'client')}"]
    # A table tells no order in which its clients were drawn: there a seed draws it.
    if rule in AVERAGED or (rule in ORDERED and _route(certificate)[0] == FILE):
        drawn = "orders" if rule in AVERAGED else "an order"
        told.append(f"{drawn} drawn by a seed set beforehand")
    elif rule in ORDERED:
        told.append("their order")
    if rule == BEST_OF:
        told.append("any orders that its rules use")
    if _drawn(certificate):
        told.append("the draws of models")
    return listing(told)


def _drawn(certificate: Certificate) -> bool:
    return bool(certificate["predictor"] == "gibbs")


def _scores(certificate: Certificate, rule: str) -> str:
    if _independent(certificate):
        return _FRESH
    if rule not in REALISED:
        return _BOTH
    return _measured(certificate)


def _measured(certificate: Certificate) -> str:
    return f"{_MEASURED}, with the draws made" if _drawn(certificate) else _MEASURED


def _pool(certificate: Certificate) -> str:
    n = int(certificate["n_clients"])
    return f"the {count(int(certificate['pool']), 'client')} not trained on, these {n} included"


def _more(certificate: Certificate) -> str:
    """Say what a pool's certificate leaves for those not scored, and who is not in the pool."""
    told = []
    others = certificate.get("others")
    if others is not None and not np.isnan(others):
        left = int(certificate["pool"]) - int(certificate["n_clients"])
        told.append(
            f"For the {count(left, 'client')} of them that were not scored, by themselves, it "
            f"leaves a mean of at most {magnitude(float(others))} as measured on theirs."
        )
    left_out = certificate.get("left_out")
    if left_out is not None and not np.isnan(left_out) and left_out > 0:
        told.append(
            f"{count(int(left_out), 'client')} too small for the split are not among them, though "
            "nobody trained on them."
        )
    return " ".join(told)


def _served(certificate: Certificate) -> str:
    return _SERVED.get(str(certificate["predictor"]), "each served as the rows say")


def _held_out_mean(certificate: Certificate, rule: str, which: str) -> Parts:
    whose = _ENVIRONMENT if _independent(certificate) else _pool(certificate)
    return Parts(
        _over(certificate, rule),
        f"the mean error over {whose}",
        _served(certificate),
        _scores(certificate, rule),
        _more(certificate),
    )


def _next_client(certificate: Certificate, rule: str, which: str) -> Parts:
    drawn = "a fresh one of the same environment" if _independent(certificate) else "drawn from "
    if not _independent(certificate):
        drawn += "the clients neither trained on nor scored"
    return Parts(
        "these clients and the next one together",
        f"the error of the next client ({drawn})",
        _served(certificate).removeprefix("each "),
        "its error as measured on its own points",
    )


def _fraction(certificate: Certificate, rule: str, which: str) -> Parts:
    threshold = which.partition("@")[0]
    above = percent(float(threshold), 0) if threshold else "a threshold"
    whose = _ENVIRONMENT if _independent(certificate) else _pool(certificate)
    return Parts(
        _over(certificate, rule),
        f"the share of {whose}, whose error is above {above}",
        _served(certificate),
        _measured(certificate),
    )


def _curve(certificate: Certificate, rule: str, which: str) -> Parts:
    whose = _ENVIRONMENT if _independent(certificate) else _pool(certificate)
    return Parts(
        _over(certificate, rule),
        f"the share of {whose}, whose error is above a threshold",
        _served(certificate),
        _measured(certificate),
        verb="exceeds that of the clients scored, for all thresholds at once, by at most",
    )


def _populations(certificate: Certificate, rule: str, which: str) -> Parts:
    radius, ball = which.partition("@")[0], rule.removesuffix("_ball")
    drawn = "the environment that these clients were drawn from"
    whose = drawn if _independent(certificate) else _pool(certificate)
    return Parts(
        _over(certificate, rule),
        f"the mean error over {_SHIFTED[ball].format(radius or 'a radius', whose)}",
        _served(certificate),
        _scores(certificate, rule),
        "It holds for all radii at once.",
    )


def _first_trained(certificate: Certificate) -> str:
    if _independent(certificate):
        return _ENVIRONMENT
    n = int(certificate["n_clients"])
    return f"all clients but those that the system was first trained on, these {n} included"


def _overlap(certificate: Certificate) -> str:
    share = certificate.get("overlap")
    if share is None or np.isnan(share):
        return ""
    return (
        f"{percent(float(share))} of the query samples of the novel clients measured beside it are "
        "with clients that it was tuned or trained on, too."
    )


def _tuned(certificate: Certificate, rule: str, which: str) -> Parts:
    fresh = _independent(certificate)
    clients = count(int(certificate["n_clients"]), "client")
    more = "" if fresh else "It is no bound for those not scored by themselves."
    return Parts(
        f"the choice of these {clients} and the draws of systems",
        f"the mean error over {_first_trained(certificate)}",
        "each served by a system drawn anew from the tuned posterior",
        "expected errors over that draw, and over fresh clients and points"
        if fresh
        else "expected errors over that draw, as measured on these clients' own points",
        f"{more} {_overlap(certificate)}".strip(),
    )


def _compressed(certificate: Certificate, rule: str, which: str) -> Parts:
    fresh = _independent(certificate)
    return Parts(
        f"the choice of these {count(int(certificate['n_clients']), 'client')}",
        f"the mean error over {_first_trained(certificate)}",
        "each served by the one model that the system moved by the code word makes for it",
        _FRESH if fresh else _BOTH,
        f"{_more(certificate)} {_overlap(certificate)}".strip(),
    )


def _own_points(certificate: Certificate, rule: str, which: str) -> Parts:
    clients = count(int(certificate["n_clients"]), "client")
    whose = _ENVIRONMENT if _independent(certificate) else _pool(certificate)
    return Parts(
        f"the choice of these {clients}, their points and the draws of models",
        f"the mean error over {whose}",
        "each served by a model drawn anew from the posterior that its own support makes",
        "expected errors over that draw and over fresh points of the client",
    )


def _fine_tuned(certificate: Certificate, rule: str, which: str) -> Parts:
    clients = count(int(certificate["n_clients"]), "client")
    whose = _ENVIRONMENT if _independent(certificate) else _pool(certificate)
    return Parts(
        f"the choice of these {clients}, their points and the draws of models",
        f"the mean error over {whose}",
        "each served by a model drawn anew around what fine-tuning on all of its support gives",
        "expected errors over that draw and over the points that made no prior, the measured ones "
        "among them",
    )


def _checkpoints(certificate: Certificate, rule: str, which: str) -> Parts:
    clients = count(int(certificate["n_clients"]), "client")
    # A system that changes with the scores makes them a martingale, drawn from whichever law.
    fresh = certificate.get("independent") is True
    whose = _ENVIRONMENT if fresh else "the clients not trained on by then"
    over = "choice" if fresh else "random order"
    return Parts(
        f"the {over} of these {clients}",
        f"the mean over the checkpoints that scored of each one's mean error over {whose}",
        "which is the expected error of a checkpoint drawn uniformly from them, over that draw as "
        "well",
        _FRESH if fresh else _BOTH,
        f"It says nothing about the last checkpoint. {_overlap(certificate)}".strip(),
    )


def _file_pool(certificate: Certificate) -> str:
    if certificate["sampling"] == "finite-pool":
        return _pool(certificate)
    return "the population that these clients were drawn from"


def _file_mean(certificate: Certificate, rule: str, which: str) -> Parts:
    pooled = certificate["sampling"] == "finite-pool"
    whose = _file_pool(certificate)
    ball, _, radius = which.partition("=")
    more = _more(certificate)
    if ball:
        whose = _SHIFTED[ball].format(radius, whose)
        more = f"{more} It holds for all radii at once.".strip()
    scores = _scores({**certificate, "predictor": "deterministic"}, rule) if pooled else _FRESH
    return Parts(
        _over({**certificate, "predictor": "any"}, rule),
        f"the mean loss over {whose}",
        "each served by the model that was scored",
        scores.replace("errors", "losses"),
        more,
    )


def _file_fraction(certificate: Certificate, rule: str, which: str) -> Parts:
    return Parts(
        _over({**certificate, "predictor": "any"}, rule),
        f"the share of clients with a loss above {which} among {_file_pool(certificate)}",
        "each served by the model that was scored",
        _MEASURED.replace("errors", "losses"),
    )


def _file_curve(certificate: Certificate, rule: str, which: str) -> Parts:
    return Parts(
        _over({**certificate, "predictor": "any"}, rule),
        f"the share of clients with a loss above a threshold among {_file_pool(certificate)}",
        "each served by the model that was scored",
        _MEASURED.replace("errors", "losses"),
        verb="exceeds that of the clients scored, for all thresholds at once, by at most",
    )


def _file_next(certificate: Certificate, rule: str, which: str) -> Parts:
    return Parts(
        "these clients and the next one together",
        "the loss of the next client, drawn like these",
        "served by the model that was scored",
        "its loss as measured on its own points",
    )


def _arriving(certificate: Certificate, rule: str, which: str) -> Parts:
    return Parts(
        "the choice of all clients who ever arrive, after every one of them at once",
        "the expected loss of the next client, drawn like them",
        "served by the model that is scored",
        _FRESH.replace("errors", "losses"),
    )


def _states(rule: str) -> str:
    """Return what a rule bounds; one that is not installed here, of an older run, a mean."""
    return RULES[rule].states if rule in RULES else "mean"


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
_ROUTES = {
    "r1": _tuned,
    "r2": _own_points,
    "r3": _fine_tuned,
    "r4": _checkpoints,
    "r5": _compressed,
    WATCH: _arriving,
}


def parts_of(certificate: Certificate) -> Parts | None:
    """Return what the sentence about a certificate names; None for a published bound.

    Parameters
    ----------
    certificate : mapping
        ``bound sampling predictor n_clients`` and, for finite pools, ``pool``; ``others``,
        ``left_out``, ``overlap`` and ``independent`` (of route R4's clients) where known.
    """
    route, rule, which = _route(certificate)
    if route == "r0":
        return _HELD_OUT[_states(rule)](certificate, rule, which)
    if route == FILE:
        return _FILE_RULES[_states(rule)](certificate, rule, which)
    return _ROUTES[route](certificate, rule, which) if route in _ROUTES else None


def statement(certificate: Certificate, value: str | None = None) -> str:
    """Say in one sentence what a certificate states, with what else has to be said.

    Parameters
    ----------
    certificate : mapping
        As for `parts_of`, with ``value delta population rigorous reason`` too.
    value : str, optional
        Stands for the number, in a sentence about several models.

    Examples
    --------
    >>> print(statement({"bound": "r0:product_wor", "population": "unseen-client",
    ...     "sampling": "finite-pool", "predictor": "deterministic", "rigorous": True,
    ...     "reason": "", "value": 0.25, "delta": 0.05, "n_clients": 12, "pool": 24}))
    With probability at least 95% over the choice of these 12 clients and their order, the mean \
error over the 24 clients not trained on, these 12 included, each served by the one model that the \
trained system makes for it, is at most 25.0%: errors as measured on these clients' own points.
    """
    value = value or magnitude(certificate["value"])
    parts = parts_of(certificate)
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
        "seen-clients": "the mean true error over the training clients",
        "one-client": f"the error on the one target population ({where})",
    }.get(kind, f"the error ({kind or 'population not stated'})")
    text = f"With probability at least {chance(certificate['delta'])}, {whose} is at most {value}."
    if not certificate["rigorous"]:
        text = f"As published: {text[0].lower()}{text[1:]}"
    if certificate["predictor"] == "gibbs":
        text += " It is about a predictor whose randomness is drawn anew for every client."
    return text


_OTHER_ROUTES = (
    *(("r1:product", "gibbs"), ("r1:kl", "gibbs"), ("r2:two_step_kl", "gibbs")),
    *(("r3:pooled", "gibbs"), ("r4:product", "random-checkpoint"), ("r5:occam", "deterministic")),
)


_UNPROVEN_POOLS = {
    "r2": "points of a finite pool's clients are no independent draws",
    "r3": "supports dealt class by class tell the second part of a sample what the first lacks",
}


def _asked_of(sampling: str) -> Iterator[tuple[str, bool]]:
    """Yield the rules of held-out clients drawn so, and whether each bounds a mean."""
    rules = rules_for("r0").values()
    fitting = [rule for rule in rules if (rule.iid if sampling == "iid" else rule.finite_pool)]
    yield from ((rule.name, True) for rule in fitting if rule.states == "mean")
    yield BEST_OF, True
    for rule in fitting:
        if rule.states != "mean":
            yield rule.name + ("@0.2" if rule.states in ("share", "populations") else ""), False


def _example(bound: str, sampling: str, predictor: str, **more: Any) -> dict[str, Any]:
    next_client = _states(bound.partition(":")[2]) == "next"
    told = {
        "bound": bound,
        "population": "next-client" if next_client else "unseen-client",
        "sampling": sampling,
        "predictor": predictor,
        "rigorous": True,
        "reason": "",
        "value": 0.25,
        "delta": 0.1 if next_client else 0.05,
        "n_clients": 30,
        "pool": 40,
    }
    return told | more


def examples() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield one made-up certificate of every kind, with a name: 30 clients, of 40 in pools.

    Examples
    --------
    >>> names = [name for name, _ in examples()]
    >>> len(names) == len(set(names)), names[0]
    (True, 'r0:product, finite pool, deterministic')
    """
    for predictor in ("deterministic", "gibbs"):
        for rule, mean in _asked_of("finite-pool"):
            # What .25 of 40 clients leaves for ten, the thirty having .15 on average.
            more: dict[str, Any] = {"others": 0.55} if mean else {}
            yield (
                f"r0:{rule}, finite pool, {predictor}",
                _example(f"r0:{rule}", "finite-pool", predictor, **more),
            )
        for rule, _ in _asked_of("iid"):
            yield (
                f"r0:{rule}, independent clients, {predictor}",
                _example(f"r0:{rule}", "iid", predictor),
            )
    for bound, predictor in _OTHER_ROUTES:
        for name, fresh in (("finite pool", False), ("independent clients", True)):
            sampling = "martingale" if bound.startswith("r4") else "iid" if fresh else "finite-pool"
            more = {"independent": fresh} if bound.startswith("r4") else {}
            if not fresh and bound[:2] in _UNPROVEN_POOLS:
                more = {"rigorous": False, "reason": _UNPROVEN_POOLS[bound[:2]]}
            if not fresh and bound == "r5:occam":
                more = {"others": 0.55}
            if fresh and bound[:2] in ("r1", "r4", "r5"):
                more["overlap"] = 0.18
            yield f"{bound}, {name}", _example(bound, sampling, predictor, **more)
    yield from _file_examples()


def _file_examples() -> Iterator[tuple[str, dict[str, Any]]]:
    pools: Sequence[str] = ("product", "product_wor", "product_wor_averaged", "conformal")
    shifted = tuple(f"product@{ball}=0.1" for ball in _SHIFTED)
    tails = ("fraction_above@0.2", "error_curve")
    for rule in ("product", "wsr_averaged", "conformal", *shifted, *tails):
        made = _example(f"{FILE}:{rule}", "iid or finite-pool", "any")
        yield f"certify FILE, {rule}", made
    for rule in ("product_wor_averaged@kl=0.1", *tails):
        made = _example(f"{FILE}:{rule}", "finite-pool", "any")
        yield f"certify FILE --pool-size, {rule}", made
    for rule in pools:
        more = {} if rule == "conformal" else {"others": 0.55}
        made = _example(f"{FILE}:{rule}", "finite-pool", "any", **more)
        yield f"certify FILE --pool-size, {rule}", made
    yield "watch FILE, product", _example(f"{WATCH}:product", "iid", "any")
