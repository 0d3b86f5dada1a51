"""A made-up certificate of every kind, so that all sentences can be read side by side."""

from collections.abc import Iterator
from typing import Any

from latecomer.certify.rule import BEST_OF, rules_for
from latecomer.certify.sentences import BALLS, FILE, WATCH, states

_OTHER_ROUTES = (
    *(("r1:product", "gibbs"), ("r1:kl", "gibbs"), ("r2:two_step_kl", "gibbs")),
    *(("r3:pooled", "gibbs"), ("r4:product", "random-checkpoint"), ("r5:occam", "deterministic")),
)


_UNPROVEN_POOLS = {
    "r2": "points of a finite pool's clients are no independent draws",
    "r3": "supports dealt class by class tell the second part of a sample what the first lacks",
}


def _asked_of(sampling: str) -> Iterator[tuple[str, bool]]:
    """Yield the rules for held-out clients under this sampling, and whether each bounds a mean."""
    rules = rules_for("r0").values()
    fitting = [rule for rule in rules if (rule.iid if sampling == "iid" else rule.finite_pool)]
    yield from ((rule.name, True) for rule in fitting if rule.states == "mean")
    yield BEST_OF, True
    for rule in fitting:
        if rule.states != "mean":
            yield rule.name + ("@0.2" if rule.states in ("share", "populations") else ""), False


def _example(bound: str, sampling: str, predictor: str, **more: Any) -> dict[str, Any]:
    next_client = states(bound.partition(":")[2]) == "next"
    told = {
        "bound": bound,
        "population": "next-client" if next_client else "unseen-client",
        "sampling": sampling,
        "predictor": predictor,
        "rigorous": True,
        "reason": "",
        "value": 0.25,
        "delta": 0.1 if next_client else 0.05,
        "n_clients": 30,
        "pool": 40,
    }
    return told | more


def examples() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield one made-up certificate of every kind, with a name: 30 clients, of 40 in pools.

    Examples
    --------
    >>> names = [name for name, _ in examples()]
    >>> len(names) == len(set(names)), names[0]
    (True, 'r0:product, finite pool, deterministic')
    """
    for predictor in ("deterministic", "gibbs"):
        for rule, mean in _asked_of("finite-pool"):
            # What a mean of .25 over 40 clients leaves for ten, if the other thirty have .15.
            more: dict[str, Any] = {"others": 0.55} if mean else {}
            yield (
                f"r0:{rule}, finite pool, {predictor}",
                _example(f"r0:{rule}", "finite-pool", predictor, **more),
            )
        for rule, _ in _asked_of("iid"):
            yield (
                f"r0:{rule}, independent clients, {predictor}",
                _example(f"r0:{rule}", "iid", predictor),
            )
    for bound, predictor in _OTHER_ROUTES:
        for name, fresh in (("finite pool", False), ("independent clients", True)):
            sampling = "martingale" if bound.startswith("r4") else "iid" if fresh else "finite-pool"
            more = {"independent": fresh} if bound.startswith("r4") else {}
            if not fresh and bound[:2] in _UNPROVEN_POOLS:
                more = {"rigorous": False, "reason": _UNPROVEN_POOLS[bound[:2]]}
            if not fresh and bound == "r5:occam":
                more = {"others": 0.55}
            if fresh and bound[:2] in ("r1", "r4", "r5"):
                more["overlap"] = 0.18
            yield f"{bound}, {name}", _example(bound, sampling, predictor, **more)
    for name, sampling in (("finite pool", "finite-pool"), ("independent clients", "iid")):
        for bound in ("sets:probability", "sets:adaptive"):
            told = _example(bound, sampling, "deterministic")
            told |= {"population": "next-client", "delta": 0.1}
            yield f"{bound}, {name}", told
        confident = _example("sets:probability@confident", sampling, "deterministic")
        yield f"sets:probability@confident, {name}", confident | {"alpha": 0.1}
    yield from _file_examples()


def _file_examples() -> Iterator[tuple[str, dict[str, Any]]]:
    shifted = [f"product_mixture@{ball}=0.1" for ball in BALLS]
    tails = ["fraction_above@0.2", "error_curve"]
    for rule in ("blend", "product", "wsr_averaged", "conformal", *shifted, *tails):
        yield f"certify FILE, {rule}", _example(f"{FILE}:{rule}", "iid or finite-pool", "any")
    left = ("blend", "product", "product_wor", "product_wor_averaged")
    for rule in ("product_wor_averaged@kl=0.1", *tails, *left, "conformal"):
        more = {"others": 0.55} if rule in left else {}
        made = _example(f"{FILE}:{rule}", "finite-pool", "any", **more)
        yield f"certify FILE --pool-size, {rule}", made
    yield "watch FILE, product_mixture", _example(f"{WATCH}:product_mixture", "iid", "any")
