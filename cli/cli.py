"""The command ``latecomer``: run studies, compute bounds, certify losses, look things up.

Each command imports what it needs when it runs, so that those that only compute or look up load
no torch and answer at once.
"""

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from latecomer.certify_command import Json, certify_file
from latecomer.certify_command import real_option as _real
from latecomer.certify_command import whole_option as _whole
from latecomer.data_commands import data_app
from latecomer.eval.errors import InputError, nearest
from latecomer.listings import RulesInHelp
from latecomer.one_line_errors import OneLineErrors
from latecomer.tables import show_json, show_table

__all__ = ["app", "main"]

app = typer.Typer(
    name="latecomer",
    cls=OneLineErrors,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    invoke_without_command=True,
    help="How well will a federation serve a client that joins after training?",
)


@app.callback()
def root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False,
) -> None:
    """Greet with the help when no command is given."""
    if version:
        from latecomer import __version__

        typer.echo(f"latecomer {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


Changes = Annotated[
    list[str] | None,
    typer.Argument(metavar="KEY=VALUE", help="Change the study, as in train.rounds=300."),
]
Scale = Annotated[
    str | None, typer.Option(help="smoke, reduced or paper; as the study is written if not.")
]
Variants = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME", help="A variant that the study names; may be repeated."),
]
DeviceName = Annotated[
    str | None,
    typer.Option(help="cpu, cuda or auto, as train.device; cpu if the study does not say."),
]
ExecutorOptions = Annotated[
    list[str] | None,
    typer.Option(metavar="KEY=VALUE", help="More of an executor, as in partition=gpu."),
]
Sources = Annotated[
    list[Path] | None,
    typer.Option(metavar="DIR", help="Take over finished cells of another run directory."),
]
Extend = Annotated[
    bool,
    typer.Option("--extend", help="Add methods, seeds or shifts to what the directory holds."),
]
Workers = Annotated[
    int | None, _whole("--workers", "Processes; one per core unless given, one on a GPU.")
]
Gpus = Annotated[float | None, _real("--gpus-per-cell", "GPUs of a cell, for slurm and ray.")]
Memory = Annotated[float | None, _real("--memory-per-cell", "GiB of memory of a cell.")]
EverySeconds = Annotated[
    float, _real("--checkpoint-seconds", "Time between two checkpoints of a training.")
]
EveryRounds = Annotated[
    int | None, _whole("--checkpoint-rounds", "Rounds between two, if that comes sooner.")
]
Retry = Annotated[bool, typer.Option("--retry-failed", help="Try cells again that failed before.")]
Out = Annotated[Path | None, typer.Option(help="Run directory; runs/<study> unless given.")]
ExecutorName = Annotated[
    str, typer.Option(help="Where cells are carried out: local, slurm or ray.")
]
Address = Annotated[str | None, typer.Option(help="Of the Ray cluster; found by Ray unless given.")]
StudyName = Annotated[
    str, typer.Argument(metavar="STUDY", help="Name of a shipped study, or a YAML file.")
]


@app.command("run")
def run_study(
    study: StudyName,
    overrides: Changes = None,
    out: Out = None,
    scale: Scale = None,
    variant: Variants = None,
    workers: Workers = None,
    device: DeviceName = None,
    executor: ExecutorName = "local",
    address: Address = None,
    gpus_per_cell: Gpus = None,
    memory_per_cell: Memory = None,
    executor_option: ExecutorOptions = None,
    adopt: Sources = None,
    retry_failed: Retry = False,
    extend: Extend = False,
    checkpoint_seconds: EverySeconds = 60.0,
    checkpoint_rounds: EveryRounds = None,
) -> None:
    """Run a study: train, evaluate, certify, report.

    Finished cells are never run again: the same command continues an interrupted run from the
    last checkpoint of each cell.  Several commands may work in one directory at a time.
    """
    from latecomer.eval.training.checkpoint_slots import CheckpointEvery
    from latecomer.executor_options import choose_executor
    from latecomer.run_display import run_and_report

    flags = {
        "workers": workers,
        "address": address,
        "gpus-per-cell": gpus_per_cell,
        "memory-per-cell": memory_per_cell,
    }
    choice = choose_executor(executor, flags, executor_option or [])
    succeeded = run_and_report(
        study,
        [*(overrides or []), *([f"train.device={device}"] if device else [])],
        out=out,
        scale=scale,
        variants=variant or (),
        where=choice.where,
        workers=choice.workers,
        executor=choice.executor,
        every=CheckpointEvery(seconds=checkpoint_seconds, rounds=checkpoint_rounds),
        adopt=adopt or (),
        retry_failed=retry_failed,
        extend=extend,
    )
    if not succeeded:
        raise typer.Exit(1)


@app.command("status")
def show_status(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="Run directory of 'latecomer run'.")
    ],
    as_json: Json = False,
) -> None:
    """Show how far a run is: done, running, failed, to do, time left.

    Only reads the directory, so it can be asked on any machine while the run goes on.
    """
    from latecomer.eval.runs.status import run_status
    from latecomer.status_lines import status_record, status_rows, summary_line

    status = run_status(directory)
    if as_json:
        show_json(status_record(status))
        return
    columns = ("cell", "label", "seed", "state", "round", "loss", "time", "left", "about")
    show_table(status_rows(status), columns)
    typer.echo(summary_line(status))


@app.command("report")
def make_report(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="Run directory of 'latecomer run'.")
    ],
) -> None:
    """Write the report of a run.

    Makes report.html, figures and tables.  The run need not be finished.
    """
    from latecomer.reports.page.html import report

    typer.echo(report(directory))


@app.command("compare")
def compare(
    first: Annotated[Path, typer.Argument(metavar="DIR", help="Run directory.")],
    second: Annotated[Path, typer.Argument(metavar="DIR", help="Another run directory.")],
    as_json: Json = False,
) -> None:
    """Compare two runs: settings that differ, and errors paired over clients."""
    from latecomer.run_comparison import show_comparison

    show_comparison(first, second, as_json=as_json)


@app.command("studies")
def list_studies(as_json: Json = False) -> None:
    """List the shipped studies.

    A study runs as written, at another of its scales by --scale, in a variant by --variant.
    """
    from latecomer.listings import studies

    _show(studies(), ("name", "scale", "scales", "variants", "question"), as_json)


@app.command("methods")
def list_methods(as_json: Json = False) -> None:
    """List the methods: how each serves a new client, what it sends and keeps.

    Bytes up and down are what one client sends and receives in one round; the last number counts
    what is kept for a client between rounds.  All for the digits' network (4538 weights), 40 seen
    clients and default settings.
    """
    from latecomer.listings import methods

    columns = ("name", "personalization", "needs_labels", "bytes_up", "bytes_down")
    _show(methods(), (*columns, "kept_per_client", "paper"), as_json)


@app.command("bounds")
def list_bounds(as_json: Json = False) -> None:
    """List the bound calculators."""
    from latecomer.listings import bounds

    _show(bounds(), ("name", "family", "population", "claim"), as_json)


@app.command("datasets")
def list_datasets(as_json: Json = False) -> None:
    """List the data sets."""
    from latecomer.listings import datasets

    _show(datasets(), ("name", "description"), as_json)


@app.command("bound")
def compute_bound(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="A calculator of 'latecomer bounds'.")
    ],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="KEY=VALUE", help="Numbers, or lists in brackets."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Compute a bound, or show what it says and takes.

    Without arguments it shows the calculator's claim, assumptions and arguments.
    """
    from latecomer.arguments import call, parse_assignments, signature
    from latecomer.bounds import CATALOGUE
    from latecomer.render import bound_lines, bound_record, entry_lines, entry_record

    if name not in CATALOGUE:
        raise InputError(
            f"no bound {name!r}{nearest(name, CATALOGUE)}; 'latecomer bounds' lists them"
        )
    entry = CATALOGUE[name]
    if not arguments:
        usage = signature(entry)
        if as_json:
            show_json(entry_record(entry, usage))
        else:
            _print(entry_lines(entry, usage))
        return
    inputs = parse_assignments(arguments)
    result = call(entry, inputs)
    if as_json:
        show_json(bound_record(entry, inputs, result))
    else:
        _print(bound_lines(entry, inputs, result))


app.command("certify", cls=RulesInHelp)(certify_file)


@app.command("watch")
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
    rule: Annotated[
        str | None, typer.Option(help="product (unless given) or betting_mixture.")
    ] = None,
    delta: Annotated[
        float | None, _real("--delta", "Failure probability of all certificates together; .05.")
    ] = None,
    loss_max: Annotated[float | None, _real("--loss-max", "Largest possible loss; 1.")] = None,
    threshold: Annotated[
        float | None, _real("--threshold", "Ring when newcomers score above this in expectation.")
    ] = None,
    alpha: Annotated[
        float | None, _real("--alpha", "Probability that the alarm ever rings falsely; .05.")
    ] = None,
    run_length: Annotated[
        int | None,
        _whole("--run-length", "Clients between false alarms of the restarted alarm; 1000."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Certify clients that keep arriving, after every one of them.

    The clients must be independent and have played no part in training.  Goes on as lines are
    appended to the file, until Ctrl-C.  With --plan every line is kept in a ledger that can be
    verified.
    """
    from latecomer.watch import plan_of, watch_file

    given = {
        "rule": rule,
        "delta": delta,
        "loss_max": loss_max,
        "threshold": threshold,
        "alpha": alpha,
        "run_length": run_length,
    }
    settled = plan_of(plan, {name: value for name, value in given.items() if value is not None})
    if ledger is not None and plan is None:
        raise InputError("--ledger needs --plan: a ledger has the plan on top")
    place = ledger or (file.with_name(f"{file.name}.ledger") if plan is not None else None)
    watch_file(file, settled, ledger=place, once=once, as_json=as_json)


@app.command("verify")
def verify(
    ledger: Annotated[
        Path, typer.Argument(metavar="LEDGER", help="Of 'latecomer watch --plan'; only read.")
    ],
    as_json: Json = False,
) -> None:
    """Verify a ledger: its chain, its plan and every number, from the file alone."""
    from latecomer.watch import show_verified

    show_verified(ledger, as_json=as_json)


@app.command("plan")
def plan_hold_out(
    target: Annotated[float, _real("--target", "The certificate is to be at most this.")],
    expect: Annotated[
        float | None, _real("--expect", "Mean loss that clients are expected to have.")
    ] = None,
    sd: Annotated[float | None, _real("--sd", "Standard deviation of their losses.")] = None,
    pilot: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="CSV of losses to take mean and deviation from."),
    ] = None,
    clients: Annotated[int, _whole("--clients", "Most that can be held out.")] = 500,
    delta: Annotated[float, _real("--delta", "Failure probability of the certificate.")] = 0.05,
    rule: Annotated[str, typer.Option(help="product, chernoff_kl or betting_mixture.")] = "product",
    seed: Annotated[int, _whole("--seed", "Draws the simulated losses.")] = 0,
    as_json: Json = False,
) -> None:
    """Plan how many clients to hold out for a certificate.

    Losses are simulated with a Beta law of the expected mean and deviation, or of a pilot's.
    """
    from latecomer.eval.certificates.planning import clients_to_hold_out
    from latecomer.plan import guess, plan_lines

    mean, deviation = guess(expect, sd, pilot)
    found = clients_to_hold_out(
        target=target,
        expected=mean,
        sd=deviation,
        delta=delta,
        clients=clients,
        rule=rule,
        seed=seed,
    )
    if as_json:
        show_json(asdict(found))
    else:
        _print(plan_lines(found, pilot))


@app.command("recertify")
def recertify(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="Finished run directory; it is only read.")
    ],
    certificates: Annotated[
        Path, typer.Option(metavar="FILE", help="YAML file with certificates, as a study is.")
    ],
    out: Annotated[
        Path | None, typer.Option(help="New run directory; DIR-reissued unless given.")
    ] = None,
    note: Annotated[str, typer.Option(help="Why these certificates; shown beside them.")] = "",
    as_json: Json = False,
) -> None:
    """Issue a run's held-out certificates anew from its scores, without training.

    Entries that were not declared before the scores existed are marked as no proof.
    """
    from latecomer.eval.runs.reissue import declared_entries, reissue
    from latecomer.render import plain, reissued_lines

    place = out or directory.with_name(f"{directory.resolve().name}-reissued")
    reissued = reissue(directory, declared_entries(certificates), out=place, note=note)
    if as_json:
        show_json(plain(reissued.table.to_dict("records")))
    else:
        _print(reissued_lines(reissued))


app.add_typer(data_app)


def main() -> None:
    """Entry point of the command ``latecomer``."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character gets a question mark, not a traceback.
        stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    app(prog_name="latecomer")


def _show(records: list[dict[str, Any]], columns: tuple[str, ...], as_json: bool) -> None:
    if as_json:
        show_json(records)
    else:
        show_table(records, columns)


def _print(lines: list[str]) -> None:
    for line in lines:
        typer.echo(line)
