"""The command ``latecomer``: run studies, compute bounds, certify losses, look things up.

Each command imports what it needs when it runs, so that commands that only compute or look
something up load no torch and answer at once.
"""

from pathlib import Path
from typing import Annotated

import typer

from latecomer.commands.arguments import Json, examples, real_option
from latecomer.commands.certify import certify_file
from latecomer.commands.data import data_app
from latecomer.commands.listings import RulesInHelp
from latecomer.commands.lists import (
    list_bounds,
    list_datasets,
    list_methods,
    list_rules,
    list_shifts,
    list_studies,
)
from latecomer.commands.one_line_errors import OneLineErrors, open_streams
from latecomer.commands.plan import plan_hold_out
from latecomer.commands.render import show_json, show_table
from latecomer.commands.run import run_study
from latecomer.commands.watch import verify, watch

app = typer.Typer(
    name="latecomer",
    cls=OneLineErrors,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    invoke_without_command=True,
    help="How well will a federation serve a client that joins after training?",
)

RunDirectory = Annotated[
    Path, typer.Argument(metavar="DIR", help="Run directory of 'latecomer run'.")
]


@app.callback()
def root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False,
) -> None:
    """Show the help when no command is given."""
    if version:
        from latecomer import __version__

        typer.echo(f"latecomer {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


app.command("run", epilog=examples("run"))(run_study)


@app.command("status", epilog=examples("status"))
def show_status(
    directory: RunDirectory,
    as_json: Json = False,
) -> None:
    """Show how far a run is: done, running, failed, to do, time left.

    Only reads the directory, so it can be asked on any machine while the run goes on.
    """
    from latecomer.commands.run_directories import status_record, status_row, summary_line
    from latecomer.eval.runs.cell_directory import run_status

    status = run_status(directory)
    if as_json:
        show_json(status_record(status))
        return
    columns = ("cell", "label", "seed", "state", "round", "loss", "time", "left", "about")
    show_table([status_row(cell) for cell in status.cells], columns)
    typer.echo(summary_line(status))


@app.command("report", epilog=examples("report"))
def make_report(
    directory: RunDirectory,
    asks: Annotated[
        str | None,
        typer.Option(
            metavar="KINDS",
            help="Answer something else first: bounds, shift, gap, accuracy, paper, certificate; "
            "several with commas.  The page is report-KINDS.html.",
        ),
    ] = None,
) -> None:
    """Write the report of a run.

    Makes report.html, figures and tables.  The run need not be finished.
    """
    from latecomer.commands.run_directories import page_as_it_is, tell_missing

    page = page_as_it_is(directory) if asks is None else None
    if page is None:
        from latecomer.reports.page.page import report

        kinds = () if asks is None else tuple(kind.strip() for kind in asks.split(","))
        page = report(directory, asks=kinds)
        tell_missing(directory)
    typer.echo(page)


@app.command("figures", epilog=examples("figures"))
def draw_figures(
    directory: RunDirectory,
    kind: Annotated[str, typer.Option("--format", metavar="KIND", help="pdf or png.")] = "pdf",
    width: Annotated[
        float | None,
        real_option("--width", "Width of the paper's column, such as 3.25.", "INCHES"),
    ] = None,
    font: Annotated[str, typer.Option(metavar="FONT", help="sans or serif.")] = "sans",
) -> None:
    """Write a report's figures as PDF or PNG.

    They lie beside the SVG in DIR/figures; later reports make them again, set
    as they were.
    """
    from latecomer.commands.run_directories import tell_missing
    from latecomer.reports.page.page import figures

    made = figures(directory, kind, width=width, font=font)
    tell_missing(directory)
    for path in made:
        typer.echo(path)


@app.command("compare", epilog=examples("compare"))
def compare(
    first: Annotated[Path, typer.Argument(metavar="DIR", help="Run directory.")],
    second: Annotated[Path, typer.Argument(metavar="DIR", help="Another run directory.")],
    as_json: Json = False,
) -> None:
    """Compare two runs: settings, and errors paired over clients."""
    from latecomer.commands.run_directories import show_comparison, tell_missing

    show_comparison(first, second, as_json=as_json)
    for directory in dict.fromkeys((first, second)):
        tell_missing(directory)


app.command("studies", epilog=examples("studies"))(list_studies)
app.command("methods", epilog=examples("methods"))(list_methods)
app.command("bounds", epilog=examples("bounds"))(list_bounds)
app.command("rules", epilog=examples("rules"))(list_rules)
app.command("shifts", epilog=examples("shifts"))(list_shifts)
app.command("datasets", epilog=examples("datasets"))(list_datasets)


@app.command("bound", epilog=examples("bound"))
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
    """Compute a bound, or show its claim and arguments.

    Without arguments it shows the calculator's claim, assumptions and arguments.
    """
    from latecomer.bounds import CATALOGUE
    from latecomer.commands.arguments import call, parse_assignments
    from latecomer.commands.entries import known
    from latecomer.commands.render import bound_lines, bound_record

    known("bound", name, CATALOGUE)
    if not arguments:
        list_bounds(name, as_json=as_json)
        return
    entry = CATALOGUE[name]
    inputs = parse_assignments(arguments)
    result = call(entry, inputs)
    if as_json:
        show_json(bound_record(entry, inputs, result))
    else:
        typer.echo("\n".join(bound_lines(entry, inputs, result)))


app.command("certify", cls=RulesInHelp, epilog=examples("certify"))(certify_file)
app.command("watch", epilog=examples("watch"))(watch)
app.command("verify", epilog=examples("verify"))(verify)
app.command("plan", epilog=examples("plan"))(plan_hold_out)


@app.command("recertify", epilog=examples("recertify"))
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
    """Issue a run's held-out certificates anew, without training.

    They are made from its scores.  Entries that were not declared before the scores existed are
    marked as no proof.
    """
    from latecomer.certify.words import plain
    from latecomer.commands.render import reissued_lines
    from latecomer.eval.runs.reissue import declared_entries, reissue

    # "." and ".." have no name of their own to stand beside.
    named = directory.resolve() if directory.name in ("", "..") else directory
    place = out or named.with_name(f"{directory.resolve().name}-reissued")
    reissued = reissue(directory, declared_entries(certificates), out=place, note=note)
    if as_json:
        # What was not there before, or is for no pool, is no number.
        known = reissued.table.astype(object).where(reissued.table.notna(), None)
        show_json(plain(known.to_dict("records")))
    else:
        typer.echo("\n".join(reissued_lines(reissued)))


app.add_typer(data_app)


def main() -> None:
    """Entry point of the command ``latecomer``."""
    open_streams()
    app(prog_name="latecomer")
