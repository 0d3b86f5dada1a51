"""Figures of an install without matplotlib: values lie where the axes say, text is escaped."""

import math
import re
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latecomer.certify.page.svg import Marks, Panel, drawing, ticks

LENGTHS = r"-?\d+\.\d"


def drawn(panel, **sheet):
    text = str(drawing([panel], **{"width": 7.2, "height": 2.6, **sheet}))
    assert not re.search("nan|inf", text)
    return ElementTree.fromstring(text)


def texts(root):
    return {one.text: (float(one.get("x") or 0), float(one.get("y") or 0)) for one in root.iter()}


def test_marks_lie_where_the_ticks_say():
    dots = Marks([0.2, 0.8], [0.4, 0.6], "red", "dot")
    root = drawn(Panel((0, 1), (0, 1), [dots], "loss"), width=7.2)
    at = texts(root)
    # Letters hang below their tick, all by the same.
    below = at["0.4"][1] - float(root.findall("circle")[0].get("cy"))
    assert float(root.findall("circle")[1].get("cy")) + below == pytest.approx(
        at["0.6"][1], abs=0.1
    )
    wide = [float(dot.get("cx")) for dot in root.findall("circle")]
    label, _ = at["loss"]
    assert sum(wide) / 2 == pytest.approx(label, abs=0.1)
    step = texts(drawn(Panel((0, 1), (0, 4), [], "loss")))
    assert (wide[1] - wide[0]) / 6 == pytest.approx((step["0.9"][0] - step["0.1"][0]) / 8, abs=0.1)


def test_what_lies_outside_is_drawn_on_the_edge():
    line = Marks([-1.0, 0.5, 9.0], [0.5, math.inf, -3.0], "red")
    inside = Marks([0.0, 0.5, 1.0], [0.5, 1.0, 0.0], "red")
    both = [drawn(Panel((0, 1), (0, 1), [marks], "loss")) for marks in (line, inside)]
    assert len({ElementTree.tostring(root) for root in both}) == 1


def test_a_step_stands_until_the_next():
    root = drawn(Panel((0, 1), (0, 1), [Marks([0, 0.5, 1], [1, 0, 0], "red", "steps")], "loss"))
    (path,) = (one.get("d") for one in root.findall("path") if one.get("stroke") == "red")
    moves = [(kind, float(value)) for kind, value in re.findall(rf"([HV])({LENGTHS})", path)]
    flat, falls = [v for k, v in moves if k == "H"], [v for k, v in moves if k == "V"]
    assert flat[1] == pytest.approx((flat[0] + flat[2]) / 2, abs=0.1)
    assert falls[0] < falls[1] == falls[2]


def test_words_of_users_are_words():
    panel = Panel((0, 1), (-0.5, 0.5), [], "a < b", "&", notes={"<i>": 0.9}, names=["<b>x</b>"])
    assert {"a < b", "&", "<i>", "<b>x</b>"} <= set(texts(drawn(panel)))


def test_panels_wrap():
    panels = [Panel((0, 1), (0, 1), [Marks([0], [0], "red", "dot")], "loss")] * 3
    root = ElementTree.fromstring(str(drawing(panels, width=7.2, height=4, columns=2)))
    first, second, third = ((float(d.get("cx")), float(d.get("cy"))) for d in root.iter("circle"))
    assert (second[0] - first[0], third[0]) == (pytest.approx(36 * 7.2), first[0])
    assert (second[1], third[1] - first[1]) == (first[1], pytest.approx(36 * 4))


@given(st.floats(-1e6, 1e6), st.floats(1e-6, 1e6), st.integers(2, 20))
def test_ticks_are_few_round_and_within(low, span, most):
    found = ticks(low, low + span, most)
    assert 0 < len(found) <= most + 1 or span < abs(low) * 1e-9
    slack = 1e-6 * span + 1e-9 * abs(low)
    for value, text in found:
        assert low - slack <= value <= low + span + slack
        assert float(text) == pytest.approx(value, abs=slack)
    assert len({text for _, text in found}) == len(found)
