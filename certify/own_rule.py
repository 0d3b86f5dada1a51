"""A rule of somebody's own, named by its place: ``file.py:name`` or ``module:name``.

It is a function ``bound(losses, delta)`` of losses in [0, 1] that returns an upper bound of their
clients' mean, or a `Rule` whose ``bound`` does.  Its proof is its author's; what can be seen from
outside is looked at where it is asked for: that it is no function of the order of the losses, and
that on simulated clients of known mean it fails no more often than it promises.

A study takes one among its ``certificates``, as a rule, and among its ``bounds``: ``kind`` is the
word for it in messages.
"""

import inspect
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latecomer.bounds.certificate import Certificate
from latecomer.certify.rules.declaration import Asked, Rule
from latecomer.declared import module_at, without_folder
from latecomer.errors import InputError

__all__ = ["Coverage", "coverage_of", "held_to_contract", "own_rule"]

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


@dataclass(frozen=True)
class Coverage:
    """How often a rule's bound lay below the mean of simulated clients, at worst.

    Attributes
    ----------
    failed, draws : int
        Samples whose bound was too low, of how many.
    law : str
        What their losses were.
    clients : int
        Clients of a sample.
    """

    failed: int
    draws: int
    law: str
    clients: int

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
    except (ValueError, ImportError, SyntaxError) as error:
        raise InputError(f"{kind}: {' '.join(str(error).split())}") from error
    except Exception as error:  # whatever the file does when it is run
        raise InputError(f"{kind}: importing {place} failed: {_said(error)}") from error
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
        return replace(found, name=path, bound=lambda a: _checked(path, kind, given, (a,), a))
    return Rule(
        name=path,
        words=f"{kind} {without_folder(path)}",
        finite_pool=False,
        bound=lambda a: _checked(path, kind, found, (list(a.losses), a.level), a),
    )


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:120]}"


def _checked(
    path: str, kind: str, function: Any, arguments: tuple[Any, ...], asked: Asked
) -> Certificate:
    """Call a rule and see that it gives a bound."""
    called = f"{kind} {path}"
    try:
        made = function(*arguments)
        value = float(made)
    except InputError:
        raise
    except (Exception, SystemExit) as error:
        raise InputError(f"{called} failed: {_said(error)}") from error
    if math.isnan(value) or value < 0:
        raise InputError(f"{called} must return a bound of at least 0, got {value:g}")
    if isinstance(made, Certificate):
        return replace(made, name=path)
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
        reason=f"the proof of {kind} {without_folder(path)} is its author's",
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


def _bound(rule: Rule, losses: NDArray[np.floating[Any]], pool: int | None) -> float:
    if rule.bound is None:
        raise ValueError(f"rule {rule.name} bounds no mean")
    return float(rule.bound(Asked(losses.tolist(), LEVEL, pool, in_order=False)))


def _refuse_order(rule: Rule, losses: NDArray[np.floating[Any]], kind: str) -> None:
    there, back = _bound(rule, np.sort(losses), None), _bound(rule, np.sort(losses)[::-1], None)
    if abs(there - back) > 1e-9 * max(1.0, abs(there)):
        raise InputError(
            f"{kind} {rule.name} hangs on the order of the losses, which is nobody's draw:"
            f" {there:.6g} for the smallest first, {back:.6g} for the largest first"
        )
