"""`latecomer watch --sets`: the share of points that sets with a fixed threshold miss."""

import json
from pathlib import Path

import numpy as np
import pytest
from terminal import invoke

from latecomer import watch_losses
from latecomer.certify.ledger import verify_ledger
from latecomer.certify.predicted_sets import LABEL_SCORES, labels_kept
from latecomer.certify.watched import missed_in_order, reader_of
from latecomer.certify.watching import arrivals_of, watch_plan
from latecomer.errors import InputError

HEAD = "client,label,p_0,p_1,p_2\n"


def points(n_clients, seed=0):
    rng = np.random.default_rng(seed)
    for client in range(n_clients):
        for _ in range(int(rng.integers(1, 6))):
            chance = rng.dirichlet([1, 1, 1])
            label = rng.choice(3, p=chance)
            yield client, label, chance


def text_of(rows):
    return HEAD + "".join(
        f"c{client},{label},{','.join(repr(float(p)) for p in chance)}\n"
        for client, label, chance in rows
    )


def test_a_clients_loss_is_the_share_of_its_points_that_sets_miss():
    rows = list(points(20))
    found = missed_in_order(text_of(rows).encode(), 0.6)
    assert [name for name, _ in found] == [f"c{i}" for i in range(20)]
    for client, (_, share) in enumerate(found):
        own = [(label, chance) for one, label, chance in rows if one == client]
        held = labels_kept(LABEL_SCORES["probability"].of(np.stack([c for _, c in own])), 0.6)
        assert share == np.mean(
            [not kept[label] for kept, (label, _) in zip(held, own, strict=True)]
        )
    assert 0 < np.mean([share for _, share in found]) < 1
    assert all(share == 0 for _, share in missed_in_order(text_of(rows).encode(), 1.0))


def test_it_is_certified_as_losses_are_and_kept_in_a_ledger(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("points.csv").write_text(text_of(points(30)))
    code, out, err = invoke("watch", "points.csv", "--once", "--sets", ".6", "--json")
    assert (code, err) == (0, "")
    lines = [json.loads(line) for line in out.splitlines()]
    losses = dict(missed_in_order("points.csv", 0.6))
    assert {line["client"]: line["loss"] for line in lines} == losses
    watched = watch_losses(losses)
    assert [line["certificate"] for line in lines] == [one.certificate for one in watched]
    assert watch_losses("points.csv", sets=0.6).moments == watched.moments
    said = invoke("watch", "points.csv", "--once", "--sets", ".6")[1]
    told = "sets of the labels with 1 - p <= 0.6 (a client's loss is the share of its"
    assert told in " ".join(said.split())
    Path("plan.yaml").write_text("sets: 0.6\nthreshold: 0.5\n")
    assert invoke("watch", "points.csv", "--once", "--plan", "plan.yaml")[0] == 0
    assert verify_ledger("points.csv.ledger").plan.sets == 0.6


def test_a_plan_of_losses_is_written_as_before():
    assert "sets" not in watch_plan().to_dict()
    assert watch_plan(sets=0.5).to_dict()["sets"] == 0.5


def test_the_last_client_of_a_growing_file_waits_for_the_next(tmp_path):
    file = tmp_path / "points.csv"
    rows = list(points(4))
    file.write_text(HEAD)
    ends = [sum(client <= last for client, _, _ in rows) for last in range(4)]
    seen = []

    def grow(_):
        file.write_text(text_of(rows[: ends[len(seen)]]))

    for arrivals in arrivals_of(file, loss_max=1.0, once=False, wait=grow, read=reader_of(0.6)):
        seen.append(len(arrivals))
        if len(seen) == 4:
            break
    assert seen == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("text", "sets", "said"),
    [
        ("client,label,prediction\na,1,1\n", ".5", "sets need the probabilities of all labels"),
        (HEAD + "a,0,.5,.5,.5\n", ".5", "probabilities must sum to 1, got 1.5"),
        (HEAD + "a,0,1,0,0\nb,0,1,0,0\na,0,1,0,0\n", ".5", "client 'a' has points after those of"),
        (HEAD + "a,0,1,0,0\n", "1.5", "sets must lie in [0, 1], got 1.5"),
        (HEAD + "a,7,1,0,0\n", ".5", "label '7' has no column among p_0, p_1, p_2"),
        (HEAD.replace("p_2", "p_2,weight") + "a,0,1,0,0,2\n", ".5", "equally, got a weight of 2"),
        (HEAD, ".5", ""),
    ],
)
def test_bad_points_are_one_line(tmp_path, text, sets, said):
    file = tmp_path / "points.csv"
    file.write_text(text)
    code, _, err = invoke("watch", str(file), "--once", "--sets", sets)
    assert code == 2
    assert said in err.replace("\n", " ")


def test_sets_go_with_shares_alone():
    with pytest.raises(InputError, match="loss_max must be 1 with sets"):
        watch_plan(sets=0.5, loss_max=2.0)
    with pytest.raises(InputError, match="sets need a file of points"):
        watch_losses({"ann": 0.1}, sets=0.5)
