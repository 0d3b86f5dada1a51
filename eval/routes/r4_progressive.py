r"""Route R4: clients are certified one after another, and each is then trained on.

A method trains on the first clients of the split's uniformly permuted order.  Then, block by block,
the system as it stands serves the block's clients as new clients and is scored on their query data;
only then do they join the seen clients, and training goes on for a fixed number of rounds.

Let x_t be the score of client t and mu_t its mean given everything before its block.  For rule
``product``, prod (1 - x_t) / (1 - mu_t) has mean at most 1: step by step, and within a block drawn
without replacement by negative association.  By Markov's and the arithmetic-geometric inequality,
1 - (delta prod (1 - x_t))^(1/T) is with probability 1 - delta no smaller than the mean of the mu_t.
The rules ``product_mixture`` and ``progressive`` rest on the same argument for other decreasing
functions of x_t.  mu_t is the mean error of the system that scored client t over the clients not
trained on by then (a finite pool), or over new clients of the environment (independent clients).
So the mean of the errors of the systems that scored is bounded: the expected error when one of them
is drawn uniformly, over that draw as well.  It does not bound the drawn system's own error (half of
the systems' errors exceed their mean where errors fall), and says nothing about the last system.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from latecomer.bounds.certificate import Certificate
from latecomer.certify.rule import LEAST_OUTSIDE, Asked, rules_for
from latecomer.certify.words import counts
from latecomer.errors import InputError
from latecomer.eval.scoring.scores import ClientScore
from latecomer.eval.splits.registry import IID_SPLITS
from latecomer.eval.splits.split import Split

S = TypeVar("S")
B = TypeVar("B")


@dataclass(frozen=True)
class Plan:
    """Who trains first and who is certified when.

    Attributes
    ----------
    first : int
        Clients trained on before the first score.
    clients : int
        Clients certified, then trained on, after those.
    block : int
        Clients scored with one and the same system; divides ``clients``.
    pool : int
        All clients of the split that were not among the first.
    independent : bool
        Whether certified clients are independent draws of an environment, not a finite pool.
    """

    first: int
    clients: int
    block: int
    pool: int
    independent: bool

    @property
    def blocks(self) -> tuple[range, ...]:
        """Places of each block's clients in the order of arrival, the first clients before them."""
        ends = self.first + self.clients
        return tuple(range(at, at + self.block) for at in range(self.first, ends, self.block))


@dataclass(frozen=True)
class Step:
    """One block: the scores of its clients by the system that had not seen them."""

    number: int
    trained: int
    scores: tuple[ClientScore, ...]


def score_then_train(
    system: S,
    blocks: Iterable[B],
    score: Callable[[S, B], Any],
    train: Callable[[S, B], S],
) -> Iterator[tuple[S, Any]]:
    """Yield each system with the score of the block that it scored, the last one with None.

    A block is scored before it is trained on, and nothing that comes later is touched: proofs that
    rest on the order of events rest on this loop alone.

    Examples
    --------
    >>> steps = score_then_train(0, [5, 7], lambda s, b: b - s, lambda s, b: s + b)
    >>> list(steps)
    [(0, 5), (5, 2), (12, None)]
    """
    for block in blocks:
        yield system, score(system, block)
        system = train(system, block)
    yield system, None


def certify_progress(
    scores: Sequence[ClientScore], *, plan: Plan, rule: str, delta: float
) -> Certificate:
    """Certify the mean of the errors of the systems that scored.

    ``scores`` has one a certified client, each taken before the client was trained on; the rule's
    proof covers systems that change with the scores.  The certificate is of population
    ``unseen-client``, predictor ``random-checkpoint`` and sampling ``martingale``.

    Raises
    ------
    KeyError, ValueError
        When the rule is none of R4's; when there are not as many scores as the plan has clients.

    Examples
    --------
    >>> plan = Plan(first=40, clients=50, block=1, pool=60, independent=False)
    >>> scores = [ClientScore(i, 90, 30, 3, .3) for i in range(50)]
    >>> proved = certify_progress(scores, plan=plan, rule="product", delta=.05)
    >>> proved.predictor, round(float(proved), 4)
    ('random-checkpoint', 0.1523)
    """
    if len(scores) != plan.clients:
        raise ValueError(f"scores must be those of {plan.clients} clients, got {len(scores)}")
    bound = rules_for("r4")[rule].bound
    if bound is None:
        raise ValueError(f"rule {rule} bounds no mean")
    issued = bound(Asked([score.error for score in scores], delta))
    support = sorted(score.n_support for score in scores)
    return replace(
        issued,
        population="unseen-client",
        predictor="random-checkpoint",
        sampling="martingale",
        assumptions=(
            "a client was scored before its data was used in any way, standardisation included",
            "the order of the clients is random; order, blocks, rounds and rule were fixed before "
            "the first score",
            f"bounds the mean over the {len(plan.blocks)} checkpoints that scored of their errors: "
            "the expected error of one drawn uniformly, over that draw as well, not the error of "
            "the one drawn nor of the last one",
            _whose(plan),
            f"the system is run with {counts(support, 'support sample')} a client",
        ),
    )


def _whose(plan: Plan) -> str:
    if plan.independent:
        return (
            "clients are fresh, independent draws of one environment, a law over the finite set of "
            "samples that the first clients do not hold"
        )
    last = plan.pool - plan.clients + plan.block
    return (
        "a finite pool: bounds the mean over the checkpoints of each one's mean error over the "
        f"clients not trained on by then, {plan.pool} for the first and {last} for the last"
    )


def plan_of(
    split: Split,
    *,
    first: int,
    clients: int,
    block: int | None = None,
    key: str = "certificates",
) -> Plan:
    """Fix who trains first and who is certified when; all at once unless in blocks.

    In a finite pool the plan takes the first seen clients, whose order the split permuted
    uniformly.  Clients of an environment split are independent draws only from the certification
    group on; all seen clients of such a split train first.

    Raises
    ------
    InputError
        When the split has too few clients, or too few would be left untrained.
    """
    plan = Plan(
        first=first,
        clients=clients,
        block=block or clients,
        pool=len(split.seen) + len(split.certification) + len(split.novel) - first,
        independent=split.kind in IID_SPLITS,
    )
    if plan.clients % plan.block:
        raise InputError(f"{key}: block must divide clients={plan.clients}, got block={plan.block}")
    if plan.independent and plan.first != len(split.seen):
        raise InputError(
            f"{key}: first must be all {len(split.seen)} seen clients of an environment "
            f"split, whose other clients alone are independent draws, got first={plan.first}"
        )
    there = len(split.seen) + (len(split.certification) if plan.independent else 0)
    if plan.first + plan.clients > there:
        who = "seen and certification" if plan.independent else "seen"
        raise InputError(
            f"{key}: first + clients must be at most the {there} {who} clients, "
            f"got {plan.first} + {plan.clients}"
        )
    if block and plan.block > plan.first:
        raise InputError(f"{key}: block must be at most first={plan.first}, got block={plan.block}")
    left = plan.pool - plan.clients
    if not plan.independent and left < LEAST_OUTSIDE:
        raise InputError(
            f"{key}: a finite pool needs at least {LEAST_OUTSIDE} clients that are neither trained "
            f"on nor certified, got {left}: raise split.novel"
        )
    return plan
