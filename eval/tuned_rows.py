"""What a tuned posterior's certificate leaves behind: rows, facts and the variances tried."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latecomer.bounds.certificate import Certificate
from latecomer.bounds.unseen_draws import single_level_kl_mc, single_level_product_mc
from latecomer.eval.artifacts import Artifact
from latecomer.eval.certificate_rows import certificate_facts, certificate_rows, price_rows
from latecomer.eval.metrics import ClientScore
from latecomer.eval.progressive import Plan

__all__ = ["Tuning", "Variance", "certify_tuned", "tuning_findings"]

Row = dict[str, Any]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Variance:
    """One variance of the grid: its tuned posterior's KL, and error and bound as estimated."""

    alpha: float
    kl: float
    error: float
    estimate: float


@dataclass(frozen=True, eq=False)
class Tuning:
    """A tuned posterior, measured.

    Attributes
    ----------
    plan : Plan
        Who trained the prior and who tuned.
    variances : tuple of Variance
        The grid, in the study's order.
    chosen : int
        Place of the one taken.
    n_random : int
        Weights that are random.
    gibbs, novel_gibbs : ndarray [clients, draws]
        Errors of systems drawn afresh for each client and draw.
    mean, prior, novel_mean, novel_prior : tuple of ClientScore
        Scores of the posterior's and the prior's mean weights.
    """

    plan: Plan
    variances: tuple[Variance, ...]
    chosen: int
    n_random: int
    gibbs: Floats
    mean: tuple[ClientScore, ...]
    prior: tuple[ClientScore, ...]
    novel_gibbs: Floats
    novel_mean: tuple[ClientScore, ...]
    novel_prior: tuple[ClientScore, ...]


def certify_tuned(
    errors: Floats,
    *,
    kl: float,
    rule: str,
    delta: float,
    draws_share: float,
    gamma: float,
    n_priors: int,
    plan: Plan,
) -> Certificate:
    """Certify the error of a system drawn afresh from the posterior for every client.

    Parameters
    ----------
    errors : ndarray [clients, draws]
        Scores of independently drawn systems, drawn after the posterior was settled.
    kl : float
        KL(posterior || prior), nats.
    rule : {"product", "kl"}
    delta, draws_share : float
        Total failure probability, and the share of it spent on the draws.
    gamma : float
        Shrinkage of scores under ``product``.
    n_priors : int
        Variances that the posterior was chosen from.
    plan : Plan

    Returns
    -------
    Certificate
        Population ``unseen-client``, predictor ``gibbs``; its ledger adds up to ``delta``.

    Examples
    --------
    >>> plan = Plan(first=40, clients=50, block=50, pool=60, independent=False)
    >>> found = certify_tuned(np.full((50, 20), .15), kl=.5, rule="product", delta=.05,
    ...                       draws_share=.2, gamma=.02, n_priors=3, plan=plan)
    >>> round(float(found), 3), round(float(found.delta_total), 10)
    (0.295, 0.05)
    """
    shared: dict[str, Any] = {
        "n_draws": errors.size,
        "delta_draws": draws_share * delta,
        "delta": delta - draws_share * delta,
        "kl_hyper": kl,
        "n_clients": len(errors),
        "n_priors": n_priors,
    }
    if rule == "kl":
        issued = single_level_kl_mc(monte_carlo_risk=float(errors.mean()), **shared)
    else:
        levels = np.minimum(-np.log1p(-(1 - gamma) * errors), -math.log(gamma))
        level = float(levels.mean())
        issued = single_level_product_mc(monte_carlo_neg_log1m=level, gamma=gamma, **shared)
    return replace(
        issued,
        sampling="iid" if plan.independent else "finite-pool",
        assumptions=(
            "every client score is taken on points that the client's model was not generated from",
            f"prior and standardisation come from {plan.first} clients that the scores are not of",
            f"the {n_priors} variances were fixed beforehand, their union is paid for",
            "the system is drawn from the posterior anew for every client; the draws of the "
            "certificate were made after the posterior was settled",
            "clients are drawn independently from one environment"
            if plan.independent
            else f"a finite pool: the mean is over the {plan.pool} clients that did not train the "
            "prior, those that tuned the posterior included",
        ),
    )


def tuning_findings(
    wanted: Mapping[str, Any], found: Tuning
) -> tuple[list[Row], dict[str, Artifact]]:
    """Return the rows of scores and certificate, everything behind it, and the grid."""
    taken = found.variances[found.chosen]
    n_seeds = int(wanted.get("n_seeds", 1))
    issued = certify_tuned(
        found.gibbs,
        kl=taken.kl,
        rule=wanted["rule"],
        delta=wanted["delta"] / n_seeds,
        draws_share=wanted["draws_share"],
        gamma=wanted["gamma"],
        n_priors=len(found.variances),
        plan=found.plan,
    )
    support = sorted(score.n_support for score in found.mean)
    notes = [f"the system is run with {support[0]} to {support[-1]} support samples a client"]
    if n_seeds > 1:
        notes.append(
            f"one of {n_seeds} certificates that hold at once, one a training seed, which share "
            "delta"
        )
    issued = replace(issued, assumptions=(*issued.assumptions, *notes))
    bound = f"r1:{wanted['rule']}"
    where: Row = {"group": "tuning", "shift": "none", "severity": "", "n_clients": len(found.mean)}
    rows = [
        *_measured("tuning", found.gibbs, found.mean, found.prior),
        *_measured("novel", found.novel_gibbs, found.novel_mean, found.novel_prior),
        *certificate_rows(issued, bound=bound, common=where),
        *price_rows(issued, bound=bound, common=where, n_clients=len(found.mean), pool_size=None),
    ]
    facts = certificate_facts(issued, bound=bound, inputs=_inputs(wanted, found))
    grid = [
        {
            "bound": bound,
            "alpha": one.alpha,
            "kl_hyper": one.kl,
            "error": one.error,
            "estimate": one.estimate,
            "chosen": int(place == found.chosen),
        }
        for place, one in enumerate(found.variances)
    ]
    return rows, {
        "certificates": Artifact(kind="certificates", table=facts, axes=("fact",)),
        "tuning": Artifact(kind="tuning", table=grid, axes=("alpha",)),
    }


def _measured(
    group: str, gibbs: Floats, mean: Sequence[ClientScore], prior: Sequence[ClientScore]
) -> Iterator[Row]:
    """Yield each client's error by predictor, and the means over clients."""
    if not mean:
        return
    found = {
        "gibbs": gibbs.mean(axis=1).tolist(),
        "deterministic": [score.error for score in mean],
        "prior": [score.error for score in prior],
    }
    for predictor, errors in found.items():
        common: Row = {"group": group, "shift": "none", "severity": "", "predictor": predictor}
        for score, error in zip(mean, errors, strict=True):
            yield {
                **common,
                "client": score.client,
                "n_support": score.n_support,
                "n_query": score.n_query,
                "metric": "error",
                "value": float(error),
            }
        yield {
            **common,
            "n_clients": len(errors),
            "aggregation": "per-client",
            "metric": "error",
            "value": float(np.mean(errors)),
        }


def _inputs(wanted: Mapping[str, Any], found: Tuning) -> list[tuple[str, float, str]]:
    taken = found.variances[found.chosen]
    support = sorted(score.n_support for score in found.mean)
    return [
        ("kl_hyper", taken.kl, "KL(posterior || prior) of the tuned posterior, nats"),
        ("alpha", taken.alpha, "variance taken, relative to each tensor's mean square"),
        ("n_priors", float(len(found.variances)), "variances tried"),
        ("n_random", float(found.n_random), "weights that are random"),
        ("gibbs_error", float(found.gibbs.mean()), "mean error of drawn systems, tuning clients"),
        (
            "mean_parameter_error",
            float(np.mean([score.error for score in found.mean])),
            "mean error of the posterior's mean weights, tuning clients; not certified",
        ),
        (
            "prior_error",
            float(np.mean([score.error for score in found.prior])),
            "mean error of the prior's mean weights, tuning clients; not certified",
        ),
        ("n_clients", float(len(found.mean)), "clients the posterior was tuned on"),
        ("first", float(found.plan.first), "clients the prior was trained on"),
        ("pool_size", float(found.plan.pool), "clients that did not train the prior"),
        ("n_draws", float(found.gibbs.size), "systems drawn, over all clients"),
        ("gamma", float(wanted["gamma"]), "shrinkage of scores, rule product"),
        ("steps", float(wanted["steps"]), "gradient steps on the bound, each variance"),
        ("folds", float(wanted["folds"]), "1: support and query data as split"),
        ("n_support_min", float(support[0]), "support samples of the smallest tuning client"),
        ("n_support_max", float(support[-1]), "support samples of the largest tuning client"),
    ]
