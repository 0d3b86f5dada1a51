"""The command ``latecomer``: run studies, compute bounds, certify losses, look things up.

Each command imports what it needs when it runs, so that those that only compute or look up load
no torch and answer at once.
"""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from latecomer.certify_command import Json, certify_file
from latecomer.certify_command import real_option as _real
from latecomer.certify_command import whole_option as _whole
from latecomer.data_commands import data_app
from latecomer.eval.errors import InputError, nearest
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


@app.command("run")
def run_study(
    study: Annotated[
        str, typer.Argument(metavar="STUDY", help="Name of a shipped study, or a YAML file.")
    ],
    overrides: Annotated[
        list[str] | None,
        typer.Argument(metavar="KEY=VALUE", help="Change the study, as in train.rounds=300."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Run directory; runs/<study> unless given.")
    ] = None,
    scale: Annotated[
        str | None, typer.Option(help="smoke, reduced or paper; as the study is written if not.")
    ] = None,
    variant: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A variant that the study names; may be repeated."),
    ] = None,
    workers: Annotated[
        int | None, _whole("--workers", "Processes; one per core unless given, one on a GPU.")
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(help="cpu, cuda or auto, as train.device; cpu if the study does not say."),
    ] = None,
    executor: Annotated[
        str, typer.Option(help="Where cells are carried out: local, slurm or ray.")
    ] = "local",
    address: Annotated[
        str | None, typer.Option(help="Of the Ray cluster; found by Ray unless given.")
    ] = None,
    gpus_per_cell: Annotated[
        float | None, _real("--gpus-per-cell", "GPUs of a cell, for slurm and ray.")
    ] = None,
    memory_per_cell: Annotated[
        float | None, _real("--memory-per-cell", "GiB of memory of a cell.")
    ] = None,
    executor_option: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="More of an executor, as in partition=gpu."),
    ] = None,
    adopt: Annotated[
        list[Path] | None,
        typer.Option(metavar="DIR", help="Take over finished cells of another run directory."),
    ] = None,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Try cells again that failed before.")
    ] = False,
    extend: Annotated[
        bool,
        typer.Option("--extend", help="Add methods, seeds or shifts to what the directory holds."),
    ] = False,
    checkpoint_seconds: Annotated[
        float, _real("--checkpoint-seconds", "Time between two checkpoints of a training.")
    ] = 60.0,
    checkpoint_rounds: Annotated[
        int | None, _whole("--checkpoint-rounds", "Rounds between two, if that comes sooner.")
    ] = None,
) -> None:
    """Run a study: train, evaluate, certify, report.

    Finished cells are never run again; the same command continues an interrupted run, from the
    last checkpoint of each cell.  Several may work in one directory at a time.
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

    Makes report.html, figures and tables, of an unfinished run too.
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

    Bytes up and down are of one client in one round, and the numbers kept for each client are
    those between rounds: on the net for digits (4538 weights), 40 seen clients, default settings.
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


app.command("certify")(certify_file)


@app.command("recertify")
def recertify(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="Finished run directory; it is only read.")
    ],
    certificates: Annotated[
        Path, typer.Option(metavar="FILE", help="YAML with certificates, a study file for one.")
    ],
    out: Annotated[
        Path | None, typer.Option(help="New run directory; DIR-reissued unless given.")
    ] = None,
    note: Annotated[str, typer.Option(help="Why these certificates, to stand beside them.")] = "",
    as_json: Json = False,
) -> None:
    """Issue a run's held-out certificates anew from its scores, nothing trained.

    Entries that were not declared before the scores existed are marked as no proof.
    """
    from latecomer.eval.runs.reissue import declared_entries, reissue
    from latecomer.reissued_table import reissued_lines
    from latecomer.render import plain

    place = out or directory.with_name(f"{directory.resolve().name}-reissued")
    found = reissue(directory, declared_entries(certificates), out=place, note=note)
    if as_json:
        show_json(plain(found.table.to_dict("records")))
    else:
        _print(reissued_lines(found))


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
