"""What the split adds to a cell's certificates: how clients were dealt, who shares samples.

These caveats are the same for every route, so they are added to a cell's outcome.
"""

from collections.abc import Sequence

import numpy as np

from latecomer.certify.statements import left_for_others
from latecomer.eval.results.artifacts import Artifact
from latecomer.eval.routes.kinds.declaration import TrainingRoute
from latecomer.eval.routes.r4_progressive import Plan
from latecomer.eval.settings.certificate import RouteSettings
from latecomer.eval.splits.split import Split
from latecomer.eval.training.setup import Outcome, Row

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


def shared_samples(split: Split, plan: Plan) -> float:
    """Return the share of the new clients' query samples that arriving clients hold too.

    Independent clients draw from the same pools, so that a system trained on arriving clients has
    met some samples that new clients are measured on: their errors are not errors on new data.

    Parameters
    ----------
    split : Split
    plan : Plan
        Who arrives, and is tuned or trained on.

    Returns
    -------
    float
        In [0, 1]; 0 without new clients.
    """
    order = [*split.seen, *split.certification][plan.first : plan.first + plan.clients]
    held = [client.rows("all") for client in order]
    asked = [client.query for client in split.novel]
    if not asked or not held:
        return 0.0
    return float(np.isin(np.concatenate(asked), np.concatenate(held)).mean())


def with_caveats(
    outcome: Outcome, entries: Sequence[RouteSettings], split: Split, *, trained: bool = True
) -> Outcome:
    """Add to a cell's outcome the caveats that its split, and who trained, put on certificates.

    On a split of independent clients, certificates of routes that train on arriving clients get a
    row ``certificate_overlap`` (`shared_samples`).  On a pool, certificates of one fixed system get
    rows ``certificate_pool``: what they imply for clients not scored.  On a frozen split
    that is not known to be dealt at random no certificate is rigorous, nor are those of a pool's
    seen clients where class sets were dealt to these apart.  For a system not
    ``trained`` here, certificates assume what its user vouches for.
    """
    rows, facts = list(outcome.rows), _facts(outcome)
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
    if not trained:
        told = {"kind": "assumption", "name": "vouched", "value": "", "text": VOUCHED}
        facts = facts + [{**fact, **told} for fact in facts if fact["kind"] == "total"]
    artifacts = dict(outcome.artifacts)
    if facts:
        artifacts["certificates"] = Artifact(kind="certificates", table=facts, axes=("fact",))
    return Outcome(rows, artifacts)


def _facts(outcome: Outcome) -> list[Row]:
    told = outcome.artifacts.get("certificates")
    return [dict(fact) for fact in (told.table or ())] if told else []


def _with_overlap(
    rows: list[Row], facts: list[Row], share: float, n_novel: int
) -> tuple[list[Row], list[Row]]:
    totals = [row for row in rows if row.get("metric") == "certificate" and not row.get("term")]
    kept = ("bound", "shift", "severity", "predictor", "population", "sampling", "delta")
    about = ("classes", "personalization", "round")
    rows = rows + [
        {name: row[name] for name in (*kept, *about) if name in row}
        | {"group": "novel", "n_clients": n_novel, "metric": "certificate_overlap", "value": share}
        for row in totals
    ]
    text = "share of new clients' query samples that arriving clients hold too"
    told = {"kind": "input", "name": "novel_samples_shared", "value": share, "text": text}
    return rows, facts + [{**fact, **told} for fact in facts if fact["kind"] == "total"]


def _left_for_others(rows: list[Row], facts: list[Row]) -> list[Row]:
    """Return what bounds over a pool imply for its other clients; nothing for drawn scores."""
    pools = {fact["bound"]: fact["value"] for fact in facts if fact["name"] == "pool_size"}
    pooled: list[Row] = []
    for total in rows:
        bounded = total.get("metric") == "certificate" and not total.get("term")
        if not bounded or total["sampling"] != "finite-pool":
            continue
        if total["predictor"] != "deterministic":
            continue  # the mean of drawn scores is known only up to the draws
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
    reason = {"kind": "reason", "name": "reason", "value": "", "text": why}
    more = [
        {**fact, **reason} for fact in facts if fact["kind"] == "total" and fact["bound"] in proven
    ]
    return rows, facts + more
