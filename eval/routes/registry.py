"""The routes to certificates for unseen clients, by the name a study gives them."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from latecomer.eval.results.artifacts import Artifact
from latecomer.eval.routes.contract import Findings, Request, Route
from latecomer.eval.routes.r0_held_out import certify_held_out
from latecomer.eval.routes.r2_two_level import certify_two_level
from latecomer.eval.routes.r3_personal_priors import certify_personal

ROUTES: Mapping[str, Route] = MappingProxyType(
    {"r0": certify_held_out, "r2": certify_two_level, "r3": certify_personal}
)


def certify_all(requests: Iterable[Request[Any]]) -> Findings:
    """Follow the route of every request and join what they found."""
    joined = Findings([], [], {}, {})
    tables: dict[str, list[dict[str, object]]] = {}
    artifacts: dict[str, Artifact] = {}
    for request in requests:
        findings = ROUTES[request.entry.route](request)
        joined.rows.extend(findings.rows)
        joined.facts.extend(findings.facts)
        for kind, table in findings.tables.items():
            tables.setdefault(kind, []).extend(table)
        artifacts |= findings.artifacts
    for kind, table in tables.items():
        artifacts[kind] = Artifact(kind=kind, table=table, axes=("record",))
    return Findings(joined.rows, joined.facts, {}, artifacts)
