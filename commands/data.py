"""``latecomer data``: fetch and verify data sets."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from latecomer.commands.arguments import examples
from latecomer.commands.one_line_errors import OneLineErrors

if TYPE_CHECKING:
    from latecomer.eval.datasets.download import OnBytes

data_app = typer.Typer(
    name="data",
    cls=OneLineErrors,
    rich_markup_mode=None,
    invoke_without_command=True,
    help="Fetch and verify data sets.",
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="A data set of 'latecomer datasets'.")]
Root = Annotated[
    Path | None,
    typer.Option(help="Folder of the data; $LATECOMER_DATA or the user's cache unless given."),
]


@data_app.callback()
def data(context: typer.Context) -> None:
    """Fetch and verify data sets."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@data_app.command("fetch", epilog=examples("fetch"))
def fetch_data(name: Name, root: Root = None) -> None:
    """Download a data set, resuming an interrupted download.

    The file is kept only when it is the published one.
    """
    from latecomer.eval.datasets.download import fetch

    with _progress() as on_bytes:
        fetched = fetch(name, root=root, on_bytes=on_bytes)
    for file in fetched:
        state = "fetched" if file.fresh else "was there"
        trust = "as published" if file.verified else "unverified: nobody publishes its sum"
        typer.echo(f"{file.path}: {state}, sha256 {file.sha256}, {trust}")


@data_app.command("verify", epilog=examples("verify data"))
def verify_data(name: Name, root: Root = None) -> None:
    """Compare a data set's files with its publisher's figures.

    These are sums and counts of samples.
    """
    from latecomer.eval.datasets.download import verify

    for line in verify(name, root=root):
        typer.echo(line)


@contextmanager
def _progress() -> "Iterator[OnBytes | None]":
    """Show a progress bar on a terminal, nothing in a pipe or a log."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    with Progress(*columns, TransferSpeedColumn(), console=Console(stderr=True)) as bar:
        tasks: dict[str, Any] = {}

        def on_bytes(file: str, done: int, total: int) -> None:
            if file not in tasks:
                tasks[file] = bar.add_task(file.rpartition("/")[2])
            bar.update(tasks[file], completed=done, total=total or None)

        yield on_bytes
