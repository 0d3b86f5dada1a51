"""The line under the title: what the numbers are about, and nothing that is not on record."""

from dataclasses import replace

import pytest
from sketches import kept

from latecomer.reports.display.section import Material
from latecomer.reports.page.page import about


@pytest.fixture(scope="module")
def people() -> Material:
    return kept("people")


def test_data_clients_rounds_seeds_and_network_are_named(people: Material) -> None:
    assert about(people).split(" \N{MIDDLE DOT} ") == [
        "verbagg, 5,832 samples, 2 classes",
        "113 clients trained, 70 held out, 60 new (12 + 12 samples each)",
        "60 rounds",
        "3 seeds",
        "network linear",
    ]


def test_what_is_not_on_record_is_left_out(people: Material) -> None:
    bare = replace(people.run, study={}, artifacts=(), rows=people.rows[people.rows["seed"] == 1])
    said = about(Material.of(bare))
    assert said.startswith("verbagg \N{MIDDLE DOT} 113 clients trained")
    assert said.endswith("each) \N{MIDDLE DOT} 1 seed")
    assert about(Material.of(replace(bare, rows=people.rows.iloc[:0]))) == ""


def test_the_network_that_auto_stood_for_is_named(people: Material) -> None:
    study = {**people.run.study, "model": {"target": "auto"}}
    for env, said in (({}, "network auto"), ({"network": "dense"}, "network dense")):
        run = replace(people.run, study=study, env=env)
        assert about(Material.of(run)).endswith(said)


def test_a_network_of_ones_own_is_named_without_its_folder(people: Material) -> None:
    study = {**people.run.study, "model": {"target": "/home/me/net.py:Net"}}
    assert about(Material.of(replace(people.run, study=study))).endswith("network net.py:Net")
