"""A certificate from a sum from which no client's loss can be read."""

from typing import Any

import typer

from latecomer.bounds import product_from_sum
from latecomer.eval.certificates.from_losses import certificate_dict
from latecomer.eval.errors import InputError
from latecomer.losses.statements import Said, shown_up
from latecomer.render import plain
from latecomer.tables import show_json


def certify_sum(
    log_sum: float | None,
    clients: int | None,
    gamma: float | None,
    *,
    delta: float,
    beside: list[str],
    as_json: bool,
) -> None:
    """Show what a sum proves; ``beside`` lists given options that cannot go with it."""
    if log_sum is None or clients is None:
        raise InputError("--log-sum and --clients go together: the sum, and of how many clients")
    if beside:
        raise InputError(f"{beside[0]} cannot go with --log-sum, which tells no losses")
    if gamma is None:
        raise InputError(
            "--log-sum needs --gamma, the number in (0, 1) that every client's part of the sum was"
            " made with, got none"
        )
    try:
        certificate = product_from_sum(log_sum=log_sum, n_clients=clients, delta=delta, gamma=gamma)
    except (TypeError, ValueError) as error:
        raise InputError(str(error)) from error
    if as_json:
        told: dict[str, Any] = {"n_clients": clients, "gamma": gamma}
        show_json(plain(certificate_dict(certificate) | told))
        return
    note = (
        "says nothing" if bool(certificate.vacuous) else f"product rule from a sum, gamma {gamma:g}"
    )
    said = Said("mean loss of clients like these", float(certificate), shown_up(certificate), note)
    typer.echo(f"{clients} clients, sum of -ln(1 - (1 - gamma) loss) {log_sum:g}")
    typer.echo(said.line)
    typer.echo(f"Holds if: {'; '.join(certificate.assumptions)}.")
    typer.echo(f"Failure probability: {delta:g} on the clients.")
