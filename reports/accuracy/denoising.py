"""What a linear hypernetwork removes from noisy solutions: error against a descriptor's length."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter, NullLocator

from latecomer.certify.page.svg import INK, MUTED, WIDE
from latecomer.certify.words import PLUS_MINUS, count, listing, number
from latecomer.reports.display.drawing import panels, styled
from latecomer.reports.display.pictures import Plot, Table
from latecomer.reports.display.section import Block, Material, Section, Text
from latecomer.reports.frames.errors import split_tables

KEY = ("noise", "dimension")
# Columns of the frame, what they are called, and how they are drawn: colour, mark, line.
CURVES: Mapping[str, tuple[str, dict[str, Any]]] = {
    "local": (
        "local solutions, seen clients",
        {"color": MUTED, "linestyle": (0, (5, 1.5)), "marker": "none"},
    ),
    "known_subspace": (
        "closed form, true subspace known",
        {"color": INK, "linestyle": (0, (1.2, 1.2)), "marker": "none"},
    ),
    "principal_components": (
        "closed-form optimum (PCA), seen clients",
        {"color": "#2f6fe0", "linestyle": "-", "marker": "none"},
    ),
    "gradient_descent": (
        "gradient descent, seen clients",
        {"color": "#2f6fe0", "linestyle": "none", "marker": "o", "markerfacecolor": "none"},
    ),
    "novel_principal_components": (
        "closed-form optimum (PCA), new clients",
        {"color": "#e87500", "linestyle": "-", "marker": "none"},
    ),
    "novel_gradient_descent": (
        "gradient descent, new clients",
        {"color": "#e87500", "linestyle": "none", "marker": "s", "markerfacecolor": "none"},
    ),
}
_SAME_IN_ALL_DRAWS = ("known_subspace", "local_expected")


def denoising_frame(tables: Iterable[Sequence[Mapping[str, Any]]]) -> pd.DataFrame:
    """Mean errors of the artifacts ``linear_denoising`` over draws, with their spread.

    Returns
    -------
    pandas.DataFrame
        ``noise dimension n_draws`` and for every column of the artifact its mean under its own name
        and the standard error of that mean under ``<name>_se``, in order of noise and dimension.
    """
    records = pd.DataFrame([record for table in tables for record in table])
    if records.empty:
        return pd.DataFrame(columns=[*KEY, "n_draws"])
    grouped = records.drop(columns="draw").groupby(list(KEY))
    errors = grouped.sem().add_suffix("_se")
    sizes = grouped.size().rename("n_draws")
    return pd.concat([sizes, grouped.mean(), errors], axis=1).reset_index()


@styled
def denoising_figure(frame: pd.DataFrame, *, width: float = WIDE) -> Figure:
    """Draw a panel per noise: error against the length of a descriptor, both axes logarithmic.

    Parameters
    ----------
    frame : pandas.DataFrame
        ``denoising_frame`` of the artifacts; bars are two standard errors over draws.
    """
    noises = list(dict.fromkeys(frame["noise"]))
    columns = 1 if width < 5 else 3
    figure, drawn = panels(len(noises), width, columns, above=1.1, each=2.4, sharex=True)
    for axes, noise in zip(drawn, noises, strict=True):
        _panel(axes, frame[frame["noise"] == noise])
        axes.set_title(f"noise {noise:g}", fontsize=8.5)
    figure.supylabel("squared error of a client's model", fontsize=8.5)
    handles, labels = drawn[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=1 if width < 5 else 2)
    return figure


def _panel(axes: Axes, own: pd.DataFrame) -> None:
    for name, (words, look) in CURVES.items():
        error = None if name in _SAME_IN_ALL_DRAWS else 2 * own[f"{name}_se"].fillna(0.0)
        drawn = error if look["marker"] != "none" else None
        axes.errorbar(
            own["dimension"], own[name], yerr=drawn, label=words, markersize=4, linewidth=1.3,
            capsize=2, **look,
        )  # fmt: skip
    axes.set_xscale("log")
    axes.set_yscale("log")
    places = [int(k) for k in own["dimension"]]
    kept: list[int] = []
    for place in places:
        # A tick whose label would overlap the one before it has no label.
        kept += [place] if not kept or place >= 1.4 * kept[-1] else []
    axes.xaxis.set_major_locator(FixedLocator(kept))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_minor_formatter(NullFormatter())
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.set_xlabel("length k of a descriptor")
    axes.grid()


def denoising_table(frame: pd.DataFrame) -> Table:
    """Show ``denoising_frame``: a row per noise and length."""
    shown = pd.DataFrame(
        {
            "noise": [number(x) for x in frame["noise"]],
            "k": [number(k) for k in frame["dimension"]],
            **{
                words: [_with_error(row, name) for row in frame.to_dict("records")]
                for name, (words, _) in CURVES.items()
            },
        }
    )
    caption = (
        "Mean over clients, then over draws, of the squared distance between a client's model and "
        f"its true one; {PLUS_MINUS} is one standard error over draws. The known subspace's value "
        "is an exact expectation."
    )
    label = "Error against the length of a descriptor"
    return Table("denoising", caption, frame, shown, (), label=label, noun="rows")


def _with_error(row: Mapping[Any, Any], name: str) -> str:
    value = f"{row[name]:.3f}"
    if name in _SAME_IN_ALL_DRAWS or pd.isna(row[f"{name}_se"]):
        return value
    return f"{value} {PLUS_MINUS} {row[f'{name}_se']:.3f}"


def best_lengths(frame: pd.DataFrame) -> dict[float, pd.Series]:
    """Map each noise to the row of least mean error of the closed form, on seen clients."""
    best = {}
    for noise in frame["noise"].unique().tolist():
        own = frame[frame["noise"] == noise]
        best[float(noise)] = own.iloc[int(own["principal_components"].to_numpy().argmin())]
    return best


def describe_denoising(frame: pd.DataFrame) -> str:
    """Describe ``denoising_figure``: the best length under each noise."""
    said = [
        f"noise {noise:g}: least at k = {int(best['dimension'])} with "
        f"{best['principal_components']:.3g}, local solutions {best['local']:.3g}"
        for noise, best in best_lengths(frame).items()
    ]
    return f"Squared error against the length of a descriptor: {'; '.join(said)}."


def say_best(frame: pd.DataFrame, settings: Mapping[str, Any]) -> str:
    """Say what was simulated, which length is best, and how near gradient descent comes."""
    least, best = listing([f"{x:g}" for x in best_lengths(frame)]), best_lengths(frame).values()
    lengths = listing([str(int(row["dimension"])) for row in best])
    gap = float((frame["gradient_descent"] / frame["principal_components"] - 1).abs().max())
    return (
        f"True models vary along {count(len(settings.get('variances') or ()), 'direction')}"
        f" of {settings.get('weights', '')}. Under noise {least} the best length is {lengths}. "
        f"Gradient descent's errors are within {100 * gap:.2g}% of the closed-form optimum's."
    )


def _denoising(material: Material) -> Iterator[Block]:
    frame = denoising_frame(split_tables(material.run, "linear_denoising"))
    if frame.empty:
        return
    yield Text(
        "pFedHN's section 4.1 by simulation: linear regressions with orthonormal designs and known "
        "true models, none of this study's data. The best linear hypernetwork projects the "
        "clients' own solutions on their leading principal components, without removing a mean. "
        + say_best(frame, dict(material.study.get("denoising") or {}))
    )
    yield Plot(
        "denoising",
        partial(denoising_figure, frame),
        frame,
        title="Error against the length of a descriptor",
        alt=describe_denoising(frame),
        caption="A linear hypernetwork fitted to noisy local solutions. Lines: closed forms; "
        "marks: trained by gradient descent; bars: two standard errors over "
        f"{count(int(frame['n_draws'].max()), 'draw')}. Left of the least error the hypernetwork "
        "cannot make the models, right of it it keeps noise. Logarithmic axes.",
    )
    yield denoising_table(frame)


DENOISING = Section(
    "denoising", _denoising, title="A linear hypernetwork as denoising", tag="simulated"
)
