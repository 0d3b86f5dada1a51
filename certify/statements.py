"""Certify any model from its losses on clients that took no part in training.

This is the entry for users of other frameworks: a table of client and loss goes in, two statements
come out.  One bounds the mean loss over all clients like these, the other the loss of the next
client.  Needs no torch and loads none.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from fractions import Fraction
from logging import getLogger
from typing import TYPE_CHECKING, Any

import numpy as np

from latecomer.bounds.certificate import Array, Certificate, Orders, scaled_up
from latecomer.bounds.checks import exactly, failure_probability
from latecomer.bounds.held_out.counting import conformal
from latecomer.bounds.held_out.price import reference_price, reference_price_pool
from latecomer.certify.arguments import Stated
from latecomer.certify.rule import DEFAULT_RULE, RULES
from latecomer.certify.sample import (
    FILE_RULES,
    Sample,
    n_orders,
    sample_of,
    scaled_to,
    tagged,
)
from latecomer.certify.table import Order, Source
from latecomer.checks import checked, several
from latecomer.errors import InputError

if TYPE_CHECKING:
    from latecomer.certify.rule import Voided

__all__ = ["FILE_RULES", "LossCertificate", "certificate_dict", "certify_losses"]

_EPS = float(np.finfo(np.float64).eps)
_TAKES_A_WHILE = 30_000
"""Clients above whom ``blend``, one client after another along its orders, says so first."""


@dataclass(frozen=True, eq=False)
class LossCertificate:
    """What the losses of ``n_clients`` untrained clients prove.

    Attributes
    ----------
    rule : str
        Rule of the mean's bound, as asked for.
    best_of : tuple of str
        Rules of which ``best_of`` took the tightest; empty for any other rule.
    n_clients, n_rows : int
        Clients, and the rows they were averaged from.
    mean, sd : float
        Mean loss over clients and its sample standard deviation (NaN for one client).
    loss_max : float
        Largest possible loss.
    pool_size : int or None
        Number of clients in the finite pool these were drawn from; None for an unbounded supply.
    certificate : Certificate or None
        Bound of the mean loss of clients like these; None for the rule ``conformal``.
    next_client : Certificate or None
        Bound of the loss of one further client, with probability ``1 - alpha``; None where the
        whole pool was scored, which leaves no further client.
    alpha : float
        Failure probability of ``next_client``.
    rank : int
        Rank of the loss that ``next_client`` equals; above ``n_clients`` it can only equal
        ``loss_max``.
    clients_needed : int
        Fewest clients for which ``next_client`` can be below ``loss_max``.
    reference_price : float
        Least margin for equal scores: what no deterministic rule can undercut on equal losses, the
        calculator of that name or, with a pool, ``reference_price_pool``.
    price_paid : float or None
        ``certificate.value - mean``.
    others : float or None
        Bound of the mean loss of the pool's clients that were not scored, which follows from
        ``certificate``; None without a pool, or where all of it was scored.
    orders : int
        Orders of the clients that the rule bets along: one, or as many as it averages over.
    seed : int or None
        Seed that drew them; with it they are drawn again.  None where no order was drawn.
    in_order : bool
        Whether they are the order in which the clients were sampled, or permutations of it.
    orders_sd : float or None
        Standard deviation of the bound over other draws of as many orders; None without a draw.
    voided : Voided or None
        Why the rule asked for says nothing, and what the default gives for the same losses.
    notes : tuple of str
        How the losses were read, where clients and their losses do not show it: rows that were
        averaged, ids in two spellings.
    """

    rule: str
    best_of: tuple[str, ...]
    n_clients: int
    n_rows: int
    mean: float
    sd: float
    loss_max: float
    pool_size: int | None
    certificate: Certificate | None
    next_client: Certificate | None
    alpha: float
    rank: int
    clients_needed: int
    reference_price: float
    price_paid: float | None
    others: float | None
    orders: int
    seed: int | None
    in_order: bool
    orders_sd: float | None
    voided: "Voided | None" = None
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, strings, lists and dicts, ready for JSON."""
        from latecomer.certify.rule import told_of

        about_next = {name: getattr(self, name) for name in ("alpha", "rank", "clients_needed")}
        names = [field.name for field in fields(LossCertificate) if field.name not in about_next]
        return {name: getattr(self, name) for name in names} | {
            "best_of": list(self.best_of),
            "notes": list(self.notes),
            "voided": told_of(self.voided),
            "sd": _finite(self.sd),
            "orders_sd": _finite(self.orders_sd),
            "certificate": None if self.certificate is None else certificate_dict(self.certificate),
            "next_client": None
            if self.next_client is None
            else certificate_dict(self.next_client) | about_next,
        }


@dataclass(frozen=True, eq=False)
class MeanLoss(Stated):
    """A bound of the mean loss of clients like those of a sample.

    Attributes
    ----------
    certificate : Certificate
    rule, best_of, n_clients, pool_size, reference_price, price_paid, others, orders, seed, \
in_order, orders_sd, voided
        As for `LossCertificate`.
    """

    rule: str
    best_of: tuple[str, ...]
    n_clients: int
    pool_size: int | None
    certificate: Certificate
    reference_price: float
    price_paid: float
    others: float | None
    orders: int
    seed: int | None
    in_order: bool
    orders_sd: float | None
    voided: "Voided | None"

    @property
    def value(self) -> float:
        """The bound."""
        return float(self.certificate)


@dataclass(frozen=True, eq=False)
class NextClient(Stated):
    """A bound of the loss of one client more.

    Attributes
    ----------
    n_clients, pool_size, alpha, rank, clients_needed
        As for `LossCertificate`.
    certificate : Certificate
    """

    n_clients: int
    pool_size: int | None
    certificate: Certificate
    alpha: float
    rank: int
    clients_needed: int

    @property
    def value(self) -> float:
        """The bound."""
        return float(self.certificate)


def certify_losses(
    losses: Source,
    *,
    delta: float = 0.05,
    rule: str = DEFAULT_RULE,
    alpha: float = 0.1,
    pool_size: int | None = None,
    loss_max: float = 1.0,
    seed: int | None = None,
    order: Order | None = None,
    best_of: Sequence[str] = (),
    trust: bool = False,
) -> LossCertificate:
    r"""Bound the mean loss of clients like these, and the loss of the next one.

    With probability at least ``1 - delta`` over the draw of the clients, the mean loss of their
    population is at most ``certificate.value``; with probability at least ``1 - alpha`` over them
    and the next one, its loss is at most ``next_client.value``; both with ``1 - delta - alpha``.

    Parameters
    ----------
    losses : path, DataFrame, mapping or sequence
        One loss per client, in any order: a CSV, JSON or Parquet file or DataFrame with columns
        ``client``, ``loss`` and optionally ``weight``; a mapping client -> loss; or bare losses.
    delta, alpha : float
        Failure probabilities of the mean's bound and of the next client's, in (0, 1).
    rule : str
        Chosen before looking.  One of ``FILE_RULES``: ``blend`` for any clients, in pools about the
        losses as measured; ``product_mixture`` without orders, about expected losses in pools too;
        ``product``, which a single client at ``loss_max`` voids; ``conformal`` for the next alone;
        or ``best_of`` for the tightest of those in ``best_of``, which share ``delta``.
    pool_size : int, optional
        Number of untrained clients these were drawn from without replacement: the mean is theirs.
    loss_max : float
        Largest possible loss.
    seed : int, optional
        Repeats the orders that some rules average over; they are drawn afresh unless it is given.
    order : str, mapping or sequence, optional
        As for `read_losses`: rules that bet along one order need it, averages permute it.
    best_of, trust : sequence of str, bool
        Two or more rules, for ``best_of``; whether a rule of one's own is used unsimulated.

    Raises
    ------
    InputError
        One line naming the argument, or the file and line, what is legal and what was given.

    Examples
    --------
    >>> certified = certify_losses({f"client {i}": 0.1 for i in range(30)})
    >>> round(float(certified.certificate), 3), round(certified.reference_price, 3)
    (0.186, 0.086)
    >>> certified.next_client is not None and float(certified.next_client)
    0.1
    """
    level = float(checked(failure_probability, "alpha", alpha))
    asked: dict[str, Any] = {"loss_max": loss_max, "seed": seed, "order": order, "trust": trust}
    given = sample_of(losses, rule, best_of, delta=delta, pool_size=pool_size, **asked)
    return certified_sample(given, several(best_of), float(delta), level)


def certified_sample(
    given: Sample, best_of: tuple[str, ...], delta: float, alpha: float
) -> LossCertificate:
    """Bound the mean and the next client's loss, and say what the bound cost."""
    mean = mean_loss(given, best_of, delta) if given.rule.states == "mean" else None
    following = _next_client(given, alpha)
    rank, clients_needed = _conformal_rank(given.n_clients, alpha)
    return LossCertificate(
        rule=given.rule.name,
        best_of=best_of,
        n_clients=given.n_clients,
        n_rows=given.n_rows,
        mean=given.mean,
        sd=given.sd,
        loss_max=given.loss_max,
        pool_size=given.pool_size,
        certificate=None if mean is None else mean.certificate,
        next_client=following,
        alpha=alpha,
        rank=rank,
        clients_needed=clients_needed,
        reference_price=float(_least_margin(given, delta))
        if mean is None
        else mean.reference_price,
        price_paid=None if mean is None else mean.price_paid,
        others=None if mean is None else mean.others,
        orders=n_orders(given.rule, given.n_clients),
        seed=given.seed if given.rule.orders else None,
        in_order=given.in_order,
        orders_sd=None if mean is None else mean.orders_sd,
        voided=None if mean is None else mean.voided,
        notes=given.notes,
    )


def mean_loss(given: Sample, best_of: tuple[str, ...], delta: float) -> MeanLoss:
    """Bound the mean loss of clients like these by the rule asked for.

    Raises
    ------
    InputError
        The rule bounds no mean.
    """
    rule, pool_size, k = given.rule, given.pool_size, given.n_clients
    if rule.states != "mean":
        raise InputError(f"rule {rule.name} bounds no mean")
    if k > _TAKES_A_WHILE and "blend" in (rule.name, *best_of):
        getLogger(__name__).warning(
            "latecomer: blend of %s clients takes %d seconds or more; product_mixture needs none",
            *(f"{k:,}", k // 10_000),
        )
    unit, others = given.bounded(delta), None
    bound = tagged(scaled_to(unit, given.loss_max), rule, given)
    if pool_size is not None and pool_size > k:
        left = left_for_others(
            bound=float(unit), mean=given.mean / given.loss_max, n_clients=k, pool_size=pool_size
        )
        others = float(scaled_up(np.asarray(left), given.loss_max))
    return MeanLoss(
        rule=rule.name,
        best_of=best_of,
        n_clients=k,
        pool_size=pool_size,
        certificate=bound,
        reference_price=float(_least_margin(given, delta)),
        price_paid=float(bound) - given.mean,
        others=others,
        orders=n_orders(rule, k),
        seed=given.seed if rule.orders else None,
        in_order=given.in_order,
        orders_sd=None if bound.orders is None else float(bound.orders.sd),
        voided=_voided(given, delta),
    )


def next_client(given: Sample, alpha: float) -> NextClient:
    """Bound the loss of one further client, with probability ``1 - alpha``.

    Raises
    ------
    InputError
        The whole pool was scored: there is no further client.
    """
    issued = _next_client(given, alpha)
    if issued is None:
        raise InputError(f"pool_size={given.pool_size}: the whole pool was scored, nobody is next")
    rank, clients_needed = _conformal_rank(given.n_clients, alpha)
    return NextClient(given.n_clients, given.pool_size, issued, alpha, rank, clients_needed)


def _voided(given: Sample, delta: float) -> "Voided | None":
    """Name the client that leaves the rule asked for nothing to say, and ask the default."""
    if not given.rule.ends_at_largest or given.losses[-1] < given.loss_max:
        return None
    from latecomer.certify.rule import Voided

    first = int(np.searchsorted(given.losses, given.loss_max))
    unit = replace(given, rule=RULES[DEFAULT_RULE]).bounded(delta)
    value = float(scaled_up(unit.value, given.loss_max))
    seed = None if given.in_order else given.seed
    return Voided(given.clients[first], given.rule.name, DEFAULT_RULE, value, seed)


def _next_client(given: Sample, alpha: float) -> Certificate | None:
    if given.pool_size == given.n_clients:
        if given.rule.states == "next":
            raise InputError(
                f"rule {given.rule.name} is about the next client: pool_size must be above the "
                f"{given.n_clients} clients given, got {given.pool_size}"
            )
        return None
    quantile = conformal(losses=given.losses, alpha=alpha, loss_max=given.loss_max)
    return tagged(quantile, RULES["conformal"], given)


def _least_margin(given: Sample, delta: float) -> Array:
    asked: dict[str, Any] = {"mean_loss": given.mean, "loss_max": given.loss_max, "delta": delta}
    if given.pool_size is None:
        return reference_price(n_clients=given.n_clients, **asked)
    return reference_price_pool(n_clients=given.n_clients, pool_size=given.pool_size, **asked)


def _finite(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else value


def certificate_dict(certificate: Certificate) -> dict[str, Any]:
    """Return a certificate as plain numbers, strings, lists and dicts, ready for JSON."""
    return {
        "name": certificate.name,
        "value": certificate.value.tolist(),
        "terms": {name: part.tolist() for name, part in certificate.terms.items()},
        "delta": {name: share.tolist() for name, share in certificate.delta.items()},
        "delta_total": certificate.delta_total.tolist(),
        "population": certificate.population,
        "predictor": certificate.predictor,
        "sampling": certificate.sampling,
        "assumptions": list(certificate.assumptions),
        "source": certificate.source,
        "rigorous": certificate.rigorous,
        "reason": certificate.reason,
        "loss_max": certificate.loss_max,
        "vacuous": certificate.vacuous.tolist(),
    } | _orders_dict(certificate.orders)


def _orders_dict(orders: Orders | None) -> dict[str, Any]:
    if orders is None:
        return {}
    sd = None if orders.sd.ndim else _finite(float(orders.sd))
    return {"orders": {**asdict(orders), "sd": sd}}


def _conformal_rank(k: int, alpha: float) -> tuple[int, int]:
    exact = exactly(alpha)
    return math.ceil((1 - exact) * (k + 1)), math.ceil(1 / exact) - 1


def left_for_others(*, bound: float, mean: float, n_clients: int, pool_size: int) -> float:
    """Bound the mean over the clients of a pool that were not scored, from a bound over all.

    (N U - k m) / (N - k) for a bound U over N clients, k of which have the mean m: where most of
    the pool was scored, even a small bound over the whole pool leaves much room for the others.
    The result lies in [0, 1] and is rounded up.

    Examples
    --------
    >>> round(left_for_others(bound=.2505, mean=.18633, n_clients=30, pool_size=40), 3)
    0.443
    """
    left = pool_size - n_clients
    # Exact fractions: the difference of large sums must not undo the rounding up.
    whole, scored = pool_size * Fraction(bound), n_clients * Fraction(mean)
    # The mean is itself a rounded sum and may be too large by this much.
    slack = n_clients * Fraction(float(np.spacing(mean)))
    return min(1.0, max(0.0, float((whole - scored + slack) / left)) * (1.0 + 2.0 * _EPS))
