"""What rows of kept runs hold, and how the README writes it."""

import csv
import math
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
REFERENCE = ROOT / "reports" / "reference"


def read(run, name):
    with (REFERENCE / run / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@cache
def errors(run):
    """Mean error over clients as its row, by label, seed, group, predictor, shift and severity."""
    keys = ("label", "seed", "group", "predictor", "shift", "severity")
    return {
        tuple(row[key] for key in keys): row
        for row in read(run, "rows.csv")
        if (row["metric"], row["aggregation"], row["client"]) == ("error", "per-client", "")
    }


def error(run, label, group, *, seed="0", predictor="deterministic", at=("none", "")):
    return float(errors(run)[(label, seed, group, predictor, *at)]["value"])


def right(run, label, group, **where):
    return 1 - error(run, label, group, **where)


def rate(value):
    return f"{value:.3f}"[1:]


def rates(values, last=", "):
    *before, end = [value if isinstance(value, str) else rate(value) for value in values]
    return ", ".join(before) + last + end


def up(value):
    return f"{math.ceil(round(float(value) * 1000, 9)) / 1000:.3f}"[1:]


def percents(*values):
    return [f"{100 * value:.1f}" for value in values]


def half_width(row):
    return (float(row["upper"]) - float(row["lower"])) / 2
