"""The cell of route R5: a system moved by a short code, and a bound that pays for its bits.

The method trains on the first clients.  What it gave, eta_0, and random directions drawn from a
seed are known before the other clients are looked at; the update of them is a list of whole
numbers, each a step along one direction, in a prefix code.  A greedy search over codes takes the
best bound; as the bound holds for all codes at once, each at its own length, the search may use
the scores as it likes.  The certified system is the one decoded from the code: deterministic.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from latecomer.bounds.certificate import Certificate
from latecomer.bounds.unseen_clients.description_length import occam_client, occam_product
from latecomer.eval.certificates.rows import certificate_facts, certificate_rows, price_rows
from latecomer.eval.errors import InputError
from latecomer.eval.federation.groups import Group
from latecomer.eval.results.artifacts import Artifact
from latecomer.eval.routes.r1_cell import trained_system
from latecomer.eval.routes.r4_progressive import Plan
from latecomer.eval.routes.r5_prefix_code import decode, encode
from latecomer.eval.routes.training_entries import Compressed
from latecomer.eval.scoring.rows import client_rows, group_rows
from latecomer.eval.scoring.scores import ClientScore, group_score
from latecomer.eval.settings.cell import TrainingCell
from latecomer.eval.training.checkpoint_slots import NO_CHECKPOINTS, Checkpoints
from latecomer.eval.training.setup import Outcome
from latecomer.models.engine.training import RoundLog
from latecomer.models.posteriors.tuned import prior_around
from latecomer.models.task.state import Params

__all__ = ["certify_code", "evaluate_compressed"]

Row = dict[str, Any]


def _occam(errors: Sequence[float], bits: int, delta: float) -> Certificate:
    mean = float(np.mean(errors))
    return occam_client(empirical_risk=mean, bits=bits, n_clients=len(errors), delta=delta)


def _occam_product(errors: Sequence[float], bits: int, delta: float) -> Certificate:
    return occam_product(losses=errors, bits=bits, delta=delta)


_RULES = {"occam_product": _occam_product, "occam": _occam}


def certify_code(
    errors: Sequence[float], word: str, *, delta: float, plan: Plan, rule: str = "occam_product"
) -> Certificate:
    """Certify the system that a code word stands for, from its scores on the tuning clients.

    A code word is a fixed system: its scores are independent draws, or a uniform sample of a pool.

    Examples
    --------
    >>> plan = Plan(first=40, clients=50, block=50, pool=60, independent=False)
    >>> found = certify_code([.1] * 50, "1", delta=.05, plan=plan)
    >>> found.predictor, round(float(found), 3)
    ('deterministic', 0.164)
    """
    issued = _RULES[rule](errors, len(word), delta)
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
    """Do the work of one cell of route R5.

    Raises
    ------
    DivergedError
        When the training loss stops being finite.
    InputError
        When the split has too few clients, or the weights cannot be moved.
    """
    wanted = cell.only(Compressed)
    system, plan, tuning, outside = trained_system(cell, on_round, kept)
    settings: dict[str, Any] = {
        "delta": wanted.delta / wanted.sharing(cell.n_seeds),
        "plan": plan,
        "rule": wanted.rule,
    }
    named_bound = f"r5:{wanted.rule}"
    try:
        # Steps are relative to the weights, as R1's deviations are.
        centre = prior_around(system.state.server, wanted.weights, wanted.step**2)
    except ValueError as error:
        raise InputError(f"certificates r5: {error}") from None

    def moved(code: Sequence[int]) -> Params:
        weights = dict(centre.centre)
        for number, entry in enumerate(code):
            if entry:
                source = torch.Generator().manual_seed((system.seed << 20) + number)
                for name, value in weights.items():
                    drawn = torch.randn(value.shape, generator=source, dtype=value.dtype)
                    weights[name] = value + entry * centre.deviation[name] * drawn.to(value.device)
        return weights

    def bound_of(code: Sequence[int]) -> tuple[float, list[ClientScore]]:
        scores = system.scores(moved(code), tuning, folds=system.folds)
        errors = [score.error for score in scores]
        return float(certify_code(errors, encode(code), **settings)), scores

    code = [0] * wanted.dimension
    best, scores = bound_of(code)
    reference = scores
    tried = 1
    rng = np.random.default_rng([system.seed, 0xC0DE])
    for _ in range(wanted.tries):
        changed = list(code)
        changed[int(rng.integers(len(code)))] += int(rng.choice([-1, 1]))
        value, found = bound_of(changed)
        tried += 1
        if value < best:
            best, scores, code = value, found, changed
    word = encode(code)
    deployed = moved(decode(word, len(code))[0])
    measured = [(tuning, scores)]
    if len(outside.clients):
        measured.append((outside, system.scores(deployed, outside, folds=1)))
    issued = certify_code([score.error for score in scores], word, **settings)
    rows = [row for group, found in measured for row in _error_rows(group, found)]
    where = {**tuning.condition(), "n_clients": len(scores)}
    rows += certificate_rows(issued, bound=named_bound, common=where)
    rows += price_rows(
        issued, bound=named_bound, common=where, n_clients=len(scores), pool_size=None
    )
    inputs = [
        ("bits", float(len(word)), f"measured length of the code word {word}"),
        ("dimension", float(wanted.dimension), "random directions"),
        ("step", float(wanted.step), "step along a direction, relative to each tensor's size"),
        ("codes_tried", float(tried), "codes scored in the search"),
        ("mean_error", float(np.mean([s.error for s in scores])), "of the decoded system"),
        ("reference_error", float(np.mean([s.error for s in reference])), "of the empty update"),
        ("n_clients", float(len(scores)), "clients the code was chosen on"),
        ("first", float(plan.first), "clients the reference point was trained on"),
        ("pool_size", float(plan.pool), "clients that did not train the reference point"),
    ]
    facts = certificate_facts(issued, bound=named_bound, inputs=inputs)
    artifacts = {"certificates": Artifact(kind="certificates", table=facts, axes=("fact",))}
    named = {
        "classes": system.setup.classes,
        "personalization": system.setup.method.personalization,
        "round": cell.train.rounds,
    }
    return Outcome([{**named, **row} for row in rows], artifacts)


def _error_rows(group: Group, scores: Sequence[ClientScore]) -> Iterator[Row]:
    yield from client_rows(group, scores, {"predictor": "deterministic"})
    yield from group_rows(group, group_score(scores), {"predictor": "deterministic"})
