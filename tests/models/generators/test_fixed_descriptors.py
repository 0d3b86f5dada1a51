"""PFedHN with class proportions for embeddings, and ODPFL-HN with an encoder that is as fixed."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import pytest
import torch
from formula_federation import Population, accuracy, generator
from torch import Tensor

from latecomer.models.engine.schedule import TrainConfig
from latecomer.models.engine.training import train
from latecomer.models.generators import unlabelled_encoders
from latecomer.models.generators.hypernetworks import hypernetwork
from latecomer.models.methods import odpfl_hn
from latecomer.models.methods.odpfl_hn import ODPFLHN
from latecomer.models.methods.pfedhn import PFedHN
from latecomer.models.task.clients import Clients, Samples
from latecomer.models.task.state import Params, part, row
from latecomer.models.task.task import Task, make_task

CONFIG = TrainConfig(rounds=4, cohort=3, local_steps=4, batch_size=6)
FIXED = PFedHN(descriptors="class_proportions", local_lr=0.05, server_lr=0.1)


@dataclass(frozen=True)
class ClassCounter:
    """An encoder without weights, for inputs whose first features are the one-hot label."""

    dim: int

    def initial(self, generator: torch.Generator) -> Params:
        return {}

    def __call__(self, params: Mapping[str, Tensor], x: Tensor) -> Tensor:
        return x[..., : self.dim].mean(dim=1)


def test_embeddings_are_class_proportions_and_stay_so(
    task: Task, make_population: Population
) -> None:
    clients = make_population((1, 3, 12, 8), classes_per_client=3)
    state = train(FIXED, task, clients, CONFIG, seed=0)
    third = 1 / 3
    expected = torch.tensor(
        [
            [1, 0, 0, 0],
            [0, third, third, third],
            [third, 0, third, third],
            [3 / 8, 2 / 8, 0, 3 / 8],
        ]
    )
    torch.testing.assert_close(state.clients["embedding"], expected, rtol=0, atol=1e-7)
    assert list(state.clients) == ["embedding"]
    untrained = FIXED.init(task, clients, None, generator())  # type: ignore[arg-type]
    assert torch.equal(state.clients["embedding"], untrained.clients["embedding"])


def test_a_newcomer_is_one_forward_pass_on_its_class_proportions(
    task: Task, make_population: Population
) -> None:
    state = train(FIXED, task, make_population(), CONFIG, seed=0)
    novel = make_population((4,), seed=1, classes_per_client=3)
    support, x = novel.support_of(0), novel.query_of(0).x
    assert support.labels().tolist() == [0, 1, 2, 0]
    theta = hypernetwork(task, 4)(
        part(state.server, "hyper"), torch.tensor([[0.5, 0.25, 0.25, 0.0]])
    )
    served = FIXED.personalize(task, state, support, generator=generator())(x)
    assert torch.equal(served, task.logits(row(theta, 0), x))
    # Neither a draw nor the inputs matter, the labels do.
    other = Samples(torch.randn(4, 6, generator=generator(2)), support.labels().flip(0))
    again = FIXED.personalize(task, state, other, generator=generator(1))(x)
    assert torch.equal(served, again)
    shifted = Samples(support.x, support.labels() + 1)
    assert not torch.equal(
        served, FIXED.personalize(task, state, shifted, generator=generator())(x)
    )


def test_a_seen_client_is_served_as_a_newcomer_with_its_data(
    task: Task, make_population: Population
) -> None:
    clients = make_population((3, 20, 7, 11))
    state = train(FIXED, task, clients, CONFIG, seed=0)
    for index in range(4):
        support, x = clients.support_of(index), clients.query_of(index).x
        seen = FIXED.serve(task, state, index, support, generator=generator())(x)
        novel = FIXED.personalize(task, state, support, generator=generator())(x)
        assert torch.equal(seen, novel)


def test_newcomers_with_classes_in_new_proportions_are_served_well(
    task: Task, make_population: Population
) -> None:
    config = replace(CONFIG, rounds=60, cohort=4, local_steps=5)
    state = train(FIXED, task, make_population((12,) * 16), config, seed=0)
    novel = make_population((12, 1, 5, 20), seed=1)
    assert accuracy(FIXED, task, state, novel, seen=False, indices=(0, 2, 3)) >= 0.85
    alone = FIXED.personalize(task, state, novel.support_of(1), generator=generator())
    assert bool(alone(novel.query_of(1).x).isfinite().all())


def test_what_is_refused_and_what_is_declared(task: Task, make_population: Population) -> None:
    clients = make_population()
    state = train(FIXED, task, clients, replace(CONFIG, rounds=1), seed=0)
    with pytest.raises(ValueError, match="support must be labelled"):
        FIXED.personalize(
            task, state, Samples(clients.support_of(0).x, None), generator=generator()
        )
    with pytest.raises(ValueError, match=r"^embedding_dim must be left .*, got embedding_dim=3"):
        PFedHN(descriptors="class_proportions", embedding_dim=3)
    with pytest.raises(ValueError, match="novel_rounds must be left out with descriptors=class"):
        PFedHN(descriptors="class_proportions", novel_rounds=3)
    with pytest.raises(ValueError, match="descriptors must be one of learned, class_proportions"):
        PFedHN(descriptors="fixed")
    assert (PFedHN.personalization, PFedHN().personalization) == ("embedding", "embedding")
    assert (FIXED.personalization, replace(FIXED, server_lr=1.0).personalization) == (
        "forward",
        "forward",
    )


@pytest.mark.parametrize("clip", [1e9, 0.05])
@pytest.mark.parametrize("path", ["serial", "vectorised"])
def test_odpfl_hn_with_a_fixed_encoder_is_pfedhn_with_fixed_descriptors(
    monkeypatch: pytest.MonkeyPatch, make_population: Population, clip: float, path: str
) -> None:
    # ODPFL-HN's default encoder, wherever it is looked up, becomes one without weights.
    for module in (odpfl_hn, unlabelled_encoders):
        monkeypatch.setattr(
            module, "deep_sets", lambda task, dim, width=200: ClassCounter(dim), raising=False
        )
    task = make_task(
        input_shape=(10,), n_classes=4, hypernetwork={"hidden": 1, "width": 20}, dtype=torch.float64
    )

    def with_labels(clients: Clients) -> Clients:
        label = torch.nn.functional.one_hot(clients.y, 4).to(clients.x.dtype)
        mean = torch.zeros((), dtype=torch.float64)
        return replace(clients, x=torch.cat([label, clients.x], dim=1), mean=mean, sd=mean + 1)

    sizes = (7, 3, 2, 6, 1, 4)
    clients = with_labels(make_population(sizes, dtype=torch.float64, classes_per_client=3))
    shared = {"local_lr": 0.05, "server_lr": 0.1, "server_weight_decay": 0.01, "clip_norm": clip}
    pfedhn = PFedHN(descriptors="class_proportions", **shared)  # type: ignore[arg-type]
    odpfl = ODPFLHN(
        descriptor_dim=4,
        server_optimizer="sgd",
        standardise="none",
        averaging=0,
        **shared,  # type: ignore[arg-type]
    )
    parent, state = (
        train(method, task, clients, CONFIG, seed=2, path=path) for method in (pfedhn, odpfl)
    )
    expected, found = part(parent.server, "hyper"), part(state.server, "hyper")
    assert list(expected) == list(found)
    sections = ("hyper.", "optimizer.hyper.")
    assert set(state.server) == {f"{s}{k}" for k in expected for s in sections}
    for key, value in expected.items():
        assert torch.equal(found[key], value), key
    novel = with_labels(make_population((5,), seed=3, dtype=torch.float64, classes_per_client=3))
    support, x = novel.support_of(0), novel.query_of(0).x
    served = [
        method.personalize(task, trained, support, generator=generator())(x)
        for method, trained in ((pfedhn, parent), (odpfl, state))
    ]
    assert torch.equal(*served)
    # Embeddings that move are another method.
    learnt = train(PFedHN(embedding_dim=4, **shared), task, clients, CONFIG, seed=2)  # type: ignore[arg-type]
    assert not torch.equal(learnt.server["hyper.trunk0.weight"], expected["trunk0.weight"])
