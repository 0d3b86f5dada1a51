"""Certificates of trained models for clients nobody has seen, and their rows.

Route R0: the model is trained without the certification clients, each of them is scored once on
its query data, and the scores go through one inequality fixed beforehand.  Given everything the
training side produced, the scores are either independent draws (split ``environment``) or a
uniform sample without replacement from the clients not trained on (every other split, whose ids
are permuted uniformly before they are cut into groups); the rule's inequality holds conditionally
on the training side, hence also without the condition.  The rule, delta and the order of the
clients stand in the resolved study before the first score exists.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from latecomer.bounds.certificate import Certificate
from latecomer.bounds.holdout import chernoff_kl, conformal, product, wsr, wsr_wor
from latecomer.eval.errors import InputError, nearest
from latecomer.eval.metrics import ClientScore

__all__ = ["IID_SPLITS", "RULES", "Rule", "certify_scores", "sampling_of"]

IID_SPLITS = frozenset({"environment"})


@dataclass(frozen=True)
class Rule:
    """One inequality over held-out client scores.

    Attributes
    ----------
    name : str
        Its name in a study.
    bound : callable
        Maps scores in [0, 1], the failure probability and the pool size to a certificate.
    level : str
        The setting that holds its probability: ``delta``, or ``alpha`` for a quantile.
    finite_pool, iid : bool
        The kinds of sampling its proof covers.
    population : str
        Whose risk it bounds when every loss is one client's score.
    """

    name: str
    bound: Callable[[Sequence[float], float, int | None], Certificate]
    level: str
    finite_pool: bool
    iid: bool
    population: str = "unseen-client"


RULES: Mapping[str, Rule] = MappingProxyType(
    {
        rule.name: rule
        for rule in (
            Rule("product", lambda s, p, _: product(losses=s, delta=p), "delta", True, True),
            Rule(
                "chernoff_kl",
                lambda s, p, _: chernoff_kl(
                    empirical_risk=float(np.mean(s)), n_samples=len(s), delta=p
                ),
                "delta",
                True,
                True,
            ),
            Rule("wsr", lambda s, p, _: wsr(losses=s, delta=p), "delta", False, True),
            Rule(
                "wsr_wor",
                lambda s, p, pool: wsr_wor(losses=s, delta=p, pool_size=pool or len(s)),
                "delta",
                True,
                False,
            ),
            Rule(
                "conformal",
                lambda s, p, _: conformal(losses=s, alpha=p),
                "alpha",
                True,
                True,
                population="next-client",
            ),
        )
    }
)


_WHOSE = {
    ("finite-pool", "unseen-client"): "the mean is over the {} clients not trained on, "
    "certified ones included",
    ("finite-pool", "next-client"): "the next client is drawn from the other ones of the {} "
    "clients not trained on",
    ("iid", "unseen-client"): "clients are drawn independently from one environment",
    ("iid", "next-client"): "the next client is drawn independently from the same environment",
}


def sampling_of(split_kind: str) -> str:
    """``iid`` for splits whose clients are drawn independently, else ``finite-pool``."""
    return "iid" if split_kind in IID_SPLITS else "finite-pool"


def certify_scores(
    scores: Sequence[ClientScore],
    *,
    rule: str,
    level: float,
    sampling: str,
    pool_size: int | None,
    predictor: str,
) -> Certificate:
    """Certify the mean error of clients like these (or the next client's) from held-out scores.

    Parameters
    ----------
    scores : sequence of ClientScore
        One per certification client, in the order of their (uniformly permuted) ids.
    rule : str
        A key of ``RULES``.
    level : float
        Failure probability in (0, 1): delta, or alpha for ``conformal``.
    sampling : {"finite-pool", "iid"}
        How the clients were drawn.
    pool_size : int or None
        Clients that were not trained on, certified ones included; needed for finite pools.
    predictor : {"deterministic", "gibbs"}
        Which predictor the scores belong to.  For ``gibbs`` every client's score must come from a
        fresh draw: that keeps the scores exchangeable and needs no Monte-Carlo term.

    Returns
    -------
    Certificate
        Population ``unseen-client`` (``next-client`` for ``conformal``); rigorous.

    Raises
    ------
    InputError
        When the rule is unknown, its proof does not cover the sampling, or the pool holds no
        client beyond the certified ones.

    Examples
    --------
    >>> scores = [ClientScore(i, 20, 10, 1, .3) for i in range(30)]
    >>> c = certify_scores(scores, rule="product", level=.05, sampling="finite-pool",
    ...                    pool_size=40, predictor="deterministic")
    >>> c.population, c.sampling, round(float(c), 4)
    ('unseen-client', 'finite-pool', 0.1855)
    """
    if rule not in RULES:
        raise InputError(
            f"rule must be one of {', '.join(RULES)}, got rule={rule}{nearest(rule, RULES)}"
        )
    chosen = RULES[rule]
    if sampling == "finite-pool" and not chosen.finite_pool:
        raise InputError(
            f"rule {rule} needs clients drawn independently, these are a finite pool; use wsr_wor"
        )
    if sampling == "iid" and not chosen.iid:
        raise InputError(f"rule {rule} is for finite pools, these clients are drawn independently")
    if sampling == "finite-pool" and (pool_size is None or pool_size <= len(scores)):
        raise InputError(
            "a finite-pool certificate needs clients that are neither trained on nor certified, "
            f"got {len(scores)} certification clients in a pool of {pool_size}"
        )
    losses = [score.error for score in scores]
    issued = chosen.bound(losses, level, pool_size)
    support = sorted(score.n_support for score in scores)
    about = (
        f"the system is run with {support[0]} to {support[-1]} support samples a client",
        _WHOSE[sampling, chosen.population].format(pool_size),
    )
    return replace(
        issued,
        population=chosen.population,
        sampling=sampling,
        predictor=predictor,
        assumptions=(*issued.assumptions, *about),
    )


def certificate_rows(
    issued: Certificate, *, bound: str, common: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Rows of one certificate: its total (empty ``term``) and one row per term.

    Parameters
    ----------
    issued : Certificate
        Scalar certificate.
    bound : str
        ``<route>:<rule>``, or the calculator's name for a published bound.
    common : mapping
        Columns shared by all rows (group, shift, severity, counts).
    """
    tags = {
        "metric": "certificate",
        "bound": bound,
        "population": issued.population,
        "predictor": issued.predictor,
        "sampling": issued.sampling,
        "rigorous": issued.rigorous,
        "delta": float(issued.delta_total),
        "message": issued.reason,
    }
    total = {**common, **tags, "term": "", "value": float(issued.value)}
    parts = [
        {**common, **tags, "term": name, "value": float(part)}
        for name, part in issued.terms.items()
    ]
    return [total, *parts]


def certificate_facts(
    issued: Certificate,
    *,
    bound: str,
    shift: str = "none",
    severity: float | None = None,
    inputs: Sequence[tuple[str, float, str]] = (),
) -> list[dict[str, Any]]:
    """Everything behind one certificate as a long table: terms, ledger, assumptions, inputs.

    ``inputs`` holds (name, value, provenance) triples: what the calculator was given and where
    each number comes from.
    """
    key = {
        "bound": bound,
        "shift": shift,
        "severity": "" if severity is None else severity,
        "predictor": issued.predictor,
    }

    def fact(kind: str, name: str, value: float | str = "", text: str = "") -> dict[str, Any]:
        return {**key, "kind": kind, "name": name, "value": value, "text": text}

    facts = [fact("total", "value", float(issued.value))]
    facts += [fact("term", name, float(part)) for name, part in issued.terms.items()]
    facts += [fact("delta", event, float(share)) for event, share in issued.delta.items()]
    facts += [fact("assumption", str(i), text=text) for i, text in enumerate(issued.assumptions)]
    facts += [fact("input", name, value, text) for name, value, text in inputs]
    facts.append(fact("source", "source", text=issued.source))
    if issued.reason:
        facts.append(fact("reason", "reason", text=issued.reason))
    return facts
