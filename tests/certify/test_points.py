"""Points in place of losses: scores as scikit-learn has them, sets of labels, broken files."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import brier_score_loss, roc_auc_score
from terminal import certified, invoke, text

from latecomer.certify.losses import certify_losses
from latecomer.certify.points import SCORES, score_points
from latecomer.certify.predicted_sets import label_sets
from latecomer.errors import InputError


def two_labels(rng, n_clients=25):
    """Clients of 1 to 40 points with weights; probabilities have ties and clients one label."""
    rows = []
    for client in range(n_clients):
        for _ in range(rng.integers(1, 40)):
            label = int(rng.integers(0, 2))
            chance = round(float(np.clip(rng.normal(0.4 + 0.2 * label, 0.25), 0, 1)), 1)
            rows.append((f"client {client}", label, chance, int(rng.integers(1, 5))))
    return pd.DataFrame(rows, columns=["client", "label", "prediction", "weight"])


def as_probabilities(frame):
    chances = {"p_0": 1 - frame["prediction"], "p_1": frame["prediction"]}
    return frame.drop(columns="prediction").assign(**chances)


def by_client(table):
    return dict(zip(table.clients, table.losses, strict=True))


@pytest.mark.parametrize("form", [pd.DataFrame.copy, as_probabilities])
@pytest.mark.parametrize("seed", range(3))
def test_scores_are_those_of_scikit_learn(form, seed):
    frame = two_labels(np.random.default_rng(seed))
    auc = by_client(score_points(form(frame), score="auc"))
    brier = by_client(score_points(form(frame), score="brier"))
    single = 0
    for client, own in frame.groupby("client"):
        given = (own["label"], own["prediction"])
        expected = brier_score_loss(*given, sample_weight=own["weight"])
        assert brier[client] == pytest.approx(expected, abs=1e-12)
        if own["label"].nunique() == 1:
            single += 1
            assert client not in auc
            continue
        expected = 1 - roc_auc_score(*given, sample_weight=own["weight"])
        assert auc[client] == pytest.approx(expected, abs=1e-12)
    notes = score_points(form(frame), score="auc").notes
    assert any(f"{single} of 25 clients left out" in note for note in notes) == bool(single)


def test_brier_and_error_of_many_labels():
    frame = pd.DataFrame(
        {
            "client": ["a", "a", "b"],
            "label": ["cat", "dog", "owl"],
            "p_cat": [0.5, 0.6, 0.2],
            "p_dog": [0.5, 0.4, 0.2],
            "p_owl": [0.0, 0.0, 0.6],
        }
    )
    brier = by_client(score_points(frame, score="brier"))
    expected = [np.mean([0.5, 0.72]) / 2, (0.04 + 0.04 + 0.16) / 2]
    assert [brier["a"], brier["b"]] == pytest.approx(expected)
    # The first of equal probabilities is the prediction.
    assert by_client(score_points(frame)) == {"a": 0.5, "b": 0.0}
    named = frame[["client", "label"]].assign(prediction=["cat", "cat", "fox"])
    assert by_client(score_points(named)) == {"a": 0.5, "b": 1.0}


def test_calibration_error_is_that_of_ten_bins():
    frame = pd.DataFrame(
        {"client": "a", "label": [1, 1, 0, 1], "p_0": [0.1, 0.1, 0.2, 0.45]}
    ).assign(p_1=lambda own: 1 - own["p_0"])
    # .9 twice and right; .8 once and wrong; .55 once and right.
    expected = (2 * 0.1 + 0.8 + 0.45) / 4
    assert score_points(frame, score="calibration").losses == pytest.approx([expected])


def test_the_order_of_the_rows_changes_nothing():
    frame = as_probabilities(two_labels(np.random.default_rng(5)))
    shuffled = frame.sample(frac=1, random_state=0)
    for score in SCORES:
        one, other = (by_client(score_points(each, score=score)) for each in (frame, shuffled))
        assert one == pytest.approx(other, abs=1e-14)


def test_groups_and_orders_are_those_of_the_clients_that_are_left():
    frame = pd.DataFrame(
        {
            "client": list("aabbcc"),
            "label": [0, 1, 1, 1, 0, 1],
            "prediction": [0.1, 0.9, 0.2, 0.3, 0.8, 0.3],
            "site": list("xxxxyy"),
            "drawn": [2, 2, 1, 1, 3, 3],
        }
    )
    table = score_points(frame, score="auc", by="site", order="drawn")
    assert table.clients == ("a", "c")
    assert table.groups == ("x", "y")
    assert table.order == (0, 1)
    assert table.n_rows == 4
    certified = certify_losses(table, by="site", rule="betting_mixture")
    assert str(certified) == str(
        certify_losses(table, by="site", order="drawn", rule="betting_mixture")
    )
    assert certified.n_clients == 2
    assert "1 of 3 clients left out" in str(certified)


GOOD = "client,label,p_0,p_1\na,0,.9,.1\na,1,.2,.8\nb,1,.4,.6\n"
BROKEN = {
    "sum to 1, got 0.9": GOOD.replace(".4,.6", ".3,.6"),
    "p_1 must lie in [0, 1], got '1.6'": GOOD.replace(".4,.6", "-.6,1.6").replace("-.6", "0"),
    "line 4: no label is given, got ''": GOOD.replace("b,1", "b,"),
    "line 4: no label is given, got 'NA'": GOOD.replace("b,1", "b,NA"),
    "label '2' has no column among p_0, p_1": GOOD.replace("b,1", "b,2"),
    "no column 'label' among client, p_0, p_1": "client,p_0,p_1\na,.5,.5\n",
    "no column 'prediction' among client, label; or probabilities": "client,label\na,0\n",
    "one column a label, p_0, p_1, ..., got p_1 alone": "client,label,p_1\na,0,.5\n",
    "need a column each: no p_1 among p_0, p_2": "client,label,p_0,p_2\na,0,.5,.5\n",
    "prediction must be a label, got '.7'; numbers go with": "client,label,prediction\na,0,.7\n",
    "number '0' and": "client,label,prediction\na,0,cat\n",
    "no prediction is given": "client,label,prediction\na,0,\n",
    "no client id": "client,label,prediction\n,0,1\n",
    "differ only in letter case": "client,label,prediction\na,cat,Cat\n",
    "weights of client 'a' are all 0": "client,label,prediction,weight\na,0,1,0\n",
    "holds no clients": "client,label,prediction\n",
}


@pytest.mark.parametrize("told", BROKEN)
def test_broken_points_are_refused_in_one_line(told, refusal):
    expected = "name 'cat' and number '0'" if told.startswith("number") else told
    assert expected in refusal(score_points, BROKEN[told].encode())


@pytest.mark.parametrize(
    ("score", "table", "told"),
    [
        ("auc", GOOD.replace("a,1", "a,0"), "clients whose points hold both labels, got none"),
        ("auc", "client,label,prediction\na,cat,cat\n", "prediction must be a number, got 'cat'"),
        ("brier", "client,label,prediction\na,0,2\na,1,.5\n", "must lie in [0, 1], got 2"),
        ("auc", "client,label,prediction\na,0,.1\na,1,.2\na,2,.2\n", "two labels, got 3: 0, 1, 2"),
        ("loss", GOOD, "score must be one of error, auc, brier, calibration, got 'loss'"),
    ],
)
def test_points_that_a_score_cannot_have(score, table, told, refusal):
    assert told in refusal(score_points, table.encode(), score=score)


@pytest.mark.parametrize("source", [{"a": 0.1}, [0.1, 0.2], pd.Series({"a": 0.5})])
def test_losses_are_no_points(source):
    with pytest.raises(InputError, match="points need a file or a DataFrame"):
        score_points(source)


def many(rng, n_clients=40):
    rows = []
    for client in range(n_clients):
        for _ in range(rng.integers(1, 20)):
            label = int(rng.integers(0, 3))
            chances = rng.dirichlet(np.ones(3) + 3 * (np.arange(3) == label))
            rows.append((f"c{client}", label, *chances))
    return pd.DataFrame(rows, columns=["client", "label", "p_0", "p_1", "p_2"])


def mass(chances):
    """Return the probability of all labels that are as likely as each."""
    as_likely = [(chances * (chances >= chances[:, [k]])).sum(axis=1) for k in range(3)]
    return np.stack(as_likely, axis=1)


@pytest.mark.parametrize(
    ("score", "of"), [("probability", lambda chances: 1 - chances), ("adaptive", mass)]
)
def test_sets_are_those_of_the_threshold_by_hand(score, of):
    frame = many(np.random.default_rng(1))
    sets = label_sets(frame, alpha=0.1, score=score)
    chances = frame[["p_0", "p_1", "p_2"]].to_numpy()
    places, budget = (np.arange(len(frame)), frame["label"]), 0.1 * 41 - 1
    missed = pd.Series(of(chances)[places])

    def mean_missed(threshold):
        return (missed > threshold).groupby(frame["client"]).mean().sum()

    assert mean_missed(sets.threshold) <= budget + 1e-9
    assert mean_missed(missed[missed < sets.threshold - 1e-9].max()) > budget
    assert sets.confident >= sets.threshold
    held = of(chances) <= sets.threshold + 1e-12
    held[~held.any(axis=1), chances[~held.any(axis=1)].argmax(axis=1)] = True
    assert (sets.held == held).all()
    assert pd.DataFrame(sets.rows())["holds_label"].mean() == pytest.approx(held[places].mean())


@pytest.mark.slow
def test_new_clients_points_are_in_their_sets():
    """Clients differ; the mean miss rate of new ones is at most alpha and far from 0."""
    rng = np.random.default_rng(0)
    missed = []
    for _ in range(60):
        sets = label_sets(many(rng), alpha=0.2, serve=(new := many(rng, 5)))
        own = ~sets.held[np.arange(len(new)), new["label"]]
        missed.append(pd.Series(own).groupby(new["client"]).mean().mean())
    error = np.std(missed) / np.sqrt(len(missed))
    assert np.mean(missed) <= 0.2 + 2 * error
    assert np.mean(missed) >= 0.1


def test_the_terminal_scores_points_and_writes_sets(tmp_path):
    points, new = tmp_path / "predictions.csv", tmp_path / "new.csv"
    frame = many(np.random.default_rng(2))
    frame.to_csv(points, index=False)
    frame.drop(columns="label").head(3).to_csv(new, index=False)
    asked = ["certify", str(points), "--sets", ".1", "--seed", "1"]
    shown = text(*asked)
    assert "score error: a client's share of its points that are predicted wrongly" in shown
    assert "Sets of labels" in shown
    written = pd.read_csv(tmp_path / "predictions.sets.csv")
    assert len(written) == len(frame)
    assert "labels with mass <= 0.9" in text(*asked, "--sets-score", "adaptive")
    code, _, err = invoke("certify", str(points), "--sets-score", "adaptive")
    assert code == 2
    assert "--sets-score goes with --sets, got --sets-score adaptive alone" in err
    record = json.loads(text(*asked, "--sets-for", str(new), "--json"))
    assert record["sets"]["n_sets"] == 3
    assert record["mean"] == pytest.approx(certify_losses(score_points(frame), seed=1).mean)
    assert pd.read_csv(tmp_path / "predictions.sets.csv")["holds_label"].isna().all()


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (["--sets", ".01"], "need at least 99 clients, got 40; with 40 clients alpha is at least"),
        (["--sets", "1"], "alpha of sets must lie strictly between 0 and 1, got alpha of sets=1"),
        (["--sets-for", "predictions.csv"], "--sets-for goes with --sets"),
        (["--sets", ".1", "--joint"], "--joint cannot go with --sets"),
        (["--score", "acu"], "score must be one of"),
        ([], "it holds points: say --score"),
    ],
)
def test_nothing_is_written_where_sets_cannot_be(asked, told, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    many(np.random.default_rng(2)).to_csv("predictions.csv", index=False)
    before = (tmp_path / "predictions.csv").read_bytes()
    code, _, err = invoke("certify", "predictions.csv", *asked)
    assert code == 2
    assert told in " ".join(err.split())
    assert [path.name for path in tmp_path.iterdir()] == ["predictions.csv"]
    assert (tmp_path / "predictions.csv").read_bytes() == before


def test_probabilities_speak_where_a_prediction_stands_beside_them():
    both = b"client,label,p_cat,p_dog,prediction\na,cat,.9,.1,dog\na,dog,.2,.8,dog\n"
    assert score_points(both).losses == (0.5,)
    assert score_points(both, score="auc").losses == (0.0,)


def test_a_pipe_is_read_once(tmp_path, monkeypatch):
    """What sets are made of is what was scored: the source is opened a single time."""
    monkeypatch.chdir(tmp_path)
    many(np.random.default_rng(2)).to_csv("predictions.csv", index=False)
    opened = []
    monkeypatch.setattr(
        "latecomer.certify.table.file_bytes",
        lambda path: opened.append(path) or (tmp_path / path).read_bytes(),
    )
    certified("predictions.csv", "--sets", ".1")
    assert opened == ["predictions.csv"]


@pytest.mark.parametrize(
    ("frame", "told"),
    [
        ("client,label,prediction\na,0,1\n", "sets need the probabilities of all labels"),
        ("client,label,p_0,p_1,weight\na,0,.5,.5,2\n", "equally, got a weight of 2"),
    ],
)
def test_points_that_sets_cannot_be_made_of(frame, told):
    with pytest.raises(InputError, match=told):
        label_sets(frame.encode(), alpha=0.5)
    with pytest.raises(InputError, match="must have the probabilities p_0, p_1"):
        label_sets(GOOD.encode(), alpha=0.5, serve=b"client,p_a,p_b\nx,.5,.5\n")
    with pytest.raises(InputError, match="must be one of probability, adaptive, got 'aps'"):
        label_sets(GOOD.encode(), alpha=0.5, score="aps")


def test_a_label_that_would_part_a_set_in_two_is_refused(tmp_path: Path) -> None:
    points = [{"client": i, "label": "a|b", "p_a|b": 0.6, "p_c": 0.4} for i in range(19)]
    with pytest.raises(InputError, match=r"between them: name 'a\|b' another way"):
        label_sets(points, alpha=0.1).write(tmp_path / "sets.csv")
    assert list(tmp_path.iterdir()) == []
