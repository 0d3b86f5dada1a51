"""Cross-fitted scores: folds, what is made anew inside them, what must not leak."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

from latecomer.certify.predictor import client_folds
from latecomer.errors import InputError
from latecomer.eval.federation.groups import build_federation
from latecomer.eval.scoring import serving
from latecomer.eval.scoring.scores import ClientScore, cross_fitted, fold_groups, merge_folds
from latecomer.eval.scoring.serving import score_group
from latecomer.eval.settings.cell import FederationSettings
from latecomer.models.engine.training import TrainConfig, subset, train
from latecomer.models.methods import METHODS, make_method
from latecomer.models.task.task import make_task

SPLIT = {
    **{"kind": "by_class", "clients": 24, "certify": 4, "novel": 10, "seed": 0, "query": 0.25},
    **{"validation": 0.1, "reserve": 0.0, "classes_per_client": 3},
}
# Short fits of newcomers: what is tested does not depend on how long they run.
QUICK = {
    "local": {"novel_steps": 3},
    "fedper": {"novel_steps": 3},
    "fedrep": {"novel_steps": 3},
    "lg_fedavg": {"novel_steps": 3},
    "pfedme": {"finetune_steps": 3},
    "pfedhn": {"novel_rounds": 2, "novel_steps": 2},
    "pfedhn_pc": {"novel_rounds": 2, "novel_steps": 2},
    "pefll": {"posterior": "gaussian"},
}


@pytest.fixture(scope="module")
def federation():
    return build_federation(FederationSettings(data={"name": "digits"}, split=SPLIT))


@pytest.fixture(scope="module")
def trained(federation):
    task = make_task(input_shape=(1, 8, 8), n_classes=10, hypernetwork={"hidden": 1, "width": 10})
    budget = TrainConfig(rounds=2, cohort=2, local_steps=2, batch_size=8)

    def scorer(name: str, **changed):
        method = make_method(name, **QUICK.get(name, {}))
        state = train(method, task, federation.seen.clients, budget, seed=0)
        options = {"classes": "known", "predictor": method.predictors[0], "seed": 0} | changed
        return partial(score_group, method, task, state, **options)

    return scorer


def test_folds_are_a_partition_from_the_seed_and_the_client() -> None:
    folds = client_folds(23, 5, seed=3, client=7)
    assert sorted(np.concatenate(folds).tolist()) == list(range(23))
    assert {len(fold) for fold in folds} == {4, 5}
    again = client_folds(23, 5, seed=3, client=7)
    assert all((a == b).all() for a, b in zip(folds, again, strict=True))
    for changed in ({"seed": 4}, {"client": 8}):
        other = client_folds(23, 5, **({"seed": 3, "client": 7} | changed))
        assert not all(np.array_equal(a, b) for a, b in zip(folds, other, strict=True))


@pytest.mark.parametrize("folds", [1, 6])
def test_impossible_folds_are_refused(folds: int) -> None:
    with pytest.raises(InputError, match=f"from 2 to the 5 points of client 9, got folds={folds}"):
        client_folds(5, folds, seed=0, client=9)


def test_each_fold_is_held_out_once_and_validation_data_stay_out(federation) -> None:
    group = federation.certification
    parts = fold_groups(group, 4, seed=0)
    for index in range(len(group.clients)):

        def rows(clients, role, index=index):
            size = int(getattr(clients, f"{role}_sizes")[index])
            return set(getattr(clients, role)[index, :size].tolist())

        own = rows(group.clients, "support") | rows(group.clients, "query")
        held = [rows(part.clients, "query") for part in parts]
        assert set().union(*held) == own
        assert sum(map(len, held)) == len(own)
        for part, out in zip(parts, held, strict=True):
            assert rows(part.clients, "support") == own - out
    assert all(torch.equal(part.clients.ids, group.clients.ids) for part in parts)


def test_scores_of_folds_count_every_point_once() -> None:
    per_fold = [[ClientScore(3, 8, 2, 1, 0.5)], [ClientScore(3, 7, 3, 0, 1.0)]]
    assert merge_folds(per_fold) == [ClientScore(3, 7, 5, 1, pytest.approx(0.8))]


def test_one_fold_is_the_split_of_the_study(federation, trained) -> None:
    score = trained("fedavg")
    plain = score(federation.certification)
    assert cross_fitted(score, federation.certification, folds=1, seed=0) == plain


@pytest.mark.parametrize("name", sorted(METHODS))
def test_every_method_is_cross_fitted(federation, trained, name: str) -> None:
    group = federation.certification
    classes = "all" if make_method(name).personalization in ("global", "unlabelled") else "known"
    score = trained(name, classes=classes)
    found = cross_fitted(score, group, folds=3, seed=0)
    sizes = (group.clients.support_sizes + group.clients.query_sizes).tolist()
    assert [one.n_query for one in found] == sizes
    assert [one.n_support for one in found] == [size - -(-size // 3) for size in sizes]
    assert [one.client for one in found] == group.clients.ids.tolist()
    # A score depends on its own client: alone or among others, it is the same.
    alone = replace(group, clients=subset(group.clients, [2]))
    assert cross_fitted(score, alone, folds=3, seed=0) == found[2:3]


def test_serving_sees_the_folds_support_alone(federation, trained, monkeypatch) -> None:
    score, seen, local = trained("local", classes="all"), [], type(make_method("local"))
    honest = local.fit_each

    def noting(self, task, state, supports, generators):
        seen.extend(supports)
        return honest(self, task, state, supports, generators)

    monkeypatch.setattr(local, "fit_each", noting)
    group = federation.certification
    cross_fitted(score, group, folds=4, seed=0)
    assert len(seen) == 4 * len(group.clients)
    parts = fold_groups(group, 4, seed=0)
    for number, part in enumerate(parts):
        for index in range(len(part.clients)):
            support = part.clients.support_of(index)
            given = seen[number * len(group.clients) + index]
            assert torch.equal(given.x, support.x)
            assert torch.equal(given.labels(), support.labels())


def test_masks_come_from_the_folds_support(federation, trained) -> None:
    """A class whose only sample is held out is masked in its own fold, and there alone."""
    group = federation.certification
    clients = group.clients
    y = clients.y.clone()
    rows = clients.support[0, : int(clients.support_sizes[0])]
    lonely = next(c for c in range(10) if c not in set(y[rows].tolist()))
    y[rows[0]] = lonely
    poisoned = replace(group, clients=replace(clients, y=y))
    score = trained("fedavg")
    found = []
    for part in fold_groups(poisoned, 4, seed=0):
        held = part.clients.query[0, : int(part.clients.query_sizes[0])]
        has_lonely = int(rows[0]) in held.tolist()
        loss_free = score(part)[0]
        found.append((has_lonely, loss_free.n_wrong))
        if has_lonely:
            assert lonely not in part.clients.support_of(0).labels().tolist()
            assert loss_free.n_wrong >= 1, "a masked class cannot be predicted"
    assert sum(flag for flag, _ in found) == 1


def test_labels_of_a_held_out_fold_do_not_reach_its_model(federation, trained, monkeypatch) -> None:
    """Poison the labels of one fold: what its points are told stays the same, to the bit."""
    told: list[torch.Tensor] = []

    def recording(logits: torch.Tensor, known: torch.Tensor) -> torch.Tensor:
        told.append(logits)
        return logits

    monkeypatch.setattr(serving, "MASKS", {"all": recording})
    part = fold_groups(federation.certification, 4, seed=0)[1]
    y = part.clients.y.clone()
    for index in range(len(part.clients)):
        held = part.clients.query[index, : int(part.clients.query_sizes[index])]
        y[held] = (y[held] + 1) % 10
    poisoned = replace(part, clients=replace(part.clients, y=y))
    for name in ("knn_per", "pefll", "fedrep", "pfedhn"):
        score = trained(name, classes="all")
        told.clear()
        honest, changed = score(part), score(poisoned)
        n = len(part.clients)
        assert all(torch.equal(a, b) for a, b in zip(told[:n], told[n:], strict=True))
        assert [one.n_wrong for one in honest] != [one.n_wrong for one in changed]
