"""The cell of route R1: a prior from some clients, a posterior tuned on others, its certificate.

The method trains on the first clients.  The prior is a Gaussian around the trained weights, and the
posterior's mean is moved down the gradient of the same bound that is issued.  The bound's sample is
the tuning clients: a client's score is the error on points its model was not made from.  The bound
holds for all posterior means at once and for all variances of the grid, so that tuning and the
choice of a variance may use the scores as they like; only the prior may not.  The mean over the
posterior cannot be computed: systems are drawn from it after the choice, and the possible error of
their mean is paid for (`r1_rows.certify_tuned` proves each way of doing so).

Given the first clients, the tuning clients are a uniform sample without replacement from all
others (a finite pool) or independent draws of an environment; for each fixed system the rule's
moment inequality holds under both.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from latecomer.bounds.certificate import Certificate
from latecomer.bounds.unseen_clients.single_level import single_level_kl, single_level_product
from latecomer.errors import InputError
from latecomer.eval.federation.groups import Group
from latecomer.eval.routes.arrivals import arrivals
from latecomer.eval.routes.kinds.declaration import TrainingRoute
from latecomer.eval.routes.kinds.r1 import Tuned
from latecomer.eval.routes.r1_rows import Drawn, Tuning, Variance, tuning_findings
from latecomer.eval.routes.r4_progressive import Plan
from latecomer.eval.scoring.cross_fitting import cross_fitted, fold_groups
from latecomer.eval.scoring.scores import ClientScore
from latecomer.eval.scoring.serving import MASKS
from latecomer.eval.settings.cell import TrainingCell
from latecomer.eval.training.checkpoint_slots import NO_CHECKPOINTS, Checkpoints
from latecomer.eval.training.setup import OnRound, Outcome, Setup, setup_of
from latecomer.models.engine.growing import subset
from latecomer.models.posteriors.tuned import (
    Differentiable,
    Posterior,
    TuneConfig,
    prior_around,
    surrogate,
    tune,
)
from latecomer.models.task.clients import Clients
from latecomer.models.task.state import Params, State

Ints = NDArray[np.int64]

_TUNE, _CHOOSE, _CERTIFY, _NOVEL, _WHOM = range(5)


@dataclass(frozen=True, eq=False)
class System:
    """The system trained on the first clients, and how it is scored with other weights."""

    setup: Setup
    state: State
    folds: int
    fold_seed: int

    @property
    def seed(self) -> int:
        """Training seed."""
        return self.setup.seed

    def scores(self, weights: Params, group: Group, *, folds: int) -> list[ClientScore]:
        """Score a group's clients as new clients of the system with these weights."""
        state = State({**self.state.server, **weights}, self.state.clients)
        score = partial(self.setup.score, state, predictor="deterministic")
        return cross_fitted(score, group, folds=folds, seed=self.fold_seed)

    def drawn(
        self, posterior: Posterior, group: Group, places: Ints, *, purpose: int, folds: int
    ) -> Drawn:
        """Errors of the clients at ``places``, the system drawn afresh for every one of them."""
        errors = np.empty(len(places))
        met = dict.fromkeys(places.tolist(), 0)
        alone = {
            place: Group(group.name, "none", None, subset(group.clients, [place])) for place in met
        }
        for number, place in enumerate(places.tolist()):
            # Each client's draws are numbered separately, whatever is drawn for the others.
            generator = _generator(self.seed, purpose, place, met[place])
            met[place] += 1
            (score,) = self.scores(posterior.draw(generator), alone[place], folds=folds)
            errors[number] = score.error
        return Drawn(places, errors)


def _generator(*key: int) -> torch.Generator:
    state = np.random.SeedSequence([*key, 0x10D]).generate_state(1, np.uint64)[0]
    return torch.Generator().manual_seed(int(state) >> 1)


def _each(n_clients: int, draws: int, seed: int) -> Ints:
    """Give every client the same number of draws."""
    return np.repeat(np.arange(n_clients), draws)


def _at_random(n_clients: int, draws: int, seed: int) -> Ints:
    """Draw a client for every system, uniformly with replacement; equally many draws in all."""
    rng = np.random.default_rng([seed, _WHOM])
    return rng.integers(0, n_clients, n_clients * draws)


_PLACES: Mapping[str, Callable[[int, int, int], Ints]] = {
    "mixture": _each,
    "random_client": _at_random,
    "chernoff": _each,
}


def trained_system(
    cell: TrainingCell,
    on_round: OnRound | None,
    kept: Checkpoints,
) -> tuple[System, Plan, Group, Group]:
    """Train on the first clients alone; return the system, the plan, tuning and new clients.

    Raises
    ------
    InputError
        When the method's weights cannot be tuned.
    """
    wanted = cell.only(TrainingRoute)
    setup = setup_of(cell)
    method, split = setup.method, setup.federation.split
    plan = wanted.plan(split)
    if not isinstance(method, Differentiable) or "deterministic" not in method.predictors:
        raise InputError(
            f"certificates: {method.name} makes clients' weights by no function that a bound "
            "could be minimised through; pefll and fedavg do"
        )
    order, novel = setup.through(*arrivals(setup.dealt, plan))
    rounds, device = setup.budget.rounds, str(order.device)
    slot = kept.slot("first", seed=setup.seed, rounds=rounds, device=device)
    state = setup.train(subset(order, range(plan.first)), slot, on_round=on_round)
    arrived = subset(order, range(plan.first, plan.first + plan.clients))
    tuning = Group("tuning", "none", None, arrived)
    outside = Group("novel", "none", None, novel)
    system = System(setup, state, folds=wanted.folds, fold_seed=split.seed)
    return system, plan, tuning, outside


def evaluate_tuned(
    cell: TrainingCell,
    on_round: OnRound | None = None,
    kept: Checkpoints = NO_CHECKPOINTS,
) -> Outcome:
    """Do the work of one cell of route R1; errors are those of `evaluate_cell`."""
    wanted = cell.only(Tuned)
    sharing = wanted.sharing(cell.n_seeds)
    system, plan, tuning, outside = trained_system(cell, on_round, kept)
    variances, posterior, chosen = _chosen(system, tuning, wanted, sharing)
    folds, draws = system.folds, wanted.draws
    whom = _PLACES[wanted.draws_rule](len(tuning.clients), draws, system.seed)
    outsiders = _each(len(outside.clients), draws, system.seed)
    tuned = Tuning(
        plan=plan,
        variances=variances,
        chosen=chosen,
        n_random=sum(value.numel() for value in posterior.centre.values()),
        gibbs=system.drawn(posterior, tuning, whom, purpose=_CERTIFY, folds=folds),
        mean=tuple(system.scores(posterior.mean, tuning, folds=folds)),
        prior=tuple(system.scores(posterior.centre, tuning, folds=folds)),
        novel_gibbs=system.drawn(posterior, outside, outsiders, purpose=_NOVEL, folds=1),
        novel_mean=tuple(system.scores(posterior.mean, outside, folds=1)),
        novel_prior=tuple(system.scores(posterior.centre, outside, folds=1)),
    )
    rows, artifacts = tuning_findings(wanted, tuned, sharing)
    named = {
        "classes": system.setup.classes,
        "personalization": system.setup.method.personalization,
        "round": cell.train.rounds,
    }
    return Outcome([{**named, **row} for row in rows], artifacts)


def _chosen(
    system: System, tuning: Group, wanted: Tuned, sharing: int
) -> tuple[tuple[Variance, ...], Posterior, int]:
    """Tune a posterior for every variance; choose the one whose estimated bound is the least."""
    n = len(tuning.clients)
    settings = TuneConfig(
        rule=wanted.rule,
        steps=wanted.steps,
        clients_per_step=wanted.clients_per_step,
        rate=wanted.rate,
        delta=wanted.delta * (1 - wanted.draws_share) / sharing,
        n_priors=len(wanted.alphas),
        gamma=wanted.gamma,
    )
    loss = _surrogate_of(system, tuning)
    tried: list[tuple[Variance, Posterior]] = []
    for number, alpha in enumerate(wanted.alphas):
        try:
            prior = prior_around(system.state.server, wanted.weights, alpha)
        except ValueError as error:
            raise InputError(f"certificates r1: {error}") from None
        generator = _generator(system.seed, _TUNE, number)
        posterior = tune(prior, loss, n, settings, generator)
        places = _each(n, 1, system.seed)
        drawn = system.drawn(posterior, tuning, places, purpose=_CHOOSE, folds=system.folds)
        once = drawn.errors
        bound = float(_plain(once, posterior.kl, settings, n))
        mean = float(once.mean())
        tried.append((Variance(float(alpha), posterior.kl, mean, bound), posterior))
    chosen = min(range(len(tried)), key=lambda place: tried[place][0].estimate)
    return tuple(about for about, _ in tried), tried[chosen][1], chosen


def _plain(errors: np.ndarray[Any, Any], nats: float, settings: TuneConfig, n: int) -> Certificate:
    """Return the bound with one draw in place of the posterior's mean: an estimate."""
    shared = {
        "kl_hyper": nats,
        "n_clients": n,
        "delta": settings.delta,
        "n_priors": settings.n_priors,
    }
    if settings.rule == "kl":
        return single_level_kl(empirical_risk=float(errors.mean()), **shared)
    level = float(np.mean(-np.log1p(-(1 - settings.gamma) * errors)))
    return single_level_product(mean_neg_log1m=level, **shared)


def _surrogate_of(
    system: System, tuning: Group
) -> Callable[[Params, int, torch.Generator], Tensor]:
    """Return the surrogate score of a tuning client on one of its folds, drawn at random."""
    setup = system.setup
    method = setup.method
    if not isinstance(method, Differentiable):
        raise TypeError(f"{method.name} has no differentiable weights")
    parts: Sequence[Clients] = [tuning.clients]
    if system.folds > 1:
        cut = fold_groups(tuning, system.folds, seed=system.fold_seed)
        parts = [group.clients for group in cut]

    def loss(weights: Params, place: int, generator: torch.Generator) -> Tensor:
        part = parts[int(torch.randint(len(parts), (), generator=generator))]
        samples = (part.support_of(place), part.query_of(place))
        mask = MASKS[setup.classes]
        return surrogate(method, setup.task, system.state, weights, samples, mask)

    return loss
