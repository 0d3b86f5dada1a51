"""The study of populations that shift: what it may ask, and what it leaves behind."""

import re
from functools import partial

import numpy as np
import pytest

from latecomer.bounds.shift.balls import ball_mixture
from latecomer.certify.words import DASH
from latecomer.errors import InputError
from latecomer.eval.datasets import load_dataset
from latecomer.eval.results.rows import load_run
from latecomer.eval.runs.runner import run
from latecomer.eval.splits.build import split_of
from latecomer.eval.splits.kinds.independent import dirichlet_distances, distances
from latecomer.eval.studies.checking import parse_study
from latecomer.eval.studies.loading import load_study
from latecomer.reports.display.section import Material
from latecomer.reports.frames.bounds import population_curves, population_points
from latecomer.reports.guarantees.next_population import (
    measured_frame,
    measured_table,
    population_plot,
)

SMALL = [
    "methods=[fedavg]",
    "split.types=[[0, 1], [2, 3, 4, 5, 6, 7, 8, 9]]",
    "split.weights=[0.75, 0.25]",
    "shifts.type_weights=[[0.5, 0.5], [0.0, 1.0]]",
    "split.clients=30",
    "train.rounds=1",
]


@pytest.fixture(scope="module")
def left(tmp_path_factory, here):
    out = tmp_path_factory.mktemp("run") / "out"
    study = load_study("population-shift", SMALL, scale="smoke")
    assert run(study, out=out, executor=here).n_failed == 0
    return load_run(out)


@pytest.mark.slow
def test_distances_of_populations_stand_in_rows(left):
    told = left.rows[left.rows["metric"] == "population_distance"]
    assert set(told["shift"]) == {"type_weights"}
    for weights in ([0.5, 0.5], [0.0, 1.0]):
        away = distances([0.75, 0.25], weights)
        own = told[np.isclose(told["severity"], away["kl"], rtol=1e-15)]
        assert dict(zip(own["term"], own["value"], strict=True)) == pytest.approx(away)
    errors = left.rows[(left.rows["metric"] == "error") & (left.rows["client"] != "")]
    moved = errors[errors["shift"] == "type_weights"].groupby("severity")["client"].nunique()
    assert moved.tolist() == [10, 10]
    assert set(moved.index) == set(told["severity"])


@pytest.mark.slow
def test_dirichlet_populations_stand_at_their_distances(tmp_path, here):
    laws = [[1.0] * 10, [0.2] * 10]
    small = ["methods=[fedavg]", f"shifts.concentrations={laws}", "split.clients=30"]
    small += ["train.rounds=1"]
    study = load_study("population-shift", small, scale="smoke", variants=["dirichlet"])
    assert run(study, out=tmp_path / "out", executor=here).n_failed == 0
    run_ = load_run(tmp_path / "out")
    told = run_.rows[run_.rows["metric"] == "population_distance"]
    for law in laws:
        away = dirichlet_distances([0.4] * 10, law)
        own = told[np.isclose(told["severity"], away["kl"], rtol=1e-12)]
        assert dict(zip(own["term"], own["value"], strict=True)) == pytest.approx(away)
    material = Material.of(run_)
    points = population_points(material.rows)
    assert points["chi2"].isna().tolist() == [False, False, True]
    assert points["subgroup"].isna().tolist() == [False, False, True]
    frame = measured_frame(population_curves(material.tables("population_curve")), points)
    assert frame["certified_chi2"].notna().tolist() == [True, True, False]
    table = measured_table(frame).shown
    assert table["chi2(Q || P)"].tolist()[-1] == table["certified, chi2"].tolist()[-1] == DASH
    assert population_plot(material, "next-population").draw(width=6.0).axes


def test_certificates_are_of_the_certification_clients_errors(left):
    rows = left.rows
    scores = rows[(rows["group"] == "certification") & (rows["metric"] == "error")]
    scores = scores[(scores["client"] != "")]["value"].to_numpy(float)
    told = rows[(rows["metric"] == "certified_population") & (rows["term"] == "")]
    assert len(told) == 12
    assert set(told["sampling"]) == {"iid"}
    assert told["rigorous"].all()
    by_bound = told.set_index("bound")["value"]
    for ball, rule, radius in (("kl", "kl_ball", 0.1), ("subgroup", "subgroup", 0.2)):
        found = ball_mixture(losses=np.sort(scores), radius=radius, delta=0.05, ball=ball)
        assert by_bound[f"r0:{rule}@{radius:g}"] == pytest.approx(float(found), abs=1e-12)


def asked(*variants, **changed):
    plain = load_study("population-shift", variants=variants).resolved()
    return parse_study({**plain, **changed})


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        ([[0.5, 0.5]], "shifts.type_weights.0 must list one weight a type (6), got 2"),
        ([[0.5, 0.6, 0, 0, 0, 0]], "that sum to 1, got [0.5, 0.6,"),
        ([[1.5, -0.5, 0, 0, 0, 0]], "weights of at least 0"),
        ([[1.0, 0, 0, 0, 0, 0], [0, 1.0, 0, 0, 0, 0]], "differ in its KL divergence"),
        ([["a"]], "shifts.type_weights.0.0: must be a valid number"),
    ],
)
def test_mistakes_are_said_in_one_line(weights, said):
    with pytest.raises(InputError, match=re.escape(said)):
        asked(shifts={"type_weights": weights})


def test_concentrations_are_checked_before_any_work():
    dirichlet = partial(asked, "dirichlet")
    for laws, said in (
        ([[1.0] * 9], "shifts.concentrations.0 must list one number a class (10), got 9"),
        ([[0.5] * 10, [0.5] * 10], "differ in its KL divergence"),
        ([[-1.0] * 10], "must list numbers from 0.001 to 1e+06, got -1"),
    ):
        with pytest.raises(InputError, match=re.escape(said)):
            dirichlet(shifts={"concentrations": laws})
    with pytest.raises(InputError, match=r"needs split\.kind client_types, got client_mixtures"):
        dirichlet(shifts={"type_weights": [[0.5, 0.5]]})
    split = split_of(load_dataset({"name": "digits"}), dirichlet().split)
    for route, said in (("r2", "hold a random number"), ("r3", "unequally many classes")):
        entry = dirichlet(certificates=[{"route": route}]).certificates[0]
        with pytest.raises(InputError, match=said):
            entry.check_split("certificates.0", split)


def test_other_populations_need_types_and_are_certified_by_nobody_else():
    split = {"kind": "environment", "clients": 60, "certify": 12, "novel": 12}
    with pytest.raises(InputError, match=r"needs split\.kind client_types, got environment"):
        asked(split={**split, "classes_per_client": 2})
    entry = {"route": "r0", "rule": "product", "shifts": ["type_weights"]}
    with pytest.raises(InputError, match="draws other clients"):
        asked(certificates=[entry])


def test_route_r3_needs_as_many_classes_of_every_client():
    study = asked(certificates=[{"route": "r3", "measured": 2}])
    split = split_of(load_dataset({"name": "digits"}), study.split)
    with pytest.raises(InputError, match="unequally many classes"):
        study.certificates[0].check_split("certificates.0", split)


def test_cells_of_studies_without_it_say_nothing_of_it():
    quick = load_study("quickstart").resolved()
    assert "type_weights" not in quick["shifts"]
    assert not {"radii", "shares", "target"} & {key for c in quick["certificates"] for key in c}
