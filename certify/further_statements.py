"""More statements from a table of losses: bad clients, named groups, one model against another.

Both are exact for independent clients and for those of a finite pool, and both doors, tables of
losses and scores of a study, ask them here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from latecomer.bounds.certificate import Array, Certificate, certificate
from latecomer.bounds.checks import failure_probability, largest_loss, real
from latecomer.bounds.held_out.counting import (
    clopper_pearson,
    dkw_band,
    local_level_band,
    pool_fraction,
)
from latecomer.bounds.held_out.finite_pool import LARGEST_POOL, pool_band
from latecomer.bounds.held_out.losses import mean_difference
from latecomer.certify.arguments import Stated
from latecomer.certify.rule import DEFAULT_RULE, RULE_WITHOUT_ORDERS, RULES
from latecomer.certify.sample import Sample, drawn_seed, sample_of, tagged
from latecomer.certify.statements import LossCertificate, certify_losses
from latecomer.certify.table import LossTable, Order, Source, read_losses
from latecomer.certify.words import exact
from latecomer.checks import checked, several
from latecomer.errors import InputError, refused_at

BANDS = ("local_levels", "dkw")
"""Bands of independent clients' shares, the default first."""


@dataclass(frozen=True, eq=False)
class Band:
    """How far the share of clients above a threshold may lie above that of the sampled ones."""

    name: str  # the calculator
    width: float  # the largest excess over the sampled share, whatever the threshold
    # Limit of the share above a threshold that j of k sampled clients do not exceed; [k + 1].
    limits: Array

    def certificate(self, delta: float) -> Certificate:
        """Return the certificate of all shares at once, whose value is the width."""
        return certificate(self.name, terms={"width": self.width}, delta={"clients": delta})

    def steps(self, losses: Array, largest: float = 1.0) -> list[tuple[float, float, float]]:
        """List threshold, sampled share above it and bound; each holds up to the next threshold.

        Nobody's loss is above ``largest``.
        """
        ordered = np.sort(losses)
        # One call counts the clients up to every threshold.
        thresholds = np.unique(np.append(ordered, 0.0))
        below = np.searchsorted(ordered, thresholds, side="right")
        sampled = (len(ordered) - below) / len(ordered)
        upper = np.where(thresholds < largest, self.limits[below], 0.0)
        return list(zip(thresholds.tolist(), sampled.tolist(), upper.tolist(), strict=True))


def share_above(
    losses: Array, threshold: float, *, delta: float, pool_size: int | None = None
) -> Certificate:
    """Bound the share of clients with a loss above a threshold that was fixed before the losses.

    Clopper-Pearson over clients where these are independent draws (one client is one 0/1 draw), the
    exact hypergeometric limit in a finite pool.

    Examples
    --------
    >>> losses = np.array([0.3] + [0.1] * 29)
    >>> round(float(share_above(losses, 0.2, delta=0.025)), 3)
    0.172
    >>> float(share_above(losses, 0.2, delta=0.05, pool_size=40))
    0.075
    """
    above, k = int((losses > threshold).sum()), len(losses)
    if pool_size is None:
        return clopper_pearson(n_errors=above, n_samples=k, delta=delta)
    return pool_fraction(n_exceeding=above, n_sampled=k, pool_size=pool_size, delta=delta)


def share_band(
    n_clients: int, *, delta: float, pool_size: int | None = None, band: str = BANDS[0]
) -> Band:
    """Return the band of k clients: exact in a pool, by equal local levels (or DKW) otherwise.

    Examples
    --------
    >>> band = share_band(100, delta=0.05)
    >>> round(band.width, 3), round(float(band.limits[100]), 3)
    (0.145, 0.058)
    >>> round(share_band(100, delta=0.05, band="dkw").width, 3)
    0.122
    """
    above = 1.0 - np.arange(n_clients + 1) / n_clients
    if pool_size is not None:
        if pool_size > LARGEST_POOL:
            raise InputError(f"curve needs a pool_size of at most {LARGEST_POOL}, got {pool_size}")
        width = float(pool_band(n_sampled=n_clients, pool_size=pool_size, delta=delta))
        return Band("pool_band", width, np.minimum(1.0, above + width))
    if band == "dkw":
        width = float(dkw_band(n_clients=n_clients, delta=delta))
        return Band("dkw_band", width, np.minimum(1.0, above + width))
    limits = local_level_band(n_clients=n_clients, delta=delta)
    return Band("local_level_band", float((limits - above).max()), limits)


Step = tuple[float, float, float]
"""A threshold, the sampled share of clients above it, and the bound of that share."""
_COUNTED = RULES["fraction_above"]
GROUPS_OWN = "groups are the clients' own, settled before the losses"
"""What certificates of groups assume besides all else."""
_THRESHOLDS_FIRST = "so were the thresholds that shares above are asked of"


def _sample(losses: Source, delta: float, pool_size: int | None, loss_max: float) -> Sample:
    return sample_of(
        losses, DEFAULT_RULE, delta=delta, pool_size=pool_size, loss_max=loss_max, seed=0
    )


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
        As for :func:`~latecomer.certify.statements.certify_losses`.
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
    return shares_above(_sample(losses, delta, pool_size, loss_max), several(thresholds), delta)


def shares_above(
    given: Sample, thresholds: Sequence[float], delta: float
) -> dict[float, Certificate]:
    """Bound the shares of `certify_above` for a sample that is read and checked."""
    levels = [float(checked(real, "above", threshold)) for threshold in thresholds]
    wrong = [level for level in levels if not 0 <= level < given.loss_max]
    if wrong or not levels or len(set(levels)) < len(levels):
        raise InputError(
            f"above must be different losses of at least 0 and below {given.loss_max:g}, got "
            f"{', '.join(f'{level:g}' for level in levels) or 'none'}"
        )
    certificates, share = {}, _part_of("delta", delta, len(levels))
    for level in levels:
        issued = share_above(given.losses, level, delta=share, pool_size=given.pool_size)
        about = replace(issued, population="unseen-client", loss_max=1.0)
        certificates[level] = _counted(about, given, _THRESHOLDS_FIRST)
    return certificates


def _part_of(name: str, value: float, parts: int, split_into: int = 1) -> float:
    """Return an equal part of a probability, which is itself split by whoever is given it."""
    least = partial(failure_probability, parts=parts * split_into)
    return float(checked(least, name, value)) / parts


def _counted(issued: Certificate, given: Sample, *more: str) -> Certificate:
    ledger = {"clients": issued.delta_total}
    sampling = "iid" if given.pool_size is None else "finite-pool"
    told = tagged(replace(issued, delta=ledger, sampling=sampling), _COUNTED, given)
    scale = f"losses lie in [0, {exact(given.loss_max)}]"
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
        As for :func:`~latecomer.certify.statements.certify_losses`.
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
    return share_curve(_sample(losses, delta, pool_size, loss_max), delta)


def share_curve(given: Sample, delta: float) -> tuple[Certificate, list[Step]]:
    """Bound the curve of `certify_curve` for a sample that is read and checked."""
    if delta > 0.5:
        raise InputError(f"delta must be at most 1/2 for a curve, got {delta:g}")
    band = share_band(given.n_clients, delta=delta, pool_size=given.pool_size)
    made = replace(band.certificate(delta), population="unseen-client")
    return _counted(made, given), band.steps(given.losses, given.loss_max)


def certify_groups(
    losses: Source,
    by: str,
    *,
    delta: float = 0.05,
    rule: str = DEFAULT_RULE,
    alpha: float = 0.1,
    loss_max: float = 1.0,
    seed: int | None = None,
    order: Order | None = None,
    best_of: Sequence[str] = (),
    trust: bool = False,
) -> Mapping[str, LossCertificate]:
    """Certify every group of clients that a column names, all of them at once.

    Given the number of clients in each group, a group's clients are drawn from the group's own
    population; delta and alpha are shared equally by the groups.

    Parameters
    ----------
    losses, rule, loss_max, seed, order, best_of, trust
        As for :func:`~latecomer.certify.statements.certify_losses`.
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
    each = _part_of("delta", delta, len(parts), len(several(best_of)) or 1)
    of_next = _part_of("alpha", alpha, len(parts))
    asked: dict[str, Any] = {"rule": rule, "best_of": best_of, "loss_max": loss_max, "trust": trust}
    # Groups are different clients, so that one draw of orders may serve them all.
    asked["seed"] = drawn_seed(seed, ordered=bool(table.order))
    by_group = {}
    for name, part in parts.items():
        with refused_at(f"{by} {name!r}"):
            own = certify_losses(part, delta=each, alpha=of_next, **asked)
        by_group[name] = replace(
            own, certificate=_of_group(own.certificate), next_client=_of_group(own.next_client)
        )
    return by_group


def _of_group(issued: Certificate | None) -> Certificate | None:
    if issued is None:
        return None
    return replace(issued, assumptions=(*issued.assumptions, GROUPS_OWN))


def _positive(loss_max: float) -> float:
    return float(checked(largest_loss, "loss_max", loss_max))


@dataclass(frozen=True, eq=False)
class Compared(Stated):
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
    notes : tuple of str
        What was done with the other model's rows, if anything.
    """

    n_clients: int
    difference: float
    certificate: Certificate
    worse: Certificate
    n_worse: int
    notes: tuple[str, ...] = ()


def certify_against(
    losses: Source,
    against: Source,
    *,
    delta: float = 0.05,
    rule: str = RULE_WITHOUT_ORDERS,
    pool_size: int | None = None,
    loss_max: float = 1.0,
) -> Compared:
    """Compare two models on the same clients: their mean difference, and who is served worse.

    The difference is bounded by :func:`latecomer.bounds.held_out.losses.mean_difference`, of
    independent clients or of a pool, and hangs on no order.  The count of clients that the first
    model serves worse is exact whatever the losses.  Both statements hold with probability
    1 - delta each.

    Parameters
    ----------
    losses, against : path, DataFrame or mapping
        Losses of both models, on the same clients.
    delta : float
        Failure probability of each statement.
    rule : {"product_mixture", "product"}
        Rule of the mean difference; the second is somewhat tighter, and says nothing once a client
        is served as badly as can be by the first model and faultlessly by the other.
    pool_size, loss_max
        As for :func:`~latecomer.certify.statements.certify_losses`.

    Returns
    -------
    Compared

    Examples
    --------
    >>> ours, theirs = {i: 0.1 for i in range(60)}, {i: 0.3 for i in range(60)}
    >>> compared = certify_against(ours, theirs)
    >>> round(compared.difference, 3), round(float(compared.certificate), 3)
    (-0.2, -0.138)
    >>> round(float(compared.worse), 3)
    0.049
    """
    largest = _positive(loss_max)
    own = read_losses(losses, loss_max=largest)
    other = read_losses(against, loss_max=largest)
    # Both tables first: a client of one alone is said before how many a pool must hold.
    _matched(own.clients, other)
    return compared(_sample(own, delta, pool_size, largest), other, delta, rule)


def compared(
    given: Sample, other: LossTable, delta: float, rule: str = RULE_WITHOUT_ORDERS
) -> Compared:
    """Compare as `certify_against` does, for a sample that is read and checked."""
    theirs = _matched(given.clients, other)
    gaps = given.losses - theirs
    worse = dict(zip(given.clients, (gaps > 0).astype(float).tolist(), strict=True))
    return Compared(
        len(gaps),
        float(np.mean(gaps)),
        _difference(given, theirs, delta, rule),
        certify_above(worse, [0.5], delta=delta, pool_size=given.pool_size)[0.5],
        int((gaps > 0).sum()),
        other.notes,
    )


def _matched(clients: Sequence[str], other: LossTable) -> Array:
    """Return the other table's losses, client by client; both must have the same clients."""
    theirs = dict(zip(other.clients, other.losses, strict=True))
    for name in sorted(set(clients) ^ theirs.keys()):
        where = "second" if name in theirs else "first"
        raise InputError(f"client {name!r} is in the {where} table of losses alone")
    return np.array([theirs[name] for name in clients])


def _difference(given: Sample, theirs: Array, delta: float, rule: str) -> Certificate:
    """Bound the mean over clients of the first loss minus the other."""
    try:
        made = mean_difference(
            losses=given.losses, other=theirs, delta=delta, rule=rule, loss_max=given.loss_max
        )
    except ValueError as error:
        raise InputError(str(error)) from error
    difference, price = made.terms.values()
    return tagged(
        replace(made, terms={"difference": difference, "price": price}), RULES[rule], given
    )
