"""How many clients to hold out: the floor, the simulation, what cannot be reached."""

import numpy as np
import pytest

import latecomer
from latecomer.bounds import blend, product, reference_price, reference_price_pool
from latecomer.bounds.held_out.betting import seeded_orders
from latecomer.bounds.held_out.blend import blend_refuses
from latecomer.certify import planned
from latecomer.certify.planned import (
    clients_to_hold_out,
    foretold,
    plan_hold_out,
    refuse_too_few,
)
from latecomer.eval import InputError

ASKED = {"target": 0.25, "expected": 0.17, "sd": 0.09}
PRODUCT = ASKED | {"rule": "product"}


@pytest.mark.parametrize("target", [0.2, 0.25, 0.4, 0.9])
def test_the_floor_is_the_fewest_clients_whose_reference_price_fits(target):
    k = clients_to_hold_out(**ASKED | {"target": target}, rule="product").floor
    floors = 0.17 + reference_price(mean_loss=0.17, n_clients=[k, max(k - 1, 1)], delta=0.05)
    assert floors[0] <= target + 1e-12
    assert k == 1 or floors[1] > target


def test_the_plan_keeps_its_probabilities_on_other_draws():
    found = clients_to_hold_out(**ASKED, rule="product")
    assert found.floor <= found.even_odds < found.likely
    size = 0.17 * 0.83 / 0.09**2 - 1
    losses = np.random.default_rng(5).beta(0.17 * size, 0.83 * size, (4000, found.likely + 10))

    def reached(k):
        return (product(losses=losses[:, :k], delta=0.05).value <= 0.25).mean()

    assert reached(found.even_odds) == pytest.approx(0.5, abs=0.1)
    assert reached(found.even_odds - 5) < 0.45
    assert reached(found.likely) == pytest.approx(0.9, abs=0.05)
    assert reached(found.likely - 8) < 0.88


def pilot(law, n=40):
    return np.random.default_rng(8).permutation(law(np.random.default_rng(7), n)).tolist()


def bimodal(generator, n):
    return np.where(generator.random(n) < 0.3, generator.beta(20, 30, n), generator.beta(4, 60, n))


def many_zeros(generator, n):
    return np.where(generator.random(n) < 0.6, 0.0, generator.beta(2, 8, n))


# What clients score, the target, and how far from 1/2 and 9/10 other draws may be: on a coarse
# pilot one client more moves the probability further.
WORLDS = {
    "even": ({"expected": 0.17, "sd": 0.09}, 0.25),
    "two of a hundred hopeless": ({"expected": 0.17, "sd": 0.09, "hopeless": 0.02}, 0.27),
    "a bimodal pilot": ({"pilot": pilot(bimodal)}, 0.24),
    "a pilot with many zeros, one of fifty hopeless": (
        {"pilot": pilot(many_zeros), "hopeless": 0.02},
        0.18,
    ),
    "a pilot with two clients of forty at 1": ({"pilot": [*pilot(bimodal, 38), 1.0, 1.0]}, 0.33),
}


@pytest.mark.thinned
@pytest.mark.slow
@pytest.mark.parametrize("name", WORLDS)
def test_the_default_rule_keeps_its_probabilities_in_five_worlds(name):
    """Fresh draws of the law that was planned with, along other and more orders."""
    given, target = WORLDS[name]
    found = clients_to_hold_out(target=target, **given)
    generator, size = np.random.default_rng(17), (2000, found.likely)
    if "pilot" in given:
        losses = generator.choice(given["pilot"], size)
    else:
        mean, sd = given["expected"], given["sd"]
        total = mean * (1 - mean) / sd**2 - 1
        losses = generator.beta(mean * total, (1 - mean) * total, size)
    losses[generator.random(size) < given.get("hopeless", 0.0)] = 1.0

    def reached(k):
        return blend_refuses(losses[:, :k], 0.05, target, seeded_orders(k, 32, 99)).mean()

    assert reached(found.even_odds) == pytest.approx(0.5, abs=0.06)
    assert reached(found.likely) == pytest.approx(0.9, abs=0.03)


@pytest.mark.slow
def test_what_the_plan_asks_of_a_sample_is_whether_its_blend_is_at_most_the_target():
    generator = np.random.default_rng(3)
    for k in (10, 40):
        orders = seeded_orders(k, 8, 1)
        losses = generator.beta(0.6, 2.0, (60, k))
        losses[generator.random(losses.shape) < 0.03] = 1.0
        bounds = blend(losses=losses, delta=0.05, orders=orders).value
        for target in np.quantile(bounds, [0.2, 0.5, 0.8]).round(4):
            asked = blend_refuses(losses, 0.05, float(target), orders)
            assert (asked == (bounds <= target + 1e-12)).all()


@pytest.mark.slow
def test_a_plan_says_how_well_its_probabilities_are_known():
    for target, said in ((0.25, "1,000 simulated draws: give or take 0.03."), (0.19, None)):
        found = latecomer.plan_hold_out(target, expect=0.17, sd=0.09, clients=60)
        assert (found.likely is None) == (said is None)
        for told in (" ".join(str(found).split()), found.in_full):
            assert told.count("simulated draws") == told.count(said or "give or take")


def test_hopeless_clients_take_more_clients_and_end_the_product():
    few = clients_to_hold_out(**ASKED, hopeless=0.02)
    assert few.likely > 2 * clients_to_hold_out(**PRODUCT).likely
    assert few.mean == pytest.approx(0.02 + 0.98 * 0.17)
    named = clients_to_hold_out(**ASKED, hopeless=0.02, rule="product")
    assert (named.even_odds, named.likely) == (None, None)
    mixture = clients_to_hold_out(**ASKED, hopeless=0.02, rule="product_mixture")
    assert few.likely < mixture.likely < 500


def test_a_pilot_is_resampled_as_it_is_and_not_by_its_two_moments():
    """Same mean and deviation: what a few bad clients cost is in the losses alone."""
    bad = [0.1] * 38 + [1.0] * 2
    mean, sd = np.mean(bad), np.std(bad, ddof=1)
    own = clients_to_hold_out(target=0.35, pilot=bad)
    beta = clients_to_hold_out(target=0.35, expected=mean, sd=sd)
    assert (own.expected, own.sd) == (pytest.approx(mean), pytest.approx(sd))
    assert own.pilot_clients == 40
    assert own.likely != beta.likely
    # No loss of a pilot is near 1: neither is any that is drawn from it.
    even = clients_to_hold_out(target=0.25, pilot=[0.1, 0.2] * 10, rule="product")
    assert even.likely is not None


def test_a_smaller_supply_changes_nothing_but_what_is_in_reach():
    whole = clients_to_hold_out(**PRODUCT)
    some = clients_to_hold_out(**PRODUCT, clients=whole.likely - 1)
    assert (some.floor, some.even_odds, some.likely) == (whole.floor, whole.even_odds, None)
    few = clients_to_hold_out(**PRODUCT, clients=whole.floor - 1)
    assert (few.floor, few.even_odds, few.likely) == (None, None, None)
    never = clients_to_hold_out(target=0.17, expected=0.17, sd=0.09)
    assert (never.floor, never.even_odds, never.likely) == (None, None, None)


def test_rules_differ_as_their_prices_do():
    mixture = clients_to_hold_out(**ASKED, rule="betting_mixture", clients=120)
    assert clients_to_hold_out(**ASKED).rule == "blend"
    assert mixture.even_odds > clients_to_hold_out(**PRODUCT).even_odds
    assert clients_to_hold_out(**ASKED, rule="chernoff_kl", clients=60).even_odds is None


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"target": 1.5}, "target must lie strictly between 0 and 1, got 1.5"),
        ({"expected": 0}, "expect must lie strictly between 0 and 1, got 0"),
        ({"sd": 0.4}, "sd must lie strictly between 1e-06 and 0.3756, got 0.4"),
        ({"sd": 0.0}, "sd must lie strictly between 1e-06 and 0.3756, got 0.0"),
        ({"delta": 0}, "delta must lie strictly between 0 and 1, got delta=0"),
        ({"delta": 1e-300}, "delta must be at least 1e-287, got delta=1e-300"),
        (
            {"rule": "wsr"},
            "rule must be one of blend, product, product_mixture, chernoff_kl, betting_mixture, got"
            " 'wsr'",
        ),
        ({"hopeless": 1}, "hopeless must be at least 0 and less than 1, got 1"),
        ({"hopeless": -0.1}, "hopeless must be at least 0 and less than 1, got -0.1"),
        ({"sd": None}, "expect and sd are needed, or a pilot with losses of some clients"),
        ({"pilot": [0.1, 0.2]}, "a pilot gives mean and deviation: leave expect and sd out"),
        (
            {"expected": None, "sd": None, "pilot": [0.1, 1.2]},
            "pilot must lie in [0, 1], got 1.2",
        ),
        ({"clients": 0}, "clients must be a whole number of at least 1, got 0"),
        ({"seed": -1}, "seed must be a whole number of at least 0, got -1"),
    ],
)
def test_bad_input_is_one_line(changes, said, refusal):
    assert refusal(clients_to_hold_out, **ASKED | changes) == said


def test_a_target_next_to_what_is_expected_has_a_floor():
    assert planned._floor(0.10000000000000002, 0.1, 0.05) > 1e15
    assert planned._floor(0.2, 0.1, 1 - 1e-16) == 1


def test_what_was_asked_is_printed_in_the_digits_it_was_asked_in():
    planned = plan_hold_out(
        0.1001, expect=0.0501, sd=0.01, hopeless=0.0011, clients=1, rule="product"
    )
    for text in (str(planned), planned.in_full, planned.sentence):
        assert all(asked in " ".join(text.split()) for asked in ("0.1001", "0.0501", "0.0011"))
    with pytest.raises(InputError, match=r"^expect must lie strictly between 0 and 1, got 2"):
        plan_hold_out(0.1, expect=2, sd=0.1)


@pytest.mark.parametrize(("certified", "outside"), [(10, 10), (30, 20), (8, 40)])
def test_what_is_foretold_is_close_to_the_least_price(certified, outside):
    said = foretold((50, certified, outside), outside, 0.05)
    pool = certified + outside
    price = reference_price_pool(n_clients=certified, pool_size=pool, delta=0.05, mean_loss=0.2)
    told = int(said.split("about ")[1].split("%")[0]) / 100
    assert 0.2 + float(price) - 0.005 <= told < 0.2 + float(price) + 0.05
    assert f"{certified} are certified" in said
    assert f"{pool} not trained on" in said


def test_without_certificates_only_the_roles_are_told():
    assert foretold((8, 0, 4), 4, None) == ("12 clients: 8 train, 0 are certified, 4 are new")


def test_six_sites_are_told_what_they_can_show():
    refuse_too_few(12, [5] * 12, 0.05)
    with pytest.raises(
        InputError, match=r"at least 12 clients .* got 6 of 40 to 900 points"
    ) as told:
        refuse_too_few(6, [40, 900, 70, 70, 70, 70], 0.05)
    assert "with 95% confidence a mean over clients to come of no less than 39%" in str(told.value)
    assert "\n" not in str(told.value)


def test_the_confidence_of_what_few_sites_can_show_is_that_asked_for():
    # 1 - 0.2^(1/6) is 0.2353.
    with pytest.raises(InputError, match=r"with 80% confidence .* of no less than 23%"):
        refuse_too_few(6, [40] * 6, 0.2)
