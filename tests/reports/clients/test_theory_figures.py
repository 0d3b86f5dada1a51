"""Figures beside theorems: PeFLL's rate along a training, pFedHN's linear denoising."""

import math

import pandas as pd
import pytest

from latecomer import reports
from latecomer.certify.page.svg import NARROW
from latecomer.eval.results.rows import RunRecord
from latecomer.reports.accuracy.denoising import (
    DENOISING,
    best_lengths,
    denoising_table,
    describe_denoising,
)
from latecomer.reports.accuracy.training import (
    CONVERGENCE,
    constants_frame,
    constants_table,
    describe_convergence,
)
from latecomer.reports.display.drawing import looks
from latecomer.reports.display.section import Material
from latecomer.reports.frames.errors import in_order

NORMS = {0: 8.0, 5: 4.0, 10: 2.0}
LABELS = ["pefll", "other step"]


def theorem_rows(label="pefll", seed=0, factor=1.0):
    def row(round_, metric, value, term=""):
        about = {"method": "pefll", "label": label, "seed": seed, "group": "seen", "term": term}
        return {**about, "round": round_, "metric": metric, "value": factor * value}

    rows = [row(t, "squared_gradient_norm", norm) for t, norm in NORMS.items()]
    rows += [row(t, "smoothness", 3.0 + t % 10) for t in NORMS]
    rows += [row(5, "mean_squared_gradient_norm", 4.0), row(10, "mean_squared_gradient_norm", 3.0)]
    rows += [row(t, "convergence_rate", 1e6 / t) for t in (5, 10)]
    rows += [row(t, "convergence_rate", 1e5 / t, "drift") for t in (5, 10)]
    return [*rows, row(10, "step_size", 0.002, "clients"), row(10, "error", 0.3)]


@pytest.fixture
def rows(read):
    return read([*theorem_rows(), *theorem_rows(seed=1, factor=2.0), *theorem_rows("other step")])


def test_both_sides_of_the_theorem_along_every_training(rows):
    frame = reports.convergence_frame(rows)
    assert list(frame.columns) == ["label", "seed", "round", "squared_norm", "mean_squared_norm",
                                   "rate"]  # fmt: skip
    assert len(frame) == 9
    own = frame[(frame["label"] == "pefll") & (frame["seed"] == 1)].set_index("round")
    assert own.loc[10, "squared_norm"] == 4.0
    # The total, not one of its terms.
    assert own.loc[10, "rate"] == 2e5
    assert math.isnan(own.loc[0, "rate"])
    assert math.isnan(own.loc[0, "mean_squared_norm"])


def test_the_convergence_figure_has_marks_a_mean_and_a_rate(rows):
    frame = in_order(reports.convergence_frame(rows), LABELS)
    for width in (7.2, NARROW):
        figure = reports.convergence_figure(frame, looks(LABELS), width=width)
        lines = figure.axes[0].get_lines()
        assert len(lines) == 6
        # Means over seeds 0 and 1.
        assert [line.get_ydata()[-1] for line in lines[:3]] == [3.0, 4.5, 1.5e5]
        assert figure.axes[0].get_yscale() == "log"
        figure.canvas.draw()
        ticks = [tick.get_text() for tick in figure.axes[0].get_yticklabels()]
        assert not [text for text in ticks if "mathdefault" in text]
    assert "PeFLL after 10 rounds: mean squared gradient norm 4.5" in describe_convergence(frame)


def test_constants_are_the_largest_and_sides_the_last(rows):
    frame = constants_frame(rows).set_index(["label", "quantity", "term"])
    assert frame.loc[("other step", "smoothness", ""), "mean"] == 8.0
    assert frame.loc[("other step", "squared_gradient_norm", ""), "mean"] == 2.0
    assert frame.loc[("other step", "convergence_rate", "drift"), "mean"] == 1e4
    both = frame.loc[("pefll", "smoothness", "")]
    assert (both["mean"], both["low"], both["high"], both["n_seeds"]) == (12.0, 8.0, 16.0, 2)
    table = constants_table(constants_frame(rows), LABELS)
    assert list(table.shown.columns) == ["quantity", "PeFLL", "other step"]
    shown = table.shown.set_index("quantity")
    assert shown.loc["L: smoothness of the objective", "PeFLL"] == "12 [8, 16]"
    assert "too small" in table.caption


def test_runs_without_the_measure_have_no_such_section(read, tmp_path):
    plain = read([row for row in theorem_rows() if row["metric"] == "error"])
    assert reports.convergence_frame(plain).empty
    material = Material.of(RunRecord(tmp_path, {}, {}, plain, (), ()))
    assert CONVERGENCE.blocks(material) == DENOISING.blocks(material) == []
    measured = Material.of(RunRecord(tmp_path, {}, {}, read(theorem_rows()), (), ()))
    assert CONVERGENCE.blocks(measured)[0].title == CONVERGENCE.title
    assert reports.denoising_frame([]).empty


def record(noise, k, draw, **values):
    about = {"noise": noise, "dimension": k, "draw": draw, "local": 4.0, "known_subspace": 1.0}
    names = ("principal_components", "gradient_descent")
    errors = {prefix + name: 2.0 + draw for prefix in ("", "novel_") for name in names}
    return {**about, **errors, **values}


@pytest.fixture
def denoised():
    table = [record(0.5, k, draw) for k in (4, 1, 2) for draw in (0, 1)]
    table += [
        record(1.0, k, draw, principal_components=9.0 - k) for k in (1, 2, 4) for draw in (0, 1)
    ]
    return reports.denoising_frame([table])


def test_errors_are_means_over_draws_with_their_standard_error(denoised):
    assert [tuple(x) for x in denoised[["noise", "dimension"]].to_numpy()] == [
        (noise, k) for noise in (0.5, 1.0) for k in (1, 2, 4)
    ]
    first = denoised.iloc[0]
    assert (first["gradient_descent"], first["n_draws"]) == (2.5, 2)
    assert first["gradient_descent_se"] == pytest.approx(0.5)
    assert best_lengths(denoised)[1.0]["dimension"] == 4
    assert "noise 1: least at k = 4 with 5, local solutions 4" in describe_denoising(denoised)


def test_the_denoising_figure_has_a_panel_per_noise(denoised):
    for width in (7.2, NARROW):
        figure = reports.denoising_figure(denoised, width=width)
        assert [axes.get_title(loc="left") for axes in figure.axes] == ["noise 0.5", "noise 1"]
        curves = {bar.get_label(): bar.lines[0] for bar in figure.axes[1].containers}
        assert len(curves) == 6
        best = curves["closed-form optimum (PCA), seen clients"]
        assert list(best.get_ydata()) == [8.0, 7.0, 5.0]
        assert list(best.get_xdata()) == [1, 2, 4]


def test_the_denoising_table_names_its_spread(denoised):
    table = denoising_table(denoised)
    assert len(table.shown) == 6
    assert table.shown["gradient descent, seen clients"][0] == "2.500 \N{PLUS-MINUS SIGN} 0.500"
    assert table.shown["closed form, true subspace known"][0] == "1.000"
    assert "standard error over draws" in table.caption
    assert pd.api.types.is_numeric_dtype(table.frame["gradient_descent"])
