"""Interface of the settings of every route to a certificate, and of what they read."""

from collections.abc import Sequence
from typing import Any, ClassVar, Literal, Protocol, Self

from latecomer.eval.schema import Settings


class StudyLike(Protocol):
    """The parts of a study that the settings of its routes read."""

    @property
    def split(self) -> Any:
        """The ``split`` section."""

    @property
    def shifts(self) -> Any:
        """The ``shifts`` section."""

    @property
    def train(self) -> Any:
        """The ``train`` section."""

    @property
    def predictors(self) -> frozenset[str]:
        """All predictors of the study's methods."""


class SplitLike(Protocol):
    """The parts of a finished split that the settings of a route read."""

    @property
    def kind(self) -> str:
        """Kind of split."""

    @property
    def law(self) -> Any:
        """Law that held-out clients were drawn from, None for a finite pool."""

    @property
    def seen(self) -> Sequence[Any]:
        """Clients that train."""

    @property
    def certification(self) -> Sequence[Any]:
        """Held-out clients."""

    @property
    def novel(self) -> Sequence[Any]:
        """New clients."""

    @property
    def n_outside(self) -> int:
        """Clients of the certified ones' population that neither train nor are certified."""


class RouteSettings(Settings):
    """One entry of ``certificates``: the interface of every route's settings.

    Attributes
    ----------
    route : str
        How: one of the routes, ``r0`` unless given.
    per_seed : str
        ``each``: every seed's certificate has the full failure probability.  ``union``: the seeds
        share it, so that all their certificates hold simultaneously; only then does their mean
        bound the risk of the model of a seed drawn at random.
    """

    needs_certification: ClassVar[bool] = False

    route: str
    per_seed: Literal["each", "union"] = "each"

    @property
    def certified_shifts(self) -> tuple[str, ...]:
        """Shifts that held-out clients are certified under too."""
        return ()

    def rounds(self, trained: int) -> int:
        """Return all rounds of a cell with this certificate; the first ``trained`` are training."""
        return trained

    def sharing(self, n_seeds: int) -> int:
        """Return how many of the study's seeds share the failure probability."""
        return n_seeds if self.per_seed == "union" else 1

    def completed(self, key: str, study: StudyLike) -> Self:
        """Fill in settings that depend on others; refuse settings that cannot be certified.

        Raises
        ------
        InputError
        """
        return self

    def check_split(self, key: str, split: SplitLike) -> None:
        """Refuse a split on which the certificate cannot be made.

        Raises
        ------
        InputError
        """

    def check_predictors(self, key: str, split_kind: str, predictors: Sequence[str]) -> None:
        """Refuse predictors that the certificate does not cover.

        Raises
        ------
        InputError
        """
