"""What is known of losses once all that was asked is certified: data, shown elsewhere."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from latecomer.bounds.certificate import Certificate
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

    @property
    def question(self) -> str:
        """What nobody answered: whether the clients were drawn from a finite set; maybe empty."""
        return "" if self.independent or self.pool_size is not None else _QUESTION
