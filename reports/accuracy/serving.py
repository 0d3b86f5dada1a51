"""What serving a new client costs, beside the error that it buys."""

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from latecomer.certify.page.svg import WIDE
from latecomer.certify.words import DASH, PLUS_MINUS, count, listing, percent, points
from latecomer.reports.display.drawing import Looks, sheet, shown, styled
from latecomer.reports.display.naming import model_called
from latecomer.reports.display.pictures import Plot, Table
from latecomer.reports.display.section import Block, Material, Section
from latecomer.reports.frames.errors import (
    CellTables,
    client_errors,
    in_order,
    joined,
    over_clients_and_seeds,
    primary_predictor,
    records,
    unshifted,
)
from latecomer.reports.words import interval

NUMBERS = ("n_support", "n_query", "personalize_seconds", "predict_seconds", "rounds",
           "down_bytes", "up_bytes")  # fmt: skip


def serving_frame(tables: CellTables, rows: pd.DataFrame) -> pd.DataFrame:
    """Join the ``serving_cost`` artifacts of all cells, each client beside its error.

    Parameters
    ----------
    tables : iterable of (label, seed, records)
        The artifacts ``serving_cost``.
    rows : pandas.DataFrame
        Rows of the run.

    Returns
    -------
    pandas.DataFrame
        ``label seed client n_support n_query personalize_seconds predict_seconds rounds down_bytes
        up_bytes bytes error``, one row per trained model and new client; ``bytes`` both ways
        together.  Unknown values are NaN.
    """
    frame = joined(tables, ("label", "seed", "client", *NUMBERS), NUMBERS)
    if frame.empty:
        return frame.assign(bytes=[], error=[])
    frame["client"] = [f"{float(name):.0f}" for name in frame["client"]]
    frame["bytes"] = frame["down_bytes"] + frame["up_bytes"]
    errors = primary_predictor(unshifted(client_errors(rows)))
    errors = errors[["label", "seed", "client", "error"]]
    return frame.merge(errors, on=["label", "seed", "client"], how="left")


def serving_summary(frame: pd.DataFrame) -> pd.DataFrame:
    """Average costs and errors per method.

    Seconds are medians over clients and seeds, with the fastest and the slowest; ``lower`` and
    ``upper`` are the 95% t-interval of the error over clients, each averaged over seeds.
    """
    costs = frame.groupby("label").agg(
        **{name: (name, "mean") for name in ("rounds", "down_bytes", "up_bytes", "bytes")},
        seconds=("personalize_seconds", "median"),
        seconds_low=("personalize_seconds", "min"),
        seconds_high=("personalize_seconds", "max"),
        predict_seconds=("predict_seconds", "median"),
    )
    errors = over_clients_and_seeds(frame, ["label"], "error", least=0.0, most=1.0, sort=False)
    columns = ["label", "error", "lower", "upper", "sd_seeds", "n_clients", "n_seeds"]
    return costs.reset_index().merge(errors[columns], on="label")


@styled
def serving_figure(frame: pd.DataFrame, look: Looks, *, width: float = WIDE) -> Figure:
    """Draw the new clients' error against the seconds and against the bytes of serving one.

    A mark per method; a vertical bar is the 95% interval over clients, a horizontal one reaches
    from the fastest to the slowest client.  Methods that send nothing stand at the left edge.

    Parameters
    ----------
    frame : pandas.DataFrame
        ``serving_frame`` of the artifacts.
    """
    summary, narrow = serving_summary(frame), width < 5
    shape = (2, 1) if narrow else (1, 2)
    figure, grid = sheet(width, 5.6 if narrow else 3.4, *shape, sharey=not narrow)
    seconds, traffic = grid
    for one in records(summary):
        own, level = look[one["label"]], 100 * one["error"]
        ends = [100 * one["lower"], 100 * one["upper"]]
        reach = [one["seconds_low"], one["seconds_high"]]
        seconds.plot(reach, [level, level], color=own.colour, lw=3, alpha=0.3)
        for axes, x in ((seconds, one["seconds"]), (traffic, one["bytes"])):
            if not np.isfinite(x):
                continue
            axes.plot([x, x], ends, color=own.colour, lw=1.2)
            axes.plot(x, level, own.mark, color=own.colour, markersize=6)
    _time_axis(seconds)
    seconds.set_xlabel("time until the client has its model")
    _byte_axis(traffic, summary["bytes"])
    traffic.set_xlabel("sent both ways (bytes)")
    for axes in grid:
        axes.set_ylim(bottom=0)
        axes.grid()
    for axes in grid if narrow else grid[:1]:
        axes.set_ylabel("error of new clients (%)")
    for label in summary["label"]:
        called = shown(model_called(str(label)))
        seconds.plot([], [], look[label].mark, color=look[label].colour, label=called)
    figure.legend(
        loc="outside lower center", ncols=3 if narrow else 6, handletextpad=0.3, columnspacing=0.9
    )
    return figure


def _time_axis(axes: Axes) -> None:
    axes.set_xscale("log")
    low, high = axes.get_xlim()
    powers = np.arange(np.ceil(np.log10(low)), np.floor(np.log10(high)) + 0.5)
    if len(powers) < 2:
        powers = np.array([np.floor(np.log10(low)), np.ceil(np.log10(high))])
        axes.set_xlim(*10.0**powers)
    kept = powers[:: max(1, -(-len(powers) // 5))]
    axes.set_xticks([10.0**power for power in kept], [duration(10.0**power) for power in kept])
    axes.minorticks_off()


def duration(seconds: float) -> str:
    """Write a time with a decimal prefix, three digits at most.

    >>> duration(0.0284), duration(1e-5), duration(12.0)
    ('28.4 ms', '10 \N{GREEK SMALL LETTER MU}s', '12 s')
    """
    if seconds >= 0.9995:
        return f"{seconds:.3g} s" if seconds < 999.5 else f"{seconds:,.0f} s"
    if seconds >= 0.0009995:
        return f"{1e3 * seconds:.3g} ms"
    return f"{1e6 * seconds:.3g} \N{GREEK SMALL LETTER MU}s"


def _byte_axis(axes: Axes, values: pd.Series) -> None:
    """Make a log axis on which 0 has a place left of the smallest amount."""
    known = values[values > 0]
    least = 10 ** np.floor(np.log10(known.min())) if len(known) else 1.0
    most = 10 ** np.ceil(np.log10(known.max() * 1.05)) if len(known) else 10.0
    zero = bool((values == 0).any())
    axes.set_xscale("symlog", linthresh=least, linscale=0.6)
    axes.set_xlim(-0.25 * least if zero else least, most)
    powers = np.arange(np.log10(least), np.log10(most) + 0.5)
    # Room for about five words: every second or third power where there are more.
    kept = powers[:: max(1, -(-len(powers) // 5))]
    ticks = [10.0**power for power in kept]
    names = [size(value) for value in ticks]
    axes.set_xticks([0.0, *ticks] if zero else ticks, ["none", *names] if zero else names)
    axes.minorticks_off()


def size(value: float) -> str:
    """Write an amount of bytes with a decimal prefix, three digits at most.

    >>> size(0), size(999), size(3_933_664), size(1e9)
    ('0', '999 B', '3.93 MB', '1 GB')
    """
    if value == 0:
        return "0"
    for unit in ("B", "kB", "MB", "GB"):
        if value < 999.5 or unit == "GB":
            break
        value /= 1000
    return f"{value:.3g} {unit}"


def serving_table(frame: pd.DataFrame, labels: Sequence[str]) -> Table:
    """Show messages, bytes, seconds and error per method."""
    summary = in_order(serving_summary(frame), labels)
    shown_rows = []
    for row in records(summary):
        known = np.isfinite(row["bytes"])
        sd = DASH if pd.isna(row["sd_seeds"]) else points(row["sd_seeds"]).lstrip("+")
        shown_rows.append(
            {
                "method": model_called(row["label"]),
                "message rounds": f"{row['rounds']:.0f}" if known else DASH,
                "down": size(row["down_bytes"]) if known else DASH,
                "up": size(row["up_bytes"]) if known else DASH,
                "model after (ms)": _milliseconds(row["seconds"]),
                "fastest to slowest (ms)": f"{_milliseconds(row['seconds_low'])} to "
                f"{_milliseconds(row['seconds_high'])}",
                "prediction (ms)": _milliseconds(row["predict_seconds"]),
                "new-client error": f"{percent(row['error'])} {PLUS_MINUS} {sd}",
                "95% over clients": interval(row["lower"], row["upper"]),
                "clients": str(row["n_clients"]),
                "seeds": str(row["n_seeds"]),
            }
        )
    caption = (
        "What serving one new client takes until it has its model, and until its query data are "
        "predicted. Bytes follow from the sizes of what each method's "
        "protocol sends; seconds are measured on this machine, the server's work included and the "
        "network's not, and do not repeat. Medians over clients and seeds; error: mean over "
        f"clients, then over seeds, {PLUS_MINUS} one standard deviation over seeds in points; the "
        "interval is the 95% t-interval over clients."
    )
    cells, label = pd.DataFrame(shown_rows), "Cost of serving a new client"
    return Table("serving-cost", caption, summary, cells, ("method",), label=label)


def _milliseconds(seconds: float) -> str:
    """Write seconds as milliseconds, three digits at least.

    >>> _milliseconds(0.028416), _milliseconds(12.5), _milliseconds(0.0000271)
    ('28.4', '12,500', '0.0271')
    """
    if pd.isna(seconds):
        return DASH
    return f"{1000 * seconds:,.0f}" if seconds >= 0.1 else f"{1000 * seconds:.3g}"


def serving_caption(frame: pd.DataFrame) -> str:
    """Say how to read ``serving_figure``."""
    clients, seeds = frame["client"].nunique(), frame["seed"].nunique()
    text = (
        f"A mark per method, {count(clients, 'new client')}, {count(seeds, 'seed')}; the upright "
        "bar is the 95% t-interval of the error over clients, the level one reaches from the "
        "fastest to the slowest client. Further down is better, further left is cheaper."
    )
    unknown = list(frame.loc[frame["bytes"].isna(), "label"].unique())
    if unknown:
        text += (
            f" The bytes of {listing([model_called(name) for name in unknown])} are not counted."
        )
    return text


def _serving(material: Material) -> Iterator[Block]:
    frame = material.ordered(serving_frame(material.tables("serving_cost"), material.rows))
    if frame.empty:
        return
    said = [
        f"{model_called(row['label'])} {duration(row['seconds'])}, "
        f"{size(row['bytes']) if pd.notna(row['bytes']) else 'bytes not counted'}, "
        f"error {percent(row['error'])}"
        for row in records(serving_summary(frame))
    ]
    yield Plot(
        "serving-cost",
        partial(serving_figure, frame, material.looks),
        frame,
        title="Cost of serving a new client, and its error",
        alt=f"Cost of serving one new client and its error: {'; '.join(said)}.",
        caption=serving_caption(frame),
    )
    yield serving_table(frame, material.labels)


SERVING = Section("serving", _serving, title="What serving a new client costs")
