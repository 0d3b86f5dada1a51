import numpy as np
import pytest

from latecomer.errors import InputError
from latecomer.eval.datasets import load_dataset
from latecomer.eval.federation.distances import a_distance, label_distances, split_diagnostics
from latecomer.eval.shifts.kinds.shipped import blur

DIGITS = load_dataset({"name": "digits"})


def test_domains_alike_and_domains_apart():
    ones, twos = (DIGITS.x[DIGITS.y == c] for c in (1, 2))
    apart = a_distance(ones, twos, seed=0)
    assert apart.proxy > 1.8
    alike = a_distance(ones[::2], ones[1::2], seed=0)
    # Two halves of one class: within three standard errors of a coin's toss.
    assert abs(alike.error - 0.5) < 3 * alike.standard_error
    assert alike.proxy == pytest.approx(2 * (1 - 2 * alike.error))
    assert alike.n == (91, 91)
    assert a_distance(DIGITS.x[:600], blur(DIGITS.x[600:1200], 1.0), seed=0).proxy > 1.5


def test_it_is_deterministic_in_the_seed_and_symmetric_in_scale():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(40, 6)), rng.normal(size=(30, 6)) + 0.3
    assert a_distance(a, b, seed=1) == a_distance(a, b, seed=1)
    assert len({a_distance(a, b, seed=s).error for s in range(4)}) > 1
    assert a_distance(1000 * a, 1000 * b, seed=1) == a_distance(a, b, seed=1)


def test_unequal_sizes_are_balanced():
    # A judge that always names the larger domain is right on 95% of samples, and knows nothing.
    rng = np.random.default_rng(0)
    far = a_distance(rng.normal(size=(950, 3)), rng.normal(size=(50, 3)), seed=0)
    assert abs(far.error - 0.5) < 3 * far.standard_error
    assert far.standard_error == pytest.approx(0.5 * np.sqrt(0.25 / 50 + 0.25 / 950), rel=0.05)


def test_the_error_is_the_mean_of_both_domains_rates():
    # Half of the larger domain looks like the smaller one: 50% and 0% wrong, 42% of all samples.
    a, b = np.repeat([[0.0], [1.0]], 50, axis=0), np.ones((20, 1))
    assert a_distance(a, b, seed=0).error == pytest.approx(0.25)


@pytest.mark.slow
def test_standard_error_is_the_spread_over_draws():
    rng = np.random.default_rng(0)
    results = [
        a_distance(rng.normal(size=(40, 2)), rng.normal(size=(40, 2)) + 1, seed=s)
        for s in range(40)
    ]
    spread = np.std([r.error for r in results], ddof=1)
    # A standard deviation of 40 draws is known to about 11%; folds share data, which adds some.
    assert spread == pytest.approx(np.mean([r.standard_error for r in results]), rel=0.4)


def test_perfect_separation_is_not_called_certain():
    result = a_distance(np.zeros((5, 1)), np.ones((5, 1)), seed=0)
    assert (result.error, result.proxy) == (0, 2)
    assert result.standard_error > 0.05


def test_large_samples_are_thinned():
    rng = np.random.default_rng(0)
    assert a_distance(rng.normal(size=(2500, 2)), np.ones((3, 2)), seed=0).n == (2000, 3)


@pytest.mark.parametrize(
    ("a", "b", "words"),
    [
        (np.zeros((1, 3)), np.zeros((5, 3)), "x_a must hold at least two samples"),
        (np.zeros((5, 3)), np.zeros(5), "x_b must hold at least two samples"),
        (np.zeros((5, 3)), np.zeros((5, 4)), "must be samples of one shape"),
    ],
)
def test_bad_samples(a, b, words):
    with pytest.raises(InputError, match=words):
        a_distance(a, b, seed=0)


def test_split_diagnostics_name_the_nearest_client():
    import torch

    from latecomer.models.task.clients import Clients

    y = torch.tensor([0, 1, 0, 1, 2, 2, 2, 2, 2, 2, 2, 0])
    x = torch.linspace(0, 1, 12)[:, None]
    sizes = torch.tensor([2, 2])
    common = {"x": x, "y": y, "mean": torch.zeros(1), "sd": torch.ones(1)}
    train = Clients(
        support=torch.tensor([[0, 1], [4, 5]]),
        support_sizes=sizes,
        query=torch.tensor([[2, 3], [6, 7]]),
        query_sizes=sizes,
        ids=torch.tensor([10, 11]),
        **common,
    )
    novel = Clients(
        support=torch.tensor([[8, 9]]),
        support_sizes=sizes[:1],
        query=torch.tensor([[10, 11]]),
        query_sizes=sizes[:1],
        ids=torch.tensor([12]),
        **common,
    )
    rows = {row["metric"]: row for row in split_diagnostics(train, novel)}
    assert set(rows) == {"label_kl", "label_tv", "label_js", "label_hellinger", "a_distance"}
    assert {row["client"] for row in rows.values()} == {12}
    assert rows["label_tv"]["value"] == pytest.approx(0.25)
    assert rows["label_tv"]["message"] == "seen client 11"
    p, q = np.array([1.5, 0.5, 3.5]) / 5.5, np.array([0.5, 0.5, 4.5]) / 5.5
    assert rows["label_kl"]["value"] == pytest.approx(np.sum(p * np.log(p / q)))
    assert rows["a_distance"]["value"] == a_distance(x[8:12], x[4:8], seed=0).proxy
    assert "held-out error" in rows["a_distance"]["message"]
    assert (rows["label_kl"]["n_support"], rows["label_kl"]["n_query"]) == (2, 2)


def test_label_distances_of_every_pair_by_hand():
    found = label_distances([[4, 0], [1, 3]], [[0, 7], [2, 2], [4, 0]])
    np.testing.assert_allclose(found["tv"], [[1, 0.5, 0], [0.25, 0.25, 0.75]])
    assert found["js"][0, 0] == pytest.approx(np.log(2))
    assert found["js"][0, 2] == 0
    middle = np.sqrt(1 - (np.sqrt(0.25 * 0.5) + np.sqrt(0.75 * 0.5)))
    assert found["hellinger"][1, 1] == pytest.approx(middle)
    assert found["kl"].shape == (2, 3)
    assert found["kl"][1, 1] == pytest.approx(0.3 * np.log(0.6) + 0.7 * np.log(1.4))


@pytest.mark.slow
def test_a_net_tells_apart_what_a_line_cannot():
    # Two rings about one centre: no line does better than chance, a net separates them.
    rng = np.random.default_rng(0)
    angle = rng.uniform(0, 2 * np.pi, 300)
    ring = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    inner, outer = 0.5 * ring[:100], 2 * ring[100:]
    linear = a_distance(inner, outer, seed=0)
    net = a_distance(inner, outer, seed=0, classifier="mlp")
    assert linear.error > 0.35
    assert net.error < 0.05
    assert net == a_distance(inner, outer, seed=0, classifier="mlp")
    radius = a_distance(
        inner, outer, seed=0, features=lambda x: np.linalg.norm(x, axis=1, keepdims=True)
    )
    assert radius.error < 0.05


@pytest.mark.slow
def test_a_net_finds_nothing_where_there_is_nothing_and_balances_domains():
    rng = np.random.default_rng(1)
    same = a_distance(rng.normal(size=(150, 3)), rng.normal(size=(30, 3)), seed=0, classifier="mlp")
    assert abs(same.error - 0.5) < 3 * same.standard_error
    with pytest.raises(InputError, match="classifier must be one of linear, mlp, got 'tree'"):
        a_distance(np.zeros((5, 2)), np.ones((5, 2)), seed=0, classifier="tree")
