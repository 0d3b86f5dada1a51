"""What the answer about bounds takes from elsewhere is what stands there."""

import pytest

from latecomer import bounds
from latecomer.reports.answers.bounds import least_price


@pytest.mark.parametrize(
    ("mean", "n", "delta"), [(0.1, 30, 0.05), (0.0, 12, 0.01), (0.7, 200, 0.1)]
)
def test_the_price_no_rule_avoids_is_the_reference_price(mean, n, delta) -> None:
    theirs = bounds.reference_price(mean_loss=mean, n_clients=n, delta=delta)
    assert float(least_price(mean, n, delta)) == pytest.approx(float(theirs), abs=1e-12)
