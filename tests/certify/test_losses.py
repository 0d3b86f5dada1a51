"""One table read once: every statement is a method, in the words and numbers of the terminal."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import latecomer
from latecomer.certify.losses import Losses
from latecomer.errors import InputError

FRAME = pd.DataFrame(
    {
        "client": [f"c{i}" for i in range(42)],
        "loss": [round(0.05 * (i % 7), 2) for i in range(42)],
        "site": ["xyy"[i % 3] for i in range(42)],
        "drawn": np.random.default_rng(2).permutation(42),
    }
)
OTHERS = {f"c{i}": 0.6 for i in range(42)}
SAMPLES: dict[str, dict[str, Any]] = {
    "independent": {"seed": 5},
    "pool": {"seed": 5, "pool_size": 60},
    "in order": {"order": "drawn", "rule": "product_wor", "pool_size": 50},
    "several rules": {"rule": "best_of", "best_of": ["product", "wsr_averaged"], "seed": 1},
    "one voids": {"rule": "product", "loss_max": 0.3, "seed": 5},
}


def every(scored: Losses) -> dict[str, Any]:
    said = {
        "mean": scored.mean(),
        "next": scored.next_client(0.2),
        "kl": scored.within("kl", [0.0, 0.1], target=0.28),
        "subgroup": scored.within("subgroup", [0.5], target=0.28),
        "above": scored.above(0.1, 0.2),
        "curve": scored.curve(),
        "against": scored.against(OTHERS if scored.sample.loss_max == 1 else FRAME),
    }
    return said if scored.pool_size else {**said, "by": scored.by("site", alpha=0.2)}


@pytest.mark.parametrize("name", SAMPLES)
def test_each_statement_is_what_all_of_them_at_once_say(name: str) -> None:
    asked = SAMPLES[name]
    scored = latecomer.losses(FRAME, **asked)
    found = every(scored)
    if scored.seed is None:
        assert name in ("in order", "one voids")
    whole = latecomer.certify_losses(
        FRAME,
        alpha=0.2,
        shifts={"kl": [0.0, 0.1], "subgroup": [0.5]},
        target=0.28,
        above=[0.1, 0.2],
        curve=True,
        by=None if "pool_size" in asked else "site",
        against=OTHERS if scored.sample.loss_max == 1 else FRAME,
        **asked,
    )
    assert whole.certificate is not None
    assert found["mean"].value == float(whole.certificate)
    assert found["next"].value == float(whole.next_client or 0.0)
    kl = found["kl"]
    assert kl.certificate.value.tolist() == whole.shifts["kl"].certificate.value.tolist()
    assert kl.breaking is not None
    assert str(kl.breaking) == str(whole.shifts["kl"].breaking)
    assert {t: float(c) for t, c in found["above"].certificates.items()} == {
        t: float(c) for t, c in whole.above.items()
    }
    assert whole.curve is not None
    assert list(found["curve"].steps) == whole.curve[1]
    assert found["against"].difference == whole.against.difference
    printed = whole.in_full.splitlines()
    for key, one in {"sample": scored, **found}.items():
        lines = str(one).splitlines()
        assert lines, key
        # What must hold, and at what price, the terminal says once for the mean and the next
        # client; a curve stands there under the heading of the shares above thresholds.
        once = ("Holds if", "Failure prob", "Clients with large losses:")
        assert [one for one in lines if one not in printed and not one.startswith(once)] == []
    if "by" in found:
        groups = found["by"].groups
        assert {k: float(v.certificate) for k, v in groups.items()} == {
            k: float(v.certificate) for k, v in whole.groups.items()
        }


def test_small_objects_say_what_must_hold_and_what_it_costs() -> None:
    scored = latecomer.losses(FRAME, seed=5)
    mean, following = str(scored.mean()), str(scored.next_client(0.2))
    assert "the clients were drawn independently" in mean
    assert "Failure probability: 0.05 on the clients and orders for the mean loss." in mean
    assert "Failure probability: 0.2 on the next client (alpha)" in following
    voided = str(latecomer.losses(FRAME, rule="product", loss_max=0.3).mean())
    assert "c13" in voided or "c6" in voided
    assert str(scored).startswith("42 clients, mean loss 0.150")


def test_the_table_is_read_once_and_groups_are_of_the_same_losses(tmp_path: Path) -> None:
    path = tmp_path / "losses.csv"
    FRAME.to_csv(path, index=False)
    scored = latecomer.losses(str(path), seed=5)
    alike = {name: float(one.certificate) for name, one in scored.by("site").groups.items()}
    FRAME.assign(loss=0.5).to_csv(path, index=False)
    assert scored.mean().value == latecomer.losses(FRAME, seed=5).mean().value
    assert list(alike) == ["x", "y"]
    with pytest.raises(InputError, match=r"^site: the source no longer holds the losses"):
        scored.by("site")
    path.unlink()
    assert float(scored.above(0.1).certificates[0.1]) < 1
    assert scored.curve().certificate.value < 1


def test_one_draw_of_orders_serves_all_that_is_asked() -> None:
    scored = latecomer.losses(FRAME)
    assert scored.mean().value == scored.mean().value
    assert scored.mean().seed == scored.seed


@pytest.mark.parametrize(
    ("asked", "call", "said"),
    [
        ({"rule": "conformal"}, lambda one: one.mean(), "rule conformal bounds no mean"),
        ({"pool_size": 42}, lambda one: one.next_client(), "pool_size=42: the whole pool was"),
        ({"pool_size": 60}, lambda one: one.by("site"), "--by needs independent clients"),
        ({}, lambda one: one.next_client(2), "alpha must lie strictly between 0 and 1"),
        ({}, lambda one: one.above(), "above must be different losses"),
        ({}, lambda one: one.above(1.5), "above must be different losses"),
        ({"delta": 0.7}, lambda one: one.curve(), "delta must be at most 1/2 for a curve"),
        ({}, lambda one: one.within("hellinger"), "shift must be one of"),
        ({}, lambda one: one.by("sites"), "no column 'sites'"),
        ({}, lambda one: one.against({"c0": 0.1}), "is in the first table of losses alone"),
    ],
)
def test_what_a_sample_cannot_say_is_refused_in_one_line(asked: Any, call: Any, said: str) -> None:
    with pytest.raises(InputError, match=said) as refused:
        call(latecomer.losses(FRAME, **asked))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"delta": 0}, "delta must lie strictly between 0 and 1"),
        ({"rule": "prodct"}, "did you mean 'product'"),
        ({"pool_size": 3}, "at least the 42 clients given, got 3"),
        ({"loss_max": 0.1}, "loss must lie in"),
        ({"seed": -1}, "seed"),
        ({"order": "place"}, "no column 'place'"),
    ],
)
def test_a_sample_is_checked_when_it_is_read(asked: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        latecomer.losses(FRAME, **asked)


def test_certifying_a_list_loads_few_modules() -> None:
    code = (
        "import sys, latecomer; latecomer.certify_losses([0.1] * 30 + [0.2] * 5, seed=1);"
        "print(sum(name.partition('.')[0] == 'latecomer' for name in sys.modules));"
        "heavy = {'pydantic', 'pandas', 'sklearn', 'torch', 'scipy.special', 'scipy.stats'};"
        "print(*heavy & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    number, heavy = done.stdout.splitlines()
    assert int(number) <= 40
    assert heavy == ""
