"""Figures that are laid out once are those that matplotlib would lay out at every save."""

import pytest
from matplotlib.figure import Figure

from latecomer.reports.display import drawing
from latecomer.reports.display.pictures import svg_of

NAMES = ["PeFLL, certified while training", "Local training"]


@drawing.styled
def two_axes(x_label: str, y_label: str, title: str) -> Figure:
    figure, (left, right) = drawing.sheet(6.0, 2.5, columns=2)
    left.barh([0, 1], [12.0, 30.0])
    left.set_yticks([0, 1], NAMES)
    left.set_xlabel(x_label)
    left.set_title(title)
    right.plot([1, 10, 1000], [0.2, 0.1, 0.05])
    right.set_xscale("log")
    right.xaxis.set_ticks_position("top")
    right.set_ylabel(y_label)
    return figure


@pytest.mark.parametrize("title", ["", "new clients"])
@pytest.mark.parametrize("y_label", ["", "error (%)"])
@pytest.mark.parametrize("x_label", ["", "error (%)"])
def test_places_of_empty_labels_change_nothing(monkeypatch, x_label, y_label, title):
    placed = svg_of(two_axes(x_label, y_label, title))
    monkeypatch.setattr(drawing, "_place_empty_labels", lambda _: None)
    assert svg_of(two_axes(x_label, y_label, title)) == placed


def test_ticks_of_an_axis_without_label_are_not_measured_for_one():
    figure = two_axes("error (%)", "", "")
    svg_of(figure)
    axes = figure.axes[0]
    assert axes.yaxis.label.get_position() == (0.0, 0.0)
    assert axes.xaxis.label.get_position() != (0.0, 0.0)
