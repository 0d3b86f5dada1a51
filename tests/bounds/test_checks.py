"""Input checks: what passes, what is refused, and that the message names argument, range, value."""

import re
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest

from latecomer.bounds import checks

REFUSED: list[tuple[Callable[..., Any], tuple[Any, ...], type[Exception], str]] = [
    (checks.real, ("x", "abc"), TypeError, "x must be a finite number, got x='abc'"),
    (checks.real, ("x", None), TypeError, "got x=None"),
    (checks.real, ("x", True), TypeError, "got x=True"),
    (checks.real, ("x", 1 + 2j), TypeError, "got x="),
    (checks.real, ("x", [1.0, np.nan]), ValueError, "got x[1]=nan"),
    (checks.real, ("x", [[1.0], [np.inf]]), ValueError, "got x[1, 0]=inf"),
    (checks.real, ("x", [[1.0], [1.0, 2.0]]), ValueError, "must be a finite number"),
    (checks.real, ("x", [1, True]), TypeError, "got x=[1, True]"),
    (checks.real, ("x", [[0.5], (np.True_,)]), TypeError, "must be a finite number"),
    (checks.real, ("x", np.array([1, True], dtype=object)), TypeError, "must be a finite number"),
    (checks.real, ("x", np.ma.array([1.0, 2.0], mask=[0, 1])), TypeError, "must be a finite"),
    (checks.real, ("x", 10**400), ValueError, "x must be a finite number, got x=inf"),
    (checks.interval, ("x", 1.5, 0, 1), ValueError, "x must lie in [0, 1], got x=1.5"),
    (checks.interval, ("x", [0.5, -1], 0, 1), ValueError, "got x[1]=-1"),
    (checks.interval, ("x", 1.0000001, 0, 1), ValueError, "got x=1.0000001"),
    (checks.interval, ("x", 3, 0, 1.23456789), ValueError, "in [0, 1.23456789], got x=3"),
    (checks.nonnegative, ("x", -0.1), ValueError, "x must be at least 0, got x=-0.1"),
    (checks.positive, ("x", 0), ValueError, "x must be greater than 0, got x=0"),
    (checks.above, ("x", 1, 1.0), ValueError, "x must be greater than 1, got x=1"),
    (checks.between, ("x", 2, 0, 2), ValueError, "x must lie strictly between 0 and 2, got x=2"),
    (checks.failure_probability, ("d", 0), ValueError, "strictly between 0 and 1, got d=0"),
    (checks.failure_probability, ("d", 1), ValueError, "strictly between 0 and 1, got d=1"),
    (checks.failure_probability, ("d", 5e-324), ValueError, "at least 1e-287, got d=5e-324"),
    (partial(checks.failure_probability, parts=3), ("d", 2e-287), ValueError, "into 3 parts, got"),
    (checks.count, ("n", 1.5), ValueError, "n must be a whole number of at least 1, got n=1.5"),
    (checks.count, ("n", 0), ValueError, "at least 1, got n=0"),
    (checks.count, ("n", -3), ValueError, "at least 1, got n=-3"),
    (checks.count, ("n", 1e300), ValueError, "and at most 4.611686018427388e+18, got n=1e+300"),
    (checks.at_once, ("n", 100_001), ValueError, "at least 1 and at most 100000, got n=100001"),
    (checks.losses_in, ("l", 0.3), ValueError, "got the single number l=0.3"),
    (checks.losses_in, ("l", []), ValueError, "got shape (0,)"),
    (checks.losses_in, ("l", [0.1, 1.2]), ValueError, "[0, 1] along its last axis, got l[1]=1.2"),
    (checks.largest_loss, ("m", [1.0, 2.0]), ValueError, "must be one number greater than 0"),
    (checks.largest_loss, ("m", 0.0), ValueError, "got m=0"),
    (checks.flag, ("f", 1), TypeError, "f must be True or False, got f=1"),
    (checks.one_of, ("v", "b", ("a", "c")), ValueError, "v must be one of a, c, got v='b'"),
    (checks.one_of, ("v", 3, ("a", "c")), ValueError, "got v=3"),
    (
        checks.at_most,
        ("k", np.array([1, 5]), "n", np.array(4)),
        ValueError,
        "k must be at most n, got k=5 and n=4",
    ),
    (checks.sample_variance, ("v", 0.6, np.array(100), 1.0), ValueError, "got v=0.6"),
]


@pytest.mark.parametrize(("check", "arguments", "kind", "message"), REFUSED)
def test_refuses(
    check: Callable[..., Any], arguments: tuple[Any, ...], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=re.escape(message)) as caught:
        check(*arguments)
    assert "\n" not in str(caught.value)


def test_accepts() -> None:
    assert checks.real("x", [1, 2]).dtype == np.float64
    assert checks.interval("x", [0.0, 1.0], 0, 1).tolist() == [0, 1]
    assert checks.count("n", 3.0).dtype == np.int64
    assert checks.count("n", 0, minimum=0) == 0
    assert checks.losses_in("l", [[0.0, 2.0]], loss_max=2.0).shape == (1, 2)
    assert checks.largest_loss("m", np.float32(2)) == 2.0
    assert checks.flag("f", np.True_) is True
    assert checks.one_of("v", "a", ("a", "c")) == "a"
    assert checks.same_length(a=np.zeros((2, 3)), b=np.zeros(3)) == 3


def test_numbers_of_any_kind_are_read_as_what_they_are() -> None:
    mixed = np.array([Fraction(1, 4), Decimal("0.5"), 1, np.float16(2)], dtype=object)
    assert checks.real("x", mixed).tolist() == [0.25, 0.5, 1, 2]
    assert checks.real("x", 10**30) == 1e30
    assert checks.real("x", np.ma.array([1.0, 2.0])).tolist() == [1, 2]
    assert not np.signbit(checks.real("x", [-0.0])).any()


def test_a_tensor_with_a_gradient_is_refused_by_name() -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(TypeError, match=r"x must be a finite number, got x=tensor.*detach"):
        checks.real("x", torch.zeros(2, requires_grad=True))


def test_a_long_value_is_shown_in_part() -> None:
    with pytest.raises(TypeError) as caught:
        checks.real("x", ["a"] * 10_000)
    assert len(str(caught.value)) < 300


def test_largest_possible_sample_variance_passes() -> None:
    losses = np.array([0.0, 1.0] * 3)
    assert checks.sample_variance("v", losses.var(ddof=1), np.array(6), 1.0) == 0.3


def test_lengths_must_agree() -> None:
    with pytest.raises(ValueError, match="a and b must be lists of one same length"):
        checks.same_length(a=np.zeros(2), b=np.zeros(3))
    with pytest.raises(ValueError, match="one same length"):
        checks.same_length(a=np.zeros(()), b=np.zeros(()))
