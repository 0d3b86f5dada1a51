"""The page about the next site: what five statements say of it, and how often each is wrong.

    python docs/building/next_site.py

Worlds are hierarchical: a site's error rate is drawn, then its points. Everything comes from seeds,
so that the same page comes out again (two minutes).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from blocks import with_blocks

from latecomer.bounds import (
    blend,
    client_threshold,
    conformal,
    dersimonian_laird,
    hartung_knapp,
)
from latecomer.bounds.certificate import Array

PAGE = Path(__file__).resolve().parents[2] / "docs" / "pages" / "next_site.md"
SITES = (6, 30)
ALPHA, DELTA = 0.2, 0.05
TRIALS = 1000


@dataclass(frozen=True)
class World:
    """How sites differ: a law of their error rates, and the sizes they have."""

    words: str
    rates: Callable[[np.random.Generator, int], Array]
    sizes: tuple[int, ...]


def _hopeless(rng: np.random.Generator, n: int) -> Array:
    return np.where(rng.random(n) < 0.05, 0.9, rng.beta(8, 72, n))


WORLDS = {
    "alike": World("alike, 200 points each", lambda rng, n: rng.beta(40, 160, n), (200,)),
    "unequal": World(
        "alike, 10 to 1,000 points", lambda rng, n: rng.beta(40, 160, n), (10, 50, 1000)
    ),
    "skewed": World(
        "skewed (Beta(0.5, 4.5)), 10 to 1,000 points",
        lambda rng, n: rng.beta(0.5, 4.5, n),
        (10, 50, 1000),
    ),
    "hopeless": World("one in twenty hopeless, 50 points each", _hopeless, (50,)),
}


@dataclass(frozen=True)
class Sample:
    """Sites with their true rates, and whether each of their points was wrong, with its score."""

    rates: Array
    scores: list[Array]

    @property
    def errors(self) -> Array:
        """Measured error of each site: a point is wrong where its score is above 1/2."""
        return np.array([float((own > 0.5).mean()) for own in self.scores])


def drawn(world: World, sites: int, rng: np.random.Generator) -> Sample:
    """Draw sites; the score of a point, 1 - p(true label), is even below or above 1/2."""
    rates = world.rates(rng, sites)
    sizes = rng.choice(world.sizes, sites)
    scores = [
        rng.random(n) / 2 + 0.5 * (rng.random(n) < rate)
        for n, rate in zip(sizes, rates, strict=True)
    ]
    return Sample(rates, scores)


def stated(sample: Sample, rng: np.random.Generator) -> dict[str, float]:
    """Return the five numbers: what each statement says from these sites."""
    errors = sample.errors
    sizes = np.array([own.size for own in sample.scores])
    # A site without a wrong point has no spread of its own: half a point is added to both sides.
    rate = (errors * sizes + 0.5) / (sizes + 1)
    meta = {"estimates": errors, "variances": rate * (1 - rate) / sizes, "alpha": 2 * ALPHA}
    return {
        "dersimonian_laird": float(dersimonian_laird(**meta).upper),
        "hartung_knapp": float(hartung_knapp(**meta).upper),
        "conformal": float(conformal(losses=errors, alpha=ALPHA)),
        "blend": float(blend(losses=errors, delta=DELTA, seed=int(rng.integers(2**32)))),
        "sets": float(client_threshold(scores=sample.scores, alpha=ALPHA)),
    }


def missed(world: World, sites: int, seed: int) -> dict[str, float]:
    """Return whether each statement was wrong of the next site; for sets, how often."""
    rng = np.random.default_rng([seed, sites])
    sample = drawn(world, sites + 1, rng)
    known = Sample(sample.rates[:-1], sample.scores[:-1])
    says, rate = stated(known, rng), float(sample.rates[-1])
    measured = float(sample.errors[-1])
    return {
        "dersimonian_laird": float(rate > says["dersimonian_laird"]),
        "hartung_knapp": float(rate > says["hartung_knapp"]),
        "conformal": float(measured > says["conformal"]),
        "blend": float(mean_rate(world) > says["blend"]),
        "sets": float((sample.scores[-1] > says["sets"]).mean()),
    }


@cache
def mean_rate(world: World) -> float:
    """Return the mean error rate of all sites there could be, from a large draw."""
    return float(world.rates(np.random.default_rng(0), 10**6).mean())


def miss_line(name: str, sites: int, trials: int = TRIALS) -> str:
    """Return a line: how often each statement was wrong over the trials."""
    trial = [missed(WORLDS[name], sites, seed) for seed in range(trials)]
    shares = [np.mean([one[statement] for one in trial]) for statement in trial[0]]
    cells = (WORLDS[name].words, str(sites), *(f"{share:.3f}" for share in shares))
    return f"| {' | '.join(cells)} |"


def example_lines() -> list[str]:
    """Return a line for six and for thirty sites of the unequal world: what each statement says."""
    lines = []
    for sites in SITES:
        rng = np.random.default_rng([7, sites])
        sample = drawn(WORLDS["unequal"], sites, rng)
        cells = [f"{value:.3f}" for value in stated(sample, rng).values()]
        lines.append(f"| {sites} | {sample.errors.mean():.3f} | {' | '.join(cells)} |")
    return lines


def written(page: str) -> str:
    """Return the page with its tables made anew."""
    columns = ("DerSimonian-Laird", "Hartung-Knapp", "next client", "mean", "sets")
    said = f"| sites | measured | {' | '.join(columns)} |"
    wrong = f"| how sites are | sites | {' | '.join(columns)} |"
    lines = [miss_line(name, sites) for name in WORLDS for sites in SITES]
    parts = {
        "example": "\n".join([said, "|---" * 7 + "|", *example_lines()]),
        "misses": "\n".join([wrong, "|---" * 7 + "|", *lines]),
    }
    return with_blocks(page, parts)


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text("utf-8")), "utf-8")
