"""PFL-sampled, PFL-nearest and PFL-ensemble: newcomers served with seen clients' models."""

import numpy as np
import pytest
import torch
from formula_federation import Population, generator
from sklearn.linear_model import Ridge

from latecomer.models.engine.method import versions
from latecomer.models.engine.schedule import TrainConfig
from latecomer.models.engine.training import train
from latecomer.models.methods.pfl_ensemble import PFLEnsemble
from latecomer.models.methods.pfl_nearest import PFLNearest, proxy_a_distance
from latecomer.models.methods.pfl_sampled import PFLSampled
from latecomer.models.task.clients import Samples
from latecomer.models.task.task import Task

CONFIG = TrainConfig(rounds=20, cohort=4, local_steps=4, batch_size=5)
RATES = {"local_lr": 0.05, "server_lr": 0.1}


def test_leave_one_out_in_one_solve_is_leaving_out_one_by_one() -> None:
    draw = generator()
    left = torch.randn(5, 2, 3, generator=draw)
    right = torch.randn(9, 2, 3, generator=draw) + 0.8
    found, residual = proxy_a_distance(left, right, ridge=0.3)
    x = torch.cat([left, right]).flatten(1).double().numpy() / np.sqrt(6)
    x = np.hstack([x, np.ones((14, 1))])
    y = np.repeat([-1.0, 1.0], [5, 9])
    weight = 14 * np.repeat([0.5 / 5, 0.5 / 9], [5, 9])
    missed = []
    for out in range(14):
        rest = np.arange(14) != out
        model = Ridge(alpha=0.3, fit_intercept=False).fit(x[rest], y[rest], weight[rest])
        missed.append(y[out] - model.predict(x[out : out + 1])[0])
    wrong = (y - missed) * y <= 0
    assert residual == pytest.approx(-np.square(missed).mean())
    assert found == pytest.approx(2 * (1 - wrong[:5].mean() - wrong[5:].mean()))
    assert 0 < found < 2


def test_distance_of_alike_far_and_single_inputs() -> None:
    draw = generator()
    near, same = (torch.randn(30, 4, generator=draw) for _ in range(2))
    assert proxy_a_distance(near, same)[0] < 0.6
    assert proxy_a_distance(near, same + 9)[0] == 2
    assert all(np.isfinite(proxy_a_distance(near[:1], same[:1])))


def test_sampled_is_the_mean_over_models_in_expectation(
    task: Task, make_population: Population
) -> None:
    clients, novel = make_population(), make_population((12,) * 8, seed=1)
    method = PFLSampled(**RATES)
    state = train(method, task, clients, CONFIG, seed=0)
    support, query = novel.support_of(0), novel.query_of(0)
    alone = torch.stack(
        [method.serve(task, state, i, support, generator=generator())(query.x) for i in range(8)]
    )
    served = torch.stack(
        [
            method.personalize(task, state, support, generator=generator(seed))(query.x)
            for seed in range(300)
        ]
    )
    # Every draw is some client's model, for all rows alike.
    whose = (served[:, None] - alone[None]).abs().sum((2, 3)).argmin(1)
    assert torch.equal(alone[whose], served)
    share = torch.bincount(whose, minlength=8) / len(whose)
    # Binomial(300, 1/8): five standard deviations.
    assert float((share - 1 / 8).abs().max()) < 5 * (7 / 64 / 300) ** 0.5
    several = versions(method.personalize(task, state, support, generator=generator()))
    assert torch.equal(torch.stack([one(query.x) for one in several]), alone)
    predict = method.personalize(task, state, support, generator=generator())
    assert torch.equal(predict(query.x), predict(query.x))


def test_nearest_finds_the_client_with_the_same_inputs(
    task: Task, make_population: Population
) -> None:
    # Four pairs of clients share their two classes: either of a pair may be the nearest.
    clients = make_population((12, 9, 30, 4, 12, 1, 12, 12))
    method = PFLNearest(n_inputs=10, **RATES)
    state = train(method, task, clients, CONFIG, seed=0)
    assert state.clients["inputs"].shape == (8, 10, 6)
    assert state.clients["n_inputs"].tolist() == [10, 9, 10, 4, 10, 1, 10, 10]
    kept = state.clients["inputs"][2]
    assert torch.equal(kept, clients.support_of(2).x[::3])
    own = method.nearest(state, state.clients["inputs"][0])
    assert own % 4 == 0
    novel = make_population((40,) * 4, seed=7)
    found = [method.nearest(state, novel.support_of(i).x) % 4 for i in range(4)]
    assert sum(one == i for i, one in enumerate(found)) >= 3
    x = novel.query_of(1).x
    served = method.personalize(task, state, novel.support_of(1), generator=generator())(x)
    index = method.nearest(state, novel.support_of(1).x)
    own_model = method.serve(task, state, index, novel.support_of(1), generator=generator())
    assert torch.equal(served, own_model(x))


@pytest.mark.parametrize("method", [PFLSampled(), PFLNearest(), PFLEnsemble()])
def test_with_one_seen_client_all_newcomers_get_its_model(
    task: Task,
    make_population: Population,
    method: PFLSampled | PFLNearest | PFLEnsemble,
) -> None:
    clients = make_population((7,))
    state = train(method, task, clients, TrainConfig(2, 1, 2, 4), seed=0)
    support, x = make_population(seed=1).support_of(3), clients.query_of(0).x
    bare = Samples(support.x, None)
    served = method.personalize(task, state, bare, generator=generator())(x)
    assert torch.equal(served, method.serve(task, state, 0, bare, generator=generator())(x))
