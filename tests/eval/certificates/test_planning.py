"""How many clients to hold out: the floor, the simulation, what cannot be reached."""

import doctest

import numpy as np
import pytest

from latecomer.bounds import product, reference_price
from latecomer.eval import InputError
from latecomer.eval.certificates import arriving, ledger, planning
from latecomer.eval.certificates.planning import clients_to_hold_out

ASKED = {"target": 0.25, "expected": 0.17, "sd": 0.09}


@pytest.mark.parametrize("module", [arriving, ledger, planning])
def test_examples(module):
    assert doctest.testmod(module).failed == 0


@pytest.mark.parametrize("target", [0.2, 0.25, 0.4, 0.9])
def test_the_floor_is_the_fewest_clients_whose_reference_price_fits(target):
    k = clients_to_hold_out(**ASKED | {"target": target}).floor
    floors = 0.17 + reference_price(mean_loss=0.17, n_clients=[k, max(k - 1, 1)], delta=0.05)
    assert floors[0] <= target + 1e-12
    assert k == 1 or floors[1] > target


def test_the_plan_keeps_its_probabilities_on_other_draws():
    found = clients_to_hold_out(**ASKED)
    assert found.floor <= found.even_odds < found.likely
    size = 0.17 * 0.83 / 0.09**2 - 1
    losses = np.random.default_rng(5).beta(0.17 * size, 0.83 * size, (4000, found.likely + 10))

    def reached(k):
        return (product(losses=losses[:, :k], delta=0.05).value <= 0.25).mean()

    assert reached(found.even_odds) == pytest.approx(0.5, abs=0.1)
    assert reached(found.even_odds - 5) < 0.45
    assert reached(found.likely) == pytest.approx(0.9, abs=0.05)
    assert reached(found.likely - 8) < 0.88


def test_a_smaller_supply_changes_nothing_but_what_is_in_reach():
    whole = clients_to_hold_out(**ASKED)
    some = clients_to_hold_out(**ASKED, clients=whole.likely - 1)
    assert (some.floor, some.even_odds, some.likely) == (whole.floor, whole.even_odds, None)
    few = clients_to_hold_out(**ASKED, clients=whole.floor - 1)
    assert (few.floor, few.even_odds, few.likely) == (None, None, None)
    never = clients_to_hold_out(target=0.17, expected=0.17, sd=0.09)
    assert (never.floor, never.even_odds, never.likely) == (None, None, None)


def test_rules_differ_as_their_prices_do():
    mixture = clients_to_hold_out(**ASKED, rule="betting_mixture", clients=120)
    assert mixture.even_odds > clients_to_hold_out(**ASKED).even_odds
    assert clients_to_hold_out(**ASKED, rule="chernoff_kl", clients=60).even_odds is None


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"target": 1.5}, "target must lie strictly between 0 and 1, got 1.5"),
        ({"expected": 0}, "expected must lie strictly between 0 and 1, got 0"),
        ({"sd": 0.4}, "sd must lie strictly between 0 and 0.3756, got 0.4"),
        ({"sd": 0.0}, "sd must lie strictly between 0 and 0.3756, got 0.0"),
        ({"delta": 0}, "delta must lie strictly between 0 and 1, got 0"),
        ({"rule": "wsr"}, "rule must be one of product, chernoff_kl, betting_mixture, got 'wsr'"),
        ({"clients": 0}, "clients must be a whole number of at least 1, got 0"),
        ({"seed": -1}, "seed must be a whole number of at least 0, got -1"),
    ],
)
def test_bad_input_is_one_line(changes, said):
    with pytest.raises(InputError) as caught:
        clients_to_hold_out(**ASKED | changes)
    assert str(caught.value) == said
