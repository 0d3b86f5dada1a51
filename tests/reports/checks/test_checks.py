"""Every check is raised by a run that deserves it, cleared by one that does not, and ignored."""

import io
import re
import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from sketches import kept

from latecomer.eval.results.rows import (
    CellRecord,
    RunRecord,
    make_row,
    read_rows,
    write_rows,
)
from latecomer.reports.checks import CHECKS, findings, findings_file
from latecomer.reports.checks.shipped import _worse, majority_error
from latecomer.reports.display.section import Files, Group, Items, Material
from latecomer.reports.page import questions
from latecomer.reports.page.questions import CHECKED


def errors_of(label, group, values, *, seed=0, method=None, shift="none", n_query=40):
    """Rows of one model's errors on clients 0, 1, ... of a group."""
    own = {"label": label, "method": method or label, "seed": seed, "predictor": "deterministic"}
    own |= {"personalization": "global", "cell": f"{label}{seed}", "status": "done"}
    severity = "" if shift == "none" else 3.0
    return [
        make_row(**own, group=group, client=str(place), metric="error", value=float(value),
                 shift=shift, severity=severity, n_query=n_query)
        for place, value in enumerate(values)
    ]  # fmt: skip


def certified(label, value, n, *, rule="product", delta=0.05):
    own = {"label": label, "method": label, "seed": 0, "predictor": "deterministic"}
    return make_row(
        **own, cell=f"{label}0", status="done", group="certification", shift="none",
        metric="certificate", bound=f"r0:{rule}", value=value, population="unseen-client",
        sampling="independent", rigorous=True, delta=delta, n_clients=n, personalization="global",
    )  # fmt: skip


def run_of(rows, *, study=None, env=None, tables=(), losses=None):
    """A run as it would be loaded: from rows, made-up tables of artifacts, losses by the cell."""
    with tempfile.TemporaryDirectory() as folder:
        write_rows(Path(folder) / "rows.csv", rows)
        frame = read_rows(Path(folder) / "rows.csv")
    declared = {"certificates": [{"route": "r0", "rule": "product"}], **(study or {})}
    cells = tuple(Told((losses or {}).get(cell, []), cell) for cell in frame["cell"].unique())
    return Material.of(RunRecord(Path(), declared, env or {}, frame, tuple(tables), cells))


class Told(CellRecord):
    """A cell whose name ends with its seed and whose training told these losses."""

    def __init__(self, told, cell):
        config = {"method": {"label": cell[:-1]}, "seed": int(cell[-1])}
        super().__init__(cell, Path(), "done", config, {}, "")
        object.__setattr__(self, "told", told)

    def losses(self):
        return list(enumerate(self.told))


class Kept:
    """Stands in for an artifact on the disk."""

    def __init__(self, kind, cell, table):
        self.kind, self.cell, self.table = kind, cell, table

    def load(self):
        return self


def curve(label, errors, seed=0):
    return Kept(
        "training_curve",
        f"{label}{seed}",
        [
            {"group": "seen", "round": 10 * place, "error": error, "n_clients": 9, "kept": 0}
            for place, error in enumerate(errors)
        ],
    )


def labels_held(*held):
    counted = [
        # Numbers, as a table that was read from a file has them.
        {
            "client": float(place),
            "group": "novel",
            "class_0": float(first),
            "class_1": 100.0 - first,
        }
        for place, first in enumerate(held)
    ]
    return Kept("label_counts", "", counted)


def spread(told):
    own = {"label": "pefll", "method": "pefll", "seed": 0, "cell": "pefll0", "status": "done"}
    return [
        make_row(**own, group="seen", shift="none", personalization="forward", n_clients=9,
                 metric="model_spread", value=0.001, message=told)
    ]  # fmt: skip


LOW, HIGH = np.linspace(0.1, 0.2, 12), np.linspace(0.5, 0.6, 12)
PLAIN = errors_of("fedavg", "novel", LOW)


def beside(label, values, **how):
    return [*PLAIN, *errors_of(label, "novel", values, **how)]


def held_out(novel, certification, value=0.3):
    return [
        *errors_of("fedavg", "novel", novel),
        *errors_of("fedavg", "certification", certification),
        certified("fedavg", value, len(certification)),
    ]


BLIND = "serves all clients the same model"
DOWN = list(np.linspace(0.6, 0.1, 16))
FLAT = [0.6, 0.3, *[0.2] * 14]
UP = [0.6, 0.3, *[0.2] * 13, 0.4]
WON = [*errors_of("a", "novel", LOW), *errors_of("b", "novel", HIGH)]
LOST = [*errors_of("a", "novel", HIGH, seed=1), *errors_of("b", "novel", LOW, seed=1)]
AGAIN = [*errors_of("a", "novel", LOW, seed=1), *errors_of("b", "novel", HIGH, seed=1)]
ENOUGH = np.tile(LOW, 2)

# What raises each check, and what is the same but for the reason.
CASES = {
    "LC001": (dict(rows=held_out(LOW, LOW)), dict(rows=held_out(LOW, ENOUGH))),
    "LC002": (
        dict(rows=held_out(LOW, [*ENOUGH, 1.0], 1.0)),
        dict(rows=held_out(LOW, [*ENOUGH, 0.9], 0.9)),
    ),
    "LC003": (dict(rows=beside("local", LOW - 0.05)), dict(rows=beside("local", HIGH))),
    "LC004": (
        dict(rows=PLAIN, tables=[labels_held(*[95] * 12)]),
        dict(rows=PLAIN, tables=[labels_held(*[50] * 12)]),
    ),
    "LC005": (dict(rows=beside("glmm", LOW - 0.05)), dict(rows=beside("glmm", HIGH))),
    "LC006": (dict(rows=[*PLAIN, *spread(BLIND)]), dict(rows=[*PLAIN, *spread("")])),
    "LC007": (
        dict(rows=PLAIN, tables=[curve("fedavg", DOWN)]),
        dict(rows=PLAIN, tables=[curve("fedavg", FLAT)]),
    ),
    "LC008": (
        dict(rows=PLAIN, tables=[curve("fedavg", UP)]),
        dict(rows=PLAIN, tables=[curve("fedavg", FLAT)]),
    ),
    "LC009": (dict(rows=[*WON, *LOST]), dict(rows=[*WON, *AGAIN])),
    "LC010": (dict(rows=held_out(HIGH, ENOUGH)), dict(rows=held_out(ENOUGH, ENOUGH))),
    "LC011": (dict(rows=PLAIN, env={"copies": {"points": 6, "clients": 2}}), dict(rows=PLAIN)),
    "LC012": (
        dict(rows=errors_of("fedavg", "novel", LOW, n_query=4)),
        dict(rows=errors_of("fedavg", "novel", LOW, n_query=5)),
    ),
    "LC013": (
        dict(rows=[*held_out(LOW, ENOUGH), *errors_of("fedavg", "novel", HIGH, shift="blur")]),
        dict(rows=[*held_out(LOW, ENOUGH), *errors_of("fedavg", "novel", LOW, shift="blur")]),
    ),
}


def found(**made):
    return sentences(findings(run_of(**made), CHECKS.values()))


def sentences(told):
    return {one.check.code: one.sentence for one in told}


@cache
def case(code, place=0):
    """Material of the case that raises a check, or of that which does not, and all findings."""
    material = run_of(**CASES[code][place])
    return material, findings(material, CHECKS.values())


def test_every_check_has_a_case():
    assert list(CHECKS) == list(CASES)


@pytest.mark.parametrize("code", CASES)
def test_it_is_raised_in_one_sentence_with_a_number_where_there_is_one_and_cleared(code):
    said = sentences(case(code)[1])[code]
    assert "\n" not in said
    assert said.endswith(".")
    assert "nan" not in said
    assert code not in sentences(case(code, 1)[1])


@pytest.mark.parametrize("code", CASES)
def test_it_can_be_ignored(code):
    ignored = run_of(**CASES[code][0], study={"evaluation": {"ignore": [code]}})
    assert findings(ignored, [CHECKS[code]]) == []


@pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS)
def test_it_says_why_how_and_when_not(check):
    assert re.fullmatch(r"LC\d{3}", check.code)
    for told in (check.why, check.clear, check.ignore):
        assert len(told) > 20
        assert told.endswith(".")


def test_validation_chooses_an_earlier_round_so_that_nothing_diverged():
    made = CASES["LC008"][0] | {"study": {"train": {"selection": "validation"}}}
    assert "LC008" not in found(**made)


SEEDS = [*PLAIN, *errors_of("fedavg", "novel", HIGH, seed=1)]
SINKS, STAYS = np.geomspace(0.6, 0.001, 40), np.linspace(0.6, 0.59, 40)
HELD = "Its mean over 2 seeds, 35.0% error on new clients, contains this seed, and is 15.0% without"


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (
            dict(tables=[curve("fedavg", FLAT), curve("fedavg", UP, seed=1)]),
            "FedAvg of seed 1 ended at 40.0% error on seen clients, after 20.0% in round 20.",
        ),
        (
            dict(losses={"fedavg0": SINKS, "fedavg1": [*SINKS, *1e8 * SINKS[::-1]]}),
            "FedAvg of seed 1 ended at a training loss of 34,000,000, after 0.34 (medians of the "
            "last and of the first tenth of its rounds).",
        ),
    ],
)
def test_a_single_seed_that_diverged_is_named_with_what_the_mean_over_seeds_is_without_it(
    made, said
):
    # The other seed's curve is lower at the end, so that the mean of both has not diverged.
    material = run_of(SEEDS, **made)
    (one,) = findings(material, [CHECKS["LC008"]])
    assert one.seeds == (1,)
    assert one.sentence == f"{said} {HELD} it."


@pytest.mark.parametrize("told", [SINKS, STAYS, [*SINKS, 9.0], 0.01 * SINKS[::-1], -SINKS])
def test_losses_that_sink_stay_jump_or_stay_small_have_not_diverged(told):
    assert "LC008" not in found(rows=PLAIN, losses={"fedavg0": told})


def test_hopeless_clients_void_only_rules_that_one_of_them_ends_and_name_the_predictor():
    errors = [*ENOUGH, 1.0]
    one = [*errors_of("pefll", "certification", errors), certified("pefll", 1.0, len(errors))]
    both = [*one, *({**row, "predictor": "gibbs"} for row in one)]
    said = [one.sentence for one in findings(run_of(both), [CHECKS["LC002"]])]
    assert sorted(one.partition(" is wrong")[0] for one in said) == [
        "PeFLL, fixed weights,",
        "PeFLL, random weights,",
    ]
    blend = [*one[:-1], certified("pefll", 1.0, len(errors), rule="blend")]
    assert not findings(run_of(blend), [CHECKS["LC002"]])


def test_clients_drawn_alike_are_seldom_called_unlike():
    """The chance of three new clients of error 1, where 7 of 10 clients have it, is .34."""
    errors = np.where(np.arange(43) % 10 < 7, 1.0, 0.5)
    for seed in range(8):
        drawn = np.random.default_rng(seed).permutation(errors)
        material = run_of(held_out(drawn[:3], drawn[3:]))
        assert not findings(material, [CHECKS["LC010"]])


def test_methods_as_good_as_the_yardstick_are_found_as_often_as_the_check_says():
    """One in forty, each by itself: some clients are hopeless, and the same under all seeds."""
    rng, worlds, found_in = np.random.default_rng(0), 400, 0
    for _ in range(worlds):
        hard = np.where(rng.random(12) < 0.1, 0.9, 0.1)
        own = rng.binomial(20, np.clip(hard + rng.normal(0, 0.05, (2, 12)), 0, 1)) / 20
        frame = pd.DataFrame({"label": "m", "client": range(12), "error": own[0]})
        found_in += len(list(_worse(frame, pd.Series(own[1]), "another")))
    assert found_in / worlds < 0.025 + 2.6 * (0.025 * 0.975 / worlds) ** 0.5
    told = [CHECKS[code].why for code in ("LC003", "LC004", "LC005")]
    assert all(
        "of forty methods that err as much as the yardstick about one" in why for why in told
    )


def test_of_a_hundred_and_twenty_methods_one_can_still_be_called_unlike():
    """Its level is below one in 10,000, which so many permutations cannot tell."""
    rng = np.random.default_rng(1)
    rows = [row for place in range(119) for row in errors_of(f"m{place}", "novel", [0.1])]
    held = rng.uniform(0.0, 0.2, 40)
    rows += errors_of("fedavg", "certification", held) + errors_of(
        "fedavg", "novel", held[:12] + 0.5
    )
    (only,) = findings(run_of(rows), [CHECKS["LC010"]])
    assert only.label == "fedavg"


@pytest.mark.slow
def test_numbers_are_those_of_the_rows():
    said = {code: sentences(case(code)[1])[code] for code in ("LC003", "LC001", "LC013")}
    assert said["LC003"].startswith("FedAvg errs 5.0 points more than")
    # 1 - 0.05^(1/12) is 0.2209.
    assert "no less than 22%" in said["LC001"]
    assert "errs 55.0%, above its certificate of 30.0%" in said["LC013"]


def test_the_most_frequent_class_is_that_of_the_support_and_scored_on_other_points():
    # Nothing is to be known of a fair coin; that the client has 6 of 12 is no knowledge either.
    assert majority_error([600, 600], 600) == pytest.approx(0.5, abs=0.03)
    assert majority_error([6, 6], 6) > 0.5
    assert majority_error([95, 5], 60) == pytest.approx(0.05, abs=0.003)
    assert np.isnan(majority_error([3, 4], 7))
    assert np.isnan(majority_error([3, 4], 0))


def test_errors_equal_up_to_rounding_are_won_by_both():
    early, late = [0.0, 0.0, 0.3], [0.0, 0.1, 0.2]
    assert np.mean(early) != np.mean(late)
    rows = [
        *errors_of("a", "novel", late), *errors_of("b", "novel", early),
        *errors_of("a", "novel", LOW[:3], seed=1), *errors_of("b", "novel", HIGH[:3], seed=1),
    ]  # fmt: skip
    assert "LC009" not in found(rows=rows)


def test_several_splits_give_no_majority():
    tables = [labels_held(*[95] * 12), labels_held(*[95] * 12)]
    assert "LC004" not in found(rows=PLAIN, tables=tables)


def test_the_kept_run_of_people_has_a_method_that_the_majority_beats():
    """Client numbers of tables read from files are those of the rows."""
    material = kept("people")
    (local,) = CHECKS["LC004"].find(material)
    assert local.label == "local"
    assert 0.02 < local.value < 0.08


@pytest.mark.parametrize("code", CASES)
def test_the_file_has_a_line_for_every_finding(code):
    for material, told in (case(code), case(code, 1)):
        table = pd.read_csv(io.StringIO(findings_file(told)), keep_default_na=False)
        assert list(table) == ["code", "method", "seed", "what", "value", "sentence"]
        assert list(zip(table["code"], table["sentence"], strict=True)) == [
            (one.check.code, one.sentence) for one in told
        ]
        assert set(table["method"]) <= {"", *material.labels}
        for row in table.itertuples():
            seeds = [int(seed) for seed in str(row.seed).split()]
            assert seeds
            assert set(seeds) <= set(material.rows["seed"])
            assert row.what == CHECKS[row.code].title
            assert row.value > 0


def test_the_file_says_whom_it_is_about_and_the_number_of_the_sentence():
    def line(code):
        (one,) = findings(run_of(**CASES[code][0]), [CHECKS[code]])
        return one.label, one.seeds, one.value

    assert line("LC003") == ("fedavg", (0,), pytest.approx(0.05))
    assert line("LC001") == ("", (0,), 12)
    assert line("LC002") == ("fedavg", (0,), 1)
    assert line("LC009") == ("", (0, 1), 2)
    assert line("LC011") == ("", (0,), 6)
    assert line("LC013") == ("fedavg", (0,), pytest.approx(0.55))


@pytest.mark.parametrize("case", [0, 1])
def test_the_file_goes_beside_the_page_also_where_nothing_was_found(case):
    material = run_of(**CASES["LC012"][case], study={"evaluation": {"ignore": ["LC009"]}})
    (files,) = [block for block in CHECKED.blocks(material) if isinstance(block, Files)]
    assert len(files.content["checks.csv"].splitlines()) == 2 - case


def test_the_page_shows_code_and_sentence_and_folds_what_to_do():
    material = run_of(**CASES["LC012"][0])
    (finding,) = findings(material, [CHECKS["LC012"]])
    page = " ".join(str(block) for block in CHECKED.blocks(material))
    assert finding.sentence in page
    assert "evaluation.ignore: [LC012]" in page


def test_a_check_that_finds_many_models_is_told_once_and_the_others_are_folded():
    material = run_of(**CASES["LC013"][0])
    (one,) = findings(material, [CHECKS["LC013"]])
    other = replace(one, label="local", sentence="Local training errs more.")
    with mock.patch.object(questions, "findings", return_value=[one, other]):
        items, group, _ = (b for b in CHECKED.blocks(material) if isinstance(b, (Items, Group)))
    assert len(items.lines) == 1
    assert "(1 more below)" in items.lines[0]
    assert other.sentence not in items.lines[0]
    assert other.sentence in str(group)
