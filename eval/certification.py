"""Route R0: certificates from the scores of clients that were held out of training.

The model is trained without the certification clients, each of them is scored once, and the scores
go through one inequality fixed beforehand.

Validity is conditional on the training side: the data of the seen clients, the schedule, the
trained model, and whatever was chosen with them (rule, delta, folds, order, bets), all of which
stands in the resolved study before the first score exists.  A score is a function of one held-out
client, and of randomness of its own (folds, Gibbs draws, noise of a shift).  Given the training
side, the clients are

* independent draws of one law (split ``environment``): so are their scores, and the inequality
  (Markov, Chernoff, Ville, a binomial tail) holds for their common mean or law; or
* a uniform sample without replacement, in uniform order, from the N' clients not trained on (every
  other split: ids are permuted uniformly before they are cut into groups), so that the scores are
  such a sample from the pool's N' scores: means are covered by Hoeffding's comparison, the product
  and the fixed bets by negative association, adaptive bets only in the form ``wsr_wor``, tails by
  exact hypergeometric counts.

It then holds with probability at least 1 - delta whatever the training side was, hence also
without the condition.  Held-out and training clients need not be independent of each other, and in
a balanced split they are not: with everybody untrained held out, nothing about other clients would
follow.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from latecomer.bounds.certificate import Certificate
from latecomer.eval.errors import InputError, nearest
from latecomer.eval.metrics import ClientScore
from latecomer.eval.rules import LEAST_OUTSIDE, MEAN_RULES, RULES, Rule

__all__ = ["Scored", "certify_best", "certify_scores"]

_WHOSE = {
    ("finite-pool", "unseen-client"): "the mean is over the {} clients not trained on, "
    "certified ones included",
    ("finite-pool", "next-client"): "the next client is drawn from the other ones of the {} "
    "clients not trained on",
    ("iid", "unseen-client"): "clients are drawn independently from one environment",
    ("iid", "next-client"): "the next client is drawn independently from the same environment",
}


@dataclass(frozen=True)
class Scored:
    """Scores of held-out clients, and how these were drawn.

    Attributes
    ----------
    scores : sequence of ClientScore
        One per certification client, in the order of their (uniformly permuted) ids.
    sampling : {"finite-pool", "iid"}
        How the clients were drawn.
    pool_size : int or None
        Clients that were not trained on, certified ones included; needed for finite pools.
    predictor : {"deterministic", "gibbs"}
        Which predictor the scores belong to.  For ``gibbs`` every client's score must come from a
        fresh draw: that keeps the scores exchangeable and needs no Monte-Carlo term.
    folds : int
        Folds of a client's own points behind each score; 1 for its support and query.
    shift : str
        What every client's data went through, support and query alike; ``none`` if nothing.
    """

    scores: Sequence[ClientScore]
    sampling: str
    pool_size: int | None
    predictor: str
    folds: int = 1
    shift: str = "none"

    @property
    def losses(self) -> list[float]:
        """The clients' errors, in order."""
        return [score.error for score in self.scores]

    def check(self, rule: Rule) -> None:
        """Refuse a rule whose proof does not cover these clients.

        Raises
        ------
        InputError
        """
        k, pool = len(self.scores), self.pool_size
        if self.sampling == "finite-pool" and not rule.finite_pool:
            raise InputError(
                f"rule {rule.name} needs clients drawn independently, these are a finite pool; "
                "use wsr_wor"
            )
        if self.sampling == "iid" and not rule.iid:
            raise InputError(
                f"rule {rule.name} is for finite pools, these clients are drawn independently"
            )
        if self.sampling == "finite-pool" and (pool is None or pool < k + LEAST_OUTSIDE):
            raise InputError(
                f"a finite-pool certificate needs at least {LEAST_OUTSIDE} clients that are "
                f"neither trained on nor certified, got {k} certification clients in a pool of "
                f"{pool}"
            )
        if k < rule.least:
            raise InputError(f"rule {rule.name} needs at least {rule.least} clients, got {k}")

    def about(self, population: str) -> tuple[str, ...]:
        """Say what the certificate is about: the system, the clients, the shift."""
        support = sorted(score.n_support for score in self.scores)
        system = f"the system is run with {support[0]} to {support[-1]} support samples a client"
        if self.folds > 1:
            system += (
                f" (scores average over {self.folds} folds of a client's own points, each scored "
                "by the model served from the others)"
            )
        whose = _WHOSE[self.sampling, population].format(self.pool_size)
        if self.shift != "none":
            whose += f", all of them under {self.shift}, support and query alike"
        return system, whose

    def tagged(self, issued: Certificate, population: str) -> Certificate:
        """Give a calculator's result the tags of these clients."""
        ledger = {
            "clients" if event == "samples" else event: share
            for event, share in issued.delta.items()
        }
        return replace(
            issued,
            population=population,
            sampling=self.sampling,
            predictor=self.predictor,
            delta=MappingProxyType(ledger),
            assumptions=(*issued.assumptions, *self.about(population)),
        )


def certify_scores(scored: Scored, *, rule: str, level: float) -> Certificate:
    """Certify the mean error of clients like these (or the next client's) from held-out scores.

    Parameters
    ----------
    scored : Scored
        The held-out clients' scores, their order and sampling.
    rule : str
        A rule of the mean (``MEAN_RULES``), or ``conformal``.
    level : float
        Failure probability in (0, 1): delta, or alpha for ``conformal``.

    Returns
    -------
    Certificate
        Population ``unseen-client`` (``next-client`` for ``conformal``); rigorous.

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
    chosen = RULES.get(rule)
    if chosen is None or chosen.bound is None:
        legal = [name for name, one in RULES.items() if one.bound is not None]
        raise InputError(
            f"rule must be one of {', '.join(legal)}, got rule={rule}{nearest(rule, legal)}"
        )
    scored.check(chosen)
    issued = chosen.bound(scored.losses, level, scored.pool_size)
    return scored.tagged(issued, chosen.population)


def certify_best(scored: Scored, *, rules: Sequence[str], delta: float) -> Certificate:
    """Take the smallest of several certificates, and pay for the choice.

    Each rule has an equal part of ``delta``: all certificates hold together with probability
    1 - delta, so the smallest one does.  The smallest of several certificates at ``delta`` each
    would not.

    Parameters
    ----------
    scored : Scored
    rules : sequence of str
        Distinct rules of the mean, fixed before the scores.
    delta : float
        Failure probability of the result.

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
    each = {rule: certify_scores(scored, rule=rule, level=delta / len(rules)) for rule in rules}
    best = min(each.values(), key=float)
    ledger = {f"clients, {rule}": one.delta_total for rule, one in each.items()}
    paid = f"the smallest of {len(rules)} certificates ({', '.join(rules)}), which share delta"
    return replace(
        best,
        delta=MappingProxyType(ledger),
        assumptions=(*best.assumptions, paid),
        rigorous=all(one.rigorous for one in each.values()),
    )
