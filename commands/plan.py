"""``latecomer plan``: how many clients to hold out."""

from pathlib import Path
from typing import Annotated, Any

import typer

from latecomer.commands.arguments import Json, Long, real_option, whole_option


def plan_hold_out(
    target: Annotated[float, real_option("--target", "The certificate is to be at most this.")],
    expect: Annotated[
        float | None,
        real_option("--expect", "Mean loss that clients are expected to have (but hopeless ones)."),
    ] = None,
    sd: Annotated[float | None, real_option("--sd", "Standard deviation of their losses.")] = None,
    hopeless: Annotated[
        float, real_option("--hopeless", "Share of clients with a loss of 1 beside these, as .02.")
    ] = 0.0,
    pilot: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Losses of some clients, to be resampled."),
    ] = None,
    clients: Annotated[int, whole_option("--clients", "Most that can be held out.")] = 500,
    delta: Annotated[
        float, real_option("--delta", "Failure probability of the certificate.")
    ] = 0.05,
    rule: Annotated[
        str,
        typer.Option(help="blend, product, product_mixture, chernoff_kl or betting_mixture."),
    ] = "blend",
    seed: Annotated[int, whole_option("--seed", "Draws the simulated losses.")] = 0,
    long: Long = False,
    as_json: Json = False,
) -> None:
    """Plan how many clients to hold out for a certificate.

    Losses are simulated from a Beta law with the expected mean and deviation, or drawn from a
    pilot's; where some clients are hopeless (a loss of 1) it takes more of them: --hopeless.
    """
    from latecomer.certify.planned import plan_hold_out as planned

    asked: dict[str, Any] = {"clients": clients, "delta": delta, "rule": rule, "seed": seed}
    plan = planned(target, expect=expect, sd=sd, pilot=pilot, hopeless=hopeless, **asked)
    typer.echo(plan.to_json() if as_json else plan.in_full if long else str(plan))
