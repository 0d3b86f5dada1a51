import numpy as np
import pytest
from scipy import stats

from latecomer.eval.scoring.scores import ClientScore, group_score


def score(client: int, n_query: int, n_wrong: int) -> ClientScore:
    return ClientScore(client, 10, n_query, n_wrong, 0.5 * client)


def test_pooled_and_per_client_means_differ_for_unequal_clients() -> None:
    total = group_score([score(0, 10, 5), score(1, 90, 0)])
    assert total.pooled == pytest.approx(0.05)
    assert total.per_client == pytest.approx(0.25)
    assert total.n_query == 100
    assert total.loss == pytest.approx(0.25)


def test_interval_is_the_t_interval_over_clients() -> None:
    errors = np.array([0.4, 0.5, 0.6, 0.3])
    total = group_score([score(i, 10, round(10 * e)) for i, e in enumerate(errors)])
    low, high = stats.t.interval(0.95, 3, loc=errors.mean(), scale=stats.sem(errors))
    assert (total.lower, total.upper) == pytest.approx((low, high))


def test_interval_stays_in_the_unit_interval_and_is_absent_for_one_client() -> None:
    total = group_score([score(0, 10, 0), score(1, 10, 1)])
    assert total.lower == 0.0
    assert np.isnan(group_score([score(0, 10, 1)]).lower)


def test_no_client_is_refused() -> None:
    with pytest.raises(ValueError, match="scores must hold at least one client"):
        group_score([])
