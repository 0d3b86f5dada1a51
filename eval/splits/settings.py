"""The schema of a study's ``split`` section, one model for each kind of split."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Literal

from pydantic import Field

from latecomer.eval.schema import (
    Amount,
    Count,
    Number,
    Positive,
    Seed,
    Settings,
    Share,
    Text,
)

__all__ = ["SPLIT_SETTINGS", "Frozen", "SplitSettings"]


class _Split(Settings):
    certify: Amount = 0
    novel: Amount = 0
    seed: Seed = 0
    query: Annotated[Number, Field(gt=0, lt=1)] = 0.25
    validation: Share = 0.2
    reserve: Share | None = None


class _Filled(_Split):
    min_samples: Count | None = None


class ByClass(_Filled):
    """Every client holds a few classes."""

    kind: Literal["by_class"]
    clients: Count
    classes_per_client: Count
    shares: Literal["equal", "uniform"] = "equal"


class Pathological(_Filled):
    """Samples sorted by label are cut into shards; every client gets a few."""

    kind: Literal["pathological"]
    clients: Count
    shards_per_client: Count


class Dirichlet(_Filled):
    """Every client's class proportions are drawn from a symmetric Dirichlet distribution."""

    kind: Literal["dirichlet"]
    clients: Count
    alpha: Positive
    form: Literal["shares", "draws"] = "shares"
    samples_per_client: Count | None = None


class Coarse(_Filled):
    """Every client holds all classes of a few superclasses."""

    kind: Literal["coarse"]
    clients: Count
    superclasses_per_client: Count = 1


class Iid(_Filled):
    """Samples are dealt at random whatever their class."""

    kind: Literal["iid"]
    clients: Count


class Environment(_Split):
    """Clients are independent draws: random class sets, images no training client holds."""

    kind: Literal["environment"]
    clients: Count
    classes_per_client: Count
    samples_per_client: Count | None = None
    held_out: Annotated[Number, Field(gt=0, lt=1)] | None = None


class Frozen(Settings):
    """A split read from a file; ``hash`` pins its contents, ``seed`` is that of shifts."""

    kind: Literal["frozen"]
    path: Text
    hash: str | None = None
    seed: Seed = 0
    query: Annotated[Number, Field(gt=0, lt=1)] = 0.25
    validation: Share = 0.2


class Natural(_Filled):
    """The publisher says whose sample is whose."""

    kind: Literal["natural"]
    clients: Count | None = None


SplitSettings = Annotated[
    ByClass | Pathological | Dirichlet | Coarse | Iid | Natural | Environment | Frozen,
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
        "frozen": Frozen,
    }
)
