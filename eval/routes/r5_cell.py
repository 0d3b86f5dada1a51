"""The cell of route R5: a system moved by a short code, and a bound that pays for its bits.

The method trains on the first clients.  The trained weights eta_0, and random directions drawn from
a seed, are known before the other clients are looked at; an update of eta_0 is a list of whole
numbers, each a step along one direction, in a prefix code.  A greedy search takes the code with the
best bound; as the bound holds for all codes at once, each at its own length, the search may use
the scores as it likes.  The certified system is the one decoded from the code: deterministic.

The code: first the number of nonzero entries, plus 1, in Elias's gamma code; then for each such
entry its place, sign and size. No code word begins another, so the lengths satisfy Kraft's
inequality.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from latecomer.bounds.certificate import Certificate
from latecomer.bounds.unseen_clients.description_length import occam_client, occam_product
from latecomer.eval.federation.groups import Group
from latecomer.eval.routes.contract import (
    behind,
    certificate_facts,
    certificate_rows,
    outcome_of,
    price_rows,
    sharing_delta,
)
from latecomer.eval.routes.kinds.r5 import Compressed
from latecomer.eval.routes.r1_cell import System, trained_system
from latecomer.eval.routes.r4_progressive import Plan
from latecomer.eval.scoring.scores import ClientScore, score_rows
from latecomer.eval.settings.cell import TrainingCell
from latecomer.eval.training.checkpoint_slots import NO_CHECKPOINTS, Checkpoints
from latecomer.eval.training.setup import Outcome
from latecomer.models.engine.training import RoundLog
from latecomer.models.posteriors import Posterior
from latecomer.models.task.state import Params


def _gamma(number: int) -> str:
    digits = bin(number)[2:]
    return "0" * (len(digits) - 1) + digits


def _width(length: int) -> int:
    return max(length - 1, 0).bit_length()


def encode(entries: Sequence[int]) -> str:
    """Return the code word as zeros and ones; the length of the list is known to both sides.

    >>> encode([0, 0, 0, 0]), encode([0, -2, 0, 0])
    ('1', '010011010')
    """
    kept = [(place, entry) for place, entry in enumerate(entries) if entry]
    word = _gamma(len(kept) + 1)
    for place, entry in kept:
        width = _width(len(entries))
        word += format(place, f"0{width}b") if width else ""
        word += ("1" if entry < 0 else "0") + _gamma(abs(entry))
    return word


def decode(word: str, length: int) -> tuple[list[int], int]:
    """Return the list encoded at the start of a stream, and how many digits its code word has.

    >>> decode("010011010" + "111", 4)
    ([0, -2, 0, 0], 9)
    """
    at = 0

    def number(digits: int) -> int:
        nonlocal at
        at += digits
        return int(word[at - digits : at], 2) if digits else 0

    def gamma() -> int:
        zeros = word.index("1", at) - at
        return number(2 * zeros + 1)

    entries = [0] * length
    for _ in range(gamma() - 1):
        place = number(_width(length))
        negative = number(1)
        size = gamma()
        entries[place] = -size if negative else size
    return entries, at


Row = dict[str, Any]


def certify_code(
    errors: Sequence[float], word: str, *, delta: float, plan: Plan, rule: str = "occam_product"
) -> Certificate:
    """Certify the system that a code word stands for, from its scores on the tuning clients.

    A code word is a fixed system: its scores are independent draws, or a uniform sample of a pool.

    Examples
    --------
    >>> plan = Plan(first=40, clients=50, block=50, pool=60, independent=False)
    >>> bound = certify_code([.1] * 50, "1", delta=.05, plan=plan)
    >>> bound.predictor, round(float(bound), 3)
    ('deterministic', 0.164)
    """
    if rule == "occam":
        mean = float(np.mean(errors))
        issued = occam_client(
            empirical_risk=mean, bits=len(word), n_clients=len(errors), delta=delta
        )
    else:
        issued = occam_product(losses=errors, bits=len(word), delta=delta)
    return replace(
        issued,
        sampling="iid" if plan.independent else "finite-pool",
        assumptions=(
            "every client score is taken on points that the client's model was not generated from",
            f"the code's reference point comes from {plan.first} clients that the scores are not "
            "of; directions, step and code were fixed beforehand",
            "the failure probability is over the choice of these clients",
            "clients are drawn independently from one environment"
            if plan.independent
            else f"a finite pool: the mean is over the {plan.pool} clients that did not train the "
            "reference point, those that chose the code included",
        ),
    )


def evaluate_compressed(
    cell: TrainingCell,
    on_round: Callable[[RoundLog], None] | None = None,
    kept: Checkpoints = NO_CHECKPOINTS,
) -> Outcome:
    """Do the work of one cell of route R5; errors are those of `evaluate_cell`."""
    wanted = cell.only(Compressed)
    system, plan, tuning, outside = trained_system(cell, on_round, kept)
    n_seeds = wanted.sharing(cell.n_seeds)
    delta = wanted.delta / n_seeds
    # Steps are relative to the weights, as R1's deviations are.
    centre = system.prior("r5", wanted.weights, wanted.step**2)
    search = _Search(system, tuning, plan, wanted, centre, delta)
    best = search.run()
    deployed = search.moved(decode(best.word, wanted.dimension)[0])
    rows = [*score_rows(tuning, best.scores, {"predictor": "deterministic"})]
    if len(outside.clients):
        served = system.scores(deployed, outside, folds=1)
        rows += score_rows(outside, served, {"predictor": "deterministic"})
    issued, bound = sharing_delta(search.certificate(best), n_seeds), f"r5:{wanted.rule}"
    where = {**tuning.condition(), "n_clients": len(best.scores)}
    rows += certificate_rows(issued, bound=bound, common=where)
    pool = None if plan.independent else plan.pool
    rows += price_rows(issued, bound=bound, common=where, pool_size=pool)
    facts = certificate_facts(issued, bound=bound, inputs=_inputs(search, best))
    return outcome_of(system.setup, cell.train.rounds, rows, behind(facts))


@dataclass(frozen=True)
class _Code:
    """A code, its scores, and those of the empty code."""

    code: tuple[int, ...]
    scores: list[ClientScore]
    reference: list[ClientScore]

    @property
    def word(self) -> str:
        return encode(self.code)


@dataclass(frozen=True, eq=False)
class _Search:
    """A greedy search over codes for the best bound."""

    system: System
    tuning: Group
    plan: Plan
    wanted: Compressed
    centre: Posterior
    delta: float

    def moved(self, code: Sequence[int]) -> Params:
        """Return the weights that a code stands for."""
        weights = dict(self.centre.centre)
        for number, entry in enumerate(code):
            if entry:
                source = torch.Generator().manual_seed((self.system.seed << 20) + number)
                for name, value in weights.items():
                    drawn = torch.randn(value.shape, generator=source, dtype=value.dtype)
                    step = entry * self.centre.deviation[name]
                    weights[name] = value + step * drawn.to(value.device)
        return weights

    def certificate(self, code: _Code) -> Certificate:
        """Certify the system of a code."""
        errors = [score.error for score in code.scores]
        rule = self.wanted.rule
        return certify_code(errors, code.word, delta=self.delta, plan=self.plan, rule=rule)

    def run(self) -> _Code:
        """Change one entry by one at a time, and keep a change that improves the bound."""
        folds, code = self.system.folds, [0] * self.wanted.dimension
        scores = self.system.scores(self.moved(code), self.tuning, folds=folds)
        best = _Code(tuple(code), scores, scores)
        least = float(self.certificate(best))
        rng = np.random.default_rng([self.system.seed, 0xC0DE])
        for _ in range(self.wanted.tries):
            changed = list(best.code)
            changed[int(rng.integers(len(changed)))] += int(rng.choice([-1, 1]))
            scores = self.system.scores(self.moved(changed), self.tuning, folds=folds)
            other = replace(best, code=tuple(changed), scores=scores)
            value = float(self.certificate(other))
            if value < least:
                least, best = value, other
        return best


def _inputs(search: _Search, best: _Code) -> list[tuple[str, float, str]]:
    word, wanted, plan = best.word, search.wanted, search.plan
    errors, before = ([s.error for s in scores] for scores in (best.scores, best.reference))
    return [
        ("bits", float(len(word)), f"measured length of the code word {word}"),
        ("dimension", float(wanted.dimension), "random directions"),
        ("step", float(wanted.step), "step along a direction, relative to each tensor's size"),
        ("codes_tried", float(1 + wanted.tries), "codes scored in the search"),
        ("mean_error", float(np.mean(errors)), "of the decoded system"),
        ("reference_error", float(np.mean(before)), "of the empty update"),
        ("n_clients", float(len(errors)), "clients the code was chosen on"),
        ("first", float(plan.first), "clients the reference point was trained on"),
        ("pool_size", float(plan.pool), "clients that did not train the reference point"),
    ]
