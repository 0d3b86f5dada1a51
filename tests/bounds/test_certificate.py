"""The result type, the catalogue and the package's lazy face."""

import inspect
import subprocess
import sys
from dataclasses import FrozenInstanceError, replace
from typing import Any, get_args

import numpy as np
import pytest

import latecomer.bounds as bounds
from latecomer.bounds.certificate import (
    CATALOGUE,
    Certificate,
    Population,
    Predictor,
    Sampling,
    catalogued,
    certificate,
    rounded_up,
)
from latecomer.bounds.one_data_set import maurer

ENTRIES = sorted(bounds.CATALOGUE.values(), key=lambda entry: entry.name)
# Mathematical functions of one or two plain arguments; everything else is keyword-only.
POSITIONAL = {
    "kl": ["q", "p"],
    "kl_inverse_upper": ["q", "budget"],
    "kl_inverse_lower": ["q", "budget"],
    "xi": ["n"],
}
INPUTS: dict[str, Any] = {
    "empirical_risk": [0.1, 0.9],
    "kl": 2.0,
    "n_samples": 3,
    "delta": 0.05,
}


def test_vacuous_and_clipped_are_elementwise() -> None:
    made = bounds.maurer(**INPUTS)
    assert made.value.shape == (2,)
    assert made.vacuous.tolist() == [True, True]
    assert made.clipped.tolist() == [1.0, 1.0]
    scaled = bounds.maurer(empirical_risk=[0.1, 2.0], kl=0, n_samples=900, delta=0.05, loss_max=2.0)
    assert scaled.vacuous.tolist() == [False, True]
    assert scaled.clipped[1] == 2.0


def test_ledger_adds_up_and_fields_are_frozen() -> None:
    made = bounds.emp_bernstein(empirical_risk=0.1, variance=0.01, n_samples=50, delta=[0.05, 0.1])
    np.testing.assert_allclose(made.delta_total, [0.05, 0.1])
    with pytest.raises(FrozenInstanceError):
        made.value = np.zeros(())  # type: ignore[misc]
    with pytest.raises(TypeError):
        made.terms["empirical_risk"] = 0  # type: ignore[index]
    assert replace(made, sampling="finite-pool").sampling == "finite-pool"


def test_terms_sum_when_no_value_is_given() -> None:
    made = certificate("hoeffding", terms={"a": [0.1, 0.2], "b": 0.3}, delta={"x": 0.1})
    np.testing.assert_allclose(made.value, [0.4, 0.5])
    assert made.population == CATALOGUE["hoeffding"].population
    changed = certificate(
        "hoeffding", terms={"a": 1.0}, delta={}, rigorous=False, reason="an estimate"
    )
    assert not changed.rigorous
    assert float(changed) == 1.0
    assert changed.delta_total == 0.0


def test_rounded_up_moves_out_by_ulps_only() -> None:
    values = np.array([0.0, 0.3, 5e5])
    moved = rounded_up(values)
    assert np.all(moved >= values)
    np.testing.assert_allclose(moved, values, rtol=2e-14)


def test_catalogue_refuses_doubles_and_unexplained_estimates() -> None:
    def hoeffding() -> None:
        """Bear a name that is taken."""

    with pytest.raises(ValueError, match="entered twice"):
        catalogued(family="f", claim="c", source="s")(hoeffding)
    with pytest.raises(ValueError, match="reason"):
        catalogued(family="f", claim="c", source="s", rigorous=False)
    with pytest.raises(ValueError, match="reason"):
        catalogued(family="f", claim="c", source="s", reason="why")


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_entry_is_complete_and_exported(entry: Any) -> None:
    assert getattr(bounds, entry.name) is entry.function
    assert entry.claim.endswith(".")
    assert entry.source
    if entry.kind == "certificate":
        assert entry.population in get_args(Population)
        assert entry.predictor in get_args(Predictor)
        assert entry.sampling in get_args(Sampling)
        assert entry.assumptions
        assert entry.vacuous_when
        assert "Parameters" in entry.function.__doc__
    parameters = inspect.signature(entry.function).parameters.values()
    positional = [p.name for p in parameters if p.kind is not p.KEYWORD_ONLY]
    assert positional == POSITIONAL.get(entry.name, [])


def test_public_names_resolve_and_unknown_ones_do_not() -> None:
    for name in bounds.__all__:
        assert getattr(bounds, name) is not None
    assert dir(bounds) == sorted(bounds.__all__)
    with pytest.raises(AttributeError, match="mauer"):
        _ = bounds.mauer


def run(code: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )


def test_the_whole_catalogue_loads_neither_torch_nor_scipy_stats() -> None:
    done = run(
        "import sys, latecomer.bounds as b; b.CATALOGUE; "
        "print([m for m in ('torch', 'pandas', 'scipy.stats') if m in sys.modules])"
    )
    assert done.stdout.strip() == "[]", done.stderr


def test_certificate_of_a_scalar_is_a_number() -> None:
    made = bounds.hoeffding(empirical_risk=0.1, n_samples=100, delta=0.05)
    assert isinstance(made, Certificate)
    assert made.value.shape == ()
    assert float(made) == pytest.approx(0.2223873415, abs=1e-10)


def test_shapes_that_do_not_fit_are_named() -> None:
    message = r"maurer needs arguments that broadcast, got empirical_risk of shape \(2,\), kl of"
    with pytest.raises(ValueError, match=message):
        maurer(empirical_risk=[0.1, 0.2], kl=[1, 2, 3], n_samples=10, delta=0.05)
