"""The result type of every bound, and the catalogue every calculator is entered in.

The commonest mistake made with bounds is to quote a number without its population, so a
:class:`Certificate` states whose risk it bounds, for which predictor, under which sampling, what
was assumed, how the failure probability was spent and whether the result is rigorous.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from types import MappingProxyType
from typing import Any, Literal, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Population = Literal["unseen-client", "next-client", "seen-clients", "one-client"]
Predictor = Literal["deterministic", "gibbs", "mixture", "random-checkpoint", "any"]
Sampling = Literal["iid", "finite-pool", "martingale", "iid or finite-pool"]

# Relative error that a few dozen roundings can cause; far below any difference that matters.
_OUTWARD = 64.0 * float(np.finfo(np.float64).eps)


def rounded_up(value: Array) -> Array:
    """Return ``value`` raised by more than the rounding error of a well-conditioned closed form."""
    return np.asarray(value + np.abs(value) * _OUTWARD)


def scaled_up(unit: Array, loss_max: float) -> Array:
    """Return ``loss_max`` times a bound on the unit scale; rounding never passes ``loss_max``."""
    return np.asarray(
        np.minimum(rounded_up(loss_max * unit), np.maximum(loss_max * unit, loss_max))
    )


def halved(
    low: Array, high: Array, times: int, above: Callable[[Array], NDArray[np.bool_]]
) -> tuple[Array, Array]:
    """Halve intervals: the upper end moves to a middle that is ``above``, else the lower one."""
    for _ in range(times):
        middle = 0.5 * (low + high)
        beyond = above(middle)
        low, high = np.where(beyond, low, middle), np.where(beyond, middle, high)
    return low, high


@dataclass(frozen=True)
class Entry:
    """What the catalogue knows about one calculator.

    Attributes
    ----------
    name : str
        Name of the public function.
    family : str
        Heading it is listed under (``hold-out``, ``one data set``, ``meta-learning``, ...).
    claim : str
        The statement in one sentence.
    source : str
        Paper and theorem, or "this project" for what is derived here.
    cites : tuple of str
        BibTeX entries of publications that a report would not find in ``source`` by itself.
    population, predictor, sampling : str
        The tags of the certificate; empty for a plain quantity.
    assumptions : tuple of str
        What must hold, in words.
    vacuous_when : str
        When the value says nothing.
    rigorous : bool
        Whether the value is a proven bound when its assumptions hold.
    reason : str
        Why it is not rigorous; empty when it is.
    function : callable
        The calculator itself.
    """

    name: str
    family: str
    claim: str
    source: str
    cites: tuple[str, ...] = ()
    population: str = ""
    predictor: str = ""
    sampling: str = ""
    assumptions: tuple[str, ...] = ()
    vacuous_when: str = ""
    rigorous: bool = True
    reason: str = ""
    function: Callable[..., Any] = field(default=lambda: None, repr=False, compare=False)

    @property
    def kind(self) -> str:
        """``certificate`` when the calculator bounds a risk, else ``quantity``."""
        return "certificate" if self.population else "quantity"


_CATALOGUE: dict[str, Entry] = {}
CATALOGUE: Mapping[str, Entry] = MappingProxyType(_CATALOGUE)
"""Every calculator by name: what it claims, of whom, under which assumptions."""

F = TypeVar("F", bound=Callable[..., Any])


def catalogued(
    *,
    family: str,
    claim: str,
    source: str,
    cites: tuple[str, ...] = (),
    population: Population | Literal[""] = "",
    predictor: Predictor | Literal[""] = "",
    sampling: Sampling | Literal[""] = "",
    assumptions: tuple[str, ...] = (),
    vacuous_when: str = "",
    rigorous: bool = True,
    reason: str = "",
) -> Callable[[F], F]:
    """Enter the decorated calculator in the catalogue under its own name."""
    if rigorous == bool(reason):
        raise ValueError("a reason is given exactly when an entry is not rigorous")

    def enter(function: F) -> F:
        name = function.__name__
        if name in _CATALOGUE:
            raise ValueError(f"calculator {name} is entered twice")

        @wraps(function)
        def calculator(*positional: Any, **named: Any) -> Any:
            try:
                # A value beyond all floats is infinite, a share of nothing 0; NaN is no value.
                with np.errstate(all="ignore", invalid="raise"):
                    return function(*positional, **named)
            except FloatingPointError as error:
                raise ValueError(
                    f"{name} has no value among floats for numbers so far apart, it must be given"
                    f" others, got {_numbers(named)}"
                ) from error
            except ValueError as error:
                # numpy names neither the arguments nor the calculator when shapes disagree.
                if "broadcast" not in str(error):
                    raise
                shapes = {key: np.shape(value) for key, value in named.items() if np.ndim(value)}
                listed = ", ".join(f"{key} of shape {shape}" for key, shape in shapes.items())
                raise ValueError(f"{name} needs arguments that broadcast, got {listed}") from error

        _CATALOGUE[name] = Entry(
            name=name,
            family=family,
            claim=claim,
            source=source,
            cites=cites,
            population=population,
            predictor=predictor,
            sampling=sampling,
            assumptions=assumptions,
            vacuous_when=vacuous_when,
            rigorous=rigorous,
            reason=reason,
            function=calculator,
        )
        return cast(F, calculator)

    return enter


def _numbers(named: Mapping[str, Any]) -> str:
    listed = {key: value for key, value in named.items() if isinstance(value, int | float)}
    return ", ".join(f"{key}={value:g}" for key, value in listed.items())


@dataclass(frozen=True, eq=False)
class Orders:
    """Orders of the clients over which a certificate's bets were averaged.

    Attributes
    ----------
    n : int
        How many.
    seed : int
        Seed that draws them.
    in_order : bool
        Whether they permute the order in which clients were sampled; otherwise they were drawn
        afresh, and a second draw is a second certificate.
    sd : ndarray
        Standard deviation of the bound over other draws of as many orders, estimated from these.
    """

    n: int
    seed: int
    in_order: bool
    sd: Array


@dataclass(frozen=True, eq=False)
class Certificate:
    """An upper bound together with everything needed to read it correctly.

    Attributes
    ----------
    name : str
        Calculator that made it.
    value : ndarray
        The raw bound, shape of the broadcast inputs (0-d for scalars); may exceed ``loss_max``.
    terms : mapping of str to ndarray
        Named parts that add up to ``value``.
    delta : mapping of str to ndarray
        The ledger: each random event and the failure probability spent on it.
    population : str
        Whose risk: ``unseen-client``, ``next-client``, ``seen-clients`` or ``one-client``.
    predictor : str
        ``deterministic``, ``gibbs``, ``mixture``, ``random-checkpoint`` or ``any``.
    sampling : str
        ``iid``, ``finite-pool``, ``iid or finite-pool`` or ``martingale``.
    assumptions : tuple of str
        What must hold, in words.
    source : str
        Paper and theorem.
    rigorous : bool
        False when an input is an estimate or a step has no proof.
    reason : str
        Why it is not rigorous; empty when it is.
    loss_max : float
        Largest possible loss; at or above it the bound says nothing.
    orders : Orders or None
        Orders that the bets were averaged over; None for rules that draw none.
    """

    name: str
    value: Array
    terms: Mapping[str, Array]
    delta: Mapping[str, Array]
    population: str
    predictor: str
    sampling: str
    assumptions: tuple[str, ...]
    source: str
    rigorous: bool
    reason: str = ""
    loss_max: float = 1.0
    orders: Orders | None = None

    @property
    def vacuous(self) -> NDArray[np.bool_]:
        """Whether the bound is no better than ``loss_max``, elementwise."""
        return np.asarray(self.value >= self.loss_max)

    @property
    def clipped(self) -> Array:
        """``min(value, loss_max)``, elementwise."""
        return np.asarray(np.minimum(self.value, self.loss_max))

    @property
    def delta_total(self) -> Array:
        """Total failure probability: the sum of the ledger."""
        return np.asarray(sum(self.delta.values(), start=np.float64(0.0)), dtype=np.float64)

    def __float__(self) -> float:
        """Return the raw value of a scalar certificate."""
        return float(self.value)


def certificate(
    name: str,
    *,
    terms: Mapping[str, Any],
    delta: Mapping[str, Any],
    value: Any | None = None,
    loss_max: float = 1.0,
    **changes: Any,
) -> Certificate:
    """Build the certificate of a catalogued calculator.

    Parameters
    ----------
    name : str
        Calculator; its catalogue entry supplies tags, assumptions and source.
    terms : mapping
        Named parts; broadcast against each other.
    delta : mapping
        Failure probability spent per event.
    value : array_like, optional
        The bound, if it was rounded outward as a whole; the sum of ``terms`` when omitted.
    loss_max : float
        Largest possible loss.
    **changes
        Fields that differ from the catalogue entry (``sampling``, ``rigorous``, ``reason``, ...).
    """
    entry = _CATALOGUE[name]
    parts = {key: np.asarray(part, dtype=np.float64) for key, part in terms.items()}
    total = sum(parts.values(), start=np.float64(0.0)) if value is None else value
    told = ("population", "predictor", "sampling", "assumptions", "source", "rigorous", "reason")
    return Certificate(
        name=name,
        value=np.asarray(total, dtype=np.float64),
        terms=MappingProxyType(parts),
        delta=MappingProxyType({k: np.asarray(v, dtype=np.float64) for k, v in delta.items()}),
        loss_max=loss_max,
        **({name: getattr(entry, name) for name in told} | changes),
    )


def priced(
    name: str,
    value: Array,
    risk: Array,
    delta: Mapping[str, Any],
    loss_max: float = 1.0,
    *,
    part: str = "price",
) -> Certificate:
    """Build a certificate of two parts: the measured risk, and what ``value`` adds to it."""
    terms = {"empirical_risk": risk, part: value - risk}
    return certificate(name, value=value, terms=terms, delta=delta, loss_max=loss_max)
