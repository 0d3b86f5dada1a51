"""The schema of a study's ``split`` section, one model for each kind of split."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from latecomer.checks import wrong
from latecomer.errors import InputError, nearest
from latecomer.eval.schema import (
    Amount,
    Count,
    Label,
    Number,
    Positive,
    Seed,
    Settings,
    Share,
    Text,
    sequence,
)
from latecomer.eval.splits.client_mixtures import check_concentrations
from latecomer.eval.splits.client_types import check_types

Class = Annotated[int, Field(strict=True, ge=0)]
Groups = Annotated[tuple[Label, ...], BeforeValidator(sequence), Field(min_length=1)]

QUERY = 0.25
"""Share of a client's samples that it is scored on, unless the publisher has a test set."""
VALIDATION = 0.2
"""Share of a client's other samples kept for selection."""


class Dealt(Settings):
    """A split made here; a kind's own settings are the fields added to these."""

    kind: str
    clients: Count | None = None
    certify: Amount = 0
    novel: Amount = 0
    seed: Seed = 0
    query: Annotated[Number, Field(gt=0, lt=1)] = QUERY
    validation: Share = VALIDATION
    reserve: Share | None = None

    @property
    def own(self) -> dict[str, Any]:
        """The kind's own settings that are given."""
        plain = self.model_dump(exclude=set(Dealt.model_fields), exclude_none=True)
        return dict(sorted(plain.items()))


class _Filled(Dealt):
    min_samples: Count | None = None


def _unless_usual(value: str | None) -> str | None:
    """Let the usual way count as not given, so that naming it makes no other split."""
    return None if value == "overall" else value


class _ClassSets(_Filled):
    classes_dealt: Annotated[
        Literal["overall", "by_group"] | None, AfterValidator(_unless_usual)
    ] = None


class ByClass(_ClassSets):
    """Every client holds a few classes."""

    kind: Literal["by_class"]
    clients: Count
    classes_per_client: Count
    shares: Literal["equal", "uniform", "uniform_and_one_unused"] = "equal"


class Pathological(_Filled):
    """Samples sorted by label are cut into shards; every client gets a few."""

    kind: Literal["pathological"]
    clients: Count
    shards_per_client: Count


class Dirichlet(_Filled):
    """Each client's class proportions are drawn from a symmetric Dirichlet distribution."""

    kind: Literal["dirichlet"]
    clients: Count
    alpha: Positive
    form: Literal["shares", "draws"] = "shares"
    samples_per_client: Count | None = None


class Coarse(_ClassSets):
    """Every client holds all classes of a few superclasses."""

    kind: Literal["coarse"]
    clients: Count
    superclasses_per_client: Count = 1


class Iid(_Filled):
    """Samples are dealt at random regardless of class."""

    kind: Literal["iid"]
    clients: Count


class Environment(Dealt):
    """Clients are independent draws: random class sets, images that no training client holds."""

    kind: Literal["environment"]
    clients: Count
    classes_per_client: Count
    samples_per_client: Count | None = None
    held_out: Annotated[Number, Field(gt=0, lt=1)] | None = None


class ClientTypes(Dealt):
    """Clients are independent draws from a few types: class sets with known weights."""

    kind: Literal["client_types"]
    clients: Count
    types: tuple[tuple[Class, ...], ...]
    weights: tuple[Number, ...]
    samples_per_class: Count | None = None
    held_out: Annotated[Number, Field(gt=0, lt=1)] | None = None

    @model_validator(mode="after")
    def _is_a_law(self) -> "ClientTypes":
        check_types(self.types, self.weights)
        return self


class ClientMixtures(Dealt):
    """Clients are independent draws: class proportions from one Dirichlet law."""

    kind: Literal["client_mixtures"]
    clients: Count
    concentrations: tuple[Number, ...]
    samples_per_client: Count | None = None
    held_out: Annotated[Number, Field(gt=0, lt=1)] | None = None

    @model_validator(mode="after")
    def _is_a_law(self) -> "ClientMixtures":
        check_concentrations(self.concentrations)
        return self


class Frozen(Settings):
    """A split read from a file; ``hash`` pins its contents, ``seed`` is used for shifts."""

    kind: Literal["frozen"]
    path: Text
    hash: str | None = None
    seed: Seed = 0
    query: Annotated[Number, Field(gt=0, lt=1)] = QUERY
    validation: Share = VALIDATION


class Natural(_Filled):
    """Clients as the data define them.

    ``novel_groups``: groups of which no client trains. ``certify_groups``: groups that certified
    and novel clients are drawn from; where they are the ``novel_groups`` too, these are left out.
    """

    kind: Literal["natural"]
    certify_groups: Groups | None = None
    novel_groups: Groups | None = None


SplitSettings = Annotated[
    ByClass
    | Pathological
    | Dirichlet
    | Coarse
    | Iid
    | Natural
    | Environment
    | ClientTypes
    | ClientMixtures
    | Frozen,
    Field(discriminator="kind"),
]
SPLIT_SETTINGS: Mapping[str, type[Settings]] = MappingProxyType(
    {
        "by_class": ByClass,
        "pathological": Pathological,
        "dirichlet": Dirichlet,
        "coarse": Coarse,
        "iid": Iid,
        "natural": Natural,
        "environment": Environment,
        "client_types": ClientTypes,
        "client_mixtures": ClientMixtures,
        "frozen": Frozen,
    }
)


_SPLIT: TypeAdapter[SplitSettings] = TypeAdapter(SplitSettings)


def split_settings(given: Mapping[str, Any]) -> SplitSettings:
    """Read the settings of a split; a key with value None counts as not given.

    Raises
    ------
    InputError
        The message names the key, what is legal and what was given.

    Examples
    --------
    >>> split_settings({"kind": "iid", "clients": 10}).query
    0.25
    """
    kind = given.get("kind")
    if not isinstance(kind, str) or kind not in SPLIT_SETTINGS:
        legal = ", ".join(SPLIT_SETTINGS)
        hint = nearest(kind, SPLIT_SETTINGS) if isinstance(kind, str) else ""
        raise InputError(f"split.kind must be one of {legal}, got {kind!r}{hint}")
    try:
        return _SPLIT.validate_python({k: v for k, v in given.items() if v is not None})
    except ValidationError as error:
        errors = error.errors(include_url=False)
    first = min(errors, key=lambda item: item["type"] != "extra_forbidden")
    key = str(first["loc"][-1])
    if first["type"] == "extra_forbidden":
        hint = nearest(key, SPLIT_SETTINGS[kind].model_fields)
        raise InputError(f"split.{key} is no setting of split.kind={kind}{hint}")
    if first["type"] == "missing":
        raise InputError(f"split.{key} must be given for split.kind={kind}")
    raise InputError(f"split{'' if key == kind else f'.{key}'}: {wrong(first)}")
