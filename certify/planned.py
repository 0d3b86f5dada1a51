"""How many clients to hold out, and what clients that come by themselves can prove.

A plan starts from a guess of the clients' scores, made before the first score: from a pilot, whose
own losses are resampled, or from elsewhere.  It promises nothing about the certificate: the
certificate will hold however good the guess was; only its value may disappoint.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache, partial
from os import PathLike, fspath
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from latecomer.bounds import product_wor
from latecomer.bounds.certificate import Array
from latecomer.bounds.checks import failure_probability
from latecomer.bounds.held_out.betting import (
    BET_WEIGHTS,
    RISK_STEPS,
    fixed_bets,
    fixed_products,
    orders_for,
    seeded_orders,
)
from latecomer.bounds.held_out.blend import blend_refuses
from latecomer.bounds.held_out.losses import chernoff_kl, product
from latecomer.bounds.held_out.price import reference_price
from latecomer.certify.arguments import PLAN, Shown, told_in_full
from latecomer.certify.rule import LEAST_OUTSIDE
from latecomer.certify.table import Source, read_losses
from latecomer.certify.words import as_given, chance, count, exact, rounded, wrapped
from latecomer.checks import checked, fraction, number_in, one_of, whole
from latecomer.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

_GUESSED_MEAN = 0.2
_FEWEST_CLIENTS = LEAST_OUTSIDE + 2


def foretold(sizes: tuple[int, int, int], n_outside: int, delta: float | None) -> str:
    """Say who has which role, and about what a certificate of a mean will be worth.

    ``sizes`` are the numbers of seen, certified and new clients, ``n_outside`` are those of the
    certified ones' population that neither train nor are certified; without delta no certificate is
    asked for.

    Examples
    --------
    >>> import textwrap
    >>> print(textwrap.fill(foretold((8, 10, 10), 10, 0.05), 80))
    28 clients: 8 train, 10 are certified, 10 are new; were all 10 wrong 20% of the
    time, a certificate for the 20 not trained on would be about 35% (95%), more
    where clients differ
    """
    n_seen, n_certified, n_novel = sizes
    said = f"{sum(sizes)} clients: {n_seen} train, {n_certified} are certified, {n_novel} are new"
    if delta is None or not n_certified:
        return said
    pool = n_certified + n_outside
    bound = product_wor(losses=[_GUESSED_MEAN] * n_certified, pool_size=pool, delta=delta)
    return (
        f"{said}; were all {n_certified} wrong {_GUESSED_MEAN:.0%} of the time, a certificate for "
        f"the {pool} not trained on would be about {float(bound.value):.0%} ({chance(delta)}), "
        "more where clients differ"
    )


def refuse_too_few(n_clients: int, points: Sequence[int], delta: float) -> None:
    """Refuse to certify with fewer clients than a pool's takes; ``points`` are those of each.

    Raises
    ------
    InputError
        It says what so few clients can show, and what they cannot.
    """
    if n_clients >= _FEWEST_CLIENTS:
        return
    floor = float(reference_price(mean_loss=0.0, n_clients=n_clients, delta=delta))
    raise InputError(
        f"certificates need at least {_FEWEST_CLIENTS} clients (1 that trains, 1 certified, "
        f"{LEAST_OUTSIDE} others of which they speak), got {n_clients} of {min(points)} to "
        f"{max(points)} points: without certificates, hold clients back in turn (split.novel: 1, "
        "split.seed: 0, 1, ...) and their errors are measured, which proves nothing of a next "
        f"client; of a model that none of the {n_clients} trained, latecomer certify proves with "
        f"{chance(delta)} confidence a mean over clients to come of no less than "
        f"{math.floor(100 * floor)}%, even if all {n_clients} had no error"
    )


DEFAULT_PLAN_RULE = "blend"
# Samples simulated for so many clients; more clients vary less, and take longer.
_SIMULATED = ((256, 1000), (1000, 500))
_SIMULATED_ABOVE = 200
# More orders move the probabilities by less than the simulation does.
_ORDERS = 16
# Losses held at a time, along all orders.
_BLOCK = 2**22
_BETS_OF_MIXTURE = 10
_WIDEST = 0.999
_NARROWEST = 1e-6  # narrower laws are one number


def _blend(losses: Array, delta: float, target: float) -> NDArray[np.bool_]:
    n_samples, k = losses.shape
    point = math.floor(target * RISK_STEPS)
    # The last grid point that is no larger than the target, whatever the product was rounded to.
    risk = next(
        at / RISK_STEPS for at in (point + 1, point, point - 1) if at / RISK_STEPS <= target
    )
    orders = seeded_orders(k, min(_ORDERS, orders_for(k)), 0)
    size = max(1, _BLOCK // orders.size)
    parts = [losses[first : first + size] for first in range(0, n_samples, size)]
    return np.concatenate([blend_refuses(part, delta, risk, orders) for part in parts])


def _product(losses: Array, delta: float, target: float) -> NDArray[np.bool_]:
    return np.asarray(product(losses=losses, delta=delta).value <= target)


def _product_mixture(losses: Array, delta: float, target: float) -> NDArray[np.bool_]:
    won = fixed_products(losses, np.array(BET_WEIGHTS))
    return np.asarray(won(np.full(len(losses), target)) > -math.log(delta))


def _chernoff_kl(losses: Array, delta: float, target: float) -> NDArray[np.bool_]:
    mean, k = losses.mean(axis=-1), losses.shape[-1]
    return np.asarray(chernoff_kl(empirical_risk=mean, n_samples=k, delta=delta).value <= target)


def _betting_mixture(losses: Array, delta: float, target: float) -> NDArray[np.bool_]:
    won = fixed_bets(losses, _BETS_OF_MIXTURE)
    return np.asarray(won(np.full(len(losses), target)) > -math.log(delta))


PLAN_RULES: Mapping[str, Callable[[Array, float, float], NDArray[np.bool_]]] = MappingProxyType(
    {
        "blend": _blend,
        "product": _product,
        "product_mixture": _product_mixture,
        "chernoff_kl": _chernoff_kl,
        "betting_mixture": _betting_mixture,
    }
)
"""Rules for which a number of clients can be planned, with whether each of many samples of
independent clients is certified at most the target."""


@dataclass(frozen=True)
class HoldOutPlan:
    """How many clients to hold out.

    Attributes
    ----------
    target : float
        The certificate is to be at most this.
    expected, sd : float
        What clients are expected to score, the hopeless ones left out, or what a pilot's clients
        scored: mean and standard deviation.
    hopeless : float
        Share of clients expected to have the largest loss, 1, beside those.
    pilot_clients : int or None
        Clients of the pilot whose losses were resampled; None where Beta losses were simulated.
    clients : int
        Most clients that can be held out.
    delta : float
        Failure probability of the certificate.
    rule : str
        One of ``PLAN_RULES``.
    floor : int or None
        Fewest clients with which a deterministic rule could meet the target on equal scores of the
        mean of all; None if there are not so many.
    even_odds, likely : int or None
        Clients whose certificate is at most the target with probability 1/2, and with 9/10, where
        one client fewer is not enough; None if there are not so many.
    """

    target: float
    expected: float
    sd: float
    hopeless: float
    pilot_clients: int | None
    clients: int
    delta: float
    rule: str
    floor: int | None
    even_odds: int | None
    likely: int | None

    @property
    def mean(self) -> float:
        """Mean loss of all clients, the hopeless ones included."""
        return self.hopeless + (1.0 - self.hopeless) * self.expected


def clients_to_hold_out(
    *,
    target: float,
    expected: float | None = None,
    sd: float | None = None,
    pilot: Sequence[float] | None = None,
    hopeless: float = 0.0,
    delta: float = 0.05,
    clients: int = 500,
    rule: str = DEFAULT_PLAN_RULE,
    seed: int = 0,
) -> HoldOutPlan:
    """Plan how many clients to hold out, by simulating their scores.

    A client scores 1 with probability ``hopeless``.  Other scores are draws with replacement from a
    pilot's, or Beta draws of the expected mean and deviation.  The floor needs no simulation: on k
    equal scores e no deterministic rule certifies less than e + (1 - delta^(1/k)) (1 - e).

    Parameters
    ----------
    target, delta, clients, rule
        As in `HoldOutPlan`; target and delta in (0, 1).
    expected, sd : float, optional
        Mean, in (0, 1), and deviation, above 0 and below that of 0/1 scores of this mean.
    pilot : sequence of float, optional
        Scores in [0, 1] of two clients or more, not all equal, in place of both.
    hopeless : float
        In [0, 1).
    seed : int
        Seed of the simulated scores; the same seed gives the same plan.

    Raises
    ------
    InputError
        One line naming the argument, what is legal and what was given.

    Examples
    --------
    >>> plan = clients_to_hold_out(target=0.25, expected=0.17, sd=0.09)
    >>> plan.floor, plan.even_odds, plan.likely
    (30, 32, 44)
    >>> clients_to_hold_out(target=0.25, expected=0.17, sd=0.09, hopeless=0.02).likely
    144
    """
    fraction("target", target, above=True)
    checked(failure_probability, "delta", delta)
    one_of("rule", rule, tuple(PLAN_RULES))
    most, start = whole("clients", clients, 1), whole("seed", seed, 0)
    share = fraction("hopeless", hopeless)
    mean, deviation, draws = _law(expected, sd, pilot)
    resampled = None if pilot is None else len(pilot)
    asked = (target, mean, deviation, share, resampled, most, delta, rule)
    of_all = share + (1.0 - share) * mean
    if target <= of_all:
        # A certificate below the mean of all is wrong, which few certificates are.
        return HoldOutPlan(*asked, None, None, None)
    floor = _floor(target, of_all, delta)
    reached = _reached(rule, delta, target, lambda k: _simulated(draws, share, k, start))
    enough = [_fewest(lambda k, p=p: reached(k) >= p, most) for p in (0.5, 0.9)]  # type: ignore[misc]
    return HoldOutPlan(*asked, floor if floor <= most else None, *enough)


def _reached(
    rule: str, delta: float, target: float, samples: Callable[[int], Array]
) -> Callable[[int], float]:
    """Return k -> share of the samples of k clients that are certified at most the target."""

    @cache
    def reached(k: int) -> float:
        return float(PLAN_RULES[rule](samples(k), delta, target).mean())

    return reached


_Draws = Callable[[np.random.Generator, tuple[int, int]], Array]


def _law(
    expected: float | None, sd: float | None, pilot: Sequence[float] | None
) -> tuple[float, float, _Draws]:
    """Return mean, deviation and draws of what clients score, the hopeless ones left out."""
    if pilot is None:
        return _beta(expected, sd)
    if expected is not None or sd is not None:
        raise InputError("a pilot gives mean and deviation: leave expect and sd out")
    return _resampled(pilot)


def _samples_of(k: int) -> int:
    """Return how many samples of k clients are simulated."""
    return next((n for most, n in _SIMULATED if k <= most), _SIMULATED_ABOVE)


def _simulated(draws: _Draws, hopeless: float, k: int, seed: int) -> Array:
    """Draw samples of k clients, [S, k]; the first clients stay the same for many another k."""
    shape = (k, _samples_of(k))
    scores = draws(np.random.default_rng(seed), shape)
    lost = np.random.default_rng([seed, 1]).random(shape) < hopeless
    return np.where(lost, 1.0, scores).T


def _beta(expected: float | None, sd: float | None) -> tuple[float, float, _Draws]:
    """Return mean, deviation and draws of a Beta law."""
    if expected is None or sd is None:
        raise InputError("expect and sd are needed, or a pilot with losses of some clients")
    fraction("expect", expected, above=True)
    largest = math.sqrt(expected * (1 - expected))
    if not _NARROWEST < number_in("sd", sd, 0.0, 1.0) < largest:
        legal = f"sd must lie strictly between {_NARROWEST:g} and {largest:.4g}"
        raise InputError(f"{legal}, got {sd!r}")
    size = expected * (1 - expected) / sd**2 - 1
    law = (expected * size, (1 - expected) * size)
    return expected, sd, lambda generator, shape: generator.beta(*law, shape)


def _resampled(pilot: Sequence[float]) -> tuple[float, float, _Draws]:
    """Return mean and deviation of a pilot, and draws from its losses."""
    losses = np.array([number_in("pilot", float(loss), 0.0, 1.0) for loss in pilot])
    if losses.size < 2:
        raise InputError(f"a pilot needs at least 2 clients, got {losses.size}")
    if losses.min() == losses.max():
        raise InputError(f"a pilot's losses must differ, got {losses[0]:g} of every client")
    mean = float(losses.mean())
    # Losses of 0 and 1 alone are spread wider than any law in [0, 1] by this estimate.
    spread = min(float(losses.std(ddof=1)), _WIDEST * math.sqrt(mean * (1 - mean)))
    return mean, spread, lambda generator, shape: generator.choice(losses, shape)


def _floor(target: float, expected: float, delta: float) -> int:
    """Fewest k with (1 - delta^(1/k)) (1 - e) <= target - e."""
    shrunk = math.log1p(-(target - expected) / (1 - expected))
    return max(1, math.ceil(math.log(delta) / shrunk - 1e-12))


def _fewest(enough: Callable[[int], bool], most: int) -> int | None:
    """Return a number that is enough, where one fewer is not: a quarter more each, then bisection.

    Where hopeless clients end a rule, more of them can be worse: steps are short so as not to pass
    over the numbers that are enough.
    """
    low, high = 0, 1
    while not enough(high):
        if high == most:
            return None
        low, high = high, min(high + 1 + high // 4, most)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


@dataclass(frozen=True)
class HoldOut(HoldOutPlan, Shown):
    """A `HoldOutPlan` with the display methods of `Shown`."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers and text."""
        return asdict(self) | {"mean": self.mean}

    def rows(self) -> list[dict[str, Any]]:
        """Return how many clients reach the target, by probability; None if no number does."""
        reached = {"floor": self.floor, "even odds": self.even_odds, "likely": self.likely}
        return [{"reached": name, "clients": clients} for name, clients in reached.items()]

    def table(self) -> "pd.DataFrame":
        """Return `rows` as a frame; needs pandas."""
        return super().table().astype({"clients": "Int64"})

    @property
    def sentence(self) -> str:
        """How many clients reach the target nine times in ten."""
        enough = count(self.likely, "client") if self.likely is not None else "no number of clients"
        return (
            f"With probability 9/10 {enough} (of at most {self.clients}) give a certificate of at"
            f" most {exact(self.target)}, {_guessed(self)}."
        )

    def __str__(self) -> str:
        """Return what ``latecomer plan`` prints."""
        return "\n".join(_short_lines(self))

    @property
    def in_full(self) -> str:
        """Return what ``latecomer plan --long`` prints."""
        return "\n".join(plan_lines(self))


@told_in_full(PLAN)
def plan_hold_out(
    target: float,
    *,
    expect: float | None = None,
    sd: float | None = None,
    pilot: Source | None = None,
    hopeless: float = 0.0,
    clients: int = 500,
    delta: float = 0.05,
    rule: str = DEFAULT_PLAN_RULE,
    seed: int = 0,
) -> HoldOut:
    """Plan how many clients to hold out for a certificate.

    Parameters
    ----------
    target : float
        The certificate is to be at most this.
    expect, sd : float, optional
        Expected mean and standard deviation of the clients' losses, those of the hopeless ones left
        out.
    pilot : path, DataFrame, mapping or sequence, optional
        Losses of some clients, which are resampled in place of both.
    hopeless : float
        Share of clients with a loss of 1 beside these.
    clients : int
        Most clients that can be held out.
    delta, rule, seed
        As for :func:`latecomer.certify.planned.clients_to_hold_out`.

    Raises
    ------
    InputError
        One line naming the argument, what is legal and what was given.

    Examples
    --------
    >>> plan_hold_out(0.25, expect=0.17, sd=0.09).table()
         reached  clients
    0      floor       30
    1  even odds       32
    2     likely       44
    """
    if pilot is None and (expect is None or sd is None):
        raise InputError("--expect and --sd are needed, or --pilot with losses of some clients")
    if pilot is not None and (expect is not None or sd is not None):
        raise InputError("--pilot gives mean and deviation: leave --expect and --sd out")
    asked: dict[str, Any] = {"target": target, "hopeless": hopeless, "clients": clients}
    asked |= {"delta": delta, "rule": rule, "seed": seed}
    losses = None if pilot is None else read_losses(pilot, loss_max=1.0).losses
    try:
        found = clients_to_hold_out(expected=expect, sd=sd, pilot=losses, **asked)
        return HoldOut(**asdict(found))
    except InputError as error:
        if isinstance(pilot, str | PathLike) and "pilot" in str(error):
            raise InputError(f"{fspath(pilot)}: {error}") from error
        raise


def _short_lines(planned: HoldOutPlan) -> list[str]:
    """Show a plan: figures first, in 80 columns."""
    equal = f"the least, if all score {rounded(planned.mean, decimals=3)}"
    figures = {
        "enough in half of all draws": planned.even_odds,
        "enough in 9 of 10 draws": planned.likely,
        equal: planned.floor,
    }
    lines = [
        f"Clients to hold out for a mean loss certified to be at most {as_given(planned.target)}"
    ]
    for about, clients in figures.items():
        reached = f"none up to {planned.clients}" if clients is None else str(clients)
        whose = "   by any deterministic rule" if about == equal else ""
        lines.append(f"  {about:<34} {reached}{whose}")
    lines += wrapped(f"Settled beforehand: rule {planned.rule}, delta {exact(planned.delta)}.")
    lines += wrapped(f"Supposed: {_guessed(planned).removeprefix('if ')}.")
    for said in _remarks(planned):
        lines += wrapped(said)
    return [*lines, "In full sentences: --long (in_full)."]


def plan_lines(planned: HoldOutPlan) -> list[str]:
    """Show a plan."""
    lines = [
        f"Clients to hold out for a certificate of at most {as_given(planned.target)}"
        f" (rule {planned.rule}, delta {exact(planned.delta)}), {_guessed(planned)}:",
        f"  {_reached_words(planned.even_odds, planned)}  with probability 1/2",
        f"  {_reached_words(planned.likely, planned)}  with probability 9/10",
        f"  {_reached_words(planned.floor, planned)}  at least by any deterministic rule, if"
        f" all score {rounded(planned.mean, decimals=3)}",
    ]
    return [*lines, *_remarks(planned)]


def _remarks(planned: HoldOutPlan) -> Iterator[str]:
    """Say what the figures stand on."""
    if planned.target <= planned.mean:
        yield "No certificate is below the mean of what clients score."
    if planned.pilot_clients is not None:
        yield (
            "The pilot's clients have been looked at: hold out others, and take its losses for the"
            " guess they are."
        )
    yield (
        f"{_simulation_words(planned)}{_known_to(planned)} A wrong guess costs value, not truth:"
        " the certificate holds whatever clients score."
    )


def _guessed(planned: HoldOutPlan) -> str:
    show = as_given if planned.pilot_clients is None else partial(rounded, decimals=3)
    mean, sd = show(planned.expected), show(planned.sd)
    if not planned.hopeless:
        return f"if they score {mean} on average (sd {sd})"
    return (
        f"if {exact(planned.hopeless)} of them are hopeless (a loss of 1) and the others score"
        f" {mean} on average (sd {sd}), which is {rounded(planned.mean, decimals=3)} for all"
    )


def _simulation_words(planned: HoldOutPlan) -> str:
    beside = ", beside the hopeless clients" if planned.hopeless else ""
    if planned.pilot_clients is not None:
        return (
            f"Simulated by drawing from the losses of the pilot's {planned.pilot_clients}"
            f" clients{beside}: what none of them showed is not in it."
        )
    if planned.hopeless:
        return "Simulated with Beta losses, beside the hopeless clients."
    return (
        "Simulated with Beta losses alone: none of these clients is hopeless (a loss of 1), and"
        " where some are it takes more clients (--hopeless .02: two of a hundred)."
    )


def _known_to(planned: HoldOutPlan) -> str:
    """Say how far simulated probabilities may be off: two deviations of an even chance."""
    reached = [k for k in (planned.even_odds, planned.likely) if k is not None]
    if not reached:
        return ""
    n = _samples_of(max(reached))
    return f" The probabilities are shares of {n:,} simulated draws: give or take {n**-0.5:.2f}."


def _reached_words(clients: int | None, planned: HoldOutPlan) -> str:
    if clients is None:
        return f"not reachable with {count(planned.clients, 'client')}"
    return f"{clients:>5} client{'' if clients == 1 else 's'}"
