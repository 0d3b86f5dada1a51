"""Route R0: certificates from scores of held-out clients, for their population and for others.

The model is trained without the held-out clients, each of them is scored once, and the scores
go through one inequality fixed beforehand.

Validity is conditional on the training side: the data of the seen clients, the schedule, the
trained model, and whatever was chosen with them (rule, delta, folds, order, bets), all of which is
fixed in the resolved study before the first score exists.  A score is a function of one held-out
client, and of its own randomness (folds, Gibbs draws, noise of a shift).  Given the training side,
the clients are

* independent draws of one law (splits ``environment``, ``client_types``, ``client_mixtures``): so
  are their scores, and the inequality (Markov, Chernoff, Ville, a binomial tail) holds for their
  common mean or law; or
* a uniform sample without replacement, in uniform order, from the N' clients not trained on (every
  other split: ids are permuted uniformly before they are cut into groups), so that the scores are
  such a sample from the pool's N' scores.  Means are covered by Hoeffding's comparison, the product
  and the fixed bets by negative association, bets that change along the order only in the forms
  without replacement (``product_wor``, ``betting_wor``, ``wsr_wor``), tails by exact hypergeometric
  counts.  The forms without replacement and the counts subtract the sampled scores from the pool's
  total: they are about the scores as measured, on these points with these draws, and not about the
  clients' expected errors, which the other rules cover too.

Rules that average over orders (``blend`` and those called averaged) take fixed permutations of that
uniform order, drawn by a seed of the study: each is uniform too.  Sorted scores permuted by a fixed
seed would stand in no random order.

The certificate then holds with probability at least 1 - delta for every training side, hence also
unconditionally.  Held-out and seen clients need not be independent, and in a balanced split
they are not: if all untrained clients were held out, nothing would follow about others.

A mean does not say how well the next client to join will be served.  The rule ``conformal`` gives
the next client's quantile; here are two more statements, both exact for i.i.d. clients and for
finite pools: the share of clients whose error exceeds a threshold, and the whole curve of these
shares.

New clients need not be drawn as the certified ones were.  One certificate bounds the mean error
over every population within a radius of the scored one, for all radii at once.  It is therefore a
curve, and a target has a breaking radius.  :mod:`latecomer.bounds.shift.duals` has the proofs.  The
bets are products: the scores Z of a grid point are convex in the error, so that a bound that covers
the mean of Z as measured covers the clients' expected errors as well.

Unless a study asks for bets ``product``, whose curve is 1 as soon as one client's error is 1, they
are a mixture of products with weights, and the grid's weight lies near the radii that the study
declares.  That curve starts from the mean's own certificate by the same mixture: without a shift it
is the statement about clients like the scored ones, which holds at the same delta by itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from latecomer.bounds.certificate import Array, Certificate
from latecomer.bounds.held_out.bets import product_mixture_bets
from latecomer.bounds.held_out.betting import BET_WEIGHTS, orders_for, product_mixture
from latecomer.bounds.shift.duals import DUALS, planned_grid
from latecomer.certify.further_statements import BANDS, share_above, share_band
from latecomer.certify.populations import bet_on, from_the_mean
from latecomer.certify.rule import (
    LEAST_OUTSIDE,
    MEAN_RULES,
    RULE_WITHOUT_ORDERS,
    RULES,
    Asked,
    Rule,
    best_of_rule,
    rules_for,
)
from latecomer.certify.rules.declaration import is_own
from latecomer.certify.sentences import of_no_pool
from latecomer.certify.words import counts, exact
from latecomer.errors import InputError, nearest
from latecomer.eval.scoring.scores import ClientScore

WHOSE = {
    ("finite-pool", "unseen-client"): "the mean is over the {} clients not trained on, "
    "certified ones included",
    ("finite-pool", "next-client"): "the next client is drawn from the other ones of the {} "
    "clients not trained on",
    (
        "iid",
        "unseen-client",
    ): "clients are drawn independently from one environment, a law over the "
    "finite set of samples that no seen client holds",
    ("iid", "next-client"): "the next client is drawn independently from the same environment",
}


@dataclass(frozen=True)
class Scored:
    """Scores of held-out clients, and how the clients were drawn.

    Attributes
    ----------
    scores : sequence of ClientScore
        One per held-out client, in the order of their (uniformly permuted) ids.
    sampling : {"finite-pool", "iid"}
        How the clients were drawn.
    pool_size : int or None
        Clients that were not trained on, certified ones included; needed for finite pools.
    predictor : {"deterministic", "gibbs"}
        Which predictor the scores belong to.  For ``gibbs`` every client's score must come from a
        fresh draw: that keeps the scores exchangeable and needs no Monte-Carlo term.
    folds : int
        Folds of a client's own points behind each score; 1: served from support, scored on query.
    shift : str
        Shift of every client's data, support and query alike; ``none`` if unshifted.
    realised : bool
        Whether, for a randomised predictor, the study asks about the scores of the draws made.
    orders_seed : int
        Seed of the permutations of the clients' order that a rule averages over.
    left_out : int
        Untrained clients of the data that were left out of the split, and are not in the pool: too
        small, not drawn, or of a group that is held back.
    """

    scores: Sequence[ClientScore]
    sampling: str
    pool_size: int | None
    predictor: str
    folds: int = 1
    shift: str = "none"
    realised: bool = False
    orders_seed: int = 0
    left_out: int = 0

    @property
    def losses(self) -> list[float]:
        """The clients' errors, in order."""
        return [score.error for score in self.scores]

    @property
    def mean(self) -> float:
        """Mean error of the clients."""
        return float(np.mean(self.losses))

    def check(self, rule: Rule) -> None:
        """Refuse with an ``InputError`` a rule whose proof does not cover these clients."""
        k, pool = len(self.scores), self.pool_size
        if self.sampling == "finite-pool" and not rule.finite_pool:
            raise InputError(
                f"rule {rule.name} needs clients drawn independently, these are a finite pool; "
                "leave the rule out"
            )
        if self.sampling == "iid" and not rule.iid:
            raise InputError(
                f"rule {rule.name} is for finite pools, these clients are drawn independently"
            )
        if self.sampling == "finite-pool" and (pool is None or pool < k + LEAST_OUTSIDE):
            raise InputError(
                f"a finite-pool certificate needs at least {LEAST_OUTSIDE} clients that are "
                f"neither trained on nor certified, got {k} held-out clients in a pool of "
                f"{pool}"
            )
        if self._realised(rule) and self.predictor == "gibbs" and not self.realised:
            raise InputError(
                f"rule {rule.name} is about the scores of a pool as measured, not about the "
                "expected errors of a gibbs predictor: say realised: true, or use "
                f"{RULE_WITHOUT_ORDERS}"
            )
        if k < rule.least:
            raise InputError(f"rule {rule.name} needs at least {rule.least} clients, got {k}")

    def _realised(self, rule: Rule) -> bool:
        return self.sampling == "finite-pool" and rule.realised

    def about(self, rule: Rule) -> tuple[str, ...]:
        """Say what the certificate is about: the system, the clients, the scores, the orders."""
        support = sorted(score.n_support for score in self.scores)
        system = f"the system is run with {counts(support, 'support sample')} a client"
        if self.folds > 1:
            system += (
                f" (scores average over {self.folds} folds of a client's own points, each scored "
                "by the model served from the others)"
            )
        whose = WHOSE[self.sampling, rule.population].format(self.pool_size)
        if self.left_out:
            whose += f"; the {of_no_pool(self.left_out)}"
        if self.shift != "none":
            whose += f", all of them under {self.shift}, support and query alike"
        about = [system, whose]
        if self.sampling == "finite-pool":
            about.append(self._scores_meant(rule))
        if rule.orders:
            about.append(
                f"{orders_for(len(self.scores))} permutations of the random order of the clients, "
                f"drawn by seed {self.orders_seed}, which stood in the study before the first score"
            )
        return tuple(about)

    def _scores_meant(self, rule: Rule) -> str:
        # Also where no posterior is drawn from: fine-tuning draws minibatches, privacy noise.
        said = "errors are meant as measured on these clients' own points"
        if rule.realised:
            return f"{said}, with the draws made"
        return f"{said}; expected errors are covered too"

    def tagged(self, issued: Certificate, rule: Rule) -> Certificate:
        """Give a calculator's result the tags of these clients."""
        ledger = {
            "clients" if event == "samples" else event: share
            for event, share in issued.delta.items()
        }
        return replace(
            issued,
            population=rule.population,
            sampling=self.sampling,
            predictor=self.predictor,
            delta=MappingProxyType(ledger),
            assumptions=(*issued.assumptions, *self.about(rule)),
        )


def certify_scores(scored: Scored, *, rule: str, level: float) -> Certificate:
    """Certify the mean error of clients like these (or the next client's) from held-out scores.

    ``rule`` is one of the mean (``MEAN_RULES``), or ``conformal``; ``level`` in (0, 1) is delta, or
    alpha for ``conformal``. The certificate is rigorous, of population ``unseen-client``
    (``next-client`` for ``conformal``).

    Raises
    ------
    InputError
        When the rule is unknown, its proof does not cover the sampling, or the pool holds fewer
        than ten clients beyond the certified ones.

    Examples
    --------
    >>> scores = [ClientScore(i, 20, 10, 1, .3) for i in range(30)]
    >>> c = certify_scores(Scored(scores, "finite-pool", 40, "deterministic"),
    ...                    rule="product", level=.05)
    >>> c.population, c.sampling, round(float(c), 4)
    ('unseen-client', 'finite-pool', 0.1855)
    """
    known = {**rules_for("r0"), **rules_for("zero_one")}
    legal = [name for name, one in known.items() if one.bound is not None]
    chosen = RULES.get(rule)
    if chosen is None or chosen.bound is None or (rule not in legal and not is_own(rule)):
        raise InputError(
            f"rule must be one of {', '.join(legal)}, got rule={rule}{nearest(rule, legal)}"
        )
    scored.check(chosen)
    return scored.tagged(_bounded(scored, chosen, level), chosen)


def certify_best(scored: Scored, *, rules: Sequence[str], delta: float) -> Certificate:
    """Take the smallest of several certificates, and pay for the choice.

    Each of the ``rules``, distinct ones of the mean that were fixed before the scores, has an equal
    part of ``delta``: all certificates hold together with probability 1 - delta, so the smallest
    one does.  The smallest of several certificates at ``delta`` each would not.

    Raises
    ------
    InputError
        When a rule is unknown, repeated, or does not cover the sampling.

    Examples
    --------
    >>> scores = [ClientScore(i, 20, 10, 1, .3) for i in range(30)]
    >>> c = certify_best(Scored(scores, "finite-pool", 40, "deterministic"),
    ...                  rules=["product", "wsr_wor"], delta=.05)
    >>> sorted(c.delta), round(float(c), 4)
    (['clients, product', 'clients, wsr_wor'], 0.1734)
    """
    wrong = [rule for rule in rules if rule not in MEAN_RULES]
    if wrong or len(set(rules)) < max(2, len(rules)):
        legal = ", ".join(MEAN_RULES)
        raise InputError(f"rules must be two or more different ones of {legal}, got {list(rules)}")
    for rule in rules:
        scored.check(MEAN_RULES[rule])
    best = _bounded(scored, best_of_rule(rules, scored.tagged), delta)
    paid = f"the smallest of {len(rules)} certificates ({', '.join(rules)}), which share delta"
    return replace(best, assumptions=(*best.assumptions, paid))


def _bounded(scored: Scored, rule: Rule, level: float) -> Certificate:
    """Return what a rule's calculator says of the scores, in the order of the clients."""
    if rule.bound is None:
        raise TypeError(f"rule {rule.name} bounds no mean")
    return rule.bound(Asked(scored.losses, level, scored.pool_size, scored.orders_seed))


_ONE_DRAW = (
    "the model, the threshold and the number of clients were fixed before the first score was seen",
    "a client's error exceeds the threshold or not: one 0/1 draw a client",
)


def fractions_above(
    scored: Scored, *, thresholds: Sequence[float], delta: float
) -> dict[float, Certificate]:
    """Bound, for each threshold, the share of clients whose error exceeds it.

    Thresholds are errors in [0, 1), fixed before the scores; they share ``delta`` equally, so that
    all the bounds (`share_above`) hold together with probability 1 - delta.  A certificate's value
    is a share of clients, not an error.

    Examples
    --------
    >>> scores = [ClientScore(i, 20, 10, 1 + 3 * (i == 0), .3) for i in range(30)]
    >>> fractions = fractions_above(Scored(scores, "finite-pool", 40, "deterministic"),
    ...                         thresholds=[.2, .5], delta=.1)
    >>> {t: float(c) for t, c in fractions.items()}
    {0.2: 0.075, 0.5: 0.05}
    """
    scored.check(RULES["fraction_above"])
    share, losses, pool = delta / len(thresholds), np.array(scored.losses), _pool(scored)
    fractions = {}
    for threshold in thresholds:
        issued = share_above(losses, threshold, delta=share, pool_size=pool)
        if pool is None:
            sampled = issued.terms["empirical_risk"]
            terms = {"sampled_share": sampled, "price": issued.terms["price"]}
            issued = replace(issued, terms=MappingProxyType(terms), assumptions=_ONE_DRAW)
        named = f"a bound of the share of clients with error above {exact(threshold)}"
        if len(thresholds) > 1:
            named += f"; the {len(thresholds)} thresholds share delta, their bounds hold at once"
        tagged = scored.tagged(issued, RULES["fraction_above"])
        fractions[threshold] = replace(tagged, assumptions=(*tagged.assumptions, named))
    return fractions


def error_curve(
    scored: Scored, *, delta: float, band: str = BANDS[0]
) -> tuple[Certificate, list[dict[str, Any]]]:
    """Bound the share of clients above every threshold at once.

    Independent clients: by equal local levels, narrow where few or nearly all clients are above, or
    one width everywhere (Dvoretzky, Kiefer and Wolfowitz with Massart's constant), as ``band`` says
    beforehand.  In a finite pool: the exact width for sampling without replacement.  ``delta``, at
    most 1/2, is of the whole curve.

    Returns
    -------
    Certificate
        Its ``value`` is the largest excess over a sampled share.
    list of dict
        Steps of the curve by rising ``threshold``: from this threshold up to the next, ``sampled``
        is the share of sampled clients with a larger error, and ``upper`` the bound.

    Examples
    --------
    >>> scores = [ClientScore(i, 20, 10, i % 2, .3) for i in range(30)]
    >>> width, curve = error_curve(Scored(scores, "finite-pool", 40, "deterministic"), delta=.05)
    >>> round(float(width), 4), [(step["threshold"], step["sampled"]) for step in curve]
    (0.1083, [(0.0, 0.5), (0.1, 0.0)])
    """
    scored.check(RULES["error_curve"])
    found = share_band(len(scored.scores), delta=delta, pool_size=_pool(scored), band=band)
    names = ("threshold", "sampled", "upper")
    steps = [dict(zip(names, step, strict=True)) for step in found.steps(np.array(scored.losses))]
    return scored.tagged(found.certificate(delta), RULES["error_curve"]), steps


def _pool(scored: Scored) -> int | None:
    """Return the size of the pool that shares are counted in; None for independent clients."""
    return None if scored.sampling == "iid" else scored.pool_size or len(scored.scores)


BETS = ("product_mixture", "product")
"""Rules that bet on populations, the default first."""
# Where a curve's radii lie between no shift (0) and any shift (1); each ball has its own scale.
_PLACES = np.arange(46) / 50


@dataclass(frozen=True, eq=False)
class Populations:
    """One certificate for populations within every radius of the scored one.

    ``at`` has certificates by requested radius (for ``subgroup``, by share), ``curve`` the records
    ``radius value`` from no shift outwards until nothing is certified any more, ``breaking`` the
    largest radius (smallest share) at which the target holds: NaN where there is none, None without
    a target.
    """

    at: dict[float, Certificate]
    curve: list[dict[str, Any]]
    breaking: float | None = None


def ball_of(rule: str) -> str:
    """Return the ball by which a rule compares populations: ``kl`` of ``kl_ball``."""
    return rule.removesuffix("_ball")


def certify_populations(
    scored: Scored,
    *,
    rule: str,
    radii: tuple[float, ...],
    delta: float,
    target: float | None = None,
    bets: str = BETS[0],
) -> Populations:
    """Bound the mean error over every population within each radius, all with probability 1-delta.

    ``radii`` are of the rule's ball; for ``subgroup``, shares of clients.  ``delta`` is of the
    whole curve beyond no shift and of every breaking radius, at which the mean error meets
    ``target``. Without a shift the value of ``product_mixture`` is the mean's own certificate, a
    statement by itself at the same delta; bets ``product`` have equal weights of the grid.

    Examples
    --------
    >>> scores = [ClientScore(i, 20, 10, 1 + i % 2, .3) for i in range(40)]
    >>> scored = Scored(scores, "iid", None, "deterministic")
    >>> certified = certify_populations(scored, rule="kl_ball", radii=(0.0, 0.1), delta=.05,
    ...                                 target=.3)
    >>> [round(float(one), 3) for one in certified.at.values()], round(certified.breaking, 3)
    ([0.216, 0.342], 0.043)
    """
    scored.check(RULES[rule])
    ball = ball_of(rule)
    grid = np.union1d(DUALS[ball].radius_at(_PLACES), radii)
    if bets == "product":
        issue, breaks = bet_on(scored.losses, ball=ball, delta=delta)
        whole = issue(grid)
    else:
        plan = planned_grid(ball=ball, radii=radii, n_clients=len(scored.scores), delta=delta)
        near = product_mixture_bets(weights=BET_WEIGHTS)
        issue, breaks = bet_on(scored.losses, ball=ball, delta=delta, bets=near, grid=plan)
        own = product_mixture(losses=scored.losses, delta=delta, weights=BET_WEIGHTS)
        whole = from_the_mean(issue(grid), grid, ball, lambda: float(own))
    breaking = None if target is None else float(breaks(np.asarray(target)))
    at, curve = _told(whole, grid, radii, rising=ball != "subgroup")
    tagged = {radius: scored.tagged(one, RULES[rule]) for radius, one in at.items()}
    return Populations(tagged, curve, breaking)


def _told(
    whole: Certificate, grid: Array, radii: tuple[float, ...], *, rising: bool
) -> tuple[dict[float, Certificate], list[dict[str, Any]]]:
    """Return the certificates at the radii asked for, and the curve from no shift outwards."""
    outwards = np.argsort(grid if rising else -grid)
    values = whole.value[outwards].tolist()
    curve = [
        {"radius": radius, "value": value}
        for i, (radius, value) in enumerate(zip(grid[outwards].tolist(), values, strict=True))
        if radius in radii or not i or values[i - 1] < 1
    ]
    at = {radius: _one(whole, int(np.flatnonzero(grid == radius)[0])) for radius in radii}
    return at, curve


def _one(curve: Certificate, place: int) -> Certificate:
    """Return a curve's certificate at one radius; its delta is that of the whole curve."""
    terms = {
        name: np.broadcast_to(part, curve.value.shape)[place] for name, part in curve.terms.items()
    }
    return replace(curve, value=curve.value[place], terms=MappingProxyType(terms))
