"""Numbers of certificates as they are printed: upper bounds are rounded up, and stay bounds."""

import math
from decimal import ROUND_CEILING, ROUND_HALF_EVEN, Decimal
from typing import Any

import numpy as np

from latecomer.bounds.certificate import Certificate


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
