"""Frames and figures about other data, class maps, and shares of badly served clients."""

import math
from unittest import mock

import numpy as np
import pytest

from latecomer import reports
from latecomer.bounds import product_wor
from latecomer.eval.results.rows import make_row
from latecomer.eval.routes.contract import price_rows
from latecomer.reports.accuracy.training import describe_training
from latecomer.reports.clients.distances import describe_classes, distance_caption
from latecomer.reports.display.drawing import looks
from latecomer.reports.display.section import Material
from latecomer.reports.frames.bounds import bound_frame
from latecomer.reports.frames.errors import client_errors, dealt_shifts
from latecomer.reports.guarantees.distribution import (
    DISTRIBUTION,
    PRICES,
    SHARES,
    curve_frame,
    describe_distribution,
    fraction_table,
    price_table,
)
from latecomer.reports.guarantees.next_population import NEXT_POPULATION
from latecomer.reports.page.questions import answers_by_method, shift_answers
from latecomer.reports.shift.answer import answer_shift, effect_table, lacks_table
from latecomer.reports.shift.curves import severity_places, shift_caption, shift_table

CERTIFIED = {"label": "pefll", "method": "pefll", "cell": "pefll0", "group": "certification",
             "shift": "none", "n_clients": 30}  # fmt: skip


def error(client, value, shift="none", seed=0, group="novel", label="pefll", **more):
    own = {"predictor": "deterministic", **more}
    return make_row(label=label, method="pefll", seed=seed, group=group, client=client, shift=shift,
                    metric="error", value=value, n_query=10, cell=f"{label}{seed}", status="done",
                    **own)  # fmt: skip


@pytest.fixture
def other_data(read):
    rows = [error(i, 0.1) for i in (7, 8, 9)]
    for seed in (0, 1):
        # Client 9 could not be filled: it is under neither the shift nor its control.
        rows += [error(i, 0.5 + 0.1 * seed, "natural", seed) for i in (7, 8)]
        rows += [error(i, 0.1 * (i - 6), "natural-control", seed) for i in (7, 8)]
    lack = {"metric": "samples_missing", "message": "no counterpart of class 6"}
    rows.append(make_row(cell="split", group="novel", shift="natural", client=9, value=12, **lack))
    return read(rows)


def test_effect_is_paired_with_the_control_client_by_client(other_data):
    frame = reports.effect_frame(other_data)
    one = frame.iloc[0]
    assert len(frame) == 1
    assert (one["shift"], one["n_clients"], one["n_seeds"]) == ("natural", 2, 2)
    # Seed 0: 0.4, 0.3; seed 1: 0.5, 0.4.
    assert one["effect"] == pytest.approx(0.4)
    assert one["sd_seeds"] == pytest.approx(np.std([0.35, 0.45], ddof=1))
    half = 12.7062 * np.std([0.45, 0.35], ddof=1) / np.sqrt(2)
    assert (one["lower"], one["upper"]) == pytest.approx((0.4 - half, 0.4 + half), abs=1e-4)
    table = effect_table(frame, ["pefll"])
    assert table.shown["effect (points)"].item().startswith("+40.0")


def test_answers_judge_a_shift_where_it_is_strongest_and_other_data_by_their_control(read):
    rows = [
        error(i, value, label=label) for i in (7, 8) for label, value in (("a", 0.1), ("b", 0.2))
    ]
    rows += [
        error(i, value, shift, label=label, **more)
        for i in (7, 8)
        for label, shift, value, more in (
            ("a", "blur", 0.9, {"severity": 1.0}), ("b", "blur", 0.9, {"severity": 1.0}),
            ("a", "blur", 0.6, {"severity": 2.0}), ("b", "blur", 0.5, {"severity": 2.0}),
            ("a", "contrast", 0.4, {"severity": 0.2}), ("a", "contrast", 0.1, {"severity": 1.0}),
            ("a", "natural", 0.5, {}), ("a", "natural-control", 0.3, {}),
        )
    ]  # fmt: skip
    blur, contrast, natural = shift_answers(reports.shift_frame(read(rows)))
    assert blur == ("Blur 2: errors from 50.0% to 60.0%; against no shift, +30.0 to +50.0 points.")
    assert contrast == "Contrast 0.2: a has 40.0% error; against no shift, +30.0 points."
    assert natural == "Natural: a has 50.0% error; against the control, +20.0 points."


def test_clients_that_a_shift_deals_are_not_called_those_without_shift(read):
    rows = [error(client, 0.1) for client in (7, 8)]
    rows += [error(client, 0.2, "blur", severity=1.0) for client in (7, 8)]
    rows += [error(c, 0.4, "extrapolation", severity=s) for c in (10, 11) for s in (0.1, 1.0)]
    errors = client_errors(read(rows))
    dealt = dealt_shifts(errors)
    assert dealt == ("extrapolation",)
    frame = reports.shift_frame(errors)
    _, told = shift_answers(frame, dealt)
    assert "against other clients without shift, +30.0 points" in told
    assert shift_caption(frame, "extrapolation", dealt) == (
        "2 clients at each severity, others every time and others than those unshifted, 1 seed."
    )
    # Those of two severities have the same names.
    marks = errors.assign(n_seeds=1)
    said = distance_caption(marks, dealt)
    assert said == "2 new clients and 4 others under extrapolation, 1 seed."
    assert "other clients are served" in shift_table(frame, ["pefll"], dealt).caption
    answer = answer_shift(Material(mock.Mock(rows=read(rows)), read(rows), ["pefll"], {}))
    assert "over 2 clients (others under extrapolation)" in answer.sentence
    assert "extrapolation: of other clients" in answer.table.caption


def test_a_model_without_a_start_has_a_curve_and_no_loss(read):
    """And where one model alone has a start, its errors are its own, by whatever predictor."""
    rows = [error(client, 0.1, label="b") for client in (7, 8)]
    rows += [error(client, 0.15, label="b", predictor="gibbs") for client in (7, 8)]
    rows += [
        error(client, value, "blur", severity=1.0, label=label, predictor=predictor)
        for label, value, predictor in (("a", 0.9, "gibbs"), ("b", 0.3, "deterministic"))
        for client in (7, 8)
    ]
    made = Material(mock.Mock(rows=read(rows)), read(rows), ["a", "b"], {})
    answer = answer_shift(made)
    assert answer.sentence.startswith("b: +20.0 points of error lost under blur 1")
    assert "blur 1 a 90.0%" in answer.figures[0].alt
    assert shift_answers(made.shifts) == [
        "Blur 1: b has 30.0% error; against no shift, +20.0 points."
    ]


def test_two_predictors_of_a_label_are_told_apart_where_none_has_fixed_weights(read):
    both = [
        error(client, value, *shift, predictor=predictor)
        for client in (7, 8)
        for predictor, value in (("gibbs", 0.1), ("prior", 0.2))
        for shift in ((), ("blur",))
    ]
    rows = read([{**row, "severity": 1.0 if row["shift"] == "blur" else ""} for row in both])
    told = answers_by_method(reports.accuracy_frame(rows), bound_frame(rows))
    assert [one["subject"] for one in told] == [
        "PeFLL, random weights,", "PeFLL, before its tuning,"
    ]  # fmt: skip
    (said,) = shift_answers(reports.shift_frame(rows))
    assert said == "Blur 1: errors from 10.0% to 20.0%; against no shift, 0.0 to 0.0 points."


def test_samples_missing_are_listed_once_per_client(other_data):
    frame = reports.lacks_frame(other_data)
    assert frame[["client", "n_missing"]].to_numpy().tolist() == [["9", 12.0]]
    assert "no counterpart" in lacks_table(frame).shown["why"].item()


def test_control_stands_before_the_other_data_and_is_named(other_data):
    frame = reports.shift_frame(other_data)
    assert severity_places(frame, "natural") == {"": 0.0, "-control": 1.0, "nan": 2.0}
    axes = reports.shift_figure(frame, "natural", looks(["pefll"])).axes[0]
    words = [text.get_text() for text in axes.get_xticklabels()]
    assert words == ["unshifted", "control", "natural"]
    dashed = [line for line in axes.get_lines() if list(line.get_xdata()) == [1.0, 2.0]]
    assert list(dashed[0].get_ydata()) == pytest.approx([15.0, 55.0])
    assert "refilled" in shift_caption(frame, "natural")
    alone = frame[frame["shift"] != "natural-control"]
    assert shift_caption(alone, "natural") == "2 new clients, 2 seeds."


COUNTS = [
    {"client": 3, "group": "novel", "class_0": 0, "class_1": 6, "class_2": 2},
    {"client": 1, "group": "seen", "class_0": 0, "class_1": 0, "class_2": 4},
    {"client": 2, "group": "seen", "class_0": 5, "class_1": 5, "class_2": 0},
]


def test_classes_are_shares_of_a_client_in_order_of_groups():
    frame = reports.class_frame(COUNTS)
    assert frame["client"].tolist() == [2, 2, 2, 1, 1, 1, 3, 3, 3]
    assert frame.groupby("client")["share"].sum().tolist() == pytest.approx([1, 1, 1])
    assert frame[frame["client"] == 3]["n"].tolist() == [0, 6, 2]
    assert "2 seen clients, 1 new client" in describe_classes(frame)
    assert "1 to 2 classes" in describe_classes(frame)
    assert "Map of 1 class by" in describe_classes(frame[frame["class"] == 0])
    assert reports.class_frame([]).empty


def test_class_map_draws_an_even_choice_of_many_clients():
    many = [{"client": i, "group": "seen", "class_0": 1, "class_1": i} for i in range(1000)]
    axes = reports.class_figure(reports.class_frame(many)).axes[0]
    assert "one in 4 drawn" in axes.get_xlabel()


def test_distribution_is_the_share_of_measurements_above_each_level(read):
    values = [0.0, 0.0, 0.2, 0.4]
    rows = read([error(i, value) for i, value in enumerate(values)])
    frame = reports.error_distribution_frame(rows)
    for level in (0.0, 0.1, 0.2, 0.3, 0.4, 1.0):
        share = frame.loc[frame["level"] <= level, "share"].iloc[-1]
        assert share == pytest.approx(np.mean(np.array(values) > level))
    assert set(frame["n_clients"]) == {4}
    assert "50% and 50%" in describe_distribution(frame, None)


def test_distribution_of_many_models_has_eight_panels_and_a_band_where_certified(read):
    rows = read([error(i, 0.1 * k * (i % 2), label=f"m{k}") for k in range(10) for i in range(4)])
    frame = reports.error_distribution_frame(rows)
    step = {"bound": "r0:error_curve", "shift": "none", "severity": "", "sampling": "iid",
            "predictor": "deterministic", "delta": 0.05}  # fmt: skip
    curves = curve_frame(
        [("m1", 0, [{**step, "threshold": t, "sampled": 0.5 - t, "upper": 0.9 - t}
                    for t in (0.0, 0.3)])]
    )  # fmt: skip
    assert curves["level"].tolist() == [0.0, 0.3]
    figure = reports.error_distribution_figure(frame, looks(list(set(frame["label"]))), band=curves)
    panels = [axes for axes in figure.axes if axes.get_visible()]
    assert [axes.get_title(loc="left") for axes in panels] == [f"m{k}" for k in range(8)]
    certified = panels[1].get_lines()[0]
    assert max(certified.get_ydata()) == pytest.approx(90.0)


def test_certified_fractions_stand_beside_the_novel_clients_share(read):
    rows = [error(i, value) for i, value in enumerate([0.0, 0.3, 0.5, 0.1])]
    told = {**CERTIFIED, "predictor": "deterministic", "seed": 0, "metric": "certified_fraction",
            "bound": "r0:fraction_above@0.2", "delta": 0.025}  # fmt: skip
    rows += [make_row(**told, value=0.61), make_row(**told, term="price", value=0.2)]
    frame = reports.fraction_frame(read(rows))
    assert len(frame) == 1
    one = frame.iloc[0]
    assert (one["threshold"], one["value"], one["measured"], one["n_novel"]) == (0.2, 0.61, 0.5, 4)
    cells = fraction_table(frame, ["pefll"]).shown.iloc[0]
    assert cells["with probability"] == "97.5%"


def test_prices_are_a_row_per_certificate_with_references_side_by_side(read):
    told = {**CERTIFIED, "predictor": "deterministic", "metric": "certificate_price",
            "bound": "r0:product", "delta": 0.05}  # fmt: skip
    rows = [
        make_row(**told, seed=seed, term=term, value=value + 0.01 * seed)
        for seed in (0, 1) for term, value in (("paid", 0.09), ("reference", 0.08))
    ]  # fmt: skip
    frame = reports.price_frame(read(rows))
    assert frame["paid"].tolist() == pytest.approx([0.09, 0.10])
    assert frame["reference_pool"].isna().all()
    cells = price_table(frame, ["pefll"]).shown.iloc[0]
    assert (cells["margin (points)"], cells["seeds"]) == ("9.0 to 10.0", "2")


@pytest.mark.parametrize("mean", [0.1, 0.5, 0.8])
def test_a_pool_s_reference_is_a_price_that_equal_scores_do_not_undercut(read, mean):
    """Of 40 clients 30 were scored, all with the same error; rows hold a share, not a price."""
    issued = product_wor(losses=[mean] * 30, delta=0.05, pool_size=40)
    common = {**CERTIFIED, "seed": 0}
    rows = price_rows(issued, bound="r0:product_wor", common=common, pool_size=40)
    (found,) = reports.price_frame(read([make_row(**row) for row in rows])).to_dict("records")
    assert found["reference_pool"] == pytest.approx(2 / 40 * (1 - mean))
    assert found["reference_pool"] < found["paid"] < found["reference_pool"] * 1.2
    assert math.isnan(found["reference"])


def test_frames_of_nothing_are_empty(read):
    rows = read([])
    for frame in ("effect_frame", "lacks_frame", "error_distribution_frame", "fraction_frame",
                  "price_frame"):  # fmt: skip
        assert getattr(reports, frame)(rows).empty
    assert curve_frame([]).empty


def test_training_curves_are_means_over_seeds_by_group():
    def table(shift):
        return [
            {"round": r, "group": g, "n_clients": 5, "error": e + shift, "loss": 1.0, "kept": 0}
            for r in (5, 10) for g, e in (("seen", 0.1), ("novel", 0.2), ("validation", 0.3))
        ]  # fmt: skip

    frame = reports.training_frame([("pefll", 0, table(0.0)), ("pefll", 1, table(0.1))])
    assert len(frame) == 12
    lines = reports.training_figure(frame, looks(["pefll"])).axes[0].get_lines()
    ends = sorted(float(line.get_ydata()[-1]) for line in lines)
    assert ends == pytest.approx([15.0, 25.0, 35.0])
    assert "PeFLL novel 25.0% to 25.0%" in describe_training(frame)


DOUBT = "Not proven for these models. Nobody can deal its split again."
ISSUED = {**CERTIFIED, "predictor": "deterministic", "seed": 0, "delta": 0.05}


@pytest.mark.parametrize(
    ("section", "metric", "bound"),
    [
        (SHARES, "certified_fraction", "r0:fraction_above@0.2"),
        (DISTRIBUTION, "error_curve_width", "r0:error_curve"),
        (PRICES, "certificate", "r0:product"),
        (NEXT_POPULATION, "certified_population", "r0:kl_ball@0.1"),
    ],
)
@pytest.mark.parametrize("rigorous", [True, False])
def test_what_is_no_proof_says_so_beside_every_figure_and_table(
    read, section, metric, bound, rigorous
):
    message = "" if rigorous else "nobody can deal its split again"
    told = {**ISSUED, "bound": bound, "rigorous": rigorous, "message": message}
    price = {**ISSUED, "bound": bound, "metric": "certificate_price"}
    rows = read(
        [
            *(error(i, value) for i, value in enumerate([0.0, 0.3, 0.5, 0.1])),
            make_row(**told, metric=metric, value=0.61),
            *(make_row(**price, term=term, value=0.1) for term in ("paid", "reference")),
        ]
    )
    at = {"predictor": "deterministic", "shift": "none", "severity": "", "delta": 0.05}
    curves = {
        "error_curve": {"bound": bound, "threshold": 0.0, "sampled": 0.5, "upper": 0.9},
        "population_curve": {"bound": "r0:kl_ball", "ball": "kl", "radius": 0.1, "value": 0.6},
    }
    material = Material(mock.Mock(rows=rows), rows, ["pefll"], looks(["pefll"]))
    tables = {kind: [("pefll", 0, [{**at, **step}])] for kind, step in curves.items()}
    with mock.patch.object(Material, "tables", lambda _, kind: tables[kind]):
        blocks = [block for block in section.blocks(material) if hasattr(block, "caption")]
    assert blocks
    for block in blocks:
        assert block.caption.startswith(DOUBT) != rigorous, block.name
        assert rigorous or "Certified" not in getattr(block, "title", "")
        if hasattr(block, "alt"):
            assert block.alt.startswith(DOUBT) != rigorous
