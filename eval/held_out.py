"""Route R0 of a study: rows, facts and curves from the scores of the certification clients."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from latecomer.bounds.certificate import Certificate
from latecomer.eval.certificate_rows import certificate_facts, certificate_rows, price_rows
from latecomer.eval.certification import Scored, certify_best, certify_scores
from latecomer.eval.cross_fitting import cross_fitted
from latecomer.eval.federation import Group
from latecomer.eval.metrics import ClientScore
from latecomer.eval.route_contract import Findings, Request
from latecomer.eval.rules import BEST_OF, MEAN_RULES, sampling_of
from latecomer.eval.tails import error_curve, fractions_above

__all__ = ["certify_held_out", "score_certification"]

Row = dict[str, Any]
_ROUTE = "r0"


def _entries(config: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [entry for entry in config.get("certificates") or () if entry["route"] == _ROUTE]


def score_certification(
    config: Mapping[str, Any], score: Callable[[Group], Sequence[ClientScore]], group: Group
) -> list[ClientScore]:
    """Score certification clients the way the study's certificates ask: whole, or cross-fitted."""
    folds = {int(entry.get("folds", 1)) for entry in _entries(config)} or {1}
    return cross_fitted(score, group, folds=folds.pop(), seed=int(config["split"]["seed"]))


@dataclass(frozen=True)
class _Statement:
    """One certificate: what is behind its bound's name, and what its number is."""

    name: str
    issued: Certificate
    metric: str = "certificate"
    curve: tuple[Row, ...] = ()


def _mean(scored: Scored, entry: Mapping[str, Any], level: float) -> Iterator[_Statement]:
    yield _Statement("", certify_scores(scored, rule=entry["rule"], level=level))


def _best(scored: Scored, entry: Mapping[str, Any], level: float) -> Iterator[_Statement]:
    yield _Statement("", certify_best(scored, rules=entry["best_of"], delta=level))


def _fractions(scored: Scored, entry: Mapping[str, Any], level: float) -> Iterator[_Statement]:
    found = fractions_above(scored, thresholds=entry["thresholds"], delta=level)
    for threshold, issued in found.items():
        yield _Statement(f"@{threshold:g}", issued, "certified_fraction")


def _curve(scored: Scored, entry: Mapping[str, Any], level: float) -> Iterator[_Statement]:
    issued, steps = error_curve(scored, delta=level)
    yield _Statement("", issued, "error_curve_width", tuple(steps))


_STATEMENTS: Mapping[str, Callable[[Scored, Mapping[str, Any], float], Iterator[_Statement]]] = (
    MappingProxyType({BEST_OF: _best, "fraction_above": _fractions, "error_curve": _curve})
)


def _shares(request: Request, group: Group) -> Iterator[tuple[str, float, list[str], int]]:
    """Yield suffix, probability, who else shares delta, and severities, for each certificate."""
    entry = request.entry
    level = float(entry["alpha" if entry["rule"] == "conformal" else "delta"])
    notes = []
    if request.n_seeds > 1:
        level /= request.n_seeds
        notes.append(
            f"one of {request.n_seeds} certificates that hold at once, one a training seed, which "
            "share delta"
        )
    yield "", level, notes, 1
    severities = sum(one.shift == group.shift for one in next(iter(request.scores.values())))
    if group.shift != "none" and severities > 1:
        band = (
            f"one of {severities} certificates that hold at once, one a severity of {group.shift}, "
            "which share delta"
        )
        yield "@band", level / severities, [*notes, band], severities


def certify_held_out(request: Request) -> Findings:
    """Issue the certificates that one entry of a study asks for.

    One for each predictor and condition: unshifted clients, and each shift and severity asked for.
    Under a shift with several severities there is a second certificate each (``@band``), of which
    all severities' hold at once.
    """
    federation, entry = request.model.federation, request.entry
    sampling = sampling_of(federation.split.kind)
    pool = len(federation.split.certification) + len(federation.split.novel)
    wanted = ("none", *(entry.get("shifts") or ()))
    found = Findings([], [], {"error_curve": []} if entry["rule"] == "error_curve" else {})
    for predictor, groups in request.scores.items():
        for group, scores in groups.items():
            if group.shift not in wanted:
                continue
            scored = Scored(
                scores=scores,
                sampling=sampling,
                pool_size=pool if sampling == "finite-pool" else None,
                predictor=predictor,
                folds=int(entry.get("folds", 1)),
                shift=group.shift,
            )
            for suffix, level, notes, severities in _shares(request, group):
                statements = _STATEMENTS.get(entry["rule"], _mean)(scored, entry, level)
                inputs = _inputs(scored, pool, request.n_seeds, severities)
                for one in statements:
                    bound = f"{_ROUTE}:{entry['rule']}{one.name}{suffix}"
                    _write(found, request, group, scored, one, bound, notes, inputs)
    return found


def _write(
    found: Findings,
    request: Request,
    group: Group,
    scored: Scored,
    statement: _Statement,
    bound: str,
    notes: Sequence[str],
    inputs: Sequence[tuple[str, float, str]],
) -> None:
    issued = replace(statement.issued, assumptions=(*statement.issued.assumptions, *notes))
    common = {
        "classes": request.config["evaluation"]["classes"],
        **group.condition(),
        "n_clients": len(scored.scores),
    }
    found.rows.extend(certificate_rows(issued, bound=bound, common=common, metric=statement.metric))
    if request.entry["rule"] in (*MEAN_RULES, BEST_OF):
        found.rows.extend(
            price_rows(
                issued,
                bound=bound,
                common=common,
                n_clients=len(scored.scores),
                pool_size=scored.pool_size,
            )
        )
    found.facts.extend(
        certificate_facts(
            issued, bound=bound, shift=group.shift, severity=group.severity, inputs=inputs
        )
    )
    condition = {key: value for key, value in group.condition().items() if key != "group"}
    tags = {"predictor": issued.predictor, "sampling": issued.sampling}
    for step in statement.curve:
        record = {"bound": bound, **condition, **tags, "delta": float(issued.delta_total), **step}
        found.tables["error_curve"].append(record)


def _inputs(
    scored: Scored, pool: int, n_seeds: int, severities: int
) -> list[tuple[str, float, str]]:
    support = [score.n_support for score in scored.scores]
    inputs = [
        ("n_clients", float(len(scored.scores)), "certification clients, each scored once"),
        ("pool_size", float(pool), "clients not trained on, certified ones included"),
        ("mean_error", float(np.mean(scored.losses)), "mean error of the certification clients"),
        ("n_support_min", float(min(support)), "fewest support samples of a certified client"),
        ("n_support_max", float(max(support)), "most support samples of a certified client"),
        ("folds", float(scored.folds), "folds of a client's own points; 1: support and query"),
    ]
    if n_seeds > 1:
        inputs.append(("n_seeds", float(n_seeds), "training seeds that share delta"))
    if severities > 1:
        inputs.append(("n_severities", float(severities), "severities that share delta"))
    return inputs
