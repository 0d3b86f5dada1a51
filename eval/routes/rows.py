"""Rows and facts of certificates: what reports are made from."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from latecomer.bounds.certificate import Certificate, Orders
from latecomer.bounds.held_out.price import reference_price, reference_price_pool
from latecomer.certify.statements import left_for_others

Row = dict[str, Any]


def certificate_rows(
    issued: Certificate, *, bound: str, common: Mapping[str, Any], metric: str = "certificate"
) -> list[Row]:
    """Rows of one certificate: its total (empty ``term``) and one row per term.

    Parameters
    ----------
    issued : Certificate
        Scalar certificate.
    bound : str
        ``<route>:<rule>``, or the calculator's name for a published bound.
    common : mapping
        Columns shared by all rows (group, shift, severity, counts).
    metric : str
        ``certificate`` for bounds of an error; ``certified_fraction`` for a share of clients.
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
    n_clients: int,
    pool_size: int | None,
) -> list[Row]:
    """Rows of a mean certificate's price, and of what deterministic rules pay on equal scores.

    Terms ``paid`` (bound minus mean score), ``reference``, the calculator ``reference_price`` for
    independent clients, and for finite pools ``reference_pool``, the share of the calculator
    ``reference_price_pool``: times one minus the mean score it is a price.  Both are at the
    certificate's own delta.
    """
    mean = float(issued.terms["empirical_risk"])
    delta = float(issued.delta_total)
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
    n_clients: int,
    pool_size: int,
    left_out: int = 0,
) -> list[Row]:
    """Rows of what a finite pool's certificate implies for the clients that were not scored.

    Terms ``others`` (`left_for_others`), ``size`` of the pool and, where the split left clients of
    the data out, ``left_out``: how many, none of them in the pool.
    """
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
