"""The device of a study: settled once, the same for a directory, refused in one line."""

import json

import cell_doubles
import pandas as pd
import pytest
import torch
import yaml
from typer.testing import CliRunner

from latecomer.commands.app import app
from latecomer.errors import InputError
from latecomer.eval.devices import claim, device_name, lacking
from latecomer.eval.federation.groups import Store, build_federation
from latecomer.eval.protocol import evaluate_cell
from latecomer.eval.routes.registry import read_cell
from latecomer.eval.runs.runner import run
from latecomer.eval.settings.cell import federation_settings
from latecomer.eval.settings.study_sections import Shifts
from latecomer.eval.studies.checking import parse_study
from latecomer.eval.studies.loading import load_study, settled
from latecomer.models.methods import METHODS

STUDY = {
    "study": "tiny",
    "data": {"name": "digits"},
    "split": {"kind": "by_class", "clients": 12, "classes_per_client": 2, "novel": 3},
    "methods": ["fedavg"],
    "train": {"rounds": 2},
}
GPU = "Imaginary 9000"


def on(device):
    return parse_study({**STUDY, "train": {"rounds": 2, "device": device}})


@pytest.fixture
def no_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


@pytest.fixture
def a_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: GPU)


def configs(out):
    return [json.loads(path.read_text()) for path in out.glob("cells/*/config.json")]


def test_a_study_on_the_cpu_is_the_study_that_says_nothing():
    plain = parse_study(STUDY)
    assert plain.resolved() == on("cpu").resolved()
    assert "device" not in plain.resolved()["train"]
    assert [cell.id for cell in plain.cells("x")] == [cell.id for cell in on("cpu").cells("x")]
    other = on("cuda").cells("x")
    assert other[0].id == plain.cells("x")[0].id
    assert other[1].id != plain.cells("x")[1].id
    with pytest.raises(InputError, match=r"train.device: must be 'auto', 'cpu' or 'cuda', got 'g"):
        on("gpu")


def test_auto_follows_the_machine(no_gpu, monkeypatch):
    assert settled(on("auto")) == settled(on("cpu")) == settled(parse_study(STUDY))
    assert settled(on("auto"), gpus_elsewhere=0).train.device is None
    assert settled(on("auto"), gpus_elsewhere=1).train.device == "cuda"
    assert settled(on("cuda"), gpus_elsewhere=0).train.device == "cuda"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert settled(on("auto")).train.device == "cuda"
    assert settled(on("auto")) == settled(on("cuda"))
    assert settled(parse_study(STUDY)).train.device is None


def test_auto_is_written_down_as_what_it_came_to(double, a_gpu, tmp_path):
    out = tmp_path / "out"
    events = []
    run(on("auto"), out=out, on_event=events.append, **double("work"))
    assert yaml.safe_load((out / "study.yaml").read_text())["train"]["device"] == "cuda"
    found = {config["kind"]: (config["train"] or {}).get("device") for config in configs(out)}
    assert found == {"split": None, "method": "cuda"}
    assert json.loads((out / "env.json").read_text())["device"] == f"cuda ({GPU})"
    assert events[0].workers == 1
    again = run(on("cuda"), out=out, **double("work"))
    assert again.n_skipped == again.n_cells


def test_auto_without_a_gpu_is_the_cpu(double, no_gpu, tmp_path):
    out = tmp_path / "out"
    run(on("auto"), out=out, **double("work"))
    assert "device" not in yaml.safe_load((out / "study.yaml").read_text())["train"]
    assert all("device" not in (config["train"] or {}) for config in configs(out))
    assert json.loads((out / "env.json").read_text())["device"] == "cpu"


@pytest.mark.parametrize(("first", "second"), [("cuda", "cpu"), ("cpu", "cuda")])
@pytest.mark.parametrize("extend", [False, True])
def test_a_directory_stays_on_its_device(double, a_gpu, tmp_path, first, second, extend):
    out = tmp_path / "out"
    run(on(first), out=out, **double("work"))
    before = (out / "study.yaml").read_bytes()
    with pytest.raises(InputError) as caught:
        run(on(second), out=out, extend=extend, **double("work"))
    said = str(caught.value).split("; ")
    assert said[0].startswith(f"{out} holds another study: use another --out")
    assert said[1:] == [f'train.device: "{first}" there, "{second}" asked for']
    assert (out / "study.yaml").read_bytes() == before


def test_cuda_where_there_is_none_writes_nothing(no_gpu, tmp_path):
    out = tmp_path / "out"
    with pytest.raises(InputError, match=r"^train.device must be cpu or auto on this machine, got"):
        run(on("cuda"), out=out)
    for words in (["--device", "cuda"], ["train.device=cuda"]):
        done = CliRunner().invoke(app, ["run", "quickstart", *words, "--out", str(out)])
        assert done.exit_code == 2
        assert len(done.stderr.splitlines()) == 1
        assert "got cuda: torch" in done.stderr
    assert not out.exists()


def test_the_machine_of_a_cluster_need_not_have_what_its_nodes_have(
    double, no_gpu, tmp_path, monkeypatch
):
    out = tmp_path / "out"
    monkeypatch.setattr(cell_doubles.Here, "gpus_per_cell", 1, raising=False)
    run(on("auto"), out=out, **double("work"))
    assert {(config["train"] or {}).get("device") for config in configs(out)} == {None, "cuda"}
    assert json.loads((out / "env.json").read_text())["device"] == "cuda"


def test_a_federation_is_not_built_on_a_device_that_is_not_there(no_gpu):
    settings = read_cell(on("cuda").cells()[1].config).federation
    assert settings.device == "cuda"
    with pytest.raises(InputError, match=r"^train.device=cuda cannot be had on .* torch"):
        build_federation(settings)
    assert read_cell(on("cpu").cells()[1].config).federation.device is None


def test_float32_means_float32_on_a_gpu(a_gpu):
    places = [(torch.backends.cuda.matmul, "allow_tf32"), (torch.backends.cudnn, "allow_tf32")]
    places.append((torch.backends.cudnn, "deterministic"))
    before = [getattr(place, name) for place, name in places]
    claim.cache_clear()
    try:
        for place, name in places:
            setattr(place, name, name == "allow_tf32")
        claim("cuda")
        assert [getattr(place, name) for place, name in places] == [False, False, True]
    finally:
        claim.cache_clear()
        for (place, name), value in zip(places, before, strict=True):
            setattr(place, name, value)


def test_groups_share_the_samples():
    study = load_study("quickstart")
    shifts = Shifts(blur=[0.5], extrapolation=[1.0])
    found = build_federation(federation_settings(study.model_copy(update={"shifts": shifts})))
    groups = (found.seen, found.certification, found.novel, found.validation)
    assert len({group.clients.x.data_ptr() for group in groups}) == 1
    assert len({id(group.clients.x) for group in groups}) == 1
    by_shift = {group.shift: group.clients.x for group in found.shifted}
    assert by_shift["extrapolation"] is found.seen.clients.x
    assert by_shift["blur"] is not found.seen.clients.x


def test_a_store_copies_an_array_once():
    store, table = Store("meta"), torch.arange(4).numpy()
    first = store.put(table)
    assert first.device.type == "meta"
    assert store.put(table) is first
    assert store.put(table.copy()) is not first


def test_names(no_gpu):
    assert device_name(None) == device_name("cpu") == "cpu"
    assert device_name("cuda") == "cuda"
    assert lacking("cuda").startswith("torch ")
    assert lacking(None) == ""


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (
            {"methods": ["fedavg", {"name": "pfedhn", "sizes": ["lenet-s", "lenet"]}]},
            "methods.1.sizes: input_shape must be at least 5 pixels a side for this net, "
            "got input_shape=(1, 8, 8)",
        ),
        (
            {"methods": ["fedavg", {"name": "pfl_ensemble", "sizes": ["dense"]}]},
            "methods.1.sizes: target dense does not take inputs of shape (1, 8, 8)",
        ),
        (
            {"model": {"target": "dense"}},
            "model: target dense does not take inputs of shape (1, 8, 8)",
        ),
    ],
)
def test_nets_that_do_not_fit_are_refused_before_anything_is_written(tmp_path, changed, said):
    with pytest.raises(InputError) as caught:
        run(parse_study({**STUDY, **changed}), out=tmp_path / "out")
    assert str(caught.value) == said
    assert not (tmp_path / "out").exists()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("name", METHODS)
def test_cells_on_a_gpu_come_to_what_they_come_to_on_the_cpu(name):
    errors = []
    for device in ("cpu", "cuda"):
        study = parse_study(
            {
                **STUDY,
                "split": {**STUDY["split"], "clients": 30, "certify": 5, "novel": 12},
                "methods": [name],
                "train": {"rounds": 20, "local_steps": 10, "device": device},
                "shifts": {"blur": [0.5]},
                "bounds": ["pfedhn_eps", "ben_david"],
                "certificates": [
                    {"route": "r0", "rule": "product"},
                    {"route": "r3", "measured": 8},
                ],
                "evaluation": {"measures": ["descriptors"], "every": 10},
            }
        )
        rows = pd.DataFrame(evaluate_cell(study.cells("")[1].config).rows)
        pooled = rows[(rows["metric"] == "error") & (rows["aggregation"] == "pooled")]
        errors.append(pooled.set_index(["group", "shift"])["value"])
    assert list(errors[0].index) == list(errors[1].index)
    assert (errors[0] - errors[1]).abs().max() < 0.1
