"""A table of losses in the form that a rule takes, and what the rule's bound says of clients."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from latecomer.bounds.certificate import Array, Certificate, scaled_up
from latecomer.bounds.checks import count, failure_probability, flag, largest_loss
from latecomer.bounds.held_out.betting import fresh_seed, orders_for
from latecomer.certify.rule import BEST_OF, MEAN_RULES, RULES, Asked, Rule, best_of_rule, rules_for
from latecomer.certify.rules.declaration import is_own
from latecomer.certify.table import LossTable, Order, Source, read_losses
from latecomer.certify.words import exact
from latecomer.checks import checked, several
from latecomer.errors import InputError, nearest

FILE_RULES = tuple(rules_for("table"))
"""Rules that a table of losses can be certified by."""

_ALIKE = "the next client is drawn like these"
_UNTRAINED = "these clients played no part in training or in choosing the model"
_RULE_FIRST = "the rule and how many clients to score were settled before looking at their losses"
_DRAWN = {
    "iid": "the clients were drawn independently, from those the bound is about",
    "finite-pool": "the clients were drawn at random without replacement from the pool",
}
_IN_ORDER = (
    "the column of the order is that of a random draw of the clients, not of their arrival nor of "
    "their ids"
)
_FRESH = "was drawn afresh for these clients and is that of no other sample"
_WITHOUT_ORDER = {
    "wsr": "wsr_averaged",
    "wsr_wor": "betting_wor_averaged",
    "product_wor": "product_wor_averaged",
    "betting_wor": "betting_wor_averaged",
}
_OWN_DRAWS = "whatever is drawn to serve a client (noise, minibatches) is drawn for it alone"
_REALISED = "losses are meant as measured on these clients' own points, with the draws made"


@dataclass(frozen=True, eq=False)
class Sample:
    """One loss per client, smallest first; how the clients were drawn; the rule asked for."""

    rule: Rule
    clients: tuple[str, ...]
    losses: Array
    # The same losses in the random order in which the clients were drawn, where that is known.
    sampled: Array | None
    mean: float
    n_rows: int
    loss_max: float
    pool_size: int | None
    seed: int
    notes: tuple[str, ...] = ()  # how the losses were read
    trust: bool = False  # whether a rule of one's own is used without simulating its coverage

    @property
    def in_order(self) -> bool:
        """Whether the order in which the clients were drawn is known."""
        return self.sampled is not None

    @property
    def n_clients(self) -> int:
        """Clients in the sample."""
        return len(self.losses)

    @property
    def sd(self) -> float:
        """Sample standard deviation of the losses; NaN for one client."""
        if self.n_clients < 2:
            return math.nan
        if self.losses[0] == self.losses[-1]:
            return 0.0  # their mean may be off by a rounding
        # Squares must neither overflow nor vanish; powers of 2 round nothing.
        power = int(np.frexp(self.loss_max)[1])
        return float(np.ldexp(np.std(np.ldexp(self.losses, -power), ddof=1), power))

    @property
    def pool(self) -> int:
        """Size of the pool; where none is given, the number of clients scored."""
        return self.pool_size or self.n_clients

    def unit(self) -> Array:
        """Return losses in [0, 1], in the order of sampling if that is known."""
        return np.asarray((self.losses if self.sampled is None else self.sampled) / self.loss_max)

    def asked(self, unit: Sequence[float], delta: float) -> Asked:
        """Return what a rule is asked about scores that stand as the losses of `unit` do."""
        return Asked(unit, delta, self.pool_size, self.seed, self.in_order)

    def bounded(self, delta: float) -> Certificate:
        """Bound the mean of the losses in [0, 1] by the rule asked for."""
        if self.rule.bound is None:
            raise ValueError(f"rule {self.rule.name} bounds no mean")
        return self.rule.bound(self.asked(self.unit().tolist(), delta))


def sample_of(
    losses: Source,
    rule: str,
    best_of: Sequence[str] = (),
    *,
    delta: float,
    pool_size: int | None,
    loss_max: float,
    seed: int | None,
    order: Order | None = None,
    trust: bool = False,
) -> Sample:
    """Read losses and check what is asked of them; without a seed orders are drawn afresh."""
    asked: dict[str, Any] = {"pool_size": pool_size, "loss_max": loss_max, "seed": seed}
    ordered = has_order(losses, order)
    chosen = check_options(rule, best_of, delta=delta, ordered=ordered, trust=trust, **asked)
    table = read_losses(losses, loss_max=float(loss_max), order=order)
    drawn = drawn_seed(seed, ordered=bool(table.order))
    return sampled(table, chosen, float(loss_max), pool_size, drawn, trust=trust)


def has_order(losses: Source, order: Order | None) -> bool:
    """Whether the order in which the clients were drawn is given, or the table has one already."""
    return order is not None or (isinstance(losses, LossTable) and bool(losses.order))


def sampled(
    table: LossTable, rule: Rule, loss_max: float, pool_size: int | None, seed: int, *, trust: bool
) -> Sample:
    """Put a table that was read in the form that a rule takes, whose options are checked."""
    k = len(table.clients)
    if pool_size is not None and pool_size < k:
        raise InputError(
            f"pool_size must be a whole number of at least the {k} clients given, got {pool_size}"
        )
    if k < rule.least:
        raise InputError(f"rule {rule.name} needs at least {rule.least} clients, got {k}")
    if rule.ordered and not table.order:
        raise InputError(needs_order(f"rule {rule.name}", "or use a rule that needs none"))
    sorted_losses = np.array(table.losses)
    return Sample(
        rule=rule,
        clients=table.clients,
        losses=sorted_losses,
        sampled=sorted_losses[np.argsort(table.order)] if table.order else None,
        mean=min(math.fsum(table.losses) / k, loss_max),
        n_rows=table.n_rows,
        loss_max=loss_max,
        pool_size=None if pool_size is None else int(pool_size),
        seed=seed,
        notes=(*table.notes, *_noted(rule, trust=trust)),
        trust=trust,
    )


def _noted(rule: Rule, *, trust: bool) -> tuple[str, ...]:
    """Say of a rule of one's own what is known of it."""
    if not is_own(rule.name):
        return ()
    if trust:
        return (f"rule {rule.name}, whose proof is its author's, is taken on trust",)
    from latecomer.certify.rule import coverage_of

    return (coverage_of(rule).sentence(rule.name),)


def drawn_seed(seed: int | None, *, ordered: bool) -> int:
    """Return the seed of the orders: the one given, else a fresh one.

    Along the order of sampling fixed permutations do: those of seed 0 unless a seed is given.
    """
    if seed is not None:
        return int(seed)
    return 0 if ordered else fresh_seed()


def check_options(
    rule: str,
    best_of: Sequence[str] = (),
    *,
    delta: float,
    pool_size: int | None,
    loss_max: float,
    seed: int | None,
    alpha: float = 0.1,
    ordered: bool = False,
    trust: bool = False,
) -> Rule:
    """Return the rule; refuse options that are illegal for any table, before one is read."""
    chosen = _rule_of(rule, best_of, pool_size, ordered)
    if checked(flag, "trust", trust) and not is_own(rule):
        raise InputError(f"trust is for a rule of one's own, file.py:name, got rule {rule}")
    if is_own(rule) and not trust:
        from latecomer.certify.rule import coverage_of

        coverage_of(chosen)
    # The rules of ``best_of`` share delta.
    parts = len(several(best_of)) or 1
    checked(partial(failure_probability, parts=parts), "delta", delta)
    checked(failure_probability, "alpha", alpha)
    checked(largest_loss, "loss_max", loss_max)
    if seed is not None:
        checked(partial(count, minimum=0), "seed", seed)
    if pool_size is not None:
        checked(count, "pool_size", pool_size)
    return chosen


def _rule_of(rule: str, best_of: Sequence[str], pool_size: int | None, ordered: bool) -> Rule:
    """Return the rule that is asked for, if it covers how the clients were drawn."""
    legal = (*FILE_RULES, *rules_for("zero_one"), BEST_OF)
    if not isinstance(rule, str) or (rule not in legal and not is_own(rule)):
        raise InputError(
            f"rule must be one of {', '.join(legal)} or file.py:name, got {rule!r}"
            f"{nearest(str(rule), legal)}"
        )
    given = several(best_of)
    if rule != BEST_OF and given:
        raise InputError(f"best_of names the rules of rule best_of, got rule {rule}")
    if rule == BEST_OF:
        means = [name for name, one in MEAN_RULES.items() if "table" in one.doors]
        wrong = [name for name in given if not isinstance(name, str) or name not in means]
        if wrong or len(set(given)) < max(2, len(given)):
            raise InputError(
                f"best_of must be two or more different ones of {', '.join(means)}, got "
                f"{', '.join(map(str, given)) or 'none'}"
            )
    for name in given if rule == BEST_OF else (rule,):
        _check_drawn(name, pool_size)
        if RULES[name].ordered and not ordered:
            raise InputError(needs_order(f"rule {name}", f"or use {_WITHOUT_ORDER[name]}"))
    return best_of_rule(given) if rule == BEST_OF else RULES[rule]


def needs_order(what: str, instead: str) -> str:
    """Say that a bet along one order needs the order in which the clients were drawn."""
    return (
        f"{what} hangs on the order of the clients, which must be that of a random draw and which "
        f"no fixed seed makes random: name its column (--order COLUMN, order= in Python), {instead}"
    )


def _check_drawn(rule: str, pool_size: int | None) -> None:
    if pool_size is None and not RULES[rule].iid:
        raise InputError(
            f"rule {rule} is for finite pools: say how many untrained clients these were drawn "
            "from (pool_size), or leave the rule out"
        )
    if pool_size is not None and not RULES[rule].finite_pool:
        raise InputError(
            f"rule {rule} needs clients drawn independently, pool_size={pool_size} makes these a "
            "finite pool: leave the rule out"
        )


def scaled_to(certificate: Certificate, loss_max: float) -> Certificate:
    """Turn a bound for losses in [0, 1] into one for losses in [0, loss_max], about clients."""
    ledger = {
        "clients" if event == "samples" else event: share
        for event, share in certificate.delta.items()
    }
    value = certificate.value if loss_max == 1 else scaled_up(certificate.value, loss_max)
    orders = certificate.orders
    return replace(
        certificate,
        orders=None if orders is None else replace(orders, sd=loss_max * orders.sd),
        value=value,
        terms=MappingProxyType({name: loss_max * part for name, part in certificate.terms.items()}),
        delta=MappingProxyType(ledger),
        # A sample is one client's loss: the bound is about clients that were never seen.
        population="unseen-client",
        loss_max=loss_max,
    )


def n_orders(rule: Rule, n_clients: int) -> int:
    """Return how many orders of the losses a rule needs: one, several, or none."""
    return orders_for(n_clients) if rule.orders else int(rule.ordered)


def tagged(certificate: Certificate, rule: Rule, given: Sample) -> Certificate:
    """State what must hold of these clients in place of a calculator's general assumptions."""
    # Drawn without replacement, clients certify the pool's mean with their own losses in it.
    sampling = "iid" if given.pool_size is None else "finite-pool"
    drawn = _ALIKE if certificate.population == "next-client" else _DRAWN[sampling]
    assumed = [drawn, _UNTRAINED, _RULE_FIRST]
    if rule.ordered or rule.orders:
        assumed.append(_order_meant(rule, given))
    assumed.append(f"losses lie in [0, {exact(certificate.loss_max)}]")
    assumed.append(_REALISED if rule.realised and given.pool_size is not None else _OWN_DRAWS)
    return replace(certificate, sampling=sampling, assumptions=tuple(assumed))


def _order_meant(rule: Rule, given: Sample) -> str:
    if given.in_order:
        return _IN_ORDER
    number = n_orders(rule, given.n_clients)
    return f"seed {given.seed}, which draws the {number} orders, {_FRESH}"
