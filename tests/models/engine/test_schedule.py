"""The schedule: from the seed alone, without replacement, within each client's own rows."""

from dataclasses import astuple

import numpy as np
import pytest
import torch
from formula_federation import Population
from hypothesis import given
from hypothesis import strategies as st

from latecomer.models.engine.schedule import Schedule, TrainConfig, minibatches

CONFIG = TrainConfig(rounds=4, cohort=3, local_steps=5, batch_size=4)


def test_same_seed_same_draws_in_any_order(make_population: Population) -> None:
    clients = make_population((12, 3, 9, 4, 12, 5))
    forward, backward = Schedule(1, clients, CONFIG), Schedule(1, clients, CONFIG)
    there = [forward.cohort(number) for number in range(4)]
    back = [backward.cohort(number) for number in reversed(range(4))][::-1]
    for one, other in zip(there, back, strict=True):
        for left, right in zip(astuple(one)[1:5], astuple(other)[1:5], strict=True):
            assert torch.equal(left, right)
    assert not torch.equal(there[0].members, there[1].members) or not torch.equal(
        there[0].rows, there[1].rows
    )


@pytest.mark.parametrize("few", [0, 130, 2**16])
def test_rounds_drawn_ahead_are_the_same_rounds(
    monkeypatch: pytest.MonkeyPatch, make_population: Population, few: int
) -> None:
    monkeypatch.setattr("latecomer.models.engine.schedule._A_FEW", few)
    schedule = Schedule(1, make_population(), CONFIG)
    numbers = range(3, 10)
    for number, cohort in zip(numbers, schedule.cohorts(numbers, 2), strict=True):
        alone = schedule.cohort(number, 2)
        assert cohort.round == number
        for left, right in zip(astuple(cohort)[1:5], astuple(alone)[1:5], strict=True):
            assert torch.equal(left, right)


def test_seeds_and_rounds_differ(make_population: Population) -> None:
    clients = make_population((12,) * 40)
    drawn = {
        tuple(Schedule(seed, clients, CONFIG).cohort(number).members.tolist())
        for seed in range(3)
        for number in range(3)
    }
    assert len(drawn) == 9


def test_more_batches_a_step_leave_the_first_alone(make_population: Population) -> None:
    schedule = Schedule(0, make_population(), CONFIG)
    one, two = schedule.cohort(2, 1), schedule.cohort(2, 2)
    assert torch.equal(one.members, two.members)
    assert torch.equal(one.descriptor_rows, two.descriptor_rows)
    assert torch.equal(one.rows[:, :, 0], two.rows[:, :, 0])
    assert not torch.equal(two.rows[:, :, 0], two.rows[:, :, 1])


def test_rows_belong_to_their_client(make_population: Population) -> None:
    clients = make_population((12, 2, 9, 1, 4))
    for number in range(20):
        cohort = Schedule(3, clients, CONFIG).cohort(number, 2)
        assert len(set(cohort.members.tolist())) == 3
        assert cohort.rows.shape == (3, 5, 2, 4)
        assert cohort.descriptor_rows.shape == (3, 4)
        for place, member in enumerate(cohort.members.tolist()):
            size = int(clients.support_sizes[member])
            assert int(cohort.sizes[place]) == size
            own = set(clients.support[member, :size].tolist())
            assert set(cohort.rows[place].flatten().tolist()) <= own
            assert set(cohort.descriptor_rows[place].tolist()) <= own


def test_clients_of_one_size_draw_for_themselves(make_population: Population) -> None:
    clients = make_population((12,) * 3)
    cohort = Schedule(0, clients, CONFIG).cohort(0)
    places = cohort.rows.flatten(1) - clients.support[cohort.members, :1]
    assert places.min() >= 0
    assert places.max() < 12
    for one, other in ((0, 1), (0, 2), (1, 2)):
        assert not torch.equal(places[one], places[other])


def test_descriptor_batch_is_no_training_batch(make_population: Population) -> None:
    cohort = Schedule(0, make_population(), CONFIG).cohort(0)
    assert not torch.equal(cohort.descriptor_rows, cohort.rows[:, 0, 0])


def test_every_client_is_drawn_about_equally_often(make_population: Population) -> None:
    schedule = Schedule(0, make_population((4,) * 10), CONFIG)
    counts = torch.zeros(10)
    for number in range(500):
        counts[schedule.cohort(number).members] += 1
    # 500 draws with probability .3: sd 10.2, so five of them either way.
    assert counts.min() > 99
    assert counts.max() < 201


@given(st.integers(1, 40), st.integers(1, 6), st.integers(1, 12), st.integers(0, 2**31))
def test_minibatches(n_samples: int, n_batches: int, batch_size: int, seed: int) -> None:
    drawn = minibatches(np.random.default_rng(seed), n_samples, n_batches, batch_size)
    assert drawn.shape == (n_batches, batch_size)
    assert drawn.min() >= 0
    assert drawn.max() < n_samples
    for batch in drawn:
        assert len(set(batch.tolist())) == min(n_samples, batch_size)
    if n_samples <= batch_size:
        counts = np.bincount(drawn.ravel(), minlength=n_samples)
        assert counts.max() - counts.min() <= 1


def test_minibatches_are_uniform() -> None:
    drawn = minibatches(np.random.default_rng(0), 5, 4000, 2)
    # 4000 batches with probability .4 for each sample: sd 31.
    assert np.abs(np.bincount(drawn.ravel(), minlength=5) - 1600).max() < 155


def test_refusals(make_population: Population) -> None:
    with pytest.raises(ValueError, match=r"cohort must be at most .* \(2\), got cohort=3"):
        Schedule(0, make_population((4, 4)), CONFIG)
    for seed in (-1, 2**63, 1.5, None, True):
        with pytest.raises(ValueError, match=r"seed must be a whole number from 0 .*, got seed="):
            Schedule(seed, make_population(), CONFIG)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"rounds must be a whole number >= 0, got rounds=1\.5"):
        TrainConfig(rounds=1.5)  # type: ignore[arg-type]
