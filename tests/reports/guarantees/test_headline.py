"""Which certificate leads: what chose it, what looking first costs, and that nothing else leads."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from sketches import answered, kept

from latecomer import bounds
from latecomer.eval.results.rows import load_run
from latecomer.reports.display.naming import model_names
from latecomer.reports.display.section import Material
from latecomer.reports.frames.chosen import after_looking, dropped_systems
from latecomer.reports.guarantees.certificate import after_words, looked_at, spread_words

SYSTEM = ["label", "predictor", "seed"]


@pytest.fixture(scope="module")
def digits() -> Material:
    """Twelve systems of three seeds, certified by the scores of the same forty clients."""
    return kept("population-shift-digits")


def with_rows(material: Material, rows: pd.DataFrame, **study: object) -> Material:
    run = replace(material.run, rows=rows, study={**material.study, **study})
    return Material.of(run)


@pytest.mark.slow
def test_the_sentence_has_confidence_model_seed_and_what_chose_it(digits: Material) -> None:
    answer = answered("certificate", digits)
    choice = digits.choice
    assert choice is not None
    errors = digits.errors[(digits.errors["group"] == "seen") & (digits.errors["shift"] == "none")]
    least = errors.groupby(SYSTEM)["error"].mean().idxmin()
    assert tuple(choice.row[name] for name in SYSTEM) == least
    begin = (
        f"PeFLL of seed {least[2]}, chosen by the seen clients' error on data that they kept out"
    )
    assert answer.sentence.startswith(begin)
    assert "certified with 95% confidence to serve" in answer.sentence
    assert "worst of the seeds" not in answer.sentence


def test_scores_of_certified_clients_choose_nothing(digits: Material) -> None:
    """Whatever they are, and whatever was certified, the same system leads."""
    rows = digits.rows.copy()
    held = rows["group"].isin(["certification", "novel"])
    rows.loc[held, "value"] = np.random.default_rng(0).permutation(rows.loc[held, "value"])
    assert {**with_rows(digits, rows).choice.row}["seed"] == digits.choice.row["seed"]
    assert with_rows(digits, rows).choice.row["label"] == digits.choice.row["label"]


def test_validation_chooses_where_every_system_was_measured_on_it(digits: Material) -> None:
    systems = digits.errors[SYSTEM].drop_duplicates()
    errors = digits.rows.iloc[:1].drop(columns=SYSTEM).merge(systems, how="cross")
    errors = errors.assign(metric="validation_error", group="seen", client="", bound="", term="")
    errors["value"] = 0.5 - 0.1 * ((errors["label"] == "knn_per") & (errors["seed"] == 1))
    choice = with_rows(digits, pd.concat([digits.rows, errors])).choice
    assert (choice.by, choice.row["label"], choice.row["seed"]) == ("validation", "knn_per", 1)
    some = pd.concat([digits.rows, errors.iloc[1:]])
    assert with_rows(digits, some).choice.by == "seen"


def test_the_study_may_name_the_model(digits: Material) -> None:
    choice = with_rows(digits, digits.rows, certify_model="fedavg").choice
    assert (choice.named, choice.row["label"]) == (True, "fedavg")
    answer = answered("certificate", with_rows(digits, digits.rows, certify_model="fedavg"))
    assert ", named by the study and chosen by the seen clients' error" in answer.sentence


def test_splits_dealt_anew_leave_no_free_choice(digits: Material) -> None:
    rows = digits.rows.assign(split_seed=digits.rows["seed"])
    assert with_rows(digits, rows).choice is None
    answer = answered("certificate", with_rows(digits, rows))
    assert answer.sentence.startswith("No system was chosen before looking. Looked at afterwards")
    assert "all 9 hold at once with 95% confidence" in answer.sentence


def test_after_looking_each_certificate_has_its_share_of_delta(digits: Material) -> None:
    declared = digits.declared
    after = after_looking(declared, digits.errors, digits.study)
    held = digits.errors[digits.errors["group"] == "certification"]
    held = held[held["shift"] == "none"]
    values = {
        system: float(bounds.product(losses=part["error"].tolist(), delta=0.05 / 9))
        for system, part in held.groupby(SYSTEM)
    }
    assert after is not None
    assert after.n_systems == 9
    assert after.row["shown"] == pytest.approx(min(values.values()), abs=1e-12)
    more = after_looking(declared, digits.errors, digits.study, dropped=3)
    assert more is not None
    assert (more.n_systems, more.n_dropped) == (12, 3)
    assert more.row["shown"] > after.row["shown"]
    told = after_words(more, declared, model_names(declared))
    assert "certified on these clients, 3 dropped ones included, is at most" in told


@pytest.mark.parametrize("asks", ["certificate", "bounds"])
def test_what_chose_a_vacuous_certificate_stands_between_commas(digits: Material, asks) -> None:
    rows = digits.rows.copy()
    rows.loc[(rows["metric"] == "certificate") & (rows["term"] == ""), "value"] = 1.2
    said = answered(asks, with_rows(digits, rows)).sentence
    assert said.startswith("Nothing is guaranteed ")
    assert ", chosen by the seen clients' error on data that they kept out of training, is" in said


def test_systems_on_the_record_and_not_in_the_rows_are_counted(digits: Material) -> None:
    cells = sorted(set(digits.rows["cell"]))[:2]
    record = [
        {"split": "a", "cell": cells[0], "label": "x"},
        {"split": "a", "cell": "gone", "label": "x", "systems": 1},
        {"split": "a", "cell": "older", "label": "x"},
        {"split": "a", "cell": "own", "label": "x r4:product", "systems": 1},
        {"split": "b", "cell": "elsewhere", "label": "x", "systems": 1},
    ]
    assert dropped_systems(digits.rows, record) == 3
    assert dropped_systems(digits.rows, []) == 0


@pytest.mark.parametrize("run", ["certificates-cifar10-50", "bound-vs-accuracy-digits"])
def test_certificates_of_kept_runs_come_out_again_from_their_scores(run: str) -> None:
    """Otherwise nothing is said of the smallest at its share of delta."""
    material = kept(run)
    declared = material.declared
    assert after_looking(declared, material.errors, material.study) is not None
    wrong = declared.assign(value=declared["value"] - 1e-6)
    assert after_looking(wrong, material.errors, material.study) is None


@pytest.mark.slow
def test_a_natural_splits_own_order_gives_its_certificates_again() -> None:
    """Numbers of natural clients are in no random order; a rule that averages over orders is."""
    material = kept("people")
    declared = material.declared
    after = looked_at(material)
    assert after is not None
    assert after.n_systems == len(declared)
    assert after_looking(declared, material.errors, material.study) is None


def test_models_that_train_on_certified_clients_are_not_chosen() -> None:
    material = kept("certificates-no-holdout-cifar10")
    answer = answered("certificate", material)
    assert answer.sentence.startswith("No system was chosen before looking: the 6 certificates")
    assert "certify_model" in answer.sentence


def equal_methods(run_writer, folder: Path) -> Material:
    """Write a run in which one method stands twice, under two labels."""
    made = run_writer(folder, labels=("local", "fedavg"))
    rows = pd.read_csv(made / "rows.csv", keep_default_na=False)
    twin = rows[rows["label"] == "local"].assign(label="fedavg", method="fedavg", cell="twin")
    rows = pd.concat([rows[rows["label"] != "fedavg"], twin])
    rows.to_csv(made / "rows.csv", index=False)
    study = yaml.safe_load((made / "study.yaml").read_text())
    study["methods"] = ["local", "fedavg"]
    (made / "study.yaml").write_text(yaml.safe_dump(study))
    return Material.of(load_run(made))


@pytest.mark.slow
def test_of_two_equal_methods_none_is_crowned(run_writer, tmp_path: Path) -> None:
    material = equal_methods(run_writer, tmp_path / "run")
    for kind in ("accuracy", "gap", "shift"):
        answer = answered(kind, material)
        assert answer.sentence.startswith("No method stands out: ")
        told = " ".join([answer.sentence, *answer.more, *answer.table.shown.columns])
        for crown in ("best", "least", "First to break", "loses most"):
            assert crown not in told
    for kind in ("accuracy", "gap"):
        answer = answered(kind, material)
        # Both ends are one number: no "from ... to ...".
        assert " from " not in answer.sentence.partition(": ")[2].partition(" on clients")[0]


@pytest.mark.theory
@pytest.mark.parametrize(("systems", "alone"), [(3, 0.143), (6, 0.265), (9, 0.370)])
def test_certificates_that_share_delta_hold_together(systems: int, alone: float) -> None:
    """The smallest at delta lies below its truth as often as 1 - .95^M; at delta / M it does not.

    What seen clients choose holds at the full delta, and both statements together at 1 - 2 delta.
    Losses are 0 or 1, independent over clients and systems: in one world no loss at all has
    probability delta, in the other delta / M, and then the certificates at these levels fail.
    """
    rng, k, delta, trials = np.random.default_rng(40), 30, 0.05, 2000
    allowed = 3 * np.sqrt(0.05 * 0.95 / trials)
    found = {}
    for world, level in {"delta": delta, "shared": delta / systems}.items():
        mean = 1 - level ** (1 / k) + 1e-9
        losses = (rng.random((trials, systems, k)) < mean).astype(float)
        fails, shared = (
            np.asarray(bounds.product(losses=losses, delta=one).value) < mean
            for one in (delta, delta / systems)
        )
        # Seen clients choose: independently of every score.
        first = fails[np.arange(trials), rng.integers(systems, size=trials)]
        found[world] = fails.any(axis=1).mean(), shared.any(axis=1).mean()
        assert first.mean() <= delta + allowed
        assert shared.any(axis=1).mean() <= delta + allowed
        assert (first | shared.any(axis=1)).mean() <= 2 * delta + allowed
        for trial in range(20):
            after = after_looking(*rows_of(losses[trial], delta), {})
            assert after is not None
            assert (after.row["value"] < mean) == shared[trial].any()
    assert found["delta"][0] == pytest.approx(alone, abs=0.035)
    assert found["shared"][1] > delta / 2


def rows_of(losses: np.ndarray, delta: float) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Lay out scores [system, client] as certificates and errors."""
    about = {"predictor": "", "seed": 0, "group": "certification", "shift": "none"}
    values = [float(bounds.product(losses=own, delta=delta)) for own in losses]
    issued = [
        {**about, "label": str(one), "bound": "r0:product", "sampling": "iid", "delta": delta}
        | {"value": value, "shown": value, "mostly": False}
        for one, value in enumerate(values)
    ]
    errors = [
        {**about, "label": str(one), "client": str(client), "error": loss}
        for one, own in enumerate(losses)
        for client, loss in enumerate(own)
    ]
    return pd.DataFrame(issued), pd.DataFrame(errors)


@pytest.mark.parametrize(
    ("errors", "said"),
    [
        ([0.0] * 38 + [0.2, 0.4], "had 0.0% error, the worst 40.0%."),
        ([0.1] * 15 + [0.2] * 5, "had 10.0% error, the worst 20.0%."),
        ([0.0] * 15 + [0.2] * 4 + [0.4], "had 0.0% error, one in ten at least 20.0%, the worst"),
        ([0.0] * 5 + [1.0] * 15, "the median one had as much error as the worst, 100.0%."),
        ([0.1] * 20, "All of its clients had 10.0% error."),
    ],
)
def test_the_spread_of_clients_says_no_number_twice(errors, said):
    assert said in spread_words(np.array(errors))
