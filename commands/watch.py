"""``latecomer watch`` and ``latecomer verify``: clients that keep arriving."""

from pathlib import Path
from typing import Annotated

import typer

from latecomer.checks import output_file
from latecomer.commands.arguments import Json, Long, real_option, whole_option
from latecomer.errors import InputError

_SETTLED = (*("rule", "delta", "loss_max", "threshold", "alpha", "run_length", "sets", "likeness"),)
RunLength = Annotated[
    int | None,
    whole_option(
        "--run-length", "Mean clients to the restarted alarm's first false ring, at least; 1000."
    ),
]
SetsBelow = Annotated[
    float | None,
    real_option(
        "--sets", "FILE holds points; a loss is the share that labels with 1 - p up to this miss."
    ),
]
Likeness = Annotated[
    int | None,
    whole_option(
        "--likeness", "FILE holds p-values of likeness among so many certified clients; no losses."
    ),
]


def watch(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="CSV with columns client and loss; may grow.")
    ],
    once: Annotated[bool, typer.Option("--once", help="Read what is there and stop.")] = False,
    plan: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="YAML with the options below; writes a ledger."),
    ] = None,
    ledger: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Of a plan; FILE.ledger unless given.")
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The model that is scored: the ledger keeps its hash."),
    ] = None,
    rule: Annotated[
        str | None, typer.Option(help="product_mixture (default), product, betting_mixture.")
    ] = None,
    delta: Annotated[
        float | None,
        real_option("--delta", "Failure probability of all certificates together; .05."),
    ] = None,
    loss_max: Annotated[
        float | None, real_option("--loss-max", "Largest possible loss; 1.")
    ] = None,
    threshold: Annotated[
        float | None,
        real_option("--threshold", "Ring when new clients score above this in expectation."),
    ] = None,
    alpha: Annotated[
        float | None, real_option("--alpha", "Probability that the alarm ever rings falsely; .05.")
    ] = None,
    run_length: RunLength = None,
    sets: SetsBelow = None,
    likeness: Likeness = None,
    long: Long = False,
    as_json: Json = False,
) -> None:
    """Certify clients that keep arriving, after every one of them.

    The clients must be independent and have played no part in training.  Keeps reading
    lines that are appended to the file, until Ctrl-C.  With --plan every line is kept in a ledger
    that can be verified.
    """
    given = locals()
    from latecomer.commands.watch_display import plan_of, watch_file

    options = {name: given[name] for name in _SETTLED if given[name] is not None}
    settled = plan_of(plan, options)
    if ledger is not None and plan is None:
        raise InputError("--ledger needs --plan: a ledger has the plan on top")
    if model is not None and plan is None:
        raise InputError("--model needs --plan: the ledger keeps the model's hash")
    place = ledger or (file.with_name(f"{file.name}.ledger") if plan is not None else None)
    if place is not None:
        output_file("--ledger", place, [file, plan, model], grows=True)
    watch_file(file, settled, ledger=place, model=model, once=once, long=long, as_json=as_json)


def verify(
    ledger: Annotated[
        Path, typer.Argument(metavar="LEDGER", help="Of 'latecomer watch --plan'; only read.")
    ],
    expect: Annotated[
        str | None,
        typer.Option(metavar="HASH", help="Kept elsewhere: of the plan's line, or a later one."),
    ] = None,
    long: Long = False,
    as_json: Json = False,
) -> None:
    """Verify a ledger, its chain and every number, from the file alone.

    What it proves holds if this is the only ledger of its plan, whole and in the order of arrival:
    no file can show that.
    """
    from latecomer.commands.watch_display import show_verified

    show_verified(ledger, expect=expect, long=long, as_json=as_json)
