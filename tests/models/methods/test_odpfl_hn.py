"""ODPFL-HN: sets without labels, the chain rule, encoders by name, training in turns, noise."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from formula_federation import Population, accuracy, generator, kept_rounds

from latecomer.bounds.privacy import dp_sensitivity, gauss_analytic
from latecomer.models.engine.schedule import Cohort, Schedule, TrainConfig
from latecomer.models.engine.training import initial_state, train
from latecomer.models.families import described_clients
from latecomer.models.generators.unlabelled_encoders import (
    SET_ENCODERS,
    deep_sets,
    noise_sd,
    set_encoder_named,
    with_noise,
)
from latecomer.models.methods.fedavg import FedAvg
from latecomer.models.methods.odpfl_hn import ODPFLHN
from latecomer.models.methods.pfedhn import PFedHN
from latecomer.models.task.clients import Samples
from latecomer.models.task.state import State, part
from latecomer.models.task.task import Task, make_task
from latecomer.models.traffic import traffic

CONFIG = TrainConfig(rounds=8, cohort=3, local_steps=4, batch_size=5)
SHORT = replace(CONFIG, rounds=3)
IN_TURNS: dict[str, Any] = {
    "training": "two_phase",
    "server_optimizer": "sgd",
    "local_lr": 0.05,
    "server_lr": 0.05,
    "embedding_lr": 0.05,
}
PRIVATE: dict[str, Any] = {"encoder": "unit-deepsets", "local_lr": 0.05, "server_lr": 3e-3}


def test_half_the_units_are_averaged_and_of_half_the_largest_taken(task: Task) -> None:
    encoder = deep_sets(task, 4, 4)
    params = encoder.initial(generator()) | {"psi.weight": torch.eye(4), "psi.bias": torch.zeros(4)}
    x = torch.randn(1, 9, 6, generator=generator(1))
    units = torch.relu(
        torch.cat([encoder.phi.stateless(part(params, "phi"), one[None]) for one in x[0]])  # type: ignore[operator]
    )
    expected = torch.cat([units[:, :2].mean(0), units[:, 2:].amax(0)])
    torch.testing.assert_close(encoder(params, x)[0], expected)


SIZES = (12, 7, 12, 9, 3, 12, 12, 1)


def test_serving_and_generation_never_read_labels(task: Task, make_population: Population) -> None:
    clients, method = make_population(), ODPFLHN(local_lr=0.05)
    poisoned = replace(clients, y=(clients.y + 1) % 4)
    cohort = Schedule(0, clients, SHORT).cohort(0)
    state = method.init(task, clients, cohort, generator())
    made = [
        method.start(task, state, table, cohort, generator()).params
        for table in (clients, poisoned)
    ]
    assert all(torch.equal(made[0][key], made[1][key]) for key in made[0])
    trained = train(method, task, clients, SHORT, seed=0)
    support, x = clients.support_of(2), clients.query_of(2).x
    served = [
        method.serve(task, trained, 2, Samples(support.x, y), generator=generator())(x)
        for y in (support.y, None)
    ]
    assert torch.equal(*served)


def test_descriptors_are_standardised_by_the_first_cohort_for_good(
    task: Task, make_population: Population
) -> None:
    clients, method = make_population(SIZES), ODPFLHN(local_lr=0.05)
    first = Schedule(0, clients, SHORT).cohort(0)
    state = method.init(task, clients, first, Schedule(0, clients, SHORT).initial_noise())
    found = torch.stack(
        [method.describe(task, state, clients.support_of(i)) for i in first.members.tolist()]
    )
    torch.testing.assert_close(found.mean(dim=0), torch.zeros(2), atol=1e-5, rtol=0)
    spread = found.std(dim=0)
    assert float(spread.max()) == pytest.approx(1, abs=1e-4)
    # A coordinate that hardly differs is not blown up beyond four times the coordinates' own size.
    raw = spread * state.server["descriptor.sd"]
    floor = raw.square().mean().sqrt() / 4
    torch.testing.assert_close(state.server["descriptor.sd"], raw.clamp_min(float(floor)))
    after = train(method, task, clients, SHORT, seed=0)
    for key, value in part(state.server, "descriptor").items():
        assert torch.equal(after.server[f"descriptor.{key}"], value)
    # Of a single client there is nothing to standardise by, and nothing becomes infinite.
    alone = train(method, task, clients, replace(SHORT, cohort=1), seed=0)
    assert bool((alone.server["descriptor.sd"] == 1).all())
    assert bool(torch.isfinite(method.describe(task, alone, clients.support_of(0))).all())


def test_clients_are_served_by_the_running_mean_of_the_networks(
    task: Task, make_population: Population
) -> None:
    clients = make_population(SIZES)
    method = ODPFLHN(local_lr=0.05, averaging=0.3)
    last, kept = kept_rounds(method, task, clients, SHORT, seed=0)
    mean = initial_state(method, task, clients, SHORT, seed=0).server["hyper.trunk0.weight"]
    for number, done in enumerate(kept):
        decay = min(0.3, (1 + number) / (10 + number))
        mean = decay * mean + (1 - decay) * done.state.server["hyper.trunk0.weight"]
    torch.testing.assert_close(last.server["mean.hyper.trunk0.weight"], mean)
    # Training itself knows nothing of it.
    plain = train(replace(method, averaging=0), task, clients, SHORT, seed=0).server
    assert not any(key.startswith("mean.") for key in plain)
    assert all(torch.equal(last.server[key], value) for key, value in plain.items())
    support, x = clients.support_of(0), clients.query_of(0).x
    averaged = {**plain, **part(last.server, "mean")}
    bare = replace(method, averaging=0)
    expected = bare.personalize(task, State(averaged), support, generator=generator())(x)
    found = method.personalize(task, last, support, generator=generator())(x)
    assert torch.equal(found, expected)
    assert not torch.equal(
        found, bare.personalize(task, State(plain), support, generator=generator())(x)
    )


def test_every_sample_of_a_client_describes_it_in_training(
    task: Task, make_population: Population
) -> None:
    clients, method = make_population(), ODPFLHN()
    cohort = Schedule(0, clients, SHORT).cohort(0)
    state = method.init(task, clients, cohort, generator())
    before = method.start(task, state, clients, cohort, generator()).params
    outside = set(clients.support[cohort.members[0]].tolist())
    outside -= set(cohort.descriptor_rows[0].tolist()) | set(cohort.rows[0].flatten().tolist())
    x = clients.x.clone()
    x[outside.pop()] += 3.0
    after = method.start(task, state, replace(clients, x=x), cohort, generator()).params
    moved = [not torch.equal(before["head.weight"][i], after["head.weight"][i]) for i in range(3)]
    assert moved == [True, False, False]


@pytest.mark.thinned
@pytest.mark.slow
@pytest.mark.parametrize("name", [*SET_ENCODERS, "unit-deepsets"])
def test_every_encoder_learns(task: Task, make_population: Population, name: str) -> None:
    method = ODPFLHN(encoder=name, local_lr=0.05, server_lr=3e-3)
    state = train(method, task, make_population((12,) * 16), replace(CONFIG, rounds=100), seed=0)
    drawn = set_encoder_named(name, task, 4, 200).initial(generator())
    assert {k: v.shape for k, v in part(state.server, "encoder").items()} == {
        k: v.shape for k, v in drawn.items()
    }
    assert accuracy(method, task, state, make_population((12,) * 8, seed=1), seen=False) >= 0.85


def test_the_studys_encoder_of_labelled_data_is_not_used(
    make_population: Population,
) -> None:
    tables = []
    for name in ("auto", "mlp", "dss"):
        task = make_task(input_shape=(6,), n_classes=4, encoder=name)
        cohort = Schedule(0, make_population(), CONFIG).cohort(0)
        tables.append(ODPFLHN().init(task, make_population(), cohort, generator()).server)
    for other in tables[1:]:
        assert all(torch.equal(tables[0][key], other[key]) for key in tables[0])


def test_parts_describe_in_training_and_all_samples_in_serving(
    task: Task, make_population: Population
) -> None:
    clients, method = make_population((12,) * 8), ODPFLHN(undescribed=0.75)
    x, drawing = clients.support_of(0).x, generator()
    parts = [method.sampled(x, drawing) for _ in range(200)]
    assert {len(part) for part in parts} == set(range(len(x) // 4, len(x) + 1))
    rows = {tuple(sample) for sample in x.tolist()}
    for part_of in parts:
        chosen = [tuple(sample) for sample in part_of.tolist()]
        assert len(set(chosen)) == len(chosen)
        assert set(chosen) <= rows
    whole = replace(method, undescribed=0.0)
    assert torch.equal(whole.sampled(x, drawing), x)
    state = train(method, task, clients, CONFIG, seed=0)
    other = train(whole, task, clients, CONFIG, seed=0)
    assert any(not torch.equal(state.server[key], other.server[key]) for key in state.server)
    bare = Samples(x, None)
    assert torch.equal(method.describe(task, state, bare), whole.describe(task, state, bare))


@pytest.mark.parametrize("encoder", ["deepsets", "dss"])
def test_descriptors_of_batches_are_averaged_in_training_and_in_serving(
    task: Task, make_population: Population, encoder: str
) -> None:
    clients = make_population((12,) * 8)
    whole = ODPFLHN(encoder=encoder, standardise="none", descriptor_dim=3)
    parted = replace(whole, encoder_batch=5)
    cohort = Schedule(0, clients, CONFIG).cohort(0)
    state = whole.init(task, clients, cohort, generator())
    x = clients.support_of(int(cohort.members[0])).x
    net = set_encoder_named(encoder, task, 3, 200)
    weights = part(state.server, "encoder")
    found = [net(weights, batch[None])[0] * len(batch) for batch in (x[:5], x[5:10], x[10:])]
    expected = torch.stack(found).sum(dim=0) / 12
    described = parted.describe(task, state, Samples(x, None))
    torch.testing.assert_close(described, expected)
    assert not torch.allclose(described, whole.describe(task, state, Samples(x, None)), rtol=1e-3)
    starts = [m.start(task, state, clients, cohort, generator()).params for m in (parted, whole)]
    made = described_clients.weights(task, state.server, expected[None])
    for key, value in made.items():
        torch.testing.assert_close(starts[0][key][0], value[0])
    assert any(not torch.allclose(starts[0][key], starts[1][key]) for key in made)
    # A batch that holds everything is everything.
    one = replace(whole, encoder_batch=12).describe(task, state, Samples(x, None))
    torch.testing.assert_close(one, whole.describe(task, state, Samples(x, None)))


@pytest.mark.nightly
def test_training_in_turns_serves_newcomers(task: Task, make_population: Population) -> None:
    method = ODPFLHN(**IN_TURNS | {"server_lr": 0.1, "encoder_lr": 0.02})
    seen, novel = make_population((12,) * 16), make_population((12,) * 8, seed=1)
    state = train(method, task, seen, replace(CONFIG, rounds=240), seed=0)
    assert accuracy(method, task, state, novel, seen=False) >= 0.85


@pytest.mark.parametrize("path", ["serial", "vectorised"])
def test_only_what_learns_in_a_phase_moves(
    task: Task, make_population: Population, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    met: list[tuple[str, set[str]]] = []
    aggregate = ODPFLHN.aggregate

    def watched(method: ODPFLHN, task: Task, state: State, cohort: Cohort, *rest: Any) -> State:
        after = aggregate(method, task, state, cohort, *rest)
        moved = {k.split(".")[0] for k, v in after.server.items() if (v != state.server[k]).any()}
        own = (after.clients["embedding"] != state.clients["embedding"]).any(dim=1)
        # As in pFedHN's published code those not drawn decay and go on too.
        assert bool(own.all()) == (cohort.phase == "embeddings") == bool(own.any())
        met.append((cohort.phase, moved - {"optimizer", "mean"}))
        return after

    monkeypatch.setattr(ODPFLHN, "aggregate", watched)
    train(ODPFLHN(**IN_TURNS), task, make_population(), CONFIG, seed=0, path=path)
    assert met == [("embeddings", {"hyper", "encoder"})] * 5 + [("finetune", {"hyper"})] * 3


def test_without_fine_tuning_the_hypernetwork_is_that_of_pfedhn(
    task: Task, make_population: Population
) -> None:
    ours = ODPFLHN(training="two_phase", server_optimizer="sgd", finetune_share=0, descriptor_dim=3)
    states = [
        train(method, task, make_population(), CONFIG, seed=1)
        for method in (ours, PFedHN(embedding_dim=3))
    ]
    hyper = [part(state.server, "hyper") for state in states]
    assert all(torch.equal(hyper[0][key], hyper[1][key]) for key in hyper[1])
    assert all(torch.equal(states[0].clients[k], states[1].clients[k]) for k in states[1].clients)


def test_clients_step_the_encoder_down_the_squared_distance(
    make_population: Population,
) -> None:
    clients = make_population((12, 7, 12, 9, 3, 12, 12, 1), dtype=torch.float64)
    task = make_task(input_shape=(6,), n_classes=4, dtype=torch.float64)
    settings = {"encoder_lr": 0.05, "encoder_steps": 2, "local_momentum": 0.0, "clip_norm": 1e9}
    method = ODPFLHN(**IN_TURNS | settings, local_weight_decay=0.0, pooled_units=6)
    cohort = replace(Schedule(0, clients, CONFIG).cohort(0), phase="embeddings")
    before = method.init(task, clients, cohort, generator())
    start = method.start(task, before, clients, cohort, generator())
    after = method.aggregate(task, before, cohort, start, start.params)
    expected = {k: torch.zeros_like(v) for k, v in part(before.server, "encoder").items()}
    for member in cohort.members.tolist():
        weights = part(before.server, "encoder")
        for _ in range(2):
            weights = {k: v.clone().requires_grad_() for k, v in weights.items()}
            x = clients.support_of(member).x[None]
            found = set_encoder_named("deepsets", task, 2, 6)(weights, x)[0]
            (found - before.clients["embedding"][member]).square().sum().backward()
            weights = {k: (v - 0.05 * v.grad).detach() for k, v in weights.items()}
        expected = {k: v + weights[k] / 3 for k, v in expected.items()}
    for key, value in expected.items():
        torch.testing.assert_close(after.server[f"encoder.{key}"], value)


def test_the_encoder_travels_both_ways_while_clients_train_it(task: Task) -> None:
    assert len(ODPFLHN().phases(task)) == 1
    found, weights = traffic(ODPFLHN(**IN_TURNS), task), traffic(FedAvg(), task).down
    drawn = set_encoder_named("deepsets", task, 10).initial(generator())
    encoder = 4 * sum(value.numel() for value in drawn.values())
    # Two thirds of the rounds: weights, embedding and encoder down, weights and encoder up; one
    # third: weights and encoder down, weights and descriptor up.
    assert found.down == round(weights + encoder + 2 / 3 * 4 * 10)
    assert found.up == round(weights + 2 / 3 * encoder + 1 / 3 * 4 * 10)
    assert found.kept == 2 * 10


def test_one_sample_moves_a_unit_descriptor_by_its_sensitivity_at_most() -> None:
    task = make_task(input_shape=(6,), n_classes=4, dtype=torch.float64)
    encoder = set_encoder_named("unit-deepsets", task, 5, 10)
    params = encoder.initial(generator())
    params["psi.weight"] = params["psi.weight"] * 40
    x = torch.randn(200, 4, 6, generator=generator(1), dtype=torch.float64)
    other = x.clone()
    other[:, 2] = 9 * torch.randn(200, 6, generator=generator(2), dtype=torch.float64)
    gone = (encoder(params, x) - encoder(params, other)).norm(dim=1)
    limit = float(dp_sensitivity(head_lipschitz=1, feature_bound=1, n_samples=4))
    assert limit / 10 < float(gone.max()) <= limit
    # The limit is reached where two embeddings are opposite and the map keeps their direction.
    params = {k: torch.zeros_like(v) for k, v in params.items()}
    params["psi.weight"] = torch.eye(5, 10, dtype=torch.float64)
    params["phi.head.bias"] = torch.eye(10, dtype=torch.float64)[0]
    flipped = {**params, "phi.head.bias": -params["phi.head.bias"]}
    gap = encoder(params, x[:1, :1]) - encoder(flipped, x[:1, :1])
    assert float(gap.norm()) == pytest.approx(2.0)


def test_noise_is_as_wide_as_the_calculator_says() -> None:
    for m, epsilon, delta in ((1, 0.3, 0.01), (300, 0.3, 0.01), (3000, 4.0, 1e-5)):
        swing = 2.0 / m
        expected = gauss_analytic(epsilon=epsilon, dp_delta=delta, sensitivity=swing)
        assert noise_sd(m, epsilon, delta) == pytest.approx(float(expected), rel=1e-12)
    drawn = with_noise(torch.zeros(40_000), 0.7, generator())
    assert float(drawn.std()) == pytest.approx(0.7, rel=0.02)
    assert abs(float(drawn.mean())) < 0.02


def test_newcomers_alone_are_served_with_that_noise(
    task: Task, make_population: Population, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[float] = []

    def watched(descriptors: torch.Tensor, sd: float, draw: torch.Generator) -> torch.Tensor:
        given.append(sd)
        return with_noise(descriptors, sd, draw)

    monkeypatch.setattr("latecomer.models.methods.odpfl_hn.with_noise", watched)
    clients = make_population()
    state = train(ODPFLHN(**PRIVATE), task, clients, CONFIG, seed=0)
    support, x = clients.support_of(0), clients.query_of(0).x
    method, plain = ODPFLHN(**PRIVATE, dp_epsilon=0.3), ODPFLHN(**PRIVATE)

    def served(method: ODPFLHN, seed: int = 0) -> torch.Tensor:
        return method.personalize(task, state, support, generator=generator(seed))(x)

    assert torch.equal(served(method), served(method))
    assert not torch.allclose(served(method), served(method, 1))
    assert given == [noise_sd(12, 0.3, 0.01)] * 4
    seen = method.serve(task, state, 0, support, generator=generator())(x)
    assert torch.equal(seen, served(plain))
    assert len(given) == 4
    # A limit: noise goes to nothing as epsilon grows.
    gaps = [
        float((served(ODPFLHN(**PRIVATE, dp_epsilon=e)) - served(plain)).abs().max())
        for e in (1.0, 1e3, 1e6, 1e16)
    ]
    assert gaps == sorted(gaps, reverse=True)
    assert gaps[0] > 1e-3
    assert gaps[-1] < 1e-3 * gaps[0]


def test_noise_does_not_touch_training(task: Task, make_population: Population) -> None:
    states = [
        train(ODPFLHN(**PRIVATE, dp_epsilon=e), task, make_population(), CONFIG, seed=0).server
        for e in (None, 0.1)
    ]
    assert all(torch.equal(states[0][key], states[1][key]) for key in states[0])


@pytest.mark.parametrize("name", SET_ENCODERS)
def test_encoders_without_known_sensitivity_are_not_made_private(name: str) -> None:
    with pytest.raises(
        ValueError, match=r"^encoder must be unit-deepsets with dp_epsilon"
    ) as found:
        ODPFLHN(dp_epsilon=1.0, encoder=name)
    assert "max pooling" in str(found.value)
    assert str(found.value).endswith(f"got encoder={name!r}")
    assert "\n" not in str(found.value)


def test_options_out_of_range_are_refused() -> None:
    for wrong in ({"dp_epsilon": 0.0}, {"dp_delta": 1.0}, {"dp_delta": None}, {"training": "both"}):
        (name,) = wrong
        with pytest.raises(ValueError, match=rf"^{name} must be .*, got {name}="):
            ODPFLHN(**PRIVATE, **wrong)
