"""Route sets: thresholds of certified clients' scores, and what new clients' sets hold by them."""

import html
import math
import re
from dataclasses import replace

import numpy as np
import pytest
import yaml
from routed import outcome_of

from latecomer.bounds import client_threshold, confident_threshold
from latecomer.errors import InputError
from latecomer.eval.results.rows import load_run
from latecomer.eval.routes.set_thresholds import thresholds_of
from latecomer.eval.studies.checking import parse_study
from latecomer.eval.training.setup import setup_of
from latecomer.models.engine.schedule import TrainConfig
from latecomer.models.engine.training import initial_state
from latecomer.reports import report
from latecomer.reports.display.section import Material
from latecomer.reports.guarantees.sets import answer_sets, sets_frame
from latecomer.reports.page.questions import asked

STUDY = yaml.safe_load("""
study: sets
data: {name: digits}
split: {kind: by_class, clients: 60, certify: 14, novel: 12, classes_per_client: 2, validation: 0.0}
train: {rounds: 4, cohort: 5, local_steps: 5, batch_size: 16}
methods: [{name: fedavg, local_lr: .02}, {name: fedavg_ft, local_lr: .02, finetune_steps: 5}]
shifts: {noise: [1.0], blur: [1.0]}
certificates: [{route: sets, alpha: .1, delta: .05, shifts: [noise]}]
""")
SPLIT = STUDY["split"]


def study(**changed):
    return parse_study({**STUDY, **changed})


def cells(**changed):
    return [cell for cell in study(**changed).cells("") if cell.kind == "method"]


@pytest.fixture(scope="module")
def rows():
    frame, _ = outcome_of(cells()[1].config)
    return frame[frame["bound"].str.startswith("sets")]


def test_thresholds_are_those_of_the_calculators():
    rng = np.random.default_rng(5)
    scores = [rng.uniform(size=int(n)) ** 2 for n in rng.integers(2, 20, 60)]
    made = thresholds_of(scores, score="adaptive", alpha=0.15, delta=0.1).issued
    assert float(made[""]) == float(client_threshold(scores=scores, alpha=0.15))
    confident = confident_threshold(scores=scores, alpha=0.15, delta=0.1)
    assert float(made["@confident"]) == float(confident) > float(made[""])
    # Split conformal as published: the ceil((n+1)(1-alpha))-th smallest of all points.
    every = np.sort(np.concatenate(scores))
    assert float(made["@pooled"]) == every[math.ceil((len(every) + 1) * 0.85) - 1]
    assert (made[""].rigorous, made["@pooled"].rigorous) == (True, False)
    few = thresholds_of(scores[:3], score="adaptive", alpha=0.15, delta=0.1).issued
    assert float(few["@confident"]) == 1.0, "nothing is proved: all labels"
    assert few["@confident"].vacuous
    assert not made["@confident"].vacuous


@pytest.mark.slow
def test_a_threshold_is_a_row_by_score_form_and_certified_condition(rows):
    told = rows[rows["metric"] == "set_threshold"]
    names = [f"sets:{score}{form}" for score in ("probability", "adaptive")
             for form in ("", "@confident", "@pooled")]  # fmt: skip
    assert sorted(set(told["bound"])) == sorted(names)
    assert set(told["shift"]) == {"none", "noise"}, "blur was asked of nobody who is certified"
    assert len(told) == 2 * len(names)
    assert told["value"].between(0, 1).all()
    proven = told.set_index("bound")["rigorous"].groupby(level=0).all()
    assert {name for name in names if not proven[name]} == {name for name in names if "@p" in name}
    level = told.groupby("bound")["delta"].max()
    assert (level["sets:adaptive"], level["sets:adaptive@confident"]) == (0.1, 0.05)
    assert set(told["population"]) == {"next-client", "unseen-client"}
    assert set(told["sampling"]) == {"finite-pool"}


@pytest.mark.slow
def test_every_new_client_has_its_rows_under_every_shift(rows):
    own = rows[(rows["client"] != "") & (rows["bound"] == "sets:probability")]
    assert set(own["metric"]) == {"coverage", "set_size"}
    assert set(own["group"]) == {"novel"}
    counted = own.groupby(["shift", "metric"])["client"].nunique()
    assert counted.to_dict() == {
        (shift, metric): 12
        for shift in ("none", "noise", "blur")
        for metric in ("coverage", "set_size")
    }
    means = own.groupby(["shift", "metric"])["value"].agg(lambda x: float(np.mean(x)))
    totals = rows[(rows["aggregation"] == "per-client") & (rows["bound"] == "sets:probability")]
    for row in totals[totals["metric"] != "set_single"].to_dict("records"):
        assert row["value"] == pytest.approx(means[row["shift"], row["metric"]])
    sizes = own[own["metric"] == "set_size"]["value"]
    assert sizes.between(1, 10).all(), "no set is empty"


@pytest.mark.parametrize("prior", [None, "em", "bbse"])
@pytest.mark.parametrize("classes", ["all", "known", "zero"])
def test_sets_come_from_the_models_as_served(classes, prior):
    setup = replace(setup_of(cells()[1].settings), classes=classes, prior=prior)
    federation = replace(setup.federation, validation=setup.federation.seen)
    setup = replace(setup, federation=federation)
    clients = setup.federation.seen.clients
    state = initial_state(setup.method, setup.task, clients, TrainConfig(0, 1, 1, 1), seed=0)
    group = setup.federation.novel
    served = setup.points(state, group, predictor="deterministic")
    for score, points in zip(setup.score(state, group), served, strict=True):
        assert (score.client, score.n_query) == (points.client, points.n_query)
        assert points.chances.sum(axis=1) == pytest.approx(1)
        assert (points.chances.argmax(axis=1) != points.truth).sum() == score.n_wrong
        if classes == "known":
            assert (points.chances > 0).sum(axis=1).max() <= 2


@pytest.mark.parametrize(
    ("entry", "split", "said"),
    [
        (
            {"alpha": 0.05},
            {},
            "certificates.0.alpha: sets at alpha=0.05 need at least 19 clients, got 14; with 14 "
            "clients alpha is at least 1/15",
        ),
        ({}, {"certify": 8}, "need at least 9 clients, got 8; with 8 clients alpha is at least"),
        ({"alpha": 1.0}, {}, "certificates.0.alpha: must be less than 1"),
        ({"delta": 0.0}, {}, "certificates.0.delta: must be greater than 0"),
        ({"scores": ["margin"]}, {}, "must be 'probability' or 'adaptive'"),
        ({"scores": []}, {}, "scores"),
        ({"shifts": ["rotation"]}, {}, "certificates.0.shifts must name shifts of the study"),
        ({"rule": "blend"}, {}, "rule"),
    ],
)
def test_bad_settings_are_one_line_before_anything_trains(entry, split, said):
    with pytest.raises(InputError) as caught:
        study(certificates=[{"route": "sets", **entry}], split={**SPLIT, **split})
    assert said in str(caught.value).splitlines()[-1]


def test_shares_of_clients_are_counted_once_the_split_is_known():
    short = study(split={**SPLIT, "certify": 0.1})
    entry, held = short.certificates[0], setup_of(cells()[0].settings).federation.split
    entry.check_split("certificates.0", held)
    with pytest.raises(InputError, match="need at least 19 clients, got 14"):
        entry.model_copy(update={"alpha": 0.05}).check_split("certificates.0", held)


@pytest.mark.slow
def test_levels_shared_by_seeds_are_those_of_confidence(rows):
    certificates = [{"route": "sets", "delta": 0.1, "per_seed": "union", "scores": ["adaptive"]}]
    shared = cells(certificates=certificates, seeds=[0, 1], shifts={})[1]
    found, _ = outcome_of(shared.config)
    told = found[found["metric"] == "set_threshold"].set_index("bound")["delta"]
    assert told["sets:adaptive"] == 0.1
    assert told["sets:adaptive@confident"] == 0.05


def test_what_a_study_asks_follows_from_its_certificates():
    alone = {"certificates": [{"route": "sets"}], "methods": ["fedavg"]}
    assert asked(alone) == ("sets",)
    both = {"certificates": [{"route": "r0"}, {"route": "sets"}], "methods": ["a", "b"]}
    assert asked(both) == ("certificate", "sets", "accuracy")


@pytest.fixture(scope="module")
def page(tmp_path_factory, here):
    from latecomer.eval import run

    folder = tmp_path_factory.mktemp("sets") / "run"
    run(study(asks=["sets"], seeds=[0, 1]), out=folder, executor=here)
    return folder


@pytest.mark.nightly
def test_the_first_screen_has_one_sentence_and_the_chapter_a_dot_a_client(page):
    text = html.unescape(report(page).read_text("utf-8"))
    material = Material.of(load_run(page))
    answer = answer_sets(material)
    assert answer.sentence in text
    assert re.fullmatch(
        r"Sets that are to hold the true label of 90% of new clients' points did so for [\d.]+% to"
        r" [\d.]+%, by method, with [\d.]+ labels on average for .*, the fewest, to [\d.]+ for .*",
        answer.sentence,
    )
    assert "A threshold from pooled points, which guarantees a new client nothing" in text
    assert "Which labels can be ruled out for a new client?" in text
    assert '<figure id="figure-sets">' in text
    assert "nothing" in text, "what is promised under blur"
    frame = sets_frame(material.rows)
    assert frame["score"].iloc[0] == "sets:probability"
    promised = frame[frame["form"] == ""].groupby("shift")["promised"].all()
    assert promised.to_dict() == {"none": True, "noise": True, "blur": False}
    plain = frame[(frame["shift"] == "none") & (frame["bound"] == "sets:probability")]
    assert answer.numbers["size_least"] == pytest.approx(plain["set_size"].min())
    assert answer.numbers["promised"] == 0.9
