"""What rows of kept runs hold, and how the README writes it."""

import csv
import json
import math
import tarfile
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


@cache
def trained(run, label, seed=0):
    """Losses of a cell's rounds, in turn, and its errors by group and round."""
    with tarfile.open(REFERENCE / run / "cells.tar.xz") as cells:
        texts = {
            one.name: cells.extractfile(one).read().decode("utf-8")
            for one in cells
            if one.name.endswith(("config.json", "progress.jsonl", "training_curve.csv"))
        }
    configs = {name: json.loads(text) for name, text in texts.items() if name.endswith(".json")}
    (at,) = (
        name.removesuffix("config.json")
        for name, config in configs.items()
        if config["kind"] == "method"
        if (config["method"]["label"], config["seed"]) == (label, seed)
    )
    losses = [json.loads(line)["loss"] for line in texts[f"{at}progress.jsonl"].splitlines()]
    points = csv.DictReader(texts[f"{at}artifacts/training_curve.csv"].splitlines())
    return losses, {(each["group"], int(each["round"])): float(each["error"]) for each in points}


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
