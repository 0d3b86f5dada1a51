"""A certificate from sums from which no client's loss can be read."""

from collections.abc import Sequence
from typing import Any

import typer

from latecomer.bounds import product_from_sum, product_mixture_from_sums
from latecomer.bounds.held_out.betting import BET_WEIGHTS
from latecomer.certify.statements import certificate_dict
from latecomer.certify.topics import Said, shown_up
from latecomer.certify.words import count, plain
from latecomer.commands.render import show_json
from latecomer.errors import InputError


def certify_sum(
    log_sums: Sequence[float],
    clients: int | None,
    gamma: float | None,
    *,
    delta: float,
    beside: list[str],
    as_json: bool,
) -> None:
    """Show what sums prove; ``beside`` lists given options that cannot go with them.

    One sum is for the product rule, five are for the mixture that a loss of 1 does not end.
    """
    if not log_sums or clients is None:
        raise InputError("--log-sum and --clients go together: the sum, and of how many clients")
    if beside:
        raise InputError(f"{beside[0]} cannot go with --log-sum, which tells no losses")
    if gamma is None:
        raise InputError(
            "--log-sum needs --gamma, the number in (0, 1) that every client's part of the sum was"
            " made with, got none"
        )
    if len(log_sums) not in (1, len(BET_WEIGHTS)):
        raise InputError(
            f"--log-sum must be {len(BET_WEIGHTS)} sums, for losses weighed by .2, .4, .6, .8 and"
            f" 1 - gamma, or the last alone, got {len(log_sums)}"
        )
    try:
        if len(log_sums) == 1:
            certificate = product_from_sum(
                log_sum=log_sums[0], n_clients=clients, delta=delta, gamma=gamma
            )
        else:
            certificate = product_mixture_from_sums(
                log_sums=log_sums, n_clients=clients, delta=delta, gamma=gamma
            )
    except (TypeError, ValueError) as error:
        raise InputError(str(error)) from error
    if as_json:
        told: dict[str, Any] = {"n_clients": clients, "gamma": gamma}
        show_json(plain(certificate_dict(certificate) | told))
        return
    rule = "product rule from a sum" if len(log_sums) == 1 else "mixture of products from sums"
    note = "says nothing" if bool(certificate.vacuous) else f"{rule}, gamma {gamma:g}"
    said = Said("mean loss of clients like these", float(certificate), shown_up(certificate), note)
    weighed = "(1 - gamma)" if len(log_sums) == 1 else "b"
    listed = ", ".join(f"{one:g}" for one in log_sums)
    sums = "sum" if len(log_sums) == 1 else "sums"
    typer.echo(f"{count(clients, 'client')}, {sums} of -ln(1 - {weighed} loss) {listed}")
    typer.echo(said.line)
    typer.echo(f"Holds if: {'; '.join(certificate.assumptions)}.")
    typer.echo(f"Failure probability: {delta:g} on the clients.")
