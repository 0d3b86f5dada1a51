"""Figures of what a study measures beside errors: descriptors, mixed bodies, serving."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgba

from latecomer import reports
from latecomer.certify.page.svg import NARROW
from latecomer.eval.results.rows import Artifact, load_run
from latecomer.reports.accuracy import serving
from latecomer.reports.accuracy.serving import serving_summary, serving_table
from latecomer.reports.clients import descriptors, mix_and_match
from latecomer.reports.clients import descriptors as correlation
from latecomer.reports.clients.descriptors import main_superclass, panel_classes
from latecomer.reports.clients.mix_and_match import held_classes, mix_and_match_summary
from latecomer.reports.display.drawing import looks
from latecomer.reports.display.section import Material
from latecomer.reports.frames.errors import cell_artifacts, cell_tables

LABELS = ["local", "fedavg", "per_fedavg", "pfedhn", "pefll", "pefll-stochastic"]
LOOK = looks(LABELS)


@pytest.fixture(scope="module")
def run(made_up_run):
    return load_run(made_up_run)


@pytest.fixture(scope="module")
def places(run):
    return reports.descriptor_frame(cell_artifacts(run, "descriptors"))


def test_every_client_has_one_place_and_its_shares(places):
    assert set(places["label"]) == {"pefll", "pfedhn"}
    assert (places["seed"] == 0).all()
    by = places.groupby(["label", "client"])
    assert (by[["x", "y"]].nunique() == 1).all(axis=None)
    np.testing.assert_allclose(by["share"].sum(), 1.0)
    groups = places.drop_duplicates(["label", "client"]).groupby("label")["group"].value_counts()
    assert groups.to_dict() == {
        ("pefll", "seen"): 36, ("pefll", "novel"): 12, ("pfedhn", "seen"): 36,
    }  # fmt: skip


def test_clients_alike_are_neighbours_in_the_map(places):
    # Made up as noisy mixtures of their classes' vectors: the map must keep that, and say so.
    pefll = descriptors.neighbours_alike(places[places["label"] == "pefll"])
    assert pefll.alike > 2 * pefll.chance > 0
    shuffled = places[places["label"] == "pefll"].copy()
    kinds = shuffled.groupby("client")[["class", "share"]].apply(lambda own: own.to_numpy())
    mixed = dict(zip(kinds.index, np.random.default_rng(0).permutation(list(kinds)), strict=True))
    shuffled["class"] = np.concatenate([mixed[c][:, 0] for c in shuffled["client"].unique()])
    assert descriptors.neighbours_alike(shuffled).alike < pefll.alike - 0.3


def test_map_has_a_panel_a_class_that_marks_its_holders(places):
    figure = reports.descriptor_figure(places, "pefll", LOOK)
    shown = [axes for axes in figure.axes if axes.get_visible()]
    own = places[places["label"] == "pefll"]
    assert len(shown) == len(panel_classes(own)) == 10
    for name, axes in zip(panel_classes(own), shown, strict=True):
        (dots,) = axes.collections
        held = own[own["class"] == name].sort_values("client")
        np.testing.assert_allclose(dots.get_offsets(), held[["x", "y"]])
        assert axes.get_title(loc="left") == f"class {name} ({len(held)})"
        np.testing.assert_allclose(dots.get_facecolor()[0], to_rgba(LOOK["pefll"].colour))


def test_map_is_coloured_by_superclass_where_there_are_some(places):
    own = places[places["label"] == "pfedhn"]
    (axes,) = reports.descriptor_figure(places, "pfedhn", LOOK).axes
    names = [line.get_label() for line in axes.get_lines()][:-1]
    kinds = sorted(main_superclass(own)["superclass"].unique())
    assert names == [f"{kind:.0f}" for kind in kinds]
    assert len(names) >= 4
    drawn = sum(len(line.get_xdata()) for line in axes.get_lines()[:-1])
    assert drawn == len(main_superclass(own)) == 36


def test_superclass_is_the_one_of_largest_share():
    own = pd.DataFrame(
        {"group": "seen", "client": [1, 1, 1, 2], "x": 0.0, "y": 0.0, "class": [0, 1, 2, 1],
         "share": [0.4, 0.3, 0.3, 1.0], "superclass": [0.0, 1.0, 1.0, 1.0]}
    )  # fmt: skip
    assert main_superclass(own)["superclass"].tolist() == [1.0, 1.0]


def map_of(descriptors, seed):
    n = len(descriptors)
    artifact = Artifact(
        kind="descriptors", ids={"client": list(range(n))},
        arrays={"descriptor": descriptors, "class_proportions": np.eye(n),
                "novel": np.zeros(n, bool)},
    )  # fmt: skip
    return reports.descriptor_frame([("pefll", seed, artifact)])


@pytest.mark.parametrize("descriptors", [np.ones((9, 3)), np.eye(3)], ids=["alike", "few"])
def test_what_has_no_map_is_left_out(descriptors):
    assert map_of(descriptors, 0).empty


def test_descriptors_of_one_entry_have_a_map():
    frame = map_of(np.arange(8.0)[:, None] * 1e-6, 3)
    assert np.isfinite(frame[["x", "y"]]).all(axis=None)
    assert frame["seed"].unique().tolist() == [3]


def test_correlation_along_the_training_starts_and_ends_where_measured(run):
    frame = reports.correlation_frame(cell_tables(run, "training_curve"))
    assert set(frame["label"]) == {"pefll"}
    assert len(frame) == 9  # three rounds, three seeds, novel clients only
    (line,) = [
        line for line in reports.correlation_figure(frame, LOOK).axes[0].get_lines()
        if len(line.get_xdata()) == 3
    ]  # fmt: skip
    np.testing.assert_allclose(line.get_ydata(), [0.5, 0.7, 0.9 - 20 / 150])
    assert "0.50 to 0.77" in correlation.describe_correlation(frame)


def test_agreement_has_its_interval_over_clients_and_sd_over_seeds(made_up_rows):
    (row,) = reports.agreement_frame(made_up_rows).to_dict("records")
    assert (row["label"], row["n_clients"], row["n_seeds"]) == ("pefll", 12, 3)
    clients = np.array([0.72 + 0.01 * (client % 5) for client in range(48, 60)])
    assert row["spearman"] == pytest.approx(clients.mean())
    assert row["sd_seeds"] == pytest.approx(0.02)
    half = 2.200985 * clients.std(ddof=1) / np.sqrt(12)  # t quantile at 0.975, 11 degrees
    assert row["upper"] - row["spearman"] == pytest.approx(half, rel=1e-5)


def test_mixed_bodies_keep_rows_columns_and_flat_rows(run):
    frame = reports.mix_and_match_frame(cell_artifacts(run, "mix_and_match"))
    assert len(frame) == 3 * 100
    one = frame[frame["seed"] == 0].set_index(["head", "body"])
    stored = next(a for label, s, a in cell_artifacts(run, "mix_and_match") if s == 0)
    assert one.loc[(2, 7), "accuracy"] == stored.arrays["accuracy"][2, 7]
    assert one.loc[3, "normalised"].isna().all()
    figure = reports.mix_and_match_figure(frame, "pfedhn", classes=held_classes(run))
    axes = figure.axes[0]
    assert len(axes.texts) == 90  # no number where all bodies do alike
    assert [text.get_text() for text in axes.get_yticklabels()][:2] == ["0: 0, 3", "1: 1, 4"]
    cells = axes.collections[0].get_array().reshape(10, 10)
    expected = frame.groupby(["head", "body"])["normalised"].mean().unstack()
    np.testing.assert_allclose(cells.filled(np.nan), expected)
    assert "Empty: 3 rows" in mix_and_match.mix_caption(frame, "pfedhn")


def test_summary_of_mixed_bodies():
    accuracy = [0.9, 0.5, 0.8, 0.6]
    frame = pd.DataFrame(
        {"label": "a", "seed": 0, "head": [0, 0, 1, 1], "body": [0, 1, 0, 1], "accuracy": accuracy,
         "normalised": [1.0, 0.0, 1.0, 0.0]}
    )  # fmt: skip
    (row,) = mix_and_match_summary(frame).to_dict("records")
    assert (row["own"], row["others"]) == (pytest.approx(0.75), pytest.approx(0.65))
    assert (row["best"], row["n_clients"]) == (1, 2)


def test_serving_costs_stand_beside_the_same_clients_errors(run):
    frame = reports.serving_frame(cell_tables(run, "serving_cost"), run.rows)
    assert len(frame) == 6 * 3 * 12
    errors = reports.client_errors(run.rows).set_index(
        ["label", "predictor", "seed", "group", "shift", "client"]
    )["error"]
    one = frame[(frame["label"] == "pfedhn") & (frame["seed"] == 1)].set_index("client")["error"]
    assert one["50"] == errors[("pfedhn", "deterministic", 1, "novel", "none", "50")]
    summary = serving_summary(frame).set_index("label")
    assert summary.loc["local", "bytes"] == 0
    assert summary.loc["fedavg", "bytes"] == 90_000
    assert np.isnan(summary.loc["per_fedavg", "bytes"])
    shown = serving_table(frame, LABELS).shown.set_index("method")
    assert shown.loc["Per-FedAvg", "down"] == "\N{EN DASH}"
    assert shown.loc["FedAvg", "down"] == "90 kB"
    assert shown.loc["FedAvg", "clients"] == "12"
    assert "The bytes of Per-FedAvg are not counted." in serving.serving_caption(frame)


@pytest.mark.parametrize("width", [7.2, NARROW])
def test_serving_figure_marks_every_method_where_it_is_known(run, width):
    frame = reports.serving_frame(cell_tables(run, "serving_cost"), run.rows)
    seconds, traffic = reports.serving_figure(frame, LOOK, width=width).axes
    marks = [
        [line for line in axes.get_lines() if len(line.get_xdata()) == 1]
        for axes in (seconds, traffic)
    ]
    assert [len(found) for found in marks] == [6, 5]
    left, right = traffic.get_xlim()
    assert all(left < line.get_xdata()[0] < right for line in marks[1])
    names = [text.get_text() for axes in (seconds, traffic) for text in axes.get_xticklabels()]
    assert "none" in names
    assert not any("$" in name for name in names)


def test_runs_without_measures_show_nothing_of_them(tmp_path, run_writer):
    material = Material.of(load_run(run_writer(tmp_path, labels=("pefll",), seeds=(0,))))
    sections = (descriptors.DESCRIPTORS, mix_and_match.MIX_AND_MATCH, serving.SERVING)
    assert [section.blocks(material) for section in sections] == [[], [], []]
    assert material.cited == []


@pytest.mark.slow
def test_sklearn_is_loaded_only_for_maps():
    import subprocess
    import sys

    code = "import sys, latecomer.reports.clients.descriptors; assert 'sklearn' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
