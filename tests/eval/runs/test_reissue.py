"""Certificates issued anew from a finished run's rows: scores stay, the old run is untouched."""

import errno
import json
import os
import shutil
from hashlib import sha256
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from typer.testing import CliRunner

from latecomer.bounds.held_out.finite_pool import product_wor
from latecomer.certify.rule import RULES
from latecomer.commands.app import app
from latecomer.commands.render import reissued_lines
from latecomer.errors import InputError
from latecomer.eval.results import rows as rows_module
from latecomer.eval.results.kept_cells import rows_content, rows_file
from latecomer.eval.results.rows import (
    COLUMNS,
    load_run,
    make_row,
    read_records,
    read_rows,
    write_rows,
)
from latecomer.eval.routes.contract import VOUCHED
from latecomer.eval.runs import reissue as writes
from latecomer.eval.runs.directory import check_directory
from latecomer.eval.runs.reissue import (
    LATE,
    declared_entries,
    drawn_from,
    models_of,
    planned,
    read_source,
    reissue,
)
from latecomer.eval.scoring.scores import scores_of
from latecomer.eval.studies.loading import load_study
from latecomer.files import write_atomic

REFERENCE = Path(__file__).resolve().parents[3] / "reports" / "reference" / "certificates-cifar10"
PRODUCT = {"route": "r0", "rule": "product", "delta": 0.05, "folds": 5}
POOL = {"route": "r0", "rule": "product_wor", "delta": 0.05, "folds": 5}
POOLED = "product_wor"
ALONG = sorted(
    name
    for name, rule in RULES.items()
    if "r0" in rule.doors and rule.finite_pool and (rule.ordered or rule.orders)
)
AVERAGED = {"route": "r0", "rule": "product_wor_averaged", "delta": 0.05, "folds": 5}


def hashes(folder: Path) -> dict[str, str]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path): sha256(path.read_bytes()).hexdigest() for path in files}


def copied(place: Path) -> Path:
    place.mkdir()
    for name in ("study.yaml", "env.json", "certification.jsonl"):
        shutil.copy(REFERENCE / name, place / name)
    (place / "rows.csv").write_bytes(rows_content(rows_file(REFERENCE)))
    return place


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A run whose study did not declare the rules for pools, and whose rows have none of them."""
    place = copied(tmp_path / "old")
    late = ("product_wor", "product_wor_averaged")
    study = yaml.safe_load((place / "study.yaml").read_text("utf-8"))
    study["certificates"] = [each for each in study["certificates"] if each["rule"] not in late]
    (place / "study.yaml").write_text(yaml.safe_dump(study))
    rows = [dict(zip(COLUMNS, row, strict=True)) for row in read_records(place / "rows.csv")]
    bounds = {f"r0:{rule}" for rule in late}
    write_rows(place / "rows.csv", [row for row in rows if row["bound"] not in bounds])
    return place


def refusal(source: Path, *entries: dict) -> str:
    out = source.parent / "refused"
    with pytest.raises(InputError) as caught:
        reissue(source, entries, out=out)
    assert not out.exists()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_scores_stay_and_certificates_are_those_of_the_calculators(source: Path) -> None:
    before = hashes(source)
    found = reissue(source, [PRODUCT, POOL, AVERAGED], out=source.parent / "new", note="by theory")
    assert hashes(source) == before
    old, new = (read_records(path / "rows.csv") for path in (source, found.path))
    bound = COLUMNS.index("bound")
    kept = [row for row in old if not row[bound].startswith("r0:")]
    assert [row for row in new if not row[bound].startswith("r0:")] == kept
    rows = read_rows(found.path / "rows.csv")
    for seed in (0, 1, 2):
        own = rows[(rows["seed"] == seed) & (rows["group"] == "certification")]
        scored = own[(own["metric"] == "error") & (own["client"] != "")]
        order = scored.assign(name=scored["client"].astype(int)).sort_values("name")
        losses = order["value"].tolist()
        total = own[(own["bound"] == "r0:product_wor") & (own["metric"] == "certificate")]
        value = float(total.loc[total["term"] == "", "value"].iloc[0])
        assert value == float(product_wor(losses=losses, delta=0.05, pool_size=40))
        others = own[(own["bound"] == "r0:product_wor") & (own["term"] == "others")]["value"]
        assert float(others.iloc[0]) == pytest.approx((40 * value - sum(losses)) / 10)
    assert set(found.table["declared"]) == {"before", "after the scores"}
    again = found.table[found.table["bound"] == "r0:product"]
    assert again["before"].tolist() == again["now"].tolist()
    assert pd.read_csv(found.path / "tables" / "reissued.csv").shape == found.table.shape


def test_its_json_has_numbers_and_null_where_there_is_none(source: Path) -> None:
    asked = source.parent / "asked.yaml"
    asked.write_text(yaml.safe_dump({"certificates": [PRODUCT, POOL]}))
    told = CliRunner().invoke(
        app, ["recertify", str(source), "--certificates", str(asked), "--json"]
    )
    by_rule = {one["bound"]: one for one in json.loads(told.stdout)}
    old, new = by_rule["r0:product"], by_rule["r0:product_wor"]
    assert (old["seed"], old["delta"]) == (2, 0.05)
    assert old["now"] == old["before"]
    assert new["before"] is None
    assert old["pool"] == new["pool"] == 40


def test_what_was_declared_before_the_scores_comes_out_as_it_was(tmp_path: Path) -> None:
    found = reissue(copied(tmp_path / "old"), [PRODUCT, POOL, AVERAGED], out=tmp_path / "new")
    assert found.n_late == 0
    assert len(found.table) == 9
    assert found.table["before"].tolist() == found.table["now"].tolist()
    by_rule = found.table.groupby("bound")["now"].max()
    assert by_rule["r0:product_wor_averaged"] < by_rule["r0:product_wor"] < by_rule["r0:product"]


def test_what_was_declared_late_is_no_proof_and_says_so(source: Path) -> None:
    found = reissue(source, [PRODUCT, POOL], out=source.parent / "new", note="fixed by theory")
    rows = read_rows(found.path / "rows.csv")
    totals = rows[(rows["metric"] == "certificate") & (rows["term"] == "")]
    early, late = (totals[totals["bound"] == f"r0:{r}"] for r in ("product", "product_wor"))
    assert set(early["rigorous"]) == {True}
    assert set(late["rigorous"]) == {False}
    assert set(late["message"]) == {LATE}
    mark = json.loads((found.path / "reissued.json").read_text("utf-8"))
    assert [entry["rule"] for entry in mark["declared_late"]] == ["product_wor"]
    assert mark["note"] == "fixed by theory"
    assert mark["rows_sha256"] == sha256((source / "rows.csv").read_bytes()).hexdigest()
    # Late once is late for ever: the new directory's study now has the entry.
    twice = reissue(found.path, [PRODUCT, POOL], out=source.parent / "twice")
    assert twice.n_late == 1


@pytest.mark.parametrize("elsewhere", [True, False])
def test_what_a_user_vouched_for_is_assumed_again(source: Path, elsewhere: bool) -> None:
    """The system was trained elsewhere: no round of this run made it."""
    rows = [dict(zip(COLUMNS, row, strict=True)) for row in read_records(source / "rows.csv")]
    trained = {"round": "0"} if elsewhere else {}
    write_rows(source / "rows.csv", [row | trained for row in rows])
    found = reissue(source, [PRODUCT, POOL], out=source.parent / "new")
    tables = [pd.read_csv(one) for one in found.path.glob("cells/*/artifacts/certificates.csv")]
    assert tables
    for table in tables:
        own = table[table["bound"].str.startswith("r0:")]
        told = own[(own["kind"] == "assumption") & (own["text"] == VOUCHED)]
        assert set(told["bound"]) == (set(own["bound"]) if elsewhere else set())


def test_the_new_directory_is_read_by_reports_and_trained_in_by_nobody(source: Path) -> None:
    found = reissue(source, [PRODUCT, POOL], out=source.parent / "new")
    run = load_run(found.path)
    assert [cell.status for cell in run.cells] == ["done"] * 3
    facts = next(file.load().table for file in run.artifacts if file.kind == "certificates")
    assert any(LATE in fact["text"] for fact in facts if fact["kind"] == "reason")
    with pytest.raises(InputError, match="re-issued from the scores of another run"):
        check_directory(found.path, load_study("certificates-cifar10"))


def test_other_routes_and_published_bounds_stay_as_they_are(source: Path) -> None:
    study = yaml.safe_load((source / "study.yaml").read_text("utf-8"))
    study["certificates"].append({"route": "r2", "delta": 0.05})
    (source / "study.yaml").write_text(yaml.safe_dump(study))
    rows = [dict(zip(COLUMNS, row, strict=True)) for row in read_records(source / "rows.csv")]
    named = {name: rows[0][name] for name in ("cell", "label", "method", "seed")}
    told = {**named, "bound": "r2:two_step_kl", "metric": "certificate"}
    other = {**told, "value": 3.0, "group": "certification", "predictor": "gibbs"}
    write_rows(source / "rows.csv", [*rows, make_row(**other)])
    found = reissue(source, [PRODUCT], out=source.parent / "new")
    after = read_rows(found.path / "rows.csv")
    assert (after["bound"] == "r2:two_step_kl").sum() == 1
    kept = yaml.safe_load((found.path / "study.yaml").read_text("utf-8"))["certificates"]
    assert [entry["route"] for entry in kept] == ["r0", "r2"]


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({**PRODUCT, "folds": 1}, "certificates.0.folds must be 5, with which these scores"),
        ({**PRODUCT, "rule": "wsr_averaged"}, "wsr_averaged needs independent clients"),
        ({**PRODUCT, "rule": "prodct"}, "did you mean 'product'?"),
        ({**PRODUCT, "shifts": ["blur"]}, "certificates.0.shifts must name shifts of the study"),
        ({"route": "r2"}, "only certificates of route r0 can be re-issued"),
        ("product", "certificates.0 must be a mapping of keys to values, got 'product'"),
        (None, "certificates.0 must be a mapping of keys to values, got None"),
    ],
)
def test_entries_that_the_scores_do_not_fit_are_refused(source: Path, entry, said: str) -> None:
    assert said in refusal(source, entry)


@pytest.mark.parametrize("asked", [{"rule": r} for r in ALONG] + [{"best_of": ["product", POOLED]}])
def test_rules_along_an_order_are_refused_for_natural_clients(source: Path, asked: dict) -> None:
    """Rows list clients by ids: with natural ones that is no order of a draw."""
    study = yaml.safe_load((source / "study.yaml").read_text("utf-8"))
    study["data"] = {"name": "femnist"}
    kept = {key: study["split"][key] for key in ("certify", "novel", "seed", "query")}
    study["split"] = {"kind": "natural", **kept}
    study["certificates"] = []
    (source / "study.yaml").write_text(yaml.safe_dump(study))
    entry = {"route": "r0", "delta": 0.05, **asked}
    said = refusal(source, entry)
    assert said.startswith("certificates.0: rules that bet along an order need that of the split")
    second = refusal(source, {**PRODUCT, "folds": 1}, entry)
    assert second.startswith("certificates.1: rules that bet along an order")
    found = reissue(source, [{**PRODUCT, "folds": 1}], out=source.parent / "new")
    assert len(found.table) == 3
    there = read_source(source)
    plan = planned(there, [{**PRODUCT, "folds": 1}])
    assert not drawn_from(there, plan, models_of(there)).in_order


def test_entries_that_bound_no_mean_are_issued_without_a_comparison(source: Path) -> None:
    entry = {"route": "r0", "rule": "conformal", "alpha": 0.2, "folds": 5}
    found = reissue(source, [entry], out=source.parent / "new")
    rows = read_rows(found.path / "rows.csv")
    assert (rows["bound"] == "r0:conformal").any()
    assert found.table.empty
    assert {"label", "bound", "now", "declared"} <= set(found.table)
    told = reissued_lines(found)
    assert told[0].startswith("No entry bounds a mean error")
    assert told[-1] == str(found.path)


@pytest.mark.parametrize("given", [".", "../old", "cells/.."])
def test_a_run_may_be_named_by_the_folder_one_is_in(
    source: Path, given: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (source / "cells").mkdir(exist_ok=True)
    (source.parent / "c.yaml").write_text(yaml.safe_dump({"certificates": [PRODUCT]}))
    monkeypatch.chdir(source)
    done = CliRunner().invoke(app, ["recertify", given, "--certificates", "../c.yaml"])
    assert (done.exit_code, done.stderr) == (0, "")
    assert (source.parent / "old-reissued" / "study.yaml").is_file()


def test_a_rule_about_measured_scores_is_refused_for_drawn_models(source: Path) -> None:
    rows = [dict(zip(COLUMNS, row, strict=True)) for row in read_records(source / "rows.csv")]
    write_rows(source / "rows.csv", [{**row, "predictor": "gibbs"} for row in rows])
    assert "say realised: true, or use product" in refusal(source, POOL)
    found = reissue(source, [PRODUCT, {**POOL, "realised": True}], out=source.parent / "new")
    assert len(found.table) == 6


def test_runs_that_hold_no_such_scores_are_refused(source: Path) -> None:
    for name, said in (("rows.csv", "an unfinished run"), ("study.yaml", "it has no study.yaml")):
        (source / name).unlink()
        assert said in refusal(source, PRODUCT)


def test_an_existing_directory_is_left_alone(source: Path) -> None:
    with pytest.raises(InputError, match="is there already"):
        reissue(source, [PRODUCT], out=source)


def test_a_call_that_ended_early_is_begun_anew_in_its_directory(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, clean = source.parent / "new", source.parent / "clean"
    reissue(source, [PRODUCT], out=clean)
    write, count = write_atomic, len([path for path in clean.rglob("*") if path.is_file()])
    for last in (0, count - 1):
        left = [last]

        def full(path: Path, data: bytes | str, left: list[int] = left) -> None:
            if not left[0]:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
            left[0] -= 1
            write(path, data)

        for module in (writes, rows_module):
            monkeypatch.setattr(module, "write_atomic", full)
        with pytest.raises(OSError, match="No space left"):
            reissue(source, [POOL], out=out)
        monkeypatch.undo()
        with pytest.raises(InputError, match="no run directory"):
            load_run(out)
    (out / "cells" / "left").mkdir()
    reissue(source, [PRODUCT], out=out)
    names = [sorted(path.relative_to(one) for path in one.rglob("*")) for one in (out, clean)]
    assert names[0] == names[1]
    assert (out / "rows.csv").read_bytes() == (clean / "rows.csv").read_bytes()


def test_of_two_calls_at_once_the_later_is_refused(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, compared = source.parent / "new", writes._compared

    def overtaken(*given: Any) -> pd.DataFrame:
        monkeypatch.undo()
        reissue(source, [POOL], out=out)
        return compared(*given)

    monkeypatch.setattr(writes, "_compared", overtaken)
    with pytest.raises(InputError, match="is there already"):
        reissue(source, [PRODUCT], out=out)
    assert {row["rule"] for row in load_run(out).study["certificates"]} == {POOLED}


def test_rows_that_are_not_those_of_the_cells_are_refused(tmp_path: Path) -> None:
    there = reissue(copied(tmp_path / "old"), [PRODUCT], out=tmp_path / "there").path
    rows = (there / "rows.csv").read_text("utf-8").splitlines(keepends=True)
    scored = next(row for row in rows if ",certification," in row and ",error," in row)
    (there / "rows.csv").write_text("".join(row for row in rows if row != scored))
    assert "rows.csv was changed or cut short" in refusal(there, PRODUCT)


def test_a_score_must_be_a_share_of_the_clients_points_and_made_once() -> None:
    row = {"group": "certification", "metric": "error", "client": "7", "shift": "none",
           "severity": "", "predictor": "deterministic", "n_support": "20", "n_query": "10",
           "value": "0.3"}  # fmt: skip
    with pytest.raises(InputError, match="is no share of 10 points"):
        scores_of([{**row, "value": "0.35"}])
    with pytest.raises(InputError, match="scored twice"):
        scores_of([row, row])
    moved = {**row, "shift": "blur", "severity": "1.0", "client": "8"}
    with pytest.raises(InputError, match="differ between predictors or shifts"):
        scores_of([row, moved])
    assert scores_of([{**row, "group": "novel"}]) == {}


def test_entries_are_read_from_a_study_or_a_list(tmp_path: Path) -> None:
    path = tmp_path / "new.yaml"
    path.write_text("certificates: [{route: r0, rule: product}]\n")
    assert declared_entries(path) == [{"route": "r0", "rule": "product"}]
    for text, said in (
        ("certificates: []\n", "declares no certificates"),
        ("seeds: [0]\n", "declares no certificates"),
        ("certificates: [\n", "broken YAML"),
    ):
        path.write_text(text)
        with pytest.raises(InputError, match=said):
            declared_entries(path)
    with pytest.raises(InputError, match="there is no file"):
        declared_entries(tmp_path / "absent.yaml")
