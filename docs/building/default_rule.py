"""The page about what the default rule gives: its tables are made here and written into it.

    python docs/building/default_rule.py

Everything is computed from seeds and kept scores, so that the same page comes out again (a minute).
"""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from blocks import with_blocks
from scipy.stats import beta

from latecomer.bounds import blend, gaffke, product, product_mixture
from latecomer.bounds.certificate import Array
from latecomer.bounds.held_out.betting import BET_WEIGHTS
from latecomer.eval.runs.reissue import reissue

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "pages" / "default_rule.md"
REFERENCE = ROOT / "reports" / "reference"
DELTA, DRAWS = 0.05, 8
BANK = (
    *((30, 0.17, 0.09, 0), (100, 0.17, 0.09, 0), (500, 0.17, 0.09, 0), (30, 0.20, 0.12, 0)),
    *((60, 0.037, 0.03, 0), (30, 0.15, 0.09, 1), (100, 0.15, 0.09, 1), (50, 0.267, 0.20, 1)),
    *((79, 0.39, 0.20, 3), (100, 0.0, 0.0, 10), (100, 0.20, 0.25, 0), (1000, 0.30, 0.20, 0)),
    *((50, 0.17, 0.09, 0), (100, 0.15, 0.12, 0), (500, 0.15, 0.12, 0), (30, 0.30, 0.20, 0)),
    *((1000, 0.17, 0.09, 0), (10, 0.15, 0.10, 0), (200, 0.10, 0.08, 5)),
)
"""Clients, mean and deviation of the scores of those who are not hopeless, and hopeless ones."""
EVEN = 0.003
KEPT = ("certificates-cifar10", "certificates-cifar10-50", "certificates-mnist")
INDEPENDENT = ("certificates-independent-cifar10", "certificates-independent-mnist-500")


def sample(k: int, mean: float, sd: float, hopeless: int) -> Array:
    """Return the quantiles (i - 1/2)/k of a Beta law, and so many scores of 1."""
    rest = np.zeros(k - hopeless)
    if mean:
        spread = mean * (1 - mean) / sd**2 - 1
        places = (np.arange(rest.size) + 0.5) / rest.size
        rest = np.asarray(beta.ppf(places, mean * spread, (1 - mean) * spread))
    return np.concatenate([rest, np.ones(hopeless)])


def bank_line(of: tuple[int, float, float, int]) -> str:
    """Return a sample's line: yardstick, rules, the blend's mean over draws, its deviation."""
    losses, asked = sample(*of), {"delta": DELTA}
    best, plain = (float(rule(losses=losses, **asked)) for rule in (gaffke, product))
    mixture = float(product_mixture(losses=losses, weights=BET_WEIGHTS, **asked))
    draws = [float(blend(losses=losses, seed=seed, **asked)) for seed in range(DRAWS)]
    mean, sd = float(np.mean(draws)), float(np.std(draws, ddof=1))
    values = (best, plain, mixture, mean, sd, mean - best)
    return f"| {_named(*of)} | {' | '.join(f'{value:.4f}' for value in values)} |"


def _named(k: int, mean: float, sd: float, hopeless: int) -> str:
    rest = f"{mean:g}/{sd:g}" if mean else "0"
    return f"{k}, {rest}" + (f", {hopeless} of them at 1" if hopeless else "")


def summary(lines: Sequence[str]) -> str:
    """Say what the lines of the bank come to."""
    numbers = np.array([[float(cell) for cell in _cells(line)[1:]] for line in lines])
    best, plain, mean = numbers[:, 0], numbers[:, 1], numbers[:, 3]
    excess, even = mean - best, plain - best <= EVEN
    over = (mean - plain)[even].max()
    return (
        f"Over the yardstick blend pays {excess.mean():.4f} on average and {excess.max():.4f} at"
        f" most; on the {even.sum()} samples where the product is within {EVEN:g} of the yardstick"
        f" it is at most {over:.4f} above the product."
    )


def _cells(line: str) -> list[str]:
    return line.strip("| ").split(" | ")


def kept_lines(name: str) -> list[str]:
    """Return a line for every seed of a kept run; ``blend`` is issued anew from its scores."""
    pools = name in KEPT
    rules = ("product", *(("product_wor", "product_wor_averaged") if pools else ()), "blend")
    shared = {"route": "r0", "delta": DELTA, "folds": 5, "shifts": False, "per_seed": "each"}
    entries: list[dict[str, Any]] = [{**shared, "rule": rule} for rule in rules]
    with TemporaryDirectory() as folder:
        table = reissue(REFERENCE / name, entries, out=Path(folder) / "new").table
    lines = []
    for seed, own in table.groupby("seed"):
        at = own.set_index("bound")
        first = at.iloc[0]
        drawn = f"{first['n_clients']}" + (f" of {first['pool']:.0f}" if pools else "")
        declared = [at.loc[f"r0:{rule}", "declared"] for rule in rules]
        assert declared == ["before"] * (len(rules) - 1) + ["after the scores"], name
        values = [_up(at.loc[f"r0:{rule}", "now"]) for rule in rules]
        cells = values if pools else [values[0], "", "", values[1]]
        told = (name, str(seed), drawn, f"{first['mean_error']:.4f}", *cells)
        lines.append(f"| {' | '.join(told)} |")
    return lines


def _up(bound: float) -> str:
    """Return a bound with four decimals, not below it."""
    return f"{np.ceil(round(bound * 1e4, 8)) / 1e4:.4f}"


def written(page: str) -> str:
    """Return the page with its tables made anew."""
    bank = [bank_line(one) for one in BANK]
    head = "| clients, mean/sd | yardstick | product | product_mixture | blend | sd | excess |"
    kept = [line for name in (*KEPT, *INDEPENDENT) for line in kept_lines(name)]
    columns = ("run", "seed", "clients", "mean error", "product", "product_wor")
    told = f"| {' | '.join((*columns, 'product_wor_averaged', 'blend, issued afterwards'))} |"
    parts = {
        "bank": "\n".join([head, "|---" * 7 + "|", *bank, "", summary(bank)]),
        "kept": "\n".join([told, "|---" * 8 + "|", *kept]),
    }
    return with_blocks(page, parts)


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text("utf-8")), "utf-8")
