"""Gradients along given directions: torch's own, without what it imports for them."""

import subprocess
import sys

import pytest
import torch

from latecomer.models.task.objectives import pulled_back


def test_slopes_along_directions_are_those_of_torch():
    generator = torch.Generator().manual_seed(0)
    weight, bias, unused = (
        torch.randn(shape, generator=generator).requires_grad_() for shape in ((7, 5), (7,), (3,))
    )
    inputs = torch.randn(11, 5, generator=generator)

    def made():
        hidden = torch.relu(inputs @ weight.mT + bias)
        return [hidden, hidden.square().mean(dim=0)]

    along = [torch.randn(value.shape, generator=generator) for value in made()]
    point = [weight, bias, unused]
    found = pulled_back(made(), along, point)
    expected = torch.autograd.grad(made(), point, along, materialize_grads=True)
    assert all(map(torch.equal, found, expected))
    assert torch.equal(found[2], torch.zeros(3))
    kept = made()
    assert all(map(torch.equal, pulled_back(kept, along, point, again=True), expected))
    with torch.no_grad():
        assert all(map(torch.equal, pulled_back(kept, along, point), expected))


@pytest.mark.slow
def test_slopes_along_directions_import_no_sympy():
    code = (
        "import sys, torch; from latecomer.models.task.objectives import pulled_back;"
        "x = torch.ones(3, requires_grad=True); pulled_back([x * x], [torch.ones(3)], [x]);"
        'assert "sympy" not in sys.modules'
    )
    subprocess.run([sys.executable, "-c", code], check=True)
