"""Coverage through ``certify_losses`` at its defaults, exact over worlds of 0/1 losses.

A table of 0/1 losses says how many of its clients score 1 and nothing else, so that the probability
of failure is a sum over that number: binomial for independent clients, hypergeometric for pools.
Bounds of rules that average over orders drawn at the call vary with the draw.  A failure needs a
bound below the world's mean; every number of ones is certified several times, each with a draw of
its own, from a source of entropy that is seeded here so that the test repeats.  A rule that bets
along one order is refused at the door, and one that is not refused is tested.

Where every number of clients from 5 to 60 is tested, searches for a bound end early: a bound is
taken for the least one that can do, if the rule does not refuse that mean.  That is at most the
bound, and a smaller bound fails at least as often, so that what is shown holds of the bound.  Of
the spans of risks that a rule tries to settle without looking at each, the one with that mean is
asked alone: if it is not settled the rule looks there, or further up.
"""

import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from itertools import product as pairs
from math import ceil
from typing import Any
from unittest import mock

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import beta, binom, hypergeom

import latecomer
from latecomer.bounds import product, product_wor, wsr_wor
from latecomer.bounds.held_out import bets, betting, blend, finite_pool, star
from latecomer.bounds.held_out.betting import RISK_STEPS
from latecomer.bounds.held_out.star import limits
from latecomer.certify import statements
from latecomer.certify.rule import RULES, rules_for
from latecomer.errors import InputError

DELTA = 0.05
MEANS = sorted(name for name, rule in rules_for("table").items() if rule.states == "mean")
PAIRS = ("product,product_wor", "product,wsr_averaged", "chernoff_kl,betting_wor")
DOORS = [*MEANS, *PAIRS]
FEW = (5, 10, pytest.param(20, marks=pytest.mark.slow), pytest.param(60, marks=pytest.mark.nightly))
DRAWS = 2


def pools(k: int) -> list[int | None]:
    return [None, ceil(1.1 * k), ceil(1.5 * k), 2 * k]


def asked_for(door: str) -> dict[str, Any]:
    return {"rule": "best_of", "best_of": door.split(",")} if "," in door else {"rule": door}


def offered(door: str, pool: int | None) -> bool:
    rules = [RULES[name] for name in door.split(",")]
    return all(rule.iid if pool is None else rule.finite_pool for rule in rules)


def drawn(door: str) -> bool:
    return any(RULES[name].orders for name in door.split(","))


def least_bounds(k: int, pool: int | None) -> np.ndarray:
    """Return bounds [k + 1], by the number of ones, with which worlds fail at most .9 DELTA."""
    ones, level = np.arange(k + 1), 0.9 * DELTA
    if pool is None:  # those of Clopper and Pearson
        return np.where(ones < k, beta.ppf(1.0 - level, ones + 1, np.maximum(k - ones, 1)), 1.0)
    bad = np.arange(pool + 1)
    likely = hypergeom.cdf(ones[:, None], pool, bad, k) > level
    return np.where(likely, bad, 0).max(axis=1) / pool


@contextmanager
def searches_end_at() -> Iterator[dict[str, float]]:
    """Let each search for a bound end at a mean, the value of "least", that is not refused."""
    at = {"least": 0.0}

    def of_falling_means(search: Callable[..., Any]) -> Callable[..., Any]:
        def root(log_wealth: Any, one: Any, other: Any, failure: Any, *more: Any) -> Any:
            # Wealth grows with the mean: what is not refused here is not refused below.
            mean = np.asarray(at["least"])
            if log_wealth(mean) <= -np.log(failure):
                return mean
            return search(log_wealth, one, other, failure, *more)

        return root

    def of_one_span(search: Callable[..., int]) -> Callable[..., Callable[[bool], int]]:
        def cut(*given: Any) -> NDArray[np.int64]:
            tops = cut_whole(*given)
            above = int((tops >= ceil(at["least"] * RISK_STEPS)).sum())
            # The next span's top says where this one ends.
            return tops[max(above - 1, 0) : above + 1]

        def highest(*given: Any) -> Callable[[bool], int]:
            def found(whole: bool) -> int:
                with mock.patch.object(star, "_cut", cut_whole if whole else cut):
                    return search(*given)

            return found

        cut_whole = star._cut
        return highest

    def of_a_grid(search: Callable[..., float]) -> Callable[..., float]:
        def kept(sample: Any, refused: Any, highest: Any = lambda whole: RISK_STEPS) -> float:
            point = ceil(at["least"] * RISK_STEPS)
            possible = point <= limits(sample)[0] and point <= highest(False)
            if possible and not refused(np.array([point / RISK_STEPS]))[0]:
                return at["least"]
            return search(sample, refused, highest(True))

        return kept

    places = {
        (betting, "first_refused"): of_falling_means,
        (bets, "first_refused"): of_falling_means,
        (finite_pool, "_pool_root"): of_falling_means,
        (blend, "highest_unsure"): of_one_span,
        (blend, "kept_risk"): of_a_grid,
        # How far other orders would move the bound is asked at the bound alone.
        (blend, "_deviation"): lambda _: lambda *given: 0.0,
    }
    with ExitStack() as stack:
        for (module, name), shorter in places.items():
            stack.enter_context(mock.patch.object(module, name, shorter(getattr(module, name))))
        yield at


@cache
def bounds(
    door: str, k: int, pool: int | None, *, whole: bool = True, delta: float = DELTA
) -> np.ndarray | None:
    """Return bounds [k + 1, draws] by the number of ones, each certified alone; None: refused.

    Of searches that are not whole each bound is at most what the whole search finds.
    """
    draws = DRAWS if whole and drawn(door) else 1
    found, entropy = np.empty((k + 1, draws)), random.Random(f"{door} {k} {pool}")
    least = np.zeros(k + 1) if whole else least_bounds(k, pool)
    asked = {"pool_size": pool, "delta": delta, **asked_for(door)}
    with mock.patch("secrets.randbelow", entropy.randrange), ExitStack() as stack:
        # What the default would give, where a rule's bound is 1, is tested under its own name.
        stack.enter_context(mock.patch.object(statements, "_voided", return_value=None))
        at = {} if whole else stack.enter_context(searches_end_at())
        for ones, draw in pairs(range(k + 1), range(draws)):
            at["least"] = float(least[ones])
            try:
                made = latecomer.certify_losses([1.0] * ones + [0.0] * (k - ones), **asked)
            except InputError as error:
                if "hangs on the order of the clients" not in str(error):
                    raise
                return None
            assert made.certificate is not None
            found[ones, draw] = float(made.certificate)
    return found


def worst_failure(found: np.ndarray, k: int, pool: int | None) -> float:
    """Return the largest probability, over all worlds, that the mean is above the bound."""
    ones = np.arange(k + 1)
    if pool is None:
        # The failure grows between two bounds: it is largest just above one of them.
        means = np.unique(found)[np.unique(found) < 1.0] + 1e-9
        chances = binom.pmf(ones[None], k, means[:, None])
    else:
        bad = np.arange(pool + 1)
        # Sums of losses are off by roundings, and so are bounds that only say what is certain.
        means, chances = bad / pool - 1e-12, hypergeom.pmf(ones[None], pool, bad[:, None], k)
    failed = (found[None] < means[:, None, None]).mean(axis=2)
    return float((chances * failed).sum(axis=1).max(initial=0.0))


@pytest.mark.parametrize("k", FEW)
@pytest.mark.parametrize("door", DOORS)
def test_no_rule_of_the_door_fails_more_often_than_delta(door: str, k: int) -> None:
    for pool in pools(k):
        if offered(door, pool) and (found := bounds(door, k, pool)) is not None:
            assert worst_failure(found, k, pool) <= DELTA, (door, k, pool)


@pytest.mark.slow
@pytest.mark.parametrize("door", DOORS)
def test_nor_does_any_with_fifty_clients_of_sixty(door: str) -> None:
    if offered(door, 60) and (found := bounds(door, 50, 60)) is not None:
        assert worst_failure(found, 50, 60) <= DELTA


@pytest.mark.nightly
@pytest.mark.parametrize("door", DOORS)
def test_nor_with_any_number_of_clients(door: str) -> None:
    """Every number from 5 to 60, independent clients and pools; orders are drawn once a table."""
    for k in range(5, 61):
        for pool in pools(k):
            if offered(door, pool) and (found := bounds(door, k, pool, whole=False)) is not None:
                assert worst_failure(found, k, pool) <= DELTA, (door, k, pool)


@pytest.mark.slow
@pytest.mark.parametrize("door", [d for d in DOORS if drawn(d)])
def test_searches_that_end_early_find_at_most_the_bound_and_what_fails(door: str) -> None:
    k = 10
    for pool in (one for one in pools(k) if offered(door, one)):
        whole, short = bounds(door, k, pool), bounds(door, k, pool, whole=False)
        if whole is not None and short is not None:
            # By draws of their own: a bound moves a little with them.
            assert (short <= whole.max(axis=1, keepdims=True) + 0.02).all()
            careless = bounds(door, k, pool, whole=False, delta=0.5)
            assert careless is not None
            assert worst_failure(careless, k, pool) > DELTA


def test_the_rule_that_is_taken_where_none_is_named_is_among_them() -> None:
    for pool in (None, 6):
        assert latecomer.certify_losses([0.0] * 5, pool_size=pool).rule in DOORS


@pytest.mark.parametrize(
    ("rules", "k", "pool", "failure"),
    [
        ((product_wor,), 50, 60, 0.946),
        ((product_wor,), 50, 100, 0.930),
        ((product_wor,), 10, 20, 0.175),
        ((wsr_wor,), 100, 110, 0.773),
        ((product_wor, product), 50, 60, 0.781),
    ],
)
def test_what_the_test_would_have_found(
    rules: tuple[Any, ...], k: int, pool: int, failure: float
) -> None:
    """One order of sorted losses by seed 0, as tables were once certified: the page's errata."""
    sorted_losses = (np.arange(k)[None] >= k - np.arange(k + 1)[:, None]).astype(float)
    ordered = sorted_losses[:, np.random.default_rng(0).permutation(k)]
    asked = {"losses": ordered, "delta": DELTA / len(rules)}
    found = [rule(**asked, **({} if rule is product else {"pool_size": pool})) for rule in rules]
    best = np.min([one.value for one in found], axis=0)
    assert worst_failure(best[:, None], k, pool) == pytest.approx(failure, abs=5e-4)


def test_rules_along_one_order_are_refused_at_the_door() -> None:
    for door in DOORS:
        ordered = any(RULES[name].ordered for name in door.split(","))
        pool = None if offered(door, None) else 6
        assert (bounds(door, 5, pool) is None) == ordered, door
