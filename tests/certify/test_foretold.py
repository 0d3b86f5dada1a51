import pytest

from latecomer.bounds import reference_price_pool
from latecomer.certify.planned import foretold, refuse_too_few
from latecomer.errors import InputError


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
    with pytest.raises(InputError, match=r"with 80% confidence .* of no less than 24%"):
        refuse_too_few(6, [40] * 6, 0.2)
