"""Declaration of a kind of split: its settings, and how it fills clients."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from latecomer.eval.schema import Amount, Count, Number, Seed, Settings, Share
from latecomer.eval.splits.dealing import Filling
from latecomer.eval.splits.split import Law

QUERY = 0.25
"""Share of a client's samples that it is scored on, unless the publisher has a test set."""
VALIDATION = 0.2
"""Share of a client's other samples kept for selection."""


class Dealt(Settings):
    """A split made here; a kind's own settings are the fields added to these.

    Attributes
    ----------
    kind : str
        The kind of split.
    clients : int, optional
        Number of clients; only ``natural`` may leave it out, for all there are.
    certify : int or float
        Held-out clients: a count, or a fraction of all clients.
    novel : int or float
        New clients, likewise.
    seed : int
        The split seed; training seeds are the study's ``seeds``.
    query : float
        Share of a client's samples that it is scored on; where the publisher has a test set, its
        samples, dealt by the same classes and shares, are the query data instead.
    validation : float
        Share of a client's other samples kept for selection.
    reserve : float, optional
        Share of each class held back before clients are filled, for ``shifts.extrapolation``.
    """

    kind: str
    clients: Count | None = None
    certify: Amount = 0
    novel: Amount = 0
    seed: Seed = 0
    query: Annotated[Number, Field(gt=0, lt=1)] = QUERY
    validation: Share = VALIDATION
    reserve: Share | None = None

    @property
    def role_shares(self) -> tuple[float, float]:
        """Shares of query and validation data."""
        return self.query, self.validation

    @property
    def own(self) -> dict[str, Any]:
        """The kind's own settings that are given."""
        plain = self.model_dump(exclude=set(Dealt.model_fields), exclude_none=True)
        return dict(sorted(plain.items()))


class Filled(Dealt):
    """A split whose clients are all filled the same way.

    Attributes
    ----------
    min_samples : int, optional
        Fewest training samples that a client may get; unless given, as few as can be split for
        training and scoring. Of ``natural`` clients, smaller ones are then left out.
    """

    min_samples: Count | None = None


def _unless_usual(value: str | None) -> str | None:
    """Let the usual way count as not given, so that naming it makes no other split."""
    return None if value == "overall" else value


class ClassSets(Filled):
    """Such a split by class sets, dealt to all clients at once or to each group apart.

    Attributes
    ----------
    classes_dealt : str, optional
        ``by_group``: each class goes to the same number of clients among those that train and
        among the others, as far as counts allow; ``overall`` (the default): among all together.
    """

    classes_dealt: Annotated[
        Literal["overall", "by_group"] | None, AfterValidator(_unless_usual)
    ] = None


@dataclass(frozen=True, kw_only=True)
class SplitKind:
    """A kind of split: what it is, and how it fills clients.

    Attributes
    ----------
    name : str
        Its name in a study.
    settings : type
        What a study may set; ``kind`` in it is the literal ``name``.
    description : str
        One line.
    fill : callable or None
        ``fill(pool, clients, rng, **options) -> Filling``; None where seen clients and
        held-out clients are filled differently.
    law : callable or None
        For such kinds, ``law(pool, n_training, share, rng, **options) -> Filling, Law``: the seen
        clients, and the law from which the others are drawn independently, from a share of each
        class.
    natural : bool
        Whether clients are the data's own: they keep their numbers, and no reserve is allowed.
    """

    name: str
    settings: type[Dealt]
    description: str
    fill: Callable[..., Filling] | None = None
    natural: bool = False
    law: Callable[..., tuple[Filling, Law]] | None = None
