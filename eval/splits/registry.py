"""The kinds of split, as their files declare them, and the ``split`` section of a study."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, TypeAdapter, ValidationError

from latecomer.certify.rule import LEAST_OUTSIDE
from latecomer.checks import wrong
from latecomer.declared import declared
from latecomer.errors import InputError, nearest
from latecomer.eval.schema import Number, Seed, Settings, Share, Text, one_of_models
from latecomer.eval.splits.kinds.declaration import QUERY, VALIDATION, Dealt, SplitKind
from latecomer.eval.splits.split import frozen_facts

_DECLARED: Mapping[str, SplitKind] = declared("latecomer.eval.splits.kinds", "SPLITS")
SPLITS: Mapping[str, SplitKind] = MappingProxyType(
    dict(sorted(_DECLARED.items(), key=lambda one: one[1].law is not None))
)
"""Every kind of split that a module of ``kinds`` declares, those of independent clients last."""
IID_SPLITS = frozenset(name for name, kind in SPLITS.items() if kind.law)


def sampling_of(split_kind: str) -> str:
    """``iid`` for splits whose clients are drawn independently, else ``finite-pool``."""
    return "iid" if split_kind in IID_SPLITS else "finite-pool"


def check_outside(split_kind: str, n_certification: int, n_outside: int) -> None:
    """Refuse to certify a finite pool with hardly any clients outside the certified ones."""
    if sampling_of(split_kind) == "finite-pool" and n_outside < LEAST_OUTSIDE:
        raise InputError(
            f"split.novel must be at least {LEAST_OUTSIDE} clients beside the {n_certification} "
            f"certified ones, got {n_outside}: a certificate of a finite pool is about those too; "
            "leave more untrained, or drop the certificates"
        )


class Frozen(Settings):
    """A split read from a file.

    Attributes
    ----------
    kind : str
        ``frozen``.
    path : str
        The file, such as the ``split.npz`` of a run.
    hash : str, optional
        Checksum that its contents must have.
    seed : int
        Seed of what shifts draw.
    query, validation : float, optional
        As for other kinds, where shifts deal further clients; unless given, those that the file's
        clients were dealt by, so that such clients are no others in this.
    """

    kind: Literal["frozen"]
    path: Text
    hash: str | None = None
    seed: Seed = 0
    query: Annotated[Number, Field(gt=0, lt=1)] | None = None
    validation: Share | None = None

    @property
    def role_shares(self) -> tuple[float, float]:
        """Shares of query and validation data of further clients, the file's unless given."""
        made_with = frozen_facts(self.path).get("settings") or {}
        query = made_with.get("query", QUERY) if self.query is None else self.query
        own = made_with.get("validation", VALIDATION)
        return query, own if self.validation is None else self.validation

    def completed(self) -> "Frozen":
        """Fill in from the file what is not given, its checksum too."""
        query, validation = self.role_shares
        pinned = self.hash or str(frozen_facts(self.path)["content_hash"])
        update = {"hash": pinned, "query": query, "validation": validation}
        return self.model_copy(update=update)


SPLIT_SETTINGS: Mapping[str, type[Dealt] | type[Frozen]] = MappingProxyType(
    {**{name: kind.settings for name, kind in SPLITS.items()}, "frozen": Frozen}
)
if TYPE_CHECKING:
    SplitSettings = Dealt | Frozen
else:
    SplitSettings = one_of_models(SPLIT_SETTINGS, "kind")
_SPLIT: TypeAdapter[SplitSettings] = TypeAdapter(SplitSettings)


def split_settings(given: Mapping[str, Any]) -> SplitSettings:
    """Read the settings of a split; a key with value None counts as not given."""
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
