"""The output of a tuned posterior's certificate: rows, facts and the variances tried."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latecomer.bounds.certificate import Certificate
from latecomer.bounds.held_out.betting import betting_mixture
from latecomer.bounds.held_out.betting_orders import wsr_averaged
from latecomer.bounds.held_out.losses import chernoff_kl
from latecomer.bounds.unseen_clients.single_level_drawn import kl_from_draws, product_from_draws
from latecomer.certify.words import counts
from latecomer.eval.results.artifacts import Artifact
from latecomer.eval.routes.kinds.r1 import Tuned
from latecomer.eval.routes.r4_progressive import Plan
from latecomer.eval.routes.rows import (
    certificate_facts,
    certificate_rows,
    one_of_several,
    price_rows,
)
from latecomer.eval.scoring.scores import ClientScore

Row = dict[str, Any]
Floats = NDArray[np.float64]
# Bets 1, 1/2, 1/4, 1/8 against a mean of levels: more bets cost more than they gain.
_BETS = 4


def _mixture(values: Floats, delta: float) -> Certificate:
    return betting_mixture(losses=values, delta=delta, n_bets=_BETS)


def _random_client(values: Floats, delta: float) -> Certificate:
    return wsr_averaged(losses=values, delta=delta)


def _chernoff(values: Floats, delta: float) -> Certificate:
    return chernoff_kl(empirical_risk=float(values.mean()), n_samples=values.size, delta=delta)


DRAWS_RULES: Mapping[str, Callable[[Floats, float], Certificate]] = MappingProxyType(
    {"mixture": _mixture, "random_client": _random_client, "chernoff": _chernoff}
)
"""Upper limits of the mean of the draws' means, from values in [0, 1] in the order of drawing."""


@dataclass(frozen=True)
class Variance:
    """One variance of the grid: its tuned posterior's KL, and its estimated error and bound."""

    alpha: float
    kl: float
    error: float
    estimate: float


@dataclass(frozen=True, eq=False)
class Drawn:
    """Errors of systems drawn from a posterior, each on one client.

    Attributes
    ----------
    places : ndarray of int [draws]
        Which client of the group a system was drawn for.
    errors : ndarray [draws]
        The system's error on that client.
    """

    places: NDArray[np.int64]
    errors: Floats

    def of_clients(self, n_clients: int) -> list[float | None]:
        """Return every client's mean error, None where no system was drawn for it."""
        own = [self.errors[self.places == place] for place in range(n_clients)]
        return [float(errors.mean()) if errors.size else None for errors in own]


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
        Place of the variance taken.
    n_random : int
        Number of weights that are random.
    gibbs, novel_gibbs : Drawn
        Errors of systems drawn afresh for every draw.
    mean, prior, novel_mean, novel_prior : tuple of ClientScore
        Scores of the posterior's and the prior's mean weights.
    """

    plan: Plan
    variances: tuple[Variance, ...]
    chosen: int
    n_random: int
    gibbs: Drawn
    mean: tuple[ClientScore, ...]
    prior: tuple[ClientScore, ...]
    novel_gibbs: Drawn
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
    draws_rule: str = "mixture",
) -> Certificate:
    r"""Certify the error of a system drawn afresh from the posterior for every client.

    The mean over clients and posterior of :math:`\ell`, the error s itself for rule ``kl`` and
    :math:`-\ln(1 - (1-\gamma)s)/(-\ln\gamma)` for ``product``, is bounded from the draws with
    probability :math:`1-\delta'`; the rule's single-level bound then spends the rest of
    :math:`\delta`, and ``product`` divides its value by :math:`1-\gamma`.

    - ``mixture``: equally many draws per client.  Values are independent given the posterior, the
      mean of their means is the one wanted: :math:`E\prod_t(1+b(\mu-\ell_t)) =
      \prod_t(1+b(\mu-\mu_t)) \le 1`, so that bets b may be averaged (``betting_mixture``).
    - ``random_client``: a client is drawn for every system, uniformly and with replacement:
      values are i.i.d. with the wanted mean (``wsr_averaged``).
    - ``chernoff``: as ``mixture``, from the mean alone; it ignores the values' small spread.

    Parameters
    ----------
    errors : ndarray
        Scores of systems drawn independently after the posterior was settled, in that order.
    kl : float
        KL(posterior || prior), nats.
    delta, draws_share : float
        Total failure probability, and the share of it spent on the draws.
    rule, gamma, n_priors, draws_rule
        As in the study; ``n_priors`` variances were tried.

    Examples
    --------
    >>> plan = Plan(first=40, clients=50, block=50, pool=60, independent=False)
    >>> bound = certify_tuned(np.full((50, 20), .15), kl=.5, rule="product", delta=.05,
    ...                       draws_share=.2, gamma=.02, n_priors=3, plan=plan)
    >>> round(float(bound), 3), round(float(bound.delta_total), 10)
    (0.248, 0.05)
    """
    issued = _STEPS[rule](
        np.asarray(errors, dtype=np.float64).ravel(),
        bounded=DRAWS_RULES[draws_rule],
        gamma=gamma,
        for_draws=draws_share * delta,
        given={
            "delta": delta - draws_share * delta,
            "kl_hyper": kl,
            "n_clients": plan.clients,
            "n_priors": n_priors,
        },
    )
    return _tagged(issued, plan, n_priors, draws_rule)


def _tagged(issued: Certificate, plan: Plan, n_priors: int, draws_rule: str) -> Certificate:
    """Say what the certificate is about and what it rests on."""
    return replace(
        issued,
        sampling="iid" if plan.independent else "finite-pool",
        assumptions=(
            "every client score is taken on points that the client's model was not generated from",
            f"prior and standardisation come from {plan.first} clients that the scores are not of",
            f"the {n_priors} variances were fixed beforehand, their union is paid for",
            "the system is drawn from the posterior anew for every client; the draws of the "
            "certificate were made after the posterior was settled",
            f"{_WITH[draws_rule]}; the failure probability is over the choice of these clients "
            "and over these draws",
            "clients are drawn independently from one environment"
            if plan.independent
            else f"a finite pool: the mean is over the {plan.pool} clients that did not train the "
            "prior, those that tuned the posterior included",
        ),
    )


_WITH = {
    "mixture": "as many systems were drawn for every client",
    "random_client": "with every system a client was drawn at random",
    "chernoff": "as many systems were drawn for every client",
}
_STEPS: Mapping[str, Callable[..., Certificate]] = {
    "product": product_from_draws,
    "kl": kl_from_draws,
}


def tuning_findings(
    wanted: Tuned, tuned: Tuning, n_seeds: int = 1
) -> tuple[list[Row], dict[str, Artifact]]:
    """Return the rows of scores and certificate, everything behind it, and the grid."""
    taken = tuned.variances[tuned.chosen]
    issued = certify_tuned(
        tuned.gibbs.errors,
        kl=taken.kl,
        rule=wanted.rule,
        delta=wanted.delta / n_seeds,
        draws_share=wanted.draws_share,
        gamma=wanted.gamma,
        n_priors=len(tuned.variances),
        plan=tuned.plan,
        draws_rule=wanted.draws_rule,
    )
    support = sorted(score.n_support for score in tuned.mean)
    notes = [f"the system is run with {counts(support, 'support sample')} a client"]
    if n_seeds > 1:
        notes.append(one_of_several(n_seeds, "a training seed"))
    issued = replace(issued, assumptions=(*issued.assumptions, *notes))
    bound = f"r1:{wanted.rule}"
    where: Row = {"group": "tuning", "shift": "none", "severity": "", "n_clients": len(tuned.mean)}
    rows = [
        *_measured("tuning", tuned.gibbs, tuned.mean, tuned.prior),
        *_measured("novel", tuned.novel_gibbs, tuned.novel_mean, tuned.novel_prior),
        *certificate_rows(issued, bound=bound, common=where),
        *price_rows(
            issued,
            bound=bound,
            common=where,
            n_clients=len(tuned.mean),
            pool_size=None if tuned.plan.independent else tuned.plan.pool,
        ),
    ]
    facts = certificate_facts(issued, bound=bound, inputs=_inputs(wanted, tuned))
    grid = [
        {
            "bound": bound,
            "alpha": one.alpha,
            "kl_hyper": one.kl,
            "error": one.error,
            "estimate": one.estimate,
            "chosen": int(place == tuned.chosen),
        }
        for place, one in enumerate(tuned.variances)
    ]
    return rows, {
        "certificates": Artifact(kind="certificates", table=facts, axes=("fact",)),
        "tuning": Artifact(kind="tuning", table=grid, axes=("alpha",)),
        # With the divergences above, these are all the certificate's inputs: it can be issued
        # again, by another rule too, without training.
        "draws": Artifact(
            kind="draws",
            arrays={"place": tuned.gibbs.places, "error": tuned.gibbs.errors},
            axes=("draw",),
            ids={"client": [score.client for score in tuned.mean]},
        ),
    }


def _measured(
    group: str, gibbs: Drawn, mean: Sequence[ClientScore], prior: Sequence[ClientScore]
) -> Iterator[Row]:
    """Yield each client's error by predictor, and the means over clients."""
    if not mean:
        return
    by_predictor: dict[str, list[float | None]] = {
        "gibbs": gibbs.of_clients(len(mean)),
        "deterministic": [score.error for score in mean],
        "prior": [score.error for score in prior],
    }
    for predictor, errors in by_predictor.items():
        common: Row = {"group": group, "shift": "none", "severity": "", "predictor": predictor}
        measured = [error for error in errors if error is not None]
        for score, error in zip(mean, errors, strict=True):
            if error is None:
                continue
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
            "n_clients": len(measured),
            "aggregation": "per-client",
            "metric": "error",
            "value": float(np.mean(measured)),
        }


def _inputs(wanted: Tuned, tuned: Tuning) -> list[tuple[str, float, str]]:
    taken = tuned.variances[tuned.chosen]
    support = sorted(score.n_support for score in tuned.mean)
    return [
        ("kl_hyper", taken.kl, "KL(posterior || prior) of the tuned posterior, nats"),
        ("alpha", taken.alpha, "variance taken, relative to each tensor's mean square"),
        ("n_priors", float(len(tuned.variances)), "variances tried"),
        ("n_random", float(tuned.n_random), "weights that are random"),
        (
            "gibbs_error",
            float(tuned.gibbs.errors.mean()),
            "mean error of drawn systems, tuning clients",
        ),
        (
            "mean_parameter_error",
            float(np.mean([score.error for score in tuned.mean])),
            "mean error of the posterior's mean weights, tuning clients; not certified",
        ),
        (
            "prior_error",
            float(np.mean([score.error for score in tuned.prior])),
            "mean error of the prior's mean weights, tuning clients; not certified",
        ),
        ("n_clients", float(len(tuned.mean)), "clients the posterior was tuned on"),
        ("first", float(tuned.plan.first), "clients the prior was trained on"),
        ("pool_size", float(tuned.plan.pool), "clients that did not train the prior"),
        ("n_draws", float(tuned.gibbs.errors.size), "systems drawn, over all clients"),
        ("gamma", float(wanted.gamma), "shrinkage of scores, rule product"),
        ("steps", float(wanted.steps), "gradient steps on the bound, each variance"),
        ("folds", float(wanted.folds), "1: support and query data as split"),
        ("n_support_min", float(support[0]), "support samples of the smallest tuning client"),
        ("n_support_max", float(support[-1]), "support samples of the largest tuning client"),
    ]
