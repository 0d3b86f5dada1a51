"""The configuration of a cell, typed: what ``config.json`` says, read once."""

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
    """What a federation depends on.

    Attributes
    ----------
    certified_shifts : tuple of str
        Names of the shifts that certification clients go through as well.
    device : str, optional
        ``cuda``; the CPU unless given.
    """

    data: DataSettings
    split: SplitSettings
    shifts: Shifts = Shifts()
    certified_shifts: tuple[str, ...] = ()
    device: str | None = None


class Federated(Protocol):
    """A study, or a cell of it: whatever says what its clients are."""

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
    """Return what the federation of a study, or of a cell of it, depends on."""
    named = {name for entry in of.certificates for name in entry.certified_shifts}
    return FederationSettings(
        data=of.data,
        split=of.split,
        shifts=of.shifts,
        certified_shifts=tuple(sorted(named)),
        device=device,
    )


class DenoisingCell(Settings):
    """The simulation of ``denoising``, which has no data, method or training of the study."""

    model_config = ConfigDict(extra="ignore")
    kind: Literal["denoising"]
    denoising: Denoising


class SplitCell(Settings):
    """What is measured of the split, whatever the method."""

    model_config = ConfigDict(extra="ignore")
    kind: Literal["split"]
    data: DataSettings
    split: SplitSettings
    shifts: Shifts = Shifts()
    evaluation: Evaluation = Evaluation()

    @property
    def federation(self) -> FederationSettings:
        """What the cell's federation depends on."""
        return FederationSettings(data=self.data, split=self.split, shifts=self.shifts)


class CellTrain(Train):
    """The budget of one cell: 0 rounds where a system was trained elsewhere."""

    rounds: Annotated[int, Field(strict=True, ge=0)] = 5000


class TrainingCell(Settings):
    """A cell that trains a method.

    Attributes
    ----------
    kind : str
        ``method``, ``whole``, or a route's own.
    certificates : tuple of RouteSettings
        The study's entries; the one entry of a route that trains by itself.
    n_seeds : int
        Seeds of the study, where any entry has them share its failure probability.
    of : str, optional
        Label of the method that a cell of kind ``whole`` is compared to.
    reissued : bool
        Whether the certificates were issued anew, from the rows of a finished run.
    data_hash, rows_schema, numbers_version
        What the cell's numbers depend on beside its settings; for its id alone.
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
        """Take the number of seeds from the entries, each of which says it where seeds share."""
        entries = [dict(entry) for entry in config.get("certificates") or ()]
        told = [entry.pop("n_seeds") for entry in entries if "n_seeds" in entry]
        return {**config, "certificates": entries, **({"n_seeds": told[0]} if told else {})}

    @property
    def federation(self) -> FederationSettings:
        """What the cell's federation depends on."""
        return federation_settings(self, device=self.train.device)

    @property
    def rounds(self) -> int:
        """Rounds of the whole cell, those of a route that trains by itself included."""
        return max(
            (entry.rounds(self.train.rounds) for entry in self.certificates),
            default=self.train.rounds,
        )

    def only(self, route: type[R]) -> R:
        """Return the one certificate of a cell of a route that trains by itself."""
        (entry,) = self.certificates
        if not isinstance(entry, route):
            raise TypeError(f"the cell is of {type(entry).__name__}, not of {route.__name__}")
        return entry
