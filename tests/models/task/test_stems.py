"""A stem's outputs are computed once a sample; training on them is training of the whole net."""

from dataclasses import replace

import pytest
import torch
from formula_federation import Population
from torch import Tensor, nn

from latecomer.models.engine.schedule import TrainConfig
from latecomer.models.engine.training import subset, train
from latecomer.models.methods import make_method
from latecomer.models.task.stems import Frozen
from latecomer.models.task.task import Task, make_task

CONFIG = TrainConfig(rounds=2, cohort=3, local_steps=3, batch_size=4)


class Net(nn.Module):
    """A stem of width 5 and a head; ``skip`` adds the inputs to what follows the stem."""

    def __init__(
        self, input_shape: tuple[int, ...], n_out: int, *, skip: bool = False, tokens: bool = False
    ) -> None:
        super().__init__()
        first = nn.Embedding(9, 5) if tokens else nn.Linear(*input_shape, 5)
        self.stem = nn.Sequential(first, nn.Tanh())
        self.head = nn.Linear(5, n_out)
        self.skip = skip

    def forward(self, x: Tensor) -> Tensor:
        made: Tensor = self.stem(x)
        made = made.mean(1) if made.dim() == 3 else made
        return self.head(made + x[:, :5] if self.skip else made)


def held(**settings: bool) -> Frozen:
    torch.manual_seed(0)

    def make(input_shape: tuple[int, ...], n_out: int) -> Net:
        return Net(input_shape, n_out, **settings)

    return Frozen(make, ("stem",), make((6,), 4).state_dict())


def task_of(stem: str | None, **settings: bool) -> Task:
    return make_task(
        input_shape=(6,),
        n_classes=4,
        dtype=torch.float64,
        hypernetwork={"hidden": 1, "width": 8},
        vocabulary=9 if settings.get("tokens") else 0,
        target=held(**settings),
        stem=stem,
    )


@pytest.mark.parametrize("name", ["fedavg", "ditto", "fedper", "knn_per", "pfedhn"])
def test_training_and_serving_are_those_of_the_whole_net(
    name: str, make_population: Population
) -> None:
    clients, method = make_population((12, 1, 7), dtype=torch.float64), make_method(name)
    whole, rest = task_of(None), task_of("stem")
    assert rest.stem is not None
    assert (rest.input_shape, rest.shapes) == ((5,), whole.shapes)
    (told,) = rest.stem.through([clients])
    ends = [
        train(method, task, held, CONFIG, seed=0, path="serial")
        for task, held in ((whole, clients), (rest, told))
    ]
    for key, value in ends[0].server.items():
        torch.testing.assert_close(ends[1].server[key], value, rtol=1e-9, atol=1e-9)
    outputs = [
        method.personalize(
            task, end, held.support_of(0), generator=torch.Generator().manual_seed(0)
        )(held.query_of(0).x)
        for task, end, held in zip((whole, rest), ends, (clients, told), strict=True)
    ]
    torch.testing.assert_close(*outputs, rtol=1e-9, atol=1e-9)


def test_samples_that_populations_share_are_stored_once_and_others_left_out(
    make_population: Population,
) -> None:
    clients = make_population((3, 2, 4), dtype=torch.float64)
    stem = task_of("stem").stem
    assert stem is not None
    last, first = subset(clients, [2]), subset(clients, [0])
    moved = replace(first, mean=first.mean + 1)
    told = stem.through([last, first, moved])
    assert told[0].x is told[1].x
    assert told[2].x is not told[1].x
    assert len(told[0].x) == 3 + 4 + 2 * 8
    assert len(told[2].x) == 3 + 8
    for before, after in zip((last, first, moved), told, strict=True):
        for samples in ("support_of", "query_of"):
            raw, made = getattr(before, samples)(0), getattr(after, samples)(0)
            torch.testing.assert_close(made.x, stem.module(raw.x))
            assert made.y.tolist() == raw.y.tolist()
    assert [len(one) for one in stem.through([subset(clients, [])])] == [0]


def test_a_stem_takes_tokens(make_population: Population) -> None:
    clients = make_population((3, 2), dtype=torch.float64)
    tokens = replace(clients, x=(clients.x.abs() * 3).long().clamp(0, 8))
    with pytest.raises(ValueError, match=r"must give vectors .* got \[3, 6, 5\] from 'stem'"):
        task_of("stem", tokens=True)

    class Pooled(Net):
        def __init__(self, input_shape: tuple[int, ...], n_out: int) -> None:
            super().__init__(input_shape, n_out, tokens=True)
            self.stem = nn.EmbeddingBag(9, 5)

    target = Frozen(Pooled, ("stem",), Pooled((6,), 4).state_dict())
    task = make_task(
        input_shape=(6,), n_classes=4, dtype=torch.float64, vocabulary=9, target=target, stem="stem"
    )
    assert task.stem is not None
    assert (task.vocabulary, task.input_shape) == (0, (5,))
    (told,) = task.stem.through([tokens])
    bag = target.weights["stem.weight"].double()
    torch.testing.assert_close(told.support_of(0).x, bag[tokens.x[tokens.support[0, :3]]].mean(1))


@pytest.mark.parametrize(
    ("stem", "settings", "message"),
    [
        (
            "body",
            {},
            r"stem must be a module of the net \(stem, stem.0, stem.1, head\), got 'body'",
        ),
        ("head", {}, "stem must be frozen as a whole, got 'head' with weight to train"),
        ("stem", {"skip": True}, "stem must be all that the net does to its inputs first"),
        ("stem.1", {}, "stem must be all that the net does to its inputs first"),
    ],
)
def test_what_is_no_stem(stem: str, settings: dict[str, bool], message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        task_of(stem, **settings)
    assert "\n" not in str(caught.value)


def test_a_net_that_fails_is_refused_in_one_line() -> None:
    def broken(input_shape: tuple[int, ...], n_out: int) -> Net:
        net = Net(input_shape, n_out)
        net.head = nn.Linear(7, n_out)
        return net

    weights = broken((6,), 4).state_dict()
    with pytest.raises(ValueError, match=r"target fails on .* \(3, 6\).*: Runtime") as caught:
        make_task(
            input_shape=(6,), n_classes=4, target=Frozen(broken, ("stem",), weights), stem="stem"
        )
    assert "\n" not in str(caught.value)


def test_a_net_that_is_given_has_no_stem() -> None:
    with pytest.raises(ValueError, match="stem needs a class or function that makes the net"):
        make_task(input_shape=(6,), n_classes=4, target="auto", stem="stem")
