"""What trackers are told of a run, and that a run does not end with its tracker."""

import shutil
import sys
from pathlib import Path

import pytest

from latecomer.errors import InputError
from latecomer.eval.results.kept_cells import ARCHIVE
from latecomer.eval.results.rows import read_rows
from latecomer.eval.runs.tally import Event
from latecomer.eval.runs.tracking import Scalar, results_of, tracked

ROOT = Path(__file__).resolve().parents[3]
KEPT = ROOT / "reports" / "reference" / "shift-robustness-digits"


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Return a run directory whose cells lie unpacked, and one of its cells."""
    out = tmp_path_factory.mktemp("run") / "out"
    shutil.copytree(KEPT, out)
    shutil.unpack_archive(out / ARCHIVE, out, "xztar", filter="data")
    rows = read_rows(out / "rows.csv.xz")
    (cell,) = set(rows[(rows["label"] == "pefll") & (rows["seed"] == 0)]["cell"])
    return out, cell


def tell_of(cell, out, said, *trackers):
    """Tell trackers of a run, whose study is called so, with one cell of two rounds."""
    about = {"done": 1, "total": 2, "workers": 1, "cell": cell, "label": "pefll", "seed": 0}
    with tracked(trackers, "study", out, said) as tell:
        tell(Event("plan", 0, 2, 1))
        tell(Event("start", **about))
        for number, loss in enumerate((0.5, 0.25)):
            tell(Event("round", round=number, rounds=2, loss=loss, **about))
        tell(Event("done", rounds=2, **about))


OWN = """
heard = []
def listen(scalar):
    heard.append(scalar)
def breaks(scalar):
    raise ConnectionError("the server\\nis away")
"""


def test_a_function_hears_every_round_and_the_results_of_a_done_cell(
    finished, tmp_path, monkeypatch
):
    out, cell = finished
    (tmp_path / "own_tracker.py").write_text(OWN)
    monkeypatch.syspath_prepend(str(tmp_path))
    said = []
    tell_of(cell, out, said.append, "own_tracker:listen", "own_tracker:breaks")
    from own_tracker import heard

    assert heard[:2] == [
        Scalar("pefll seed 0", "train/loss", 0.5, 1),
        Scalar("pefll seed 0", "train/loss", 0.25, 2),
    ]
    told = {one.name: one.value for one in heard[2:]}
    assert {one.step for one in heard[2:]} == {2}
    rows = read_rows(KEPT / "rows.csv.xz")
    own = rows[(rows["cell"] == cell) & (rows["metric"] == "error") & (rows["client"] == "")]
    own = own[(own["aggregation"] == "per-client") & (own["group"] == "novel")]
    plain = own[own["shift"] == "none"]["value"].item()
    blurred = own[(own["shift"] == "blur") & (own["severity"] == 0.5)]["value"].item()
    assert (told["novel/error"], told["novel/error@blur 0.5"]) == (plain, blurred)
    # As on the page, where positive is worse; the row itself holds the gap of accuracies.
    lost = told["novel/error"] - told["seen/error"]
    assert told["novel/gap"] == pytest.approx(lost, abs=1e-12)
    assert lost != 0.0
    assert said == ["tracking stopped, the run goes on: ConnectionError: the server is away"]


def test_certificates_are_named_by_their_bounds():
    kept = ROOT / "reports" / "reference" / "certificates-cifar10-50"
    names = dict(results_of(kept / "rows.csv.xz"))
    assert "certificate/r0:product" in names


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("wandb", "track must be tensorboard, mlflow or module:function, got 'wandb'"),
        ("nowhere_at_all:f", "track: there is no module nowhere_at_all"),
        ("absent.py:f", "track: there is no file absent.py"),
        ("math:nothing", "track: math has no function nothing"),
        ("math:2", "track must be tensorboard"),
    ],
)
def test_a_tracker_that_cannot_be_had_is_refused_before_any_work(tmp_path, name, said):
    with pytest.raises(InputError) as caught, tracked((name,), "s", tmp_path, print):
        pytest.fail("work began")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "module"), [("tensorboard", "torch.utils.tensorboard"), ("mlflow", "mlflow")]
)
def test_a_missing_extra_is_named(tmp_path, monkeypatch, name, module):
    monkeypatch.setitem(sys.modules, module, None)
    with (
        pytest.raises(InputError, match=rf'pip install "latecomer\[{name}\]"'),
        tracked((name,), "s", tmp_path, print),
    ):
        pytest.fail("work began")


def test_tensorboard_holds_the_losses(finished, tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    _, cell = finished
    out = shutil.copytree(finished[0], tmp_path / "out")
    tell_of(cell, out, pytest.fail, "tensorboard")
    kept = EventAccumulator(str(out / "tensorboard" / "pefll seed 0")).Reload()
    assert [(one.step, one.value) for one in kept.Scalars("train/loss")] == [(1, 0.5), (2, 0.25)]
    assert "novel/error" in kept.Tags()["scalars"]


def test_mlflow_has_a_run_a_series(finished, tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow")
    out, cell = finished
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri((tmp_path / "mlruns").as_uri())
    tell_of(cell, out, pytest.fail, "mlflow")
    client = mlflow.MlflowClient()
    experiment = client.get_experiment_by_name("study").experiment_id
    (run,) = client.search_runs([experiment])
    assert run.info.run_name == "pefll seed 0"
    assert run.info.status == "FINISHED"
    assert run.data.metrics["train/loss"] == 0.25
    assert "novel/error" in run.data.metrics
