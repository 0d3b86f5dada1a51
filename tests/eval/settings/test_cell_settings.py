"""A cell's configuration, typed: what is written is what is read, for every cell ever committed."""

import json
from pathlib import Path

import pytest

from latecomer.errors import InputError
from latecomer.eval.results.kept_cells import ARCHIVE, cells_of
from latecomer.eval.routes.registry import read_cell
from latecomer.eval.settings.cell import DenoisingCell, SplitCell, TrainingCell
from latecomer.eval.studies.loading import load_study
from latecomer.eval.studies.shipped import shipped_studies

ROOT = Path(__file__).resolve().parents[3]
COMMITTED = sorted(
    path.parent.name for path in (ROOT / "reports" / "reference").glob(f"*/{ARCHIVE}")
)


def said(settings, config):
    """Check that settings hold what plain data say; lists are read as tuples."""
    for key, value in config.items():
        found = getattr(settings, key)
        if isinstance(value, dict) and not isinstance(found, dict):
            said(found, value)
        elif isinstance(value, list):
            assert len(found) == len(value), key
            for one, expected in zip(found, value, strict=True):
                if isinstance(expected, dict):
                    said(one, {k: v for k, v in expected.items() if k != "n_seeds"})
                else:
                    assert one == (tuple(expected) if isinstance(expected, list) else expected), key
        else:
            assert found == value, key


def check(config):
    cell = read_cell(config)
    if isinstance(cell, TrainingCell):
        said(cell, config)
    elif isinstance(cell, SplitCell):
        said(cell, {key: config[key] for key in ("kind", "data", "split", "shifts", "evaluation")})
    else:
        assert isinstance(cell, DenoisingCell)
        said(cell, {key: config[key] for key in ("kind", "denoising")})
    return cell


@pytest.mark.parametrize("run", COMMITTED)
def test_cells_of_committed_runs_are_read(run):
    cells = sorted(cells_of(ROOT / "reports" / "reference" / run).glob("*/config.json"))
    assert cells
    for path in cells:
        check(json.loads(path.read_text("utf-8")))


@pytest.mark.parametrize("study", [study.name for study in shipped_studies()])
def test_cells_of_shipped_studies_are_read_as_they_are_written(study):
    for cell in load_study(study).cells("hash"):
        typed = check(json.loads(json.dumps(cell.config)))
        assert typed == cell.settings
        assert (cell.rounds is None) != isinstance(typed, TrainingCell)


def test_an_unknown_setting_is_refused():
    config = load_study("quickstart").cells()[1].config
    for changed in ({"sed": 1}, {"train": {**config["train"], "round": 1}}, {"seed": "x"}):
        with pytest.raises(ValueError, match=r"sed|round|seed"):
            read_cell({**config, **changed})


def test_seeds_that_share_delta_are_told_once():
    entry = {"rule": "product", "per_seed": "union"}
    changes = [f"certificates=[{json.dumps(entry)}]", "seeds=[0, 1, 2]"]
    cell = load_study("quickstart", changes).cells()[1]
    assert cell.config["certificates"][0]["n_seeds"] == 3
    settings = cell.settings
    (wanted,) = settings.certificates
    assert wanted.sharing(settings.n_seeds) == 3
    assert wanted.model_copy(update={"per_seed": "each"}).sharing(settings.n_seeds) == 1


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("model.words=.inf", "model.words must be a finite number, got inf"),
        ("model.words=[1, {a: .nan}]", "model.words.1.a must be a finite number, got nan"),
    ],
)
def test_numbers_of_ones_own_are_finite(override, said):
    with pytest.raises(InputError) as caught:
        load_study("quickstart", [override])
    assert said.split(".", 1)[-1] in str(caught.value)
    assert "\n" not in str(caught.value)
