"""Certified errors of other populations: curves, measured points, tables, the section."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from latecomer.certify.words import BALLS, NOTHING_NEW
from latecomer.eval.names import statement
from latecomer.eval.results.rows import load_run, make_row
from latecomer.reports.display.drawing import looks
from latecomer.reports.display.section import Material
from latecomer.reports.frames.bounds import (
    breaking_frame,
    certified_at,
    population_curves,
    population_points,
    worst_group,
)
from latecomer.reports.guarantees import next_population as module
from latecomer.reports.guarantees.next_population import (
    NEXT_POPULATION,
    asked_radii,
    certified_table,
    describe_populations,
    draw_populations,
    measured_frame,
    measured_table,
    population_caption,
    population_plot,
    worst_table,
)

MODEL = {"label": "pefll", "method": "pefll", "predictor": "deterministic", "status": "done"}
CERTIFIED = {**MODEL, "group": "certification", "shift": "none", "metric": "certified_population"}
AWAY = {"kl": 0.2, "tv": 0.3, "chi2": 0.5, "subgroup": 0.4}


@pytest.fixture
def rows(read):
    found = []
    for seed in (0, 1):
        cell = {"seed": seed, "cell": f"pefll{seed}"}
        for client in range(10):
            error = {**MODEL, **cell, "group": "novel", "client": client, "metric": "error"}
            found.append(make_row(**error, shift="none", value=0.1 * client / 4.5))
            found.append(
                make_row(**error, shift="type_weights", severity=0.2, value=0.3 + 0.1 * seed)
            )
        for bound, value in (("kl_ball@0.1", 0.3), ("kl_ball@0.2", 0.35), ("subgroup@0.25", 0.5)):
            told = {**CERTIFIED, **cell, "bound": f"r0:{bound}", "delta": 0.05}
            found.append(make_row(**told, value=value))
            found.append(make_row(**told, value=0.1, term="shift"))
        broken = {**CERTIFIED, **cell, "metric": "breaking_radius", "term": "target=0.3"}
        found.append(make_row(**broken, bound="r0:kl_ball", value=0.1 + 0.05 * seed))
        found.append(make_row(**broken, bound="r0:subgroup", value="" if seed else 0.7))
        # Under a shift of the inputs it is another statement.
        under = {**CERTIFIED, **cell, "shift": "blur", "severity": 1.0, "delta": 0.05}
        found.append(make_row(**under, bound="r0:kl_ball@0.1", value=0.9))
    for term, value in AWAY.items():
        where = {"cell": "split", "group": "novel", "shift": "type_weights", "severity": 0.2}
        found.append(make_row(**where, metric="population_distance", term=term, value=value))
    return read(found)


@pytest.fixture
def curves():
    def table(seed):
        told = {"bound": "r0:kl_ball", "predictor": "deterministic", "shift": "none", "delta": 0.05}
        steps = [(0.0, 0.2), (0.15, 0.31), (0.25, 0.38 - 0.04 * seed), (0.5, 1.0)]
        kl = [{**told, "ball": "kl", "radius": r, "value": v} for r, v in steps]
        group = [(1.0, 0.2), (0.5, 0.4), (0.3, 1.0)]
        told["bound"] = "r0:subgroup"
        kl += [{**told, "ball": "subgroup", "radius": r, "value": v} for r, v in group]
        return [*kl, {**told, "bound": "r0:kl_ball@band", "shift": "blur", "ball": "kl"}]

    return population_curves([("pefll", seed, table(seed)) for seed in (0, 1)])


def test_curves_are_of_unshifted_inputs_outwards(curves):
    assert len(curves) == 14
    own = curves[(curves["seed"] == 0) & (curves["ball"] == "subgroup")]
    assert own["radius"].tolist() == [1.0, 0.5, 0.3]
    assert population_curves([]).empty


def test_a_radius_between_two_is_certified_by_the_wider_one(curves):
    at = certified_at(curves, "kl", 0.2)
    assert at["pefll", "deterministic", 0] == 0.38
    assert at["pefll", "deterministic", 1] == 0.34
    assert certified_at(curves, "kl", 0.15).unique().tolist() == [0.31]
    assert certified_at(curves, "kl", 0.6).tolist() == [1.0, 1.0], "beyond its end nothing is"
    assert certified_at(curves, "subgroup", 0.6).unique().tolist() == [0.4]
    assert certified_at(curves, "subgroup", 0.2).unique().tolist() == [1.0]


def test_points_stand_at_their_populations_distances(rows):
    points = population_points(rows)
    assert points["population"].tolist() == [0, 1, 0, 1]
    far = points[points["population"] == 1]
    assert far[list(AWAY)].to_numpy().tolist() == [list(AWAY.values())] * 2
    assert far["measured"].tolist() == pytest.approx([0.3, 0.4])
    here = points[points["population"] == 0]
    assert here[["kl", "tv", "chi2", "subgroup"]].to_numpy().tolist() == [[0, 0, 0, 1]] * 2
    assert here["measured"].tolist() == pytest.approx([0.1, 0.1])


def test_a_measured_error_above_its_certificate_is_counted(rows, curves):
    frame = measured_frame(curves, population_points(rows))
    assert "certified_tv" not in frame
    far = frame[frame["population"] == 1]
    assert far["certified_kl"].tolist() == [0.38, 0.34]
    assert far["certified_subgroup"].tolist() == [1.0, 1.0]
    shown = measured_table(frame).shown
    assert shown["measured above"].tolist() == ["0 seeds", "1 seed"]
    assert shown["certified, kl"].tolist() == ["20.0%", "34.0% to 38.0%"]
    assert shown["measured error"].tolist()[0].startswith("10.0% ±")


def test_the_table_has_a_row_a_radius_and_the_seed_that_breaks_first(rows):
    asked = asked_radii(rows)
    assert asked[["ball", "radius"]].drop_duplicates().to_numpy().tolist() == [
        ["kl", 0.1],
        ["kl", 0.2],
        ["subgroup", 0.25],
    ]
    shown = certified_table(asked, breaking_frame(rows)).shown
    assert shown["next population"].tolist() == [
        "KL(Q || P) at most 0.1",
        "KL(Q || P) at most 0.2",
        "groups of a share of at least 0.25",
    ]
    assert shown["breaking radius"].tolist() == ["0.1", "0.1", "not below it without a shift"]
    assert shown["target"].tolist() == ["30.0%"] * 3
    assert shown["certified error at most"].tolist() == ["30.0%", "35.0%", "50.0%"]


def test_the_worst_group_counts_a_client_in_part(rows):
    frame = worst_group(rows)
    # A quarter of ten clients: the two worst and half of the third.
    values = 0.1 * np.arange(10) / 4.5
    expected = (values[9] + values[8] + 0.5 * values[7]) / 2.5
    assert frame["measured"].tolist() == pytest.approx([expected] * 2)
    assert (frame["share"].tolist(), frame["n_clients"].tolist()) == ([0.25] * 2, [10] * 2)
    assert worst_table(frame).shown["certified error at most"].tolist() == ["50.0%"]
    eighth = worst_table(frame.assign(share=0.125)).shown
    assert eighth["share of clients"].tolist() == ["12.5%"]


@pytest.mark.parametrize("width", [6.5, 3.4])
def test_the_figure_draws_a_line_a_model_marks_and_the_target(rows, curves, width):
    points = population_points(rows)
    figure = draw_populations(curves, points, looks(["pefll"]), targets=[0.3], width=width)
    panels = [axes for axes in figure.axes if axes.get_visible()]
    assert len(panels) == 2
    lines = panels[0].get_lines()
    assert lines[0].get_xdata().tolist() == [0.0, 0.15, 0.25, 0.5]
    assert lines[0].get_ydata().tolist() == pytest.approx([20, 31, 38, 100])
    marks = [line for line in lines if len(line.get_xdata()) == 1]
    found = sorted((float(m.get_xdata()[0]), float(m.get_ydata()[0])) for m in marks)
    assert found == [pytest.approx(one) for one in [(0, 10), (0, 10), (0.2, 30), (0.2, 40)]]
    assert any(set(line.get_ydata()) == {30.0} for line in lines)
    left, right = panels[1].get_xlim()
    assert left > right, "smaller groups lie further out"
    assert "Dashed: the target, 30.0%" in population_caption(curves, points, [0.3])
    assert "PeFLL, kl: 20.0% without a shift" in describe_populations(curves)
    assert NOTHING_NEW in population_caption(curves, points, [])


def test_every_ball_names_its_direction_on_axes_in_tables_and_captions(rows):
    """Of Q from P: the other way round the curves are false."""
    for ball, way in (("kl", "KL(Q || P)"), ("chi2", "chi2(Q || P)"), ("tv", "TV(Q, P)")):
        assert way in BALLS[ball].axis
        assert "P: today's clients" in BALLS[ball].axis
        assert BALLS[ball].radius == f"{way} at most"
        said = statement(
            {
                **{"bound": f"r0:{ball}_ball@0.1", "population": "unseen-client", "pool": 40},
                **{"sampling": "iid", "predictor": "deterministic", "rigorous": True},
                **{"reason": "", "delta": 0.05, "n_clients": 30, "value": 0.25},
            }
        )
        assert f"every population Q of clients with {way} at most 0.1, P being" in said
        assert (NOTHING_NEW in said) == (ball != "tv")
    assert NOTHING_NEW in certified_table(asked_radii(rows), breaking_frame(rows)).caption


def test_frames_of_nothing_are_empty(read):
    rows = read([])
    for frame in (population_points(rows), breaking_frame(rows), worst_group(rows)):
        assert isinstance(frame, pd.DataFrame)
        assert frame.empty


def test_the_section_is_there_where_the_study_asked_for_it(made_up_run):
    material = Material.of(load_run(made_up_run))
    assert NEXT_POPULATION.blocks(material) == []
    assert population_plot(material, "any") is None


def test_the_section_has_a_heading_a_figure_and_three_tables(rows, curves, monkeypatch):
    material = SimpleNamespace(
        rows=rows,
        looks=looks(["pefll"]),
        ordered=lambda frame: frame,
        tables=lambda kind: kind,
        cited=[],
    )
    monkeypatch.setattr(module, "population_curves", lambda tables: curves)
    found = NEXT_POPULATION.blocks(material)
    assert [getattr(block, "name", "") for block in found] == [
        "next-population",
        "",
        "next-population",
        "next-population",
        "measured-populations",
        "worst-groups",
    ]
    assert found[0].title == "How different may the next population be?"
