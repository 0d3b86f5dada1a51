"""Figures without matplotlib, which an install without extras leaves out: axes and marks as SVG.

They look like the others: ink in the page's colour, spines on the left and below, a light grid,
one layout for the page and one for a phone.  Lengths are points, as in an SVG of matplotlib's.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from markupsafe import Markup

INK = "#1b1f24"
MUTED = "#7d858f"
WIDE = 7.2  # inches: a figure on the page, and on a phone
NARROW = 3.6
CERTIFIED = "#206c93"
"""Colour of certificates of held-out clients; routes of studies have others, and no method has it.
"""

_SIZE, _LETTER = 8.0, 4.6  # of the letters, and how wide one is on average
_NOTE_HEIGHTS = (0.04, 0.18, 0.32)
_APART_X, _APART_Y = 38.0, 15.0  # between two ticks, at least
_SPINE = Markup('<path d="{}" fill="none" stroke="{}" stroke-width="0.8"/>')
_GRID = Markup('<path d="{}" stroke="{}" stroke-width="0.6" opacity="0.25"/>')
_LINE = Markup('<path d="{}" fill="none" stroke="{}" stroke-width="{}" stroke-dasharray="{}"/>')
_DOT = Markup('<circle cx="{:.1f}" cy="{:.1f}" r="2.5" fill="{}"/>')
_TEXT = Markup('<text x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>')
_TURNED = Markup(
    '<text transform="translate({:.1f} {:.1f}) rotate(-90)" text-anchor="middle">{}</text>'
)
_SVG = Markup(
    '<svg viewBox="0 0 {:.1f} {:.1f}" aria-hidden="true" focusable="false"'
    ' font-family="system-ui, sans-serif" font-size="{}" fill="currentColor">{}</svg>'
)


@dataclass(frozen=True)
class Marks:
    """Points that are drawn alike."""

    x: Sequence[float]  # what lies outside of the panel is drawn on its edge
    y: Sequence[float]
    colour: str
    # ``line``, ``steps`` (a value stands until the next), ``dot``, ``bar`` (short and vertical).
    shape: str = "line"
    width: float = 1.5  # of a stroke
    dashes: str = "none"  # of a stroke; ``none`` where it has none


@dataclass(frozen=True)
class Panel:
    """Axes and what is drawn between them."""

    x: tuple[float, float]  # least and largest value that is shown
    y: tuple[float, float]
    marks: Sequence[Marks]  # in drawing order, the lowest first
    x_label: str
    y_label: str = ""
    # Vertical lines: the text beside each, and where it crosses the x axis.
    notes: Mapping[str, float] = field(default_factory=dict)
    names: Sequence[str] = ()  # labels at 0, 1, ... of the y axis in place of numbers


def ticks(low: float, high: float, most: int) -> list[tuple[float, str]]:
    """Return round values of an axis, and how each is written.

    Examples
    --------
    >>> ticks(0, 1.02, 5)
    [(0.0, '0.0'), (0.5, '0.5'), (1.0, '1.0')]
    >>> [text for _, text in ticks(0, 0.031, 7)]
    ['0.000', '0.005', '0.010', '0.015', '0.020', '0.025', '0.030']
    """
    power = 10.0 ** math.floor(math.log10((high - low) / most))
    step = next(n * power for n in (1, 2, 5, 10, 20) if (high - low) / (n * power) < most)
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    first = math.ceil(low / step - 1e-9)
    count = math.floor(high / step + 1e-9) - first + 1
    return [(n * step, f"{n * step:.{decimals}f}") for n in range(first, first + count)]


@dataclass(frozen=True)
class _Area:
    """Where a panel's values lie on the sheet."""

    panel: Panel
    left: float
    top: float
    right: float
    bottom: float

    def at_x(self, values: Sequence[float]) -> list[float]:
        share = (np.clip(values, *self.panel.x) - self.panel.x[0]) / np.ptp(self.panel.x)
        return [float(v) for v in self.left + share * (self.right - self.left)]

    def at_y(self, values: Sequence[float]) -> list[float]:
        share = (np.clip(values, *self.panel.y) - self.panel.y[0]) / np.ptp(self.panel.y)
        return [float(v) for v in self.bottom - share * (self.bottom - self.top)]


def drawing(panels: Sequence[Panel], *, width: float, height: float, columns: int = 1) -> Markup:
    """Draw panels, row by row, on a sheet of so many inches."""
    lines = -(-len(panels) // columns)
    wide, high = 72 * width / columns, 72 * height / lines
    drawn = [
        _panel(panel, wide * (place % columns), high * (place // columns), wide, high)
        for place, panel in enumerate(panels)
    ]
    return _SVG.format(72 * width, 72 * height, _SIZE, Markup("").join(drawn))


def _panel(panel: Panel, left: float, top: float, wide: float, high: float) -> Markup:
    inner = high - 38
    if panel.names:
        rows = [(float(place), name) for place, name in enumerate(panel.names)]
    else:
        rows = ticks(*panel.y, max(2, int(inner // _APART_Y)))
    margin = 10 + _LETTER * max(len(text) for _, text in rows) + (14 if panel.y_label else 0)
    area = _Area(panel, left + margin, top + 6, left + wide - 10, top + 6 + inner)
    columns = ticks(*panel.x, max(2, int((area.right - area.left) // _APART_X)))
    parts = [_axes(area, columns, rows)]
    parts += [_marks(area, marks) for marks in panel.marks]
    for height, (text, value) in zip(_NOTE_HEIGHTS, panel.notes.items(), strict=False):
        (x,) = area.at_x([value])
        at_end = x > 0.6 * area.right + 0.4 * area.left
        y = area.top + height * inner + _SIZE
        parts.append(_LINE.format(f"M{x:.1f} {area.bottom:.1f}V{area.top:.1f}", MUTED, 0.9, "none"))
        parts.append(
            _TEXT.format(x - 4 if at_end else x + 4, y, "end" if at_end else "start", text)
        )
    return Markup("").join(parts)


def _axes(
    area: _Area, columns: Sequence[tuple[float, str]], rows: Sequence[tuple[float, str]]
) -> Markup:
    left, right, top, bottom = area.left, area.right, area.top, area.bottom
    across = area.at_x([value for value, _ in columns])
    upward = area.at_y([value for value, _ in rows])
    grid = [f"M{x:.1f} {bottom:.1f}V{top:.1f}" for x in across]
    if not area.panel.names:
        grid += [f"M{left:.1f} {y:.1f}H{right:.1f}" for y in upward]
    spine = [f"M{left:.1f} {top:.1f}V{bottom:.1f}H{right:.1f}"]
    spine += [f"M{x:.1f} {bottom:.1f}v3" for x in across]
    spine += [f"M{left:.1f} {y:.1f}h-3" for y in upward]
    parts = [_GRID.format("".join(grid), MUTED), _SPINE.format("".join(spine), MUTED)]
    for x, (_, text) in zip(across, columns, strict=True):
        parts.append(_TEXT.format(x, bottom + 12, "middle", text))
    for y, (_, text) in zip(upward, rows, strict=True):
        parts.append(_TEXT.format(left - 5, y + 0.35 * _SIZE, "end", text))
    parts.append(_TEXT.format((left + right) / 2, bottom + 25, "middle", area.panel.x_label))
    if area.panel.y_label:
        widest = max(len(text) for _, text in rows)
        x = left - 8 - _LETTER * widest - 4
        parts.append(_TURNED.format(x, (top + bottom) / 2, area.panel.y_label))
    return Markup("").join(parts)


def _marks(area: _Area, marks: Marks) -> Markup:
    points = list(zip(area.at_x(marks.x), area.at_y(marks.y), strict=True))
    if marks.shape == "dot":
        return Markup("").join(_DOT.format(x, y, marks.colour) for x, y in points)
    if marks.shape == "bar":
        path = "".join(f"M{x:.1f} {y - 4.5:.1f}v9" for x, y in points)
    elif marks.shape == "steps":
        path = "".join(f"H{x:.1f}V{y:.1f}" for x, y in points)
        path = "M{:.1f} {:.1f}".format(*points[0]) + path
    else:
        path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    return _LINE.format(path, marks.colour, marks.width, marks.dashes)
