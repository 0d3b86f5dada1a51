"""What ``latecomer certify`` prints: figures and what must hold, or with ``--long`` sentences.

The full sentences are those of `lines`.
"""

from collections.abc import Iterator, Sequence

from latecomer.bounds.certificate import Certificate
from latecomer.certify.rule import RULES, best_of_rule
from latecomer.certify.statements import LossCertificate, MeanLoss, NextClient
from latecomer.certify.together import LossAnswers, together
from latecomer.certify.topics import (
    NO_PROOF,
    loss_statements,
    mean_sentence,
    next_note,
    next_sentence,
    shown_up,
    topics,
    voided_sentence,
)
from latecomer.certify.words import chance, ledger, rounded, wrapped


def certified_lines(certified: LossAnswers) -> list[str]:
    """Show what the losses of untrained clients prove, and everything else that was asked."""
    lines = loss_certificate_lines(certified)
    for topic in topics(certified):
        lines += topic.lines
    return [line for line in (*lines, certified.question, together(certified).line) if line]


def loss_certificate_lines(proved: LossCertificate) -> list[str]:
    """Show what the losses of untrained clients prove, in words, and the plan that proves it."""
    lines = [
        *sampled_lines(proved.n_clients, proved.mean, proved.sd, proved.notes),
        f"Plan, to be fixed before the first loss is seen: {of_plan(proved)}.",
    ]
    spent = []
    if proved.certificate is not None:
        lines += _mean_lines(proved, proved.certificate)
        spent.append(_of_mean(proved.certificate))
    if proved.next_client is None:
        lines.append("  the whole pool was scored: there is no next client")
    else:
        lines.append(_next_line(proved, proved.next_client))
        spent.append(_of_next(proved.alpha))
    lines += loss_statements(proved)
    if proved.voided is not None:
        lines.append(voided_sentence(proved.voided))
    held = [one for one in (proved.certificate, proved.next_client) if one is not None]
    return [
        *lines,
        *_holds(held, spent),
        "Does not say: anything about a different kind of client, or about the model after"
        " further training.",
    ]


def sampled_lines(n_clients: int, mean: float, sd: float, notes: Sequence[str]) -> list[str]:
    """Say what the losses are, and what was noticed of them."""
    clients = "1 client" if n_clients == 1 else f"{n_clients} clients"
    spread = f" (sd {rounded(sd, decimals=3)})" if n_clients > 1 else ""
    return [f"{clients}, mean loss {rounded(mean, decimals=3)}{spread}", *notes]


def mean_lines(proved: MeanLoss) -> list[str]:
    """Return what `loss_certificate_lines` has about the mean loss."""
    issued = proved.certificate
    voided = [] if proved.voided is None else [voided_sentence(proved.voided)]
    said = [*_mean_lines(proved, issued), mean_sentence(proved, issued), *voided]
    return [*said, *_holds([issued], [_of_mean(issued)])]


def next_lines(proved: NextClient) -> list[str]:
    """Return what `loss_certificate_lines` has about the next client's loss."""
    issued = proved.certificate
    said = [
        _next_line(proved, issued),
        next_sentence(issued, proved.n_clients, proved.pool_size),
    ]
    return [*said, *_holds([issued], [_of_next(proved.alpha)])]


def _of_mean(issued: Certificate) -> str:
    return f"{ledger(issued)} for the mean loss"


def _of_next(alpha: float) -> str:
    return f"{alpha:g} on the next client (alpha), a statement of its own"


def _holds(held: list[Certificate], spent: list[str]) -> list[str]:
    assumed = dict.fromkeys(a for c in held for a in c.assumptions)
    return [f"Holds if: {'; '.join(assumed)}.", f"Failure probability: {'; '.join(spent)}."]


def _next_line(proved: LossCertificate | NextClient, issued: Certificate) -> str:
    which = next_note(proved.rank, proved.n_clients, proved.clients_needed, issued)
    if proved.rank <= proved.n_clients:
        which = (
            f"conformal quantile (rank {proved.rank} of {proved.n_clients}){which and f'; {which}'}"
        )
    return f"  {'loss of the next client':<34} <= {shown_up(issued)}   {which}"


def of_plan(proved: LossCertificate) -> str:
    """Say what must have been settled before the first loss was seen."""
    parts = f" of {', '.join(proved.best_of)}" if proved.best_of else ""
    told = [f"rule {proved.rule}{parts}"]
    if proved.certificate is not None:
        told.append(f"delta {float(proved.certificate.delta_total):g}")
    told.append(f"alpha {proved.alpha:g}")
    if proved.orders:
        told.append(_orders(proved))
    if proved.pool_size is not None:
        told.append(f"a pool of {proved.pool_size} clients")
    return ", ".join(told)


def _orders(proved: LossCertificate) -> str:
    if proved.seed is None:
        return "along the order in which the clients were drawn"
    if proved.in_order:
        return f"{proved.orders} fixed permutations of the order in which the clients were drawn"
    return f"{proved.orders} orders of the losses drawn at random"


def _margin(proved: LossCertificate | MeanLoss) -> str:
    # What is left of a difference of two equal numbers is no margin.
    return rounded(round(float(proved.price_paid or 0.0), 12), decimals=3)


def _mean_lines(proved: LossCertificate | MeanLoss, issued: Certificate) -> list[str]:
    pool = proved.pool_size
    who = "clients like these" if pool is None else f"the pool of {pool} clients"
    least = rounded(proved.reference_price, decimals=3)
    rule = best_of_rule(proved.best_of) if proved.best_of else RULES[proved.rule]
    empty = "; says nothing: it is the largest loss" if bool(issued.vacuous) else ""
    lines = [
        f"  {f'mean loss of {who}':<34} <= {shown_up(issued)}"
        f"   {rule.certify_words or rule.words}; margin {_margin(proved)}, least margin"
        f" for equal scores {least}{empty}"
    ]
    if proved.seed is not None and not proved.in_order:
        sd = (
            ""
            if proved.orders_sd is None
            else f", sd {round(proved.orders_sd, 6):.1g} over such draws"
        )
        lines.append(f"  by {proved.orders} orders drawn with --seed {proved.seed}{sd}")
    if proved.others is not None:
        whose = f"mean loss of the {(pool or 0) - proved.n_clients} not scored"
        lines.append(
            f"  {whose:<34} <= {shown_up(proved.others)}   what the line above leaves for them,"
            " as measured on theirs"
        )
    return lines


_NOT_SAID = (
    "Does not say: anything about a different kind of client, or about the model after"
    " further training. In full sentences: --long (in_full)."
)


def short_lines(certified: LossAnswers) -> list[str]:
    """Show what the losses of untrained clients prove, and everything else that was asked."""
    lines = [*_figures(certified)]
    for topic in topics(certified):
        lines += wrapped(topic.heading)
        for one in topic.said:
            lines += wrapped(one.line, further="      ")
        if topic.assumes:
            lines += wrapped(topic.closing)
    lines += [*_valid(certified), *wrapped(_NOT_SAID)]
    return [*lines, *wrapped(certified.question), *wrapped(together(certified).line)]


def _figures(proved: LossCertificate) -> Iterator[str]:
    for line in sampled_lines(proved.n_clients, proved.mean, proved.sd, proved.notes):
        yield from wrapped(line, further="  ")
    if proved.certificate is not None:
        pool = proved.pool_size
        whose = (
            "mean loss of new clients" if pool is None else f"mean of the pool of {pool} clients"
        )
        empty = "says nothing: the largest loss" if bool(proved.certificate.vacuous) else ""
        level = float(proved.certificate.delta_total)
        proved_here = proved.certificate.rigorous
        yield _figure(whose, proved.certificate, level, empty, proved=proved_here)
        if proved.others is not None:
            left = (pool or 0) - proved.n_clients
            whose = f"mean loss of the {left} not scored"
            yield _figure(whose, proved.others, level, "", proved=proved_here)
    if proved.next_client is None:
        yield "  the whole pool was scored: there is no next client"
    else:
        empty = next_note(proved.rank, proved.n_clients, proved.clients_needed, proved.next_client)
        yield _figure("loss of the next client", proved.next_client, proved.alpha, empty)
    if proved.certificate is not None:
        least = rounded(proved.reference_price, decimals=3)
        yield f"Margin {_margin(proved)}; least margin for equal scores {least}."
    yield from wrapped(f"Settled beforehand: {of_plan(proved)}.")
    if proved.seed is not None and not proved.in_order:
        spread = proved.orders_sd
        sd = "" if spread is None else f" (sd {round(spread, 6):.1g} over such draws)"
        yield f"The same orders again: --seed {proved.seed}{sd}"
    if proved.voided is not None:
        yield from wrapped(voided_sentence(proved.voided))


def _figure(
    about: str, bound: Certificate | float, level: float, empty: str, *, proved: bool = True
) -> str:
    said = empty or f"{'' if proved else f'{NO_PROOF}: '}in {chance(level)} of draws"
    return f"  {about:<34} <= {shown_up(bound)}   {said}"


def _valid(proved: LossCertificate) -> Iterator[str]:
    held = [one for one in (proved.certificate, proved.next_client) if one is not None]
    yield "Valid if"
    for assumed in dict.fromkeys(a for one in held for a in one.assumptions):
        yield from wrapped(assumed, "  - ", "    ")
