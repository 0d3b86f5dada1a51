"""What settings are made of: sections closed to unknown keys, and checked kinds of value."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Union

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    StringConstraints,
    Tag,
)

from latecomer.bounds.checks import LEAST_PROBABILITY
from latecomer.checks import MOST_COUNT, MOST_SIZE


class Settings(BaseModel):
    """A section of a study: frozen, and closed to keys it does not know."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def _countable(value: Any) -> Any:
    if value > MOST_COUNT:
        raise ValueError(f"must be a whole number of at most {MOST_COUNT}")
    return value


def _fits(value: int) -> int:
    if value > MOST_SIZE:
        raise ValueError(f"must be a whole number from 1 to {MOST_SIZE}")
    return value


def _for_bounds(value: float) -> float:
    """Refuse before any training what bounds refuse after it."""
    if value < LEAST_PROBABILITY:
        raise ValueError(f"must be at least {LEAST_PROBABILITY:g}")
    return value


def _amount(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError("must be a count (integer) or a fraction (decimal below 1)")
    if value < 0 or (isinstance(value, float) and not value < 1):
        raise ValueError("must be a count of at least 0 or a fraction in [0, 1)")
    return _countable(value)


def _as_label(value: Any) -> Any:
    whole = isinstance(value, int) and not isinstance(value, bool)
    return str(value) if whole else value


def _one_line(value: str) -> str:
    if value.splitlines() != [value]:
        raise ValueError("must be one line")
    return value


def _auto_or_size(value: Any) -> Any:
    whole = isinstance(value, int) and not isinstance(value, bool)
    if value != "auto" and not (whole and value >= 1):
        raise ValueError("must be 'auto' or an integer of at least 1")
    return _fits(value) if whole else value


def _auto_or_depth(value: Any) -> Any:
    whole = isinstance(value, int) and not isinstance(value, bool)
    if value != "auto" and not (whole and 1 <= value <= 5):
        raise ValueError("must be 'auto' or an integer from 1 to 5")
    return value


@dataclass(frozen=True)
class Legal:
    """What a checked kind of value may be, in words for people; it checks nothing itself."""

    words: str


CountFromZero = Annotated[int, Field(strict=True, ge=0), AfterValidator(_countable)]
Count = Annotated[int, Field(strict=True, ge=1), AfterValidator(_countable)]
Size = Annotated[int, Field(strict=True, ge=1), AfterValidator(_fits)]
Seed = Annotated[int, Field(strict=True, ge=0, lt=2**32)]
Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Positive = Annotated[Number, Field(gt=0)]
Share = Annotated[Number, Field(ge=0, lt=1)]
Probability = Annotated[Number, Field(gt=0, lt=1), AfterValidator(_for_bounds)]
Amount = Annotated[
    Any, BeforeValidator(_amount), Legal("a whole number of at least 0, or a fraction below 1")
]
AutoOrDepth = Annotated[
    Any, BeforeValidator(_auto_or_depth), Legal("auto, or a whole number from 1 to 5")
]
AutoOrSize = Annotated[
    Any, BeforeValidator(_auto_or_size), Legal("auto, or a whole number of at least 1")
]
Name = Annotated[
    str,
    StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", max_length=100),
    Legal("letters, digits, _, . and -"),
]
Text = Annotated[str, StringConstraints(min_length=1)]
OneLine = Annotated[Text, AfterValidator(_one_line)]
Label = Annotated[Text, BeforeValidator(_as_label)]


def sequence(value: Any) -> Any:
    """Accept a list without repeated entries."""
    if not isinstance(value, (list, tuple)):
        raise ValueError("must be a list")
    if any(one in value[:place] for place, one in enumerate(value)):
        raise ValueError("must not repeat an entry")
    return tuple(value)


@dataclass(frozen=True)
class OneOf:
    """A check that accepts these names; its error lists them."""

    names: tuple[str, ...]
    besides: tuple[str, ...] = ()
    """What its user accepts otherwise, as the error says it."""

    def __call__(self, value: Any) -> Any:
        """Return a name that is among them."""
        *others, last = (*map(repr, self.names), *self.besides)
        if value not in self.names:
            raise ValueError(
                f"must be {', '.join(others)} or {last}" if others else f"must be {last}"
            )
        return value


def one_of(names: Iterable[str], *besides: str) -> OneOf:
    """Make a check that accepts these names; its error lists them, and what is legal besides.

    >>> one_of(["product", "wsr_wor", "conformal"])("mean")
    Traceback (most recent call last):
        ...
    ValueError: must be 'product', 'wsr_wor' or 'conformal'
    """
    return OneOf(tuple(names), besides)


def one_of_models(
    models: Mapping[str, type[Settings]], key: str, unless_given: str | None = None
) -> Any:
    """Make the type of a section that is one of several models, as the value of ``key`` says.

    Examples
    --------
    >>> from pydantic import TypeAdapter
    >>> class Far(Settings):
    ...     how: str
    ...     miles: float
    >>> class Near(Settings):
    ...     how: str
    >>> section = TypeAdapter(one_of_models({"far": Far, "near": Near}, "how"))
    >>> section.validate_python({"how": "far", "miles": 2})
    Far(how='far', miles=2.0)
    """

    def chosen(value: Any) -> str | None:
        if isinstance(value, dict):
            return str(value[key]) if key in value else unless_given
        named: str | None = getattr(value, key, unless_given)
        return named

    tagged = tuple(Annotated[model, Tag(name)] for name, model in models.items())
    return Annotated[Union[tagged], Discriminator(chosen)]  # noqa: UP007
