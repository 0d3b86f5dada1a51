"""Every golden vector (computed at 50 digits) against the public calculators."""

import importlib.util
import json
from inspect import signature
from math import isinf
from pathlib import Path
from typing import Any

import pytest

import latecomer.bounds as bounds

HERE = Path(__file__).parent


def _adapter() -> Any:
    spec = importlib.util.spec_from_file_location("golden_adapter", HERE / "adapter.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


ADAPTER = _adapter()
evaluate = ADAPTER.evaluate
# The second file holds corrections, rules of pools, paths, drift and balls around a population; the
# third rules that survive hopeless clients, and thresholds of sets.
FIRST, SECOND, THIRD = (
    json.loads((HERE / name).read_text())["vectors"]
    for name in ("vectors.json", "vectors2.json", "vectors3.json")
)
VECTORS: list[dict[str, Any]] = [*FIRST, *SECOND, *THIRD]
# Quantities that are no upper bound: these need not be rounded outward.
NOT_CERTIFICATES = {
    "klb",
    "klinv_lo",
    "gauss_kl_equal",
    "gauss_kl_iso",
    "proxy_a",
    "hdiv_from_counts",
    "divergence",
    "nearest",
    "drift_evidence",
}


def check(function: str, got: float, expected: str | float, rtol: float) -> None:
    exact = float(expected)
    if isinf(exact):
        assert got == exact
        return
    assert abs(got - exact) <= rtol * abs(exact) + (1e-300 if exact else 1e-15), (got, exact)
    if function not in NOT_CERTIFICATES:
        assert got >= exact * (1.0 - min(rtol, 1e-9)), "a certificate was rounded inward"


def side(of: Any) -> float:
    return float(evaluate(*of)) if isinstance(of, list) else float(of)


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["id"])
def test_vector(vector: dict[str, Any]) -> None:
    rtol = vector.get("rtol", 0.0)
    try:
        run(vector, rtol)
    except ADAPTER.Missing as missing:
        pytest.fail(f"no calculator for {missing}")


def run(vector: dict[str, Any], rtol: float) -> None:
    function, inputs = vector["bound"], vector.get("inputs", {})
    match vector["kind"]:
        case "raises":
            with pytest.raises(ValueError, match=r"\S"):
                evaluate(function, inputs)
        case "value" if function == "nearest":
            index, value = evaluate(function, inputs)
            assert index == vector["expected"][0]
            check(function, value, vector["expected"][1], rtol)
        case "value" if isinstance(vector["expected"], list):
            values = evaluate(function, inputs)
            for got, expected in zip(values, vector["expected"], strict=True):
                check(function, got, expected, rtol)
        case "value":
            check(function, evaluate(function, inputs), vector["expected"], rtol)
        case "monotone":
            values = [
                evaluate(function, inputs | {vector["vary"]: value}) for value in vector["values"]
            ]
            for got, expected in zip(values, vector["expected"], strict=True):
                check(function, got, expected, rtol)
            ordered = sorted(values, reverse=vector["direction"] == "nonincreasing")
            assert values == ordered
        case "relation":
            left, right = side(vector["lhs"]), side(vector["rhs"])
            for got, expected in zip((left, right), vector["expected"], strict=True):
                assert got == pytest.approx(float(expected), rel=rtol)
            if vector["op"] == "<=":
                assert left <= right * (1.0 + rtol)
            else:
                assert left == pytest.approx(right, rel=rtol)
        case other:
            pytest.fail(f"unknown kind {other}")


def test_all_vectors_are_here() -> None:
    assert (len(FIRST), len(SECOND), len(THIRD)) == (161, 33, 26)
    assert len({vector["id"] for vector in VECTORS}) == len(VECTORS)


@pytest.mark.parametrize("function", sorted(ADAPTER.ROUTES))
def test_every_route_leads_to_a_public_calculator(function: str) -> None:
    route = ADAPTER.ROUTES[function]
    accepted = signature(getattr(bounds, route.function)).parameters
    # Families share one table of names, so that only a route's constants must fit exactly.
    assert set(route.constants) <= set(accepted)


def test_bad_names_are_reported() -> None:
    with pytest.raises(ADAPTER.Missing, match="no_such_bound"):
        evaluate("no_such_bound", {})
    with pytest.raises(ValueError, match="theta_sqs must have 4 entries"):
        evaluate("pefll_32", {"n": 4, "theta_sqs": [1.0]})
