"""Two runs side by side: settings, errors paired over clients, and what the command prints."""

import json

import pytest
import yaml

from latecomer.commands.run_directories import show_comparison
from latecomer.errors import InputError
from latecomer.reports import compare_runs

SMALL = {"seeds": (0, 1), "labels": ("local", "pefll")}


def worse(rows):
    """Serve pefll's novel clients worse by 4 points where there is room."""
    return [
        {**r, "value": r["value"] + 0.04}
        if (r["label"], r["metric"], r["group"]) == ("pefll", "error", "novel")
        and r["client"] != ""
        else r
        for r in rows
    ]


@pytest.fixture(scope="module")
def two(tmp_path_factory, run_writer):
    folder = tmp_path_factory.mktemp("two")
    first = run_writer(folder / "a", **SMALL)
    study = yaml.safe_load((first / "study.yaml").read_text())
    study["train"]["rounds"] = 300
    study["methods"] = [{"name": "pefll", "label": "pefll", "server_lr": 0.1}, "local", "fedprox"]
    second = run_writer(folder / "b", change=worse, study=study, **SMALL)
    elsewhere = {**study, "split": {**study["split"], "seed": 5}}
    third = run_writer(folder / "c", change=worse, study=elsewhere, **SMALL)
    return first, second, third


@pytest.mark.slow
def test_settings_are_compared_by_label_whatever_their_order(two):
    settings = compare_runs(two[0], two[1])["settings"].set_index("setting")
    assert settings.loc["train.rounds"].tolist() == ["150", "300"]
    assert settings.loc["methods.fedprox"].tolist() == ["", "fedprox"]
    assert settings.loc["methods.pefll.server_lr"].tolist() == ["", "0.1"]
    assert not settings.index.str.startswith("methods.local").any()
    assert not settings.index.str.startswith("split").any()
    assert compare_runs(two[0], two[0])["settings"].empty


def test_differences_are_paired_by_seed_and_over_seeds(two):
    found = compare_runs(two[0], two[1])
    assert found["paired"]
    frame = found["differences"]
    novel = frame[(frame["group"] == "novel") & (frame["shift"] == "none")]
    pefll = novel[novel["label"] == "pefll"].set_index("seed")
    assert sorted(pefll.index) == [-1, 0, 1]
    assert pefll["difference"].tolist() == pytest.approx([0.04] * 3)
    # The same change for every client, which no unpaired interval would show: there is none.
    assert pefll[["lower", "upper"]].isna().all(axis=None)
    assert (pefll["n_clients"] == 12).all()
    assert pefll.loc[-1, "n_seeds"] == 2
    local = novel[novel["label"] == "local"]
    assert local["difference"].abs().max() < 1e-12


def test_other_splits_are_not_paired_and_have_no_interval(two):
    found = compare_runs(two[0], two[2])
    assert not found["paired"]
    frame = found["differences"]
    assert frame["lower"].isna().all()
    pefll = frame[(frame["label"] == "pefll") & (frame["group"] == "novel") & (frame["seed"] == -1)]
    assert pefll["difference"].tolist() == pytest.approx([0.04] * len(pefll))


def test_the_command_says_what_differs_and_by_how_much(two, capsys):
    show_comparison(two[0], two[1], as_json=False)
    text = capsys.readouterr().out
    assert "train.rounds" in text
    line = next(line for line in text.splitlines() if line.startswith("pefll") and "all 2" in line)
    assert "+4.0" in line
    assert "the second's minus the first's: plus is worse." in text
    assert "the same in both runs" in text
    show_comparison(two[0], two[2], as_json=False)
    assert "no interval" in capsys.readouterr().out


def test_json_has_every_group_and_condition(two, capsys):
    show_comparison(two[0], two[2], as_json=True)
    found = json.loads(capsys.readouterr().out)
    assert found["paired"] is False
    assert {row["group"] for row in found["differences"]} == {"seen", "certification", "novel"}
    assert {row["shift"] for row in found["differences"]} == {
        "none", "blur", "rotation", "extrapolation"
    }  # fmt: skip
    assert all(row["lower"] is None for row in found["differences"])


def test_no_run_is_one_line(two, tmp_path):
    with pytest.raises(InputError, match="no run directory"):
        compare_runs(two[0], tmp_path)
