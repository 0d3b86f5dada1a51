"""Route R0 of a study: rows, facts and curves from the scores of the held-out clients."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np

from latecomer.bounds.certificate import Certificate
from latecomer.certify.rule import (
    BEST_OF,
    DEFAULT_RULE,
    RULE_WITHOUT_ORDERS,
    RULES,
    Voided,
    rules_for,
)
from latecomer.certify.words import exact
from latecomer.eval.federation.groups import Group
from latecomer.eval.routes.contract import (
    Findings,
    Request,
    certificate_facts,
    certificate_rows,
    one_of_several,
    pool_rows,
    price_rows,
)
from latecomer.eval.routes.kinds.r0 import HeldOut
from latecomer.eval.routes.scored_clients import (
    Scored,
    ball_of,
    certify_best,
    certify_populations,
    certify_scores,
    error_curve,
    fractions_above,
)
from latecomer.eval.scoring.scores import ClientScore, Condition, cross_fitted
from latecomer.eval.settings.cell import TrainingCell
from latecomer.eval.splits.registry import sampling_of

Row = dict[str, Any]


C = TypeVar("C", Group, Condition)


def score_certification(
    cell: TrainingCell, score: Callable[[Group], Sequence[ClientScore]], group: Group
) -> list[ClientScore]:
    """Score held-out clients the way the study's certificates ask: whole, or cross-fitted."""
    folds = {entry.folds for entry in cell.certificates if isinstance(entry, HeldOut)} or {1}
    return cross_fitted(score, group, folds=folds.pop(), seed=cell.split.seed)


@dataclass(frozen=True)
class _Statement:
    """One certificate: its suffix to the bound's name, its metric, and the value in the sample.

    Rows of ``curve`` go into the table named ``table``; ``breaking`` holds (target, radius).
    """

    name: str
    issued: Certificate
    metric: str = "certificate"
    sampled: float | None = None
    curve: tuple[Row, ...] = ()
    table: str = "error_curve"
    breaking: tuple[float, float] | None = None


def _mean(scored: Scored, entry: HeldOut, level: float) -> Iterator[_Statement]:
    issued = certify_scores(scored, rule=str(entry.rule), level=level)
    mean = scored.mean if issued.population == "unseen-client" else None
    yield _Statement("", issued, sampled=mean)


def _best(scored: Scored, entry: HeldOut, level: float) -> Iterator[_Statement]:
    issued = certify_best(scored, rules=entry.best_of or (), delta=level)
    yield _Statement("", issued, sampled=scored.mean)


def _fractions(scored: Scored, entry: HeldOut, level: float) -> Iterator[_Statement]:
    fractions = fractions_above(scored, thresholds=entry.thresholds or (), delta=level)
    for threshold, issued in fractions.items():
        above = float(np.mean([loss > threshold for loss in scored.losses]))
        yield _Statement(f"@{exact(threshold)}", issued, "certified_fraction", above)


def _curve(scored: Scored, entry: HeldOut, level: float) -> Iterator[_Statement]:
    issued, steps = error_curve(scored, delta=level, band=entry.band or "dkw")
    yield _Statement("", issued, "error_curve_width", curve=tuple(steps))


def _populations(scored: Scored, entry: HeldOut, level: float) -> Iterator[_Statement]:
    rule, radii = str(entry.rule), entry.radii or entry.shares or ()
    certified = certify_populations(
        scored,
        rule=rule,
        radii=radii,
        delta=level,
        target=entry.target,
        bets=entry.bets or "product",
    )
    # What belongs to the whole curve is written once, with the first radius.
    curve = tuple({"ball": ball_of(rule), **step} for step in certified.curve)
    target, breaking = entry.target, certified.breaking
    breaks = None if target is None or breaking is None else (target, breaking)
    for radius, issued in certified.at.items():
        name, metric = f"@{exact(radius)}", "certified_population"
        yield _Statement(name, issued, metric, None, curve, "population_curve", breaks)
        curve, breaks = (), None


_Stating = Callable[[Scored, HeldOut, float], Iterator[_Statement]]
_STATEMENTS: Mapping[str, _Stating] = MappingProxyType(
    {
        BEST_OF: _best,
        "fraction_above": _fractions,
        "error_curve": _curve,
        **{name: _populations for name, r in rules_for("r0").items() if r.states == "populations"},
    }
)


@dataclass(frozen=True)
class Drawn:
    """How the held-out clients were drawn.

    Attributes
    ----------
    sampling : {"finite-pool", "iid"}
    untrained : int
        Clients that were not trained on, certified ones included.
    left_out : int
        Untrained clients of the data that were left out of the split.
    in_order : bool
        Whether scores stand in the random order of the split, not in that of the clients' numbers.
    """

    sampling: str
    untrained: int
    left_out: int = 0
    in_order: bool = True

    @property
    def pool_size(self) -> int | None:
        """Clients of the finite pool; None for independent draws."""
        return self.untrained if self.sampling == "finite-pool" else None


def _shares(
    level: float, shift: str, n_seeds: int, n_severities: int
) -> Iterator[tuple[str, float, list[str], int]]:
    """Yield each certificate's suffix, probability, notes on who shares delta, and severities."""
    notes: list[str] = []
    if n_seeds > 1:
        level /= n_seeds
        notes.append(one_of_several(n_seeds, "a training seed"))
    yield "", level, notes, 1
    if shift != "none" and n_severities > 1:
        band = one_of_several(n_severities, f"a severity of {shift}")
        yield "@band", level / n_severities, [*notes, band], n_severities


def certify_held_out(request: Request[HeldOut]) -> Findings:
    """Issue the certificates that one entry of a study asks for."""
    split = request.model.federation.split
    drawn = Drawn(
        sampling=sampling_of(split.kind),
        untrained=len(split.certification) + split.n_outside,
        left_out=split.n_left_out,
    )
    return issue_certificates(
        request.entry,
        request.scores,
        drawn=drawn,
        classes=request.cell.evaluation.classes,
        n_seeds=request.n_seeds,
    )


def issue_certificates(
    entry: HeldOut,
    scores: Mapping[str, Mapping[C, Sequence[ClientScore]]],
    *,
    drawn: Drawn,
    classes: str,
    n_seeds: int = 1,
) -> Findings:
    """Issue the certificates of one entry from scores, whoever measured them.

    One for each predictor and condition of the held-out clients' ``scores``: unshifted, and each
    shift and severity asked for.  Under a shift with several severities, each severity has a second
    certificate (``@band``); these second certificates hold for all severities at once.
    ``classes``, which classes compete, is written in the rows; ``n_seeds`` seeds share the entry's
    delta.

    Raises
    ------
    InputError
        When a rule does not cover how the clients were drawn, or what the scores are.
    """
    wanted = ("none", *entry.certified_shifts)
    findings = Findings([], [], {})
    for predictor, groups in scores.items():
        for group, own in groups.items():
            if group.shift not in wanted:
                continue
            scored = Scored(
                scores=own,
                sampling=drawn.sampling,
                pool_size=drawn.pool_size,
                predictor=predictor,
                folds=entry.folds,
                shift=group.shift,
                realised=bool(entry.realised),
                orders_seed=entry.orders_seed or 0,
                left_out=drawn.left_out,
            )
            issue = _Issue(entry, scored, group, classes, findings)
            alike = sum(one.shift == group.shift for one in groups)
            for suffix, level, held, severities in _shares(
                entry.level, group.shift, n_seeds, alike
            ):
                inputs = _inputs(scored, n_seeds, severities)
                inputs += _voided(scored, entry, level, in_order=drawn.in_order)
                for one in _STATEMENTS.get(str(entry.rule), _mean)(scored, entry, level):
                    issue.write(one, suffix, held, inputs)
                    issue.write_curve(one, suffix)
    return findings


def _voided(
    scored: Scored, entry: HeldOut, level: float, *, in_order: bool
) -> list[tuple[str, float, str]]:
    """Say which client leaves the rule that was named nothing, and what the default gives."""
    named = [RULES[rule] for rule in entry.best_of or (str(entry.rule),)]
    ended = all(rule.ends_at_largest for rule in named)
    first = next((one.client for one in scored.scores if one.error >= 1.0), None)
    if first is None or not ended:
        return []
    measured = scored.predictor == "gibbs" and scored.sampling == "finite-pool"
    without = (measured and not scored.realised) or not in_order
    rule = RULE_WITHOUT_ORDERS if without else DEFAULT_RULE
    value = float(certify_scores(scored, rule=rule, level=level))
    told = Voided(str(first), str(entry.rule), rule, value)
    return [(f"by {rule}", value, told.sentence(f"{math.ceil(1e3 * value) / 1e3:.3f}"))]


@dataclass(frozen=True, eq=False)
class _Issue:
    """One entry of a study, the group whose scores it is about, and where statements go."""

    entry: HeldOut
    scored: Scored
    group: Group | Condition
    classes: str
    findings: Findings

    @property
    def common(self) -> Row:
        """Columns that all rows share."""
        n_clients = len(self.scored.scores)
        return {"classes": self.classes, **self.group.condition(), "n_clients": n_clients}

    def write(
        self,
        statement: _Statement,
        suffix: str,
        notes: Sequence[str],
        inputs: Sequence[tuple[str, float, str]],
    ) -> None:
        """Write the rows of a certificate, and what is behind it."""
        issued = replace(statement.issued, assumptions=(*statement.issued.assumptions, *notes))
        rule, pool, rows = str(self.entry.rule), self.scored.pool_size, self.findings.rows
        bound, common = f"{self.entry.route}:{rule}{statement.name}{suffix}", self.common
        rows += certificate_rows(issued, bound=bound, common=common, metric=statement.metric)
        if rule == BEST_OF or RULES[rule].states == "mean":
            rows += price_rows(issued, bound=bound, common=common, pool_size=pool)
        if pool is not None and statement.sampled is not None:
            rows += pool_rows(
                issued,
                bound=bound,
                common=common,
                mean=statement.sampled,
                pool_size=pool,
                left_out=self.scored.left_out,
            )
        shift, severity = self.group.shift, self.group.severity
        self.findings.facts.extend(
            certificate_facts(issued, bound=bound, shift=shift, severity=severity, inputs=inputs)
        )

    def write_curve(self, statement: _Statement, suffix: str) -> None:
        """Write what belongs to a whole curve: its steps, and the radius at which it breaks."""
        issued, bound = statement.issued, f"{self.entry.route}:{self.entry.rule}{suffix}"
        tags = {
            "predictor": issued.predictor,
            "sampling": issued.sampling,
            "delta": float(issued.delta_total),
        }
        condition = {k: value for k, value in self.group.condition().items() if k != "group"}
        for step in statement.curve:
            record = {"bound": bound, **condition, **tags, **step}
            self.findings.tables.setdefault(statement.table, []).append(record)
        if statement.breaking is None:
            return
        target, radius = statement.breaking
        none = math.isnan(radius)
        self.findings.rows.append(
            {
                **self.common,
                "metric": "breaking_radius",
                "bound": bound,
                "term": f"target={exact(target)}",
                "population": issued.population,
                "rigorous": issued.rigorous,
                **tags,
                "value": "" if none else radius,
                "message": "not certified below the target under any shift" if none else "",
            }
        )


def _inputs(scored: Scored, n_seeds: int, severities: int) -> list[tuple[str, float, str]]:
    support = [score.n_support for score in scored.scores]
    inputs = [("n_clients", float(len(scored.scores)), "held-out clients, each scored once")]
    if scored.pool_size is not None:
        told = "clients not trained on, certified ones included"
        inputs.append(("pool_size", float(scored.pool_size), told))
    inputs += [
        ("mean_error", scored.mean, "mean error of the held-out clients"),
        ("n_support_min", float(min(support)), "fewest support samples of a certified client"),
        ("n_support_max", float(max(support)), "most support samples of a certified client"),
        ("folds", float(scored.folds), "folds of a client's own points; 1: support and query"),
    ]
    if scored.left_out:
        left_out = "untrained clients left out of the split, not in the pool"
        inputs.append(("n_left_out", float(scored.left_out), left_out))
    if n_seeds > 1:
        inputs.append(("n_seeds", float(n_seeds), "training seeds that share delta"))
    if severities > 1:
        inputs.append(("n_severities", float(severities), "severities that share delta"))
    return inputs
