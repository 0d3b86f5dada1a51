"""Every figure that README and the page of experiments quote of runs is what their rows hold.

A quote is the page's own words with the numbers made from the rows.  What is left of a passage
without its quotes may hold no number that is not a setting.
"""

import re

import pytest
from kept_rows import ROOT
from of_all_methods import all_methods, all_methods_on_an_npz
from of_certificates import (
    certificates_cifar10,
    certificates_cifar10_50,
    certificates_mnist,
    certificates_without_holding_out,
    independent_clients,
    independent_mnist,
)
from of_figure3b import odpfl_figure3b
from of_odpfl import (
    odpfl_fedavg_at_length,
    odpfl_fedavg_searched,
    odpfl_feroma,
    odpfl_hn_as_published,
    odpfl_hn_at_length,
    odpfl_hn_searched,
    odpfl_table1_at_length,
    odpfl_without_labels,
)
from of_pefll_and_pfedhn import (
    handicapped_fedavg,
    handicapped_local,
    knn_per_at_length,
    local_at_length,
    newcomers_of_pfedhn,
    pefll_figure4,
    pefll_masked_at_length,
    pefll_of_three_seeds,
    pefll_table1_at_length,
    per_fedavg_at_length,
    pfedhn_at_length,
    pfedhn_fedavg,
    pfedhn_local,
    pfedhn_pc_at_length,
)
from sketches import answered, kept, kept_run

EXPERIMENTS = (ROOT / "docs" / "pages" / "experiments.md").read_text("utf-8")
PAGE = (ROOT / "README.md").read_text("utf-8").replace("\n> ", "\n") + EXPERIMENTS
NUMBER = re.compile(r"(?<![\w.])\d*\.\d+(?![\w.]*\w)")
# Answers that the pages tell without their figures.
UNDRAWN = {("newcomers-cifar10", "shift"), ("newcomers-cifar10", "gap")}
# Numbers of a passage that no row of ours holds: settings, and what the rows before a change held.
SETTINGS = {
    "- **pFedHN's new clients**": {".403"},
    "- **ODPFL-HN** (": {".969", ".976"},
    "**PeFLL, Figure 4**": {".1"},
    "- `handicapped-fedavg`": {".60", ".55", ".001"},
    "- `odpfl-search-fedavg-rates`": {".1", ".05", ".01", ".005", ".001"},
    "- `odpfl-search-odpfl-hn-rates`": {".1", ".05", ".01", ".005", ".001"},
    "- `certificates-cifar10`": {".05"},
}


def population_shift_digits():
    return (answered("certificate", kept("population-shift-digits")).sentence,)


# Passages in the page's order, by their beginnings; each ends where the next begins.
QUOTES = {
    "- **pFedHN's new clients**": newcomers_of_pfedhn,
    "- **ODPFL-HN** (": odpfl_without_labels,
    "**PeFLL, Table 1**": tuple,
    "**PeFLL, Figure 4**": pefll_figure4,
    "**OD-PFL, Table 1, ": tuple,
    "**OD-PFL, Figure 3b**": odpfl_figure3b,
    "- `digits-all-methods`": all_methods,
    "- `digits-all-methods-16x16`": all_methods_on_an_npz,
    "- `pefll-table1-5000-rounds`": pefll_table1_at_length,
    "- `handicapped-fedavg`": handicapped_fedavg,
    "- `handicapped-local`": handicapped_local,
    "- `pefll-table1-5000-rounds-pefll`": pefll_of_three_seeds,
    "- `pefll-table1-5000-rounds-masked`": pefll_masked_at_length,
    "- `pefll-table1-local-200-epochs`": local_at_length,
    "- `pefll-table1-per-fedavg`": per_fedavg_at_length,
    "- `pefll-table1-knn-per`": knn_per_at_length,
    "- `pfedhn-table1-5000-steps`": pfedhn_at_length,
    "- `pfedhn-table1-pfedhn-pc`": pfedhn_pc_at_length,
    "- `pfedhn-table1-fedavg`": pfedhn_fedavg,
    "- `pfedhn-table1-local-2000-steps`": pfedhn_local,
    "- `odpfl-table1-500-rounds`": odpfl_table1_at_length,
    "- `odpfl-table1-feroma`": odpfl_feroma,
    "- `odpfl-table1-500-rounds-fedavg`": odpfl_fedavg_at_length,
    "- `odpfl-search-fedavg-rates`": odpfl_fedavg_searched,
    "- `odpfl-search-odpfl-hn-rates`": odpfl_hn_searched,
    "- `odpfl-table1-500-rounds-odpfl-hn`": odpfl_hn_at_length,
    "- `odpfl-table1-published`": odpfl_hn_as_published,
    "- `bound-vs-accuracy-digits`": tuple,
    "- `population-shift-digits`": population_shift_digits,
    "- `certificates-independent-cifar10`": independent_clients,
    "- `certificates-independent-mnist-500`": independent_mnist,
    "- `certificates-cifar10`": certificates_cifar10,
    "- `certificates-cifar10-50`": certificates_cifar10_50,
    "- `certificates-mnist`": certificates_mnist,
    "- `certificates-no-holdout-cifar10`": certificates_without_holding_out,
    "- `pefll-figure4-5000-rounds`, `pefll-figure4-local-200-epochs`": tuple,
}


def passage(begin):
    places = [*sorted(EXPERIMENTS.index(each) for each in QUOTES), len(EXPERIMENTS)]
    start = EXPERIMENTS.index(begin)
    text = EXPERIMENTS[start : next(place for place in places if place > start)]
    shown = re.sub(r"<img [^>]*>|^\[.*\]: .*$", "", text, flags=re.MULTILINE)
    return " ".join(shown.split())


@pytest.mark.parametrize("begin", QUOTES)
def test_the_page_quotes_what_the_rows_hold_and_nothing_else(begin):
    told = passage(begin)
    for quote in QUOTES[begin]():
        assert quote in told
        told = told.replace(quote, "")
    assert set(NUMBER.findall(told)) <= SETTINGS.get(begin, set())


def test_no_passage_is_left_out():
    begin = EXPERIMENTS.index("\n## Beside the papers")
    first = EXPERIMENTS.index(next(iter(QUOTES)))
    assert list(QUOTES) == sorted(QUOTES, key=EXPERIMENTS.index)
    assert not NUMBER.findall(EXPERIMENTS[begin:first])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("run", "asks"),
    [
        ("bound-vs-accuracy-digits", "bounds"),
        ("shift-robustness-digits", "shift"),
        ("generalization-gap-digits", "gap"),
        ("people", "certificate"),
        ("population-shift-digits", "certificate"),
        ("newcomers-cifar10", "bounds"),
        ("newcomers-cifar10", "shift"),
        ("newcomers-cifar10", "gap"),
    ],
)
def test_the_pages_say_what_reports_answer(run: str, asks: str) -> None:
    """Answers themselves are recomputed from rows in ``test_answers``."""
    answer = answered(asks, kept(run))
    assert answer.sentence in " ".join(PAGE.split())
    if (run, asks) not in UNDRAWN:
        assert f"reports/reference/{run}/figures/{answer.figures[0].name}.svg" in PAGE


def test_on_cifar10_fedrep_errs_least_at_the_severest_of_three_shifts() -> None:
    rows = kept_run("newcomers-cifar10").rows
    means = rows[(rows["metric"] == "error") & (rows["aggregation"] == "per-client")]
    novel = means[(means["group"] == "novel") & (means["client"] == "")]
    severest = {"blur": 2.0, "rotation": 45.0, "extrapolation": 1.0, "photographs": None}
    best = {}
    for shift, severity in severest.items():
        own = novel[novel["shift"] == shift]
        own = own if severity is None else own[own["severity"] == severity]
        best[shift] = own.set_index("label")["value"].idxmin()
    assert best == {**dict.fromkeys(severest, "fedrep"), "extrapolation": "fedavg"}
    told = "FedRep still errs least under three of them, FedAvg under other class mixtures"
    assert told in " ".join(PAGE.split())
    plain = novel[novel["shift"] == "none"].set_index("label")["value"]
    own = means[(means["group"] == "seen") & (means["client"] == "")].set_index("label")["value"]
    assert plain["fedavg"] == pytest.approx(own["fedavg"], abs=0.005)
    assert "FedAvg errs as much on its own clients as on new ones" in " ".join(PAGE.split())
