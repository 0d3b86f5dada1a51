"""More statements from a table of losses: bad clients, named groups, one model against another."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from latecomer.bounds.certificate import Certificate
from latecomer.bounds.checks import failure_probability, real
from latecomer.bounds.held_out.betting import wsr_wor
from latecomer.bounds.held_out.betting_orders import wsr_averaged
from latecomer.bounds.held_out.counting import clopper_pearson, pool_fraction
from latecomer.eval.certificates.from_losses import LossCertificate, certify_losses
from latecomer.eval.certificates.loss_sample import (
    Sample,
    checked,
    drawn_seed,
    needs_order,
    sample_of,
    tagged,
)
from latecomer.eval.certificates.loss_table import LossTable, Order, Source, read_losses
from latecomer.eval.certificates.rules import RULES
from latecomer.eval.certificates.tails import share_band
from latecomer.eval.errors import InputError

Step = tuple[float, float, float]
"""A threshold, the sampled share of clients above it, and the bound of that share."""
_COUNTED = RULES["fraction_above"]
GROUPS_OWN = "groups are the clients' own, settled before the losses"
"""What certificates of groups assume besides all else."""
_THRESHOLDS_FIRST = "so were the thresholds that shares above are asked of"


def _sample(losses: Source, delta: float, pool_size: int | None, loss_max: float) -> Sample:
    asked: dict[str, Any] = {"pool_size": pool_size, "loss_max": loss_max, "seed": 0}
    return sample_of(losses, "product", delta=delta, **asked)


def certify_above(
    losses: Source,
    thresholds: Sequence[float],
    *,
    delta: float = 0.05,
    pool_size: int | None = None,
    loss_max: float = 1.0,
) -> dict[float, Certificate]:
    """Bound the share of clients whose loss is above each threshold; they share delta.

    Parameters
    ----------
    losses, pool_size, loss_max
        As for :func:`~latecomer.eval.certificates.from_losses.certify_losses`.
    thresholds : sequence of float
        Different losses, at least 0 and below ``loss_max``, fixed before the losses are seen.
    delta : float
        Failure probability of all thresholds together.

    Returns
    -------
    dict of float to Certificate
        ``value`` is a share of clients, from the exact binomial or, for a pool, hypergeometric law.

    Examples
    --------
    >>> losses = {i: 0.3 if i == 0 else 0.1 for i in range(30)}
    >>> {t: round(float(c), 3) for t, c in certify_above(losses, [0.2, 0.5]).items()}
    {0.2: 0.172, 0.5: 0.116}
    """
    given = _sample(losses, delta, pool_size, loss_max)
    levels = [float(checked(real, "above", threshold)) for threshold in thresholds]
    wrong = [level for level in levels if not 0 <= level < given.loss_max]
    if wrong or not levels or len(set(levels)) < len(levels):
        raise InputError(
            f"above must be different losses of at least 0 and below {given.loss_max:g}, got "
            f"{', '.join(f'{level:g}' for level in levels) or 'none'}"
        )
    certificates, share = {}, delta / len(levels)
    for level in levels:
        bad = int((given.losses > level).sum())
        if given.pool_size is None:
            issued = clopper_pearson(n_errors=bad, n_samples=given.n_clients, delta=share)
        else:
            sizes = {"n_sampled": given.n_clients, "pool_size": given.pool_size}
            issued = pool_fraction(n_exceeding=bad, delta=share, **sizes)
        about = replace(issued, population="unseen-client", loss_max=1.0)
        certificates[level] = _counted(about, given, _THRESHOLDS_FIRST)
    return certificates


def _counted(issued: Certificate, given: Sample, *more: str) -> Certificate:
    ledger = {"clients": issued.delta_total}
    sampling = "iid" if given.pool_size is None else "finite-pool"
    told = tagged(replace(issued, delta=ledger, sampling=sampling), _COUNTED, given)
    scale = f"losses lie in [0, {given.loss_max:g}]"
    return replace(told, assumptions=(*told.assumptions[:3], *more, scale, *told.assumptions[4:]))


def certify_curve(
    losses: Source,
    *,
    delta: float = 0.05,
    pool_size: int | None = None,
    loss_max: float = 1.0,
) -> tuple[Certificate, list[Step]]:
    """Bound the share of clients above every threshold at once.

    Independent clients by equal local levels, which leave little above the largest loss; a pool by
    the exact width of one for all thresholds.

    Parameters
    ----------
    losses, pool_size, loss_max
        As for :func:`~latecomer.eval.certificates.from_losses.certify_losses`.
    delta : float
        Failure probability of the whole curve, at most 1/2.

    Returns
    -------
    Certificate
        Its ``value`` is the largest excess of a bound over the sampled share.
    list of (threshold, sampled share above, bound)
        Steps by rising threshold: each holds from it up to the next.

    Examples
    --------
    >>> width, steps = certify_curve({i: 0.1 * (i % 2) for i in range(40)})
    >>> [(t, share, round(bound, 3)) for t, share, bound in steps]
    [(0.0, 0.5, 0.713), (0.1, 0.0, 0.131)]
    """
    given = _sample(losses, delta, pool_size, loss_max)
    k = given.n_clients
    if delta > 0.5:
        raise InputError(f"delta must be at most 1/2 for a curve, got {delta:g}")
    band = share_band(k, delta=delta, pool_size=given.pool_size)
    # The losses are sorted: one call counts the clients up to every threshold.
    thresholds = np.unique(np.append(given.losses, 0.0))
    below = np.searchsorted(given.losses, thresholds, side="right")
    sampled = (k - below) / k
    upper = np.where(thresholds < given.loss_max, band.limits[below], 0.0)
    steps = list(zip(thresholds.tolist(), sampled.tolist(), upper.tolist(), strict=True))
    made = band.certificate(delta)
    return _counted(replace(made, population="unseen-client"), given), steps


def certify_groups(
    losses: Source,
    by: str,
    *,
    delta: float = 0.05,
    rule: str = "product",
    alpha: float = 0.1,
    loss_max: float = 1.0,
    seed: int | None = None,
    order: Order | None = None,
    best_of: Sequence[str] = (),
) -> Mapping[str, LossCertificate]:
    """Certify every group of clients that a column names, all of them at once.

    Given the number of clients in each group, a group's clients are drawn from the group's own
    population; delta and alpha are shared equally by the groups.

    Parameters
    ----------
    losses, rule, loss_max, seed, order, best_of
        As for :func:`~latecomer.eval.certificates.from_losses.certify_losses`.
    by : str
        Column of the file or frame that holds each client's group: the client's own, and settled
        before the losses.
    delta, alpha : float
        Failure probabilities of all groups together.

    Returns
    -------
    mapping of str to LossCertificate
        By name of the group.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"client": range(60), "loss": .1, "hospital": ["a", "b", "b"] * 20})
    >>> by_group = certify_groups(frame, "hospital")
    >>> {name: (one.n_clients, round(float(one.certificate), 3)) for name, one in by_group.items()}
    {'a': (20, 0.252), 'b': (40, 0.179)}
    """
    table = read_losses(losses, loss_max=_positive(loss_max), by=by, order=order)
    parts = table.by_group()
    each = float(checked(failure_probability, "delta", delta)) / len(parts)
    of_next = float(checked(failure_probability, "alpha", alpha)) / len(parts)
    asked: dict[str, Any] = {"rule": rule, "best_of": best_of, "loss_max": loss_max}
    # Groups are different clients, so that one draw of orders may serve them all.
    asked["seed"] = drawn_seed(seed, ordered=bool(table.order))
    by_group = {}
    for name, part in parts.items():
        try:
            own = certify_losses(part, delta=each, alpha=of_next, **asked)
        except InputError as error:
            raise InputError(f"{by} {name!r}: {error}") from error
        by_group[name] = replace(
            own, certificate=_of_group(own.certificate), next_client=_of_group(own.next_client)
        )
    return by_group


def _of_group(issued: Certificate | None) -> Certificate | None:
    if issued is None:
        return None
    return replace(issued, assumptions=(*issued.assumptions, GROUPS_OWN))


def _positive(loss_max: float) -> float:
    largest = float(checked(real, "loss_max", loss_max))
    if largest <= 0:
        raise InputError(f"loss_max must be greater than 0, got loss_max={largest:g}")
    return largest


@dataclass(frozen=True, eq=False)
class Compared:
    """What the losses of two models on the same clients prove.

    Attributes
    ----------
    n_clients : int
    difference : float
        Mean over clients of the first model's loss minus the other's.
    certificate : Certificate
        Upper bound of the mean difference over clients like these; negative where the first model
        is certified to be better.
    worse : Certificate
        Upper bound of the share of clients that the first model serves worse than the other.
    n_worse : int
    """

    n_clients: int
    difference: float
    certificate: Certificate
    worse: Certificate
    n_worse: int


def certify_against(
    losses: Source,
    against: Source,
    *,
    delta: float = 0.05,
    pool_size: int | None = None,
    loss_max: float = 1.0,
    seed: int | None = None,
    order: Order | None = None,
) -> Compared:
    """Compare two models on the same clients: their mean difference, and who is served worse.

    (1 + (A - B) / loss_max) / 2 lies in [0, 1] and is certified by adaptive bets; its range is
    wide, so that thirty clients resolve about .2.  The count of clients that the first model serves
    worse is exact whatever the losses.  Both statements hold with probability 1 - delta each.

    Parameters
    ----------
    losses, against : path, DataFrame or mapping
        Losses of both models, on the same clients.
    delta : float
        Failure probability of each statement.
    pool_size, loss_max, seed, order
        As for :func:`~latecomer.eval.certificates.from_losses.certify_losses`; ``order`` is that of
        the first losses, and a pool needs it.

    Returns
    -------
    Compared

    Examples
    --------
    >>> ours, theirs = {i: 0.1 for i in range(60)}, {i: 0.3 for i in range(60)}
    >>> compared = certify_against(ours, theirs)
    >>> round(compared.difference, 3), round(float(compared.certificate), 3)
    (-0.2, -0.097)
    >>> round(float(compared.worse), 3)
    0.049
    """
    largest = _positive(loss_max)
    own = read_losses(losses, loss_max=largest, order=order)
    if pool_size is not None and not own.order:
        raise InputError(needs_order("against, in a pool,", "or leave against out"))
    gaps = _gaps(own, read_losses(against, loss_max=largest))
    unit = {name: min(1.0, max(0.0, (1.0 + gap / largest) / 2.0)) for name, gap in gaps.items()}
    drawn: dict[str, Any] = {"pool_size": pool_size, "loss_max": 1.0, "seed": seed}
    drawn["order"] = dict(zip(own.clients, own.order, strict=True)) if own.order else None
    given = sample_of(unit, "product", delta=delta, **drawn)
    mean = float(np.mean(list(gaps.values())))
    shares = {name: float(gap > 0) for name, gap in gaps.items()}
    return Compared(
        len(gaps),
        mean,
        _difference(given, mean, largest, delta),
        certify_above(shares, [0.5], delta=delta, pool_size=pool_size)[0.5],
        sum(gap > 0 for gap in gaps.values()),
    )


def _gaps(first: LossTable, other: LossTable) -> dict[str, float]:
    """Return each client's first loss minus its second; both tables must have the same clients."""
    own = dict(zip(first.clients, first.losses, strict=True))
    theirs = dict(zip(other.clients, other.losses, strict=True))
    for name in sorted(own.keys() ^ theirs.keys()):
        where = "first" if name in own else "second"
        raise InputError(f"client {name!r} is in the {where} table of losses alone")
    return {name: own[name] - theirs[name] for name in own}


def _difference(given: Sample, mean: float, largest: float, delta: float) -> Certificate:
    """Bound the mean of differences that were rescaled to [0, 1]."""
    if given.pool_size is None:
        rule = RULES["wsr_averaged"]
        drawn: dict[str, Any] = {"seed": given.seed, "in_order": given.in_order}
        made = wsr_averaged(losses=given.unit(), delta=delta, **drawn)
    else:
        rule = RULES["wsr_wor"]
        made = wsr_wor(losses=given.unit(), delta=delta, pool_size=given.pool_size)
    bound = largest * (2.0 * float(made.value) - 1.0) + 8e-16 * largest
    orders = made.orders
    issued = replace(
        made,
        orders=None if orders is None else replace(orders, sd=2.0 * largest * orders.sd),
        value=np.asarray(bound),
        terms={"difference": np.asarray(mean), "price": np.asarray(bound - mean)},
        loss_max=largest,
    )
    return tagged(issued, rule, given)
