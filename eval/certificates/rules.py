"""Inequalities over the scores of held-out clients, and how their clients must have been drawn."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

import numpy as np

from latecomer.bounds.certificate import Certificate
from latecomer.bounds.held_out.betting import betting_mixture, wsr_wor
from latecomer.bounds.held_out.betting_orders import wsr_averaged
from latecomer.bounds.held_out.counting import conformal
from latecomer.bounds.held_out.losses import chernoff_kl, emp_bernstein, product
from latecomer.bounds.held_out.pool_betting import betting_wor, product_wor, product_wor_averaged
from latecomer.eval.errors import InputError

__all__ = [
    "BEST_OF",
    "IID_SPLITS",
    "LEAST_OUTSIDE",
    "MEAN_RULES",
    "RULES",
    "Asked",
    "Rule",
    "check_outside",
    "check_sampling",
    "orders_of",
    "sampling_of",
]

IID_SPLITS = frozenset({"environment"})
BEST_OF = "best_of"
# A certificate about a pool that is nearly all certified says next to nothing about new clients.
LEAST_OUTSIDE = 10


@dataclass(frozen=True)
class Asked:
    """What a rule is asked.

    Attributes
    ----------
    losses : sequence of float
        One score in [0, 1] a client, in the order in which the clients were drawn.
    level : float
        Failure probability.
    pool_size : int or None
        Clients of the finite pool.
    orders_seed : int
        Draws the orders that a rule averages over.
    """

    losses: Sequence[float]
    level: float
    pool_size: int | None = None
    orders_seed: int = 0

    @property
    def pool(self) -> int:
        """Size of the pool; all of it was scored where none is given."""
        return self.pool_size or len(self.losses)


Calculator = Callable[[Asked], Certificate]


@dataclass(frozen=True)
class Rule:
    """One statement about held-out client scores.

    Attributes
    ----------
    name : str
        Its name in a study.
    level : str
        The setting that holds its probability: ``delta``, or ``alpha`` for a quantile.
    finite_pool, iid : bool
        The kinds of sampling its proof covers.
    realised : bool
        Whether, in a finite pool, its proof is about the scores as they were measured and not about
        the clients' expected errors over fresh points and draws.
    ordered : bool
        Whether it needs the random order in which the clients were drawn.
    orders : int
        Random orders of the scores that it averages over, drawn by a seed fixed beforehand.
    bound : callable or None
        For a bound of the mean or of the next score.  None: the statement is about tails.
    population : str
        Whose risk it bounds when every loss is one client's score.
    least : int
        Fewest clients.
    """

    name: str
    level: str = "delta"
    finite_pool: bool = True
    iid: bool = True
    realised: bool = False
    ordered: bool = False
    orders: int = 0
    bound: Calculator | None = None
    population: str = "unseen-client"
    least: int = 1


def _product(a: Asked) -> Certificate:
    return product(losses=a.losses, delta=a.level)


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
    n = _WSR_ORDERS
    return wsr_averaged(losses=a.losses, delta=a.level, n_orders=n, seed=a.orders_seed)


def _wsr_wor(a: Asked) -> Certificate:
    return wsr_wor(losses=a.losses, delta=a.level, pool_size=a.pool)


def _product_wor(a: Asked) -> Certificate:
    return product_wor(losses=a.losses, delta=a.level, pool_size=a.pool)


def _product_wor_averaged(a: Asked) -> Certificate:
    return product_wor_averaged(
        losses=a.losses,
        delta=a.level,
        pool_size=a.pool,
        n_orders=_PRODUCT_ORDERS,
        seed=a.orders_seed,
    )


def _betting_wor(a: Asked) -> Certificate:
    return betting_wor(losses=a.losses, delta=a.level, pool_size=a.pool)


def _betting_mixture(a: Asked) -> Certificate:
    return betting_mixture(losses=a.losses, delta=a.level)


def _conformal(a: Asked) -> Certificate:
    return conformal(losses=a.losses, alpha=a.level)


_WSR_ORDERS, _PRODUCT_ORDERS = 64, 400
# Rules without replacement are for pools, and about what was measured there.
_of_pools = partial(Rule, iid=False, realised=True)
MEAN_RULES: Mapping[str, Rule] = MappingProxyType(
    {
        rule.name: rule
        for rule in (
            Rule("product", bound=_product),
            Rule("chernoff_kl", bound=_chernoff_kl),
            Rule("emp_bernstein", bound=_emp_bernstein, finite_pool=False, least=2),
            Rule("wsr_averaged", bound=_wsr_averaged, finite_pool=False, orders=_WSR_ORDERS),
            _of_pools("wsr_wor", bound=_wsr_wor, ordered=True),
            _of_pools("product_wor", bound=_product_wor, ordered=True),
            _of_pools("product_wor_averaged", bound=_product_wor_averaged, orders=_PRODUCT_ORDERS),
            _of_pools("betting_wor", bound=_betting_wor, ordered=True),
            Rule("betting_mixture", bound=_betting_mixture),
        )
    }
)
RULES: Mapping[str, Rule] = MappingProxyType(
    {
        **MEAN_RULES,
        "conformal": Rule("conformal", level="alpha", bound=_conformal, population="next-client"),
        "fraction_above": Rule("fraction_above", realised=True),
        "error_curve": Rule("error_curve", realised=True),
    }
)


def orders_of(rules: Sequence[str]) -> int:
    """Return how many orders of the scores the rules average over, 0 for none that does.

    Examples
    --------
    >>> orders_of(["product", "product_wor_averaged"]), orders_of(["product"])
    (400, 0)
    """
    return max((RULES[rule].orders for rule in rules if rule in RULES), default=0)


def sampling_of(split_kind: str) -> str:
    """``iid`` for splits whose clients are drawn independently, else ``finite-pool``."""
    return "iid" if split_kind in IID_SPLITS else "finite-pool"


def check_sampling(key: str, rule: str, split_kind: str) -> None:
    """Refuse a rule whose proof does not cover how the split's clients were drawn.

    Raises
    ------
    InputError
    """
    sampling = sampling_of(split_kind)
    if sampling == "finite-pool" and not RULES[rule].finite_pool:
        raise InputError(
            f"{key}.rule {rule} needs independent clients, and a {split_kind} split is a finite "
            "pool: use product_wor"
        )
    if sampling == "iid" and not RULES[rule].iid:
        raise InputError(
            f"{key}.rule {rule} is for finite pools, and the clients of a {split_kind} split are "
            "independent: use wsr_averaged"
        )


def check_outside(split_kind: str, n_certification: int, n_outside: int) -> None:
    """Refuse to certify a finite pool of which hardly anybody is left outside.

    Raises
    ------
    InputError
    """
    if sampling_of(split_kind) == "finite-pool" and n_outside < LEAST_OUTSIDE:
        raise InputError(
            f"split.novel must be at least {LEAST_OUTSIDE} clients for certificates of a finite "
            f"pool (untrained clients outside the {n_certification} certified ones), got "
            f"{n_outside}"
        )
