"""What ``latecomer certify`` prints first: figures, and what must hold, in 80 columns.

The full sentences are those of `lines`.
"""

from collections.abc import Iterator

from latecomer.bounds.certificate import Certificate
from latecomer.certify.answers import LossAnswers
from latecomer.certify.lines import of_plan, sampled_lines
from latecomer.certify.printed import rounded
from latecomer.certify.statements import LossCertificate
from latecomer.certify.together import together
from latecomer.certify.topics import shown_up, topics, voided_sentence
from latecomer.certify.words import chance
from latecomer.wrapping import wrapped

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
        yield _figure(whose, proved.certificate, level, empty)
        if proved.others is not None:
            left = (pool or 0) - proved.n_clients
            yield _figure(f"mean loss of the {left} not scored", proved.others, level, "")
    if proved.next_client is None:
        yield "  the whole pool was scored: there is no next client"
    else:
        enough = proved.rank <= proved.n_clients
        few = "" if enough else f"says nothing: takes {proved.clients_needed} clients"
        yield _figure("loss of the next client", proved.next_client, proved.alpha, few)
    if proved.certificate is not None:
        paid = rounded(float(proved.price_paid or 0.0), decimals=3)
        least = rounded(proved.reference_price, decimals=3)
        yield f"Margin {paid}; least margin for equal scores {least}."
    yield from wrapped(f"Settled beforehand: {of_plan(proved)}.")
    if proved.seed is not None and not proved.in_order:
        spread = proved.orders_sd
        sd = "" if spread is None else f" (sd {round(spread, 6):.1g} over such draws)"
        yield f"The same orders again: --seed {proved.seed}{sd}"
    if proved.voided is not None:
        yield from wrapped(voided_sentence(proved.voided))


def _figure(about: str, bound: Certificate | float, level: float, empty: str) -> str:
    said = empty or f"in {chance(level)} of draws"
    return f"  {about:<34} <= {shown_up(bound)}   {said}"


def _valid(proved: LossCertificate) -> Iterator[str]:
    held = [one for one in (proved.certificate, proved.next_client) if one is not None]
    yield "Valid if"
    for assumed in dict.fromkeys(a for one in held for a in one.assumptions):
        yield from wrapped(assumed, "  - ", "    ")
