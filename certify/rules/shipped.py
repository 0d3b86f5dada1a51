"""The rules that come with the package: bounds of the mean over clients, and other statements.

A rule of populations has the name of its calculator in :mod:`latecomer.bounds.shift.balls`.  Its
bounds hold at all radii at once at one delta, with the bets of the product rule: these cover
independent clients and pools, errors as measured and expected ones.  ``progressive`` bounds the
mean over systems that score clients one after another.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from latecomer.bounds.certificate import Certificate
from latecomer.bounds.held_out.bets import wsr_averaged
from latecomer.bounds.held_out.betting import (
    BET_WEIGHTS,
    betting_mixture,
    product_mixture,
    wsr,
    wsr_wor,
)
from latecomer.bounds.held_out.blend import blend
from latecomer.bounds.held_out.counting import clopper_pearson, conformal, pool_fraction
from latecomer.bounds.held_out.finite_pool import (
    betting_wor,
    betting_wor_averaged,
    product_wor,
    product_wor_averaged,
)
from latecomer.bounds.held_out.losses import chernoff_kl, emp_bernstein, product
from latecomer.certify.rules.declaration import Asked, Calculator, Rule
from latecomer.errors import InputError


def _of(calculator: Callable[..., Certificate]) -> Calculator:
    return lambda a: calculator(losses=a.losses, delta=a.level)


def _of_pool(calculator: Callable[..., Certificate]) -> Calculator:
    return lambda a: calculator(losses=a.losses, delta=a.level, pool_size=a.pool)


def _chernoff_kl(a: Asked) -> Certificate:
    mean = float(np.mean(a.losses))
    return chernoff_kl(empirical_risk=mean, n_samples=len(a.losses), delta=a.level)


def _emp_bernstein(a: Asked) -> Certificate:
    return emp_bernstein(
        empirical_risk=float(np.mean(a.losses)),
        variance=float(np.var(a.losses, ddof=1)),
        n_samples=len(a.losses),
        delta=a.level,
    )


def _wsr_averaged(a: Asked) -> Certificate:
    return wsr_averaged(losses=a.losses, delta=a.level, seed=a.orders_seed, in_order=a.in_order)


def _averaged_in_pool(calculator: Callable[..., Certificate], a: Asked) -> Certificate:
    drawn = {"seed": a.orders_seed, "in_order": a.in_order}
    return calculator(losses=a.losses, delta=a.level, pool_size=a.pool, **drawn)


def _blend(a: Asked) -> Certificate:
    return blend(
        losses=a.losses,
        delta=a.level,
        pool_size=a.pool_size,
        seed=a.orders_seed,
        in_order=a.in_order,
    )


def _zero_one(a: Asked) -> Certificate:
    """Count ones; the kind of score is what the rule's name declares, never read off the scores."""
    for score in a.losses:
        if score not in (0.0, 1.0):
            raise InputError(
                "rule zero_one is for scores that are 0 or the largest loss and nothing between: "
                f"losses must be 0 or 1 (in units of the largest loss), got {score:g}"
            )
    ones, k = int(sum(a.losses)), len(a.losses)
    if a.pool_size is None:
        made = clopper_pearson(n_errors=ones, n_samples=k, delta=a.level)
    else:
        sizes = {"n_sampled": k, "pool_size": a.pool_size}
        made = pool_fraction(n_exceeding=ones, delta=a.level, **sizes)
    mean = np.asarray(ones / k)
    return replace(
        made,
        terms={"empirical_risk": mean, "price": made.value - mean},
        population="unseen-client",
        assumptions=_ONE_SCORE,
    )


_ONE_SCORE = (
    "the model, the number of clients and that scores are 0 or 1 were fixed before the first score "
    "was seen",
    "one score a client, 0 or 1, clients drawn independently or without replacement from a pool",
)
# Rules without replacement are for finite pools, and about the scores as measured there.
_of_pools = partial(Rule, iid=False, realised=True)


GRID = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
"""Temperatures of the rule ``progressive``, fixed here; the bound pays for their union."""


def _progressive(a: Asked) -> Certificate:
    from latecomer.bounds.unseen_clients.single_level import progressive

    mean = float(np.mean(a.losses))
    return progressive(empirical_risk=mean, n_steps=len(a.losses), delta=a.level, grid=GRID)


_of_populations = partial(Rule, doors=("r0",), states="populations")

RULES = (
    Rule(
        name="product",
        words="product rule",
        doors=("r0", "table", "r4"),
        bound=_of(product),
        ends_at_largest=True,
    ),
    Rule(
        name="chernoff_kl",
        words="Chernoff-kl",
        certify_words="Chernoff-kl rule",
        bound=_chernoff_kl,
    ),
    Rule(
        name="emp_bernstein",
        words="empirical Bernstein",
        certify_words="empirical Bernstein rule",
        finite_pool=False,
        least=2,
        bound=_emp_bernstein,
    ),
    Rule(
        name="wsr_averaged",
        words="betting over drawn orders",
        certify_words="adaptive bets over drawn orders",
        finite_pool=False,
        orders=True,
        bound=_wsr_averaged,
    ),
    Rule(
        name="wsr",
        words="adaptive bets",
        doors=("table",),
        finite_pool=False,
        ordered=True,
        bound=_of(wsr),
    ),
    _of_pools(
        name="wsr_wor",
        words="betting without replacement",
        certify_words="adaptive bets without replacement",
        ordered=True,
        bound=_of_pool(wsr_wor),
    ),
    _of_pools(
        name="product_wor",
        words="product without replacement",
        certify_words="product rule without replacement",
        ordered=True,
        bound=_of_pool(product_wor),
        ends_at_largest=True,
    ),
    _of_pools(
        name="product_wor_averaged",
        words="product without replacement over drawn orders",
        certify_words="product rule without replacement over drawn orders",
        orders=True,
        bound=partial(_averaged_in_pool, product_wor_averaged),
        ends_at_largest=True,
    ),
    _of_pools(
        name="betting_wor",
        words="mixture of bets without replacement",
        ordered=True,
        bound=_of_pool(betting_wor),
    ),
    _of_pools(
        name="betting_wor_averaged",
        words="mixture of bets without replacement over drawn orders",
        orders=True,
        bound=partial(_averaged_in_pool, betting_wor_averaged),
    ),
    Rule(
        name="betting_mixture",
        words="mixture of bets",
        certify_words="mixture of fixed bets",
        bound=_of(betting_mixture),
    ),
    Rule(
        name="product_mixture",
        words="mixture of products",
        certify_words="mixture of product rules",
        doors=("r0", "table", "r4"),
        bound=_of(partial(product_mixture, weights=BET_WEIGHTS)),
    ),
    Rule(
        name="zero_one",
        words="exact counts of 0/1 scores",
        doors=("zero_one",),
        realised=True,
        bound=_zero_one,
    ),
    Rule(
        name="blend",
        words="blend over drawn orders",
        certify_words="blend of the product rule and bets over drawn orders",
        realised=True,
        orders=True,
        bound=_blend,
    ),
    _of_populations(name="tv_ball", words="populations Q by TV(Q, P)"),
    _of_populations(name="kl_ball", words="populations Q by KL(Q || P)"),
    _of_populations(name="chi2_ball", words="populations Q by chi2(Q || P)"),
    _of_populations(name="subgroup", words="every group of clients of at least a share"),
    Rule(name="progressive", words="kl grid", doors=("r4",), bound=_progressive),
    Rule(
        name="conformal",
        words="conformal quantile",
        states="next",
        level="alpha",
        bound=lambda a: conformal(losses=a.losses, alpha=a.level),
        population="next-client",
    ),
    Rule(
        name="fraction_above",
        words="share above a threshold",
        doors=("r0",),
        states="share",
        realised=True,
    ),
    Rule(
        name="error_curve",
        words="share above every threshold",
        doors=("r0",),
        states="curve",
        realised=True,
    ),
)
