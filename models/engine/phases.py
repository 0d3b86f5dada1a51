"""Which weights train when: phases of a training, and stages of a client's round."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Stage:
    """Part of a client's local steps, in which some of its weights train and the others rest.

    Momentum starts at 0 in every stage.

    Attributes
    ----------
    trained : tuple of str or None
        Names of the weights that train; None: all. A stage that names none is skipped, and its
        steps go to the others.
    share : float
        Share of the local steps, relative to the other stages.
    """

    trained: tuple[str, ...] | None = None
    share: float = 1.0


@dataclass(frozen=True)
class Phase:
    """A stretch of rounds.

    Attributes
    ----------
    name : str
        What hooks read in ``cohort.phase``.
    share : float
        Share of the rounds, relative to the other phases.
    stages : tuple of Stage
        What a client does in one round, in order.
    """

    name: str = "train"
    share: float = 1.0
    stages: tuple[Stage, ...] = (Stage(),)


def divide(total: int, shares: Sequence[float]) -> list[int]:
    """Cut ``total`` rounds or steps into parts in proportion to ``shares``, which add up to > 0.

    Every positive share gets at least one if there are enough of them.

    >>> divide(20, [5, 1]), divide(2, [99, 1]), divide(1, [1, 2]), divide(3, [1, 0])
    ([17, 3], [1, 1], [0, 1], [3, 0])
    """
    ends = [round(total * sum(shares[: i + 1]) / sum(shares)) for i in range(len(shares))]
    parts = [end - begin for begin, end in zip([0, *ends], ends, strict=False)]
    for i, share in enumerate(shares):
        if share > 0 and parts[i] == 0 and max(parts) > 1:
            parts[parts.index(max(parts))] -= 1
            parts[i] += 1
    return parts


def plan(
    stages: Sequence[Stage], names: Sequence[str], n_steps: int
) -> list[tuple[tuple[str, ...], int]]:
    """Return, for each stage that takes steps, the weights it trains and its number of steps.

    ``names`` are all weights there are, in order.

    >>> plan((Stage(("b",), 3.0), Stage((), 9.0), Stage()), ["a", "b"], 8)
    [(('b',), 6), (('a', 'b'), 2)]
    """
    kept = []
    for stage in stages:
        trained = tuple(n for n in names if stage.trained is None or n in stage.trained)
        if trained and stage.share > 0:
            kept.append((trained, stage.share))
    counts = divide(n_steps, [share for _, share in kept]) if kept else []
    return [(trained, n) for (trained, _), n in zip(kept, counts, strict=True) if n]


def refuse_few_rounds(phases: Sequence[Phase], n_rounds: int, called: str) -> None:
    """Raise ``ValueError`` if ``n_rounds`` leave a phase without a round."""
    if n_rounds < (least := fewest_rounds(phases)):
        raise ValueError(
            f"rounds must be at least {least} for {called}, which trains in {least} phases, one "
            f"after another, got {n_rounds}"
        )


def fewest_rounds(phases: Sequence[Phase]) -> int:
    """Return the fewest rounds with which every phase trains.

    >>> fewest_rounds([Phase(), Phase("rest", share=0.0), Phase("late", share=0.1)])
    2
    """
    return sum(phase.share > 0 for phase in phases)


def refuse_few_steps(phases: Sequence[Phase], n_steps: int, called: str) -> None:
    """Raise ``ValueError`` if a round of ``n_steps`` leaves a stage without a step."""
    if n_steps < (least := most_stages(phases)):
        raise ValueError(
            f"local_steps must be at least {least} for {called}, whose clients train parts of the "
            f"net in turn, got {n_steps}"
        )


def most_stages(phases: Sequence[Phase]) -> int:
    """Return the fewest local steps with which every stage of a round trains.

    >>> most_stages([Phase(), Phase(stages=(Stage(("b",), 3.0), Stage((), 9.0), Stage()))])
    2
    """
    return max(
        sum(stage.trained != () and stage.share > 0 for stage in phase.stages) for phase in phases
    )
