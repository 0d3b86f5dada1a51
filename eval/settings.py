"""The schema of a study file: sections, defaults, legal ranges."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

from latecomer.eval.cells import Cell, cells_of

__all__ = [
    "SPLIT_KINDS",
    "ByClass",
    "CertificateSettings",
    "DataSettings",
    "Dirichlet",
    "Evaluation",
    "Hypernetwork",
    "MethodSettings",
    "ModelSettings",
    "Natural",
    "Settings",
    "Shifts",
    "Study",
    "Train",
    "sections",
]


SPLIT_KINDS = ("by_class", "dirichlet", "natural")


class Settings(BaseModel):
    """A section of a study: frozen, and closed to keys it does not know."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def _amount(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError("must be a count (integer) or a fraction (decimal below 1)")
    if value < 0 or (isinstance(value, float) and not value < 1):
        raise ValueError("must be a count of at least 0 or a fraction in [0, 1)")
    return value


def _auto_or_size(value: Any) -> Any:
    whole = isinstance(value, int) and not isinstance(value, bool)
    if value != "auto" and not (whole and value >= 1):
        raise ValueError("must be 'auto' or an integer of at least 1")
    return value


def _named(value: Any) -> Any:
    """Accept a method by its bare name."""
    return {"name": value} if isinstance(value, str) else value


def _distinct(values: tuple[Any, ...]) -> tuple[Any, ...]:
    if len(set(values)) < len(values):
        raise ValueError("must not repeat an entry")
    return values


Count = Annotated[int, Field(strict=True, ge=1)]
Seed = Annotated[int, Field(strict=True, ge=0, lt=2**32)]
Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Positive = Annotated[Number, Field(gt=0)]
Share = Annotated[Number, Field(ge=0, lt=1)]
Probability = Annotated[Number, Field(gt=0, lt=1)]
Amount = Annotated[Any, BeforeValidator(_amount)]
AutoOrSize = Annotated[Any, BeforeValidator(_auto_or_size)]
Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", max_length=100)]


class DataSettings(BaseModel):
    """The data set: its name and the options of its reader, which checks them itself."""

    model_config = ConfigDict(extra="allow", frozen=True)
    name: str


class _Split(Settings):
    certify: Amount = 0
    novel: Amount = 0
    seed: Seed = 0
    query: Annotated[Number, Field(gt=0, lt=1)] = 0.25
    validation: Share = 0.2
    reserve: Share | None = None
    min_samples: Count | None = None


class ByClass(_Split):
    """Every client holds a few classes."""

    kind: Literal["by_class"]
    clients: Count
    classes_per_client: Count


class Dirichlet(_Split):
    """Every client's class proportions are drawn from a symmetric Dirichlet distribution."""

    kind: Literal["dirichlet"]
    clients: Count
    alpha: Positive


class Natural(_Split):
    """The publisher says whose sample is whose."""

    kind: Literal["natural"]
    clients: Count | None = None


class Hypernetwork(Settings):
    """Shape of the hypernetwork: hidden layers and their width."""

    hidden: AutoOrSize = "auto"
    width: AutoOrSize = "auto"


class ModelSettings(Settings):
    """Networks; ``auto`` chooses by the input's shape."""

    target: str = "auto"
    encoder: str = "auto"
    hypernetwork: Hypernetwork = Hypernetwork()


class MethodSettings(BaseModel):
    """A method, the label it goes by, and its own hyper-parameters, checked by the method."""

    model_config = ConfigDict(extra="allow", frozen=True)
    name: str
    label: Annotated[str, StringConstraints(min_length=1)] | None = None

    def hyper(self) -> dict[str, Any]:
        """Only the hyper-parameters that the study sets."""
        return dict(self.model_extra or {})


class Train(Settings):
    """The budget of training, the same for every method."""

    rounds: Count = 5000
    cohort: Count = 5
    local_steps: Count = 50
    batch_size: Count = 32


class Evaluation(Settings):
    """Masking of classes absent from a client's support labels."""

    classes: Literal["all", "known", "zero"] = "all"
    class_set: Literal["given"] | None = None


def _sequence(value: Any) -> Any:
    if not isinstance(value, (list, tuple)):
        raise ValueError("must be a list")
    return _distinct(tuple(value))


class Shifts(Settings):
    """Severities of the shifts that novel clients are measured under."""

    blur: Annotated[tuple[Positive, ...], BeforeValidator(_sequence)] = ()
    rotation: Annotated[tuple[Number, ...], BeforeValidator(_sequence)] = ()
    extrapolation: Annotated[tuple[Positive, ...], BeforeValidator(_sequence)] = ()


class CertificateSettings(Settings):
    """One certificate: route, rule, and its failure probability or next-client level."""

    route: Literal["r0"] = "r0"
    rule: Literal["product", "wsr", "wsr_wor", "chernoff_kl", "conformal"]
    delta: Probability | None = None
    alpha: Probability | None = None


class Study(Settings):
    """The study file."""

    study: Name
    question: str = ""
    scale: Literal["smoke", "reduced", "paper"] | None = None
    data: DataSettings
    split: Annotated[ByClass | Dirichlet | Natural, Field(discriminator="kind")]
    model: ModelSettings = ModelSettings()
    methods: Annotated[
        tuple[Annotated[MethodSettings, BeforeValidator(_named)], ...], Field(min_length=1)
    ]
    train: Train = Train()
    evaluation: Evaluation = Evaluation()
    shifts: Shifts = Shifts()
    bounds: Annotated[
        tuple[Literal["pefll_32", "pfedhn_eps", "ben_david"], ...], BeforeValidator(_sequence)
    ] = ()
    certificates: tuple[CertificateSettings, ...] = ()
    seeds: Annotated[tuple[Seed, ...], BeforeValidator(_sequence), Field(min_length=1)] = (0,)

    def resolved(self) -> dict[str, Any]:
        """Every setting as plain data; what is not set at all is left out."""
        plain = self.model_dump(mode="json", exclude_none=True)
        plain["methods"] = [
            {"name": method.name, "label": method.label, **method.hyper()}
            for method in self.methods
        ]
        return plain

    def cells(self, data_hash: str = "") -> tuple[Cell, ...]:
        """List the cells on data with this content hash: the split, then seeds x methods."""
        return cells_of(self.resolved(), data_hash)


def sections() -> Mapping[str, type[Settings]]:
    """Map the dotted place of each closed section to its model.

    ``*`` stands for a list index; behind ``split`` comes its kind.
    """
    return {
        "": Study,
        "split.by_class": ByClass,
        "split.dirichlet": Dirichlet,
        "split.natural": Natural,
        "model": ModelSettings,
        "model.hypernetwork": Hypernetwork,
        "train": Train,
        "evaluation": Evaluation,
        "shifts": Shifts,
        "certificates.*": CertificateSettings,
    }
