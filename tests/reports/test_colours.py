"""Colours that stay apart for colour-blind readers: simulated, and measured in CIELAB.

The simulation is that of Machado, Oliveira and Fernandes, "A Physiologically-based Model for
Simulation of Color Vision Deficiency" (IEEE TVCG 15, 2009), Table 1, severity 1, on linear sRGB.
"""

import re
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from latecomer.certify import page as loss_page
from latecomer.eval.names import ROUTES
from latecomer.models.methods import METHODS
from latecomer.reports.display.drawing import looks

SEEN_BY = {
    "all cones": np.eye(3),
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritanopia": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}
# A difference that is just noticed is 2.3 (Mahy, Van Eycken, Oosterlinck, 1994).
APART = 10.0
ROUTES_APART = 25.0
TO_XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750],
     [0.0193339, 0.1191920, 0.9503041]]
)  # fmt: skip
WHITE = TO_XYZ.sum(axis=1)


def linear(colour: str) -> np.ndarray:
    values = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def lab(colour: str, seen_by: str) -> np.ndarray:
    """Return CIELAB coordinates (D65) of an sRGB colour as somebody sees it."""
    seen = np.clip(np.asarray(SEEN_BY[seen_by]) @ linear(colour), 0, 1)
    t = TO_XYZ @ seen / WHITE
    f = np.where(t > (6 / 29) ** 3, np.cbrt(t), t / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def distance(one: str, other: str, seen_by: str) -> float:
    return float(np.linalg.norm(lab(one, seen_by) - lab(other, seen_by)))


def test_the_simulation_merges_what_it_should() -> None:
    """Red and green of one lightness: far apart for most, near for those without red cones."""
    assert distance("#d04040", "#408040", "all cones") > 80
    assert distance("#d04040", "#408040", "deuteranopia") < 20
    assert distance("#ffffff", "#000000", "tritanopia") == pytest.approx(100, abs=0.1)


@pytest.mark.parametrize("seen_by", SEEN_BY)
def test_routes_are_told_apart_by_colour_and_by_mark(seen_by: str) -> None:
    pairs = list(combinations([route.colour for route in ROUTES.values()], 2))
    assert min(distance(*pair, seen_by) for pair in pairs) > ROUTES_APART
    assert len({route.mark for route in ROUTES.values()}) == len(ROUTES)


@pytest.mark.parametrize("seen_by", SEEN_BY)
def test_methods_of_like_colours_differ_in_their_marks(seen_by: str) -> None:
    known = looks(list(METHODS))
    for one, other in combinations(known.values(), 2):
        if distance(one.colour, other.colour, seen_by) <= APART:
            assert (one.mark, one.line) != (other.mark, other.line)


def test_no_route_has_the_colour_of_a_method() -> None:
    methods = {look.colour for look in looks(list(METHODS)).values()}
    assert not methods & {route.colour for route in ROUTES.values()}


def contrast(one: str, other: str) -> float:
    """Return the ratio of the luminances of two colours (WCAG 2.2), at least 1."""
    low, high = sorted(float(TO_XYZ[1] @ linear(colour)) + 0.05 for colour in (one, other))
    return high / low


def test_colours_are_seen_on_both_grounds() -> None:
    for look in looks([str(i) for i in range(8)]).values():
        assert contrast(look.colour, "#ffffff") >= 3
        assert contrast(look.colour, "#14171b") >= 3


def test_letters_in_colours_of_routes_are_read_on_both_grounds() -> None:
    style = (Path(loss_page.__file__).parent / "templates" / "report.css").read_text("utf-8")
    grounds = re.findall(r"--card: (#\w{6});", style)[:2]
    changed = dict(re.findall(r'text\[style\*="fill: (#\w{6})"\] { fill: (#\w{6})', style))
    assert set(changed) < {route.colour for route in ROUTES.values()}
    light, dark = sorted(grounds, reverse=True)
    for colour in (route.colour for route in ROUTES.values()):
        assert contrast(colour, light) >= 2.5, colour
        assert contrast(changed.get(colour, colour), dark) >= 3, colour
    assert contrast(changed[ROUTES["r0"].colour], dark) >= 4.5
    assert contrast(ROUTES["r0"].colour, light) >= 4.5
