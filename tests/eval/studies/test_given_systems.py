"""Systems trained elsewhere, served in a study beside built-in methods."""

import json
import re

import numpy as np
import pytest
import torch
import yaml
from sketches import sketch

from latecomer.certify.predictor import certify_predictor
from latecomer.errors import InputError
from latecomer.eval.datasets import load_dataset
from latecomer.eval.results.rows import load_run
from latecomer.eval.runs.runner import run
from latecomer.eval.scoring.serving import score_side_by_side
from latecomer.eval.splits.build import make_split
from latecomer.eval.splits.registry import sampling_of
from latecomer.eval.splits.split import frozen_facts
from latecomer.eval.studies.checking import parse_study
from latecomer.eval.studies.loading import load_study
from latecomer.eval.training.checkpoint_slots import NO_CHECKPOINTS
from latecomer.eval.training.setup import setup_of
from latecomer.models.task.state import part

CODE = '''
import numpy as np
import torch
from torch import nn

from latecomer.models.task.task import make_task


def nearest(support, query_x):
    """Minus the distance to the nearest support sample of each class."""
    x, y = (part.reshape(len(part), -1) for part in support)
    apart = ((query_x.reshape(len(query_x), 1, -1) - x) ** 2).sum(axis=2)
    far = np.full((len(query_x), 10), 1e3)
    for label in np.unique(y):
        far[:, label] = apart[:, y[:, 0] == label].min(axis=1)
    return -far


class Flat:
    """The same scores for everybody, whatever they send."""

    def __init__(self, favourite: int, other: list = [], flat: bool = True):
        self.favourite = favourite

    def __call__(self, support, query_x):
        return np.eye(10, dtype=int)[[self.favourite] * len(query_x)]


class Global(nn.Module):
    """The target network behind what its federation standardised by."""

    def __init__(self):
        super().__init__()
        self.net = make_task(input_shape=(1, 8, 8), n_classes=10).target.to_empty(device="cpu")
        for name in ("mean", "sd"):
            self.register_buffer(name, torch.zeros(1, 1, 1))

    def forward(self, x):
        return self.net((x - self.mean) / self.sd)


def giving(made):
    return lambda support, query_x: made((len(query_x), 10))

labels = giving(lambda shape: np.zeros(shape[0]))
unknown = giving(lambda shape: np.full(shape, np.nan))
endless = giving(lambda shape: np.full(shape, np.inf))
classless = giving(lambda shape: np.full(shape, -np.inf))
imaginary = giving(lambda shape: np.ones(shape, dtype=complex))
silent = giving(lambda shape: None)
worded = giving(lambda shape: "a")
objects = giving(lambda shape: np.ones(shape).astype(object))

drawing = giving(lambda shape: np.random.default_rng().normal(size=shape))
met = []

def learning(support, query_x):
    met.append(support)
    return np.full((len(query_x), 10), float(len(met)))

def scaling(support, query_x):
    """Scales its points where they lie."""
    for part in (*support, query_x):
        part += 1
    return nearest((support[0], support[1] - 1), query_x)

def leaving(support, query_x):
    raise SystemExit(0)

class Clash:
    def __init__(self, paper): ...

class Named:
    def __init__(self, name="", source="", label=""): ...

class Label:
    def __init__(self, label=""): ...

class Leaving:
    def __init__(self):
        raise SystemExit(0)

class Mute: ...

number = 3
'''
STUDY = {
    "study": "given",
    "data": {"name": "digits"},
    "split": {
        "kind": "by_class",
        "clients": 30,
        "classes_per_client": 3,
        "novel": 10,
        "certify": 8,
    },
    "methods": [
        {"name": "fedavg", "local_lr": 0.05},
        {"name": "mine.py:nearest", "needs_training": False},
    ],
    "train": {"rounds": 3, "cohort": 4, "local_steps": 10, "batch_size": 8},
    "certificates": [{"route": "r0", "rule": "product"}],
}
NO_SLOT = NO_CHECKPOINTS.slot("train", seed=0, rounds=3)
GLOBAL = {"name": "mine.py:Global", "needs_training": False, "checkpoint": "global.pt"}


@pytest.fixture
def write(tmp_path):
    (tmp_path / "mine.py").write_text(CODE)

    def written(**changed):
        path = tmp_path / "study.yaml"
        path.write_text(yaml.safe_dump(STUDY | changed))
        return path

    return written


def of(rows, label, metric, **where):
    found = rows[(rows.label == label) & (rows.metric == metric)]
    for column, value in where.items():
        found = found[found[column] == value]
    return found


@pytest.mark.slow
def test_fedavg_given_by_its_checkpoint_is_fedavg(write, tmp_path, here):
    alone = load_study(write(methods=STUDY["methods"][:1]))
    setup = setup_of(alone.cells()[1].settings)
    state = setup.train(setup.federation.seen.clients, NO_SLOT, on_round=None)
    clients = setup.federation.seen.clients
    weights = {f"net.{name}": value for name, value in part(state.server, "target").items()}
    torch.save({**weights, "mean": clients.mean, "sd": clients.sd}, tmp_path / "global.pt")

    shifted = {
        "shifts": {"blur": [1.0]},
        "certificates": [{**STUDY["certificates"][0], "shifts": True}],
    }
    study = load_study(write(methods=[*STUDY["methods"], GLOBAL], **shifted))
    done = run(study, out=tmp_path / "run", executor=here)
    assert (done.n_failed, done.n_done) == (0, 4)
    rows = load_run(done.path).rows
    for metric in ("error", "gap", "certificate"):
        ours, theirs = (of(rows, label, metric) for label in ("fedavg", "Global"))
        assert len(ours) > 0
        assert ours.value.tolist() == theirs.value.tolist(), metric
    assert set(of(rows, "Global", "error")["round"]) == {0}
    assert set(of(rows, "fedavg", "error")["round"]) == {3}
    assert set(of(rows, "Global", "error").personalization) == {"given"}
    assert {"none", "blur"} == set(of(rows, "Global", "certificate")["shift"])

    # What is trained elsewhere can be trained on the very clients that the study calls seen.
    dealt = make_split(load_dataset({"name": "digits"}), **STUDY["split"])
    (frozen,) = done.path.glob("cells/*/artifacts/split.npz")
    assert frozen_facts(frozen)["content_hash"] == dealt.content_hash

    told = json.loads((done.path / "cells.json").read_text("utf-8"))["about"].values()
    assert {one["label"]: one["rounds"] for one in told if one["label"] != "split"} == {
        "fedavg": 3, "nearest": 0, "Global": 0,
    }  # fmt: skip


@pytest.mark.slow
def test_a_study_scores_as_certify_predictor_does(write, tmp_path, here):
    study = load_study(write(methods=STUDY["methods"][1:]))
    done = run(study, out=tmp_path / "run", executor=here)
    rows = load_run(done.path).rows
    federation = setup_of(study.cells()[1].settings).federation
    space = {}
    exec(CODE, space)

    def predictor(support, query_x):
        return space["nearest"](support, query_x).argmax(axis=1)

    clients = federation.certification.clients
    plain = np.asarray(clients.x, dtype=np.float32)
    plain = plain / (255 if clients.x.dtype == torch.uint8 else 1)
    y = np.asarray(clients.y)
    given = {}
    for place, client in enumerate(clients.ids.tolist()):
        sizes = (clients.support_sizes[place], clients.query_sizes[place])
        own, asked = (
            np.asarray(table[place, :size])
            for table, size in zip((clients.support, clients.query), sizes, strict=True)
        )
        given[client] = ((plain[own], y[own]), (plain[asked], y[asked]))
    by_itself = certify_predictor(predictor, given, rule="product")
    mine = of(rows, "nearest", "error", group="certification")
    assert mine[mine.client != ""].value.mean() == pytest.approx(by_itself.mean, abs=1e-12)
    assert sampling_of(study.split.kind) == "finite-pool"
    certificate = of(rows, "nearest", "certificate")
    assert certificate[certificate.term == ""].value.item() == pytest.approx(
        float(by_itself.certificate), abs=1e-12
    )


def test_side_by_side_scores_it_alike(write):
    setup = setup_of(load_study(write(methods=STUDY["methods"][1:])).cells()[1].settings)
    clients = setup.federation.seen.clients
    state = setup.train(clients, NO_SLOT, on_round=None)

    def serve(places, supports):
        noise = torch.Generator()
        return [
            setup.method.personalize(setup.task, state, support, generator=noise)
            for support in supports
        ]

    alone = setup.score(state, setup.federation.seen)
    together = score_side_by_side(setup.task, clients, serve, lambda logits, known: logits)
    assert [one.n_wrong for one in together] == [one.n_wrong for one in alone]
    with pytest.raises(TypeError, match="nearest was trained elsewhere and takes part in no round"):
        setup.method.start(setup.task, state, clients, None, torch.Generator())


def test_what_a_cell_is_named_after(write, tmp_path):
    (tmp_path / "global.pt").write_bytes(b"one")
    methods = [*STUDY["methods"], {"name": "mine.py:Flat", "needs_training": False, "favourite": 3}]

    def ids(**changed):
        return [cell.id for cell in load_study(write(methods=methods, **changed)).cells()]

    first = ids()
    longer = ids(train={**STUDY["train"], "rounds": 4, "cohort": 3})
    assert [a == b for a, b in zip(first, longer, strict=True)] == [True, False, True, True]
    study = load_study(write(methods=methods))
    assert parse_study(study.resolved()) == study  # what a resumed run reads
    methods[-1]["favourite"] = 4
    assert [a == b for a, b in zip(first, ids(), strict=True)] == [True, True, True, False]


def test_another_checkpoint_is_another_cell(write, tmp_path):
    from latecomer.models.task.task import make_task

    net = make_task(input_shape=(1, 8, 8), n_classes=10).target.to_empty(device="cpu")
    found = []
    for size in (1.0, 2.0):
        stats = {name: torch.full((1, 1, 1), size) for name in ("mean", "sd")}
        weights = {f"net.{name}": value for name, value in net.state_dict().items()}
        torch.save({**weights, **stats}, tmp_path / "global.pt")
        found.append(load_study(write(methods=["fedavg", GLOBAL])).cells())
    same = [a.id == b.id for a, b in zip(*found, strict=True)]
    assert same == [True, True, False]


def test_no_route_trains_it(write):
    r4 = {"route": "r4", "first": 8, "clients": 8}
    cells = load_study(write(certificates=[r4], evaluation={"given_up": True, "every": 1})).cells()
    labels = [cell.label for cell in cells]
    arriving = "fedavg r4:product_mixture"
    assert labels == ["split", "fedavg", "nearest", arriving, "fedavg, all clients"]


def served(name, **more):
    return {"methods": ["fedavg", {"name": f"mine.py:{name}", "needs_training": False, **more}]}


MISTAKES = [
    ({"methods": [{"name": "mine.py:nearest"}]}, "say needs_training: false"),
    ({"methods": [{"name": "fedavg", "needs_training": False}]}, "fedavg is a method that trains"),
    ({"methods": [{"name": "mine.py:nearest", "needs_training": True}]}, "must be false or left"),
    (served("number"), "is not a subclass of latecomer.models.Method"),
    (served("Mute"), "Mute must make a callable, got Mute"),
    (served("Clash", paper=1), "Clash has a parameter 'paper', a name that methods use"),
    (served("Named"), "Named has a parameter 'name', a name that methods use"),
    (served("Label"), "Label has a parameter 'label', a name that methods use"),
    (served("Leaving"), "making Leaving failed: SystemExit: 0"),
    (served("Flat"), "missing 1 required keyword-only argument: 'favourite'"),
    (served("Flat", favorite=1), "no hyper-parameter 'favorite'; did you mean 'favourite'?"),
    (served("Flat", favourite=1, flat="off"), "flat must be true or false, got flat='off'"),
    (served("Flat", favourite=1, checkpoint="x"), "checkpoint: there is no file x, looked for"),
    (served("Global"), "missing 1 required keyword-only argument: 'checkpoint'"),
    *(
        (served("Global", checkpoint=wrong), f"checkpoint must be a file of a state_dict, {told}")
        for wrong, told in (
            ("mine.py", "as torch or safetensors writes it, got "),
            (3, "as torch or safetensors writes it, got 3: FileNotFoundError"),
            (None, "as torch or safetensors writes it, got None: FileNotFoundError"),
        )
    ),
    (
        {"methods": STUDY["methods"][1:], "evaluation": {"classes": "known"}},
        "(nearest, protocol given) which classes a client has",
    ),
    (
        {
            **served("nearest"),
            "certificates": [{"route": "r4", "first": 8, "clients": 8, "methods": ["nearest"]}],
        },
        "certificates.0.methods must be of methods that train, for route r4 trains models",
    ),
]


@pytest.mark.parametrize(("changed", "message"), MISTAKES, ids=range(len(MISTAKES)))
def test_what_is_refused_in_one_line(changed, message, write):
    with pytest.raises(InputError, match=re.escape(message)):
        load_study(write(**changed))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("labels", "a row of 10 scores, one a class, for each of "),
        *((name, "gave scores that are not") for name in ("unknown", "endless", "classless")),
        *((name, "points, got no numbers but ") for name in ("silent", "worded", "objects")),
        ("imaginary", "imaginary gave scores that are not numbers"),
        ("leaving", "methods.1: leaving cannot serve a client: SystemExit: 0"),
    ],
)
def test_a_system_that_cannot_serve_is_refused_before_any_work(name, message, write, tmp_path):
    with pytest.raises(InputError) as caught:
        run(load_study(write(**served(name))), out=tmp_path / "run")
    assert str(caught.value).startswith(f"methods.1: {name} cannot serve a client: ")
    assert message in str(caught.value)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", ["drawing", "learning"])
def test_a_system_that_answers_otherwise_when_asked_again_is_refused(name, write, tmp_path):
    with pytest.raises(InputError, match="learn nothing from one client") as caught:
        run(load_study(write(**served(name))), out=tmp_path / "run")
    assert str(caught.value).startswith(f"methods.1: {name} answered otherwise when it served")


def test_a_system_that_scales_its_points_in_place_is_given_them_anew(write):
    setup = setup_of(load_study(write(**served("scaling"))).cells()[2].settings)
    clients = setup.federation.seen.clients
    state = setup.train(clients, NO_SLOT, on_round=None)
    model = setup.method.personalize(
        setup.task, state, clients.support_of(0), generator=torch.Generator()
    )
    x = clients.query_of(0).x
    first, again = model(x), model(x)
    assert torch.equal(first, again)
    assert torch.equal(x, clients.query_of(0).x)


@pytest.mark.slow
def test_chosen_rounds_and_seeds_leave_it_as_it_is(write, tmp_path, here):
    study = load_study(
        write(
            train={**STUDY["train"], "selection": "validation"},
            evaluation={"every": 1, "measures": ["descriptors", "serving_cost", "training_error"]},
            seeds=[0, 1],
            bounds=["pefll_32", "ben_david"],
        )
    )
    done = run(study, out=tmp_path / "run", executor=here)
    assert done.n_failed == 0
    rows = load_run(done.path).rows
    one, other = (of(rows, "nearest", "error", seed=seed).value.tolist() for seed in (0, 1))
    assert one == other
    page = sketch(done.path)
    assert "nearest is a system trained elsewhere" in page
    assert "its user vouches that no client but the seen ones had part" in page
    assert "the round with the lowest validation error of the seen clients" in page
