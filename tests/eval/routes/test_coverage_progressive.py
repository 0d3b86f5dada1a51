"""Coverage of route R4 by simulation, in worlds whose true risk is known.

A correct certificate's number of failures exceeds ``limit`` with probability at most 1e-6. Systems
react to the scores they were given, as trained ones do; mistakes one could make are caught.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from routed import limit

from latecomer.certify.rule import Asked, rules_for
from latecomer.eval.federation.groups import Group
from latecomer.eval.routes.r4_cell import checkpoints
from latecomer.eval.routes.r4_progressive import (
    Plan,
    Step,
    certify_progress,
    score_then_train,
)
from latecomer.eval.scoring.serving import score_group
from latecomer.models.engine.training import TrainConfig, subset, train
from latecomer.models.methods import make_method
from latecomer.models.task.clients import Clients
from latecomer.models.task.task import make_task

pytestmark = pytest.mark.theory

DELTA = 0.1
TRIALS = 2000
STEPS = 24
LEVELS = np.array([0.02, 0.1, 0.3])
Floats = NDArray[np.float64]


def reacting(total: Floats, count: int) -> NDArray[np.int64]:
    """Which system comes next: a better one after bad scores, a worse one after good ones."""
    mean = total / max(count, 1)
    return np.where(mean < 0.06, 2, np.where(mean > 0.15, 0, 1))


def play(rng, score_of, *, train_first: bool) -> tuple[Floats, Floats, Floats]:
    """Scores [T, trials], the means they had, and the mean of the last system."""

    def score(system: Any, step: int) -> tuple[Floats, Floats]:
        return score_of(rng, system["level"], step)

    def train(system: Any, step: int) -> Any:
        scores = seen[step][0]
        total = system["total"] + scores
        return {"level": reacting(total, step + 1), "total": total}

    seen: dict[int, tuple[Floats, Floats]] = {}
    system: Any = {"level": np.ones(TRIALS, dtype=np.int64), "total": np.zeros(TRIALS)}
    if train_first:
        # The mistake: the client's own data has made the system better at it when it is scored.
        for step in range(STEPS):
            raw, mean = score(system, step)
            seen[step] = (0.1 * raw, mean)
            system = train({**system, "total": system["total"] + 0.9 * raw}, step)
    else:
        for found, _ in score_then_train(
            system, range(STEPS), lambda s, b: seen.setdefault(b, score(s, b)), train
        ):
            system = found
    scores, means = (np.stack([seen[step][i] for step in range(STEPS)]) for i in (0, 1))
    return scores, means, score_of(rng, system["level"], STEPS)[1]


def independent(rng, level, step) -> tuple[Floats, Floats]:
    """Ten query points of a client whose own error is Beta with mean ``LEVELS[level]``."""
    mean = LEVELS[level]
    error = rng.beta(4 * mean, 4 * (1 - mean))
    return rng.binomial(10, error) / 10, mean


def a_pool() -> Callable[..., tuple[Floats, Floats]]:
    """Thirty-four clients with fixed scores under each system, drawn without replacement."""
    rng = np.random.default_rng(3)
    table = np.sort(rng.beta(4 * LEVELS, 4 * (1 - LEVELS), (STEPS + 10, 3)), axis=0)
    order = rng.permuted(np.tile(np.arange(STEPS + 10), (TRIALS, 1)), axis=1)

    def score_of(rng, level, step):
        rest = table[order[:, step:], level[:, None]]
        return rest[:, 0], rest.mean(axis=1)

    return score_of


def bounds(scores: Floats, rule: str) -> Floats:
    return np.array(
        [float(rules_for("r4")[rule].bound(Asked(column.tolist(), DELTA))) for column in scores.T]
    )


WORLDS = {"independent": lambda: independent, "pool": a_pool}


@pytest.mark.parametrize("rule", rules_for("r4"))
@pytest.mark.parametrize("world", list(WORLDS))
def test_the_mean_over_checkpoints_is_covered(world: str, rule: str) -> None:
    rng = np.random.default_rng(11)
    scores, means, _ = play(rng, WORLDS[world](), train_first=False)
    failures = int((means.mean(axis=0) > bounds(scores, rule)).sum())
    assert failures <= limit(TRIALS, DELTA)


@pytest.mark.parametrize("world", list(WORLDS))
def test_training_on_a_client_before_it_is_scored_is_caught(world: str) -> None:
    rng = np.random.default_rng(12)
    scores, means, _ = play(rng, WORLDS[world](), train_first=True)
    failures = int((means.mean(axis=0) > bounds(scores, "product")).sum())
    assert failures > limit(TRIALS, DELTA)


@pytest.mark.parametrize("world", list(WORLDS))
def test_the_last_checkpoint_is_not_covered(world: str) -> None:
    rng = np.random.default_rng(13)

    def ruined(rng, level, step):
        # All is well until the last training, which ruins the system.
        late = np.full_like(level, 2 if step == STEPS else 0)
        return source(rng, late, step)

    source = WORLDS[world]()
    scores, means, last = play(rng, ruined, train_first=False)
    value = bounds(scores, "product")
    assert int((means.mean(axis=0) > value).sum()) <= limit(TRIALS, DELTA)
    assert int((last > value).sum()) > limit(TRIALS, DELTA)


def test_the_product_rule_spends_its_delta_where_failures_are_rare() -> None:
    rng = np.random.default_rng(14)
    risk = 1 - (0.98 * DELTA) ** (1 / STEPS)
    scores = (rng.random((STEPS, TRIALS)) < risk).astype(np.float64)
    failures = int((risk > bounds(scores, "product")).sum())
    assert 0.8 * DELTA * TRIALS < failures <= limit(TRIALS, DELTA)


POOL, FIRST, ARRIVE = 26, 4, 16
RUNS = 1000


def federation(rng: np.random.Generator) -> Clients:
    """Vectors around four centres, two classes a client, in a random order of clients."""
    centres = 1.2 * rng.normal(size=(4, 4))
    n, size = FIRST + POOL, 14
    classes = np.array([rng.permutation(4)[:2] for _ in range(n)])
    y = np.take_along_axis(classes, rng.integers(0, 2, (n, size)), axis=1)
    x = centres[y] + rng.normal(size=(n, size, 4))
    rows = torch.arange(n * size).view(n, size)
    return Clients(
        x=torch.from_numpy(x.reshape(-1, 4).astype(np.float32)),
        y=torch.from_numpy(y.reshape(-1)),
        support=rows[:, :8].contiguous(),
        support_sizes=torch.full((n,), 8),
        query=rows[:, 8:].contiguous(),
        query_sizes=torch.full((n,), size - 8),
        ids=torch.arange(n),
        mean=torch.zeros(4),
        sd=torch.ones(4),
    )


@pytest.mark.nightly
def test_the_whole_pipeline_covers_the_successive_pools() -> None:
    rng = np.random.default_rng(15)
    task = make_task(
        input_shape=(4,), n_classes=4, target="auto", hypernetwork={"hidden": 1, "width": 4}
    )
    method = make_method("fedavg", local_lr=0.1)
    start = TrainConfig(rounds=2, cohort=2, local_steps=2, batch_size=8)
    further = TrainConfig(rounds=1, cohort=2, local_steps=2, batch_size=8)
    plan = Plan(FIRST, ARRIVE, 2, POOL, independent=False)
    failures = {"product": 0, "product_mixture": 0}
    for trial in range(RUNS):
        clients = federation(rng)

        def serve(state, group, chosen, seed=trial):
            asked = {"classes": "all", "predictor": "deterministic", "seed": seed}
            return score_group(method, task, state, Group(group, "none", None, chosen), **asked)

        steps: list[Step] = []
        means: list[float] = []
        order = subset(clients, range(FIRST + ARRIVE))
        first = train(method, task, subset(clients, range(FIRST)), start, seed=trial)
        growing = {"rounds": start.rounds, "further": further, "serve": serve, "seed": trial}
        for state, step in checkpoints(method, task, order, plan, first, **growing):
            if step is not None:
                rest = serve(state, "rest", subset(clients, range(step.trained, FIRST + POOL)))
                means.append(float(np.mean([score.error for score in rest])))
                steps.append(step)
        scores = [score for step in steps for score in step.scores]
        for rule in failures:
            issued = certify_progress(scores, plan=plan, rule=rule, delta=DELTA)
            failures[rule] += float(np.mean(means)) > float(issued)
    assert max(failures.values()) <= limit(RUNS, DELTA)
