"""The declaration of a rule, made once for studies, tables of losses, routes and reports."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from latecomer.bounds.certificate import Certificate

Door = Literal["r0", "table", "r4", "zero_one"]
States = Literal["mean", "next", "share", "curve", "populations"]


@dataclass(frozen=True)
class Asked:
    """The inputs of a rule.

    Attributes
    ----------
    losses : sequence of float
        One score in [0, 1] per client.
    level : float
        Failure probability.
    pool_size : int or None
        Clients of the finite pool.
    orders_seed : int
        Seed of the orders that a rule averages over.
    in_order : bool
        Whether the scores stand in the random order in which the clients were drawn.  Otherwise
        the seed must have been drawn afresh, and rules that bet along one order cannot be asked.
    """

    losses: Sequence[float]
    level: float
    pool_size: int | None = None
    orders_seed: int = 0
    in_order: bool = True

    @property
    def pool(self) -> int:
        """Size of the pool; where none is given, the number of clients scored."""
        return self.pool_size or len(self.losses)


Calculator = Callable[[Asked], Certificate]


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One statement about client scores.

    Attributes
    ----------
    name : str
        Its name in a study.
    words : str
        How a report names it, after the words for its route.
    certify_words : str
        How ``latecomer certify`` names it; ``words`` unless given.
    doors : tuple of str
        Who may ask for it: ``r0`` (scores of held-out clients, in a study), ``table`` (any losses)
        and ``r4``, where its proof has to cover systems that change in response to the scores;
        ``zero_one``: both of the first, for scores declared to be 0 or 1, and no others.
    states : str
        What it bounds: the ``mean``, the ``next`` client's score, the ``share`` of clients above a
        threshold, the ``curve`` of these shares, or the mean over other ``populations``.
    level : str
        The setting that holds its probability: ``delta``, or ``alpha`` for a quantile.
    finite_pool, iid : bool
        The kinds of sampling its proof covers.
    realised : bool
        Whether, in a finite pool, its proof is about the scores as they were measured and not about
        the clients' expected errors over fresh points and draws.
    ordered : bool
        Whether it needs the random order in which the clients were drawn.
    orders : bool
        Whether it averages over random orders of the scores: fixed permutations of the order in
        which the clients were drawn, or orders drawn afresh.
    bound : callable or None
        Calculator of a bound of the mean or of the next score; None for other statements.
    population : str
        Whose risk it bounds when every loss is one client's score.
    least : int
        Fewest clients that it needs.
    ends_at_largest : bool
        Whether a single client with the largest loss leaves it nothing to say.
    """

    name: str
    words: str
    certify_words: str = ""
    doors: tuple[Door, ...] = ("r0", "table")
    states: States = "mean"
    level: str = "delta"
    finite_pool: bool = True
    iid: bool = True
    realised: bool = False
    ordered: bool = False
    orders: bool = False
    bound: Calculator | None = None
    population: str = "unseen-client"
    least: int = 1
    ends_at_largest: bool = False


def is_own(name: object) -> bool:
    """Tell the place of a rule from a rule's name.

    >>> is_own("mine.py:r"), is_own("product")
    (True, False)
    """
    return isinstance(name, str) and ":" in name
