"""What was tried for newcomers without labels: the program, its kept rows, and what a page says."""

from dataclasses import replace
from itertools import product
from pathlib import Path

import pandas as pd
import pytest
import torch

from latecomer.models.families import described_clients
from latecomer.models.families.described_clients import served
from latecomer.models.methods import make_method
from latecomer.models.task.clients import Samples
from latecomer.models.task.state import row

ROOT = Path(__file__).resolve().parents[2]
ROWS = pd.read_csv(ROOT / "reports" / "reference" / "newcomers-options" / "accuracies.csv")


@pytest.fixture(scope="module")
def program(example):
    module = example("unlabelled_newcomers/what_helps.py")
    module.BUDGET = replace(module.BUDGET, rounds=2)
    return module


@pytest.fixture(scope="module")
def asked(program):
    return program.asked("choose", 2, 0)


def test_as_it_is_the_program_trains_the_method_bit_for_bit(program, asked):
    own = program.trained(program.Tried(**program.RATES), asked, 0).server
    theirs = program.trained(make_method("odpfl_hn", **program.RATES), asked, 0).server
    assert own.keys() == theirs.keys()
    assert all(torch.equal(own[key], theirs[key]) for key in own)


@pytest.mark.parametrize("name", ["parts", "unit parts"])
def test_every_option_trains_otherwise(program, asked, name):
    plain = program.Tried(**program.RATES)
    own = program.trained(replace(plain, **program.OPTIONS[name]), asked, 0).server
    other = program.trained(plain, asked, 0).server
    assert any(not torch.equal(own[key], other[key]) for key in own if key.startswith("hyper"))


def test_views_average_descriptors_of_halves(program, asked):
    method = program.Tried(**program.RATES, views=3)
    state = program.trained(method, asked, 0)
    x = asked.held_back.support_of(0).x
    draw = torch.Generator().manual_seed(5)
    halves = [x[torch.randperm(len(x), generator=draw)[: len(x) // 2]] for _ in range(3)]
    told = sum(method.describe(asked.task, state, Samples(half, None)) for half in halves) / 3
    made = row(described_clients.weights(asked.task, served(state.server), told[None]), 0)
    again = torch.Generator().manual_seed(5)
    model = method.personalize(asked.task, state, Samples(x, None), generator=again)
    expected = x @ made["head.weight"].T + made["head.bias"]
    torch.testing.assert_close(model(x), expected)


def test_those_held_back_are_seen_clients_and_no_newcomers(program, asked):
    report = program.asked("report", 2, 0)
    everybody = report.trained.ids.tolist()
    assert sorted(asked.trained.ids.tolist() + asked.held_back.ids.tolist()) == everybody
    newcomers, _ = report.measured["sharp"]
    assert not set(newcomers.ids.tolist()) & set(everybody)
    described, measured = asked.measured["sharp"]
    assert described.ids.tolist() == measured.ids.tolist() == asked.held_back.ids.tolist()


def test_described_sharp_the_inputs_that_describe_are_those_without_a_shift(program, asked):
    sharp, _ = asked.measured["sharp"]
    described, measured = asked.measured["blur 2 described sharp"]
    blurred, same = asked.measured["blur 2"]
    assert torch.equal(described.support_of(0).x, sharp.support_of(0).x)
    assert not torch.equal(blurred.support_of(0).x, sharp.support_of(0).x)
    assert torch.equal(measured.query_of(0).x, same.query_of(0).x)
    assert torch.equal(measured.query_of(0).y, sharp.query_of(0).y)


def test_kept_rows_hold_every_seed_of_every_option(program):
    conditions = {"sharp", "blur 1", "blur 2", "blur 1 described sharp", "blur 2 described sharp"}
    always = {"fedavg", "as it is", "views", "together"}
    rounds = {"held back last round", "held back best round"}
    for stage, own in ROWS.groupby("stage"):
        further = rounds if stage == "report" else set()
        assert set(own["option"]) == always | further | set(program.TRIED[stage])
        for option, of_one in own.groupby("option"):
            trainings = range(program.TOGETHER if option == "as it is" else 1)
            columns = [of_one[name] for name in ("classes", "seed", "training", "condition")]
            expected = product(program.CLASSES, program.SEEDS[stage], trainings, conditions)
            assert sorted(zip(*columns, strict=True)) == sorted(expected)
    assert not set(program.SEEDS["choose"]) & set(program.SEEDS["report"])


def test_the_settings_reported_are_those_that_the_clients_held_back_had_more_right_with(program):
    own = ROWS[(ROWS["stage"] == "choose") & (ROWS["condition"] == "sharp")]
    right = own.groupby("option")["accuracy"].mean()
    assert program.TRIED["report"] == (right[list(program.OPTIONS)].idxmax(),)
