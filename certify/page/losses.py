"""The page of a certificate from a table of losses: what ``latecomer certify --report`` writes.

It needs neither pandas nor matplotlib, which an install without extras leaves out.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from latecomer.certify.lines import loss_certificate_lines
from latecomer.certify.page.blocks import (
    Caption,
    Cells,
    Fold,
    Grid,
    Items,
    Picture,
    Text,
    csv_text,
    download,
    figure_latex,
    latex_download,
    rendered,
)
from latecomer.certify.page.svg import CERTIFIED, MUTED, NARROW, WIDE, Marks, Panel, drawing
from latecomer.certify.populations import certify_shifted, no_shift
from latecomer.certify.statements import LossCertificate
from latecomer.certify.together import LossAnswers, together
from latecomer.certify.topics import Topic, loss_statements, shown_up, topics
from latecomer.certify.words import BALLS, NOTHING_NEW, count, rounded
from latecomer.checks import html_file
from latecomer.files import at_home, write_atomic

_MOST_LEVELS, _MOST_GROUPS, _LONGEST_NAME = 600, 30, 24
_INK = "currentColor"

Shown = Text | Items | Fold | Grid | Picture


class Group(NamedTuple):
    """A group of clients, the mean of its losses and the certified bound on that mean."""

    group: str
    n_clients: int
    mean: float
    bound: float


_TITLES = {
    "shifts": "Other populations",
    "tails": "Clients with large losses",
    "groups": "Groups",
    "against": "Another model",
}
_POINTS = 41


def write_report(certified: LossAnswers, path: str | PathLike[str], *, source: str) -> Path:
    """Write the page of a certificate: one self-contained file that needs no network.

    Raises
    ------
    InputError
        Where the file is one that the losses came from, a folder or another thing that is no file.
    """
    html_file("path", path, certified.sources)
    place = at_home(path)
    write_atomic(place, _page(certified, source))
    return place


def _page(certified: LossAnswers, source: str) -> str:
    said = loss_statements(certified)
    lines = (*map(str.strip, loss_certificate_lines(certified)), certified.question)
    below = Items([line for line in lines if line and line not in said])
    chapters = [
        _chapter("answer", "Answer", box=[*map(Text, said), below]),
        _chapter("clients", "Clients", [_losses_figure(certified)]),
    ]
    drawn = {"shifts": _shift_figure, "groups": _group_figure}
    for topic in topics(certified):
        figures = [drawn[topic.name](certified)] if topic.name in drawn else []
        chapters.append(_chapter(topic.name, _TITLES[topic.name], [*_topic(topic, figures)]))
    if closing := together(certified).line:
        chapters.append(_chapter("together", "All together", [Text(closing)]))
    return rendered(
        {
            "title": f"Certificate of {source}",
            "question": "How well are clients served that took no part in training?",
            "reduced": False,
            "made_from": source,
            "chapters": chapters,
        }
    )


def _chapter(
    name: str, title: str, blocks: Sequence[Shown] = (), *, box: Sequence[Shown] = ()
) -> dict[str, Any]:
    return {
        "chapter": {"name": name, "title": title, "box": bool(box)},
        "folded": False,
        "empty": False,
        "box": [(block, 2) for block in box],
        "blocks": [(block, 3) for block in blocks],
    }


def _topic(topic: Topic, figures: Sequence[Picture]) -> Iterator[Shown]:
    yield Text(topic.heading)
    yield from figures
    table = Cells(
        topic.name,
        "Bounds are rounded up.",
        ["what", "bound", "beside it"],
        [(one.about, one.shown.strip(), one.note) for one in topic.said],
        ("what", "beside it"),
        noun="statements",
    )
    data = [(one.about, one.value, one.note) for one in topic.said]
    yield Grid(table, download(topic.name, csv_text(("about", "bound", "note"), data)))
    if topic.sentences:
        yield Fold([(Items(topic.sentences), 3)], "In full")


def _picture(
    about: Caption,
    draw: Callable[..., Markup],
    columns: Sequence[str],
    data: Sequence[Sequence[Any]],
) -> Picture:
    csv = csv_text(columns, data)
    how = f"inkscape {about.name}.svg --export-type=pdf"
    latex = latex_download(about.name, figure_latex(about, how))
    wide, narrow = draw(width=WIDE), draw(width=NARROW)
    return Picture(about, wide, narrow, download(about.name, csv), latex)


def above(losses: Sequence[float], loss_max: float) -> tuple[list[float], list[float]]:
    """Return the levels that occur, and the share of clients whose loss is above each.

    Examples
    --------
    >>> above([0.1, 0.3], 1.0)
    ([0.0, 0.1, 0.3, 1.0], [1.0, 0.5, 0.0, 0.0])
    """
    values = np.sort(np.asarray(losses, dtype=float))
    levels = _thinned(np.unique([0.0, *values, loss_max]))
    shares = 1 - np.searchsorted(values, levels, side="right") / len(values)
    return levels.tolist(), shares.tolist()


def _thinned(levels: NDArray[np.float64]) -> NDArray[np.float64]:
    """Keep as many levels as a figure can show, from the first to the last."""
    kept = np.linspace(0, len(levels) - 1, min(len(levels), _MOST_LEVELS)).round()
    return np.asarray(levels[kept.astype(int)])


def _notable(certified: LossAnswers) -> dict[str, float]:
    """Return the values to mark among the losses, by the text shown beside each."""
    marks = {f"mean {rounded(certified.mean, decimals=3)}": certified.mean}
    if certified.certificate is not None:
        marks[f"certified mean {shown_up(certified.certificate)}"] = float(certified.certificate)
    if certified.next_client is not None:
        marks[f"next client {shown_up(certified.next_client)}"] = float(certified.next_client)
    return marks


def _losses_figure(certified: LossAnswers) -> Picture:
    levels, shares = above(certified.losses, certified.loss_max)
    steps = [] if certified.curve is None else certified.curve[1]
    # Where a step is left out, the one before it continues, which is also a bound.
    kept = set(_thinned(np.array([step[0] for step in steps])).tolist() if steps else ())
    upper = [(level, bound) for level, _, bound in steps if level in kept]
    notes = _notable(certified)
    told = ", ".join(notes)
    clients = count(len(certified.losses), "client")
    caption = f"The share of the {clients} with a loss above each level; {told}."
    if upper:
        caption += " Dashed: the certified bound of that share, at all levels at once."
    measured = list(zip(levels, shares, strict=True))
    data = [(*one, "measured") for one in measured]
    data += [(*one, "certified, at most") for one in upper]
    marks = [Marks(*_percent(measured, certified.loss_max), _INK, "steps", width=1.8)]
    if upper:
        marks.append(Marks(*_percent(upper, certified.loss_max), CERTIFIED, "steps", dashes="3 2"))
    axes = ("loss", "clients above it (%)")
    panel = Panel((0, certified.loss_max), (0, 102), marks, *axes, notes=notes)
    draw = partial(drawing, [panel], height=2.6)
    about = Caption("losses", "How losses are spread", caption, caption)
    return _picture(about, draw, ("level", "share", "kind"), data)


def _percent(steps: Sequence[tuple[float, float]], end: float) -> tuple[list[float], list[float]]:
    """Return levels and shares of steps, the last of which reaches to the end."""
    reached = [*steps, (end, steps[-1][1])]
    return [level for level, _ in reached], [100 * share for _, share in reached]


def _shift_figure(certified: LossAnswers) -> Picture:
    shifts = {ball: _along_radii(certified, ball) for ball in certified.shifts}
    caption = (
        "The certified mean loss of every population Q that far from the scored one, P; by "
        f"KL(Q || P) and chi2(Q || P), {NOTHING_NEW} Each curve holds at all its points beyond no "
        "shift at once; without a shift it is the mean's own certificate, a statement by itself."
    )
    balls = ", ".join(BALLS[ball].axis for ball in shifts)
    alt = f"{caption} Curves over: {balls}."
    data = [(ball, *point) for ball, curve in shifts.items() for point in curve]
    panels: list[Panel] = []
    for ball, curve in shifts.items():
        radii, bounds = zip(*sorted(curve), strict=True)
        line = Marks(radii, bounds, CERTIFIED)
        axes = (BALLS[ball].axis, "certified mean loss")
        reach = (radii[0], radii[-1])
        panels.append(Panel(reach, (0, 1.02 * certified.loss_max), [line], *axes))

    def draw(width: float) -> Markup:
        columns = 1 if width < WIDE else min(2, len(panels))
        height = 0.4 + 1.9 * -(-len(panels) // columns)
        return drawing(panels, width=width, height=height, columns=columns)

    about = Caption("shifts", "Certified mean under a shift of clients", alt, caption)
    return _picture(about, draw, ("ball", "radius", "bound"), data)


def _group_figure(certified: LossAnswers) -> Picture:
    groups = [
        Group(name, one.n_clients, one.mean, _bound(one)) for name, one in certified.groups.items()
    ]
    caption = "A group's mean loss (dot) and its certified bound (bar); all bounds hold at once."
    n_groups = len(groups)
    if n_groups > _MOST_GROUPS:
        caption += f" Drawn are the {_MOST_GROUPS} with the largest bounds of {n_groups}."
    alt = f"{caption} {count(n_groups, 'group')}."
    # The worst bound on top.
    own = sorted(groups, key=lambda one: one.bound)[-_MOST_GROUPS:]
    spans = [Marks([one.mean, one.bound], [y, y], MUTED, width=1) for y, one in enumerate(own)]
    places, means = range(len(own)), [one.mean for one in own]
    bounds = Marks([one.bound for one in own], places, CERTIFIED, "bar", width=2)
    marks = [*spans, Marks(means, places, _INK, "dot"), bounds]
    names = [one.group[:_LONGEST_NAME] for one in own]
    reach = (-0.6, len(own) - 0.4)
    panel = Panel((0, certified.loss_max), reach, marks, "loss", names=names)
    draw = partial(drawing, [panel], height=0.8 + 0.22 * len(own))
    about = Caption("groups", "Groups", alt, caption)
    return _picture(about, draw, Group._fields, groups)


def _along_radii(certified: LossAnswers, ball: str) -> list[tuple[float, float]]:
    """Return radii and the certified means at them, from the mean's own certificate outwards."""
    radii, none = _radii(certified, ball), no_shift(ball)
    beyond = [radius for radius in radii if radius != none]
    start = math.nan if certified.certificate is None else float(certified.certificate)
    curve = certify_shifted(
        dict(enumerate(certified.losses)),
        ball=ball,
        radii=beyond,
        near=certified.radii[ball],
        rule=certified.rule,
        best_of=certified.best_of,
        delta=certified.delta,
        pool_size=certified.pool_size,
        loss_max=certified.loss_max,
        seed=certified.seed,
        order=dict(enumerate(certified.places)) if certified.places else None,
        trust=certified.trust,
    )
    values = dict(zip(beyond, curve.certificate.value.ravel().tolist(), strict=True))
    return [(radius, max(start, values.get(radius, start))) for radius in radii]


def _radii(certified: LossAnswers, ball: str) -> list[float]:
    """Return radii from no shift to somewhat beyond all that was asked about."""
    shifted = certified.shifts[ball]
    asked = [*certified.radii[ball]]
    if shifted.breaking is not None and not math.isnan(shifted.breaking):
        asked.append(shifted.breaking)
    if ball == "subgroup":
        return [float(r) for r in np.linspace(max(0.01, 0.8 * min(asked, default=0.5)), 1, _POINTS)]
    most = 1.25 * max([*asked, 0.0]) or 0.1
    return [float(r) for r in np.linspace(0, min(most, 1.0) if ball == "tv" else most, _POINTS)]


def _bound(one: LossCertificate) -> float:
    bound = one.next_client if one.certificate is None else one.certificate
    return math.nan if bound is None else float(bound)
