"""What ``latecomer compare`` prints: settings that differ, then errors method by method."""

import math
from pathlib import Path
from typing import Any

import typer

from latecomer.certify.words import percent, points
from latecomer.commands.tables import show_json, show_table
from latecomer.reports.two_runs import compare_runs

_COLUMNS = ("method", "seed", "first", "second", "difference", "interval", "clients")


def show_comparison(first: Path, second: Path, *, as_json: bool) -> None:
    """Print a comparison of two run directories; JSON has every group and condition."""
    compared = compare_runs(first, second)
    settings, differences = compared["settings"], compared["differences"]
    if as_json:
        plain = [
            {str(k): None if _missing(v) else v for k, v in row.items()}
            for row in differences.to_dict("records")
        ]
        told = settings.to_dict("records")
        show_json({"settings": told, "paired": compared["paired"], "differences": plain})
        return
    typer.echo(f"first   {first}\nsecond  {second}\n")
    if settings.empty:
        typer.echo("Settings, versions and machines are the same.")
    else:
        show_table(settings.to_dict("records"), ("setting", "first", "second"))
    novel = differences[(differences["group"] == "novel") & (differences["shift"] == "none")]
    if novel.empty:
        typer.echo("\nNo method, seed and group of new clients is in both.")
        return
    typer.echo(
        "\nError of new clients; the difference, in points, is the second's minus the first's: "
        "plus is worse."
    )
    order = {label: i for i, label in enumerate(dict.fromkeys(novel["label"]))}
    novel = novel.sort_values(
        ["label", "predictor", "seed"],
        key=lambda c: c.map(order) if c.name == "label" else c.where(c != -1, math.inf),
    )
    show_table([_line(row) for row in novel.to_dict("records")], _COLUMNS)
    typer.echo(
        "Intervals are 95% t-intervals over clients, who are the same in both runs."
        if compared["paired"]
        else "Data or split differ, so that clients are not paired and there is no interval."
    )


def _line(row: dict[Any, Any]) -> dict[str, str]:
    model = row["label"] if row["predictor"] != "gibbs" else f"{row['label']} (gibbs)"
    span = f"{points(row['lower'])} to {points(row['upper'])}"
    return {
        "method": model,
        "seed": f"all {row['n_seeds']}" if row["seed"] == -1 else str(row["seed"]),
        "first": percent(row["first"]),
        "second": percent(row["second"]),
        "difference": points(row["difference"]),
        "interval": "-" if _missing(row["lower"]) else span,
        "clients": str(row["n_clients"]),
    }


def _missing(value: Any) -> bool:
    return isinstance(value, float) and not math.isfinite(value)
