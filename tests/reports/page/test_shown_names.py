"""Names that a report shows: FedMA's says what of FedMA it is."""

import csv
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sketches import sketch

from latecomer.eval.results.rows import load_run
from latecomer.reports import report
from latecomer.reports.display.drawing import looks
from latecomer.reports.page.cards import model_command
from latecomer.reports.page.page import under_shown_names

SHOWN = "FedMA (one-shot matching)"
Writer = Callable[..., Path]


def as_fedma(label: str) -> Callable[[list[dict[str, Any]]], list[dict[str, Any]]]:
    """Make the rows of FedAvg those of FedMA under some label, without shifts and bounds."""

    def change(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        kept = [r for r in rows if r["metric"] != "certificate" and r["shift"] in ("none", "")]
        return [
            {**r, "method": "fedma", "label": label} if r["method"] == "fedavg" else r for r in kept
        ]

    return change


def written(run_writer: Writer, folder: Path, methods: list[Any], label: str) -> Path:
    study = {"study": "made-up", "data": {"name": "digits"}, "split": {"kind": "by_class"},
             "methods": methods, "evaluation": {"classes": "all"}, "seeds": [0]}  # fmt: skip
    kinds = {"labels": ("local", "fedavg"), "artifacts": False, "seeds": (0,)}
    return run_writer(folder, change=as_fedma(label), study=study, **kinds)


@pytest.mark.slow
@pytest.mark.parametrize("entry", ["fedma", {"name": "fedma", "label": "fedma", "local_lr": 0.1}])
def test_figures_and_tables_say_what_of_fedma_it_is(
    tmp_path: Path, run_writer: Writer, entry: Any
) -> None:
    folder = written(run_writer, tmp_path / "run", ["local", entry], "fedma")
    before = (folder / "rows.csv").read_bytes()
    page = report(folder).read_text("utf-8")
    assert SHOWN in page
    for path in (folder / "tables").glob("*.csv"):
        with path.open(encoding="utf-8", newline="") as opened:
            found = list(csv.reader(opened))
        assert not any("fedma" in (cell, cell.split(" ")[0]) for row in found for cell in row), path
    with (folder / "tables" / "accuracy.csv").open(encoding="utf-8", newline="") as opened:
        assert SHOWN in {row["label"] for row in csv.DictReader(opened)}
    drawn = [path.read_text("utf-8") for path in (folder / "figures").glob("*.svg")]
    assert drawn
    assert any(SHOWN in text for text in drawn)
    assert not any(">fedma<" in text for text in drawn)
    # The run's own files keep the name by which a study asks for the method.
    assert (folder / "rows.csv").read_bytes() == before


def test_a_label_of_the_studys_own_stays_and_so_do_other_methods(
    tmp_path: Path, run_writer: Writer
) -> None:
    own = [{"name": "fedma", "label": "fedma, mine"}, "local"]
    run = load_run(written(run_writer, tmp_path / "own", own, "fedma, mine"))
    assert set(under_shown_names(run).rows["label"]) == set(run.rows["label"])
    other = replace(run, rows=run.rows[run.rows["method"] != "fedma"], study={"methods": ["local"]})
    assert under_shown_names(other) is other


def test_the_command_that_makes_it_again_asks_for_the_method(
    tmp_path: Path, run_writer: Writer
) -> None:
    entry = {"name": "fedma", "label": "fedma", "local_lr": 0.1}
    run = under_shown_names(load_run(written(run_writer, tmp_path / "a", [entry], "fedma")))
    command = model_command(run.study, SHOWN, 0)
    assert f"methods=[{{name: fedma, label: {SHOWN}, local_lr: 0.1}}]" in command


def test_it_is_drawn_as_ever() -> None:
    assert looks(["pefll", SHOWN])[SHOWN] == looks(["fedma", "pefll"])["fedma"]


@pytest.mark.slow
def test_sentences_beside_the_answer_call_models_by_their_names(
    tmp_path: Path, run_writer: Writer
) -> None:
    page = sketch(
        run_writer(tmp_path, labels=("pfedhn", "pefll-stochastic"), seeds=(0,)),
        "answer",
        "accuracy",
    )
    assert "<strong>pFedHN</strong> serves clients" in page
    assert "<strong>PeFLL-stochastic</strong> serves clients" in page
    (lead,) = (line for line in page.splitlines() if "stands out" in line and "never saw" in line)
    assert "PeFLL-stochastic" in lead
    assert not {"pfedhn", "pefll-stochastic"} & set(lead.replace(";", " ").split())
