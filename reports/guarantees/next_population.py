"""How the next client, and the next population of clients, may differ: errors and radii."""

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from latecomer.certify.page.svg import INK, MUTED, WIDE
from latecomer.certify.words import (
    BALLS,
    DASH,
    NOTHING_NEW,
    chance,
    count,
    counts,
    exact,
    inward,
    listing,
    number,
    percent,
    whole_percent,
)
from latecomer.reports.display.drawing import (
    Looks,
    leaders,
    leaders_caption,
    panels,
    shown,
    styled,
)
from latecomer.reports.display.naming import model_called, model_names
from latecomer.reports.display.pictures import Plot, Table, doubted, plus_minus
from latecomer.reports.display.section import Block, Material, Section, Text, tabled
from latecomer.reports.frames.bounds import (
    SHARES,
    breaking_frame,
    certified_at,
    doubt,
    held_back,
    population_curves,
    population_points,
    worst_group,
)
from latecomer.reports.frames.errors import (
    MODEL,
    SYSTEM,
    client_errors,
    primary_predictor,
    records,
    unshifted,
)
from latecomer.reports.words import interval, span

_DISTANCES = {
    "kl": "KL(Q || P)",
    "tv": "TV(Q, P)",
    "chi2": "chi2(Q || P)",
    "subgroup": "largest share",
}


@styled
def draw_populations(
    curves: pd.DataFrame,
    points: pd.DataFrame,
    looks: Looks,
    *,
    targets: Sequence[float] = (),
    width: float = WIDE,
) -> Figure:
    """Draw certified error against radius, one panel per ball, one line per trained model.

    Marks are measured errors of new clients whose population lies at a known radius, dashed lines
    the ``targets`` that the study wants to stay below.  Of more than eight methods the five of
    least certified error are in colour.
    """
    balls = [ball for ball in BALLS if (curves["ball"] == ball).any()]
    columns = min(2 if width >= 5 else 1, len(balls))
    figure, drawn = panels(len(balls), width, columns, above=0.5, each=2.6, sharey=True)
    named = leaders(curves, "value")
    for axes, ball in zip(drawn, balls, strict=True):
        own = curves[curves["ball"] == ball]
        for (label, _), model in own.groupby(["label", "seed"], sort=False):
            line = (looks[str(label)].colour, 1.5) if label in named else (MUTED, 0.7)
            axes.plot(model["radius"], 100 * model["value"], color=line[0], linewidth=line[1])
        for row in records(points[points["label"].isin(named)]):
            look = looks[row["label"]]
            place = (row[ball], 100 * row["measured"])
            axes.plot(*place, look.mark, color=look.colour, markersize=3.6, clip_on=False, zorder=3)
        for target in targets:
            axes.axhline(100 * target, color=INK, linewidth=1, linestyle=(0, (4, 2)))
        _frame(axes, ball, own, points)
    for axes in drawn[::columns]:
        axes.set_ylabel("error (%)")
    figure.legend(
        handles=[
            Line2D(
                [], [], color=looks[label].colour, marker=looks[label].mark if len(points) else "",
                markersize=3.6, label=shown(model_called(label)),
            )
            for label in named
        ],
        loc="outside lower center",
        ncols=min(len(named), 2 if width < 5 else 4),
    )  # fmt: skip
    return figure


def _frame(axes: Axes, ball: str, own: pd.DataFrame, points: pd.DataFrame) -> None:
    """Scale a panel to where something is certified or measured."""
    axes.set_ylim(0, 102)
    axes.set_xlabel(BALLS[ball].axis)
    axes.grid()
    if ball == "subgroup":
        axes.set_xlim(1.02, 0)
        return
    certified = own.loc[own["value"] < 1, "radius"]
    reach = [float(certified.max()) if len(certified) else 0.1]
    reach += [1.05 * float(points[ball].max())] if points[ball].notna().any() else []
    axes.set_xlim(-0.01 * max(reach), max(reach))


def describe_populations(curves: pd.DataFrame) -> str:
    """Describe ``draw_populations``: what is certified without a shift and where it ends."""
    said = []
    for (label, ball), own in curves.groupby(["label", "ball"], sort=False):
        first = own.groupby("seed").first()["value"]
        outward = BALLS[str(ball)].radius
        last = own.loc[own["value"] < 1, "radius"]
        ends = f", below 100% up to {outward} {number(last.iloc[-1])}" if len(last) else ""
        said.append(
            f"{model_called(str(label))}, {ball}: {span(list(first))} without a shift{ends}"
        )
    return f"Certified error against the radius of other populations: {'; '.join(said)}."


def population_caption(curves: pd.DataFrame, points: pd.DataFrame, targets: Sequence[float]) -> str:
    """Say how ``draw_populations`` is read."""
    level = chance(float(curves["delta"].max()))
    text = (
        "A line a trained model, from the held-out clients: the certified mean error of every "
        "population Q of clients within the radius of theirs, P (of every group of at least the "
        f"share); by KL(Q || P) and chi2(Q || P), {NOTHING_NEW} Each line holds for all "
        f"its radii beyond no shift at once with probability {level}; its start and another "
        "panel's line are statements by themselves."
    )
    if len(points):
        n = counts(points["n_clients"], "new client")
        text += f" Marks: the measured error of {n} of a population at that distance."
    if held_back(points).any():
        text += (
            " A group of clients that was held back is marked where it makes up "
            f"{listing([percent(share, 0) for share in SHARES])} of the next population, the rest "
            "being like the certified clients."
        )
    if targets:
        text += f" Dashed: the target, {span(list(targets))}."
    return f"{text} {leaders_caption(curves, 'value')}".strip()


def certified_table(rows: pd.DataFrame, breaking: pd.DataFrame) -> Table:
    """Show what each method certifies at the radii asked for, and where its target breaks."""
    names = model_names(rows)
    shown_rows = []
    for (label, predictor, ball), own in rows.groupby([*MODEL, "ball"], sort=False):
        bound = "r0:subgroup" if ball == "subgroup" else f"r0:{ball}_ball"
        broken = breaking[(breaking["label"] == label) & (breaking["bound"] == bound)]
        for _, part in own.groupby("radius", sort=False):
            reach = float(part["radius"].iloc[0])
            shown_rows.append(
                {
                    "method": names[str(label), str(predictor)],
                    "next population": f"{BALLS[str(ball)].radius} {exact(reach)}",
                    "certified error at most": span(list(part["value"])),
                    "with probability": chance(float(part["delta"].max())),
                    **_broken(broken, str(ball)),
                    "seeds": str(part["seed"].nunique()),
                }
            )
    caption = (
        "Certified mean error of every next population Q of clients within a radius of the "
        "certified one, P, lowest to highest over seeds; by KL(Q || P) and chi2(Q || P), "
        f"{NOTHING_NEW} Breaking radius: how different the next population may be (how small "
        "a group) with the certificate still below the target, for the seed that breaks first."
    )
    words = ("method", "next population")
    cells = pd.DataFrame(shown_rows).fillna(DASH)
    label_ = "How different may the next population be?"
    return Table("next-population", caption, rows, cells, words, label=label_, noun="rows")


def _broken(own: pd.DataFrame, ball: str) -> dict[str, str]:
    if own.empty:
        return {}
    radius = own["radius"]
    first = radius.max() if ball == "subgroup" else radius.min()
    said = "not below it without a shift"
    if radius.notna().all():
        said = inward(float(first), up=ball == "subgroup")
    return {"target": span(list(own["target"])), "breaking radius": said}


def asked_radii(rows: pd.DataFrame) -> pd.DataFrame:
    """List certified errors at the radii that a study asks for."""
    own = rows[(rows["metric"] == "certified_population") & (rows["term"] == "")]
    told = own["bound"].str.extract(
        r"^r0:(?P<ball>tv|kl|chi2|subgroup)(?:_ball)?@(?P<radius>[^@]+)$"
    )
    frame = pd.concat([own[[*MODEL, "seed", "shift", "value", "delta"]], told], axis=1)
    frame = frame[frame["ball"].notna() & (frame["shift"] == "none")].drop(columns="shift")
    return frame.astype({"radius": float}).reset_index(drop=True)


def measured_frame(curves: pd.DataFrame, points: pd.DataFrame) -> pd.DataFrame:
    """Set every measured population beside what each ball certifies at its distance.

    NaN where no radius of the ball reaches the population.
    """
    frame = points.copy()
    for ball in (ball for ball in BALLS if (curves["ball"] == ball).any()):
        each = [
            certified_at(curves, ball, radius).get((label, predictor, seed), np.nan)
            if np.isfinite(radius)
            else np.nan
            for label, predictor, seed, radius in frame[[*MODEL, "seed", ball]].itertuples(
                index=False
            )
        ]
        frame[f"certified_{ball}"] = each
    return frame


def measured_table(frame: pd.DataFrame) -> Table:
    """Show measured errors of other populations beside the certificates at their distances."""
    names = model_names(frame)
    certified = [str(name) for name in frame if str(name).startswith("certified_")]
    shown_rows = []
    for (label, predictor, _), own in frame.groupby([*MODEL, "population"], sort=False):
        first = own.iloc[0]
        above = own[certified].lt(own["measured"], axis=0).any(axis=1)
        shown_rows.append(
            {
                "method": names[str(label), str(predictor)],
                **{
                    said: number(first[ball]) if np.isfinite(first[ball]) else DASH
                    for ball, said in _DISTANCES.items()
                },
                "measured error": plus_minus(
                    percent(own["measured"].mean()), own["standard_error"].max()
                ),
                **{
                    f"certified, {name.removeprefix('certified_')}": span(list(own[name]))
                    if own[name].notna().all()
                    else DASH
                    for name in certified
                },
                "measured above": count(int(above.sum()), "seed"),
                "clients": str(int(first["n_clients"])),
            }
        )
    caption = (
        "New clients of populations at known distances: their mean error over seeds, with the "
        "standard error of a mean over so many clients (the largest over seeds), and what was "
        "certified of populations that far away, lowest to highest over seeds. Largest share: "
        "how large a part of today's clients such a population may be. A dash: no finite distance, "
        "or no part. Measured above: in how many seeds the measured error is above one of "
        "these certificates."
    )
    cells = pd.DataFrame(shown_rows)
    label = "Measured errors of other populations"
    return Table(
        "measured-populations", caption, frame, cells, ("method",), label=label, noun="rows"
    )


def worst_table(frame: pd.DataFrame) -> Table:
    """Show the certified error of every group of a given share beside the worst new clients'."""
    names = model_names(frame)
    shown_rows = [
        {
            "method": names[str(label), str(predictor)],
            "share of clients": whole_percent(float(str(share))),
            "certified error at most": span(list(own["value"])),
            "with probability": chance(float(own["delta"].max())),
            "worst new clients": percent(own["measured"].mean()),
            "highest over seeds": percent(own["measured"].max()),
            "new clients": str(int(own["n_clients"].max())),
        }
        for (label, predictor, share), own in frame.groupby([*MODEL, "share"], sort=False)
    ]
    caption = (
        "Every group that makes up at least a share of the clients: its mean error is certified to "
        "be at most this, lowest to highest over seeds. Beside it the share of the new clients "
        "that is served worst, mean over seeds."
    )
    cells = pd.DataFrame(shown_rows)
    label = "The worst-served groups of clients"
    return Table("worst-groups", caption, frame, cells, ("method",), label=label, noun="rows")


def population_plot(material: Material, name: str) -> Plot | None:
    """Plot what is certified of other populations, and what was measured of some."""
    curves = material.ordered(population_curves(material.tables("population_curve")))
    if curves.empty:
        return None
    points = material.ordered(population_points(material.rows))
    targets = sorted(set(breaking_frame(material.rows)["target"]))
    unproven = doubt(material.rows, "certified_population")
    plot = Plot(
        name,
        partial(draw_populations, curves, points, material.looks, targets=targets),
        curves,
        title=f"{'Error' if unproven else 'Certified error'} against the radius",
        alt=describe_populations(curves),
        caption=population_caption(curves, points, targets),
    )
    return doubted(plot, unproven)


def _next_population(material: Material) -> Iterator[Block]:
    """Show what is certified of other populations, if the study asked for that."""
    plot = population_plot(material, "next-population")
    if plot is None:
        return
    yield Text(
        "Clients to come need not be drawn as today's were. A certificate of other populations "
        "bounds the mean error of every population that lies within a radius of the certified one, "
        "from the same scores."
    )
    yield plot
    asked = material.ordered(asked_radii(material.rows))
    unproven = doubt(material.rows, "certified_population")
    yield doubted(certified_table(asked, breaking_frame(material.rows)), unproven)
    points = material.ordered(population_points(material.rows))
    if points["population"].gt(0).any():
        yield doubted(measured_table(measured_frame(plot.data, points)), unproven)
    worst = material.ordered(worst_group(material.rows))
    if len(worst):
        yield doubted(worst_table(worst), unproven)


NEXT_POPULATION = Section(
    "next-population",
    _next_population,
    title="How different may the next population be?",
    chapter="guarantees",
)


def next_client_frame(rows: pd.DataFrame) -> pd.DataFrame:
    """Set each model's interval beside the share of new clients whose error lies in it.

    Columns ``label predictor seed value lower upper delta n_clients inside n_novel``.
    """
    told = rows[rows["metric"] == "next_client_interval"]
    frame = primary_predictor(told[[*SYSTEM, "value", "lower", "upper", "delta", "n_clients"]])
    novel = unshifted(client_errors(rows))
    both = frame.merge(novel[[*SYSTEM, "error"]], on=SYSTEM)
    both["inside"] = both["error"].between(both["lower"], both["upper"])
    kept = both.groupby(SYSTEM, sort=False)["inside"].agg(inside="mean", n_novel="size")
    return frame.merge(kept.reset_index(), on=SYSTEM, how="left")


def next_client_table(frame: pd.DataFrame) -> Table:
    """Show the intervals, which are estimates and no certificates."""
    names = model_names(frame)
    shown = [
        {
            "method": names[str(row["label"]), str(row["predictor"])],
            "seed": str(row["seed"]),
            "mean over clients": percent(row["value"]),
            "a new client's error": interval(row["lower"], row["upper"]),
            "of new clients inside": percent(row["inside"], 0),
        }
        for row in records(frame)
    ]
    caption = (
        "No certificate: a random-effects model (Hartung and Knapp) of the certified clients' "
        "errors expects the true error of one more client in this interval with probability "
        f"{chance(float(frame['delta'].max()))}. It is asymptotic, and a client's measured error "
        "also varies with its few points, so that fewer clients may be measured inside. Last "
        "column: the new clients that were."
    )
    cells = pd.DataFrame(shown)
    label = "A new client's error by random effects (estimate)"
    return Table("next-client", caption, frame, cells, ("method",), label=label, noun="rows")


NEXT_CLIENT = Section(
    "next-client",
    tabled(
        lambda material: material.ordered(next_client_frame(material.rows)),
        lambda frame, _: next_client_table(frame),
    ),
    title="What do random effects expect of a new client?",
    chapter="guarantees",
)
