"""What a split makes of certificates: samples that are shared, dealing that nobody can check."""

import json
from dataclasses import replace

import numpy as np
import pytest

from latecomer.eval.datasets import load_dataset, make_dataset
from latecomer.eval.results.rows import Artifact
from latecomer.eval.routes.contract import APART, UNDEALT, shared_samples, with_caveats
from latecomer.eval.routes.kinds.r0 import HeldOut
from latecomer.eval.routes.kinds.r4 import Progressive
from latecomer.eval.routes.kinds.r5 import Compressed
from latecomer.eval.routes.r4_progressive import Plan
from latecomer.eval.routes.registry import ROUTES
from latecomer.eval.splits.build import make_split, split_of
from latecomer.eval.splits.registry import Frozen
from latecomer.eval.splits.split import split_arrays
from latecomer.eval.training.setup import Outcome

DIGITS = load_dataset({"name": "digits"})
LAW = {"kind": "environment", "clients": 30, "certify": 10, "novel": 5, "classes_per_client": 2}
POOL = {"kind": "by_class", "clients": 30, "certify": 5, "novel": 10, "classes_per_client": 2}


def read_again(path):
    return split_of(DIGITS, Frozen(kind="frozen", path=str(path)))


@pytest.mark.parametrize("options", [LAW, POOL])
def test_a_file_that_names_its_settings_is_dealt_again(tmp_path, options):
    split = make_split(DIGITS, seed=3, **options)
    assert split.dealt
    np.savez_compressed(tmp_path / "split.npz", **split_arrays(split, DIGITS.content_hash))
    again = read_again(tmp_path / "split.npz")
    assert again.dealt
    assert dict(again.settings) == dict(split.settings)


def test_a_file_without_settings_or_with_others_proves_nothing(tmp_path):
    split = make_split(DIGITS, seed=3, **POOL)
    # The easiest clients picked for certification, written down with the checksum they have.
    chosen = make_split(DIGITS, seed=4, **POOL)
    for name, one in (
        ("without", replace(split, settings={})),
        ("other seed", replace(split, settings=chosen.settings)),
        ("no settings at all", replace(split, settings={"kind": "no such kind"})),
        ("too many", replace(split, settings={**split.settings, "clients": 10**9})),
    ):
        path = tmp_path / f"{name}.npz"
        np.savez_compressed(path, **split_arrays(one, DIGITS.content_hash))
        assert not read_again(path).dealt, name
    arrays = split_arrays(split, DIGITS.content_hash)
    about = json.loads(str(arrays["about"]))
    assert about["settings"]["seed"] == 3
    del about["settings"]  # as files of before were
    np.savez(tmp_path / "old.npz", **(arrays | {"about": np.array(json.dumps(about))}))
    assert not read_again(tmp_path / "old.npz").dealt


def test_who_has_no_role_follows_from_the_settings_and_not_from_the_file(tmp_path):
    owners = np.repeat(np.arange(40), 5)
    data = make_dataset("toy", owners[:, None] * 1.0, np.arange(200) % 2, provenance="made up",
                        client=owners)  # fmt: skip
    split = make_split(data, kind="natural", clients=30, certify=5, novel=12)
    np.savez_compressed(
        tmp_path / "split.npz", **split_arrays(replace(split, left_out=()), data.content_hash)
    )  # as files of before
    again = split_of(data, Frozen(kind="frozen", path=str(tmp_path / "split.npz")))
    assert again.dealt
    assert again.left_out == split.left_out
    assert again.n_left_out == 10


@pytest.mark.parametrize(
    ("bound", "metric"),
    [
        ("r1:kl", "certificate"),
        ("r2:two_step_kl", "certificate"),
        ("r3:pooled", "certificate"),
        ("r4:product", "certificate"),
        ("r5:occam", "certificate"),
        ("sets:adaptive", "set_threshold"),
    ],
)
def test_whoever_is_in_no_pool_is_told_of_by_every_route(bound, metric):
    split = replace(make_split(DIGITS, seed=0, **POOL), left_out=tuple(range(31)))
    total = certificate(bound=bound, metric=metric, sampling="finite-pool", group="tuning",
                        predictor="gibbs")  # fmt: skip
    found = with_caveats(outcome(total, certificate(bound="pefll_32")), [HeldOut()], split)
    (row,) = [row for row in found.rows if row["metric"] == "certificate_pool"]
    assert (row["bound"], row["term"], row["value"]) == (bound, "left_out", 31.0)
    told = {f["bound"] for f in found.artifacts["certificates"].table if f["name"] == "left_out"}
    assert told == ({bound} if metric == "certificate" else set())  # the double has no such fact
    parts = ROUTES[bound.partition(":")[0]].sentence({**row, "pool": 15, "left_out": row["value"]})
    assert "31 clients left out of the split are not among them" in parts.more
    # R0 says so of its own certificates, and independent clients are of no pool.
    held = outcome(certificate(bound="r0:product"))
    facts = held.artifacts["certificates"].table
    facts.append({**facts[0], "kind": "input", "name": "n_left_out", "value": 31.0})
    assert with_caveats(held, [HeldOut()], split).rows == held.rows
    law = replace(make_split(DIGITS, seed=0, **LAW), left_out=(1,))
    assert with_caveats(outcome(total), [HeldOut()], law).rows == [total]


def certificate(**more):
    return {"metric": "certificate", "bound": "r4:product", "term": "", "value": 0.3,
            "group": "arriving", "shift": "none", "severity": "", "predictor": "random-checkpoint",
            "population": "unseen-client", "sampling": "martingale", "rigorous": True,
            "delta": 0.05, "message": "", "n_clients": 10} | more  # fmt: skip


def outcome(*rows):
    facts = [
        {"bound": row["bound"], "shift": "none", "severity": "", "predictor": row["predictor"],
         "kind": kind, "name": name, "value": value, "text": ""}
        for row in rows if row["metric"] == "certificate"
        for kind, name, value in (("total", "value", row["value"]), ("input", "pool_size", 15.0))
    ]  # fmt: skip
    return Outcome(list(rows), {"certificates": Artifact("certificates", table=facts, axes=("f",))})


def test_the_overlap_is_counted_sample_by_sample():
    split = make_split(DIGITS, seed=0, **LAW)
    plan = Plan(first=15, clients=10, block=1, pool=15, independent=True)
    held = {int(row) for client in split.certification for row in client.rows("all")}
    asked = [int(row) for client in split.novel for row in client.query]
    share = shared_samples(split, plan)
    assert share == pytest.approx(np.mean([row in held for row in asked]))
    assert 0 < share < 1
    assert shared_samples(replace(split, novel=()), plan) == 0.0


def test_routes_that_train_on_independent_clients_print_the_overlap():
    split = make_split(DIGITS, seed=0, **LAW)
    entry = Progressive(route="r4", first=15, clients=10)
    found = with_caveats(outcome(certificate()), [entry], split)
    (row,) = [row for row in found.rows if row["metric"] == "certificate_overlap"]
    plan = Plan(first=15, clients=10, block=1, pool=15, independent=True)
    assert (row["value"], row["n_clients"]) == (shared_samples(split, plan), 5)
    told = found.artifacts["certificates"].table
    assert any(fact["name"] == "novel_samples_shared" for fact in told)


def test_a_fixed_system_says_what_its_pool_leaves():
    split = make_split(DIGITS, seed=0, **(POOL | {"certify": 0}))
    entry = Compressed(route="r5", rule="occam", first=10, clients=10, weights=["x"])
    total = certificate(bound="r5:occam", predictor="deterministic", sampling="finite-pool")
    mean = {"metric": "error", "aggregation": "per-client", "group": "arriving", "value": 0.2,
            "predictor": "deterministic"}  # fmt: skip
    found = with_caveats(outcome(total, mean), [entry], split)
    told = {row["term"]: row["value"] for row in found.rows if row["metric"] == "certificate_pool"}
    assert told["others"] == pytest.approx((15 * 0.3 - 10 * 0.2) / 5)
    assert told["size"] == 15.0
    drawn = with_caveats(outcome({**total, "predictor": "gibbs"}, mean), [entry], split)
    assert not [row for row in drawn.rows if row["metric"] == "certificate_pool"]


def test_on_a_split_that_nobody_can_deal_again_no_certificate_is_a_proof():
    split = replace(make_split(DIGITS, seed=0, **POOL), dealt=False)
    entry = HeldOut(rule="product")
    already = certificate(bound="pefll_32", rigorous=False, message="a heuristic")
    found = with_caveats(outcome(certificate(bound="r0:product"), already), [entry], split)
    assert [row["rigorous"] for row in found.rows] == [False, False]
    assert [row["message"] for row in found.rows] == [UNDEALT, "a heuristic"]
    reasons = [f for f in found.artifacts["certificates"].table if f["kind"] == "reason"]
    assert [(f["bound"], f["text"]) for f in reasons] == [("r0:product", UNDEALT)]
    dealt = with_caveats(outcome(certificate()), [entry], replace(split, dealt=True))
    assert dealt.rows == [certificate()]


def test_where_class_sets_are_dealt_by_group_seen_clients_are_no_sample_of_the_pool():
    split = make_split(DIGITS, seed=0, **POOL, classes_dealt="by_group")
    arriving = Progressive(route="r4", first=7, clients=8)
    found = with_caveats(outcome(certificate()), [arriving], split)
    assert [(row["rigorous"], row["message"]) for row in found.rows] == [(False, APART)]
    # Certification clients are a uniform sample of those held out, as before.
    held_out = certificate(bound="r0:product")
    assert with_caveats(outcome(held_out), [HeldOut(rule="product")], split).rows == [held_out]
    usual = with_caveats(outcome(certificate()), [arriving], make_split(DIGITS, seed=0, **POOL))
    assert usual.rows[0]["rigorous"]
