"""Studies on networks of one's own: the examples run under ten methods, and what is refused."""

import importlib
import re
import shutil
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
import yaml
from safetensors.torch import save_file

from latecomer.errors import InputError
from latecomer.eval.protocol import evaluate_cell
from latecomer.eval.results.rows import load_run
from latecomer.eval.routes.contract import VOUCHED_NETWORK, VOUCHED_WEIGHTS
from latecomer.eval.runs.runner import run
from latecomer.eval.studies.checking import parse_study
from latecomer.eval.studies.loading import load_study
from latecomer.models import outside
from latecomer.models.outside import import_target

NETWORKS = Path(__file__).resolve().parents[3] / "docs" / "examples" / "networks"
IMAGES, VECTORS = "group_norm.py:GroupNormNet", "feature_transformer.py:FeatureTransformer"
TOKENS = "token_transformer.py:TokenTransformer"
ENCODER = "token_encoder.py:TokenEncoder"
ADAPTED = "adapted_body.py:AdaptedBody"
SMALL = {"width": 4, "hypernetwork": {"hidden": 1, "width": 8}}
STUDY = {
    "study": "tiny",
    "data": {"name": "digits"},
    "split": {"kind": "by_class", "clients": 8, "classes_per_client": 2, "novel": 2},
    "model": {"target": IMAGES, **SMALL},
    "methods": [
        *("fedavg", "scaffold", "knn_per", "pefll"),
        *({"name": name, "novel_steps": 2} for name in ("local", "fedper", "fedbabu", "lg_fedavg")),
        {"name": "ditto", "finetune_steps": 2},
        {"name": "pfedhn", "novel_rounds": 2, "novel_steps": 2},
    ],
    "train": {"rounds": 2, "cohort": 2, "local_steps": 2, "batch_size": 4},
}
NET = """from torch import nn
class Net(nn.Module):
    def __init__(self, input_shape, n_out, *, width=4):
        super().__init__()
        self.body = nn.Linear(64, width)
        self.out = nn.Linear(width, n_out)

    def forward(self, x):
        return self.out(self.body(x.flatten(1)).relu())

class Label(nn.Module):
    def __init__(self, n_classes):
        super().__init__()
        self.label = nn.Embedding(n_classes, 3)

    def forward(self, x, y):
        return self.label(y)

def encoder(input_shape, n_classes, dim):
    return Label(n_classes)
"""


@pytest.fixture
def write(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for file in NETWORKS.glob("*.py"):
        shutil.copy(file, tmp_path)
    (tmp_path / "net.py").write_text(NET)

    def written(model=None, **changed):
        given = {**STUDY, **changed, **({} if model is None else {"model": model})}
        path = tmp_path / "study.yaml"
        path.write_text(yaml.safe_dump(given))
        return path

    return written


def vectors(folder):
    draw = np.random.default_rng(0)
    y = np.arange(160) % 4
    centres = draw.normal(0, 2, (4, 5))
    x = (centres[y] + draw.normal(size=(160, 5))).astype("float32")
    np.savez(folder / "vectors.npz", x=x, y=y, client=np.arange(160) // 4 % 8)
    return {
        "data": {"name": "npz", "path": str(folder / "vectors.npz")},
        "split": {"kind": "natural", "novel": 2},
        "model": {"target": VECTORS, **SMALL},
    }


def texts(folder):
    draw = np.random.default_rng(0)
    y = np.arange(160) % 4
    x = 1 + (4 * y[:, None] + draw.integers(0, 8, (160, 5))) % 19
    np.savez(folder / "texts.npz", x=x, y=y, client=np.arange(160) // 4 % 8)
    return {
        "data": {"name": "npz", "path": str(folder / "texts.npz"), "tokens": True},
        "split": {"kind": "natural", "novel": 2},
        "model": {"target": TOKENS, "encoder": ENCODER, "vocabulary": 20, **SMALL},
    }


def frozen(folder):
    """A body from elsewhere, here one that was drawn, with statistics of its own."""
    torch.manual_seed(0)
    net = import_target(f"{folder}/{ADAPTED}", {"width": 4})((1, 8, 8), 10)
    net(torch.randn(50, 1, 8, 8))
    save_file(net.state_dict(), folder / "body.safetensors")
    return {
        "model": {"target": ADAPTED, **SMALL, "frozen": ["body"], "weights": "body.safetensors"}
    }


def with_stem(folder):
    made = frozen(folder)
    return {**made, "model": {**made["model"], "stem": "body"}}


def test_sizes_of_a_method_and_a_frozen_body_are_two_nets(write, tmp_path, here):
    sized = {"name": "pfedhn", "sizes": ["lenet-s", "lenet"]}
    study = load_study(write(**frozen(tmp_path), methods=["fedavg", sized]))
    with pytest.raises(InputError) as caught:
        run(study, out=tmp_path / "run", executor=here)
    assert str(caught.value) == (
        "methods.1.sizes: they are nets of their own, none of which model.frozen freezes: leave"
        " sizes or model.frozen out, got sizes=lenet-s, lenet"
    )
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["images", "vectors", "tokens", "frozen body"])
def test_the_examples_run_under_ten_methods(kind, write, tmp_path, here):
    made = {"images": lambda _: {}, "vectors": vectors, "tokens": texts, "frozen body": with_stem}
    study = load_study(write(**made[kind](tmp_path)))
    assert Path(study.model.target.rpartition(":")[0]).is_absolute()
    result = run(study, out=tmp_path / "run", executor=here)
    assert (result.n_failed, result.n_done) == (0, 11)
    rows = load_run(tmp_path / "run").rows
    losses = rows[(rows.metric == "loss") & (rows.group == "novel") & (rows.client == "")]
    assert set(losses.label) == {method.label for method in study.methods}
    assert np.isfinite(losses.value).all()
    assert parse_study(study.resolved()) == study  # what a resumed run reads
    assert run(study, out=tmp_path / "run", executor=here).n_skipped == 11


@pytest.mark.slow
def test_a_stem_gives_what_a_frozen_body_computed_at_every_step_gives(write, tmp_path):
    """New, held-out, arriving and shifted clients too; only rounding tells the two apart."""
    asked = {
        "methods": ["fedavg"],
        "split": {**STUDY["split"], "clients": 24, "certify": 6, "novel": 10, "reserve": 0.2},
        "shifts": {"blur": [1.0], "extrapolation": [1.0]},
        "certificates": [
            {"route": "r0", "rule": "product", "shifts": ["blur"]},
            {"route": "r1", "weights": ["target.head"], "steps": 1, "draws": 2, "alphas": [0.01]},
            {"route": "r4", "rule": "product", "rounds_per_block": 2},
        ],
        "evaluation": {"every": 1, "given_up": True},
    }
    for entry in asked["certificates"][1:]:
        entry |= {"first": 4, "clients": 3}
    found = {}
    for name, made in (("stem", with_stem), ("frozen", frozen)):
        study = load_study(write(**{**made(tmp_path), **asked}))
        _, *cells = study.cells()  # the first is the split's
        found[name] = pd.DataFrame([row for one in cells for row in evaluate_cell(one.config).rows])
        assert set(found[name]["shift"]) > {"blur", "extrapolation"}
        assert {"arriving", "certification", "novel"} < set(found[name]["group"])
    pd.testing.assert_frame_equal(found["stem"], found["frozen"], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("own", [{"target": "net.py:Net"}, {"encoder": "net.py:encoder"}])
def test_a_cell_is_named_after_the_file_and_its_settings(own, write, tmp_path):
    def ids(**model):
        return [one.id for one in load_study(write({**own, **model})).cells()]

    first = ids()
    assert ids() == first
    if "target" in own:
        assert ids(width=5)[1:] != first[1:]
        assert ids(width=None)[1:] != first[1:]
    (tmp_path / "net.py").write_text(NET + "# changed\n")
    changed = ids()
    assert changed[0] == first[0]  # the split's cell
    assert not {*changed[1:]} & {*first[1:]}


def test_a_cell_that_reads_no_encoders_file_says_nothing_of_one(write):
    plain = load_study(write({})).cells()
    assert all("encoder_source" not in one.config.get("numbers_version", {}) for one in plain)


def test_a_cell_is_named_after_frozen_weights(write, tmp_path):
    ids = [[one.id for one in load_study(write(**frozen(tmp_path))).cells()] for _ in range(2)]
    assert ids[0] == ids[1]
    held = frozen(tmp_path)
    save_file({"body.0.bias": torch.zeros(4)}, tmp_path / "body.safetensors")
    other = [one.id for one in load_study(write(**held)).cells()]
    assert not {*other[1:]} & {*ids[0][1:]}


def test_certificates_say_what_is_vouched_for_of_a_users_network(write, tmp_path):
    split = {**STUDY["split"], "clients": 20, "certify": 4, "novel": 12}
    asked = {"split": split, "methods": ["fedavg"], "certificates": [{"route": "r0"}]}
    told = {}
    ours = {"model": {"target": "small", "hypernetwork": SMALL["hypernetwork"]}}
    read = {"model": ours["model"] | {"encoder": "net.py:encoder"}}
    own = {"frozen": frozen(tmp_path), "theirs": {}, "read": read, "ours": ours}
    for name, more in own.items():
        (cell,) = [c for c in load_study(write(**asked, **more)).cells() if c.kind == "method"]
        table = evaluate_cell(cell.config).artifacts["certificates"].table
        told[name] = [fact["text"] for fact in table if fact["kind"] == "assumption"]
    assert VOUCHED_WEIGHTS in told["frozen"]
    assert VOUCHED_NETWORK in told["theirs"]
    assert VOUCHED_NETWORK in told["read"]
    assert not any("vouches" in text for text in told["ours"])


def test_by_module_and_by_entry_point(write, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    by_module = load_study(write({"target": "net:Net", "width": 3}))
    entry = EntryPoint("mine", "net:Net", outside.TARGET_GROUP)
    monkeypatch.setattr(
        outside, "entry_points", lambda group: [entry] if group == outside.TARGET_GROUP else []
    )
    outside.offered.cache_clear()
    try:
        by_entry = load_study(write({"target": "mine", "width": 3}))
        sources = [
            study.cells()[1].config["numbers_version"]["target_source"]
            for study in (by_module, by_entry)
        ]
        assert sources[0] == sources[1]
        with pytest.raises(InputError, match="model: Net of net takes the settings width, got 'w'"):
            load_study(write({"target": "mine", "w": 3}))
    finally:
        outside.offered.cache_clear()


def test_a_word_in_place_of_true_or_false_is_refused(write, tmp_path, here):
    (tmp_path / "flag.py").write_text("def net(shape, n_out, *, deep=False, width=3): ...\n")
    with pytest.raises(InputError, match="deep must be true or false, got deep='off'"):
        load_study(write({"target": "flag.py:net", "deep": "off"}))
    assert load_study(write({"target": "flag.py:net", "width": "off"})).model.own()


@pytest.mark.parametrize(("key", "name"), [("target", "Net"), ("encoder", "encoder")])
@pytest.mark.parametrize("place", ["front.py", "front"])
def test_a_cell_is_named_after_the_file_that_a_net_is_imported_from(
    key, name, place, write, tmp_path, monkeypatch
):
    monkeypatch.syspath_prepend(str(tmp_path))
    ids = []
    for width in (4, 5):
        (tmp_path / f"behind_{key}.py").write_text(NET.replace("width=4", f"width={width}"))
        (tmp_path / "front.py").write_text(f"from behind_{key} import {name}\n")
        for module in ("front", f"behind_{key}"):
            sys.modules.pop(module, None)  # as in a process of its own
        importlib.invalidate_caches()
        ids.append([one.id for one in load_study(write({key: f"{place}:{name}"})).cells()])
    assert not {*ids[0][1:]} & {*ids[1][1:]}


def test_a_module_that_this_process_holds_as_it_was_is_refused(write, tmp_path, monkeypatch):
    """Cells would be named after the file as it is, and train the net as it was."""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "notes.py").write_text(NET)
    path = write({"target": "notes:Net"})
    load_study(path)
    load_study(path)
    (tmp_path / "notes.py").write_text(NET.replace("width=4", "width=5"))
    with pytest.raises(InputError, match="model: notes changed after it was imported: start Pyt"):
        load_study(path)
    importlib.reload(sys.modules["notes"])
    load_study(path)
    del sys.modules["notes"]


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ({"target": "builtins:print"}, "model: target must lie in a file, after which cells are"),
        ({"target": "absent.py:Net"}, "model: there is no file absent.py, looked for from "),
        ({"target": "absent.module:Net"}, "model: there is no module absent.module"),
        ({"target": "net.py:Absent"}, "model: there is no Absent of "),
        ({"target": "net.py:"}, "model: target must read module:Class or file.py:Class"),
        ({"target": "net.py:Net", "witdh": 3}, "takes the settings width, got 'witdh'; did you m"),
        ({"encoder": "absent.py:E"}, "model.encoder: there is no file absent.py, looked for from"),
        ({"encoder": "net.py:E"}, "model.encoder: there is no E of "),
        ({"encoder": "net.py:Net"}, "model.encoder: Net of "),
        ({"encodr": "mlp"}, "model.encodr is no setting; did you mean model.encoder?"),
        ({"target": "dense", "width": 3}, "model.width is no setting"),
        ({"generated_limit": 0}, "model.generated_limit"),
        ({"target": "net.py:Net", "frozen": ["body"]}, "model.frozen needs model.weights beside"),
        ({"target": "net.py:Net", "weights": "x"}, "model.weights needs model.frozen beside it"),
        ({"target": "net.py:Net", "stem": "body"}, "model.stem needs model.frozen beside it, got"),
        ({"frozen": ["body"], "weights": "net.py"}, "model.frozen needs a network of one's own"),
        (
            {"target": "net.py:Net", "frozen": ["body"], "weights": "absent"},
            "model.weights: there is no file absent, looked for from ",
        ),
    ],
)
def test_what_is_refused_when_a_study_is_read(model, message, write):
    with pytest.raises(InputError, match=re.escape(message)):
        load_study(write(model))


@pytest.mark.parametrize(
    ("code", "changed", "message"),
    [
        (
            "n_out)",
            {"model": {"encoder": "net.py:encoder"}, "methods": ["fedavg", "pefll"]},
            "methods.1: pefll cannot train this target: encoder must return descriptors [B, ",
        ),
        ("n_out))", {}, "model: target must return logits"),
        ("n_out); self.bn = nn.BatchNorm1d(3)", {}, "model: target must have no buffers, got bn."),
        (
            "n_out); 1 / 0",
            {},
            "model: target cannot be built for inputs of shape (1, 8, 8) and 10 ",
        ),
        (
            "n_out); self.head = 'fc'",
            {"methods": ["fedavg", "fedper"]},
            "methods.1: fedper cannot ",
        ),
        ("n_out); self.head = 'fc'", {"methods": ["knn_per"]}, "methods.0: knn_per cannot train "),
        ("n_out); self.body.bias = None", {"methods": ["fedma"]}, ""),
    ],
)
def test_what_is_refused_before_anything_is_trained(code, changed, message, write, tmp_path, here):
    code = {"n_out))": "n_out + 1)"}.get(code, code)
    (tmp_path / "net.py").write_text(
        NET.replace("self.out = nn.Linear(width, n_out)", f"self.out = nn.Linear(width, {code}")
    )
    study = load_study(write(**{"model": {"target": "net.py:Net"}, **changed}))
    if not message:
        assert run(study, out=tmp_path / "run", executor=here).n_failed == 0
        return
    with pytest.raises(InputError) as caught:
        run(study, out=tmp_path / "run", executor=here)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ({}, "model: target must be a net of one's own, as file.py:Net, for tokens, got 'auto'"),
        ({"target": TOKENS, "vocabulary": 9}, "tokens from 0 to 19: IndexError: index out of r"),
        ({"target": "net.py:Net"}, "tokens from 0 to 19: RuntimeError: mat1 and mat2"),
    ],
)
def test_nets_that_cannot_take_tokens(model, message, write, tmp_path):
    study = load_study(write(**{**texts(tmp_path), "model": model}))
    with pytest.raises(InputError, match=re.escape(message)):
        run(study, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("target", ["net.py:Net", "small"])
def test_the_limit_of_generated_weights(target, write, tmp_path):
    model = {"target": target, "generated_limit": 250}
    study = load_study(write(model, methods=["fedavg", "pefll"]))
    with pytest.raises(InputError, match=r"methods.1: pefll cannot .* would make [\d,]+ weights"):
        run(study, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
    assert "generated_limit" not in load_study(write({"target": target})).resolved()["model"]


HUGE = """
from torch import nn
BUILT = []
def net(input_shape, n_out):
    made = nn.Sequential(nn.Flatten(), nn.Linear(64, 10**6), nn.ReLU(), nn.Linear(10**6, n_out))
    assert next(made.parameters()).is_meta, "its weights were drawn"
    return made
"""


@pytest.mark.parametrize("method", ["pefll", "pfedhn", "odpfl_hn"])
def test_more_weights_than_can_be_made_are_counted_before_they_are_drawn(method, write, tmp_path):
    (tmp_path / "huge.py").write_text(HUGE)
    study = load_study(write({"target": f"{tmp_path}/huge.py:net"}, methods=["fedavg", method]))
    with pytest.raises(
        InputError, match=rf"methods.1: {method} cannot .* would make 7\d,\d+,\d+ w"
    ):
        run(study, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
