"""Clients that keep arriving: plans, numbers after every client, a file that grows."""

import contextlib
import csv
import lzma
from pathlib import Path

import numpy as np
import pytest

from latecomer.bounds import (
    betting_mixture_path,
    drift_evidence,
    drift_evidence_restarted,
    product_mixture,
    product_mixture_path,
    product_path,
)
from latecomer.bounds.held_out.betting import BET_WEIGHTS
from latecomer.certify.watching import (
    arrivals_of,
    first_alarm,
    moments_after,
    read_plan,
    voided_after,
    watch_plan,
)
from latecomer.eval import InputError

REFERENCE = Path(__file__).parents[2] / "reports" / "reference" / "certificates-cifar10-50"
LOSSES = np.random.default_rng(11).beta(2.8, 13.7, 40)
CLIENTS = [(f"client {i}", float(loss)) for i, loss in enumerate(LOSSES)]


def mixture_path(**asked):
    return product_mixture_path(weights=BET_WEIGHTS, **asked)


PATHS = {
    "product": product_path,
    "betting_mixture": betting_mixture_path,
    "product_mixture": mixture_path,
}


@pytest.mark.parametrize("rule", PATHS)
@pytest.mark.parametrize("steps", [[40], [1] * 40, [0, 17, 1, 22]])
def test_numbers_do_not_hang_on_how_many_came_at_once(rule, steps):
    plan = watch_plan(rule=rule, delta=0.1, threshold=0.2, bets=(1.0, 0.3))
    moments = ()
    for step in steps:
        moments += moments_after(plan, moments, CLIENTS[: len(moments) + step])
    path = PATHS[rule]
    drift = {"losses": LOSSES, "threshold": 0.2, "bets": (1.0, 0.3)}
    for name, expected in (
        ("certificate", path(losses=LOSSES, delta=0.1).value),
        ("evidence", drift_evidence(**drift)),
        ("restarted", drift_evidence_restarted(**drift)),
        ("mean", np.cumsum(LOSSES) / np.arange(1, 41)),
    ):
        assert [getattr(moment, name) for moment in moments] == pytest.approx(expected, rel=1e-12)
    assert [(moment.client, moment.loss) for moment in moments] == CLIENTS


def test_losses_above_one_scale_with_the_largest():
    wide = [(client, 10 * loss) for client, loss in CLIENTS]
    plan, scaled = watch_plan(threshold=0.2), watch_plan(threshold=2.0, loss_max=10.0)
    for one, other in zip(
        moments_after(plan, (), CLIENTS), moments_after(scaled, (), wide), strict=True
    ):
        assert other.certificate == pytest.approx(10 * one.certificate, rel=1e-12)
        assert other.evidence == pytest.approx(one.evidence, rel=1e-9)


def test_the_first_client_that_rings_is_found():
    plan = watch_plan(threshold=0.1, alpha=0.05, run_length=30)
    drifted = [*CLIENTS[:5], *((f"late {i}", 0.9) for i in range(5))]
    moments = moments_after(plan, (), drifted)
    whole, restarted = first_alarm(plan, moments)
    assert moments[whole - 1].evidence >= 20 > moments[whole - 2].evidence
    assert moments[restarted - 1].restarted >= 30 > moments[restarted - 2].restarted
    assert first_alarm(watch_plan(), moments_after(watch_plan(), (), drifted)) == (None, None)


def scores_of(seed):
    with lzma.open(REFERENCE / "rows.csv.xz", "rt", encoding="utf-8", newline="") as file:
        return [
            float(row["value"])
            for row in csv.DictReader(file)
            if (row["group"], row["metric"], row["seed"], row["shift"])
            == ("certification", "error", seed, "none")
            and row["client"]
        ]


def test_the_default_goes_on_falling_after_a_client_with_the_largest_loss():
    worst = [*CLIENTS[:5], ("dee", 1.0), *CLIENTS[5:]]
    for top in (1.0, 4.0):
        arrivals = [(client, top * loss) for client, loss in worst]
        found = [m.certificate for m in moments_after(watch_plan(loss_max=top), (), arrivals)]
        assert found[-1] < 0.8 * found[5] < top
        named = watch_plan(rule="product", loss_max=top)
        ended = [moment.certificate for moment in moments_after(named, (), arrivals)]
        assert set(ended[4:]) == {ended[4]}
        voids = voided_after(named, arrivals)
        assert voids[:5] == [None] * 5
        assert {(v.client, v.instead) for v in voids[5:]} == {("dee", "product_mixture")}
        assert [v.value for v in voids[5:]] == found[5:]
        assert voided_after(watch_plan(loss_max=top), arrivals) == [None] * len(arrivals)


@pytest.mark.parametrize("seed", ["0", "1", "2"])
def test_fifty_certified_clients_end_near_the_batch_certificate(seed):
    """Numbers alone: these clients are of a pool, where the path itself would be no proof."""
    losses = scores_of(seed)
    assert len(losses) == 50
    last = moments_after(watch_plan(), (), [(str(i), x) for i, x in enumerate(losses)])[-1]
    batch = float(product_mixture(losses=losses, delta=0.05, weights=BET_WEIGHTS))
    assert batch - 0.015 <= last.certificate <= batch + 1e-12


def test_a_plan_is_read_and_checked(tmp_path, refusal):
    path = tmp_path / "plan.yaml"
    path.write_text("rule: betting_mixture\ndelta: 0.1\nthreshold: 0.3\ntrained_on: us\n")
    assert read_plan(path) == watch_plan(
        rule="betting_mixture", delta=0.1, threshold=0.3, trained_on="us"
    )
    for text, said in (
        (
            "rule: produkt\n",
            "rule must be one of product_mixture, product, betting_mixture, got 'produkt'",
        ),
        ("delta: 2\n", "delta must lie strictly between 0 and 1, got delta=2"),
        ("delta: 1e-300\n", "delta must be at least 1e-287, got delta=1e-300"),
        ("alpha: 1e-300\n", "alpha must be at least 1e-287, got alpha=1e-300"),
        ("threshold: 1\n", "threshold must lie strictly between 0 and 1, got 1"),
        ("threshold: low\n", "threshold must lie in"),
        ("treshold: .1\n", "treshold is no setting of a plan; did you mean 'threshold'?"),
        ("run_length: 2.5\n", "run_length must be a whole number"),
        ("bets: []\n", "bets must list"),
        ("bets: [2]\n", "bets must lie in"),
        ("loss_max: 0\n", "loss_max must lie in"),
        ("trained_on: [1]\n", "trained_on must be text"),
        ("- rule\n", "a plan names its settings"),
        ("rule: [\n", "not YAML"),
    ):
        path.write_text(text)
        message = refusal(read_plan, path)
        assert message.startswith(f"{path}: ")
        assert said in message
    with pytest.raises(InputError, match="no such file"):
        read_plan(tmp_path / "absent.yaml")


class Writer:
    """Stands for the passing of time: each wait appends the next piece to the file."""

    def __init__(self, path, pieces):
        self.path, self.pieces = path, list(pieces)

    def __call__(self, seconds):
        if not self.pieces:
            raise KeyboardInterrupt
        with self.path.open("a") as file:
            file.write(self.pieces.pop(0))


def followed(path, pieces, **more):
    seen = []
    with contextlib.suppress(KeyboardInterrupt):
        for found in arrivals_of(path, loss_max=1.0, once=False, wait=Writer(path, pieces), **more):
            seen.append(found)
    return seen


def test_a_file_is_followed_and_half_a_line_is_left_for_later(tmp_path):
    path = tmp_path / "losses.csv"
    path.write_text("client,lo")
    pieces = ["ss\nann,0.1\nbo", "b,0.2", "5\ncid,0", "\n"]
    ann, bob, cid = ("ann", 0.1), ("bob", 0.25), ("cid", 0.0)
    assert followed(path, pieces) == [(), (ann,), (ann, bob), (ann, bob, cid)]
    (whole,) = arrivals_of(path, loss_max=1.0, once=True)
    assert whole == (ann, bob, cid)


def test_once_takes_a_last_line_without_its_end(tmp_path):
    path = tmp_path / "losses.csv"
    path.write_text("loss,client\n0.5,ann\n0.25,bob")
    assert list(arrivals_of(path, loss_max=1.0, once=True)) == [(("ann", 0.5), ("bob", 0.25))]


def test_a_file_that_changes_what_was_read_is_refused(tmp_path):
    path = tmp_path / "losses.csv"
    path.write_text("client,loss\nann,0.1\n")

    def rewrite(seconds):
        path.write_text("client,loss\nann,0.10001\nbob,0.1\n")

    with pytest.raises(InputError, match="have changed; it may only grow"):
        list(arrivals_of(path, loss_max=1.0, once=False, wait=rewrite))

    def remove(seconds):
        path.unlink()

    with pytest.raises(InputError, match="no such file any more"):
        list(arrivals_of(path, loss_max=1.0, once=False, wait=remove))
