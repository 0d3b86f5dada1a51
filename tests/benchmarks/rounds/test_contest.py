"""Ratios are medians of pairs, and bounds are held to."""

import json
import os

import bench_gpu
import numpy as np
import pytest
import torch
from contest import (
    Bound,
    Finding,
    Turns,
    bounds,
    compare,
    fastest,
    fitted_exponent,
    one_processor,
    record,
    table,
)
from populations import SHAPE, lenet_task
from sample_by_sample import Pictures, batches
from torch.utils.data import Subset


def turns(*seconds):
    return Turns(wall=tuple(10 * second for second in seconds), cpu=seconds)


def test_ratio_is_the_median_of_pairs_not_the_ratio_of_medians():
    found = compare("a", turns(1.0, 4.0, 9.0), turns(1.0, 2.0, 1.0))
    assert found.ratio == 2.0
    assert found.spread == (1.5, 5.5)


def test_processes_are_timed_by_the_clock():
    ours = Turns(wall=(3.0, 3.0), cpu=(1.0, 1.0))
    theirs = Turns(wall=(1.0, 1.0), cpu=(1.0, 1.0))
    assert compare("a", ours, theirs, processes=True).ratio == 3.0


def test_fastest():
    assert fastest({"slow": turns(2.0, 2.0), "fast": turns(1.0, 5.0, 1.0)}) == "fast"


def test_exponent_of_a_power():
    assert fitted_exponent([1, 2, 4], [3, 3 * 2**1.5, 3 * 4**1.5]) == pytest.approx(1.5)


@pytest.mark.parametrize(
    ("bound", "ratio", "holds"),
    [
        (Bound(at_most=1.1), 1.1, True),
        (Bound(at_most=1.1), 1.11, False),
        (Bound(at_least=0.5), 0.4, False),
        (Bound(), 99.0, True),
    ],
)
def test_bounds_hold_or_not(bound, ratio, holds):
    assert bound.holds(ratio) is holds


def test_table_and_record_say_what_was_missed():
    found = [Finding("fast", 0.5), Finding("slow", 2.0, absolute={"ours_s": 2.0})]
    known = {"fast": Bound(baseline=0.4, at_most=1.0), "slow": Bound(at_most=1.0)}
    lines = table(found, known)
    assert "0.400  ok" in lines[1]
    assert "MISSED  slow (at most 1; ours_s 2)" in lines[2]
    written = json.loads(record(found, known))
    assert written["findings"]["slow"]["holds"] is False
    assert set(written["machine"]) >= {"cpu", "threads", "torch"}


def test_committed_ratios_lie_within_their_bounds():
    entries = bounds()
    missed = {
        name
        for name, bound in entries.items()
        if bound.baseline is not None and not bound.holds(bound.baseline)
    }
    assert missed == set()


def test_work_of_a_round_follows_from_the_shapes():
    with torch.device("meta"):
        shapes = lenet_task().shapes
    forward = 2 * (28**2 * 16 * 75 + 10**2 * 32 * 400 + 800 * 120 + 120 * 84 + 84 * 10)
    first = 2 * 28**2 * 16 * 75
    assert bench_gpu.lenet_flop(shapes, SHAPE[1]) == (forward, 3 * forward - first)
    assert 95e9 < bench_gpu.round_flop(shapes, bench_gpu.CONFIG) < 113e9


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="the system cannot say so")
def test_contestants_stay_on_one_processor_and_are_let_go():
    free = os.sched_getaffinity(0)
    with one_processor():
        assert os.sched_getaffinity(0) == {max(free)}
    assert os.sched_getaffinity(0) == free


def test_pictures_come_standardised_and_shuffled_from_their_client_alone():
    images = np.arange(9 * 4 * 5 * 3, dtype=np.uint8).reshape(9, 4, 5, 3)
    own = Subset(Pictures(images, np.arange(9)), [7, 2, 5])
    wanted = (torch.from_numpy(images).permute(0, 3, 1, 2).float() / 255 - 0.5) / 0.25
    seen = set()
    for x, y in batches(own, steps=20, batch_size=2):
        torch.testing.assert_close(x, wanted[y])
        seen.add(tuple(y.tolist()))
    assert {label for pair in seen for label in pair} == {7, 2, 5}
    assert len(seen) > 1
