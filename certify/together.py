"""What is known once all that was asked is certified, and how surely all of it holds together.

Each statement fails with probability at most its own level, so that one of them fails with at most
the sum (the union bound); two at .05 may fail up to .10 of the time between them.  What shares a
level (radii of a ball, thresholds, the steps of a curve, groups) is one statement.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from latecomer.bounds.certificate import Certificate
from latecomer.bounds.checks import exactly
from latecomer.certify.rule import Rule
from latecomer.certify.statements import LossCertificate

if TYPE_CHECKING:
    from latecomer.certify.further_statements import Compared, Step
    from latecomer.certify.populations import Shifted

_QUESTION = (
    "Were these clients drawn from a finite set (cut from one data set, say)? Then certify with"
    " --pool-size N (pool_size=N), all of its untrained clients; if not, say --independent"
    " (independent=True)."
)


@dataclass(frozen=True, eq=False)
class LossAnswers(LossCertificate):
    """A `LossCertificate`, and what else was asked of the same losses.

    Attributes
    ----------
    delta : float
        Failure probability of the mean, and of every further statement.
    losses : tuple of float
        One per client, the smallest first.
    radii : mapping of str to sequence of float
        Radii that were asked for, by ball.
    shifts : mapping of str to Shifted
        Other populations, by ball.
    above : mapping of float to Certificate
        Share of clients above each threshold.
    curve : tuple or None
        Width and steps of the share of clients above every threshold.
    by : str
        Column that names the groups.
    groups : mapping of str to LossCertificate
        By name of the group.
    against : Compared or None
        This model against another one.
    other : str
        What the other model's losses are called.
    independent : bool
        Whether it was said that the clients were drawn independently, from no finite set.
    order : str
        Column of the order in which the clients were drawn; ``order`` where it was no column.
    places : tuple of int
        Each client's place in it, in the order of ``losses``.
    sources : tuple of path
        Files that losses came from, which no page may replace.
    trust : bool
        Whether a rule of one's own was used without simulating its coverage.
    """

    delta: float = 0.05
    losses: tuple[float, ...] = ()
    radii: Mapping[str, Sequence[float]] = field(default_factory=dict)
    shifts: "Mapping[str, Shifted]" = field(default_factory=dict)
    above: Mapping[float, Certificate] = field(default_factory=dict)
    curve: "tuple[Certificate, list[Step]] | None" = None
    by: str = ""
    groups: Mapping[str, LossCertificate] = field(default_factory=dict)
    against: "Compared | None" = None
    other: str = ""
    independent: bool = False
    order: str = ""
    places: tuple[int, ...] = ()
    sources: tuple[str, ...] = ()
    trust: bool = False

    @property
    def question(self) -> str:
        """What nobody answered: whether the clients were drawn from a finite set; maybe empty."""
        return "" if self.independent or self.pool_size is not None else _QUESTION


_BALLS = {
    "kl": "other populations by KL(Q || P)",
    "tv": "other populations by TV(Q, P)",
    "chi2": "other populations by chi2(Q || P)",
    "subgroup": "every group of a share",
}


@dataclass(frozen=True)
class Together:
    """Several statements, and how surely all of them hold.

    Attributes
    ----------
    levels : mapping of str to float
        Failure probability of each statement, by what it is about.
    reason : str
        Why some of them are no proofs; empty where all are.
    """

    levels: Mapping[str, float]
    reason: str = ""

    @property
    def probability(self) -> float:
        """At least 1 minus the sum of the levels, or 0.

        Examples
        --------
        >>> Together({"mean": 0.05, "next client": 0.1}).probability
        0.85
        """
        spent = sum(map(exactly, self.levels.values()), Fraction(0))
        return float(max(Fraction(0), 1 - spent))

    @property
    def line(self) -> str:
        """The line that ends an output; empty for a single statement.

        Examples
        --------
        >>> Together({"mean": 0.05, "next client": 0.1}).line
        'Both together: with probability at least 85% (1 less 0.05 for mean; 0.1 for next client).'
        """
        if len(self.levels) < 2:
            return ""
        # Shared levels add up to delta but for rounding in the last place.
        least = min(math.floor(1e8 * self.probability + 1e-4) / 1e6, 99.999999)
        many = "Both" if len(self.levels) == 2 else f"All {len(self.levels)}"
        sure = f"together: with probability at least {least:.10g}% (1 less {self._spent()})."
        if self.reason:
            return f"Not a proof here: {many.lower()} {sure} The reason: {self.reason}."
        return f"{many} {sure}"

    def _spent(self) -> str:
        by_level: dict[float, list[str]] = {}
        for about, level in self.levels.items():
            by_level.setdefault(level, []).append(about)
        return "; ".join(
            f"{level:.6g}{' each' if len(abouts) > 1 else ''} for {', '.join(abouts)}"
            for level, abouts in by_level.items()
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain data; empty for a single statement."""
        if len(self.levels) < 2:
            return {}
        return {
            "n_statements": len(self.levels),
            "levels": dict(self.levels),
            "probability": self.probability,
            "statement": self.line,
            **({"rigorous": False, "reason": self.reason} if self.reason else {}),
        }


def together(certified: "LossAnswers") -> Together:
    """Return the levels of everything that an output states with a confidence."""
    delta, alpha, levels = certified.delta, certified.alpha, {}
    if certified.certificate is not None:
        levels["mean loss"] = delta
    if certified.next_client is not None:
        levels["next client"] = alpha
    levels |= {_BALLS[ball]: delta for ball in certified.shifts}
    if certified.above:
        levels["shares above thresholds"] = delta
    if certified.curve is not None:
        levels["curve of shares"] = delta
    if any(one.certificate is not None for one in certified.groups.values()):
        levels["means of groups"] = delta
    if certified.groups:
        levels["next clients of groups"] = alpha
    if certified.against is not None:
        levels |= {"difference of two models": delta, "share served worse": delta}
    means = [one.certificate for one in (certified, *certified.groups.values())]
    return Together(levels, unproven(*means))


def unproven(*issued: Certificate | None) -> str:
    """Say why the first of these certificates that is no proof is none; empty if all are."""
    return next((one.reason for one in issued if one is not None and not one.rigorous), "")


def n_statements(
    rule: Rule,
    *,
    balls: int,
    above: bool,
    curve: bool,
    by: bool,
    against: bool,
    whole_pool: bool,
) -> int:
    """Return how many statements `together` will find in what is asked, before it is certified.

    ``balls`` is in how many ways other populations are compared; where the whole pool was scored
    there is no next client.
    """
    mean = rule.states == "mean"
    groups = 1 + mean if by else 0
    return mean + (not whole_pool) + balls + above + curve + groups + 2 * against
