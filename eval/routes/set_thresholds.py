"""Thresholds of label scores from certified clients, and the sets that new clients get by them.

Clients are the units.  Given the training side (see `scored_clients`), the certified clients and a
new one are exchangeable: independent draws, or members of a uniformly permuted pool.  Each client's
scores are a function of that client alone, of its draws, and of nothing else.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from latecomer.bounds.certificate import Array, Certificate
from latecomer.bounds.next_client import client_threshold, confident_threshold
from latecomer.certify.predicted_sets import LABEL_SCORES, labels_kept, of_truth
from latecomer.eval.federation.groups import Group
from latecomer.eval.routes.contract import (
    Findings,
    Request,
    certificate_facts,
    certificate_rows,
    one_of_several,
)
from latecomer.eval.routes.kinds.sets import SetsOfLabels
from latecomer.eval.routes.scored_clients import WHOSE
from latecomer.eval.scoring.serving import ServedPoints
from latecomer.eval.splits.registry import sampling_of

Row = dict[str, Any]
Served = Sequence[ServedPoints]
CLIENTS, CONFIDENT, POOLED = "", "@confident", "@pooled"
"""How a threshold was made, behind the name of its bound."""
NO_GUARANTEE = (
    "pools the clients' points, as others do: it promises a point of these clients, and nothing to "
    "a new client where clients differ"
)
"""Why a threshold of pooled points is no certificate."""


@dataclass(frozen=True)
class Thresholds:
    """Thresholds of one of ``LABEL_SCORES`` at the levels of one entry, by the bound's suffix."""

    score: str
    issued: Mapping[str, Certificate]

    def named(self) -> Iterator[tuple[str, str, Certificate]]:
        """Yield each threshold's suffix, the name of its bound, and the certificate."""
        for form, issued in self.issued.items():
            yield form, f"sets:{self.score}{form}", issued


def thresholds_of(scores: Sequence[Array], *, score: str, alpha: float, delta: float) -> Thresholds:
    """Take the thresholds from certified clients' scores of their true labels, an array a client.

    Where nothing is proved the threshold is 1, and a set holds all labels: no score is larger.

    Examples
    --------
    >>> own = [np.array([0.1, 0.4]), np.array([0.2])] * 10
    >>> found = thresholds_of(own, score="probability", alpha=0.2, delta=0.05)
    >>> {name: float(one) for _, name, one in found.named()}
    ... # doctest: +NORMALIZE_WHITESPACE
    {'sets:probability': 0.4, 'sets:probability@confident': 0.4, 'sets:probability@pooled': 0.4}
    """
    # Split conformal prediction is the rule for clients of one point each.
    singles = [[one] for one in np.concatenate(scores)]
    pooled = client_threshold(scores=singles, alpha=alpha)
    made = {
        CLIENTS: client_threshold(scores=scores, alpha=alpha),
        CONFIDENT: confident_threshold(scores=scores, alpha=alpha, delta=delta),
        POOLED: replace(pooled, rigorous=False, reason=NO_GUARANTEE),
    }
    return Thresholds(score, {form: _at_most_one(issued) for form, issued in made.items()})


def _at_most_one(issued: Certificate) -> Certificate:
    value = np.minimum(issued.value, 1.0)
    terms = MappingProxyType({"threshold": value})
    return replace(issued, value=value, terms=terms, loss_max=1.0)


def certify_sets(request: Request[SetsOfLabels]) -> Findings:
    """Issue the thresholds that one entry asks for, and measure what new clients get by them."""
    federation, entry = request.model.federation, request.entry
    asked = entry.certified_shifts
    certified = (
        federation.certification,
        *(group for group in federation.shifted_certification if group.shift in asked),
    )
    new = [one for one in (federation.novel, *federation.shifted) if len(one.clients)]
    findings = Findings([], [])
    for predictor in request.model.method.predictors:
        issued: dict[tuple[str, float | None], list[Thresholds]] = {}
        for group in certified:
            served = request.model.points(group, predictor)
            issued[group.shift, group.severity] = [
                _issue(request, findings, group, predictor, served, score) for score in entry.scores
            ]
        for group in new:
            own = issued.get((group.shift, group.severity), issued["none", None])
            served, common = (
                request.model.points(group, predictor),
                _common(request, group, predictor),
            )
            for thresholds in own:
                findings.rows.extend(measured_rows(served, thresholds, common))
    return findings


def _common(request: Request[SetsOfLabels], group: Group, predictor: str) -> Row:
    classes = request.cell.evaluation.classes
    return {"classes": classes, "predictor": predictor, **group.condition()}


def _issue(
    request: Request[SetsOfLabels],
    findings: Findings,
    group: Group,
    predictor: str,
    served: Served,
    score: str,
) -> Thresholds:
    """Take one score's thresholds from a group of certified clients, and write them down."""
    entry, n_seeds = request.entry, request.n_seeds
    of = LABEL_SCORES[score].of
    made = thresholds_of(
        [of_truth(of(client.chances), client.truth) for client in served],
        score=score,
        alpha=entry.alpha,
        delta=entry.delta / n_seeds,
    )
    split = request.model.federation.split
    sampling = sampling_of(split.kind)
    untrained = len(split.certification) + split.n_outside
    common = {**_common(request, group, predictor), "n_clients": len(served)}
    inputs = [
        ("n_clients", float(len(served)), "held-out clients, each counted once"),
        ("n_points", float(sum(one.n_query for one in served)), "their query points"),
        ("pool_size", float(untrained), "clients not trained on, certified ones included"),
        ("alpha", entry.alpha, "rate at which a set may miss the true label"),
    ]
    for form, bound, plain in made.named():
        notes = [f"a set holds the labels that score ({LABEL_SCORES[score].words}) at most this"]
        notes.append(WHOSE[sampling, plain.population].format(untrained))
        if group.shift != "none":
            notes.append(f"all clients are under {group.shift}, support and query alike")
        if n_seeds > 1 and form == CONFIDENT:
            notes.append(one_of_several(n_seeds, "a training seed"))
        issued = replace(
            plain,
            sampling=sampling,
            predictor=predictor,
            assumptions=(*plain.assumptions, *notes),
        )
        findings.rows.extend(
            row
            for row in certificate_rows(issued, bound=bound, common=common, metric="set_threshold")
            if not row["term"]
        )
        findings.facts.extend(
            certificate_facts(
                issued, bound=bound, shift=group.shift, severity=group.severity, inputs=inputs
            )
        )
    return made


def measured_rows(served: Served, thresholds: Thresholds, common: Row) -> Iterator[Row]:
    """Yield what new clients get by each threshold: coverage, size and single labels of their sets.

    Every threshold has its means over clients.  By the threshold of clients there is a row a client
    as well, of ``coverage`` (share of its points whose set holds the true label) and of
    ``set_size`` (labels in a set on average).
    """
    of = LABEL_SCORES[thresholds.score].of
    scores = [of(client.chances) for client in served]
    for form, bound, issued in thresholds.named():
        told = {"bound": bound, "delta": float(issued.delta_total)}
        if not issued.rigorous:
            told |= {"rigorous": False, "message": issued.reason}
        found = [_found(one, own, float(issued)) for one, own in zip(served, scores, strict=True)]
        for metric in ("coverage", "set_size") if form == CLIENTS else ():
            for client, numbers in zip(served, found, strict=True):
                yield {
                    **common,
                    **told,
                    "client": client.client,
                    "n_support": client.n_support,
                    "n_query": client.n_query,
                    "metric": metric,
                    "value": numbers[metric],
                }
        for metric in found[0]:
            yield {
                **common,
                **told,
                "n_clients": len(served),
                "n_query": sum(one.n_query for one in served),
                "aggregation": "per-client",
                "metric": metric,
                "value": float(np.mean([numbers[metric] for numbers in found])),
            }


def _found(client: ServedPoints, scores: Array, threshold: float) -> dict[str, float]:
    held = labels_kept(scores, threshold)
    sizes = held.sum(axis=1)
    return {
        "coverage": float(held[np.arange(len(held)), client.truth].mean()),
        "set_size": float(sizes.mean()),
        "set_single": float((sizes == 1).mean()),
    }
