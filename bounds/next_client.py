"""What one new client may meet: thresholds of sets of labels, the next site.

Every held-out client i has scores s_ij of points that its model was not made of, one minus the
probability of the true label, say.  A new client's set holds the labels that score at most t.
M_i(t) is the share of client i's scores above t, what would have been missed there; clients are the
units, however many points each has.  Pooling the points of all clients promises as much and may
give less where clients differ.

Site i has an estimate y_i of its own mean, with known variance v_i; true means are normal around
mu with variance tau^2.  Both are estimated, so the intervals are asymptotic: for few sites, unequal
sizes or skewed effects they miss more often than they say.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from latecomer.bounds import checks
from latecomer.bounds.certificate import Array, Certificate, catalogued, certificate
from latecomer.bounds.held_out.counting import clopper_pearson, pool_fraction
from latecomer.bounds.held_out.losses import MONOTONE
from latecomer.bounds.unit_scale import per_client

__all__ = [
    "SiteInterval",
    "client_threshold",
    "confident_threshold",
    "covered_threshold",
    "dersimonian_laird",
    "hartung_knapp",
    "second_moment_threshold",
]

Scores = Sequence[ArrayLike]
Rule = Callable[[Array], Certificate | float]
sets_catalogued = partial(
    catalogued, family="hold-out", predictor="any", sampling="iid or finite-pool"
)
_FIXED = (
    "the models, the score and alpha were fixed before the first of these scores was seen",
    "each client's points played no part in making its model",
)
_EXCHANGEABLE = "held-out clients and the new one are exchangeable, with as many points as each has"


@dataclass(frozen=True)
class Points:
    """All clients' scores, sorted together."""

    levels: Array  # the distinct scores, rising
    level_of: NDArray[np.int64]  # of each point, like its client
    client_of: NDArray[np.int64]
    sizes: NDArray[np.int64]  # points of each client

    def above(self, level: int) -> NDArray[np.int64]:
        """Points of each client above the level of that index; -1 stands below all scores."""
        over = self.client_of[self.level_of > level]
        return np.bincount(over, minlength=self.sizes.size)

    def missed(self, level: int) -> Array:
        """M_i at a level: the share of each client's points above it."""
        return np.asarray(self.above(level) / self.sizes)


def _points(scores: Scores) -> Points:
    legal = "must hold a list of finite scores for every client, none of them empty"
    try:
        held = [] if isinstance(scores, str) else list(scores)
    except TypeError:
        held = []
    if not held:
        raise ValueError(f"scores {legal}, got scores={checks.written(scores)}")
    each = []
    for i, of_client in enumerate(held):
        one = checks.real(f"scores[{i}]", of_client, legal="must be a list of finite numbers")
        if one.ndim != 1 or not one.size:
            raise ValueError(f"scores {legal}, got scores[{i}] of shape {one.shape}")
        each.append(one)
    levels, level_of = np.unique(np.concatenate(each), return_inverse=True)
    sizes = np.array([one.size for one in each])
    return Points(levels, level_of, np.repeat(np.arange(sizes.size), sizes), sizes)


def _level(name: str, value: ArrayLike) -> float:
    level = checks.failure_probability(name, value)
    if level.ndim:
        raise ValueError(
            f"{name} must be one number strictly between 0 and 1, got shape {level.shape}"
        )
    return float(level)


def _smallest(points: Points, holds: Callable[[int], bool]) -> float:
    """Smallest score that a condition holds at, if it holds at all above it too; else infinity."""
    low, high = -1, len(points.levels)
    while high - low > 1:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle
    return float(points.levels[high]) if high < len(points.levels) else np.inf


def _from_the_top(points: Points, holds: Callable[[int], bool]) -> float:
    """Last score, walking down from the largest, before the first that a condition fails at."""
    last = np.inf
    for level in reversed(range(len(points.levels))):
        if not holds(level):
            break
        last = float(points.levels[level])
    return last


def _per_size(counts: NDArray[np.int64], pairs: NDArray[np.int64]) -> Fraction:
    """Sum of counts / pairs in fractions, one for every distinct denominator."""
    return sum(
        (Fraction(int(counts[pairs == size].sum()), int(size)) for size in np.unique(pairs)),
        Fraction(0),
    )


def _threshold(name: str, value: float, level: float, event: str) -> Certificate:
    return certificate(
        name,
        value=value,
        terms={"threshold": value},
        delta={event: level},
        loss_max=np.inf,
    )


@sets_catalogued(
    claim="A score that a random point of a new client stays below with probability 1 - alpha.",
    source="Lee, Barber and Willett 2023 (arXiv 2306.06342); conformal risk control with clients "
    "as units",
    population="next-client",
    assumptions=(
        *_FIXED,
        _EXCHANGEABLE,
        "the probability is over certified clients, the new client and one of its points, drawn at "
        "random",
    ),
    vacuous_when="fewer than 1/alpha - 1 clients (9 at alpha .1): all labels, an infinite score",
)
def client_threshold(*, scores: Scores, alpha: ArrayLike) -> Certificate:
    """Smallest of the scores with (sum_i M_i(t) + 1) / (k + 1) <= alpha, in exact fractions.

    The new client counts as if all of its points were missed.

    Parameters
    ----------
    scores : sequence of array_like
        One list of finite scores for each of k clients.
    alpha : float, in (0, 1)
        Read as the decimal number that it prints as.

    Returns
    -------
    Certificate
        Its value is infinite where k + 1 < 1 / alpha.

    Examples
    --------
    >>> float(client_threshold(scores=[[0.1, 0.2, 0.9], [0.3, 0.4], [0.5], [0.2]], alpha=0.3))
    0.5
    """
    points, level = _points(scores), _level("alpha", alpha)
    spent = checks.exactly(level) * (points.sizes.size + 1)

    def holds(place: int) -> bool:
        return _per_size(points.above(place), points.sizes) + 1 <= spent

    return _threshold("client_threshold", _smallest(points, holds), level, "next client's point")


@sets_catalogued(
    claim="A score at which the root mean square of clients' true miss rates is at most alpha, so "
    "that hidden badly served clients count.",
    source="this project; conformal risk control with an unbiased second moment a client",
    population="next-client",
    assumptions=(
        *_FIXED,
        _EXCHANGEABLE,
        "each client's points are independent draws of its own law",
        "of a new client the probability that its true miss rate is above beta is at most "
        "alpha^2 / beta^2, over certified clients and the new one together",
    ),
    vacuous_when="fewer than 1/alpha^2 - 1 clients (24 at alpha .2)",
)
def second_moment_threshold(*, scores: Scores, alpha: ArrayLike) -> Certificate:
    """Smallest of the scores with (sum_i S_i(t) + 1) / (k + 1) <= alpha^2, in exact fractions.

    With c of a client's n points above t, S = c (c - 1) / (n (n - 1)), which has the mean of its
    true miss rate's square (its measured share squared is above that); for n = 1 it is c.

    Parameters
    ----------
    scores, alpha
        As for :func:`client_threshold`; alpha is the root mean square of clients' miss rates.

    Examples
    --------
    >>> float(second_moment_threshold(scores=[[0.1, 0.9], [0.3, 0.4], [0.5, 0.6]] * 8, alpha=0.3))
    0.5
    """
    points, level = _points(scores), _level("alpha", alpha)
    spent = checks.exactly(level) ** 2 * (points.sizes.size + 1)
    single = points.sizes == 1
    pairs = np.where(single, 1, points.sizes * (points.sizes - 1))

    def holds(place: int) -> bool:
        missed = points.above(place)
        return _per_size(np.where(single, missed, missed * (missed - 1)), pairs) + 1 <= spent

    value = _smallest(points, holds)
    return _threshold("second_moment_threshold", value, level**2, "next client's miss rate")


def _mean_holds(
    points: Points, rule: str | Rule, alpha: float, delta: float
) -> tuple[Callable[[int], bool], Callable[..., float]]:
    """Whether the rule's bound at a level is at most alpha, and how its crossing is to be found."""
    if callable(rule):
        return lambda place: float(rule(points.missed(place))) <= alpha, _from_the_top
    bound = MONOTONE[checks.one_of("rule", rule, tuple(MONOTONE))]
    # Such a bound crosses alpha once.
    return (
        lambda place: float(bound(losses=points.missed(place), delta=delta)) <= alpha,
        _smallest,
    )


_CONFIDENT = (
    *_FIXED,
    "the rule and delta were fixed beforehand too; a rule that draws orders draws them once for "
    "all thresholds",
    "clients as the rule needs them: i.i.d., or a sample of a finite pool, whose mean miss rate is "
    "then bounded, certified clients included",
)


@sets_catalogued(
    claim="A score that new clients' points exceed at a mean rate of at most alpha, with "
    "confidence over the certified clients.",
    source="Bates and others 2021 (risk-controlling prediction sets), clients as units",
    population="unseen-client",
    assumptions=_CONFIDENT,
    vacuous_when="so few clients that a rule proves no alpha even if nothing is missed",
)
def confident_threshold(
    *, scores: Scores, alpha: ArrayLike, delta: ArrayLike, rule: str | Rule = "product_mixture"
) -> Certificate:
    """Smallest of the scores with U(M_1(t'), ..., M_k(t')) <= alpha for all t' >= t.

    U is a bound of the mean at delta.  The largest t at which the true mean is above alpha is one
    fixed threshold, and only there must U hold: no union is paid for.

    Parameters
    ----------
    scores, alpha
        As for :func:`client_threshold`.
    delta : float, in (0, 1)
    rule : str or callable
        ``product_mixture`` (with ``BET_WEIGHTS``) or ``product``, whose bounds rise with every
        loss; or a function of the miss rates [k] that returns a bound of their mean at ``delta``,
        ``lambda missed: blend(losses=missed, delta=0.05, orders=orders)``.  A function is asked at
        every score from the largest downwards up to the first failure.

    Examples
    --------
    >>> clients = [[0.1, 0.2, 0.9], [0.3, 0.4, 0.2], [0.5, 0.1, 0.3], [0.2, 0.1, 0.1]] * 10
    >>> float(confident_threshold(scores=clients, alpha=0.2, delta=0.05))
    0.5
    """
    points, level = _points(scores), _level("alpha", alpha)
    failure = _level("delta", delta)
    holds, crossing = _mean_holds(points, rule, level, failure)
    return _threshold("confident_threshold", crossing(points, holds), failure, "clients")


@sets_catalogued(
    claim="A score at which the mean miss rate is at most alpha and the share of badly covered "
    "clients at most gamma, both with one confidence.",
    source="this project: the larger of two fixed crossings",
    population="unseen-client",
    assumptions=(
        *_CONFIDENT,
        "beta and gamma were fixed beforehand; at a score that another condition chose the share "
        "has no proof",
        "a client is badly covered if its miss rate, measured on as many points as these clients "
        "had, is above beta: few points make many such clients",
    ),
    vacuous_when="so few clients that no share below gamma can be proved",
)
def covered_threshold(
    *,
    scores: Scores,
    alpha: ArrayLike,
    beta: ArrayLike,
    gamma: ArrayLike,
    delta: ArrayLike,
    rule: str | Rule = "product_mixture",
    pool_size: ArrayLike | None = None,
) -> Certificate:
    """Smallest of the scores with U(M(t')) <= alpha and C(#{M_i(t') > beta}) <= gamma, t' >= t.

    C is the exact limit of a share, binomial (``clopper_pearson``) or, with ``pool_size``,
    hypergeometric (``pool_fraction``).  The scores at which the true mean and the true share cross
    are fixed; the larger of them alone must not be passed, so that delta is not split.

    Parameters
    ----------
    scores, alpha, delta, rule
        As for :func:`confident_threshold`.
    beta : float, in (0, 1)
        Miss rate above which a client is badly covered; read as the decimal number it prints as.
    gamma : float, in (0, 1)
        Share of badly covered clients.
    pool_size : int, at least k, optional
        Clients of the finite pool that these were sampled from.

    Examples
    --------
    >>> clients = [[0.1, 0.2, 0.9], [0.3, 0.4, 0.2], [0.5, 0.1, 0.3], [0.2, 0.1, 0.1]] * 10
    >>> float(covered_threshold(scores=clients, alpha=0.2, beta=0.4, gamma=0.1, delta=0.05))
    0.5
    """
    points, level = _points(scores), _level("alpha", alpha)
    bad, share = _level("beta", beta), _level("gamma", gamma)
    failure = _level("delta", delta)
    holds, crossing = _mean_holds(points, rule, level, failure)
    k = points.sizes.size
    most = np.array([int(checks.exactly(bad) * int(size)) for size in points.sizes])
    pool = None if pool_size is None else checks.one_count("pool_size", pool_size, minimum=k)

    def share_holds(place: int) -> bool:
        n = int((points.above(place) > most).sum())
        if pool is None:
            return float(clopper_pearson(n_errors=n, n_samples=k, delta=failure)) <= share
        limit = pool_fraction(n_exceeding=n, n_sampled=k, pool_size=pool, delta=failure)
        return float(limit) <= share

    value = max(crossing(points, holds), _smallest(points, share_holds))
    return _threshold("covered_threshold", value, failure, "clients")


class SiteInterval(NamedTuple):
    """Estimates of the sites' mean and spread, and where the next site's true mean is expected."""

    mean: Array
    standard_error: Array
    between_sites: Array
    lower: Array
    upper: Array


_ASSUMPTIONS = (
    "sites' estimates are unbiased and normal, their variances known",
    "sites' true means are independent draws of one normal law",
    "the between-site variance is estimated and then taken for the truth",
)
_REASON = "asymptotic: it holds for many large sites whose means are normal"


@catalogued(
    family="hold-out",
    claim="Prediction interval of the next site's mean by random effects, with the model's own "
    "standard error.",
    source="DerSimonian and Laird 1986; prediction interval of Higgins, Thompson and Spiegelhalter "
    "2009",
    assumptions=_ASSUMPTIONS,
    vacuous_when="three sites: one degree of freedom",
    rigorous=False,
    reason=_REASON,
)
def dersimonian_laird(
    *, estimates: ArrayLike, variances: ArrayLike, alpha: ArrayLike
) -> SiteInterval:
    r"""Interval mu +- t_{k-2} sqrt(tau^2 + SE^2), SE^2 = 1 / sum w_i, w_i = 1 / (v_i + tau^2).

    :math:`\tau^2 = \max(0, (Q - k + 1) / (\sum u_i - \sum u_i^2 / \sum u_i))` with
    :math:`u_i = 1/v_i` and Q the sum of squares weighted with u about the mean weighted so; mu is
    the mean weighted with w, t the (1 - alpha/2)-quantile of Student's law.

    Parameters
    ----------
    estimates : array_like, shape [..., k], k at least 3
        Each site's measured mean.
    variances : array_like, shape [..., k], positive
        Variance of each of them.
    alpha : array_like, in (0, 1)
        Probability with which the next site's mean lies outside, on both sides together.

    Returns
    -------
    SiteInterval

    Examples
    --------
    >>> made = dersimonian_laird(
    ...     estimates=[0.1, 0.3, 0.2, 0.4], variances=[0.01, 0.02, 0.01, 0.02], alpha=0.1
    ... )
    >>> round(float(made.mean), 4), round(float(made.lower), 4), round(float(made.upper), 4)
    (0.2205, -0.0016, 0.4425)
    """
    return _interval(estimates, variances, alpha, _model_variance)


@catalogued(
    family="hold-out",
    claim="Prediction interval of the next site's mean by random effects, with the standard error "
    "that the sites' spread shows.",
    source="Hartung and Knapp 2001; prediction interval of Partlett and Riley 2017, with "
    "DerSimonian and Laird's variance between sites",
    assumptions=_ASSUMPTIONS,
    vacuous_when="three sites: one degree of freedom",
    rigorous=False,
    reason=_REASON,
)
def hartung_knapp(*, estimates: ArrayLike, variances: ArrayLike, alpha: ArrayLike) -> SiteInterval:
    r"""As :func:`dersimonian_laird` with SE^2 = sum w_i (y_i - mu)^2 / ((k - 1) sum w_i).

    Parameters
    ----------
    estimates, variances, alpha
        As for :func:`dersimonian_laird`.

    Returns
    -------
    SiteInterval

    Examples
    --------
    >>> made = hartung_knapp(
    ...     estimates=[0.1, 0.3, 0.2, 0.4], variances=[0.01, 0.02, 0.01, 0.02], alpha=0.1
    ... )
    >>> round(float(made.lower), 4), round(float(made.upper), 4)
    (-0.0019, 0.4428)
    """
    return _interval(estimates, variances, alpha, _observed_variance)


def _model_variance(weights: Array, off: Array) -> Array:
    return np.asarray(1.0 / weights.sum(axis=-1))


def _observed_variance(weights: Array, off: Array) -> Array:
    squares = (weights * off**2).sum(axis=-1)
    return np.asarray(squares / ((off.shape[-1] - 1) * weights.sum(axis=-1)))


def _interval(
    estimates: ArrayLike,
    variances: ArrayLike,
    alpha: ArrayLike,
    squared_error: Callable[[Array, Array], Array],
) -> SiteInterval:
    y = checks.real("estimates", estimates)
    v = checks.positive("variances", variances)
    for name, listed in (("estimates", y), ("variances", v)):
        per_client(name, listed, minimum=3)
    k = checks.same_length(estimates=y, variances=v)
    miss = checks.failure_probability("alpha", alpha)
    # By a power of 2, which rounds nothing: squares of inverse variances are numbers.
    unit = np.ldexp(0.5, np.frexp(v.min(axis=-1))[1])
    inverse = unit[..., None] / v
    total = inverse.sum(axis=-1)
    centre = (inverse * y).sum(axis=-1) / total
    spread = (inverse * (y - centre[..., None]) ** 2).sum(axis=-1)
    excess = (spread - (k - 1) * unit) / (total - (inverse**2).sum(axis=-1) / total)
    between = np.maximum(excess, 0.0)
    weights = 1.0 / (v + between[..., None])
    mean = (weights * y).sum(axis=-1) / weights.sum(axis=-1)
    error = squared_error(weights, y - mean[..., None])
    # Next to 1 a probability keeps too few digits, or is 1.
    upper = scipy.special.stdtrit(k - 2, 1.0 - miss / 2.0)
    quantile = np.where(miss < 1e-8, -scipy.special.stdtrit(k - 2, miss / 2.0), upper)
    reach = quantile * np.sqrt(between + error)
    return SiteInterval(mean, np.sqrt(error), between, mean - reach, mean + reach)
