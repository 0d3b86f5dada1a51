"""The rules that certificates are issued by, and how clients must have been drawn for each."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from latecomer.bounds.certificate import Certificate
from latecomer.certify.rules.declaration import Asked, Rule, is_own
from latecomer.declared import declared
from latecomer.errors import InputError

__all__ = [
    "BEST_OF",
    "DEFAULT_RULE",
    "LEAST_OUTSIDE",
    "MEAN_RULES",
    "RULES",
    "RULE_WITHOUT_ORDERS",
    "Asked",
    "Rule",
    "best_of_rule",
    "level_of",
    "rules_for",
]

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
        from latecomer.certify.own_rule import own_rule

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
