"""The rules that certificates are issued by: shipped, of one's own, and when they say nothing.

A rule of one's own is a function ``bound(losses, delta)`` of losses in [0, 1] that returns an upper
bound of their clients' mean, or a `Rule` whose ``bound`` does.  Its proof is its author's; what can
be seen from outside is looked at where it is asked for: that it is a function of the losses and of
delta, not of the losses' order, that a smaller delta costs something, and that on simulated clients
of known mean it fails no more often than it promises.

A study takes one among its ``certificates``, as a rule, and among its ``bounds``: ``kind`` is the
word for it in messages.
"""

import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latecomer.bounds.certificate import Certificate
from latecomer.certify.rules.declaration import Asked as Asked
from latecomer.certify.rules.declaration import Rule as Rule
from latecomer.certify.rules.declaration import is_own
from latecomer.checks import short
from latecomer.declared import declared, module_at, without_folder
from latecomer.errors import InputError

LEVEL, DRAWS, SEED = 0.1, 300, 0
_SURELY = 1e-6
"""A rule that keeps its promise exactly is refused by a law with at most this probability."""
_Draw = Callable[[np.random.Generator, int], NDArray[np.floating[Any]]]
LAWS: Mapping[str, tuple[float, _Draw]] = MappingProxyType(
    {
        "all .3": (0.3, lambda rng, n: np.full(n, 0.3)),
        "1 with probability .02, else 0": (0.02, lambda rng, n: rng.binomial(1, 0.02, n) * 1.0),
        "1 with probability .3, else 0": (0.3, lambda rng, n: rng.binomial(1, 0.3, n) * 1.0),
        "Beta(2, 8)": (0.2, lambda rng, n: rng.beta(2, 8, n)),
        "uniform": (0.5, lambda rng, n: rng.uniform(size=n)),
        "1 with probability .05, else .1": (
            0.145,
            lambda rng, n: 0.1 + 0.9 * rng.binomial(1, 0.05, n),
        ),
    }
)
"""Laws of losses with their means: what a bound that is too good fails on."""
_SIZES = (12, 40)
_SMALL = 1e-4
"""A level far below `LEVEL`, to see that a bound hangs on it."""


@dataclass(frozen=True)
class Coverage:
    """How often a rule's bound lay below the mean of simulated clients, at worst."""

    failed: int  # samples whose bound was too low
    draws: int  # of so many
    law: str  # what their losses were
    clients: int  # clients of a sample

    def sentence(self, rule: str, kind: str = "rule") -> str:
        """Say it of a rule.

        >>> Coverage(9, 300, "uniform", 12).sentence("mine.py:r")[-56:]
        '9 of 300 simulated samples (seed 0; 12 clients, uniform)'
        """
        return (
            f"{kind} {rule}, whose proof is its author's: at level {LEVEL:g} it failed in at most"
            f" {self.failed} of {self.draws} simulated samples (seed {SEED}; {self.clients}"
            f" clients, {self.law})"
        )


def held_to_contract(path: str, *, trust: bool, kind: str = "rule") -> Rule:
    """Import a rule and simulate its coverage; one that is trusted is only called once.

    Raises
    ------
    InputError
        It is none, it fails, or its simulated coverage does.
    """
    rule = own_rule(path, kind)
    if trust:
        _bound(rule, np.linspace(0, 1, max(rule.least, *_SIZES)), None)
    else:
        coverage_of(rule, kind)
    return rule


def own_rule(path: str, kind: str = "rule") -> Rule:
    """Import a rule; its name is the path.  Importing runs the file.

    Raises
    ------
    InputError
        There is no such file or name, or what is there is no rule of the mean.
    """
    place, _, name = path.rpartition(":")
    if not place or not name.isidentifier() or "@" in path:
        raise InputError(f"{kind} must be a name, file.py:name or module:name, got {path!r}")
    try:
        found = getattr(module_at(place), name, None)
    except ValueError as error:
        raise InputError(f"{kind}: {error}") from error
    if isinstance(found, Rule):
        if found.bound is None or found.states != "mean" or found.ordered or found.orders:
            raise InputError(
                f"{kind} {path} must bound the mean, by losses in any order: states 'mean', a"
                " bound, neither ordered nor orders"
            )
    elif not callable(found):
        raise InputError(f"{kind}: {place} has no function or Rule {name}")
    else:
        _check_takes(f"{kind} {path}", found)
    return _as_rule(path, found, kind)


def _check_takes(called: str, function: Callable[..., Any]) -> None:
    """Refuse a function that cannot be called with losses and delta."""
    try:
        takes = inspect.signature(function)
    except (ValueError, TypeError):
        return  # some builtins do not say what they take
    try:
        takes.bind([], LEVEL)
    except TypeError as error:
        raise InputError(f"{called} must take (losses, delta), got {takes}: {error}") from error


@lru_cache(maxsize=32)
def _as_rule(path: str, found: Any, kind: str) -> Rule:
    if isinstance(found, Rule):
        given = found.bound

        def bound(asked: Asked) -> Certificate:
            # A copy, in case the rule sorts or changes what the next rule is given too.
            own = replace(asked, losses=list(asked.losses))
            return _checked(path, kind, given, (own,), asked)

        return replace(found, name=path, bound=bound)
    return Rule(
        name=path,
        words=f"{kind} {without_folder(path)}",
        finite_pool=False,
        bound=lambda a: _checked(path, kind, found, (list(a.losses), a.level), a),
    )


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:120]}"


def _number(made: Any) -> float | None:
    """Return what a rule gave as a number; None for text, of a number too, and all else."""
    try:
        return None if isinstance(made, str | bytes) else float(made)
    except (TypeError, ValueError, RuntimeError):
        return None


def _checked(
    path: str, kind: str, function: Any, arguments: tuple[Any, ...], asked: Asked
) -> Certificate:
    """Call a rule and see that it gives a bound."""
    called = f"{kind} {path}"
    try:
        made = function(*arguments)
    except InputError:
        raise
    except (Exception, SystemExit) as error:
        raise InputError(f"{called} failed: {_said(error)}") from error
    value = _number(made)
    if value is None or math.isnan(value) or value < 0:
        shown = short(made) if value is None else f"{value:g}"
        raise InputError(f"{called} must return a bound of at least 0, got {shown}")
    reason = f"the proof of {kind} {without_folder(path)} is its author's"
    if isinstance(made, Certificate):
        # Also where a bound of the package made it: nobody knows of which losses, at which level.
        told = "; ".join(filter(None, (reason, made.reason)))
        return replace(made, name=path, rigorous=False, reason=told)
    mean = np.asarray(np.mean(asked.losses))
    bound = np.asarray(value)
    return Certificate(
        name=path,
        value=bound,
        terms=MappingProxyType({"empirical_risk": mean, "price": bound - mean}),
        delta=MappingProxyType({"samples": np.asarray(asked.level)}),
        population="unseen-client",
        predictor="any",
        sampling="iid",
        assumptions=(),
        source=without_folder(path),
        rigorous=False,
        reason=reason,
    )


@lru_cache(maxsize=32)
def coverage_of(rule: Rule, kind: str = "rule") -> Coverage:
    """Simulate how often a rule fails, and refuse one that fails too often.

    For each law of `LAWS` and two numbers of clients, `DRAWS` samples at level `LEVEL`, drawn with
    seed `SEED`; for rules of pools also without replacement from pools of twice as many.

    Returns
    -------
    Coverage
        Where it failed most.

    Raises
    ------
    InputError
        In one line with the figures.
    """
    from scipy.stats import binom

    most = int(binom.isf(_SURELY, DRAWS, LEVEL))
    worst = Coverage(-1, DRAWS, "", 0)
    for law, clients, failed in _simulated(rule, kind):
        found = Coverage(failed, DRAWS, law, clients)
        if failed > most:
            raise InputError(
                f"{kind} {rule.name} failed in {failed} of {DRAWS} simulated samples of {clients}"
                f" clients ({law}), where level {LEVEL:g} allows at most {most} (seed {SEED}); to"
                " use it all the same: --trust, trust=True, in a study trust: true"
            )
        worst = max(worst, found, key=lambda one: one.failed)
    _refuse_deaf(rule, kind)
    return worst


def _simulated(rule: Rule, kind: str) -> Iterator[tuple[str, int, int]]:
    """Yield law, number of clients, and how many bounds lay below the mean."""
    rng = np.random.default_rng(SEED)
    for law, (mean, draw) in LAWS.items():
        for k in (max(size, rule.least) for size in _SIZES):
            if rule.iid:
                samples = [draw(rng, k) for _ in range(DRAWS)]
                _refuse_order(rule, samples[0], kind)
                yield law, k, sum(_bound(rule, sample, None) < mean - 1e-12 for sample in samples)
            if rule.finite_pool:
                pools = [draw(rng, 2 * k) for _ in range(DRAWS)]
                low = (_bound(rule, pool[:k], 2 * k) < pool.mean() - 1e-12 for pool in pools)
                yield f"{law}; half of a pool", k, sum(low)


def _bound(
    rule: Rule, losses: NDArray[np.floating[Any]], pool: int | None, level: float = LEVEL
) -> float:
    if rule.bound is None:
        raise ValueError(f"rule {rule.name} bounds no mean")
    return float(rule.bound(Asked(losses.tolist(), level, pool, in_order=False)))


def _refuse_deaf(rule: Rule, kind: str) -> None:
    """Refuse a rule whose bound does not hang on delta: simulated at one level it may pass."""
    pairs: list[tuple[float, float]] = []
    for k in (max(size, rule.least) for size in _SIZES):
        for largest in (0.2, 1.0):
            losses, pool = np.linspace(0, largest, k), None if rule.iid else 2 * k
            pairs.append((_bound(rule, losses, pool), _bound(rule, losses, pool, _SMALL)))
    at, below = min(pairs, key=lambda pair: pair[1] - pair[0])
    if below < at - 1e-6:
        raise InputError(
            f"{kind} {rule.name} must promise less at a smaller delta, got {at:.6g} at {LEVEL:g} "
            f"and {below:.6g} at {_SMALL:g}"
        )
    if all(at == below for at, below in pairs) and min(pairs)[0] < 1:
        raise InputError(
            f"{kind} {rule.name} must hang on delta, got the same bounds at {LEVEL:g} and at "
            f"{_SMALL:g}"
        )


def _refuse_order(rule: Rule, losses: NDArray[np.floating[Any]], kind: str) -> None:
    first, again = _bound(rule, losses, None), _bound(rule, losses, None)
    if first != again:
        raise InputError(
            f"{kind} {rule.name} must give one bound for the same losses and delta, got"
            f" {first:.6g}, then {again:.6g}"
        )
    there, back = _bound(rule, np.sort(losses), None), _bound(rule, np.sort(losses)[::-1], None)
    if abs(there - back) > 1e-9 * max(1.0, abs(there)):
        raise InputError(
            f"{kind} {rule.name} hangs on the order of the losses, which is nobody's draw:"
            f" {there:.6g} for the smallest first, {back:.6g} for the largest first"
        )


BEST_OF = "best_of"
DEFAULT_RULE = "blend"
"""The rule of the mean where none is named, for tables of losses and held-out clients' scores."""
RULE_WITHOUT_ORDERS = "product_mixture"
"""The same where no order of the clients is known to be random, or where it is not enough."""
# If nearly all of a pool is certified, a certificate says next to nothing about new clients.
LEAST_OUTSIDE = 10


class _Rules(Mapping[str, Rule]):
    """The rules that modules of ``rules`` declare; one's own are found by their place too."""

    def __init__(self) -> None:
        self._declared: Mapping[str, Rule] = declared("latecomer.certify.rules", "RULES")

    def __getitem__(self, name: str) -> Rule:
        if not is_own(name):
            return self._declared[name]

        return own_rule(name)

    def __contains__(self, name: object) -> bool:
        if not is_own(name):
            return name in self._declared
        try:
            self[str(name)]
        except InputError:
            return False
        return True

    def __iter__(self) -> Iterator[str]:
        return iter(self._declared)

    def __len__(self) -> int:
        return len(self._declared)


RULES: Mapping[str, Rule] = _Rules()
"""Every rule that a module of ``rules`` declares, and by ``file.py:name`` one of anybody's."""


def rules_for(door: str) -> Mapping[str, Rule]:
    """Return the rules available at one entry point (see ``Rule.doors``), by name.

    Examples
    --------
    >>> list(rules_for("r4"))
    ['product', 'product_mixture', 'progressive']
    """
    fitting = {name: rule for name, rule in RULES.items() if door in rule.doors}
    return MappingProxyType(fitting)


MEAN_RULES: Mapping[str, Rule] = MappingProxyType(
    {name: rule for name, rule in rules_for("r0").items() if rule.states == "mean"}
)
"""Rules of the mean for held-out clients' scores; ``best_of`` chooses among them."""


def _as_issued(issued: Certificate, rule: Rule) -> Certificate:
    return issued


def best_of_rule(
    names: Sequence[str], told: Callable[[Certificate, Rule], Certificate] = _as_issued
) -> Rule:
    """Return the rule that takes the smallest of several bounds and pays for the choice.

    Each has an equal part of the failure probability: all bounds hold together, so the smallest
    does.  Which one is smallest depends on the scores, so the assumptions of all must hold.

    Parameters
    ----------
    names : sequence of str
        Rules of the mean.
    told : callable
        Says of each rule's bound what it is about, before the smallest is taken.

    Examples
    --------
    >>> rule = best_of_rule(["product", "wsr_averaged"])
    >>> rule.iid, rule.finite_pool, rule.orders
    (True, False, True)
    """
    parts = [MEAN_RULES[name] for name in names]

    def smallest(asked: Asked) -> Certificate:
        part = replace(asked, level=asked.level / len(parts))
        each = {rule.name: told(rule.bound(part), rule) for rule in parts if rule.bound is not None}
        best = min(each.values(), key=float)
        drawn = {one.sampling for one in each.values()}
        return replace(
            best,
            delta={f"clients, {name}": one.delta_total for name, one in each.items()},
            sampling=best.sampling if len(drawn) == 1 else "iid",
            assumptions=tuple(dict.fromkeys(s for one in each.values() for s in one.assumptions)),
            rigorous=all(one.rigorous for one in each.values()),
        )

    return Rule(
        name=BEST_OF,
        words=f"best of {', '.join(names)}, which share delta",
        finite_pool=all(rule.finite_pool for rule in parts),
        iid=all(rule.iid for rule in parts),
        realised=any(rule.realised for rule in parts),
        ordered=any(rule.ordered for rule in parts),
        orders=any(rule.orders for rule in parts),
        bound=smallest,
        least=max(rule.least for rule in parts),
        ends_at_largest=all(rule.ends_at_largest for rule in parts),
    )


def level_of(rule: str) -> str:
    """Return the setting that holds a rule's probability: ``delta``, or ``alpha`` for a quantile.

    Examples
    --------
    >>> level_of("conformal"), level_of("best_of")
    ('alpha', 'delta')
    """
    return RULES[rule].level if rule in RULES else "delta"


@dataclass(frozen=True)
class Voided:
    """Why a rule asked for by name says nothing, or nothing new."""

    client: str  # the first one with the largest loss
    rule: str  # the rule that this ends
    instead: str  # the rule of whoever names none
    value: float  # what it gives for the same losses
    seed: int | None = None  # seed of the orders that it averages over, if any

    def sentence(self, shown: str) -> str:
        """Say it, with the value as text."""
        seed = "" if self.seed is None else f" (orders drawn with --seed {self.seed})"
        return (
            f"Client {self.client!r} has the largest loss, with which rule {self.rule} can prove"
            f" nothing more; {self.instead}, the default, would give at most {shown}{seed}."
        )


def told_of(voided: Voided | None) -> dict[str, Any] | None:
    """Return it as plain data, or None.

    Examples
    --------
    >>> told_of(Voided("dee", "product", "product_mixture", 0.4))["client"]
    'dee'
    """
    if voided is None:
        return None
    return {name: value for name, value in asdict(voided).items() if value is not None}
