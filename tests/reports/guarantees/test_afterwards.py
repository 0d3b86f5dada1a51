"""The default rule beside those declared before the scores: marked, on the same scores, no row."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sketches import Sketcher, kept

from latecomer.bounds import blend
from latecomer.certify.rule import DEFAULT_RULE
from latecomer.reports.display.section import Material
from latecomer.reports.guarantees.certificate import AFTERWARDS, afterwards_frame
from latecomer.reports.page.page import page_of

ROOT = Path(__file__).parents[3]
DECLARED_OTHERS = (
    *("certificates-cifar10", "certificates-cifar10-50", "certificates-mnist"),
    *("certificates-independent-cifar10", "certificates-independent-mnist-500"),
)
LATE = f"r0:{DEFAULT_RULE}"


def docs_lines(name: str) -> dict[int, str]:
    """The default's values on a run's seeds, as the page about the default rule has them."""
    page = (ROOT / "docs" / "pages" / "default_rule.md").read_text("utf-8")
    lines = [line.strip("| ").split(" | ") for line in page.splitlines()]
    return {int(line[1]): line[-1] for line in lines if line[0] == name}


@pytest.mark.parametrize("name", DECLARED_OTHERS)
def test_the_page_of_a_run_that_declared_other_rules_has_the_default_beside_them(name: str) -> None:
    material = kept(name)
    heading, table = AFTERWARDS.blocks(material)
    assert heading.title.endswith("today's default rule, issued afterwards")
    late = table.frame[table.frame["issued"] == "afterwards"]
    assert set(late["bound"]) == {LATE}
    assert (late["delta"] == 0.05).all()
    shown = {
        int(row["seed"]): f"{np.ceil(round(row['value'] * 1e4, 8)) / 1e4:.4f}"
        for row in late.to_dict("records")
    }
    assert shown == docs_lines(name)
    assert f"{DEFAULT_RULE}, issued afterwards" in table.headings
    assert {"product"} <= set(table.headings)
    assert "no certificate" in table.caption
    assert "seed 0" in table.caption


@pytest.mark.parametrize("proven", [True, False])
def test_declared_certificates_that_are_no_proofs_say_so_there_too(proven: bool) -> None:
    material = kept("certificates-mnist")
    rows = material.rows.copy()
    if not proven:
        rows.loc[rows["metric"] == "certificate", ["rigorous", "message"]] = [False, "a file's"]
    told = Material.of(replace(material.run, rows=rows))
    _, table = AFTERWARDS.blocks(told)
    assert table.caption.startswith("Not proven for these models. A file's.") != proven


@pytest.mark.slow
def test_it_is_no_row_leads_nothing_and_stands_on_the_page_once() -> None:
    material, writer = kept("certificates-independent-cifar10"), Sketcher()
    page = page_of(material.run, writer)
    assert page.count('id="afterwards"') == 1
    assert not (material.bounds["bound"] == LATE).any()
    assert "issued afterwards" not in page[: page.index('id="guarantees"')]
    assert "tables/issued-afterwards.csv" in writer.files
    assert LATE not in writer.files["tables/certificates.csv"]


@pytest.mark.parametrize("name", ["households", "people", "schools"])
def test_where_the_default_was_declared_there_is_no_such_table(name: str) -> None:
    assert list(AFTERWARDS.blocks(kept(name))) == []


def test_scores_that_do_not_give_what_was_proved_are_not_certified_again() -> None:
    material = kept("certificates-cifar10")
    order = tuple(map(str, material.errors["client"].unique()))
    assert len(afterwards_frame(material.bounds, material.errors, material.study))
    changed = material.errors.assign(error=np.minimum(material.errors["error"] + 0.1, 1.0))
    assert afterwards_frame(material.bounds, changed, material.study, order).empty


def test_a_randomised_predictor_of_a_pool_has_no_line_for_its_expected_errors_are_meant() -> None:
    material = kept("certificates-cifar10")
    gibbs = {"predictor": "gibbs"}
    frame = afterwards_frame(
        material.bounds.assign(**gibbs), material.errors.assign(**gibbs), material.study
    )
    assert frame.empty


def test_the_value_is_that_of_the_calculator_on_the_clients_in_the_order_of_the_split() -> None:
    material = kept("certificates-independent-cifar10")
    frame = afterwards_frame(material.bounds, material.errors, material.study)
    errors = material.errors
    own = errors[(errors["group"] == "certification") & (errors["seed"] == 1)]
    losses = own["error"].tolist()
    late = frame[(frame["issued"] == "afterwards") & (frame["seed"] == 1)]
    expected = blend(losses=losses, delta=0.05, seed=0, in_order=True)
    assert late["value"].tolist() == [float(expected)]
    other = replace(material.run, study={**material.study, "certificates": []})
    assert len(afterwards_frame(material.bounds, material.errors, other.study))
