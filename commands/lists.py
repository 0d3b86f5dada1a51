"""The lists of what there is, and each of their entries in full: ``latecomer methods fedavg``."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from latecomer.commands.arguments import Json
from latecomer.commands.render import show_json, show_table
from latecomer.errors import InputError, nearest

Long = Annotated[bool, typer.Option("--long", help="Say all there is to say.")]


def _name(of: str) -> Any:
    return typer.Argument(metavar="NAME", help=f"{of}, to be described in full.")


def list_studies(
    name: Annotated[str | None, _name("A study")] = None,
    long: Long = False,
    as_json: Json = False,
) -> None:
    """List the shipped studies, or describe one.

    A study runs as written; --scale picks another of its scales, --variant one of its variants.
    --long shows one's file, to start a study of your own from.
    """
    columns = ("name", "scale", "scales", "variants", "question")
    _show("study", name, columns, long=long, as_json=as_json)


def list_methods(
    name: Annotated[str | None, _name("A method, or file.py:Class")] = None,
    long: Long = False,
    as_json: Json = False,
    newcomers: Annotated[
        bool,
        typer.Option(
            "--newcomers",
            help="What a new client needs and gets of each built-in method: labels, the fewest "
            "points, gradient steps, times that the server answers, numbers sent to it and by it "
            "(it has 32 points).",
        ),
    ] = False,
) -> None:
    """List the methods, or describe one with all its settings.

    With --long the list says what each sends and keeps: bytes up and down are what one client
    sends and receives in one round; the last number counts what is kept for a client between
    rounds.  All are for the digits network (4538 weights), 40 seen clients and default settings.
    """
    if newcomers:
        from latecomer.commands import listings

        if long:
            raise InputError("--newcomers is a table of its own: leave --long out")
        served = ("name", "labels", "points", "gets", "steps", "rounds", "down", "up")
        told = {one["name"]: one for one in listings.newcomers()}
        if name is not None and name not in told:
            raise InputError(
                f"--newcomers is about built-in methods, got {name!r}{nearest(name, told)}"
            )
        records = [told[name]] if name is not None else list(told.values())
        if as_json:
            show_json(records)
        else:
            show_table(records, served)
        return
    sent = ("bytes_up", "bytes_down", "kept_per_client")
    columns = ("name", "personalization", "needs_labels", *sent, "paper")
    _show("method", name, columns, long=long, as_json=as_json)


def list_bounds(
    name: Annotated[str | None, _name("A bound")] = None,
    long: Long = False,
    as_json: Json = False,
) -> None:
    """List the bound calculators, or describe one in full."""
    columns = ("name", "family", "population", "claim")
    _show("bound", name, columns, long=long, as_json=as_json)


def list_rules(
    name: Annotated[str | None, _name("A rule")] = None,
    as_json: Json = False,
) -> None:
    """List the rules of certificates, or describe one."""
    _show("rule", name, as_json=as_json)


def list_shifts(
    name: Annotated[str | None, _name("A shift")] = None,
    as_json: Json = False,
) -> None:
    """List the shifts of clients' data, or describe one."""
    _show("shift", name, as_json=as_json)


def list_datasets(
    name: Annotated[str | None, _name("A data set")] = None,
    long: Long = False,
    root: Annotated[
        Path | None,
        typer.Option(help="Of the data; $LATECOMER_DATA or the user's cache unless given."),
    ] = None,
    as_json: Json = False,
) -> None:
    """List the data sets, or describe one: keys, source, files."""
    if root is not None and name is None:
        raise InputError("--root says where the files of a data set go: name one, or leave it out")
    columns = ("name", "origin", "megabytes", "description")
    _show("data set", name, columns, root=root, long=long, as_json=as_json)


def _show(
    kind: str,
    name: str | None,
    columns: tuple[str, ...] = (),
    *,
    root: Path | None = None,
    long: bool = False,
    as_json: bool,
) -> None:
    """Show a list in groups, as a wide table or as JSON; or one of its entries."""
    from latecomer.commands import entries, listings

    records, groups = listings.LISTED[kind]
    if name is not None:
        one = entries.dataset(name, root) if kind == "data set" else entries.DESCRIBED[kind](name)
        if as_json:
            listed = next((each for each in records() if each["name"] == one.name), {})
            show_json({**listed, **asdict(one)})
        else:
            typer.echo("\n".join(one.lines(long=long)))
    elif as_json:
        show_json(records())
    elif long:
        show_table(records(), columns)
    else:
        typer.echo("\n".join(entries.grouped(groups(records()))))
