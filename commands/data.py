"""``latecomer data``: list, fetch, verify and explain the data sets."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from latecomer.commands.arguments import Json
from latecomer.commands.one_line_errors import OneLineErrors
from latecomer.commands.tables import show_json, show_table

if TYPE_CHECKING:
    from latecomer.eval.datasets.download import OnBytes

data_app = typer.Typer(
    name="data",
    cls=OneLineErrors,
    rich_markup_mode=None,
    invoke_without_command=True,
    help="List, fetch, verify and explain the data sets.",
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="A data set of 'latecomer data list'.")]
Root = Annotated[
    Path | None,
    typer.Option(help="Folder of the data; $LATECOMER_DATA or the user's cache unless given."),
]


@data_app.callback()
def data(context: typer.Context) -> None:
    """List, fetch, verify and explain the data sets."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@data_app.command("list")
def list_data(root: Root = None, as_json: Json = False) -> None:
    """List the data sets, and how each gets onto this machine."""
    from latecomer.eval.datasets.locations import data_root
    from latecomer.eval.datasets.registry import DATASETS
    from latecomer.eval.datasets.sources import SOURCES

    base = data_root(root)
    records = []
    for name, reader in DATASETS.items():
        source = SOURCES.get(name)
        archives = () if source is None else source.archives
        origin = "fetch" if archives else "make it" if source is not None else "built in"
        if source is not None and source.extra:
            origin = f"extra {source.extra}"
        records.append(
            {
                "name": name,
                "origin": "your file" if "path" in reader.required else origin,
                "megabytes": round(sum(archive.size for archive in archives) / 1e6, 1) or "",
                "description": reader.description,
            }
        )
    if as_json:
        show_json({"root": str(base), "datasets": records})
        return
    show_table(records, ("name", "origin", "megabytes", "description"))
    typer.echo(f"data root: {base}")


@data_app.command("fetch")
def fetch_data(name: Name, root: Root = None) -> None:
    """Download a data set, resuming an interrupted download.

    The file is kept only when it is the published one.
    """
    from latecomer.eval.datasets.fetching import fetch

    with _progress() as on_bytes:
        fetched = fetch(name, root=root, on_bytes=on_bytes)
    for file in fetched:
        state = "fetched" if file.fresh else "was there"
        trust = "as published" if file.verified else "unverified: nobody publishes its sum"
        typer.echo(f"{file.path}: {state}, sha256 {file.sha256}, {trust}")


@data_app.command("verify")
def verify_data(name: Name, root: Root = None) -> None:
    """Compare a data set's files with the sums and counts that its publisher gives."""
    from latecomer.eval.datasets.fetching import verify

    for line in verify(name, root=root).lines:
        typer.echo(line)


@data_app.command("info")
def explain_data(name: Name, root: Root = None, as_json: Json = False) -> None:
    """Say what a data set is, where it comes from and which file goes where."""
    from latecomer.eval.datasets.fetching import source_of
    from latecomer.eval.datasets.locations import ENVIRONMENT, data_root
    from latecomer.eval.datasets.registry import DATASETS

    source = source_of(name)
    reader = DATASETS[name]
    base = data_root(root)
    if as_json:
        show_json(_record(name, base))
        return
    lines = [
        f"{name}: {reader.description}",
        f"publisher: {source.home}",
        *([f"licence: {source.licence}"] if source.licence else []),
        f"put below {base} (or --root, {ENVIRONMENT}, data.root): {source.place}",
        f"keys: name, {', '.join((*reader.required, *reader.optional))}",
    ]
    for archive in source.archives:
        lines.append(f"download: {archive.file}, {archive.size:,} bytes")
        lines += [f"  from {url}" for url in archive.urls]
        sums = {"sha256": archive.sha256, "md5": archive.md5}
        known = [f"  {algorithm} {digest}" for algorithm, digest in sums.items() if digest]
        lines += known or ["  no published sum: unverified, recorded at the first download"]
    lines += source.recipe.splitlines()
    for line in lines:
        typer.echo(line)


def _record(name: str, base: Path) -> dict[str, Any]:
    from dataclasses import asdict

    from latecomer.eval.datasets.fetching import source_of
    from latecomer.eval.datasets.registry import DATASETS

    reader = DATASETS[name]
    return {
        "name": name,
        "description": reader.description,
        "keys": [*reader.required, *reader.optional],
        "root": str(base),
        **asdict(source_of(name)),
    }


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
