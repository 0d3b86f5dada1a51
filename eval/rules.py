"""Inequalities over the scores of held-out clients, and how their clients must have been drawn."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from latecomer.bounds.betting import betting_mixture, wsr, wsr_wor
from latecomer.bounds.certificate import Certificate
from latecomer.bounds.counting import conformal
from latecomer.bounds.holdout import chernoff_kl, emp_bernstein, product
from latecomer.eval.errors import InputError

__all__ = [
    "BEST_OF",
    "IID_SPLITS",
    "LEAST_OUTSIDE",
    "MEAN_RULES",
    "RULES",
    "Rule",
    "check_outside",
    "check_sampling",
    "sampling_of",
]

IID_SPLITS = frozenset({"environment"})
BEST_OF = "best_of"
# A certificate about a pool that is nearly all certified says next to nothing about new clients.
LEAST_OUTSIDE = 10

Calculator = Callable[[Sequence[float], float, int | None], Certificate]


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
    bound : callable or None
        For a bound of the mean or of the next score: maps scores in [0, 1], the failure
        probability and the pool size to a certificate.  None: the statement is about tails.
    population : str
        Whose risk it bounds when every loss is one client's score.
    least : int
        Fewest clients.
    """

    name: str
    level: str = "delta"
    finite_pool: bool = True
    iid: bool = True
    bound: Calculator | None = None
    population: str = "unseen-client"
    least: int = 1


def _product(s: Sequence[float], delta: float, _: int | None) -> Certificate:
    return product(losses=s, delta=delta)


def _chernoff_kl(s: Sequence[float], delta: float, _: int | None) -> Certificate:
    return chernoff_kl(empirical_risk=float(np.mean(s)), n_samples=len(s), delta=delta)


def _emp_bernstein(s: Sequence[float], delta: float, _: int | None) -> Certificate:
    return emp_bernstein(
        empirical_risk=float(np.mean(s)),
        variance=float(np.var(s, ddof=1)),
        n_samples=len(s),
        delta=delta,
    )


def _wsr(s: Sequence[float], delta: float, _: int | None) -> Certificate:
    return wsr(losses=s, delta=delta)


def _wsr_wor(s: Sequence[float], delta: float, pool: int | None) -> Certificate:
    return wsr_wor(losses=s, delta=delta, pool_size=pool or len(s))


def _betting_mixture(s: Sequence[float], delta: float, _: int | None) -> Certificate:
    return betting_mixture(losses=s, delta=delta)


def _conformal(s: Sequence[float], alpha: float, _: int | None) -> Certificate:
    return conformal(losses=s, alpha=alpha)


MEAN_RULES: Mapping[str, Rule] = MappingProxyType(
    {
        rule.name: rule
        for rule in (
            Rule("product", bound=_product),
            Rule("chernoff_kl", bound=_chernoff_kl),
            Rule("emp_bernstein", bound=_emp_bernstein, finite_pool=False, least=2),
            Rule("wsr", bound=_wsr, finite_pool=False),
            Rule("wsr_wor", bound=_wsr_wor, iid=False),
            Rule("betting_mixture", bound=_betting_mixture),
        )
    }
)
RULES: Mapping[str, Rule] = MappingProxyType(
    {
        **MEAN_RULES,
        "conformal": Rule("conformal", level="alpha", bound=_conformal, population="next-client"),
        "fraction_above": Rule("fraction_above"),
        "error_curve": Rule("error_curve"),
    }
)


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
            "pool: use wsr_wor"
        )
    if sampling == "iid" and not RULES[rule].iid:
        raise InputError(
            f"{key}.rule {rule} is for finite pools, and the clients of a {split_kind} split are "
            "independent: use wsr"
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
