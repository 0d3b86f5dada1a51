"""Figures: what they draw, for whom, and that they leave matplotlib as they found it."""

import json
import re
from itertools import combinations, pairwise
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from fontTools import subset
from hypothesis import given
from hypothesis import strategies as st
from sketches import kept_run

from latecomer import reports
from latecomer.certify.page.svg import INK, NARROW
from latecomer.eval.results.rows import CellRecord, RunRecord
from latecomer.reports.accuracy.training import draw_losses, training_losses
from latecomer.reports.clients.distances import binned
from latecomer.reports.display.drawing import apart, looks
from latecomer.reports.display.pictures import paper_file, svg_file, svg_inline, svg_of
from latecomer.reports.frames.errors import in_order
from latecomer.reports.shift.curves import severity_places

LABELS = ["local", "fedavg", "per_fedavg", "pfedhn", "pefll", "pefll-stochastic"]


def test_a_method_keeps_its_look_whatever_stands_beside_it():
    alone = {label: looks([label])[label] for label in LABELS}
    assert looks(LABELS) == alone
    assert looks(["zzz", *reversed(LABELS)])["pefll"] == alone["pefll"]


@given(st.lists(st.text(min_size=1), unique=True, min_size=2, max_size=30))
def test_no_two_methods_look_alike(labels):
    found = looks(labels)
    assert len(set(found.values())) == len(labels)


def test_every_shipped_method_has_a_place_of_its_own():
    from latecomer.models.methods import METHODS

    known = [*(name for name, cls in METHODS.items() if cls.look is not None), "pefll-stochastic"]
    assert len(known) > 17
    found = looks(known)
    assert all(looks([label])[label] == look for label, look in found.items())
    assert len({(look.colour, look.line) for look in found.values()}) == len(known)
    assert len({(look.colour, look.mark) for look in found.values()}) == len(known)


def test_eight_methods_have_eight_colours_and_eight_marks():
    for labels in (map(str, range(8)), ["pefll", "fedavg", *(f"mine-{i}" for i in range(6))]):
        found = looks(list(labels)).values()
        assert len({look.colour for look in found}) == 8
        assert len({look.mark for look in found}) == 8


@given(st.lists(st.floats(0, 100), min_size=1, max_size=9))
def test_labels_are_pushed_apart_in_order_and_stay_inside(heights):
    placed = apart(sorted(heights), step=5.0, top=100.0)
    assert all(b - a >= 5.0 - 1e-9 for a, b in pairwise(placed))
    assert min(placed) >= -1e-9
    assert max(placed) <= 100 + 1e-9


def test_labels_with_room_stay_where_they_are():
    assert apart([10.0, 20.0, 40.0], step=5.0, top=50.0) == [10.0, 20.0, 40.0]


@pytest.mark.slow
def test_severities_stand_from_mild_to_strong(made_up_rows):
    frame = reports.shift_frame(made_up_rows)
    assert severity_places(frame, "rotation") == {"": 0.0, "15": 15.0, "30": 30.0, "45": 45.0}
    assert severity_places(frame, "extrapolation") == {"": 0.0, "0.1": 1.0, "0.5": 2.0, "1": 3.0}


def lines_of(figure):
    return [line for axes in figure.axes for line in axes.get_lines()]


def test_gap_figure_marks_every_seed(made_up_rows):
    frame = in_order(reports.gap_frame(made_up_rows), LABELS)
    figure = reports.gap_figure(frame, looks(LABELS))
    marked = [line for line in lines_of(figure) if line.get_marker() not in ("None", None)]
    drawn = np.concatenate([line.get_xdata() for line in marked])
    np.testing.assert_allclose(np.sort(drawn), np.sort(100 * frame["gap"]))
    ticks = [text.get_text() for text in figure.axes[0].get_yticklabels()]
    names = ["Local training", "FedAvg", "Per-FedAvg", "pFedHN", "PeFLL"]
    stochastic = (f"PeFLL-stochastic, {drawn}" for drawn in ("fixed weights", "random weights"))
    assert ticks == [*names, *stochastic]


@pytest.mark.slow
def test_bound_figure_puts_vacuous_values_in_a_band_and_fills_certificates(made_up_rows):
    frame = reports.bound_frame(made_up_rows)
    figure = reports.bound_figure(frame, looks(LABELS))
    band, main = figure.axes
    assert band.get_yscale() == "log"
    assert main.get_yscale() == "linear"
    marked = [line for line in lines_of(figure) if line.get_marker() not in ("None", None)]
    hollow = [line for line in marked if line.get_markerfacecolor() == "none"]
    assert len(hollow) == 6  # pefll_32 and pfedhn_eps, three seeds each
    assert len(marked) - len(hollow) == 21
    heights = np.concatenate([line.get_ydata() for line in hollow])
    assert (heights >= 1).all()
    assert all(line.axes is band for line in hollow)
    said = [text.get_text() for text in figure.legends[0].get_texts()]
    vacuous = {"PeFLL, Theorem 3.2", "pFedHN, Theorem 1 (Baxter)"}
    assert vacuous <= {text.partition(" (vacuous: ")[0] for text in said}
    assert "held-out clients, product rule" in said
    assert not {"pefll_32", "pfedhn_eps", "r0:product"} & set(" ".join(said).split())


@pytest.mark.parametrize("kind", ["bounds", "gap"])
def test_no_text_covers_another_on_a_phone(kind, made_up_rows):
    """Names may be as long as the kept study's; the band of vacuous bounds is low."""
    long = {"pefll-stochastic": "PeFLL-stochastic theta 1e-2"}
    rows = made_up_rows.assign(label=made_up_rows["label"].replace(long))
    labels = [long.get(label, label) for label in LABELS]
    if kind == "gap":
        figure = reports.gap_figure(reports.gap_frame(rows), looks(labels), width=3.5)
    else:
        figure = reports.bound_figure(reports.bound_frame(rows), looks(labels), width=3.5)
    figure.draw_without_rendering()
    for axes in figure.axes:
        texts = [text for text in (*axes.texts, *axes.get_yticklabels()) if text.get_text()]
        boxes = [(text.get_text(), text.get_window_extent()) for text in texts]
        covered = [(a, b) for (a, one), (b, other) in combinations(boxes, 2) if one.overlaps(other)]
        assert covered == []


def test_bound_figure_without_vacuous_values_has_no_band(made_up_rows):
    frame = reports.bound_frame(made_up_rows)
    figure = reports.bound_figure(frame[~frame["vacuous"]], looks(LABELS))
    assert len(figure.axes) == 1


def test_anatomy_bars_add_up_to_the_bound(made_up_rows):
    frame = reports.anatomy_frame(made_up_rows)
    frame = frame[frame["bound"] == "r0:product"]
    figure = reports.anatomy_figure(frame)
    bars = figure.axes[0].patches
    ends = {}
    for bar in bars:
        row = round(bar.get_y() + bar.get_height() / 2)
        ends[row] = max(ends.get(row, 0), bar.get_x() + bar.get_width())
    keys = ["label", "predictor", "seed"]
    totals = 100 * frame.groupby(keys, sort=False)["total"].first()
    np.testing.assert_allclose([ends[row] for row in sorted(ends)], totals)


def test_many_models_are_marks_in_a_row_per_method(made_up_rows):
    frame = reports.anatomy_frame(made_up_rows)
    frame = frame[frame["bound"] == "r0:product"]
    many = pd.concat([frame.assign(seed=frame["seed"] + 3 * copy) for copy in range(3)])
    axes = reports.anatomy_figure(many).axes[0]
    assert len(axes.patches) == 0
    assert len(axes.get_yticks()) == 7


def test_shift_figure_starts_at_the_unshifted_control(made_up_rows):
    frame = reports.shift_frame(made_up_rows)
    figure = reports.shift_figure(frame, "rotation", looks(LABELS))
    curves = [line for line in lines_of(figure) if len(line.get_xdata()) == 4]
    assert len(curves) == 6
    control = frame[frame["shift"] == "none"].set_index("label")["mean"]
    starts = sorted(float(line.get_ydata()[0]) for line in curves)
    np.testing.assert_allclose(starts, sorted(100 * control))


def test_heuristic_value_is_drawn_dotted_where_it_fits_and_named_where_not(made_up_rows):
    frame, bounds = reports.shift_frame(made_up_rows), reports.bound_frame(made_up_rows)
    high = bounds[(bounds["bound"] == "ben_david") & (bounds["shift"] == "blur")]
    off = reports.shift_figure(frame, "blur", looks(LABELS), heuristic=high)
    assert "heuristic" in off.axes[0].get_title(loc="left")
    assert not [line for line in lines_of(off) if line.get_linestyle() == ":"]
    low = high.assign(value=0.05)
    fits = reports.shift_figure(frame, "blur", looks(LABELS), heuristic=low)
    assert len([line for line in lines_of(fits) if line.get_linestyle() == ":"]) == 6
    assert fits.axes[0].get_title(loc="left") == "dotted: Ben-David value (heuristic)"


def test_certificates_under_a_shift_are_ticks_and_their_band_dashed_edges(made_up_rows):
    frame, bounds = reports.shift_frame(made_up_rows), reports.bound_frame(made_up_rows)
    product = bounds[(bounds["bound"] == "r0:product") & (bounds["label"] == "pefll")]
    each = [
        product.assign(shift="blur", severity=severity, value=value, vacuous=False, together=held)
        for severity in (0.5, 1.0)
        for value, held in ((0.3, False), (0.4, True))
    ]
    certified = pd.concat(each, ignore_index=True)
    certified.loc[certified["seed"] == 1, "value"] += 0.05
    terms = reports.anatomy_frame(made_up_rows)
    terms = terms[(terms["bound"] == "ben_david") & (terms["shift"] == "blur")]
    figure = reports.shift_figure(frame, "blur", looks(LABELS), certified=certified, terms=terms)
    upper, lower = figure.axes
    dashed = [line for line in upper.get_lines() if line.get_linewidth() == 0.9]
    assert [list(line.get_ydata()) for line in dashed] == [[40.0, 40.0], [45.0, 45.0]]
    ticks = [line for line in upper.get_lines() if line.get_marker() == "_"]
    assert sorted(ticks[0].get_ydata()) == [30.0] * 4 + [35.0] * 2
    assert upper.get_ylim()[1] > 45
    assert lower.get_yscale() == "log"
    assert len(lower.get_legend().get_texts()) == terms["term"].nunique() == 4
    none = certified.assign(vacuous=True)
    plain = reports.shift_figure(frame, "blur", looks(LABELS), certified=none).axes[0]
    assert not [line for line in plain.get_lines() if line.get_marker() == "_"]


def test_shift_without_severity_stands_beside_the_control(made_up_rows):
    frame = reports.shift_frame(made_up_rows)
    bare = frame[frame["shift"].isin(["none", "blur"]) & (frame["severity"] != 0.5)]
    bare = bare.assign(
        severity=np.nan, shift=bare["shift"].where(bare["shift"] == "none", "natural")
    )
    axes = reports.shift_figure(bare, "natural", looks(LABELS)).axes[0]
    assert [text.get_text() for text in axes.get_xticklabels()] == ["unshifted", "natural"]


PEFLL_TABLE = "local fedavg per_fedavg fedrep pfedme knn_per pfedhn pefll"
ODPFL_TABLE = "fedavg fedprox fedma pfl_sampled pfl_nearest pfl_ensemble odpfl_hn"


@pytest.mark.parametrize("table", [PEFLL_TABLE, ODPFL_TABLE])
def test_methods_that_a_table_of_a_paper_compares_have_colours_of_their_own(table):
    found = looks(table.split())
    assert len({look.colour for look in found.values()}) == len(found)


def test_groups_on_top_of_each_other_are_one():
    distances = [0.0] * 4 + [0.66, 0.66, 0.67, 0.67, 0.68, 0.68]
    middle = binned(pd.DataFrame({"distance": distances, "error": range(10)}))
    assert middle["distance"].tolist() == pytest.approx([0.0, 0.67])
    assert middle["error"].tolist() == pytest.approx([1.5, 6.5])


def test_binned_means_keep_the_overall_mean(made_up_rows):
    frame = reports.diagnostics_frame(made_up_rows)
    part = frame[(frame["metric"] == "label_kl") & (frame["label"] == "pefll")]
    middle = binned(part)
    assert 1 <= len(middle) <= 5
    assert middle["distance"].is_monotonic_increasing
    constant = binned(part.assign(distance=1.0))
    assert constant["error"].tolist() == pytest.approx([part["error"].mean()])


FIGURES = sorted(
    name
    for path in (Path(__file__).resolve().parents[3] / "reports").rglob("*.py")
    for name in re.findall(r"^def ([a-z]\w*)_figure\(", path.read_text("utf-8"), re.MULTILINE)
)


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_is_public_and_has_a_frame(name):
    assert callable(getattr(reports, f"{name}_frame"))
    assert callable(getattr(reports, f"{name}_figure"))


def test_no_line_crosses_the_words_of_a_narrow_gap_figure(made_up_rows):
    figure = reports.gap_figure(reports.gap_frame(made_up_rows), looks(LABELS), width=NARROW)
    (axes,) = figure.axes
    at_zero = [one.get_segments()[0][:, 1] for one in axes.collections]
    assert len(at_zero) == len(axes.texts) / 2
    assert not any(list(line.get_xdata()) == [0, 0] for line in axes.lines)
    for bottom in (text.get_position()[1] for text in axes.texts):
        top = bottom - 0.3  # the axis points down
        assert not any(min(ends) < bottom and max(ends) > top for ends in at_zero)


def test_rounds_are_whole_however_few():
    frame = pd.DataFrame({"label": "pefll", "seed": 0, "round": [1, 2], "loss": [0.5, 0.4]})
    panel = draw_losses(frame, looks(["pefll"])).axes[0]
    assert [tick for tick in panel.get_xticks() if 1 <= tick <= 2] == [1, 2]


def test_figures_leave_matplotlib_alone(made_up_rows):
    before = dict(mpl.rcParams)
    figure = reports.gap_figure(reports.gap_frame(made_up_rows), looks(LABELS), width=NARROW)
    svg_of(figure)
    assert dict(mpl.rcParams) == before


def test_inline_svg_belongs_to_the_page(made_up_rows):
    figure = reports.gap_figure(reports.gap_frame(made_up_rows), looks(LABELS))
    svg = svg_of(figure)
    inline = svg_inline(svg, name="gap")
    assert "currentColor" in inline
    assert INK not in inline
    assert "<style" not in inline
    assert "<metadata" not in inline
    ids = re.findall(r'\bid="([^"]+)"', inline)
    assert ids
    assert all(name.startswith("gap-") for name in ids)
    assert 'fill="white"' in svg_file(svg)
    assert svg_of(figure) == svg
    assert paper_file(figure, "png") == paper_file(figure, "png")


def test_wide_and_narrow_are_two_layouts(made_up_rows):
    frame = reports.gap_frame(made_up_rows)
    sizes = [tuple(reports.gap_figure(frame, looks(LABELS), width=w).get_size_inches())
             for w in (7.2, NARROW)]  # fmt: skip
    assert all(one != other for one, other in combinations(sizes, 2))
    # A phone shows 360 points about one to one: letters must not be drawn for a wider page.
    figure = reports.gap_figure(frame, looks(LABELS), width=NARROW)
    svg_of(figure)
    box = figure.get_tightbbox()
    assert box.width <= NARROW + 0.05


def test_pdf_holds_truetype_letters_and_leaves_fonttools_alone(made_up_rows):
    before = list(subset.Options().drop_tables)
    figure = reports.gap_figure(reports.gap_frame(made_up_rows), looks(LABELS))
    data = paper_file(figure, "pdf")
    assert b"/FontFile2" in data
    assert b"/Type3" not in data
    assert subset.Options().drop_tables == before


def test_training_losses_are_on_record_of_every_run_and_thinned_to_means():
    run = kept_run("people")
    frame = training_losses(run)
    assert set(frame["label"]) == {
        *("local", "fedavg", "fedavg_ft", "ditto", "pefll", "pfedhn", "glmm")
    }
    own = frame[(frame["label"] == "fedavg") & (frame["seed"] == 1)]
    (cell,) = (
        one
        for one in run.cells
        if (one.config.get("method") or {}).get("label") == "fedavg" and one.config["seed"] == 1
    )
    lines = (cell.path / "progress.jsonl").read_text().splitlines()
    told = [json.loads(line)["loss"] for line in lines]
    assert list(own["loss"]) == told
    assert list(own["round"]) == [*range(1, 61)]
    figure = draw_losses(frame, looks(list(frame["label"].unique())), width=NARROW)
    assert [len(axes.lines) for axes in figure.axes if axes.get_visible()] == [3] * 7


def test_long_trainings_become_means_over_equal_stretches(tmp_path):
    lines = [json.dumps({"round": n, "loss": float(n)}) for n in range(1000)]
    torn = ['{"message": "a note"}', *lines, '{"round": 1000, "lo']
    (tmp_path / "progress.jsonl").write_text("\n".join(torn))
    cell = CellRecord("c", tmp_path, "done", {"method": {"label": "a"}, "seed": 0}, {}, "")
    assert len(cell.losses()) == 1000
    run = RunRecord(tmp_path, {}, {}, pd.DataFrame(), (), (cell,))
    frame = training_losses(run)
    assert list(frame["round"]) == [*range(10, 1001, 10)]
    assert frame["loss"].iloc[0] == 4.5
