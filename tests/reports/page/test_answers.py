"""The numbers of every answer, recomputed from ``rows.csv`` by plain pandas."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sketches import REFERENCE, answered, kept, kept_run

from latecomer.errors import InputError
from latecomer.reports.display.section import Material
from latecomer.reports.frames.chosen import declared_certificates
from latecomer.reports.page.questions import Answer, answers, asked, asking

MODEL = ["label", "predictor"]


def with_rows(name: str, asks: str) -> tuple[Answer, pd.DataFrame]:
    rows = pd.read_csv(REFERENCE / name / "rows.csv.xz", keep_default_na=False)
    return answered(asks, kept(name)), rows


def every_error(rows: pd.DataFrame, group: str) -> pd.DataFrame:
    """Errors of single clients under every shift, by every predictor."""
    own = rows[(rows["metric"] == "error") & (rows["client"] != "") & (rows["group"] == group)]
    return own.assign(value=own["value"].astype(float))


def errors_of(rows: pd.DataFrame, group: str) -> pd.DataFrame:
    """Errors of single clients under every shift, one predictor a label."""
    own = every_error(rows, group)
    plain = own.groupby("label")["predictor"].transform(lambda one: "deterministic" in set(one))
    return own[~plain | (own["predictor"] == "deterministic")]


def unshifted(rows: pd.DataFrame) -> pd.DataFrame:
    return rows[rows["shift"].isin(["", "none"])]


def least_seen(rows: pd.DataFrame, proved: pd.DataFrame) -> tuple[str, str, int]:
    """Find the certified system of the least error on seen clients: label, predictor, seed."""
    seen = unshifted(every_error(rows, "seen"))
    means = seen.groupby([*MODEL, "seed"])["value"].mean()
    systems = pd.MultiIndex.from_frame(proved[[*MODEL, "seed"]].drop_duplicates())
    label, predictor, seed = means.reindex(systems).idxmin()
    return label, predictor, seed


def test_a_gap_is_the_novel_minus_the_seen_error() -> None:
    answer, rows = with_rows("generalization-gap-digits", "gap")
    means = {
        group: unshifted(errors_of(rows, group)).groupby("label")["value"].mean()
        for group in ("seen", "novel")
    }
    gaps = (means["novel"] - means["seen"]).sort_values()
    assert answer.numbers["least_gap"] == pytest.approx(gaps.iloc[0], abs=1e-12)
    assert answer.numbers["most_gap"] == pytest.approx(gaps.iloc[-1], abs=1e-12)
    assert answer.numbers["least_lower"] < gaps.iloc[0] < answer.numbers["least_upper"]
    trained = rows[rows["metric"] == "training_error"].astype({"value": float})
    own = means["seen"] - trained.groupby("label")["value"].mean()
    assert answer.numbers["most_out_of_sample"] == pytest.approx(own.max(), abs=1e-12)
    ends = [f"{100 * gap:+.1f}".replace("-", "\N{MINUS SIGN}") for gap in gaps.iloc[[0, -1]]]
    assert f"from {ends[0]} to {ends[1]} points of error lost" in answer.sentence


def test_a_loss_is_the_error_at_the_severest_minus_that_before() -> None:
    answer, rows = with_rows("shift-robustness-digits", "shift")
    errors = errors_of(rows, "novel")
    before = unshifted(errors).groupby("label")["value"].mean()
    losses = []
    for shift, own in errors[~errors["shift"].isin(["", "none"])].groupby("shift"):
        # Extrapolation draws other clients: their mean is compared with the unshifted ones' mean.
        severest = own["severity"].astype(float).max()
        at = own[own["severity"].astype(float) == severest]
        losses.append((at.groupby("label")["value"].mean() - before).rename(shift))
    table = pd.concat(losses, axis=1)
    mean = table.mean(axis=1).sort_values()
    assert answer.numbers["least_loss"] == pytest.approx(mean.iloc[0], abs=1e-12)
    assert answer.numbers["most_loss"] == pytest.approx(mean.iloc[-1], abs=1e-12)
    assert answer.numbers["hardest_loss"] == pytest.approx(table.mean().max(), abs=1e-12)
    assert answer.numbers["n_shifts"] == table.shape[1]


@pytest.mark.parametrize("run", ["newcomers-cifar10", "shift-robustness-digits"])
def test_errors_under_the_shifts_are_told_beside_losses(run) -> None:
    answer, rows = with_rows(run, "shift")
    errors = errors_of(rows, "novel")
    # A control is where another data set's loss begins.
    shifted = errors[~errors["shift"].isin(["", "none", "photographs-control"])]
    # Another data set has no severity.
    shifted = shifted.assign(severity=pd.to_numeric(shifted["severity"]).fillna(0))
    severest = shifted.groupby("shift")["severity"].transform("max") == shifted["severity"]
    ends = shifted[severest].groupby(["label", "shift"])["value"].mean().groupby("label").mean()
    (said,) = [one for one in answer.more if "not a small error" in one]
    assert said.endswith(f"from {100 * ends.min():.1f}% to {100 * ends.max():.1f}%.")


@pytest.mark.slow
def test_the_guarantee_that_seen_clients_chose_and_its_distance() -> None:
    answer, rows = with_rows("bound-vs-accuracy-digits", "bounds")
    proved = rows[
        (rows["metric"] == "certificate")
        & (rows["term"] == "")
        & (rows["population"] == "unseen-client")
        & (rows["rigorous"].astype(str) == "True")
    ]
    proved = proved.assign(value=proved["value"].astype(float))
    label, predictor, seed = least_seen(rows, proved[proved["bound"] == "r0:product"])
    values = proved[proved["bound"] == "r0:product"].set_index([*MODEL, "seed"])["value"]
    assert answer.numbers["value"] == values[label, predictor, seed]
    novel = every_error(rows, "novel").groupby([*MODEL, "seed"])["value"].mean()
    assert answer.numbers["measured"] == pytest.approx(novel[label, predictor, seed])
    parts = ("given_up", "other_clients", "unavoidable", "excess")
    total = sum(answer.numbers[part] for part in parts)
    assert total == pytest.approx(answer.numbers["distance"], abs=1e-9)


def test_errors_on_new_clients_from_the_lowest_to_the_highest() -> None:
    answer, rows = with_rows("digits-all-methods", "accuracy")
    means = unshifted(errors_of(rows, "novel")).groupby("label")["value"].mean().sort_values()
    assert answer.numbers["lowest"] == pytest.approx(means.iloc[0], abs=1e-12)
    assert answer.numbers["highest"] == pytest.approx(means.iloc[-1], abs=1e-12)
    assert f"{100 * means.iloc[0]:.1f}%" in answer.sentence
    right = [f"{100 * (1 - mean):.1f}%" for mean in (means.iloc[0], means.iloc[-1])]
    assert answer.aside.endswith(f": {right[0]} to {right[1]}.")


def test_of_several_certificates_the_one_declared_first_counts() -> None:
    bounds = kept("bound-vs-accuracy-digits").bounds
    own = bounds[(bounds["label"] == "pefll-stochastic") & (bounds["predictor"] == "gibbs")]
    entries = [{"route": "r0", "rule": "product"}, {"route": "r2", "rule": "two_step_kl"}]
    for declared in (entries, entries[::-1]):
        first = declared_certificates(own, {"certificates": declared})
        assert set(first["bound"]) == {"{route}:{rule}".format(**declared[0])}
        assert sorted(first["seed"]) == [0, 1, 2]


def test_the_declared_certificate_and_what_it_leaves() -> None:
    answer, rows = with_rows("certificates-cifar10", "certificate")
    proved = rows[
        (rows["metric"] == "certificate") & (rows["term"] == "") & (rows["bound"] == "r0:product")
    ]
    means = every_error(rows, "certification").groupby("seed")["value"].mean()
    left = [
        (40 * float(row.value) - 30 * means[row.seed]) / 10
        for row in proved.itertuples(index=False)
        if row.seed == least_seen(rows, proved)[2]
    ]
    assert [answer.numbers["value"]] == pytest.approx(left, abs=1e-9)
    assert answer.numbers["n_clients"] == 30


@pytest.mark.slow
def test_breaking_radii_are_of_the_chosen_system_and_on_the_safe_side() -> None:
    answer, rows = with_rows("population-shift-digits", "certificate")
    proved = rows[(rows["metric"] == "certificate") & (rows["bound"] == "r0:product")]
    proved = proved[(proved["term"] == "") & proved["shift"].isin(["", "none"])]
    label, _, seed = least_seen(rows, proved)
    own = rows[(rows["metric"] == "breaking_radius") & (rows["label"] == label)]
    own = own[own["seed"] == seed]
    by_ball = own.astype({"value": float}).groupby("bound")["value"]
    (told,) = [one for one in answer.more if "How different" in one]
    assert "with at most 30.0% still certified" in told
    for words, ball in (("KL(Q || P) at most", "kl_ball"), ("TV(Q, P) at most", "tv_ball")):
        radius = float(told.split(f"{words} ")[1].split()[0].rstrip(",."))
        least = by_ball.min()[f"r0:{ball}"]
        assert least - 0.001 < radius <= least
    share = float(told.split("groups of a share of at least ")[1].split()[0].rstrip(",."))
    assert by_ball.max()["r0:subgroup"] <= share < by_ball.max()["r0:subgroup"] + 0.001


@pytest.mark.slow
def test_targets_are_told_apart() -> None:
    """Two certificates may have targets of their own: neither radius is said of the other's."""
    run = kept_run("population-shift-digits")
    other = (run.rows["metric"] == "breaking_radius") & (run.rows["bound"] == "r0:tv_ball")
    rows = run.rows.assign(term=run.rows["term"].where(~other, "target=0.4"))
    answer = answered("certificate", Material.of(replace(run, rows=rows)))
    (told,) = [one for one in answer.more if "How different" in one]
    first, second = told.split("How different")[1:]
    assert "30.0%" in first
    assert "TV(Q, P)" not in first
    assert "40.0%" in second
    assert "TV(Q, P)" in second


def test_published_numbers_beside_ours() -> None:
    answer, rows = with_rows("pefll-table1-5000-rounds", "paper")
    assert answer.numbers["n_published"] == 4
    own = rows[(rows["label"] == "fedavg") & (rows["group"] == "novel")]
    own = own[(own["metric"] == "accuracy") & (own["aggregation"] == "pooled")]
    published = pd.read_csv(REFERENCE.parent / "paper_results.csv")
    line = published[
        (published["item"] == "Table 1b") & (published["dataset"] == "cifar10")
        & (published["n_clients"] == 90) & (published["method"] == "FedAvg")
    ]  # fmt: skip
    theirs = float(line["mean"].iloc[0]) / 100
    ours = float(unshifted(own)["value"].iloc[0])
    assert answer.numbers["furthest"] == pytest.approx(ours - theirs, abs=1e-9)


def test_a_model_alone_is_compared_with_none() -> None:
    answer, _ = with_rows("pefll-table1-knn-per", "gap")
    assert answer.sentence.startswith("kNN-Per: \N{MINUS SIGN}1.8 points of error lost on ")


def test_one_published_number_ranks_no_settings_of_a_method() -> None:
    answer, _ = with_rows("odpfl-search-odpfl-hn-rates", "paper")
    assert answer.numbers["n_published"] == 5
    assert not [line for line in answer.more if "ighest" in line]
    answer, _ = with_rows("pefll-table1-5000-rounds", "paper")
    (first,) = [line for line in answer.more if "ighest" in line]
    assert first == "Highest accuracy here: FedRep; in the paper: PeFLL; neither is tested here."


@pytest.mark.parametrize(
    ("run", "scale", "told"),
    [
        ("pefll-table1-5000-rounds", "paper", "1 of 4 published numbers on new clients is"),
        ("pefll-table1-per-fedavg", "paper", "The published number on new clients is not"),
        ("pfedhn-table1-5000-steps", "paper", "2 of 2 published numbers on clients are"),
        ("pfedhn-table1-pfedhn-pc", "paper", "The published number on clients is reproduced"),
        ("pefll-table1-per-fedavg", "reduced", "Beside 1 published number on new clients, ours"),
    ],
)
def test_the_sentence_about_published_numbers(run: str, scale: str, told: str) -> None:
    own = kept_run(run)
    answer = answered("paper", Material.of(replace(own, study={**own.study, "scale": scale})))
    assert answer.sentence.startswith(told)
    assert ("not at the paper's settings" in answer.sentence) == (scale != "paper")


@pytest.mark.parametrize(
    ("study", "kinds"),
    [
        ({"asks": ["bounds", "gap"]}, ("bounds", "gap")),
        ({"paper": ["pefll-iclr:Table 1a"], "shifts": {}}, ("paper",)),
        ({"bounds": ["pefll_32"], "certificates": [{"route": "r0"}]}, ("bounds",)),
        ({"certificates": [{"route": "r4"}]}, ("certificate",)),
        ({"shifts": {"blur": [1.0], "noise": []}}, ("shift",)),
        ({"shifts": {"blur": [1.0]}, "methods": ["pefll", "local"]}, ("shift", "accuracy")),
        ({"methods": ["pefll", "fedavg"]}, ("accuracy",)),
    ],
)
def test_what_a_study_asks_is_said_or_guessed(
    study: dict[str, Any], kinds: tuple[str, ...]
) -> None:
    assert asked(study) == kinds


@pytest.mark.slow
def test_a_question_is_answered_once() -> None:
    with pytest.raises(InputError, match="asks must not repeat an entry, got 'gap' again"):
        asking({}, ["gap", "shift", "gap"])


def test_answers_are_short() -> None:
    for name in ("digits-all-methods", "certificates-cifar10", "pefll-table1-5000-rounds"):
        for answer in answers(kept(name)):
            assert answer.sentence.endswith((".", ")."))
            assert len(answer.more) <= 3
            assert all(np.isfinite(list(map(float, answer.numbers.values()))))
