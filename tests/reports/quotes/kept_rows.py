"""What rows of kept runs hold, and how the README writes it."""

import csv
import io
import json
import math
from functools import cache
from pathlib import Path

from latecomer.eval.results.kept_cells import ROWS, cells_of, rows_content, rows_file

ROOT = Path(__file__).resolve().parents[3]
REFERENCE = ROOT / "reports" / "reference"


def table(path):
    return list(csv.DictReader(io.StringIO(rows_content(path).decode("utf-8"), newline="")))


@cache
def read(run, name):
    return table(rows_file(REFERENCE / run) if name == ROWS else REFERENCE / run / name)


@cache
def published(source):
    """Return a paper's numbers on CIFAR-10."""
    numbers = table(ROOT / "reports" / "paper_results.csv")
    return [row for row in numbers if (row["source"], row["dataset"]) == (source, "cifar10")]


@cache
def errors(run):
    """Mean error over clients as its row, by label, seed, group, predictor, shift and severity."""
    keys = ("label", "seed", "group", "predictor", "shift", "severity")
    return {
        tuple(row[key] for key in keys): row
        for row in read(run, "rows.csv")
        if (row["metric"], row["aggregation"], row["client"]) == ("error", "per-client", "")
    }


def of_new_clients(run, label):
    """Return the row of a model's mean error on new clients, of the first seed and unshifted."""
    return errors(run)[(label, "0", "novel", "deterministic", "none", "")]


@cache
def cell_of(run, label, seed="0"):
    """Return the folder of a trained model's cell, as a kept run's archive has it."""
    (cell,) = {
        row["cell"] for row in read(run, "rows.csv") if (row["label"], row["seed"]) == (label, seed)
    }
    return cells_of(REFERENCE / run) / cell


def checks(run, label, group):
    """Return the share that is right at every check of a training, by round."""
    return {
        int(row["round"]): 1 - float(row["error"])
        for row in table(cell_of(run, label) / "artifacts" / "training_curve.csv")
        if row["group"] == group
    }


def losses(run, label):
    """Return the mean loss of a training's rounds, in turn."""
    lines = (cell_of(run, label) / "progress.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line)["loss"] for line in lines]


def minutes(run, label, seed="0"):
    """Return how long a model took."""
    timing = json.loads((cell_of(run, label, seed) / "timing.json").read_text("utf-8"))
    return round(timing["seconds"] / 60)


def hours(run, label, seed="0"):
    """Return how long a model took, as the README writes it."""
    whole, rest = divmod(minutes(run, label, seed), 60)
    return f"{whole} hour{'' if whole == 1 else 's'} {rest} minutes"


def error(run, label, group, *, seed="0", predictor="deterministic", at=("none", "")):
    return float(errors(run)[(label, seed, group, predictor, *at)]["value"])


def right(run, label, group, **where):
    return 1 - error(run, label, group, **where)


def rate(value):
    return f"{value:.3f}"[1:]


def points(difference):
    """Return a difference of rates in points, as the README writes it."""
    return f"{100 * difference:.1f}".removeprefix("0").replace("-0.", "-.")


def rates(values, last=", "):
    *before, end = [value if isinstance(value, str) else rate(value) for value in values]
    return ", ".join(before) + last + end


def up(value):
    return f"{math.ceil(round(float(value) * 1000, 9)) / 1000:.3f}"[1:]


def percents(*values):
    return [f"{100 * value:.1f}" for value in values]


def interval(row):
    """Return the ends of the interval of the share that is right, as the README writes them."""
    return tuple(rate(1 - float(row[end])) for end in ("upper", "lower"))


def half_width(row):
    return (float(row["upper"]) - float(row["lower"])) / 2
