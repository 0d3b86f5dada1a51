"""Certify any model from its losses on clients that took no part in training.

This is the door for users of other frameworks: a table of client and loss goes in, two statements
come out.  One bounds the mean loss over all clients like these, the other the loss of the next
client.  Needs no torch and loads none.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from latecomer.bounds.certificate import Array, Certificate, scaled_up
from latecomer.bounds.checks import count, failure_probability, positive
from latecomer.bounds.held_out.losses import conformal
from latecomer.eval.certificates.loss_table import Source, read_losses
from latecomer.eval.certificates.rows import left_for_others
from latecomer.eval.certificates.rules import (
    BEST_OF,
    MEAN_RULES,
    RULES,
    Asked,
    Rule,
    best_of_rule,
    rules_for,
)
from latecomer.eval.errors import InputError, nearest

__all__ = ["FILE_RULES", "LossCertificate", "certificate_dict", "certify_losses"]

FILE_RULES = tuple(rules_for("table"))
"""Rules that a table of losses can be certified by."""

_ALIKE = "the next client is drawn like these"
_UNTRAINED = "these clients played no part in training or in choosing the model"
_RULE_FIRST = "the rule was chosen before looking at their losses"
_DRAWN = {
    "iid": "the clients were drawn independently, from those the bound is about",
    "iid or finite-pool": "the clients were drawn at random, independently or without replacement"
    " from the untrained ones",
    "finite-pool": "the clients were drawn at random without replacement from the pool",
}
_REALISED = "losses are meant as measured on these clients' own points, with the draws made"


@dataclass(frozen=True, eq=False)
class LossCertificate:
    """What the losses of ``n_clients`` untrained clients prove.

    Attributes
    ----------
    rule : str
        Rule of the mean's bound, as asked for.
    best_of : tuple of str
        Rules of which ``best_of`` took the tightest; empty for any other.
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
    next_client : Certificate
        Bound of the loss of one further client, with probability ``1 - alpha``.
    alpha : float
        Failure probability of ``next_client``.
    rank : int
        Rank of the loss that ``next_client`` quotes; above ``n_clients`` it can only quote
        ``loss_max``.
    clients_needed : int
        Fewest clients for which ``next_client`` can be below ``loss_max``.
    reference_price : float
        ``(1 - delta**(1/k)) (loss_max - mean)``: what no deterministic rule can
        undercut on equal losses from an unbounded supply of clients.
    price_paid : float or None
        ``certificate.value - mean``.
    others : float or None
        Bound of the mean loss of the pool's clients that were not scored, which follows from
        ``certificate``; None without a pool, or where all of it was scored.
    orders : int
        Random orders of the losses that the rule bets along; 0 for rules without an order.
    seed : int
        Draws those orders.
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
    next_client: Certificate
    alpha: float
    rank: int
    clients_needed: int
    reference_price: float
    price_paid: float | None
    others: float | None
    orders: int
    seed: int

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, strings, lists and dicts, ready for JSON."""
        return {
            "rule": self.rule,
            "best_of": list(self.best_of),
            "n_clients": self.n_clients,
            "n_rows": self.n_rows,
            "mean": self.mean,
            "sd": self.sd if math.isfinite(self.sd) else None,
            "loss_max": self.loss_max,
            "pool_size": self.pool_size,
            "certificate": None if self.certificate is None else certificate_dict(self.certificate),
            "next_client": certificate_dict(self.next_client)
            | {"alpha": self.alpha, "rank": self.rank, "clients_needed": self.clients_needed},
            "reference_price": self.reference_price,
            "price_paid": self.price_paid,
            "others": self.others,
            "orders": self.orders,
            "seed": self.seed,
        }


@dataclass(frozen=True, eq=False)
class Sample:
    """One loss a client, the smallest first, how the clients were drawn, and the rule asked for.

    Attributes
    ----------
    rule : Rule
    losses : ndarray
    mean : float
        Mean loss.
    n_rows : int
    loss_max : float
    pool_size : int or None
    seed : int
    """

    rule: Rule
    losses: Array
    mean: float
    n_rows: int
    loss_max: float
    pool_size: int | None
    seed: int

    @property
    def n_clients(self) -> int:
        """Clients in the sample."""
        return len(self.losses)

    @property
    def pool(self) -> int:
        """Size of the pool; all of it was scored where none is given."""
        return self.pool_size or self.n_clients

    def ordered(self, rule: Rule) -> Array:
        """Return losses in [0, 1] in the order that the rule bets along, which the seed draws."""
        unit = self.losses / self.loss_max
        return np.random.default_rng(self.seed).permutation(unit) if rule.ordered else unit


def sample_of(
    losses: Source,
    *,
    rule: str,
    delta: float,
    pool_size: int | None,
    loss_max: float,
    seed: int,
    best_of: Sequence[str] = (),
) -> Sample:
    """Read losses and check what is asked of them.

    Raises
    ------
    InputError
    """
    asked: dict[str, Any] = {"pool_size": pool_size, "loss_max": loss_max, "seed": seed}
    chosen = check_options(rule, best_of, delta=delta, **asked)
    loss_max = float(loss_max)
    table = read_losses(losses, loss_max=loss_max)
    k = len(table.clients)
    if pool_size is not None and pool_size < k:
        raise InputError(
            f"pool_size must be a whole number of at least the {k} clients given, got {pool_size}"
        )
    if k < chosen.least:
        raise InputError(f"rule {rule} needs at least {chosen.least} clients, got {k}")
    return Sample(
        rule=chosen,
        losses=np.array(table.losses),
        mean=min(math.fsum(table.losses) / k, loss_max),
        n_rows=table.n_rows,
        loss_max=loss_max,
        pool_size=None if pool_size is None else int(pool_size),
        seed=int(seed),
    )


def check_options(
    rule: str,
    best_of: Sequence[str] = (),
    *,
    delta: float,
    pool_size: int | None,
    loss_max: float,
    seed: int,
    alpha: float = 0.1,
) -> Rule:
    """Return the rule; refuse what cannot be asked of any table, before one is read.

    Raises
    ------
    InputError
    """
    chosen = _rule_of(rule, best_of, pool_size)
    checked(failure_probability, "delta", delta)
    checked(failure_probability, "alpha", alpha)
    checked(positive, "loss_max", loss_max)
    checked(partial(count, minimum=0), "seed", seed)
    if pool_size is not None:
        checked(count, "pool_size", pool_size)
    return chosen


def certify_losses(
    losses: Source,
    *,
    delta: float = 0.05,
    rule: str = "product",
    alpha: float = 0.1,
    pool_size: int | None = None,
    loss_max: float = 1.0,
    seed: int = 0,
    best_of: Sequence[str] = (),
) -> LossCertificate:
    r"""Bound the mean loss of clients like these, and the loss of the next one.

    With probability at least ``1 - delta`` over the draw of the clients, the mean loss of the
    population they came from is at most ``certificate.value``; and with probability at least
    ``1 - alpha`` over these clients and the next one, its loss is at most ``next_client.value``.
    The statements hold together with probability ``1 - delta - alpha``.

    Parameters
    ----------
    losses : path, DataFrame, mapping or sequence
        One loss per client, in any order: a CSV, JSON or Parquet file or DataFrame with columns
        ``client``, ``loss`` and, to average rows unevenly, ``weight``; client -> loss; or losses.
    delta : float
        Failure probability of the mean's bound, in (0, 1).
    rule : str
        One of ``FILE_RULES``, chosen before looking: ``product`` for up to about 150 clients with
        low, even losses, ``wsr_averaged`` and ``betting_mixture`` for more or spread ones,
        ``product_wor_averaged`` for a pool's losses as measured, ``conformal`` for the next alone,
        ``best_of`` for the tightest of those in ``best_of``, which share ``delta``.
    alpha : float
        Failure probability of the next client's bound, in (0, 1).
    pool_size : int, optional
        Untrained clients from which these were drawn without replacement: the mean is theirs.
    loss_max : float
        Largest possible loss.
    seed : int
        Draws the orders along which some rules bet; chosen beforehand too.
    best_of : sequence of str
        Two rules of the mean or more, for the rule ``best_of``.

    Raises
    ------
    InputError
        One line naming the argument, or the file and line, what is legal and what was given.

    Examples
    --------
    >>> certified = certify_losses({f"client {i}": 0.1 for i in range(30)})
    >>> round(float(certified.certificate), 3), round(certified.reference_price, 3)
    (0.186, 0.086)
    >>> float(certified.next_client)
    0.1
    """
    alpha = float(checked(failure_probability, "alpha", alpha))
    asked: dict[str, Any] = {"pool_size": pool_size, "loss_max": loss_max, "seed": seed}
    given = sample_of(losses, rule=rule, best_of=best_of, delta=delta, **asked)
    return _certified(given, tuple(best_of), float(delta), alpha)


def _certified(
    given: Sample, best_of: tuple[str, ...], delta: float, alpha: float
) -> LossCertificate:
    """Bound the mean and the next client's loss, and say what the bound cost."""
    rule = given.rule
    k, mean, loss_max, pool_size = given.n_clients, given.mean, given.loss_max, given.pool_size
    bound, others = None, None
    if rule.states == "mean":
        unit = _bounded(rule, given, delta)
        bound = tagged(scaled_to(unit, loss_max), rule, pool_size, given.seed)
        if pool_size is not None and pool_size > k:
            sizes = {"n_clients": k, "pool_size": pool_size}
            left = left_for_others(bound=float(unit), mean=mean / loss_max, **sizes)
            others = float(scaled_up(np.asarray(left), loss_max))
    rank, clients_needed = _conformal_rank(k, alpha)
    quantile = conformal(losses=given.losses, alpha=alpha, loss_max=loss_max)
    return LossCertificate(
        rule=rule.name,
        best_of=best_of,
        n_clients=k,
        n_rows=given.n_rows,
        mean=mean,
        sd=float(np.std(given.losses, ddof=1)) if k > 1 else math.nan,
        loss_max=loss_max,
        pool_size=pool_size,
        certificate=bound,
        next_client=tagged(quantile, RULES["conformal"], pool_size, given.seed),
        alpha=alpha,
        rank=rank,
        clients_needed=clients_needed,
        reference_price=-math.expm1(math.log(delta) / k) * (loss_max - mean),
        price_paid=None if bound is None else float(bound) - mean,
        others=others,
        orders=_orders(rule),
        seed=given.seed,
    )


def _rule_of(rule: str, best_of: Sequence[str], pool_size: int | None) -> Rule:
    """Return the rule that is asked for, if it covers how the clients were drawn."""
    legal = (*FILE_RULES, BEST_OF)
    if rule == "wsr":
        raise InputError(
            "rule wsr hangs on the order of the clients, which a table does not tell: use "
            "wsr_averaged, or product_wor_averaged for a pool"
        )
    if rule not in legal:
        raise InputError(
            f"rule must be one of {', '.join(legal)}, got {rule!r}{nearest(str(rule), legal)}"
        )
    if rule != BEST_OF and best_of:
        raise InputError(f"best_of names the rules of rule best_of, got rule {rule}")
    if rule == BEST_OF:
        given = (best_of,) if isinstance(best_of, str) else tuple(best_of)
        means = [name for name, one in MEAN_RULES.items() if "table" in one.doors]
        if len(set(given)) < max(2, len(given)) or not set(given) <= set(means):
            raise InputError(
                f"best_of must be two or more different ones of {', '.join(means)}, got "
                f"{', '.join(map(str, given)) or 'none'}"
            )
    for name in given if rule == BEST_OF else (rule,):
        _check_drawn(name, pool_size)
    return best_of_rule(given) if rule == BEST_OF else RULES[rule]


def _check_drawn(rule: str, pool_size: int | None) -> None:
    if pool_size is None and not RULES[rule].iid:
        raise InputError(
            f"rule {rule} is for finite pools: say how many untrained clients these were drawn "
            "from (pool_size), or use wsr_averaged"
        )
    if pool_size is not None and not RULES[rule].finite_pool:
        raise InputError(
            f"rule {rule} needs clients drawn independently, pool_size={pool_size} makes these a "
            "finite pool: use product_wor_averaged"
        )


def _orders(rule: Rule) -> int:
    """Return the orders of the losses that a rule needs: one, several, or none."""
    return int(rule.ordered) + rule.orders


def _bounded(rule: Rule, given: Sample, delta: float) -> Certificate:
    """Bound the mean of losses in [0, 1] whose own order says nothing."""
    if rule.bound is None:
        raise ValueError(f"rule {rule.name} bounds no mean")
    asked = Asked(given.ordered(rule).tolist(), delta, given.pool_size, given.seed)
    return rule.bound(asked)


def scaled_to(certificate: Certificate, loss_max: float) -> Certificate:
    """Turn a bound for losses in [0, 1] into one for losses in [0, loss_max], about clients."""
    ledger = {
        "clients" if event == "samples" else event: share
        for event, share in certificate.delta.items()
    }
    value = certificate.value if loss_max == 1 else scaled_up(certificate.value, loss_max)
    return replace(
        certificate,
        value=value,
        terms=MappingProxyType({name: loss_max * part for name, part in certificate.terms.items()}),
        delta=MappingProxyType(ledger),
        # A sample is one client's loss: the bound is about clients that were never seen.
        population="unseen-client",
        loss_max=loss_max,
    )


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
    }


def checked(check: Callable[[str, Any], Any], name: str, value: Any) -> Any:
    if np.ndim(value):
        raise InputError(f"{name} must be one number, got {name}={value!r}")
    try:
        return check(name, value)
    except (TypeError, ValueError) as error:
        raise InputError(str(error)) from error


def _conformal_rank(k: int, alpha: float) -> tuple[int, int]:
    # The decimal that was written, not its binary neighbour: 0.1 needs 9 clients, not 10.
    exact = Fraction(repr(alpha))
    return math.ceil((1 - exact) * (k + 1)), math.ceil(1 / exact) - 1


def tagged(certificate: Certificate, rule: Rule, pool_size: int | None, seed: int) -> Certificate:
    """Say what has to hold of these clients, where a calculator can only list what may."""
    sampling = certificate.sampling if pool_size is None else "finite-pool"
    drawn = _ALIKE if certificate.population == "next-client" else _DRAWN[sampling]
    assumed = [drawn, _UNTRAINED, _RULE_FIRST, f"losses lie in [0, {certificate.loss_max:g}]"]
    if _orders(rule):
        assumed.insert(3, f"so was seed {seed}, which draws the {_orders(rule)} order(s)")
    if rule.realised:
        assumed.append(_REALISED)
    return replace(certificate, sampling=sampling, assumptions=tuple(assumed))
