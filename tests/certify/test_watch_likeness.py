"""`latecomer watch --likeness`: alarms for newcomers unlike the certified clients, by p-values."""

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from terminal import invoke

from latecomer import watch_losses
from latecomer.bounds.held_out.arriving import drift_evidence
from latecomer.certify.ledger import verify_ledger
from latecomer.certify.watching import first_alarm, unlikeness, watch_plan
from latecomer.errors import InputError

HELD_OUT = 24


def p_values(newcomers, held_out):
    """Return ranks of newcomers among held-out distances, as measure likeness gives them."""
    return (1 + (held_out[None] >= newcomers[:, None]).sum(axis=1)) / (1 + len(held_out))


def stream(rng, n, *, scale=1.0, after=0, held_out=HELD_OUT):
    known, new = rng.exponential(size=held_out), rng.exponential(size=n)
    new[after:] *= scale
    return p_values(new, known)


def power_bets(p):
    """Return the mixture of power bets in closed form (Vovk and Wang, 2021, equation 2)."""
    return (1 - p + p * np.log(p)) / (p * np.log(p) ** 2)


@settings(max_examples=20)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 8), held_out=st.integers(1, 12))
def test_an_e_value_is_the_mean_bet_on_the_smoothed_online_p_value(seed, n, held_out):
    """Against ranks of the distances themselves, within a gap in any order."""
    rng = np.random.default_rng(seed)
    known, new = rng.random(held_out), rng.random(n)
    values = unlikeness(p_values(new, known).tolist(), held_out)
    for t in range(n):
        # Gaps between the held-out clients are all that a p-value tells of a distance.
        gap = (known >= new[t]).sum()
        gaps = (known[None] >= new[:t, None]).sum(axis=1)
        farther = (gaps < gap).sum() + gap
        ends = np.array([farther, farther + (gaps == gap).sum() + 1]) / (held_out + 1 + t)
        # The bet is unbounded at 0: integrated over the logarithm there.
        low, high = np.log(max(ends[0], 1e-300)), np.log(ends[1])
        mean = quad(lambda u: power_bets(np.exp(u)) * np.exp(u), low, high - 1e-9, limit=400)[0]
        # What is left out below 1e-300 is G there, 1 / 690.
        left_out = 0 if ends[0] else 1 / (300 * np.log(10))
        assert values[t] == pytest.approx((mean + left_out) / (ends[1] - ends[0]), rel=1e-4)


@given(
    gaps=st.lists(st.integers(1, 5), max_size=20),
)
def test_the_next_e_values_mean_is_1_whatever_came_before(gaps):
    held_out = 4
    before = [gap / 5 for gap in gaps]
    counts = np.bincount(gaps, minlength=6)[1:] if gaps else np.zeros(5)
    chances = (1 + counts) / (5 + len(gaps))
    nexts = [unlikeness([*before, (gap + 1) / 5], held_out)[-1] for gap in range(5)]
    assert chances @ nexts == pytest.approx(1)
    assert chances @ nexts <= 1
    assert all(a > b for a, b in pairwise(nexts))


def rings(streams, *, naive=False):
    """Return how many streams ever ring at .05; the naive twin bets on p-values as they are."""
    plan = watch_plan(likeness=HELD_OUT)
    each = []
    for p in streams:
        # The bets' integrals over the gaps are those of the first newcomer, again and again.
        values = [unlikeness([one], HELD_OUT)[0] for one in p] if naive else unlikeness(p, HELD_OUT)
        evidence = drift_evidence(losses=values, threshold=1.0, loss_max=1e6)
        each.append((evidence >= 1 / plan.alpha).any())
    return float(np.mean(each))


@pytest.mark.slow
def test_like_newcomers_ring_in_at_most_one_of_twenty_streams():
    draw = np.random.default_rng(3)
    like = [stream(draw, 400) for _ in range(300)]
    assert rings(like) <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / 300)
    # The broken twin forgets that newcomers share the certified clients, who may by chance be
    # nearer than newcomers: the longer the stream the surer it rings.
    assert rings(like, naive=True) > 0.2


def test_unlike_newcomers_ring_soon():
    draw = np.random.default_rng(4)
    assert rings([stream(draw, 12, scale=50.0) for _ in range(100)]) >= 0.95
    assert rings([stream(draw, 150, scale=3.0, after=20) for _ in range(100)]) >= 0.8


def test_the_doors_agree_and_a_ledger_keeps_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    draw = np.random.default_rng(0)
    p = stream(draw, 30, scale=50.0, after=10)
    frame = pd.DataFrame({"client": [f"c{i}" for i in range(30)], "likeness": p})
    frame.to_csv("new.csv", index=False)
    code, out, err = invoke("watch", "new.csv", "--once", "--likeness", "24", "--json")
    assert (code, err) == (0, "")
    lines = [json.loads(line) for line in out.splitlines()]
    watched = watch_losses("new.csv", likeness=24)
    named = dict(zip(frame["client"], p, strict=True))
    for other in (frame, named, frame.to_dict("records")):
        assert watch_losses(other, likeness=24).moments == watched.moments
    assert [line["evidence"] for line in lines] == [one.evidence for one in watched]
    assert [line["certificate"] for line in lines] == [None] * 30
    expected = drift_evidence(losses=unlikeness(p, 24), threshold=1.0, loss_max=1e6)
    assert [one.evidence for one in watched] == expected.tolist()
    first, _ = first_alarm(watched.plan, watched.moments)
    assert 10 < first < 20
    assert [line["n"] for line in lines if "drift" in line["rings"]] == [first]
    Path("plan.yaml").write_text("likeness: 24\ntrained_on: digits\n")
    code, out, _ = invoke("watch", "new.csv", "--once", "--plan", "plan.yaml")
    assert code == 0
    assert f"DRIFT ALARM (drift) at client {first}, c{first - 1}" in out
    assert f"evidence at 20       RANG AT CLIENT {first} (ever falsely: at most 5%)" in out
    assert "mean <=" not in out
    assert "mean loss" not in out
    assert watched.in_full.splitlines()[1] == watched.sentence
    assert watched.sentence.endswith(
        f"while new clients are like the 24 certified clients; RANG AT CLIENT {first}."
    )
    kept = verify_ledger("new.csv.ledger")
    assert kept.plan == watch_plan(likeness=24, trained_on="digits")
    assert kept.moments == watched.moments
    code, out, _ = invoke("verify", "new.csv.ledger", "--json")
    assert (code, json.loads(out)["certificate"]) == (0, None)
    assert json.loads(out)["alarms"][0] == first


def test_a_file_that_grows_gives_the_same_numbers(tmp_path):
    from latecomer.certify.watching import moments_after

    p = stream(np.random.default_rng(1), 12)
    arrivals = [(str(i), one) for i, one in enumerate(p.tolist())]
    plan = watch_plan(likeness=24)
    grown = ()
    for n in (0, 1, 5, 12):
        grown += moments_after(plan, grown, arrivals[:n])
    assert grown == moments_after(plan, (), arrivals)


def test_a_plan_holds_nothing_of_losses():
    told = watch_plan(likeness=40).to_dict()
    assert sorted(told) == ["alpha", "bets", "likeness", "run_length", "trained_on"]
    assert watch_plan(**told) == watch_plan(likeness=40)
    assert "likeness" not in watch_plan().to_dict()


@pytest.mark.parametrize("name", ["rule", "delta", "loss_max", "threshold", "sets"])
def test_what_is_about_losses_is_left_out(name):
    with pytest.raises(InputError, match=f"{name} is about losses: leave it out with likeness"):
        watch_plan(likeness=40, **{name: 0.5})


@pytest.mark.parametrize(
    ("text", "likeness", "said"),
    [
        ("client,likeness\na,.3\n", "24", "a multiple of 1/25 from 1/25 to 1, got 0.3"),
        ("client,likeness\na,0\n", "24", "a multiple of 1/25 from 1/25 to 1, got 0"),
        ("client,likeness\na,1.2\n", "24", "line 2: likeness must lie in [0, 1], got 1.2"),
        ("client,likeness\na,.04\na,.04\n", "24", "a client arrives once, with one likeness"),
        ("client,loss\na,.04\n", "24", "no column 'likeness'"),
        ("client,likeness\na,.04\n", "0", "likeness must be a whole number"),
        ("client,likeness\n", "24", "holds no clients"),
    ],
)
def test_bad_p_values_are_one_line(tmp_path, text, likeness, said):
    file = tmp_path / "new.csv"
    file.write_text(text)
    code, out, err = invoke("watch", str(file), "--once", "--likeness", likeness)
    assert (code, out) == (2, "")
    assert len(err.strip().splitlines()) == 1
    assert said in err
