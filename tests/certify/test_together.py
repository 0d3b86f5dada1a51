"""All statements of one output together, the one question, and a pool without a next client."""

import itertools
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from terminal import certified, invoke

import latecomer
from latecomer.certify.together import Together
from latecomer.certify.words import chance
from latecomer.eval import InputError

K = 20
FRAME = pd.DataFrame(
    {
        "client": [f"c{i}" for i in range(K)],
        "loss": [0.01 * (i * 7 % 20) for i in range(K)],
        "site": [("x", "y")[i % 2] for i in range(K)],
    }
)
OTHER = dict(zip(FRAME["client"], FRAME["loss"] / 2, strict=True))
ASKED: dict[str, tuple[dict[str, Any], int]] = {
    "shifts": ({"shifts": {"kl": [0.1, 0.2], "tv": [0.1]}}, 2),
    "target": ({"target": 0.5}, 4),
    "above": ({"above": [0.1, 0.15]}, 1),
    "curve": ({"curve": True}, 1),
    "by": ({"by": "site"}, 2),
    "against": ({"against": OTHER}, 2),
}


@pytest.fixture
def losses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    FRAME.to_csv("losses.csv", index=False)
    return "losses.csv"


def certify(**asked: Any) -> Any:
    return latecomer.certify_losses(FRAME, **asked)


@pytest.mark.parametrize("asked", ASKED)
def test_every_statement_counts_once_and_families_once(asked: str) -> None:
    options, more = ASKED[asked]
    found = certify(**options).together
    assert len(found.levels) == 2 + more
    of_next = 0.1 * (1 + (asked == "by"))
    rest = 0.05 * (1 + more - (asked == "by"))
    assert found.probability == pytest.approx(1 - of_next - rest, abs=1e-12)


def test_the_line_ends_every_output_and_says_the_same(losses: str, tmp_path: Path) -> None:
    found = certify(above=[0.1], delta=0.02, alpha=0.2)
    line = (
        "All 3 together: with probability at least 76% (1 less 0.02 each for mean loss, shares"
        " above thresholds; 0.2 for next client)."
    )
    assert found.closing == found.together.line == line
    assert " ".join(str(found).split()).endswith(line)
    assert found.in_full.splitlines()[-1] == line
    assert line in found._repr_html_()
    asked = (losses, "--above", "0.1", "--delta", "0.02", "--alpha", "0.2")
    assert certified(*asked, "--long").splitlines()[-1] == line
    told = json.loads(certified(*asked, "--json"))["together"]
    assert (told["statement"], told["probability"]) == (line, 0.76)
    assert told == found.to_dict()["together"]
    page = found.report(tmp_path / "page.html").read_text()
    assert page.index("All together") > page.index("Clients with large losses")
    assert line in page


def test_a_single_statement_has_no_line(losses: str) -> None:
    for options in ({"rule": "conformal"}, {"pool_size": K}):
        found = certify(**options)
        assert found.closing == ""
        assert "together" not in found.to_dict()
        assert "All " not in str(found)


def test_what_cannot_hold_together_is_zero_and_not_negative() -> None:
    found = certify(target=0.5, delta=0.3, alpha=0.5).together
    assert found.probability == 0.0
    assert "at least 0%" in found.line


@given(st.floats(1e-9, 0.999) | st.integers(1, 99).map(lambda parts: 0.05 / parts))
def test_the_printed_chance_is_never_above_one_less_delta(delta: float) -> None:
    shown = Decimal(chance(delta).removesuffix("%"))
    assert 100 - 100 * Decimal(delta) - Decimal("1e-4") < shown
    assert shown <= 100 - 100 * Decimal(delta) + Decimal("1e-9")


@given(st.lists(st.floats(1e-6, 0.999), min_size=2, max_size=9))
def test_the_printed_share_is_never_above_one_less_the_sum(levels: list[float]) -> None:
    together = Together({str(place): level for place, level in enumerate(levels)})
    shown = float(together.line.partition("at least ")[2].partition("%")[0]) / 100
    assert 0 <= shown <= max(0.0, 1 - sum(levels)) + 2e-11


@pytest.mark.parametrize("rule", ["product", "conformal"])
@pytest.mark.parametrize("pool", [None, K, 2 * K])
def test_joint_shares_delta_over_all_that_is_printed(rule: str, pool: int | None) -> None:
    """For every set of questions that may be asked together: n levels of delta / n."""
    if (rule, pool) == ("conformal", K):
        return
    names = [name for name in ASKED if rule == "product" or name in ("above", "curve", "by")]
    if pool is not None:
        names = [name for name in names if name not in ("by", "against")]
    for size in range(3):
        for chosen in itertools.combinations(names, size):
            options: dict[str, Any] = {}
            for name in chosen:
                options |= ASKED[name][0]
            found = certify(joint=True, delta=0.06, rule=rule, pool_size=pool, **options)
            levels = found.together.levels
            assert set(levels.values()) == {0.06 / len(levels)}
            if len(levels) > 1:
                assert "with probability at least 94%" in found.closing
            if found.certificate is not None:
                assert float(found.certificate.delta_total) == pytest.approx(0.06 / len(levels))


def test_joint_is_one_at_the_terminal_and_in_python(losses: str) -> None:
    found = certify(joint=True, curve=True, seed=5)
    asked = (losses, "--joint", "--curve", "--seed", "5")
    assert certified(*asked) == f"{found}\n"
    told = json.loads(certified(*asked, "--json"))
    assert told["certificate"]["value"] == float(found.certificate)
    alone = certify(delta=0.05 / 3, alpha=0.05 / 3, curve=True, seed=5)
    assert float(alone.certificate) == float(found.certificate)
    assert alone.curve[1] == found.curve[1]


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(st.integers(2, 30), st.integers(0, 2**32 - 1))
def test_joint_statements_fail_together_no_more_often_than_delta(k: int, seed: int) -> None:
    """Levels add up to delta whatever k is; that each level holds is tested with its calculator."""
    found = latecomer.certify_losses([0.1 + 0.001 * (seed % 7)] * k, joint=True, above=[0.3])
    assert sum(found.together.levels.values()) <= 0.05 * (1 + 1e-12)


def test_what_contradicts_itself_is_refused(losses: str) -> None:
    for options, line in (
        (
            {"joint": True, "alpha": 0.1},
            "alpha cannot go with joint, by which all statements share",
        ),
        (
            {"joint": True, "delta": 3e-287, "above": [0.1, 0.2]},
            "delta must be at least 6e-287 to be split into 6 parts, got delta=3e-287",
        ),
        ({"independent": True, "pool_size": 40}, "independent cannot go with pool_size=40"),
    ):
        with pytest.raises(InputError, match=line):
            certify(**options)
    code, out, err = invoke("certify", losses, "--joint", "--alpha", "0.1")
    assert (code, out, err.count("\n")) == (2, "", 1)


def test_the_one_question_is_asked_until_it_is_answered(losses: str, tmp_path: Path) -> None:
    asked = "Were these clients drawn from a finite set"
    found = certify()
    page = found.report(tmp_path / "page.html").read_text()
    for shown in (str(found), found.to_dict()["question"], page, certified(losses)):
        assert asked in shown
    for options in ({"independent": True}, {"pool_size": 40}):
        found = certify(**options)
        assert asked not in str(found)
        assert "question" not in found.to_dict()
        assert asked not in found.report(tmp_path / "page.html").read_text()
    assert asked not in certified(losses, "--independent")
    assert asked not in certified(losses, "--pool-size", "40")
    assert asked not in json.dumps(certify(independent=True).to_dict())


def test_a_pool_that_was_scored_as_a_whole_has_no_next_client(losses: str, tmp_path: Path) -> None:
    found = certify(pool_size=K)
    assert found.next_client is None
    assert found.to_dict()["next_client"] is None
    assert len(found.rows()) == 1
    assert "loss of the next client" not in str(found)
    assert "there is no next client" in str(found)
    assert "next client" not in found._repr_html_()
    assert "loss of the next client" not in found.report(tmp_path / "page.html").read_text()
    assert json.loads(certified(losses, "--pool-size", str(K), "--json"))["next_client"] is None
    assert certify(pool_size=K + 1).next_client is not None
    refused = invoke("certify", losses, "--pool-size", str(K), "--rule", "conformal")
    assert refused == (
        2,
        "",
        f"latecomer: rule conformal is about the next client: pool_size must be above the {K}"
        f" clients given, got {K}\n",
    )


def test_groups_are_the_clients_own_and_those_not_scored_are_measured_on_theirs(
    losses: str, tmp_path: Path
) -> None:
    own = "groups are the clients' own, settled before the losses"
    found = certify(by="site")
    page = found.report(tmp_path / "page.html").read_text()
    for shown in (str(found), certified(losses, "--by", "site"), page.replace("&#39;", "'")):
        assert own in shown
    assert own in found.to_dict()["groups"]["x"]["certificate"]["assumptions"]
    left = certify(pool_size=40)
    page = left.report(tmp_path / "page.html").read_text()
    for shown in (left.sentence, left.in_full, left.to_dict()["statements"][0], page):
        assert "as measured on theirs" in shown


def test_the_margin_of_a_pool_stands_beside_what_it_paid() -> None:
    """README's pool pays less than independent clients would have to: .047 beside .08."""
    pool, free = certify(pool_size=22), certify()
    assert pool.reference_price < free.reference_price
    assert f"least margin for equal scores {pool.reference_price:.3f}" in str(pool)
    equal = latecomer.certify_losses([0.1] * 30, pool_size=40, rule="product_wor_averaged")
    assert equal.reference_price == pytest.approx(0.9 * 2 / 40)
    assert equal.price_paid >= equal.reference_price
    scaled = latecomer.certify_losses(
        [0.4] * 30, pool_size=40, rule="product_wor_averaged", loss_max=4.0
    )
    assert scaled.reference_price == pytest.approx(4 * equal.reference_price)


def test_no_probability_reads_as_certainty(losses: str) -> None:
    for asked in (("--delta", "1e-9"), ("--delta", "1e-14", "--alpha", "1e-14"), ("--joint",)):
        tiny = ("--delta", "1e-14") if asked == ("--joint",) else ()
        for more in ((), ("--long",)):
            assert "100%" not in certified(
                losses, "--by", "site", "--seed", "1", *asked, *tiny, *more
            )
    points = [
        {
            "client": f"c{i % 30}",
            "label": i % 2,
            "p_0": 0.9 - 0.8 * (i % 2),
            "p_1": 0.1 + 0.8 * (i % 2),
        }
        for i in range(120)
    ]
    pd.DataFrame(points).to_csv("points.csv", index=False)
    asked = ("points.csv", "--score", "error", "--sets", "0.2", "--delta")
    assert "with 99.9% confidence" in " ".join(certified(*asked, "0.001").split())
    assert "with 97.5% confidence" in " ".join(certified(*asked, "0.025").split())


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"joint": True}, "at least 8e-287 to be split into 8 parts"),
        ({"rule": "best_of", "best_of": ["product", "blend"]}, "4e-287 to be split into 4 parts"),
    ],
)
def test_groups_name_the_delta_that_was_given(asked: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=f"^delta must be .*{said}, got delta=3e-287$"):
        certify(by="site", delta=3e-287, **asked)
