"""The cell of route R1: a prior from some clients, a posterior tuned on others, its certificate.

The method trains on the first clients.  The prior is a Gaussian around the trained weights, and the
posterior's mean is moved down the gradient of the same bound that is issued.  The bound's sample is
the tuning clients: a client's score is the error on points its model was not made from.  The bound
holds for all posterior means at once and for all variances of the grid, so that tuning and the
choice of a variance may use the scores as they like; only the prior may not.  The mean over the
posterior cannot be computed: systems are drawn from it after the choice, and the possible error of
their mean is paid for (`certify_tuned` proves each way of doing so).

Given the first clients, the tuning clients are a uniform sample without replacement from all
others (a finite pool) or independent draws of an environment; for each fixed system the rule's
moment inequality holds under both.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from latecomer.bounds.certificate import Certificate
from latecomer.bounds.held_out.bets import wsr_averaged
from latecomer.bounds.held_out.betting import betting_mixture
from latecomer.bounds.held_out.losses import chernoff_kl
from latecomer.bounds.unseen_clients.single_level import (
    kl_from_draws,
    product_from_draws,
    single_level_kl,
    single_level_product,
)
from latecomer.certify.words import counts
from latecomer.errors import InputError
from latecomer.eval.federation.groups import Group
from latecomer.eval.results.rows import Artifact
from latecomer.eval.routes.arrivals import arrivals
from latecomer.eval.routes.contract import (
    behind,
    certificate_facts,
    certificate_rows,
    outcome_of,
    price_rows,
    sharing_delta,
)
from latecomer.eval.routes.kinds.declaration import TrainingRoute
from latecomer.eval.routes.kinds.r1 import Tuned
from latecomer.eval.routes.r4_progressive import Plan
from latecomer.eval.scoring.scores import (
    ClientScore,
    client_rows,
    cross_fitted,
    fold_groups,
    mean_row,
)
from latecomer.eval.scoring.serving import MASKS, generator_of
from latecomer.eval.settings.cell import TrainingCell
from latecomer.eval.training.checkpoint_slots import NO_CHECKPOINTS, Checkpoints
from latecomer.eval.training.setup import OnRound, Outcome, Setup, setup_of
from latecomer.models.engine.training import subset
from latecomer.models.posteriors import (
    Differentiable,
    Posterior,
    TuneConfig,
    prior_around,
    surrogate,
    tune,
)
from latecomer.models.task.clients import Clients
from latecomer.models.task.state import Params, State

Row = dict[str, Any]
Floats = NDArray[np.float64]
# Bets 1, 1/2, 1/4, 1/8 against a mean of levels: more bets cost more than they gain.
_BETS = 4


DRAWS_RULES: Mapping[str, Callable[[Floats, float], Certificate]] = MappingProxyType(
    {
        "mixture": lambda values, delta: betting_mixture(losses=values, delta=delta, n_bets=_BETS),
        "random_client": lambda values, delta: wsr_averaged(losses=values, delta=delta),
        "chernoff": lambda values, delta: chernoff_kl(
            empirical_risk=float(values.mean()), n_samples=values.size, delta=delta
        ),
    }
)
"""Upper limits of the mean of the draws' means, from values in [0, 1] in the order of drawing."""


@dataclass(frozen=True)
class Variance:
    """One variance of the grid: its tuned posterior's KL, and its estimated error and bound."""

    alpha: float
    kl_hyper: float
    error: float
    estimate: float


@dataclass(frozen=True, eq=False)
class Drawn:
    """Errors of systems drawn from a posterior, each on one client, and the clients' places."""

    places: NDArray[np.int64]
    errors: Floats

    def of_clients(self, n_clients: int) -> list[float | None]:
        """Return every client's mean error, None where no system was drawn for it."""
        own = [self.errors[self.places == place] for place in range(n_clients)]
        return [float(errors.mean()) if errors.size else None for errors in own]


@dataclass(frozen=True, eq=False)
class Measured:
    """Errors of a group by systems drawn afresh, and scores of posterior's and prior's means."""

    group: Group
    gibbs: Drawn
    mean: Sequence[ClientScore]
    prior: Sequence[ClientScore]

    def rows(self) -> Iterator[Row]:
        """Yield each client's error by predictor, and the means over clients."""
        by_predictor: dict[str, list[float | None]] = {
            "gibbs": self.gibbs.of_clients(len(self.mean)),
            "deterministic": [score.error for score in self.mean],
            "prior": [score.error for score in self.prior],
        }
        for predictor, errors in by_predictor.items() if self.mean else ():
            common: Row = {"predictor": predictor}
            about = client_rows(self.group, self.mean, common)
            for row, error in zip(about, errors, strict=True):
                if error is not None:
                    yield {**row, "value": float(error)}
            measured = [error for error in errors if error is not None]
            yield mean_row(self.group, measured, common)


@dataclass(frozen=True, eq=False)
class Tuning:
    """A tuned posterior: the grid of variances, which is chosen, and what it was measured on."""

    plan: Plan
    variances: tuple[Variance, ...]
    chosen: int
    n_random: int
    own: Measured
    novel: Measured


def certify_tuned(
    errors: Floats,
    *,
    kl: float,
    rule: str,
    delta: float,
    draws_share: float,
    gamma: float,
    n_priors: int,
    plan: Plan,
    draws_rule: str = "mixture",
) -> Certificate:
    r"""Certify the error of a system drawn afresh from the posterior for every client.

    The mean over clients and posterior of :math:`\ell`, the error s itself for rule ``kl`` and
    :math:`-\ln(1 - (1-\gamma)s)/(-\ln\gamma)` for ``product``, is bounded from the draws with
    probability :math:`1-\delta'`, a ``draws_share`` of :math:`\delta`; the rule's single-level
    bound then spends the rest of it, and ``product`` divides its value by :math:`1-\gamma`.

    - ``mixture``: equally many draws per client.  Values are independent given the posterior, the
      mean of their means is the one wanted: :math:`E\prod_t(1+b(\mu-\ell_t)) =
      \prod_t(1+b(\mu-\mu_t)) \le 1`, so that bets b may be averaged (``betting_mixture``).
    - ``random_client``: a client is drawn for every system, uniformly and with replacement:
      values are i.i.d. with the wanted mean (``wsr_averaged``).
    - ``chernoff``: as ``mixture``, from the mean alone; it ignores the values' small spread.

    ``errors`` are those of systems drawn independently after the posterior was settled, in that
    order; ``kl`` is KL(posterior || prior) in nats; ``n_priors`` variances were tried.

    Examples
    --------
    >>> plan = Plan(first=40, clients=50, block=50, pool=60, independent=False)
    >>> bound = certify_tuned(np.full((50, 20), .15), kl=.5, rule="product", delta=.05,
    ...                       draws_share=.2, gamma=.02, n_priors=3, plan=plan)
    >>> round(float(bound), 3), round(float(bound.delta_total), 10)
    (0.248, 0.05)
    """
    issued = _STEPS[rule](
        np.asarray(errors, dtype=np.float64).ravel(),
        bounded=DRAWS_RULES[draws_rule],
        gamma=gamma,
        for_draws=draws_share * delta,
        given={
            "delta": delta - draws_share * delta,
            "kl_hyper": kl,
            "n_clients": plan.clients,
            "n_priors": n_priors,
        },
    )
    return _tagged(issued, plan, n_priors, draws_rule)


def _tagged(issued: Certificate, plan: Plan, n_priors: int, draws_rule: str) -> Certificate:
    """Say what the certificate is about and what it rests on."""
    drawn = "as many systems were drawn for every client"
    if draws_rule == "random_client":
        drawn = "with every system a client was drawn at random"
    return replace(
        issued,
        sampling="iid" if plan.independent else "finite-pool",
        assumptions=(
            "every client score is taken on points that the client's model was not generated from",
            f"prior and standardisation come from {plan.first} clients that the scores are not of",
            f"the {n_priors} variances were fixed beforehand, their union is paid for",
            "the system is drawn from the posterior anew for every client; the draws of the "
            "certificate were made after the posterior was settled",
            f"{drawn}; the failure probability is over the choice of these clients and over these "
            "draws",
            "clients are drawn independently from one environment"
            if plan.independent
            else f"a finite pool: the mean is over the {plan.pool} clients that did not train the "
            "prior, those that tuned the posterior included",
        ),
    )


_STEPS: Mapping[str, Callable[..., Certificate]] = {
    "product": product_from_draws,
    "kl": kl_from_draws,
}


def tuning_findings(
    wanted: Tuned, tuned: Tuning, n_seeds: int
) -> tuple[list[Row], dict[str, Artifact]]:
    """Return the rows of scores and certificate, everything behind it, and the grid."""
    taken, own = tuned.variances[tuned.chosen], tuned.own
    issued = certify_tuned(
        own.gibbs.errors,
        kl=taken.kl_hyper,
        rule=wanted.rule,
        delta=wanted.delta / n_seeds,
        draws_share=wanted.draws_share,
        gamma=wanted.gamma,
        n_priors=len(tuned.variances),
        plan=tuned.plan,
        draws_rule=wanted.draws_rule,
    )
    support = sorted(score.n_support for score in own.mean)
    note = f"the system is run with {counts(support, 'support sample')} a client"
    issued = sharing_delta(replace(issued, assumptions=(*issued.assumptions, note)), n_seeds)
    bound = f"r1:{wanted.rule}"
    where: Row = {**own.group.condition(), "n_clients": len(own.mean)}
    pool_size = None if tuned.plan.independent else tuned.plan.pool
    rows = [
        *own.rows(),
        *tuned.novel.rows(),
        *certificate_rows(issued, bound=bound, common=where),
        *price_rows(issued, bound=bound, common=where, pool_size=pool_size),
    ]
    facts = certificate_facts(issued, bound=bound, inputs=_inputs(wanted, tuned))
    grid = [
        {"bound": bound, **asdict(one), "chosen": int(place == tuned.chosen)}
        for place, one in enumerate(tuned.variances)
    ]
    return rows, {
        **behind(facts),
        "tuning": Artifact(kind="tuning", table=grid, axes=("alpha",)),
        # With the divergences above, these are all the certificate's inputs: it can be issued
        # again, by another rule too, without training.
        "draws": Artifact(
            kind="draws",
            arrays={"place": own.gibbs.places, "error": own.gibbs.errors},
            axes=("draw",),
            ids={"client": [score.client for score in own.mean]},
        ),
    }


def _inputs(wanted: Tuned, tuned: Tuning) -> list[tuple[str, float, str]]:
    taken, own = tuned.variances[tuned.chosen], tuned.own
    support = sorted(score.n_support for score in own.mean)
    return [
        ("kl_hyper", taken.kl_hyper, "KL(posterior || prior) of the tuned posterior, nats"),
        ("alpha", taken.alpha, "variance taken, relative to each tensor's mean square"),
        ("n_priors", float(len(tuned.variances)), "variances tried"),
        ("n_random", float(tuned.n_random), "weights that are random"),
        (
            "gibbs_error",
            float(own.gibbs.errors.mean()),
            "mean error of drawn systems, tuning clients",
        ),
        (
            "mean_parameter_error",
            float(np.mean([score.error for score in own.mean])),
            "mean error of the posterior's mean weights, tuning clients; not certified",
        ),
        (
            "prior_error",
            float(np.mean([score.error for score in own.prior])),
            "mean error of the prior's mean weights, tuning clients; not certified",
        ),
        ("n_clients", float(len(own.mean)), "clients the posterior was tuned on"),
        ("first", float(tuned.plan.first), "clients the prior was trained on"),
        ("pool_size", float(tuned.plan.pool), "clients that did not train the prior"),
        ("n_draws", float(own.gibbs.errors.size), "systems drawn, over all clients"),
        ("gamma", float(wanted.gamma), "shrinkage of scores, rule product"),
        ("steps", float(wanted.steps), "gradient steps on the bound, each variance"),
        ("folds", float(wanted.folds), "1: support and query data as split"),
        ("n_support_min", float(support[0]), "support samples of the smallest tuning client"),
        ("n_support_max", float(support[-1]), "support samples of the largest tuning client"),
    ]


Ints = NDArray[np.int64]

_TUNE, _CHOOSE, _CERTIFY, _NOVEL, _WHOM = range(5)
_R1 = 0x10D  # last in the keys of its draws


@dataclass(frozen=True, eq=False)
class System:
    """The system trained on the first clients, and how it is scored with other weights."""

    setup: Setup
    state: State
    folds: int

    @property
    def fold_seed(self) -> int:
        """Seed of the folds: the split's."""
        return self.setup.federation.split.seed

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
            generator = generator_of(self.seed, purpose, place, met[place], _R1)
            met[place] += 1
            (score,) = self.scores(posterior.draw(generator), alone[place], folds=folds)
            errors[number] = score.error
        return Drawn(places, errors)

    def measured(
        self, posterior: Posterior, group: Group, places: Ints, *, purpose: int, folds: int
    ) -> Measured:
        """Measure a group's clients, the systems drawn for those at ``places``."""
        return Measured(
            group,
            self.drawn(posterior, group, places, purpose=purpose, folds=folds),
            self.scores(posterior.mean, group, folds=folds),
            self.scores(posterior.centre, group, folds=folds),
        )

    def prior(self, route: str, weights: Sequence[str], variance: float) -> Posterior:
        """Return the Gaussian around the trained weights whose names begin so."""
        try:
            return prior_around(self.state.server, weights, variance)
        except ValueError as error:
            raise InputError(f"certificates {route}: {error}") from None


def _each(n_clients: int, draws: int) -> Ints:
    """Give every client the same number of draws."""
    return np.repeat(np.arange(n_clients), draws)


def trained_system(
    cell: TrainingCell,
    on_round: OnRound | None,
    kept: Checkpoints,
) -> tuple[System, Plan, Group, Group]:
    """Train on the first clients alone; return the system, the plan, tuning and new clients.

    InputError where the method's weights cannot be tuned.
    """
    wanted = cell.only(TrainingRoute)
    setup = setup_of(cell)
    method, plan = setup.method, wanted.plan(setup.federation.split)
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
    return System(setup, state, wanted.folds), plan, tuning, outside


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
    n, folds = len(tuning.clients), system.folds
    whom, outsiders = (_each(len(one.clients), wanted.draws) for one in (tuning, outside))
    if wanted.draws_rule == "random_client":
        whom = np.random.default_rng([system.seed, _WHOM]).integers(0, n, n * wanted.draws)
    tuned = Tuning(
        plan=plan,
        variances=variances,
        chosen=chosen,
        n_random=sum(value.numel() for value in posterior.centre.values()),
        own=system.measured(posterior, tuning, whom, purpose=_CERTIFY, folds=folds),
        novel=system.measured(posterior, outside, outsiders, purpose=_NOVEL, folds=1),
    )
    rows, artifacts = tuning_findings(wanted, tuned, sharing)
    return outcome_of(system.setup, cell.train.rounds, rows, artifacts)


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
        prior = system.prior("r1", wanted.weights, alpha)
        generator = generator_of(system.seed, _TUNE, number, _R1)
        posterior = tune(prior, loss, n, settings, generator)
        drawn = system.drawn(posterior, tuning, _each(n, 1), purpose=_CHOOSE, folds=system.folds)
        bound = float(_plain(drawn.errors, posterior.kl, settings, n))
        mean = float(drawn.errors.mean())
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
