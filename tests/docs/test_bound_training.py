"""The program that trains PeFLL on a bound measures the bound, and its kept rows add up."""

from pathlib import Path

import pandas as pd
import pytest
import torch

from latecomer.bounds import pefll_b1
from latecomer.models import make_method
from latecomer.models.engine.training import initial_state
from latecomer.models.posteriors import bounded_cross_entropy

ROOT = Path(__file__).resolve().parents[2]
STATES = (("none", "before"), ("pefll", "before"), ("pefll", "after"), ("bound", "after"))
ROWS = pd.read_csv(ROOT / "reports" / "reference" / "bound-training" / "bounds.csv")


@pytest.fixture(scope="module")
def program(example):
    return example("bound_training/before_and_after.py")


def test_kept_rows_are_the_bound_of_their_parts(program):
    for row in ROWS.to_dict("records"):
        bound = pefll_b1(
            empirical_risk=row["risk"],
            kl_hyper=row["divergence"],
            sum_kl=row["divergences"],
            n_clients=row["n_clients"],
            n_samples=row["n_samples"],
            delta=program.DELTA,
        )
        assert float(bound) == pytest.approx(row["bound"], rel=1e-4)


@pytest.mark.parametrize("data", sorted(set(ROWS["data"])))
def test_the_pilot_chooses_and_every_seed_has_every_state(program, data):
    own = ROWS[ROWS["data"] == data]
    pilot, rest = own[own["seed"] == program.PILOT], own[own["seed"] != program.PILOT]
    best = pilot.loc[pilot["bound"].idxmin()]
    assert set(rest["alpha"]) == {best["alpha"]}
    assert set(zip(pilot["alpha"], pilot["alpha_theta"], strict=True)) == set(program.VARIANCES)
    told = rest.groupby(["objective", "when"])["seed"].apply(sorted)
    assert set(told.index) == set(STATES)
    assert all(seeds == told.iloc[0] for seeds in told)
    assert set(told.iloc[0]) <= set(program.SEEDS)


@pytest.mark.parametrize("data", sorted(set(ROWS["data"])))
def test_the_page_says_what_the_rows_show(data):
    own = ROWS[(ROWS["data"] == data) & (ROWS["seed"] < 100)].set_index("seed")
    told = {
        state: own[(own["objective"] == state[0]) & (own["when"] == state[1])] for state in STATES
    }
    zero, before, usual, bound = told.values()
    assert (bound["bound"] < before["bound"] / 5).all()
    assert (usual["bound"] > 10).all()
    assert (usual["error"] < 0.3).all()
    assert (zero["bound"] < 1).all()
    assert (bound["bound"] > zero["bound"]).all()
    assert (bound["error"] > 0.7).all()


def test_weights_of_0_have_no_divergence_and_the_bound_of_their_risk(program):
    task, seen, novel = program.clients_of("digits")
    few = program.TRAIN
    method = make_method("pefll", posterior="gaussian", descriptor_dim=3)
    state = program.without_weights(initial_state(method, task, seen, few, seed=0))
    told = program.measured(method, task, state, seen, novel)
    assert told["divergence"] == told["divergences"] == 0
    # A draw of weights near 0 makes nearly the same probability of every class.
    uniform = torch.full((1, 10), 0.1).log()

    assert told["risk"] == pytest.approx(
        float(bounded_cross_entropy(uniform, torch.tensor([0]))), abs=0.02
    )
