"""What a route to a certificate receives, and what it returns: its findings, as rows and facts.

What the split adds to certificates is the same for every route: a cell's outcome gets it once.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Generic, TypeVar

import numpy as np

from latecomer.bounds.certificate import Certificate, Orders
from latecomer.bounds.held_out.price import reference_price, reference_price_pool
from latecomer.certify.sentences import of_no_pool
from latecomer.certify.statements import left_for_others
from latecomer.eval.federation.groups import Group
from latecomer.eval.results.rows import Artifact
from latecomer.eval.routes.kinds.declaration import TrainingRoute
from latecomer.eval.routes.r4_progressive import Plan
from latecomer.eval.routes.registry import ROUTES
from latecomer.eval.scoring.scores import ClientScore
from latecomer.eval.settings.cell import RouteSettings, TrainingCell
from latecomer.eval.settings.study_sections import ModelSettings
from latecomer.eval.splits.registry import sampling_of
from latecomer.eval.splits.split import Split
from latecomer.eval.training.setup import Outcome, Setup, TrainedModel
from latecomer.models.generators.encoders import is_own_encoder
from latecomer.models.outside import is_own_target

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

    @property
    def corrected(self) -> bool:
        """Whether new clients' models are corrected after the method has made them.

        A route that makes models by itself has none of the corrected ones to certify.
        """
        return self.cell.method.serving is not None


@dataclass(frozen=True)
class Findings:
    """What a route found.

    Attributes
    ----------
    rows, facts : list of dict
        As `certificate_rows` and `certificate_facts` make them.
    tables : dict of str to list of dict
        Artifacts that all entries of a study share, by kind: their tables are joined.
    """

    rows: list[Row]
    facts: list[Row]
    tables: dict[str, list[Row]] = field(default_factory=dict)

    @property
    def artifacts(self) -> dict[str, Artifact]:
        """The tables as artifacts, by kind."""
        return {
            kind: Artifact(kind=kind, table=table, axes=("record",))
            for kind, table in self.tables.items()
        }


def certify_all(requests: Iterable[Request[Any]]) -> Findings:
    """Follow the route of every request and join what they found."""
    joined = Findings([], [])
    for request in requests:
        findings: Findings = ROUTES[request.entry.route].follow(request)
        joined.rows.extend(findings.rows)
        joined.facts.extend(findings.facts)
        for kind, table in findings.tables.items():
            joined.tables.setdefault(kind, []).extend(table)
    return joined


def behind(facts: Sequence[Row]) -> dict[str, Artifact]:
    """Return the artifact that holds what is behind certificates."""
    return {"certificates": Artifact(kind="certificates", table=facts, axes=("fact",))}


def outcome_of(
    setup: Setup, n_rounds: int, rows: Iterable[Row], artifacts: Mapping[str, Artifact]
) -> Outcome:
    """Return what the cell of a route that trains a model of its own found."""
    named = {
        "classes": setup.classes,
        "personalization": setup.method.personalization,
        "round": n_rounds,
    }
    return Outcome([{**named, **row} for row in rows], artifacts)


def draws_paid(
    issued: Certificate, *, mean: float, risk: float, shares: Mapping[str, float]
) -> Certificate:
    """Enter what an upper limit of a mean over draws costs: ``risk`` stands for ``mean``."""
    terms = {**issued.terms, "empirical_risk": np.asarray(mean), "draws": np.asarray(risk - mean)}
    ledger = {**issued.delta, **{event: np.asarray(share) for event, share in shares.items()}}
    return replace(issued, terms=MappingProxyType(terms), delta=MappingProxyType(ledger))


def certificate_rows(
    issued: Certificate, *, bound: str, common: Mapping[str, Any], metric: str = "certificate"
) -> list[Row]:
    """Rows of one certificate: its total (empty ``term``) and one row per term.

    ``bound`` is ``<route>:<rule>``, or the calculator's name for a published bound; ``common``
    holds the columns that all rows share; ``metric`` is ``certificate`` for bounds of an error.
    """
    tags = _tags(issued, bound, metric)
    total = {**common, **tags, "term": "", "value": float(issued.value)}
    parts = [
        {**common, **tags, "term": name, "value": float(part)}
        for name, part in issued.terms.items()
    ]
    return [total, *parts]


def _tags(issued: Certificate, bound: str, metric: str) -> Row:
    return {
        "metric": metric,
        "bound": bound,
        "population": issued.population,
        "predictor": issued.predictor,
        "sampling": issued.sampling,
        "rigorous": issued.rigorous,
        "delta": float(issued.delta_total),
        "message": issued.reason,
    }


def price_rows(
    issued: Certificate,
    *,
    bound: str,
    common: Mapping[str, Any],
    pool_size: int | None,
) -> list[Row]:
    """Rows of a mean certificate's price, and of what deterministic rules pay on equal scores.

    Terms ``paid`` (bound minus mean score), ``reference``, the calculator ``reference_price`` for
    independent clients, and for finite pools ``reference_pool``, the share of the calculator
    ``reference_price_pool``: times one minus the mean score it is a price.  Both are at the
    certificate's own delta.
    """
    mean = float(issued.terms["empirical_risk"])
    delta, n_clients = float(issued.delta_total), common["n_clients"]
    prices = {
        "paid": float(issued.value) - mean,
        "reference": float(reference_price(mean_loss=mean, n_clients=n_clients, delta=delta)),
    }
    if pool_size is not None:
        price = reference_price_pool(n_clients=n_clients, pool_size=pool_size, delta=delta)
        prices["reference_pool"] = float(price)
    tags = {
        "metric": "certificate_price",
        "bound": bound,
        "population": issued.population,
        "predictor": issued.predictor,
        "sampling": issued.sampling,
        "delta": delta,
    }
    return [{**common, **tags, "term": name, "value": price} for name, price in prices.items()]


def pool_rows(
    issued: Certificate,
    *,
    bound: str,
    common: Mapping[str, Any],
    mean: float,
    pool_size: int,
    left_out: int = 0,
) -> list[Row]:
    """Rows of what a finite pool's certificate implies for the clients that were not scored.

    Terms ``others`` (`left_for_others`), ``size`` of the pool and, where the split left clients of
    the data out, ``left_out``: how many, none of them in the pool.
    """
    n_clients = common["n_clients"]
    others = left_for_others(
        bound=float(issued.value), mean=mean, n_clients=n_clients, pool_size=pool_size
    )
    told: dict[str, float] = {"others": others, "size": float(pool_size)}
    if left_out:
        told["left_out"] = float(left_out)
    tags = _tags(issued, bound, "certificate_pool")
    return [{**common, **tags, "term": name, "value": value} for name, value in told.items()]


def one_of_several(n_certificates: int, each: str) -> str:
    """Say that a certificate shares its failure probability with others, one per ``each``."""
    return f"one of {n_certificates} certificates that hold at once, one {each}, which share delta"


def sharing_delta(issued: Certificate, n_seeds: int) -> Certificate:
    """Say of a certificate that those of ``n_seeds`` training seeds share delta, if they do."""
    if n_seeds == 1:
        return issued
    shared = one_of_several(n_seeds, "a training seed")
    return replace(issued, assumptions=(*issued.assumptions, shared))


def certificate_facts(
    issued: Certificate,
    *,
    bound: str,
    shift: str = "none",
    severity: float | None = None,
    inputs: Sequence[tuple[str, float, str]] = (),
) -> list[Row]:
    """Everything behind one certificate as a long table: terms, ledger, assumptions, inputs.

    ``inputs`` holds (name, value, provenance) triples: what the calculator was given and where
    each number comes from.  Those of orders that were averaged over come from the certificate.
    """
    key = {
        "bound": bound,
        "shift": shift,
        "severity": "" if severity is None else severity,
        "predictor": issued.predictor,
    }

    def fact(kind: str, name: str, value: float | str = "", text: str = "") -> Row:
        return {**key, "kind": kind, "name": name, "value": value, "text": text}

    facts = [fact("total", "value", float(issued.value))]
    facts += [fact("term", name, float(part)) for name, part in issued.terms.items()]
    facts += [fact("delta", event, float(share)) for event, share in issued.delta.items()]
    facts += [fact("assumption", str(i), text=text) for i, text in enumerate(issued.assumptions)]
    given = [*inputs, *(_about_orders(issued.orders) if issued.orders else ())]
    facts += [fact("input", name, value, text) for name, value, text in given]
    facts.append(fact("source", "source", text=issued.source))
    if issued.reason:
        facts.append(fact("reason", "reason", text=issued.reason))
    return facts


def _about_orders(orders: Orders) -> Iterator[tuple[str, float, str]]:
    """Say how many orders were averaged over, by which seed, and how far others would move it."""
    yield "orders", float(orders.n), "orders of the clients, averaged over"
    yield "orders_seed", float(orders.seed), "seed that draws them"
    sd = "estimated deviation of the bound over other draws of as many orders"
    yield "orders_sd", float(orders.sd), sd


UNDEALT = (
    "the split was read from a file that does not prove it was dealt at random: it names no "
    "settings and seed which give the same clients again"
)
"""Why certificates on a frozen split that cannot be dealt again are no proofs."""

APART = (
    "class sets were dealt to seen and to held-out clients apart (split.classes_dealt), so that "
    "the clients this route certifies, who are among the seen ones, are no uniform sample of the "
    "pool"
)
"""Why certificates of arriving clients of a pool are no proofs where class sets are so dealt."""

VOUCHED = (
    "the system was trained elsewhere, and its user vouches that no client but the seen ones had "
    "part in its training or in any choice about it"
)
"""What certificates assume in addition about a system that this run did not train."""

VOUCHED_WEIGHTS = (
    "frozen weights were made elsewhere (model.weights), and their user vouches that no client but "
    "the seen ones had part in their training or in any choice about them"
)
"""What certificates assume in addition where part of the network is loaded from a file."""

VOUCHED_NETWORK = (
    "network or encoder come from outside (model.target, model.encoder), and their user vouches "
    "that no client but the seen ones had part in weights that they may bring"
)
"""What certificates assume in addition of a network whose code may load weights."""


def vouched_for(n_rounds: int, model: ModelSettings) -> str:
    """Return what certificates assume of weights that a run did not make, or may not have.

    ``n_rounds`` are those of its training, 0 for a system trained elsewhere.
    """
    if not n_rounds:
        return VOUCHED
    if model.weights:
        return VOUCHED_WEIGHTS
    outside = is_own_target(model.target) or is_own_encoder(model.encoder)
    return VOUCHED_NETWORK if outside else ""


def assumed(facts: list[Row], vouched: str) -> list[Row]:
    """Say of certificates what a user vouched for, if anything."""
    return (
        facts + _beside(_of_totals(facts), "assumption", "vouched", vouched) if vouched else facts
    )


def shared_samples(split: Split, plan: Plan) -> float:
    """Return the share of the new clients' query samples that arriving clients hold too.

    Independent clients draw from the same pools, so that a system trained on arriving clients has
    met some samples that new clients are measured on: their errors are not errors on new data.
    The plan says who arrives, and is tuned or trained on. 0 without new clients.
    """
    order = [*split.seen, *split.certification][plan.first : plan.first + plan.clients]
    held = [client.rows("all") for client in order]
    asked = [client.query for client in split.novel]
    if not asked or not held:
        return 0.0
    return float(np.isin(np.concatenate(asked), np.concatenate(held)).mean())


def with_caveats(
    outcome: Outcome, entries: Sequence[RouteSettings], split: Split, *, vouched: str = ""
) -> Outcome:
    """Add to a cell's outcome the caveats that its split, and who trained, put on certificates.

    On a split of independent clients, certificates of routes that train on arriving clients get a
    row ``certificate_overlap`` (`shared_samples`).  On a pool, certificates of one fixed system get
    rows ``certificate_pool``: what they imply for clients not scored, and on every pool how many
    clients the split left out, if any, where the route does not say so itself.  On a frozen split
    that is not known to be dealt at random no certificate is rigorous, nor are those of a pool's
    seen clients where class sets were dealt to these apart.  Certificates assume what
    a user ``vouched`` for.
    """
    rows, facts = list(outcome.rows), _facts(outcome)
    if split.n_left_out and sampling_of(split.kind) == "finite-pool":
        rows, facts = _with_left_out(rows, facts, split.n_left_out)
    if isinstance(entries[0], TrainingRoute):
        plan = entries[0].plan(split)
        if plan.independent:
            rows, facts = _with_overlap(rows, facts, shared_samples(split, plan), len(split.novel))
        else:
            rows = rows + _left_for_others(rows, facts)
            if split.settings.get("classes_dealt"):
                rows, facts = unproven(rows, facts, APART)
    if not split.dealt:
        rows, facts = unproven(rows, facts, UNDEALT)
    facts = assumed(facts, vouched)
    artifacts = dict(outcome.artifacts)
    if facts:
        artifacts |= behind(facts)
    return Outcome(rows, artifacts)


def _facts(outcome: Outcome) -> list[Row]:
    told = outcome.artifacts.get("certificates")
    return [dict(fact) for fact in (told.table or ())] if told else []


def _totals(rows: list[Row], *metrics: str) -> list[Row]:
    return [row for row in rows if row.get("metric") in metrics and not row.get("term")]


def _of_totals(facts: list[Row]) -> list[Row]:
    return [fact for fact in facts if fact["kind"] == "total"]


def _beside(
    totals: Iterable[Row], kind: str, name: str, text: str, value: float | str = ""
) -> list[Row]:
    """Return one more fact about each of these certificates."""
    told = {"kind": kind, "name": name, "value": value, "text": text}
    return [{**fact, **told} for fact in totals]


def _with_left_out(
    rows: list[Row], facts: list[Row], n_left_out: int
) -> tuple[list[Row], list[Row]]:
    """Say of every route's certificates how many clients are in no pool, unless it did itself."""
    said = {fact["bound"] for fact in facts if fact["name"] == "n_left_out"}

    def silent(one: Row) -> bool:
        bound = str(one.get("bound"))
        return bound.partition(":")[0] in ROUTES and bound not in said

    about = {"metric": "certificate_pool", "term": "left_out", "value": float(n_left_out)}
    totals = filter(silent, _totals(rows, "certificate", "set_threshold"))
    told = _beside(
        filter(silent, _of_totals(facts)), "assumption", "left_out", of_no_pool(n_left_out)
    )
    return rows + [{**row, **about} for row in totals], facts + told


def _with_overlap(
    rows: list[Row], facts: list[Row], share: float, n_novel: int
) -> tuple[list[Row], list[Row]]:
    kept = ("bound", "shift", "severity", "predictor", "population", "sampling", "delta")
    about = ("classes", "personalization", "round")
    rows = rows + [
        {name: row[name] for name in (*kept, *about) if name in row}
        | {"group": "novel", "n_clients": n_novel, "metric": "certificate_overlap", "value": share}
        for row in _totals(rows, "certificate")
    ]
    text = "share of new clients' query samples that arriving clients hold too"
    totals = _of_totals(facts)
    return rows, facts + _beside(totals, "input", "novel_samples_shared", text, share)


def _left_for_others(rows: list[Row], facts: list[Row]) -> list[Row]:
    """Return what bounds over a pool imply for its other clients; nothing for drawn scores."""
    pools = {fact["bound"]: fact["value"] for fact in facts if fact["name"] == "pool_size"}
    pooled: list[Row] = []
    for total in _totals(rows, "certificate"):
        # The mean of drawn scores is known only up to the draws.
        if (total["sampling"], total["predictor"]) != ("finite-pool", "deterministic"):
            continue
        mean = next(
            part["value"]
            for part in rows
            if part.get("metric") == "error"
            and part.get("aggregation") == "per-client"
            and (part["group"], part["predictor"]) == (total["group"], total["predictor"])
        )
        pool = int(pools[total["bound"]])
        left = left_for_others(
            bound=total["value"], mean=mean, n_clients=total["n_clients"], pool_size=pool
        )
        for name, value in (("others", left), ("size", float(pool))):
            pooled.append({**total, "metric": "certificate_pool", "term": name, "value": value})
    return pooled


def unproven(rows: list[Row], facts: list[Row], why: str) -> tuple[list[Row], list[Row]]:
    """Say of certificates that would be rigorous why they are not."""
    proven = {row["bound"] for row in rows if row.get("rigorous") is True}
    doubt = {"rigorous": False, "message": why}
    rows = [row | doubt if row.get("rigorous") is True else row for row in rows]
    doubted = (fact for fact in _of_totals(facts) if fact["bound"] in proven)
    return rows, facts + _beside(doubted, "reason", "reason", why)
