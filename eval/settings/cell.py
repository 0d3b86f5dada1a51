"""The typed configuration of a cell, read once from ``config.json``."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Protocol, TypeVar

from pydantic import ConfigDict, Field, model_validator

from latecomer.eval.schema import Settings
from latecomer.eval.settings.certificate import RouteSettings
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
from latecomer.eval.splits.settings import SplitSettings

R = TypeVar("R", bound=RouteSettings)


class FederationSettings(Settings):
    """The settings that a federation depends on.

    Attributes
    ----------
    certified_shifts : tuple of str
        Names of the shifts that are applied to held-out clients too.
    device : str, optional
        ``cuda``; the CPU unless given.
    """

    data: DataSettings
    split: SplitSettings
    shifts: Shifts = Shifts()
    certified_shifts: tuple[str, ...] = ()
    device: str | None = None


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
    """A cell that trains a method.

    Attributes
    ----------
    kind : str
        ``method``, ``whole``, or a kind of a route's own.
    certificates : tuple of RouteSettings
        The study's entries; only its own entry for a route that trains its own models.
    n_seeds : int
        Number of the study's seeds, if any entry divides its failure probability among them.
    of : str, optional
        Label of the method that a cell of kind ``whole`` is compared with.
    reissued : bool
        Whether the certificates were reissued from the rows of a finished run.
    data_hash, rows_schema, numbers_version
        What the cell's numbers depend on besides its settings; its id is made with it, and files
        that are others by the time the cell is trained are refused.
    """

    kind: str
    study: str = ""
    data: DataSettings
    split: SplitSettings
    shifts: Shifts = Shifts()
    model: ModelSettings = ModelSettings()
    method: MethodSettings
    train: CellTrain
    evaluation: Evaluation = Evaluation()
    bounds: Bounds = ()
    certificates: tuple[RouteSettings, ...] = ()
    seed: int
    n_seeds: int = 1
    of: str | None = None
    reissued: bool = False
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
