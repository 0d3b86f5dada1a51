"""Serving and scoring: masks, poisoned labels, fresh draws."""

from dataclasses import replace
from itertools import product

import pytest
import torch

from latecomer.eval.federation.groups import build_federation
from latecomer.eval.scoring import serving
from latecomer.eval.scoring.serving import (
    MASKS,
    client_generator,
    score_group,
    score_groups,
    score_one_after_another,
    score_side_by_side,
)
from latecomer.eval.settings.cell import FederationSettings
from latecomer.models.engine.method import versions
from latecomer.models.engine.training import TrainConfig, train
from latecomer.models.methods import METHODS, make_method
from latecomer.models.task.clients import Clients
from latecomer.models.task.task import make_task

SPLIT = {
    # Most of the data are dealt to clients that no test serves: time goes with the samples.
    **{"kind": "by_class", "clients": 36, "certify": 22, "novel": 4, "seed": 0, "query": 0.25},
    **{"validation": 0.0, "reserve": 0.0, "classes_per_client": 2},
}
# Short fits of newcomers: what is tested does not depend on how long they run.
QUICK = {"finetune_steps": 5, "novel_steps": 5, "novel_rounds": 2}
BUDGET = TrainConfig(rounds=3, cohort=3, local_steps=4, batch_size=8)


def quick(name: str) -> dict[str, int]:
    return {key: value for key, value in QUICK.items() if hasattr(METHODS[name], key)}


@pytest.fixture(scope="module")
def federation():
    return build_federation(FederationSettings(data={"name": "digits"}, split=SPLIT))


@pytest.fixture(scope="module")
def task():
    return make_task(input_shape=(1, 8, 8), n_classes=10)


@pytest.fixture(scope="module")
def trained(federation, task):
    return {
        name: (method, train(method, task, federation.seen.clients, BUDGET, seed=0))
        for name, method in ((name, make_method(name, **quick(name))) for name in METHODS)
    }


def scores_of(trained, task, group, name: str, **changed):
    method, state = trained[name]
    options = {"classes": "all", "predictor": method.predictors[0], "seed": 0} | changed
    return score_group(method, task, state, group, **options)


def on_other_queries(group):
    """Return the same clients, judged by the first of their query data."""
    clients = group.clients
    few = clients.query_sizes.clamp(max=5)
    return replace(group, clients=replace(clients, query=clients.query[:, :5], query_sizes=few))


@pytest.mark.parametrize("name", list(METHODS))
def test_clients_that_groups_share_are_served_once_and_scored_as_before(
    federation, task, trained, monkeypatch, name
):
    method, state = trained[name]
    options = {"classes": "all", "predictor": method.predictors[0], "seed": 0}
    seen, novel = federation.seen, federation.novel
    groups = [seen, novel, on_other_queries(seen), on_other_queries(novel)]
    alone = [score_group(method, task, state, group, **options) for group in groups]
    made = []
    serve_each = type(method).serve_each

    def counted(self, task, state, members, *given, **how):
        made.extend(members)
        return serve_each(self, task, state, members, *given, **how)

    monkeypatch.setattr(type(method), "serve_each", counted)
    for held in (1, 2**24):
        monkeypatch.setattr(serving, "_HELD", held)
        made.clear()
        assert score_groups(method, task, state, groups, **options) == alone, held
        assert len(made) == len(seen.clients) + len(novel.clients)


def test_clients_with_other_supports_are_served_again(federation, task, trained) -> None:
    method, state = trained["local"]
    options = {"classes": "all", "predictor": method.predictors[0], "seed": 0}
    clients = federation.novel.clients
    fewer = replace(clients, support_sizes=clients.support_sizes - 1)
    groups = [federation.novel, replace(federation.novel, clients=fewer)]
    told = score_groups(method, task, state, groups, **options)
    assert told == [score_group(method, task, state, group, **options) for group in groups]
    assert told[0] != told[1]


@pytest.mark.parametrize("name", list(METHODS))
def test_query_labels_of_a_newcomer_change_the_score_but_no_prediction(
    federation, task, trained, name
):
    novel = federation.novel
    clients = novel.clients
    poisoned = clients.y.clone()
    queried = torch.cat([clients.query[i, : clients.query_sizes[i]] for i in range(len(clients))])
    poisoned[queried] = (poisoned[queried] + 5) % 10
    # Every query label is now another class, so what was right is wrong: had serving looked at
    # query labels, wrong + right would not add up to all of them for every correct prediction.
    honest = scores_of(trained, task, novel, name)
    other = scores_of(trained, task, replace(novel, clients=replace(clients, y=poisoned)), name)
    assert all(a.n_wrong + b.n_wrong >= a.n_query for a, b in zip(honest, other, strict=True))
    method, state = trained[name]
    for index in range(len(clients)):
        x = clients.query_of(index).x
        logits = [
            method.personalize(
                task, state, table.support_of(index), generator=torch.Generator().manual_seed(1)
            )(x)
            for table in (clients, replace(clients, y=poisoned))
        ]
        assert torch.equal(*logits)


def test_a_global_model_serves_newcomers_without_labels(federation, task, trained) -> None:
    method, state = trained["fedavg"]
    assert method.personalization == "global"
    support = federation.novel.clients.support_of(0)
    unlabelled = replace(support, y=None)
    served = [
        method.personalize(task, state, own, generator=torch.Generator())(support.x)
        for own in (support, unlabelled)
    ]
    assert torch.equal(*served)


@pytest.mark.parametrize("name", ["pefll", "per_fedavg", "pfedhn", "local"])
def test_methods_that_need_labels_say_so(federation, task, trained, name: str) -> None:
    method, state = trained[name]
    unlabelled = replace(federation.novel.clients.support_of(0), y=None)
    with pytest.raises(ValueError, match="labelled"):
        method.personalize(task, state, unlabelled, generator=torch.Generator())


def test_known_mask_never_predicts_an_absent_class(federation, task, trained) -> None:
    logits = torch.tensor([[3.0, 2.0, -1.0], [0.0, 5.0, -2.0]])
    known = torch.tensor([False, False, True])
    assert MASKS["known"](logits, known).argmax(1).tolist() == [2, 2]
    assert MASKS["zero"](logits, known).argmax(1).tolist() == [0, 0]
    assert torch.equal(MASKS["all"](logits, known), logits)
    masked = scores_of(trained, task, federation.novel, "fedavg", classes="known")
    free = scores_of(trained, task, federation.novel, "fedavg", classes="all")
    assert sum(s.n_wrong for s in masked) < sum(s.n_wrong for s in free)


def test_scores_repeat_and_gibbs_draws_differ_between_clients(federation, task) -> None:
    method = make_method("pefll", posterior="gaussian", alpha_theta=0.05)
    gibbs = {"gibbs": (method, train(method, task, federation.seen.clients, BUDGET, seed=0))}
    one, again, other = (
        scores_of(gibbs, task, federation.novel, "gibbs", predictor="gibbs", seed=seed)
        for seed in (4, 4, 5)
    )
    assert one == again
    assert [s.loss for s in one] != [s.loss for s in other]


@pytest.mark.parametrize("score", [score_one_after_another, score_side_by_side])
@pytest.mark.parametrize("classes", list(MASKS))
def test_a_model_that_diverged_is_wrong_on_every_point(federation, task, score, classes) -> None:
    clients = federation.novel.clients
    first = replace(clients, y=torch.zeros_like(clients.y))  # argmax of NaN is the first class

    def serve(places, supports):
        return [lambda x: torch.full((len(x), task.n_classes), torch.nan) for _ in supports]

    scores = score(task, first, serve, MASKS[classes])
    assert [one.error for one in scores] == [1.0] * len(clients)


def test_support_scores_are_measured_on_the_support(federation, task, trained) -> None:
    scores = scores_of(trained, task, federation.seen, "fedavg", measured_on="support")
    assert all(score.n_query == score.n_support for score in scores)


def one_by_one(method, task, state, group, predictor):
    """Serve every client by itself."""

    def serve(places, supports):
        for index, support in zip(places, supports, strict=True):
            generator = client_generator(0, int(group.clients.ids[index]))
            options = {"predictor": predictor, "generator": generator}
            if group.name == "seen":
                yield method.serve(task, state, index, support, **options)
            else:
                yield method.personalize(task, state, support, **options)

    return serve


@pytest.mark.parametrize("name", list(METHODS))
def test_scores_are_those_of_each_client_by_itself(federation, task, trained, monkeypatch, name):
    method, state = trained[name]
    for group, on_support in ((federation.seen, True), (federation.novel, False)):
        clients = group.clients
        serve = one_by_one(method, task, state, group, method.predictors[0])
        supports = [clients.support_of(place) for place in range(len(clients))]
        tables = supports if on_support else [*map(clients.query_of, range(len(clients)))]
        models = serve(range(len(clients)), supports)
        logits = [
            [one(measured.x) for one in versions(model)]
            for model, measured in zip(models, tables, strict=True)
        ]
        for classes, together in product(("all", "zero"), (1, 30, 1_000)):
            monkeypatch.setattr(serving, "_PREDICTED", together)
            options = {"classes": classes, "measured_on": "support" if on_support else "query"}
            scores = scores_of(trained, task, group, name, **options)
            for score, support, measured, made in zip(
                scores, supports, tables, logits, strict=True
            ):
                known = torch.zeros(10, dtype=torch.bool)
                known[support.labels()] = True
                y = measured.labels()
                wrong = [int((MASKS[classes](one, known).argmax(1) != y).sum()) for one in made]
                losses = [torch.nn.functional.cross_entropy(one, y).item() for one in made]
                # To the last digit: rows of a run do not hang on who is scored beside whom.
                expected = tuple(sum(each) / len(each) for each in (wrong, losses))
                assert (score.n_wrong, score.loss) == expected, (classes, together)
                assert (score.n_support, score.n_query) == (len(support), len(measured))


def test_a_shared_model_never_reads_a_support(federation, task, trained, monkeypatch):
    read = []

    def watched(clients, rows, inputs=Clients.inputs):
        read.extend(rows.flatten().tolist())
        return inputs(clients, rows)

    monkeypatch.setattr(Clients, "inputs", watched)
    clients = federation.novel.clients
    scores_of(trained, task, federation.novel, "fedavg")
    queried = [clients.query[i, :size].tolist() for i, size in enumerate(clients.query_sizes)]
    assert read == [row for rows in queried for row in rows]


@pytest.mark.parametrize(
    ("name", "classes", "at_most"),
    [
        *((name, "zero", 10**4) for name in METHODS),
        ("pefll", "all", 1),
        ("pefll", "known", 10**9),
        ("pfl_sampled", "zero", 10**9),
    ],
)
def test_scores_side_by_side_are_those_one_after_another(
    federation, task, trained, name, classes, at_most
):
    method, state = trained[name]
    predictor = method.predictors[0]
    for group, on_support in ((federation.seen, True), (federation.novel, False)):
        serve = one_by_one(method, task, state, group, predictor)
        measured_on = "support" if on_support else "query"
        options = {"classes": classes, "measured_on": measured_on}
        expected = scores_of(trained, task, group, name, **options)
        # Clients of one size would hide what padding does.
        sizes = {score.n_query for score in expected}
        assert len(sizes) > 1
        found = score_side_by_side(
            task, group.clients, serve, MASKS[classes], on_support=on_support, at_most=at_most
        )
        alike = [(score.client, score.n_support, score.n_query) for score in expected]
        assert [(score.client, score.n_support, score.n_query) for score in found] == alike
        for measured in ("n_wrong", "loss"):
            told = [[getattr(score, measured) for score in scores] for scores in (found, expected)]
            # Counts of one model are whole numbers; a mean over models is rounded.
            near = {"rel": 1e-12 if measured == "n_wrong" else 1e-5}
            assert told[0] == pytest.approx(told[1], **near)


@pytest.mark.parametrize("classes", ["all", "known"])
def test_a_drawn_model_is_measured_by_the_mean_over_all(federation, task, trained, classes):
    method, state = trained["pfl_sampled"]
    scores = scores_of(trained, task, federation.novel, "pfl_sampled", classes=classes)
    seen = [method.own_model(task, state, i) for i in range(len(federation.seen.clients))]
    for place, score in enumerate(scores):
        clients = federation.novel.clients
        support, query = clients.support_of(place), clients.query_of(place)
        known = torch.zeros(10, dtype=torch.bool)
        known[support.labels()] = True
        logits = torch.stack([task.logits(weights, query.x) for weights in seen])
        wrong = (MASKS[classes](logits, known).argmax(2) != query.labels()).double().sum(1)
        assert score.n_wrong == pytest.approx(float(wrong.mean()), rel=1e-12)
        assert score.error == score.n_wrong / score.n_query
        losses = [torch.nn.functional.cross_entropy(one, query.labels()).item() for one in logits]
        assert score.loss == pytest.approx(sum(losses) / len(losses), rel=1e-5)
    # One draw for each client is another number, and hangs on the seed; the mean does not.
    assert any(score.n_wrong != round(score.n_wrong) for score in scores)
    again = scores_of(trained, task, federation.novel, "pfl_sampled", classes=classes, seed=1)
    assert again == scores


def test_a_group_off_the_cpu_is_scored_side_by_side(federation, task, trained, monkeypatch):
    asked = []

    def spied(*given, **options):
        asked.append(options)
        return score_side_by_side(*given, **options)

    monkeypatch.setattr("latecomer.eval.scoring.serving.score_side_by_side", spied)
    expected = scores_of(trained, task, federation.novel, "pefll", classes="known")
    assert not asked
    # No other device is at hand: the clients say that they lie on one, their tensors do not.
    elsewhere = property(lambda clients: torch.device("meta"))
    monkeypatch.setattr(type(federation.novel.clients), "device", elsewhere)
    found = scores_of(trained, task, federation.novel, "pefll", classes="known")
    assert asked == [{"on_support": False}]
    assert [score.n_wrong for score in found] == [score.n_wrong for score in expected]
