"""Predictions are compared with labels of their own kind, one a point, none missing."""

import numpy as np
import pytest

from latecomer import certify_predictor

RNG = np.random.default_rng(0)
POINTS = [RNG.normal(size=(12, 2)) for _ in range(20)]


def clients(as_label=lambda y: y):
    held = {}
    for number, x in enumerate(POINTS):
        y = as_label((x[:, 0] > 0).astype(int))
        held[number] = (x[:6], y[:6]), (x[6:], y[6:])
    return held


def right(support, x):
    return (x[:, 0] > 0).astype(int)


def with_gap(gap):
    def labels(y):
        held = y.astype(type(gap) if isinstance(gap, float) else object)
        held[np.arange(len(y)) % 6 == 2] = gap
        return held

    return labels


@pytest.mark.parametrize(
    ("predictor", "labels"),
    [
        (right, lambda y: y),
        (lambda s, x: right(s, x) > 0, lambda y: y),
        (lambda s, x: right(s, x).astype(float), lambda y: y),
        (lambda s, x: right(s, x).tolist(), lambda y: y),
        (lambda s, x: right(s, x).astype(str), lambda y: y.astype(str)),
        (lambda s, x: right(s, x).astype(str).astype(object), lambda y: y.astype(str)),
    ],
)
def test_a_predictor_that_is_never_wrong(predictor, labels):
    assert certify_predictor(predictor, clients(labels)).mean == 0


@pytest.mark.parametrize(
    ("predictor", "labels", "said"),
    [
        (lambda s, x: right(s, x).astype(str), lambda y: y, "got text '0' and numbers 0"),
        (right, lambda y: y.astype(str), "must be of one kind, got numbers 0 and text '0'"),
        (lambda s, x: ["yes", *right(s, x)[1:]], lambda y: y.astype(object), "must be of one kind"),
        (right, with_gap(float("nan")), "labels: none for point 2 of 6, got nan"),
        (right, with_gap(None), "labels: none for point 2 of 6, got None"),
        (lambda s, x: np.full(len(x), np.nan), lambda y: y, "predictions: none for point 0 of 6"),
        (lambda s, x: np.stack([-x[:, 0], x[:, 0]], 1), lambda y: y, "got shape (6, 2); scores of"),
        (lambda s, x: right(s, x)[:, None], lambda y: y, "got shape (6, 1)"),
        (
            right,
            lambda y: y.astype(float),
            "labels must be classes, whole numbers or names, unless",
        ),
        (right, lambda y: (y + 0.5).astype(object), "labels must be classes, whole numbers or"),
        (right, lambda y: np.eye(2)[y], "labels must be one label a point, shape (6,), got shape"),
        (lambda s, x: 1 / (1 + np.exp(-x[:, 0])), lambda y: y, "must be labels, got 0."),
    ],
)
def test_what_cannot_be_compared_names_the_client(predictor, labels, said, refusal):
    message = refusal(certify_predictor, predictor, clients(labels))
    assert message.startswith("client '0': ")
    assert said in message


def test_a_loss_of_ones_own_takes_what_it_likes():
    scores = certify_predictor(
        lambda s, x: np.stack([-x[:, 0], x[:, 0]], 1),
        clients(lambda y: y.astype(str)),
        loss=lambda predicted, y: (predicted.argmax(1) != y.astype(int)).astype(float),
    )
    assert scores.mean == 0


@pytest.mark.parametrize(
    ("ids", "said"),
    [
        ([("c", 0), ("c", 1)], "an id must be text or a whole number, got tuple"),
        (["c0", "c0 "], "must have ids that differ as text"),
        (["c0", "C0"], "differ only in letter case"),
        (["1e5", "b"], "scientific notation"),
        ([None, "b"], "no client id"),
    ],
)
def test_clients_are_named_as_in_a_table(ids, said, refusal):
    held = dict(zip(ids, clients().values(), strict=False))
    assert said in refusal(certify_predictor, right, held)
