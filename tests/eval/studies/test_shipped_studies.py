"""Every shipped study yields rows and a report at scale smoke, on small files of its data sets."""

import shutil

import numpy as np
import pytest

from latecomer.eval.results.rows import read_rows
from latecomer.eval.runs.runner import run
from latecomer.eval.studies.loading import load_study
from latecomer.eval.studies.shipped import shipped_studies
from latecomer.reports import report
from latecomer.reports.display import pictures

FILES = {name: name for name in ("cifar100", "mnist", "inaturalist", "stl10")}
FILES |= {"cifar10": "cifar10-larger"}
STUDIES = [study.name for study in shipped_studies() if study.paper]
JOBS = ["bound-vs-accuracy", "generalization-gap", "shift-robustness"]
# Says which classes its data have.
ONE = ["population-shift", "newcomers-without-labels"]
# One of a paper and one for any data; each takes half a minute, and the others run every night.
LANDING = ("pfedhn-table1", "shift-robustness")
ARTIFACTS = {
    "pefll-descriptors": {"descriptors", "training_curve"},
    "pefll-theorem31": {"training_curve"},
    "pefll-serving-cost": {"serving_cost"},
    "population-shift": {"population_curve"},
    "pfedhn-denoising": {"linear_denoising"},
    "pfedhn-figure3": {"mix_and_match"},
    "pfedhn-figure4": {"descriptors"},
    "pfedhn-figure5": {"training_curve"},
    "pfedhn-table2": {"target_sizes"},
    "odpfl-figure6": {"descriptors"},
}


@pytest.fixture(scope="module")
def data(small_files, tmp_path_factory):
    """Return overrides that read a study's data from small files."""
    root = tmp_path_factory.mktemp("data")
    made = {name: small_files(kind, root / name)["root"] for name, kind in FILES.items()}

    def overrides(study):
        found = [f"data.root={made[study.data.name]}"] if study.data.name in made else []
        others = enumerate(study.shifts.dataset)
        return [*found, *(f"shifts.dataset.{i}.root={made[one.name]}" for i, one in others)]

    return overrides


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow if name in LANDING else pytest.mark.nightly)
        for name in (*STUDIES, *JOBS, *ONE)
    ],
)
def test_study_at_scale_smoke(name, data, tmp_path, here, monkeypatch):
    plain = load_study(name, scale="smoke")
    study = load_study(name, data(plain), scale="smoke")
    out = tmp_path / name
    result = run(study, out=out, executor=here)
    assert (result.n_failed, result.n_done) == (0, result.n_cells)
    rows = read_rows(out / "rows.csv")
    errors = rows[(rows["metric"] == "error") & (rows["aggregation"] == "per-client")]
    labels = {method.label for method in study.methods}
    assert set(errors.loc[errors["group"] == "seen", "label"]) == labels
    if study.split.novel:
        # Routes that train, and training with nobody held out, add models of their own.
        assert set(errors.loc[errors["group"] == "novel", "label"]) >= labels
    for shift, severities in study.shifts:
        names = [getattr(one, "label", shift) for one in severities]
        assert set(names) <= set(rows["shift"])
    if name in LANDING:  # figures are rendered at night
        monkeypatch.setattr(pictures, "svg_of", lambda figure: "<svg></svg>")
    made = {path.name.split(".")[0] for path in out.glob("cells/*/artifacts/*.manifest.json")}
    assert ARTIFACTS.get(name, set()) <= made
    assert report(out).stat().st_size > 10_000
    shutil.rmtree(out)


@pytest.mark.nightly
@pytest.mark.parametrize("name", JOBS)
def test_jobs_are_for_any_data_and_methods(name, tmp_path, here):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 5, 1500)
    x = (rng.normal(size=(1500, 12)) + y[:, None]).astype(np.float32)
    np.savez(tmp_path / "own.npz", x=x, y=y)
    own = ["data.name=npz", f"data.path={tmp_path / 'own.npz'}", "methods=[fedper, knn_per]"]
    variants = ["features"] if name == "shift-robustness" else []
    study = load_study(name, own, variants=variants, scale="smoke")
    result = run(study, out=tmp_path / "run", executor=here)
    assert result.n_failed == 0
    rows = read_rows(tmp_path / "run" / "rows.csv")
    novel = rows[(rows["metric"] == "error") & (rows["group"] == "novel")]
    assert {"fedper", "knn_per"} <= set(novel["label"])
    assert set(study.shifts.model_dump(exclude_defaults=True)) <= set(rows["shift"])
    assert report(tmp_path / "run").stat().st_size > 10_000
