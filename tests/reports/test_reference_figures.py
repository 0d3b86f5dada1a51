"""What the README says of the reference certificates is what their tables hold."""

import csv
import math
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
RULES = ("product", "wsr_wor", "product_wor", "product_wor_averaged")


def up(value):
    return f"{math.ceil(round(float(value) * 1000, 9)) / 1000:.3f}"[1:]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", ["cifar10", "cifar10-50", "mnist"])
def test_readme_quotes_the_tables(name, rule):
    table = ROOT / "reports" / "reference" / f"certificates-{name}-reissued" / "tables"
    with (table / "reissued.csv").open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["bound"] == f"r0:{rule}"]
    rows.sort(key=lambda row: int(row["seed"]))
    page = (ROOT / "README.md").read_text("utf-8")
    begin = page.index(f"- `certificates-{name}`:")
    told = " ".join(page[begin : page.index("\n- `certificates-", begin + 1)].split())
    for column in ("now", "others"):
        assert ", ".join(up(row[column]) for row in rows) in told


@pytest.mark.parametrize("rule", ["product", "betting_mixture", "wsr_averaged"])
def test_readme_quotes_the_independent_clients(rule):
    name = "certificates-independent-cifar10"
    table = ROOT / "reports" / "reference" / f"{name}-reissued" / "tables" / "reissued.csv"
    with table.open(encoding="utf-8", newline="") as file:
        (row,) = [row for row in csv.DictReader(file) if row["bound"] == f"r0:{rule}"]
    page = (ROOT / "README.md").read_text("utf-8")
    begin = page.index(f"- `{name}`:")
    told = " ".join(page[begin : page.index("\n- `certificates-", begin + 1)].split())
    assert up(row["now"]) in told
    assert f"{float(row['mean_error']):.3f}"[1:] in told
    # What a hundred independent clients cost.
    if rule == "product":
        assert float(row["now"]) - float(row["mean_error"]) <= 0.035


def accuracies(run):
    """Mean accuracy of seen and novel clients of a reference run, by group."""
    path = ROOT / "reports" / "reference" / run / "rows.csv"
    with path.open(encoding="utf-8", newline="") as file:
        return {
            row["group"]: float(row["value"])
            for row in csv.DictReader(file)
            if row["metric"] == "accuracy"
            and row["aggregation"] == "per-client"
            and row["shift"] == "none"
        }


def test_readme_quotes_the_mended_methods():
    page = (ROOT / "README.md").read_text("utf-8")
    told = page[page.index("- **pFedHN's newcomers**") :]
    told = told[: told.index("Runs on two cores")]
    runs = [f"odpfl-150-rounds-split{split}" for split in range(3)]
    novel = [accuracies(run)["novel"] for run in runs]
    others = [
        accuracies(f"odpfl-150-rounds-{name}-split0")["novel"] for name in ("fedavg", "nearest")
    ]
    newcomers = accuracies("pfedhn-newcomers")
    quoted = [*novel, sum(novel) / 3, *others, newcomers["novel"], newcomers["seen"]]
    for value in quoted:
        assert f"{value:.3f}"[1:] in told
    assert newcomers["novel"] >= 0.60
    assert newcomers["seen"] - newcomers["novel"] <= 0.12
    assert novel[0] >= 0.60
    assert novel[0] > max(others)


def test_readme_quotes_newcomers_without_labels():
    path = ROOT / "reports" / "reference" / "without-labels-digits" / "rows.csv"
    found = {}
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if (row["metric"], row["aggregation"]) == ("accuracy", "per-client"):
                found.setdefault((row["label"], row["group"]), []).append(float(row["value"]))
    means = {key: sum(values) / len(values) for key, values in found.items()}
    page = " ".join((ROOT / "README.md").read_text("utf-8").split())
    begin = page.index("On digits (`without-labels-digits`")
    told = page[begin : begin + 400]
    for key in (("odpfl_hn", "novel"), ("fedavg", "novel"), ("odpfl_hn", "seen")):
        assert f"{means[key]:.3f}"[1:] in told
    # Seen clients choose the rate that newcomers do better with.
    assert means["odpfl_hn", "seen"] > means["odpfl_hn slow", "seen"]
    assert means["odpfl_hn", "novel"] > means["fedavg", "novel"] > means["odpfl_hn slow", "novel"]
