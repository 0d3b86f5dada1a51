"""The schema of a study's ``split`` section: the kinds' own settings, or a split from a file."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, TypeAdapter, ValidationError

from latecomer.checks import wrong
from latecomer.errors import InputError, nearest
from latecomer.eval.schema import Number, Seed, Settings, Share, Text, one_of_models
from latecomer.eval.splits.kinds.declaration import QUERY, VALIDATION, Dealt
from latecomer.eval.splits.registry import SPLITS


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
    query, validation : float
        As for other kinds, where shifts deal further clients.
    """

    kind: Literal["frozen"]
    path: Text
    hash: str | None = None
    seed: Seed = 0
    query: Annotated[Number, Field(gt=0, lt=1)] = QUERY
    validation: Share = VALIDATION


SPLIT_SETTINGS: Mapping[str, type[Dealt] | type[Frozen]] = MappingProxyType(
    {**{name: kind.settings for name, kind in SPLITS.items()}, "frozen": Frozen}
)
if TYPE_CHECKING:
    SplitSettings = Dealt | Frozen
else:
    SplitSettings = one_of_models(SPLIT_SETTINGS, "kind")
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
