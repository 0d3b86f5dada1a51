"""The typed configuration of a cell, and the interface of the settings of its certificates."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, Protocol, Self, TypeVar

from pydantic import ConfigDict, Field, model_validator

from latecomer.eval.schema import Settings
from latecomer.eval.settings.study_sections import (
    Bounds,
    DataSettings,
    Denoising,
    Evaluation,
    MethodSettings,
    ModelSettings,
    Shifts,
    Train,
)
from latecomer.eval.splits.registry import SplitSettings
from latecomer.eval.splits.split import Split


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
        """Fill in settings that depend on others; refuse settings that cannot be certified."""
        return self

    def check_split(self, key: str, split: Split) -> None:
        """Refuse a split on which the certificate cannot be made."""

    def check_predictors(self, key: str, split_kind: str, predictors: Sequence[str]) -> None:
        """Refuse predictors that the certificate does not cover."""


R = TypeVar("R", bound=RouteSettings)


class FederationSettings(Settings):
    """The settings that a federation depends on."""

    data: DataSettings
    split: SplitSettings
    shifts: Shifts = Shifts()
    # Names of the shifts that are applied to held-out clients too.
    certified_shifts: tuple[str, ...] = ()
    device: str | None = None  # ``cuda``; the CPU unless given


class Federated(Protocol):
    """A study or one of its cells: any settings that define the clients."""

    @property
    def data(self) -> DataSettings:
        """The ``data`` section."""

    @property
    def split(self) -> SplitSettings:
        """The ``split`` section."""

    @property
    def shifts(self) -> Shifts:
        """The ``shifts`` section."""

    @property
    def certificates(self) -> Sequence[RouteSettings]:
        """The entries of ``certificates``."""


def federation_settings(of: Federated, *, device: str | None = None) -> FederationSettings:
    """Return the settings that the federation of a study, or of one of its cells, depends on."""
    named = {name for entry in of.certificates for name in entry.certified_shifts}
    return FederationSettings(
        data=of.data,
        split=of.split,
        shifts=of.shifts,
        certified_shifts=tuple(sorted(named)),
        device=device,
    )


class DenoisingCell(Settings):
    """The ``denoising`` simulation, which uses none of the study's data, methods or training."""

    model_config = ConfigDict(extra="ignore")
    kind: Literal["denoising"]
    denoising: Denoising


class SplitCell(Settings):
    """A cell that measures the split, independently of any method."""

    model_config = ConfigDict(extra="ignore")
    kind: Literal["split"]
    data: DataSettings
    split: SplitSettings
    shifts: Shifts = Shifts()
    evaluation: Evaluation = Evaluation()
    data_hash: str = ""

    @property
    def federation(self) -> FederationSettings:
        """The settings that the cell's federation depends on."""
        return FederationSettings(data=self.data, split=self.split, shifts=self.shifts)


class CellTrain(Train):
    """The budget of one cell; 0 rounds for a system that was trained elsewhere."""

    rounds: Annotated[int, Field(strict=True, ge=0)] = 5000


class TrainingCell(Settings):
    """A cell that trains a method."""

    kind: str  # ``method``, ``whole``, or a kind of a route's own
    study: str = ""
    data: DataSettings
    split: SplitSettings
    shifts: Shifts = Shifts()
    model: ModelSettings = ModelSettings()
    method: MethodSettings
    train: CellTrain
    evaluation: Evaluation = Evaluation()
    bounds: Bounds = ()
    # Those of the study; only its own for a route that trains its own models.
    certificates: tuple[RouteSettings, ...] = ()
    seed: int
    # Number of the study's seeds, if any entry divides its failure probability among them.
    n_seeds: int = 1
    of: str | None = None  # label of the method that a cell of kind ``whole`` is compared with
    reissued: bool = False  # whether the certificates were reissued from the rows of a finished run
    # What the cell's numbers depend on besides its settings; its id is made with it, and files that
    # are others by the time the cell is trained are refused.
    data_hash: str = ""
    rows_schema: int | None = None
    numbers_version: Mapping[str, Any] | None = None

    @model_validator(mode="before")
    @classmethod
    def _with_seeds(cls, config: Any) -> Any:
        """Take the number of seeds from the entries whose seeds share a failure probability."""
        entries = [dict(entry) for entry in config.get("certificates") or ()]
        told = [entry.pop("n_seeds") for entry in entries if "n_seeds" in entry]
        return {**config, "certificates": entries, **({"n_seeds": told[0]} if told else {})}

    @property
    def federation(self) -> FederationSettings:
        """The settings that the cell's federation depends on."""
        return federation_settings(self, device=self.train.device)

    @property
    def rounds(self) -> int:
        """Rounds of the whole cell, including those of a route that trains its own models."""
        return max(
            (entry.rounds(self.train.rounds) for entry in self.certificates),
            default=self.train.rounds,
        )

    def only(self, route: type[R]) -> R:
        """Return the only certificate in a cell of a route that trains its own models."""
        (entry,) = self.certificates
        if not isinstance(entry, route):
            raise TypeError(f"the cell is of {type(entry).__name__}, not of {route.__name__}")
        return entry
