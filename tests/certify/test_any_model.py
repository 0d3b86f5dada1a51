"""Certifying what can be called: scikit-learn, a plain torch loop, folds, leaks, bad input."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier

from latecomer import certify_predictor
from latecomer.bounds.held_out.losses import product
from latecomer.errors import InputError

X, Y = load_digits(return_X_y=True)
X = X / 16.0


def federation(n_clients=60, per_client=24, seed=0):
    """Clients of two digits each: id -> (support, query)."""
    rng = np.random.default_rng(seed)
    clients = {}
    for client in range(n_clients):
        classes = rng.choice(10, 2, replace=False)
        rows = rng.choice(np.flatnonzero(np.isin(Y, classes)), per_client, replace=False)
        half = per_client // 2
        own, held = rows[:half], rows[half:]
        clients[f"client {client}"] = ((X[own], Y[own]), (X[held], Y[held]))
    return clients


CLIENTS = federation()


def nearest(support, query_x):
    """A scikit-learn model of the client's own data."""
    return KNeighborsClassifier(n_neighbors=1).fit(*support).predict(query_x)


def test_a_model_of_scikit_learn() -> None:
    found = certify_predictor(nearest, CLIENTS, rule="product")
    losses = [float((nearest(own, held[0]) != held[1]).mean()) for own, held in CLIENTS.values()]
    assert found.mean == pytest.approx(np.mean(losses))
    assert float(found.certificate) == pytest.approx(float(product(losses=losses, delta=0.05)))
    said = "the system is run with 12 to 12 support points a client"
    assert said in found.certificate.assumptions
    assert said in found.next_client.assumptions


def test_a_plain_torch_loop() -> None:
    """A net trained on some clients and fine-tuned on the newcomer's support."""
    torch.manual_seed(0)
    everybody = list(CLIENTS.items())
    net = torch.nn.Linear(64, 10)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.5)
    for _, (support, _) in everybody[:30]:
        for _ in range(5):
            x, y = (torch.as_tensor(part) for part in support)
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(net(x.float()), y).backward()
            optimizer.step()
    start = {key: value.clone() for key, value in net.state_dict().items()}

    def finetuned(support, query_x):
        net.load_state_dict(
            start
        )  # every client starts from the trained net, not from the last one
        x, y = (torch.as_tensor(part) for part in support)
        for _ in range(20):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(net(x.float()), y).backward()
            optimizer.step()
        with torch.no_grad():
            return net(torch.as_tensor(query_x).float()).argmax(dim=1).numpy()

    untrained = dict(everybody[30:])
    found = certify_predictor(finetuned, untrained, seed=0)
    assert found.n_clients == 30
    assert found.mean < 0.1
    assert found.mean < float(found.certificate) < 0.25
    backwards = certify_predictor(finetuned, dict(reversed(untrained.items())), seed=0)
    assert backwards.to_dict() == found.to_dict()


def test_folds_score_every_point_by_a_model_that_never_saw_it() -> None:
    seen: dict[str, list[tuple]] = {}
    name = next(iter(CLIENTS))
    (x, _), (query_x, _) = CLIENTS[name]
    points = {row.tobytes() for row in np.concatenate([x, query_x])}

    def spy(support, query_x):
        own = {row.tobytes() for row in support[0]}
        held = {row.tobytes() for row in query_x}
        assert not own & held
        seen.setdefault("calls", []).append((own, held))
        return nearest(support, query_x)

    certify_predictor(spy, {name: CLIENTS[name]}, folds=4)
    assert len(seen["calls"]) == 4
    assert set().union(*(held for _, held in seen["calls"])) == points
    assert all(own | held == points for own, held in seen["calls"])


@pytest.mark.slow
def test_folds_come_from_the_seed_and_the_client_alone() -> None:
    base = certify_predictor(nearest, CLIENTS, folds=4, seed=1)
    backwards = dict(reversed(CLIENTS.items()))
    assert certify_predictor(nearest, backwards, folds=4, seed=1).mean == base.mean
    assert certify_predictor(nearest, CLIENTS, folds=4, seed=2).mean != base.mean
    together = {
        name: ((np.concatenate([a[0], b[0]]), np.concatenate([a[1], b[1]])), None)
        for name, (a, b) in CLIENTS.items()
    }
    assert certify_predictor(nearest, together, folds=4, seed=1).to_dict() == base.to_dict()
    assert any("4 folds" in text for text in base.certificate.assumptions)
    assert any("with 18 to 18 support points" in text for text in base.certificate.assumptions)


@pytest.mark.slow
@pytest.mark.parametrize("folds", [1, 4])
def test_labels_to_be_predicted_never_reach_the_predictor(folds: int) -> None:
    """Poison the labels of held points: the predictions must not change, only the score."""
    given: list = []

    def recording(support, query_x):
        given.append(nearest(support, query_x))
        return given[-1]

    certify_predictor(recording, CLIENTS, folds=folds)
    honest, given = given, []
    if folds == 1:
        poisoned = {k: (own, (held[0], (held[1] + 1) % 10)) for k, (own, held) in CLIENTS.items()}
        found = certify_predictor(recording, poisoned)
        np.testing.assert_equal(given, honest)
        assert found.mean > 0.9
    else:
        # Beyond a label a fold: another client's poison must not reach this one.
        names = list(CLIENTS)
        (x, y), held = CLIENTS[names[0]]
        moved = {names[0]: ((x * 1e6, (y + 3) % 10), held)}
        certify_predictor(recording, CLIENTS | moved, folds=folds)
        np.testing.assert_equal(given[folds:], honest[folds:])


@pytest.mark.slow
def test_the_example_of_the_page_runs(capsys) -> None:
    page = Path(__file__).resolve().parents[2] / "docs" / "pages" / "any_function.md"
    (code,) = re.findall(r"^```python\n(.*?)^```$", page.read_text("utf-8"), re.M | re.DOTALL)
    given: dict = {}
    exec(compile(code, page.name, "exec"), given)
    shown = [float(number) for number in re.findall(r"\d\.\d+", capsys.readouterr().out)]
    assert [*given["clients"]] == [*CLIENTS]
    found = certify_predictor(nearest, given["clients"], folds=5, seed=1)
    values = [found.mean, float(found.certificate), float(found.next_client)]
    assert shown == [round(value, 3) for value in values]


def test_a_loss_of_ones_own() -> None:
    def squared(predicted, y):
        return (predicted - y / 9) ** 2

    found = certify_predictor(
        lambda support, x: np.full(len(x), 0.5), CLIENTS, loss=squared, rule="wsr_averaged"
    )
    expected = np.mean([((0.5 - held[1] / 9) ** 2).mean() for _, held in CLIENTS.values()])
    assert found.mean == pytest.approx(expected)
    assert float(found.certificate) < 0.3


def zeros(support, query_x):
    return np.zeros(len(query_x))


PAIR = ((X[:4], Y[:4]), (X[4:6], Y[4:6]))


@pytest.mark.parametrize(
    ("clients", "options", "said"),
    [
        ([PAIR], {}, "clients must be a mapping of client to (support, query), got list"),
        ({}, {}, "holds no clients"),
        ({"a": X}, {}, "client 'a': must be a pair (support, query)"),
        ({"a": (X, PAIR[1])}, {}, "client 'a': support must be a pair (x, y)"),
        ({"a": (PAIR[0], None)}, {}, "client 'a': query must be a pair (x, y)"),
        ({"a": ((X[:4], Y[:3]), PAIR[1])}, {}, "one row of x and y a point, got (4, 64) and (3,)"),
        ({"a": (PAIR[0], (X[:0], Y[:0]))}, {}, "query must hold at least one point, got none"),
        ({"a": PAIR}, {"folds": 0}, "folds must be a whole number of at least 1, got 0"),
        ({"a": PAIR}, {"folds": 7}, "client 'a': 7 folds need as many points, got 6"),
        ({"a": (PAIR[0], (X[:2, :3], Y[:2]))}, {"folds": 2}, "support and query do not fit"),
        ({"a": PAIR}, {"pool_size": 10}, "pool_size must be at least 10 above the 1 clients"),
        ({1: PAIR, "1": PAIR}, {}, "two alike"),
        ({"a": PAIR}, {"loss": lambda p, y: 0.5}, "shape (2,), got shape ()"),
        ({"a": PAIR}, {"loss": lambda p, y: p - 1}, "losses must lie in [0, 1], got -1"),
        ({"a": PAIR}, {"loss": lambda p, y: p * np.nan}, "losses must lie in [0, 1], got nan"),
        ({"a": PAIR}, {"loss": dict}, "loss must be a function or an instance, got class dict"),
        ({"a": PAIR}, {"rule": "prodct"}, "did you mean 'product'?"),
        ({"a": PAIR}, {"delta": 2.0}, "delta must lie strictly between 0 and 1"),
    ],
)
def test_bad_input_is_refused_in_one_line(clients, options, said, refusal) -> None:
    assert said in refusal(certify_predictor, zeros, clients, **options)


def test_a_class_is_no_predictor_before_it_is_made(refusal) -> None:
    said = "predictor must be a function or an instance, got class Predictor"
    assert said in refusal(certify_predictor, type("Predictor", (), {"__call__": zeros}), CLIENTS)


@pytest.mark.parametrize(
    ("predictor", "loss", "said"),
    [
        (lambda own, x: [[0], [1, 2], *x[2:]], None, "predictions must be an array, got list"),
        (lambda own, x: torch.zeros(len(x), requires_grad=True), None, "got Tensor: Can't call"),
        (lambda own, x: np.full(len(x), b"0"), None, "must be of one kind, got bytes b'0' and tex"),
        (lambda own, x: x, lambda p, y: ["high"] * len(y), "losses must be an array, got list"),
        (lambda own, x: x, lambda p, y: [[1], *p[1:, :2]], "losses must be an array, got list"),
    ],
)
def test_what_is_no_array_of_answers_is_refused_in_one_line(predictor, loss, said) -> None:
    named = {name: (own, (x, y.astype(str))) for name, (own, (x, y)) in CLIENTS.items()}
    with pytest.raises(InputError, match=r"^client 'client 0': ") as caught:
        certify_predictor(predictor, named, loss=loss)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("role", ["x", "y"])
def test_points_that_are_no_array_are_refused_in_one_line(role: str) -> None:
    ragged = {"x": ([[1], [2, 3]], [0, 1]), "y": ([1, 2], [[0], [1, 2]])}[role]
    with pytest.raises(InputError, match=f"^client 'a': {role} of query must be an array"):
        certify_predictor(nearest, {"a": ((X[:2], Y[:2]), ragged)})


def test_masked_cells_are_no_labels() -> None:
    masked = np.ma.masked_array(Y[:4], mask=[False, True, False, False])
    with pytest.raises(InputError, match="y of query must have no masked cells, got 1; leave"):
        certify_predictor(nearest, {"a": ((X[:4], Y[:4]), (X[:4], masked))})
    with pytest.raises(InputError, match="predictions must have no masked cells, got 1; leave"):
        certify_predictor(lambda own, x: masked, {"a": ((X[:4], Y[:4]), (X[:4], Y[:4]))})
    whole = np.ma.masked_array(Y[:4])
    clients = {i: ((X[:4], whole), (X[:4], whole)) for i in range(9)}
    assert certify_predictor(nearest, clients, seed=1).mean == 0


@pytest.mark.parametrize("folds", [1, 3])
def test_a_predictor_that_scales_in_place_changes_no_client(folds: int) -> None:
    """One client's points may be another's, too: both must see what was given."""
    x, y = X[:40].copy(), Y[:40].copy()
    shared = {i: ((x[:20], y[:20]), (x[20:], y[20:])) for i in range(12)}

    def in_place(support, query_x):
        for part in (support[0], query_x):
            part -= 5
            part *= 3
        support[1][:] = 0
        return query_x[:, 20] > 0

    def beside(support, query_x):
        return 3 * (query_x[:, 20] - 5) > 0

    found = [certify_predictor(f, shared, folds=folds, seed=1).mean for f in (in_place, beside)]
    assert found[0] == found[1]
    assert np.array_equal(x, X[:40])
    assert np.array_equal(y, Y[:40])


def test_a_predictor_must_answer_every_point() -> None:
    with pytest.raises(InputError, match="one prediction for each of 2 points, got shape"):
        certify_predictor(lambda support, x: np.zeros(3), {"a": PAIR})


def test_frames_whose_columns_or_rows_lie_in_another_order_are_refused() -> None:
    """Their names are lost in arrays, and every feature or label would be another's."""
    x, y = pd.DataFrame({"age": [1.0, 2.0], "dose": [3.0, 4.0]}), pd.Series([0, 1])

    def refused(support: object, query: object) -> str:
        with pytest.raises(InputError) as caught:
            certify_predictor(lambda support, x: np.zeros(len(x)), {"a": (support, query)})
        return str(caught.value)

    said = refused((x, y), (x[["dose", "age"]], y))
    assert said == (
        "client 'a': x of query must have the columns of the first, in their order: age, dose, got "
        "dose, age"
    )
    said = refused((x, y), (x, y[::-1]))
    assert said.startswith("client 'a': query: x and y must have their rows in one order")
    clients = {number: ((x, y), (x.to_numpy(), y[::-1].to_numpy())) for number in range(2)}
    assert certify_predictor(lambda support, x: np.zeros(len(x)), clients).n_clients == 2


@pytest.mark.parametrize(
    ("functions", "said"),
    [
        ({"predictor": lambda x: x}, "predictor must take (support, query_x), got (x): too many"),
        (
            {"predictor": KNeighborsClassifier().fit(X, Y).predict},
            "predictor must take (support, query_x), got (X): too many",
        ),
        ({"loss": lambda y: y}, "loss must take (predictions, y), got (y): too many"),
    ],
)
def test_what_takes_other_arguments_is_refused_in_one_line(functions, said) -> None:
    given = {"predictor": lambda support, x: np.zeros(len(x)), **functions}
    with pytest.raises(InputError, match=re.escape(said)) as caught:
        certify_predictor(clients={"a": PAIR}, **given)
    assert "\n" not in str(caught.value)


def test_no_torch_is_loaded() -> None:
    code = (
        "import sys, numpy as np; from latecomer import certify_predictor;"
        "p = (np.zeros((4, 2)), np.zeros(4, int));"
        "certify_predictor(lambda s, x: np.zeros(len(x)), {'a': (p, p), 'b': (p, None)}, folds=2);"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
