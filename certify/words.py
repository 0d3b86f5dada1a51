"""Numbers, shifts and lists in words, certified numbers rounded up; lines of 80 columns."""

import math
import re
import textwrap
from collections.abc import Collection, Mapping, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from latecomer.bounds.certificate import Certificate

DASH = "\N{EN DASH}"
MINUS = "\N{MINUS SIGN}"
PLUS_MINUS = "\N{PLUS-MINUS SIGN}"


class Ball(NamedTuple):
    """What a ball of populations is called: on an axis, and before a radius."""

    axis: str
    radius: str


BALLS: Mapping[str, Ball] = MappingProxyType(
    {
        "kl": Ball("KL(Q || P) in nats, P: today's clients", "KL(Q || P) at most"),
        "tv": Ball("TV(Q, P), P: today's clients", "TV(Q, P) at most"),
        "chi2": Ball("chi2(Q || P), P: today's clients", "chi2(Q || P) at most"),
        "subgroup": Ball("smallest share of today's clients", "groups of a share of at least"),
    }
)
"""The words for each ball of populations Q around the certified one, P."""

NOTHING_NEW = "Q has no kinds of clients that P lacks."
"""Where KL(Q || P) and chi2(Q || P) are finite."""

_NUMBER = re.compile(r"[-+]?(?:infinite|(?:\d[\d,]*)(?:\.\d+)?(?:e[-+]?\d+)?)(%?)")


def percent(value: float, digits: int = 1) -> str:
    """Write a fraction as per cent.

    >>> percent(0.1314), percent(math.nan) == DASH
    ('13.1%', True)
    """
    return DASH if math.isnan(value) else f"{100 * value:.{digits}f}%".replace("-", MINUS)


def whole_percent(value: float) -> str:
    """Write a fraction that was asked for as per cent, in all of its digits.

    >>> whole_percent(0.2), whole_percent(0.125), whole_percent(0.07)
    ('20%', '12.5%', '7%')
    """
    return f"{Decimal(repr(float(value))).scaleb(2).normalize():f}%"


def points(value: float) -> str:
    """Write a difference of fractions in signed percentage points.

    >>> points(0.0123), points(-0.0123) == MINUS + "1.2", points(0.0)
    ('+1.2', True, '0.0')
    """
    if math.isnan(value):
        return DASH
    text = f"{100 * value:+.1f}".replace("-", MINUS)
    return "0.0" if text[1:] == "0.0" else text


def magnitude(value: float) -> str:
    """Write a bound, rounded up: per cent below 1, a plain number where it is vacuous.

    >>> magnitude(0.2161), magnitude(1.0), magnitude(31.42), magnitude(3120.4), magnitude(5.6e9)
    ('21.7%', '100%', '31.5', '3,121', '5.6e9')
    """
    if math.isnan(value):
        return DASH
    if math.isinf(value):
        return "infinite"
    exact = _without_noise(value)
    if value == 1:
        return "100%"
    if value < 1:
        return f"{(100 * exact).quantize(Decimal('0.1'), ROUND_CEILING)}%".replace("-", MINUS)
    if value < 100:
        return f"{Context(prec=3, rounding=ROUND_CEILING).plus(exact).normalize():f}"
    if value < 1e6:
        return f"{math.ceil(exact):,}"
    rounded = Context(prec=2, rounding=ROUND_CEILING).plus(exact)
    return f"{rounded:.1e}".replace("e+", "e")


def bound_as_number(value: float) -> str:
    """Write a bound, rounded up, as a plain number where others of its column are vacuous.

    >>> [bound_as_number(value) for value in (0.2161, 1.0, 31.42, 3120.4)]
    ['0.217', '1', '31.5', '3,121']
    """
    if not value < 1:
        return "1" if value == 1 else magnitude(value)
    exact = _without_noise(value)
    return f"{exact.quantize(Decimal('0.001'), ROUND_CEILING)}".replace("-", MINUS)


def _without_noise(value: float) -> Decimal:
    """Return a value whose last digit's rounding noise costs no unit when it is rounded up."""
    return Decimal(repr(round(float(value), 12)))


def chance(delta: float) -> str:
    """Write the probability that an event of failure probability ``delta`` does not happen.

    Six digits of it, or as many as it takes not to read as certainty, up to ten, rounded down.

    >>> chance(0.05), chance(0.001), chance(0.05 / 6), chance(1e-7), chance(1e-13)
    ('95%', '99.9%', '99.1666%', '99.99999%', '99.99999999%')
    """
    surely = min(100 - 100 * _without_noise(delta), Decimal("99.99999999"))
    digits = 10 if f"{surely:.6g}" == "100.000" else 6
    shown = Context(prec=digits, rounding=ROUND_FLOOR).plus(surely)
    return f"{shown.normalize():f}%"


def number(value: float) -> str:
    """Write an input of a bound with four significant digits.

    >>> number(12000.0), number(0.000123456), number(2.5)
    ('12,000', '0.0001235', '2.5')
    """
    if math.isnan(value):
        return DASH
    if math.isinf(value):
        return "infinite"
    if value == int(value) and abs(value) < 1e9:
        return f"{int(value):,}".replace("-", MINUS)
    return f"{value:.4g}".replace("-", MINUS)


def inward(value: float, *, up: bool) -> str:
    """Write an end of the range where a statement holds, three digits, rounded into the range.

    >>> inward(0.20526, up=False), inward(0.31492, up=True)
    ('0.205', '0.315')
    """
    grain = 10.0 ** (math.floor(math.log10(value)) - 2) if value > 0 else 1.0
    steps = math.ceil(value / grain - 1e-9) if up else math.floor(value / grain)
    return f"{steps * grain:.6g}"


def count(n: int, noun: str) -> str:
    """Write a count with its noun.

    >>> count(1, "seed"), count(12, "client")
    ('1 seed', '12 clients')
    """
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def counts(values: Collection[int], noun: str) -> str:
    """Write a count, or the least and the most of several, with its noun.

    >>> counts([12, 10, 10], "client"), counts([2], "class")
    ('10 to 12 clients', '2 classes')
    """
    low, high = int(min(values)), int(max(values))
    text = count(high, noun) if low == high else f"{low:,} to {count(high, noun)}"
    return text.replace("classs", "classes")


def listing(items: Sequence[str], last: str = "and") -> str:
    """Join items as a sentence does.

    >>> listing(["a", "b", "c"])
    'a, b and c'
    """
    return "".join(items) if len(items) < 2 else f"{', '.join(items[:-1])} {last} {items[-1]}"


def shift_name(shift: str, severity: float) -> str:
    """Name a shift with its severity.

    >>> shift_name("rotation", 30.0), shift_name("none", math.nan)
    ('rotation 30', 'unshifted')
    """
    if shift in ("", "none"):
        return "unshifted"
    return shift if math.isnan(severity) else f"{shift} {severity:g}"


def sort_key(text: str) -> str:
    """Give what a cell of numbers sorts by: its first number, per cent as a fraction.

    >>> sort_key("21.7% \N{PLUS-MINUS SIGN} 1.0"), sort_key("3,121"), sort_key("lowest")
    ('0.217', '3121.0', '0')
    >>> sort_key(DASH), sort_key(MINUS + "1.5 [" + MINUS + "5.1, +2.2]"), sort_key("infinite")
    ('', '-1.5', 'Infinity')
    """
    if text == "lowest":
        return "0"
    match = _NUMBER.search(text.replace(MINUS, "-"))
    if match is None:
        return ""
    if "infinite" in match.group():
        return "Infinity"
    value = float(match.group().rstrip("%").replace(",", ""))
    return f"{value / 100:.10g}" if match.group(1) else repr(value)


def rounded(value: float, *, decimals: int = 4, up: bool = False) -> str:
    """Format a number with at least ``decimals`` significant digits, rounded up on request.

    Examples
    --------
    >>> rounded(0.15389), rounded(0.12341, up=True), rounded(2.5e9)
    ('0.1539', '0.1235', '2.500e+9')
    """
    value = float(value)
    if not math.isfinite(value):
        return "infinite" if value > 0 else str(value)
    exact = Decimal(repr(value))
    rounding = ROUND_CEILING if up else ROUND_HALF_EVEN
    if value == 0 or 1e-3 <= abs(value) < 1e6:
        return format(exact.quantize(Decimal(1).scaleb(-decimals), rounding), "f")
    grain = Decimal(1).scaleb(exact.adjusted() - decimals + 1)
    return f"{exact.quantize(grain, rounding):.{decimals - 1}e}"


def exact(value: float) -> str:
    """Write a number in six digits, or in as many as tell it from every other.

    >>> exact(0.1), exact(0.1000000001), exact(2.0)
    ('0.1', '0.1000000001', '2')
    """
    short = f"{value:g}"
    return short if float(short) == value else repr(float(value))


def as_given(value: float) -> str:
    """Write a number that was asked for: with three decimals where these say it all.

    >>> as_given(0.25), as_given(0.1001)
    ('0.250', '0.1001')
    """
    short = rounded(value, decimals=3)
    return short if float(short) == value else exact(value)


def plain(value: Any) -> Any:
    """Turn arrays and tuples into lists, named tuples into dicts, infinities into text."""
    if hasattr(value, "_asdict"):
        return plain(value._asdict())
    if isinstance(value, dict):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def ledger(bound: Certificate) -> str:
    """Say what share of the failure probability each event has."""
    shares = {name: sorted(set(np.ravel(share).tolist())) for name, share in bound.delta.items()}
    return " + ".join(
        f"{' or '.join(f'{share:g}' for share in values)} on the {name.replace('_', ' ')}"
        for name, values in shares.items()
    )


WIDTH = 80


def wrapped(text: str, first: str = "", further: str = "") -> list[str]:
    """Wrap a line at 80 columns; words longer than that stay whole.

    Examples
    --------
    >>> wrapped("a" * 60 + " " + "b" * 30, further="  ")[1] == "  " + "b" * 30
    True
    """
    return textwrap.wrap(
        text,
        WIDTH - 1,
        initial_indent=first,
        subsequent_indent=further,
        break_long_words=False,
        break_on_hyphens=False,
    )
