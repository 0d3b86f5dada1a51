"""Frozen parameters are constants: loaded, never trained, sent, counted or made."""

import pytest
import torch
from formula_federation import Population
from torch import Tensor, nn
from torch.nn import functional as F

from latecomer.models.engine.schedule import TrainConfig
from latecomer.models.engine.training import train
from latecomer.models.methods import make_method
from latecomer.models.task.stems import Frozen, constants_to
from latecomer.models.task.task import Task, make_task

CONFIG = TrainConfig(rounds=2, cohort=3, local_steps=3, batch_size=4)


class Body(nn.Module):
    def __init__(self, input_shape: tuple[int, ...], n_out: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(*input_shape, 5), nn.BatchNorm1d(5), nn.Dropout(0.5), nn.Tanh()
        )
        self.head = nn.Linear(5, n_out)

    def forward(self, x: Tensor) -> Tensor:
        made: Tensor = self.head(self.body(x))
        return made


def weights() -> dict[str, Tensor]:
    torch.manual_seed(0)
    net = Body((6,), 4)
    net(torch.randn(20, 6))
    return net.state_dict()


def frozen_task(*patterns: str, table: dict[str, Tensor] | None = None) -> Task:
    return make_task(
        input_shape=(6,),
        n_classes=4,
        dtype=torch.float64,
        hypernetwork={"hidden": 1, "width": 8},
        target=Frozen(Body, patterns, weights() if table is None else table),
    )


def test_a_frozen_body_computes_what_it_did_when_it_was_saved() -> None:
    task, table = frozen_task("body"), weights()
    assert {*task.shapes} == {"head.weight", "head.bias"}
    params, x = task.initial(torch.Generator().manual_seed(0)), torch.randn(3, 6).double()
    whole = Body((6,), 4).double()
    whole.load_state_dict({**table, **params})
    torch.testing.assert_close(task.logits(params, x), whole.eval()(x))


@pytest.mark.parametrize("name", ["fedavg", "ditto", "pfedhn", "pefll", "knn_per"])
def test_training_is_that_of_the_rest_on_frozen_features(
    name: str, make_population: Population
) -> None:
    clients, method = make_population((12, 1, 7), dtype=torch.float64), make_method(name)
    task = frozen_task("body")
    serial = train(method, task, clients, CONFIG, seed=0, path="serial")
    beside = train(method, task, clients, CONFIG, seed=0, path="vectorised")
    for key, value in serial.server.items():
        torch.testing.assert_close(value, beside.server[key], rtol=1e-9, atol=1e-9)
        assert "body" not in key
    if name == "fedavg":
        initial = task.initial(torch.Generator().manual_seed(0))
        assert {*serial.server} == {f"target.{key}" for key in initial}
    assert task.n_parameters == 5 * 4 + 4


@pytest.mark.parametrize(
    ("patterns", "changed", "message"),
    [
        (("bdy",), {}, "frozen must match parameters of head.weight|frozen must match .*got 'bdy'"),
        (("body",), {"body.0.bias": None}, "weights must hold every .* got none for 'body.0.bias'"),
        (("body",), {"body.0.bias": torch.zeros(3)}, r"got body.0.bias \[3\] for \[5\]"),
        (
            ("body",),
            {"body.0.bias": torch.tensor([0, float("nan"), 0, 0, 0])},
            "weights must be finite, got body.0.bias with NaN or inf",
        ),
        (
            ("body",),
            {"body.0.weight": torch.ones(5, 6, dtype=torch.int8)},
            "numbers of the net's kind, got body.0.weight in torch.int8 for torch.float64",
        ),
        (
            ("body",),
            {"body.0.bias": torch.ones(5, dtype=torch.cfloat)},
            "got body.0.bias in torch.complex64 for",
        ),
        (("*",), {}, "must have parameters to train"),
        (("body.0",), {}, "must have no buffers, got body.1.running_mean"),
    ],
)
def test_what_cannot_be_frozen(
    patterns: tuple[str, ...], changed: dict[str, Tensor | None], message: str
) -> None:
    table = {k: v for k, v in {**weights(), **changed}.items() if v is not None}
    with pytest.raises(ValueError, match=message) as caught:
        frozen_task(*patterns, table=table)
    assert "\n" not in str(caught.value)


def test_one_name_is_no_sequence_of_letters() -> None:
    with pytest.raises(ValueError, match=r"^patterns must be .*, as \('body',\), got 'body'"):
        Frozen(Body, "body", weights())  # type: ignore[arg-type]


class Tied(nn.Module):
    def __init__(self, input_shape: tuple[int, ...], n_out: int) -> None:
        super().__init__()
        self.body = nn.Linear(*input_shape, n_out)
        self.head = nn.Linear(*input_shape, n_out)
        self.head.weight = self.body.weight

    def forward(self, x: Tensor) -> Tensor:
        made: Tensor = self.body(x) + self.head(x)
        return made


def test_what_is_held_under_one_name_is_not_trained_under_another() -> None:
    table = dict(Tied((6,), 4).state_dict())
    with pytest.raises(ValueError, match=r"got head\.weight, which is body\.weight"):
        make_task(input_shape=(6,), n_classes=4, target=Frozen(Tied, ("body",), table))


class Placed(Body):
    """A body with constants: one that is saved, with an infinity, and one that is not."""

    def __init__(self, input_shape: tuple[int, ...], n_out: int) -> None:
        super().__init__(input_shape, n_out)
        self.body.register_buffer("mask", torch.tensor([0.0, 0, 0, 0, -torch.inf]))
        self.body.register_buffer("places", torch.arange(5.0), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        made: Tensor = self.head((self.body(x) + self.body.places) * self.body.mask.exp())
        return made


def test_constants_that_no_file_holds_are_as_the_net_makes_them() -> None:
    table = Placed((6,), 4).state_dict()
    assert "body.places" not in table
    net = Frozen(Placed, ("body",), table)
    task, x = make_task(input_shape=(6,), n_classes=4, target=net), torch.randn(3, 6)
    whole = Placed((6,), 4).eval()
    whole.load_state_dict(table)
    own = dict(whole.named_parameters())
    made = task.logits({name: own[name] for name in task.shapes}, x)
    torch.testing.assert_close(made, whole(x))


def test_single_parameters_and_stars() -> None:
    assert {*frozen_task("body.*", "head.bias").shapes} == {"head.weight"}


def test_constants_follow_to_a_device() -> None:
    net = Frozen(Body, ("body",), weights())((6,), 4)
    constants_to(net, torch.device("meta"))
    first = net.body[0]
    assert first.weight.is_meta
    assert not net.head.weight.is_meta
    assert F.linear(torch.zeros(1, 6, device="meta"), first.weight).shape == (1, 5)
