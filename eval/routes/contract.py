"""What a route to a certificate receives, and what it returns."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from latecomer.eval.federation.groups import Group
from latecomer.eval.results.rows import Artifact
from latecomer.eval.routes.registry import ROUTES
from latecomer.eval.scoring.scores import ClientScore
from latecomer.eval.settings.cell import RouteSettings, TrainingCell
from latecomer.eval.training.setup import TrainedModel

Row = dict[str, Any]
E = TypeVar("E", bound=RouteSettings)


@dataclass(frozen=True, eq=False)
class Request(Generic[E]):
    """One entry of a study's ``certificates``, and the model it asks about.

    Attributes
    ----------
    entry : RouteSettings
        Settings of the route that is asked for.
    model : TrainedModel
    cell : TrainingCell
        The cell that makes the request.
    scores : mapping
        Scores of the held-out clients by predictor and group: unshifted, and under every
        shift that some entry asks for.
    """

    entry: E
    model: TrainedModel
    cell: TrainingCell
    scores: Mapping[str, Mapping[Group, Sequence[ClientScore]]]

    @property
    def n_seeds(self) -> int:
        """Seeds that share the entry's failure probability; 1 when each has it to itself."""
        return self.entry.sharing(self.cell.n_seeds)


@dataclass(frozen=True)
class Findings:
    """What a route found.

    Attributes
    ----------
    rows, facts : list of dict
        As `certificate_rows` and `certificate_facts` make them.
    tables : dict of str to list of dict
        Artifacts that all entries of a study share, by kind: their tables are joined.
    artifacts : mapping of str to Artifact
        Artifacts of its own, by name.
    """

    rows: list[Row]
    facts: list[Row]
    tables: dict[str, list[Row]] = field(default_factory=dict)
    artifacts: Mapping[str, Artifact] = field(default_factory=dict)


def certify_all(requests: Iterable[Request[Any]]) -> Findings:
    """Follow the route of every request and join what they found."""
    joined = Findings([], [], {}, {})
    tables: dict[str, list[Row]] = {}
    artifacts: dict[str, Artifact] = {}
    for request in requests:
        findings: Findings = ROUTES[request.entry.route].follow(request)
        joined.rows.extend(findings.rows)
        joined.facts.extend(findings.facts)
        for kind, table in findings.tables.items():
            tables.setdefault(kind, []).extend(table)
        artifacts |= findings.artifacts
    for kind, table in tables.items():
        artifacts[kind] = Artifact(kind=kind, table=table, axes=("record",))
    return Findings(joined.rows, joined.facts, {}, artifacts)
