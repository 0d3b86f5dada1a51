"""What a new client's model takes stands beside its accuracy, from the study's settings."""

from dataclasses import replace

from sketches import kept, kept_run

from latecomer.reports.accuracy.errors import accuracy_table, answer_accuracy
from latecomer.reports.display.section import Material
from latecomer.reports.frames.errors import serving_steps


def test_settings_of_the_study_count_and_defaults_where_it_names_none() -> None:
    run = kept_run("pefll-table1-local-200-epochs")
    assert serving_steps(run.rows, run.study["methods"]) == {"local": 2600}
    assert serving_steps(run.rows) == {"local": 2000}
    fine = kept_run("pefll-table1-per-fedavg")
    assert serving_steps(fine.rows, fine.study["methods"]) == {"per_fedavg": 10}


def test_rounds_count_their_steps_and_models_made_or_shared_take_none() -> None:
    material = kept("digits-all-methods")
    steps = material.steps
    assert steps["pfedhn"] == 20 * 5
    assert {steps[name] for name in ("pefll", "pefll-stochastic", "fedavg", "odpfl_hn")} == {0}
    table, answer = accuracy_table(material), answer_accuracy(material)
    assert table is not None
    assert answer is not None
    for shown in (table.shown, answer.table.shown):
        told = dict(zip(shown.iloc[:, 0], shown["serving steps"], strict=True))
        assert (told["pFedHN"], told["PeFLL"], told["FedRep"]) == ("100", "0", "260")


def test_what_a_method_from_outside_takes_is_not_known_unless_it_trains_nothing() -> None:
    run = kept_run("pefll-table1-per-fedavg")
    named = run.rows["method"].where(run.rows["method"] == "", "their.module:Method")
    outside = run.rows.assign(method=named)
    assert serving_steps(outside, run.study["methods"]) == {}
    made = outside.assign(personalization="forward")
    assert serving_steps(made, run.study["methods"]) == {"per_fedavg": 0}
    material = Material.of(replace(run, rows=outside))
    table = accuracy_table(material)
    assert table is not None
    assert "serving steps" not in table.shown
