"""Every sample of small pools, and every outcome of small worlds, through the public door.

Nothing is simulated: a pool's samples are all looked at, each with its own probability, and so are
all counts of a world of three kinds of clients, whose laws are then all those of a grid.  What
``latecomer.losses`` says is false as often as these say, to rounding; orders are drawn afresh by a
source of entropy that is seeded here so that the test repeats.
"""

import random
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import combinations, product
from math import comb, factorial, prod
from unittest import mock

import numpy as np
import pytest
from numpy.typing import NDArray

import latecomer
from latecomer.certify.predicted_sets import label_sets

POOLS = {
    "hopeless": (0.1,) * 5 + (1.0,) * 2,
    "zeros but one": (0.0,) * 6 + (1.0,),
    "rising": (0.0, 0.1, 0.2, 0.4, 0.8, 1.0),
    "two kinds": (0.3,) * 4 + (0.9,) * 3,
}


def false_of(sample: tuple[float, ...], pool: tuple[float, ...], delta: float) -> dict[str, float]:
    """Return by statement whether it is false of a pool; of the next client, how often."""
    given = latecomer.losses(sample, pool_size=len(pool), delta=delta)
    rest = list((Counter(pool) - Counter(sample)).elements())
    mean, levels = given.mean(), sorted({0.0, *pool} - {1.0})
    shares = {level: np.mean([loss > level for loss in pool]) for level in levels}
    above, steps = given.above(*levels).certificates, given.curve().steps
    # A step holds up to the next one: at the levels of the pool too that nobody sampled has.
    upper = {level: [step[2] for step in steps if step[0] <= level][-1] for level in levels}
    half = sorted(pool)[-(-len(pool) // 2) :]
    group = given.within("subgroup", [len(half) / len(pool)]).certificate.value.item()
    following = given.next_client(alpha=delta).value
    return {
        "mean": mean.value < np.mean(pool) - 1e-12,
        "others": (mean.others or 0.0) < np.mean(rest) - 1e-12,
        "above": any(float(above[level]) < share - 1e-12 for level, share in shares.items()),
        "curve": any(upper[level] < share - 1e-12 for level, share in shares.items()),
        "group": group < np.mean(half) - 1e-12,
        "next client": float(np.mean([loss > following for loss in rest])),
    }


@pytest.mark.parametrize("delta", [0.3, 0.1])
@pytest.mark.parametrize("name", POOLS)
def test_no_statement_is_false_of_more_samples_of_a_pool_than_delta(
    name: str, delta: float
) -> None:
    pool, entropy = POOLS[name], random.Random(f"{name} {delta}")
    with mock.patch("secrets.randbelow", entropy.randrange):
        for n in (1, 3, len(pool) - 1):
            failed: Counter[str] = Counter()
            for sample, number in Counter(map(tuple, combinations(pool, n))).items():
                for about, share in false_of(sample, pool, delta).items():
                    failed[about] += number * share  # type: ignore[assignment]
            for about, count in failed.items():
                assert count <= delta * comb(len(pool), n) + 1e-9, (about, n)


# Clients of three kinds: their loss, and that of another model.
KINDS = ((0.0, 0.3), (0.2, 0.0), (1.0, 0.4))


def laws(parts: int) -> NDArray[np.float64]:
    """All laws of the three kinds whose chances are multiples of one over the parts, [laws, 3]."""
    counts = [(i, j, parts - i - j) for i in range(parts + 1) for j in range(parts + 1 - i)]
    return np.array(counts) / parts


def worst_half(chances: NDArray[np.float64], losses: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean loss of the half of all clients that is served worst; losses rise."""
    left, total = np.full(len(chances), 0.5), np.zeros(len(chances))
    for kind in reversed(range(len(losses))):
        taken = np.minimum(left, chances[:, kind])
        left, total = left - taken, total + taken * losses[kind]
    return np.asarray(total / 0.5)


def failures(
    counts: tuple[int, ...], chances: NDArray[np.float64], *, joint: bool
) -> Iterator[NDArray[np.bool_]]:
    """Yield of each statement where it is false: by law; of the next client, by kind as well."""
    losses, other = np.array(KINDS).T
    drawn = [kind for kind, number in enumerate(counts) for _ in range(number)]
    found = latecomer.certify_losses(
        losses[drawn].tolist(),
        delta=0.3,
        alpha=None if joint else 0.3,
        joint=joint,
        above=[0.0, 0.2],
        curve=True,
        shifts={"subgroup": [0.5]},
        against=other[drawn].tolist(),
    )
    assert found.certificate is not None
    assert found.next_client is not None
    assert found.curve is not None
    assert found.against is not None
    truths = [
        (float(found.certificate), chances @ losses),
        (found.shifts["subgroup"].certificate.value.item(), worst_half(chances, losses)),
        (float(found.against.certificate), chances @ (losses - other)),
        (float(found.against.worse), chances @ (losses > other)),
        *((float(one), chances @ (losses > level)) for level, one in found.above.items()),
        *((upper, chances @ (losses > level)) for level, _, upper in found.curve[1]),
    ]
    for bound, truth in truths:
        yield (bound < truth - 1e-12)[:, None] & np.ones(3, dtype=np.bool_)
    yield np.broadcast_to(losses > float(found.next_client), chances.shape)


@pytest.mark.parametrize("n", [2, 4])
@pytest.mark.parametrize("joint", [True, False], ids=["joint", "each alone"])
def test_joint_statements_hold_together_in_every_world_of_three_kinds(n: int, joint: bool) -> None:
    chances, entropy = laws(40), random.Random(n)
    failed = np.zeros(len(chances))
    with mock.patch("secrets.randbelow", entropy.randrange):
        for counts in product(range(n + 1), repeat=3):
            if sum(counts) == n:
                likely = prod(chances[:, kind] ** number for kind, number in enumerate(counts))
                orders = factorial(n) / prod(map(factorial, counts))
                # The next client is of a kind too: its statement is about one client more.
                wrong = np.any(list(failures(counts, chances, joint=joint)), axis=0)
                failed += orders * likely * (wrong * chances).sum(axis=1)
    # Statements at .3 each are no joint one: in some world one of them is false more often.
    assert (failed.max() <= 0.3) == joint


# Chances that each client's points give to their true label, as many as it has points.
SERVED: Mapping[str, tuple[float, ...]] = {
    "a": (0.9,),
    "b": (0.8, 0.7, 0.2, 0.6),
    "c": (0.55, 0.45),
    "d": (0.1, 0.3),
    "e": (0.95, 0.9, 0.85),
    "f": (0.4,),
}


@pytest.mark.parametrize("score", ["probability", "adaptive"])
@pytest.mark.parametrize("alpha", [0.4, 0.25])
def test_sets_miss_a_new_clients_points_at_most_at_their_rate_over_a_whole_pool(
    alpha: float, score: str
) -> None:
    def rows(clients: Iterator[str] | tuple[str, ...]) -> list[dict[str, object]]:
        return [
            {"client": client, "label": 1, "p_0": 1 - chance, "p_1": chance}
            for client in clients
            for chance in SERVED[client]
        ]

    missed = []
    for certified in combinations(SERVED, 4):
        others = tuple(client for client in SERVED if client not in certified)
        sets = label_sets(rows(certified), alpha=alpha, score=score, serve=rows(others))
        for client in others:
            own = np.array(sets.clients) == client
            missed.append(1 - sets.held[own, 1].mean())
    assert np.mean(missed) <= alpha + 1e-12
